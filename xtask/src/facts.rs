//! What the embedded API server holds as data, asked of a real one: which resources there are, and how the fields of
//! their kinds are merged. Written as sorted, tab separated text, so that a new Kubernetes version is a readable diff.
//!
//! Only stable group-versions (`v1`, `v2`) are taken, and only what is built in: a server with custom resources is
//! refused. Whether facts are used rightly is not decided here; each file's head says what its columns mean.

mod discovery;
mod fields;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::http::Client;
use discovery::Resources;
use fields::Fields;

const RESOURCES: &str = "resources.txt";
const FIELDS: &str = "fields.txt";

/// The two files as text, with the counts to print.
#[derive(Debug)]
pub struct Facts {
    resources: String,
    fields: String,
    /// What was counted and how much of it, in the order to print.
    pub counts: Vec<(&'static str, usize)>,
}

// === impl Facts ===

impl Facts {
    /// Asks a server for everything.
    pub fn ask(client: &Client) -> Result<Self> {
        refuse_custom_resources(client)?;
        let version = client.get_json("/version", "application/json")?;
        let version = version["gitVersion"]
            .as_str()
            .context("/version names no gitVersion")?
            .to_owned();
        let resources = Resources::ask(client)?;
        let fields = Fields::ask(client, &resources)?;
        let counts = [resources.counts(), fields.counts()].concat();
        let head = format!("# Kubernetes {version}\n");
        Ok(Self {
            resources: head.clone() + &resources.text(),
            fields: head + &fields.text(),
            counts,
        })
    }

    /// Writes both files where the API server's crate keeps its data, and says which.
    pub fn write(&self) -> Result<Vec<PathBuf>> {
        let dir = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../crates/apiserver/data"
        ));
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = dir
            .canonicalize()
            .with_context(|| format!("cannot find {}", dir.display()))?;
        [(RESOURCES, &self.resources), (FIELDS, &self.fields)]
            .into_iter()
            .map(|(name, text)| {
                let path = dir.join(name);
                fs::write(&path, text)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                Ok(path)
            })
            .collect()
    }
}

fn refuse_custom_resources(client: &Client) -> Result<()> {
    let list = client.get_json(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "application/json",
    )?;
    let names: Vec<&str> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|crd| crd["metadata"]["name"].as_str())
        .collect();
    if !names.is_empty() {
        bail!(
            "this server has custom resources, which would be taken for built-in ones ({}): \
             leave --from away, and a fresh instance is asked",
            names.join(", ")
        );
    }
    Ok(())
}

/// Whether a version promises to stay: `v1` and `v2`, not `v1beta1`.
fn is_stable(version: &str) -> bool {
    version
        .strip_prefix('v')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// What stands in a column: the values separated by commas, or `-` for none.
fn column<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let joined = values.into_iter().collect::<Vec<_>>().join(",");
    if joined.is_empty() {
        "-".to_owned()
    } else {
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_without_a_suffix_are_stable() {
        for version in ["v1", "v2", "v10"] {
            assert!(is_stable(version), "{version}");
        }
        for version in ["v1beta1", "v2alpha3", "v", "1", "", "vx"] {
            assert!(!is_stable(version), "{version}");
        }
    }

    #[test]
    fn an_empty_column_is_a_dash() {
        assert_eq!(column([]), "-");
        assert_eq!(column([""]), "-");
        assert_eq!(column(["a"]), "a");
        assert_eq!(column(["a", "b"]), "a,b");
    }
}
