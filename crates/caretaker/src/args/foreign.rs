//! Flags of the original controller managers that mean nothing here: they are taken out of the command line, so that a
//! manifest written for an original starts, and named in one warning.
//!
//! The list is data, from the originals' own help. Only `caretaker run` stands in for them; everywhere else, and for
//! names that nobody has, an unknown flag stays an error. Flags are read as Go's pflag reads them: a value after `=` or
//! in the next argument, whatever that looks like; a switch only takes one after `=`; `_` is as good as `-`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// The list: name, `value` or `bool`, whose it is.
const FLAGS: &str = include_str!("../../data/foreign-flags.txt");

/// The command that takes the place of an original.
const COMMAND: &str = "run";

/// The flags that are set aside.
#[derive(Debug)]
pub(crate) struct ForeignFlags {
    flags: BTreeMap<&'static str, Flag>,
}

#[derive(Debug, Clone, Copy)]
struct Flag {
    takes_value: bool,
    whose: &'static str,
}

/// A command line without the flags that mean nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sifted {
    pub(crate) kept: Vec<OsString>,
    /// Names, with those who know them.
    set_aside: BTreeSet<(&'static str, &'static str)>,
}

// === impl ForeignFlags ===

impl ForeignFlags {
    pub(crate) fn known() -> Self {
        let lines = FLAGS.lines().filter(|line| !line.starts_with('#'));
        let flags = lines.filter_map(|line| {
            let mut columns = line.split('\t');
            let name = columns.next()?;
            let takes_value = columns.next()? == "value";
            let whose = columns.next()?;
            Some((name, Flag { takes_value, whose }))
        });
        Self {
            flags: flags.collect(),
        }
    }

    /// Takes the flags out of a whole command line, the program's name included.
    ///
    /// # Errors
    /// With a sentence, when the last flag lacks its value.
    pub(crate) fn sift(&self, arguments: Vec<OsString>) -> Result<Sifted, String> {
        let mut sifted = Sifted {
            kept: Vec::with_capacity(arguments.len()),
            set_aside: BTreeSet::new(),
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
                return Err(format!(
                    "a value is required for '--{name}' but none was supplied"
                ));
            }
            sifted.set_aside.insert((flag.whose, name));
        }
        sifted.kept.extend(arguments);
        Ok(sifted)
    }

    /// The flag that an argument is, and whether the argument has its value.
    fn find(&self, argument: &str) -> Option<(&'static str, Flag, bool)> {
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

// === impl Sifted ===

impl Sifted {
    /// One sentence that names what was set aside, if anything was.
    pub(crate) fn warning(&self) -> Option<String> {
        let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (whose, name) in &self.set_aside {
            owners.entry(whose).or_default().push(format!("--{name}"));
        }
        let parts = owners.into_iter().map(|(whose, names)| {
            let owner = match whose {
                "vc" => "vc-controller-manager",
                "kcm" => "kube-controller-manager",
                _ => "both controller managers",
            };
            format!("{} (of {owner})", names.join(", "))
        });
        let parts: Vec<String> = parts.collect();
        let list = parts.join("; ");
        (!parts.is_empty())
            .then(|| format!("these flags mean nothing here and are ignored: {list}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sift(line: &str) -> Result<Sifted, String> {
        let arguments = line.split_whitespace().map(OsString::from);
        ForeignFlags::known().sift(arguments.collect())
    }

    /// `line` becomes `kept`, and these names are set aside.
    fn check(line: &str, kept: &str, aside: &str) {
        let sifted = sift(line).unwrap();
        let kept: Vec<OsString> = kept.split_whitespace().map(OsString::from).collect();
        assert_eq!(sifted.kept, kept, "{line}");
        let mut names: Vec<&str> = sifted.set_aside.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), aside, "{line}");
    }

    #[test]
    fn what_means_nothing_is_taken_out_with_its_value() {
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
    fn everything_else_is_left_to_the_parser() {
        for line in [
            "caretaker run --controllers=* --v=2 -v 3",
            "caretaker run --cluster-nam=a -cluster-name=a",
            "caretaker run cluster-name",
            // After two dashes nothing is a flag, and other commands stand in for nobody.
            "caretaker run -- --cluster-name a",
            "caretaker up --cluster-name=a",
            "caretaker --cluster-name=a run",
            "caretaker",
        ] {
            check(line, line, "");
        }
    }

    #[test]
    fn the_command_line_of_a_usual_manifest_is_understood() {
        let line = "caretaker run --allocate-node-cidrs=true --authentication-kubeconfig=a --authorization-kubeconfig=a \
            --bind-address=127.0.0.1 --client-ca-file=b --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes \
            --cluster-signing-cert-file=b --cluster-signing-key-file=c --controllers=* --kubeconfig=a \
            --leader-elect=true --requestheader-client-ca-file=d --root-ca-file=b --v=2 \
            --service-account-private-key-file=e --service-cluster-ip-range=10.96.0.0/12 --use-service-account-credentials=true";
        let kept = sift(line).unwrap().kept;
        let command = <super::super::Run as clap::Args>::augment_args(clap::Command::new(COMMAND));
        let matches = command.try_get_matches_from(&kept[1..]).unwrap();
        let run = <super::super::Run as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        assert_eq!(run.kubeconfig, Some("a".into()));
        assert_eq!(run.verbosity.level(), 1);
        assert_eq!(run.warnings().len(), 1);
    }

    #[test]
    fn a_value_that_is_not_there_is_an_error() {
        let error = sift("caretaker run --dry-run --cluster-name").unwrap_err();
        assert!(error.contains("--cluster-name"), "{error}");
        assert!(sift("caretaker run --profiling").is_ok());
    }

    #[test]
    fn one_sentence_names_everything_that_was_ignored() {
        let sifted = sift(
            "caretaker run --profiling --cluster-name a --cluster-name b --enable-healthz --tls-cert-file=c",
        );
        let expected = "these flags mean nothing here and are ignored: --cluster-name, --profiling (of kube-controller-manager); \
            --tls-cert-file (of both controller managers); --enable-healthz (of vc-controller-manager)";
        assert_eq!(sifted.unwrap().warning().as_deref(), Some(expected));
        assert_eq!(sift("caretaker run --dry-run").unwrap().warning(), None);
    }

    #[test]
    fn the_list_is_readable_sorted_and_has_none_of_our_own_flags() {
        let lines: Vec<&str> = FLAGS
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert!(lines.len() > 150, "{}", lines.len());
        assert!(lines.is_sorted());
        for line in &lines {
            let columns: Vec<&str> = line.split('\t').collect();
            assert_eq!(columns.len(), 3, "{line}");
            assert!(["value", "bool"].contains(&columns[1]), "{line}");
            assert!(["kcm", "vc", "kcm,vc"].contains(&columns[2]), "{line}");
        }
        assert_eq!(ForeignFlags::known().flags.len(), lines.len());
        let own = <super::super::Run as clap::Args>::augment_args(clap::Command::new(COMMAND));
        for argument in own.get_arguments() {
            let name = argument.get_long().unwrap_or_default();
            assert!(
                !ForeignFlags::known().flags.contains_key(name),
                "--{name} is ours now"
            );
        }
    }
}
