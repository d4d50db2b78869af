//! Flags of kube-controller-manager and vc-controller-manager that have no effect here. They are removed from the
//! command line and named in one warning, so that an existing manifest starts.
//!
//! The list is data from the help texts of both programs. It applies to `caretaker run` only; everywhere else, and for
//! other names, an unknown flag is an error. The syntax is that of Go's pflag: a value follows `=` or is the next
//! argument, whatever it looks like; a boolean takes a value after `=` only; `_` equals `-`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// Columns: name, `value` or `bool`, the programs that have it.
const FLAGS: &str = include_str!("../../data/foreign-flags.txt");

/// The command that replaces a controller manager.
const COMMAND: &str = "run";

/// The list, by name.
#[derive(Debug)]
pub(crate) struct IgnoredFlags {
    flags: BTreeMap<&'static str, IgnoredFlag>,
}

#[derive(Debug, Clone, Copy)]
struct IgnoredFlag {
    takes_value: bool,
    program: &'static str,
}

/// A command line without the ignored flags.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SiftedArgs {
    pub(crate) kept: Vec<OsString>,
    /// Program and name.
    ignored: BTreeSet<(&'static str, &'static str)>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value is required for '--{name}' but none was supplied")]
pub(crate) struct MissingValue {
    name: &'static str,
}

// === impl IgnoredFlags ===

impl IgnoredFlags {
    pub(crate) fn known() -> Self {
        let lines = FLAGS.lines().filter(|line| !line.starts_with('#'));
        let flags = lines.filter_map(|line| {
            let mut columns = line.split('\t');
            let name = columns.next()?;
            let takes_value = columns.next()? == "value";
            let program = columns.next()?;
            let flag = IgnoredFlag {
                takes_value,
                program,
            };
            Some((name, flag))
        });
        Self {
            flags: flags.collect(),
        }
    }

    /// Removes the flags from a command line, which begins with the program's name.
    pub(crate) fn sift(&self, arguments: Vec<OsString>) -> Result<SiftedArgs, MissingValue> {
        let mut sifted = SiftedArgs {
            kept: Vec::with_capacity(arguments.len()),
            ignored: BTreeSet::new(),
        };
        let mut arguments = arguments.into_iter();
        sifted.kept.extend(arguments.next());
        let command = arguments.next();
        let is_ours = command.as_ref().is_none_or(|command| command != COMMAND);
        sifted.kept.extend(command);
        if is_ours {
            sifted.kept.extend(arguments);
            return Ok(sifted);
        }
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                sifted.kept.push(argument);
                break;
            }
            let Some((name, flag, has_value)) = argument.to_str().and_then(|text| self.find(text))
            else {
                sifted.kept.push(argument);
                continue;
            };
            if flag.takes_value && !has_value && arguments.next().is_none() {
                return Err(MissingValue { name });
            }
            sifted.ignored.insert((flag.program, name));
        }
        sifted.kept.extend(arguments);
        Ok(sifted)
    }

    /// The flag of an argument, and whether the argument contains its value.
    fn find(&self, argument: &str) -> Option<(&'static str, IgnoredFlag, bool)> {
        let text = argument.strip_prefix("--")?;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let name = name.replace('_', "-");
        let (name, flag) = self.flags.get_key_value(name.as_str())?;
        Some((name, *flag, value.is_some()))
    }
}

// === impl SiftedArgs ===

impl SiftedArgs {
    /// One sentence that names the ignored flags, if there are any.
    pub(crate) fn warning(&self) -> Option<String> {
        let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (program, name) in &self.ignored {
            owners.entry(program).or_default().push(format!("--{name}"));
        }
        let parts = owners.into_iter().map(|(program, names)| {
            let owner = match program {
                "vc" => "vc-controller-manager",
                "kcm" => "kube-controller-manager",
                _ => "both controller managers",
            };
            format!("{} (of {owner})", names.join(", "))
        });
        let parts: Vec<String> = parts.collect();
        let list = parts.join("; ");
        (!parts.is_empty()).then(|| format!("ignoring flags without effect: {list}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sift(line: &str) -> Result<SiftedArgs, MissingValue> {
        let arguments = line.split_whitespace().map(OsString::from);
        IgnoredFlags::known().sift(arguments.collect())
    }

    /// `line` becomes `kept`, and these names are ignored.
    fn check(line: &str, kept: &str, aside: &str) {
        let sifted = sift(line).unwrap();
        let kept: Vec<OsString> = kept.split_whitespace().map(OsString::from).collect();
        assert_eq!(sifted.kept, kept, "{line}");
        let mut names: Vec<&str> = sifted.ignored.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), aside, "{line}");
    }

    #[test]
    fn ignored_flags_are_removed_with_their_values() {
        let cases = [
            ("", "", ""),
            ("--cluster-name=a --dry-run", "--dry-run", "cluster-name"),
            ("--cluster-name a --dry-run", "--dry-run", "cluster-name"),
            ("--cluster-name --dry-run", "", "cluster-name"),
            ("--cluster-name=", "", "cluster-name"),
            ("--profiling --dry-run", "--dry-run", "profiling"),
            ("--profiling=false x", "x", "profiling"),
            ("--profiling --profiling=false", "", "profiling"),
            ("--log_dir a --logtostderr", "", "log-dir logtostderr"),
            (
                "--worker-threads=3 --root-ca-file b",
                "",
                "root-ca-file worker-threads",
            ),
            ("--profiling -- --profiling", "-- --profiling", "profiling"),
        ];
        for (flags, kept, aside) in cases {
            let line = format!("caretaker run {flags}");
            check(&line, &format!("caretaker run {kept}"), aside);
        }
    }

    #[test]
    fn other_arguments_are_kept() {
        for line in [
            "caretaker run --controllers=* --v=2 -v 3",
            "caretaker run --cluster-nam=a -cluster-name=a",
            "caretaker run cluster-name",
            // No flags follow two dashes, and other commands ignore no flags.
            "caretaker run -- --cluster-name a",
            "caretaker up --cluster-name=a",
            "caretaker --cluster-name=a run",
            "caretaker",
        ] {
            check(line, line, "");
        }
    }

    #[test]
    fn the_command_line_of_kubeadm_parses() {
        let line = "caretaker run --allocate-node-cidrs=true --authentication-kubeconfig=a --authorization-kubeconfig=a \
            --bind-address=127.0.0.1 --client-ca-file=b --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes \
            --cluster-signing-cert-file=b --cluster-signing-key-file=c --controllers=* --kubeconfig=a \
            --leader-elect=true --requestheader-client-ca-file=d --root-ca-file=b --v=2 \
            --service-account-private-key-file=e --service-cluster-ip-range=10.96.0.0/12 --use-service-account-credentials=true";
        let kept = sift(line).unwrap().kept;
        let command =
            <super::super::RunFlags as clap::Args>::augment_args(clap::Command::new(COMMAND));
        let matches = command.try_get_matches_from(&kept[1..]).unwrap();
        let run =
            <super::super::RunFlags as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        assert_eq!(run.kubeconfig, Some("a".into()));
        assert_eq!(run.verbosity.level(), 1);
        assert!(run.leader.leader_elect);
        assert_eq!(run.warnings(), Vec::<String>::new());
    }

    #[test]
    fn a_missing_value_is_an_error() {
        let error = sift("caretaker run --dry-run --cluster-name").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("--cluster-name"), "{error}");
        assert!(sift("caretaker run --profiling").is_ok());
    }

    #[test]
    fn one_warning_names_all_ignored_flags() {
        let sifted = sift(
            "caretaker run --profiling --cluster-name a --cluster-name b --enable-healthz --tls-cert-file=c",
        );
        let expected = "ignoring flags without effect: --cluster-name, --profiling (of kube-controller-manager); \
            --tls-cert-file (of both controller managers); --enable-healthz (of vc-controller-manager)";
        assert_eq!(sifted.unwrap().warning().as_deref(), Some(expected));
        assert_eq!(sift("caretaker run --dry-run").unwrap().warning(), None);
    }

    #[test]
    fn the_list_is_sorted_and_has_none_of_our_flags() {
        let lines: Vec<&str> = FLAGS
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert!(lines.len() > 140, "{}", lines.len());
        assert!(lines.is_sorted());
        for line in &lines {
            let columns: Vec<&str> = line.split('\t').collect();
            assert_eq!(columns.len(), 3, "{line}");
            assert!(["value", "bool"].contains(&columns[1]), "{line}");
            assert!(["kcm", "vc", "kcm,vc"].contains(&columns[2]), "{line}");
        }
        assert_eq!(IgnoredFlags::known().flags.len(), lines.len());
        let own = <super::super::RunFlags as clap::Args>::augment_args(clap::Command::new(COMMAND));
        for argument in own.get_arguments() {
            let name = argument.get_long().unwrap_or_default();
            assert!(
                !IgnoredFlags::known().flags.contains_key(name),
                "--{name} is ours now"
            );
        }
    }
}
