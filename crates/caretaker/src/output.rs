//! Text for stdout and stderr.
//!
//! - [`summary`]: lines on stderr about the writes of the controllers, with the verbs of [`action`].
//! - [`tree`]: the ownership graph as a tree.
//! - [`explained`]: the decision of each controller about one object.

pub(crate) mod action;
pub(crate) mod explained;
pub(crate) mod summary;
pub(crate) mod tree;

/// `1 Pod`, `2 Pods`, `3 Ingresses`, `4 NetworkPolicies`; `Endpoints` is a plural already.
pub(crate) fn counted(count: usize, kind: &str) -> String {
    let plural = match kind {
        _ if count == 1 || kind.ends_with("points") => kind.to_owned(),
        _ if kind.ends_with('s') || kind.ends_with('x') || kind.ends_with("ch") => {
            format!("{kind}es")
        }
        _ => match kind.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
            _ => format!("{kind}s"),
        },
    };
    format!("{count} {plural}")
}

/// Replaces control characters: names in references are user input.
fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control(), "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_in_english() {
        let table = [
            (1, "Pod", "1 Pod"),
            (0, "Pod", "0 Pods"),
            (2, "Ingress", "2 Ingresses"),
            (2, "NetworkPolicy", "2 NetworkPolicies"),
            (2, "Gateway", "2 Gateways"),
            (2, "Endpoints", "2 Endpoints"),
            (2, "IPAddress", "2 IPAddresses"),
        ];
        for (count, kind, expected) in table {
            assert_eq!(counted(count, kind), expected);
        }
    }
}
