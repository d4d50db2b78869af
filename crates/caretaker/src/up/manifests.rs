//! Manifests of `-f` and `--crds`: files of YAML or JSON as a list of objects, in the order in which they are created.
//!
//! A file holds documents: YAML documents between lines of `---`, or JSON values one after the other. A document is an
//! object or a list of objects. Empty documents are skipped. Objects keep the file and the number of their document for
//! messages. As in kubectl, a directory stands for its files with a known ending, without those of its subdirectories.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Map, Value};

/// Endings of manifests in a directory.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

/// Largest file: more than any bundle of definitions has.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Lists may contain lists, up to this depth.
const LIST_DEPTH_MAX: usize = 4;

/// The name of stdin.
const STDIN: &str = "-";

const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// An object of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ManifestObject {
    /// `shop.yaml, document 2`.
    pub(crate) origin: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// Empty if the manifest names none.
    pub(crate) namespace: String,
    /// The name, or the beginning of a generated one.
    pub(crate) name: String,
    pub(crate) object: Map<String, Value>,
}

/// Reads the files and directories of `--crds` and `-f`, and sorts their objects: definitions, Namespaces, the others.
pub(crate) fn read(definitions: &[PathBuf], files: &[PathBuf]) -> Result<Vec<ManifestObject>> {
    let is_stdin = |path: &&PathBuf| path.as_os_str() == STDIN;
    if definitions.iter().chain(files).filter(is_stdin).count() > 1 {
        bail!("stdin can be read once: give \"-\" once");
    }
    let mut objects = Vec::new();
    for path in definitions {
        let read = read_source(path)?;
        if let Some(other) = read.iter().find(|object| !object.is_definition()) {
            bail!("{other} is no CustomResourceDefinition: give its file with -f");
        }
        objects.extend(read);
    }
    for path in files {
        objects.extend(read_source(path)?);
    }
    objects.sort_by_key(ManifestObject::rank);
    Ok(objects)
}

/// The objects of a file, of a directory, or of stdin.
fn read_source(path: &Path) -> Result<Vec<ManifestObject>> {
    if path.as_os_str() == STDIN {
        return parse("stdin", &read_text(io::stdin().lock(), "stdin")?);
    }
    let name = path.display();
    if is_url(path) {
        bail!(
            "{name} is a URL, and only files, directories and - (stdin) are read: curl -sL {name} | caretaker up -f -"
        );
    }
    let mut objects = Vec::new();
    for file in files_of(path)? {
        let name = file.display().to_string();
        let opened =
            fs::File::open(&file).map_err(|error| anyhow!("cannot read {name}: {error}"))?;
        objects.extend(parse(&name, &read_text(opened, &name)?)?);
    }
    Ok(objects)
}

/// The file itself, or the manifests in the directory by name.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let name = path.display();
    let found = fs::metadata(path).map_err(|error| anyhow!("cannot read {name}: {error}"))?;
    if !found.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| anyhow!("cannot read {name}: {error}"))?;
    let is_manifest = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending)) && path.is_file()
    };
    let mut files: Vec<PathBuf> = entries
        .iter()
        .map(fs::DirEntry::path)
        .filter(is_manifest)
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("the directory {name} has no files that end in .json, .yaml or .yml");
    }
    Ok(files)
}

fn is_url(path: &Path) -> bool {
    let text = path.to_str().unwrap_or_default();
    text.starts_with("http://") || text.starts_with("https://")
}

fn read_text(file: impl Read, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| anyhow!("cannot read {name}: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        bail!("{name} is larger than {} MiB", FILE_BYTES_MAX >> 20);
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("{name} is not UTF-8 text"))
}

/// The objects of a text.
fn parse(file: &str, text: &str) -> Result<Vec<ManifestObject>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut objects = Vec::new();
    for (number, document) in documents(file, text)? {
        flatten(
            &format!("{file}, document {number}"),
            document,
            LIST_DEPTH_MAX,
            &mut objects,
        )?;
    }
    Ok(objects)
}

/// The documents of a text with their numbers, without empty ones.
fn documents(file: &str, text: &str) -> Result<Vec<(usize, Value)>> {
    let is_json = text.trim_start().starts_with('{');
    // JSON with tabs is no YAML; JSON documents between `---` are no JSON.
    let json = is_json.then(|| json_documents(file, text));
    if let Some(Ok(documents)) = json {
        return Ok(documents);
    }
    let yaml = yaml_documents(file, text);
    match (json, yaml) {
        (Some(json), Err(_)) => json,
        (_, yaml) => yaml,
    }
}

fn json_documents(file: &str, text: &str) -> Result<Vec<(usize, Value)>> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    let numbered = values.enumerate().map(|(index, value)| {
        let number = index + 1;
        let value = value.map_err(|error| anyhow!("{file}, document {number}: {error}"))?;
        Ok((number, value))
    });
    numbered.collect()
}

fn yaml_documents(file: &str, text: &str) -> Result<Vec<(usize, Value)>> {
    let mut found = Vec::new();
    for (index, (line, document)) in split(text).into_iter().enumerate() {
        if !has_content(&document) {
            continue;
        }
        let number = index + 1;
        let value: Value = serde_saphyr::from_str(&document)
            .map_err(|error| anyhow!("{file}, document {number}: {}", located(&error, line)))?;
        if !value.is_null() {
            found.push((number, value));
        }
    }
    Ok(found)
}

/// The YAML documents of a text, with the number of lines before each. A line that begins with `---` begins a document;
/// YAML allows it nowhere else at the beginning of a line.
fn split(text: &str) -> Vec<(usize, String)> {
    let mut documents = Vec::new();
    let mut current = (0, String::new());
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---");
        let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        let Some(rest) = rest else {
            current.1.push_str(line);
            continue;
        };
        let before = std::mem::replace(&mut current, (number, format!("   {rest}")));
        // The separator of the first document ends nothing.
        if !documents.is_empty() || has_content(&before.1) {
            documents.push(before);
        }
    }
    documents.push(current);
    documents
}

/// Whether a document has more than comments and directives.
fn has_content(document: &str) -> bool {
    let mut lines = document.lines();
    lines.any(|line| {
        !line.trim().is_empty() && !line.trim_start().starts_with('#') && !line.starts_with('%')
    })
}

/// The message of the parser with the line in the file.
fn located(error: &serde_saphyr::Error, lines_before: usize) -> String {
    error.render_with_options(serde_saphyr::render_options! {
        snippets: serde_saphyr::SnippetMode::Off,
        line_offset: lines_before as u64,
    })
}

/// Adds the object of a document, or the objects of its list.
fn flatten(
    origin: &str,
    document: Value,
    depth: usize,
    objects: &mut Vec<ManifestObject>,
) -> Result<()> {
    let Value::Object(mut object) = document else {
        bail!("{origin} is no object: expected a mapping with apiVersion and kind");
    };
    let text = |object: &Map<String, Value>, field: &str| {
        let value = object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default();
        value.to_owned()
    };
    let (api_version, kind) = (text(&object, "apiVersion"), text(&object, "kind"));
    for (field, value) in [("apiVersion", &api_version), ("kind", &kind)] {
        if value.is_empty() {
            bail!("{origin} has no {field}");
        }
    }
    let is_list = kind.ends_with("List") && object.get("items").is_some_and(Value::is_array);
    if is_list && let Some(Value::Array(items)) = object.remove("items") {
        let depth = depth.checked_sub(1);
        let depth = depth.with_context(|| format!("{origin}: too many lists in lists"))?;
        for (index, item) in items.into_iter().enumerate() {
            let item = typed(item, &api_version, &kind);
            flatten(
                &format!("{origin}, item {}", index + 1),
                item,
                depth,
                objects,
            )?;
        }
        return Ok(());
    }
    let empty = Map::new();
    let metadata = object
        .get("metadata")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let mut name = text(metadata, "name");
    if name.is_empty() {
        name = text(metadata, "generateName");
    }
    objects.push(ManifestObject {
        origin: origin.to_owned(),
        namespace: text(metadata, "namespace"),
        name,
        api_version,
        kind,
        object,
    });
    Ok(())
}

/// An item of a `ConfigMapList` may leave out that it is a ConfigMap.
fn typed(mut item: Value, api_version: &str, list: &str) -> Value {
    let kind = list.strip_suffix("List").filter(|kind| !kind.is_empty());
    if let (Value::Object(item), Some(kind)) = (&mut item, kind) {
        item.entry("apiVersion")
            .or_insert_with(|| api_version.into());
        item.entry("kind").or_insert_with(|| kind.into());
    }
    item
}

// === impl ManifestObject ===

impl ManifestObject {
    /// The API group; empty for the core group.
    fn group(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    pub(crate) fn is_definition(&self) -> bool {
        (self.group(), self.kind.as_str()) == DEFINITION
    }

    fn is_namespace(&self) -> bool {
        (self.group(), self.kind.as_str()) == ("", "Namespace")
    }

    /// Objects of a kind need its definition, and objects in a namespace need the Namespace.
    fn rank(&self) -> u8 {
        match self {
            definition if definition.is_definition() => 0,
            namespace if namespace.is_namespace() => 1,
            _ => 2,
        }
    }
}

/// `shop.yaml, document 2: Deployment shop/web`.
impl std::fmt::Display for ManifestObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.origin, self.kind)?;
        match (self.namespace.as_str(), self.name.as_str()) {
            (_, "") => write!(f, " without a name"),
            ("", name) => write!(f, " {name}"),
            (namespace, name) => write!(f, " {namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests;
