//! The data files of the embedded API server, read from a real one: its resources, the schemas
//! of their kinds, the types of their fields, and the objects that it creates at its start. They are sorted, tab separated text, so that a new Kubernetes version is a
//! readable diff.
//!
//! Only stable group-versions (`v1`, `v2`) of built-in resources are taken; a server with custom resources is refused.
//! The head of each file explains its columns.

mod bootstrap;
mod discovery;

mod schemas;
mod types;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cargo::workspace;
use crate::http::HttpClient;
use bootstrap::BootstrapFacts;
use discovery::ResourceFacts;
use schemas::SchemaFacts;
use types::TypeFacts;

const RESOURCES: &str = "resources.txt";
const SCHEMAS: &str = "schemas.txt";
const TYPES: &str = "types.txt";
const BOOTSTRAP: &str = "bootstrap.txt";
/// The text of an empty column.
const NOTHING: &str = "-";

/// The files as text, with the counts to print.
#[derive(Debug)]
pub struct ServerFacts {
    resources: String,
    schemas: String,
    types: String,
    bootstrap: String,
    /// Names and numbers, in the order to print.
    pub counts: Vec<(&'static str, usize)>,
}

// === impl ServerFacts ===

impl ServerFacts {
    /// Asks a server for everything.
    pub fn ask(client: &HttpClient) -> Result<Self> {
        refuse_custom_resources(client)?;
        let version = client.get_json("/version", "application/json")?;
        let version = version["gitVersion"]
            .as_str()
            .context("/version names no gitVersion")?
            .to_owned();
        let resources = ResourceFacts::ask(client)?;
        let schemas = SchemaFacts::ask(client, &resources)?;
        let types = TypeFacts::ask(&resources.kinds())?;
        let bootstrap = BootstrapFacts::ask(client)?;
        let counts = [
            resources.counts(),
            schemas.counts(),
            types.counts(),
            bootstrap.counts(),
        ];
        let head = format!("# Kubernetes {version}\n");
        Ok(Self {
            resources: head.clone() + &resources.text(),
            schemas: head.clone() + &schemas.text(),
            types: head.clone() + &types.text(),
            bootstrap: head + &bootstrap.text(),
            counts: counts.concat(),
        })
    }

    /// Writes the files into the data directory of the API server's crate and returns their paths.
    pub fn write(&self) -> Result<Vec<PathBuf>> {
        let dir = workspace().join("crates/apiserver/data");
        let dir = dir
            .canonicalize()
            .with_context(|| format!("cannot find {}", dir.display()))?;
        let files = [
            (RESOURCES, &self.resources),
            (SCHEMAS, &self.schemas),
            (TYPES, &self.types),
            (BOOTSTRAP, &self.bootstrap),
        ];
        files
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

fn refuse_custom_resources(client: &HttpClient) -> Result<()> {
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

/// Returns whether a version is stable: `v1` and `v2` are, `v1beta1` is not.
fn is_stable(version: &str) -> bool {
    version
        .strip_prefix('v')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// The text of a column: the values separated by commas, or `-` for none.
fn column<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let joined = values.into_iter().collect::<Vec<_>>().join(",");
    if joined.is_empty() {
        NOTHING.to_owned()
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
