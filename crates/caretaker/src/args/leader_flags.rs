//! The flags of leader election, with upstream's names and values; only the name of the Lease is our own.

use std::time::Duration;

use caretaker_controllers::runtime::lease::{LeaseElection, LeaseName, LeaseTimes};
use caretaker_machinery::rng::Rng;
use clap::Args;

use super::values::{InvalidValue, duration, switch};

#[derive(Debug, Args)]
pub(crate) struct LeaderFlags {
    /// Write only while this process holds the Lease, so that several replicas can run
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", value_name = "BOOL", value_parser = switch)]
    pub(crate) leader_elect: bool,

    /// Time that a standby waits for a leader that does not renew the Lease
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    leader_elect_lease_duration: Duration,

    /// Time after which a leader that cannot renew the Lease stops to write
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,

    /// Time between two attempts to take or renew the Lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    leader_elect_retry_period: Duration,

    /// Kind of the lock; only leases
    #[arg(long, value_name = "KIND", default_value = "leases", hide_default_value = true, value_parser = lock)]
    leader_elect_resource_lock: String,

    /// Name of the Lease
    #[arg(long, value_name = "NAME", default_value = "caretaker", value_parser = object_name)]
    leader_elect_resource_name: String,

    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", value_parser = object_name)]
    leader_elect_resource_namespace: String,
}

fn lock(text: &str) -> Result<String, InvalidValue> {
    match text {
        "leases" => Ok(text.to_owned()),
        _ => Err(InvalidValue(
            "leases: other kinds of locks are not supported",
        )),
    }
}

/// A name that can stand in a path.
fn object_name(text: &str) -> Result<String, InvalidValue> {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = text
        .split(['-', '.'])
        .all(|part| !part.is_empty() && part.bytes().all(is_part));
    match is_name {
        true => Ok(text.to_owned()),
        false => Err(InvalidValue("a name like kube-system")),
    }
}

// === impl LeaderFlags ===

impl LeaderFlags {
    /// This replica in the election; `None` if there is no election.
    ///
    /// # Errors
    /// The times contradict each other. The error is a sentence.
    pub(crate) fn election(
        &self,
        host: &str,
        mut rng: Rng,
    ) -> Result<Option<LeaseElection>, &'static str> {
        if !self.leader_elect {
            return Ok(None);
        }
        let times = LeaseTimes {
            lease: self.leader_elect_lease_duration,
            renew: self.leader_elect_renew_deadline,
            retry: self.leader_elect_retry_period,
        };
        if let Some(contradiction) = times.contradiction() {
            return Err(contradiction);
        }
        let name = LeaseName {
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self.leader_elect_resource_name.clone(),
            identity: format!("{host}_{}", rng.uuid()),
        };
        Ok(Some(LeaseElection::new(name, times, rng)))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Wrapped {
        #[command(flatten)]
        leader: LeaderFlags,
    }

    fn election(flags: &[&str]) -> Result<bool, String> {
        let arguments = [&["caretaker"], flags].concat();
        let wrapped = Wrapped::try_parse_from(arguments).map_err(|error| error.to_string())?;
        let election = wrapped.leader.election("host", Rng::seeded(1));
        Ok(election?.is_some())
    }

    #[test]
    fn leader_election_is_on_unless_it_is_switched_off() {
        for (flags, is_on) in [
            (&[][..], true),
            (&["--leader-elect"], true),
            (&["--leader-elect=false"], false),
            // Times are not looked at then.
            (
                &["--leader-elect=false", "--leader-elect-lease-duration=1s"],
                false,
            ),
            (
                &[
                    "--leader-elect-lease-duration=60s",
                    "--leader-elect-renew-deadline=40s",
                ],
                true,
            ),
        ] {
            assert_eq!(election(flags), Ok(is_on), "{flags:?}");
        }
    }

    #[test]
    fn values_that_cannot_work_are_refused() {
        for (flag, expected) in [
            (
                "--leader-elect-lease-duration=10s",
                "longer than the renew deadline",
            ),
            (
                "--leader-elect-retry-period=9s",
                "longer than 1.2 times the retry period",
            ),
            ("--leader-elect-retry-period=0", "above zero"),
            ("--leader-elect-resource-lock=configmaps", "leases"),
            ("--leader-elect-resource-namespace=a/b", "a name like"),
            ("--leader-elect-resource-name=", "a name like"),
        ] {
            let error = election(&[flag]).unwrap_err();
            assert!(error.contains(expected), "{flag}: {error}");
        }
    }
}
