//! Causes that only one of the two servers gives, and that have a reason to differ.

use anyhow::Context as _;

const ALLOWED: &str = include_str!("../../data/validation/allowed.txt");

/// The rows of `allowed.txt`.
#[derive(Debug)]
pub struct AllowedCauses {
    rows: Vec<AllowedCause>,
}

#[derive(Debug)]
struct AllowedCause {
    /// A part of the kind; empty for all.
    kind: &'static str,
    /// A part of the cause.
    text: &'static str,
}

// === impl AllowedCauses ===

impl AllowedCauses {
    /// Reads the rows of the house.
    ///
    /// # Errors
    /// If a line has no kind, no text or no reason.
    pub fn read() -> anyhow::Result<Self> {
        Self::parse(ALLOWED)
    }

    fn parse(text: &'static str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.map(|line| {
            let mut columns = line.split('\t');
            let row = (columns.next(), columns.next(), columns.next());
            match row {
                (Some(kind), Some(text), Some(why)) if !text.is_empty() && !why.is_empty() => {
                    let kind = if kind == "*" { "" } else { kind };
                    Ok(AllowedCause { kind, text })
                }
                _ => Err(line),
            }
        });
        let rows: Result<_, _> = rows.collect();
        let rows = rows.map_err(anyhow::Error::msg).context("no row")?;
        Ok(Self { rows })
    }

    /// Reports whether each of these causes of a kind may be given by one server only.
    pub fn cover(&self, kind: &str, differences: &[&str]) -> bool {
        let is_covered = |cause: &&str| {
            let mut rows = self.rows.iter();
            rows.any(|row| kind.contains(row.kind) && cause.contains(row.text))
        };
        // The reason differs where one side has no cause left.
        let mut causes = differences.iter().filter(|cause| **cause != "Invalid");
        causes.clone().next().is_some() && causes.all(is_covered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_covers_its_kind_and_text() {
        let allowed = AllowedCauses::parse("# kind\nPod\tspec.a\twhy\n*\todd\twhy").unwrap();
        assert!(allowed.cover("v1 Pod", &["Invalid", "spec.a: x"]));
        assert!(allowed.cover("v1 Service", &["an odd one"]));
        assert!(!allowed.cover("v1 Service", &["spec.a: x"]));
        assert!(!allowed.cover("v1 Pod", &["spec.a: x", "spec.b: x"]));
        assert!(!allowed.cover("v1 Pod", &["Invalid"]));
        assert!(AllowedCauses::parse("Pod\tspec.a").is_err());
        assert!(AllowedCauses::read().is_ok());
    }
}
