//! Decodes a body, or a patched object, into an object of the kind that the path names.
//!
//! Upstream decodes into Go types. This module has the same visible effects: apiVersion and kind must match, metadata gets
//! its shape, null members count as absent.

use std::sync::Arc;

use caretaker_machinery::proto::ProtoError;
use caretaker_machinery::status::{NamedResource, Status, StatusCause, quoted};
use serde_json::Value;

use super::ResourceRequest;
use super::update::PatchBody;
use crate::body::strict::{self, PatchReport, UnknownSource};
use crate::body::{self, BodyError, FieldError, ParsedBody};
use crate::kinds::{KindTable, ServedKind, split_group};
use crate::metadata::{self, ObjectTree, shape};
use crate::strategy::{convert, defaults};
use crate::types;

/// An object in its stored form, and warnings about its unknown members.
#[derive(Clone)]
pub(super) struct DecodedBody {
    pub(super) tree: ObjectTree,
    pub(super) warnings: Vec<String>,
}

/// The JSON that an object came from: the body of a create or update, or a patch.
struct SourceText<'a> {
    /// None for other formats.
    text: Option<&'a [u8]>,
    /// An object in it has a key twice.
    is_repeated: bool,
    unknown: UnknownSource,
    /// Repeated keys of a body in YAML, each with its line.
    yaml_lines: Vec<String>,
    /// Repeated keys of a JSON patch.
    patch: Option<&'a PatchReport>,
}

// === impl SourceText ===

impl SourceText<'_> {
    /// Returns the unknown fields of an object and those that its text repeats.
    fn report(&self, unknown: &[String]) -> Vec<String> {
        let mut found = self.yaml_lines.clone();
        match self.text {
            Some(text) if self.is_repeated || !unknown.is_empty() => {
                found.extend(strict::report(text, unknown, self.unknown));
            }
            _ => {
                if let Some(PatchReport { patch, object }) = self.patch {
                    let known = object.iter().filter(|path| !is_within(path, unknown));
                    found.extend(patch.iter().cloned());
                    found.extend(known.map(|path| format!("duplicate field {path:?}")));
                }
                found.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
            }
        }
        found
    }

    /// Returns the error of strict decoding for what was found. Upstream joins the lines of YAML in their parser's way.
    fn error(&self, found: &[String]) -> FieldError {
        let (lines, rest) = found.split_at(self.yaml_lines.len());
        let lines = match lines {
            [] => None,
            lines => Some(format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))),
        };
        let all: Vec<String> = lines.into_iter().chain(rest.iter().cloned()).collect();
        FieldError::Unknown(all.join(", "))
    }
}

/// Reports whether a path leads into a field that is unknown.
fn is_within(path: &str, unknown: &[String]) -> bool {
    let mut starts = unknown
        .iter()
        .filter_map(|field| path.strip_prefix(field.as_str()));
    starts.any(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Decodes the body of a create or update.
pub(super) fn decode_body(
    kinds: &KindTable,
    request: &ResourceRequest,
) -> Result<DecodedBody, Status> {
    let kind = &request.kind;
    let cannot_be_handled = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {error}",
            kind.kind, kind.version, kind.kind
        ))
    };
    let of = types::served(kind);
    let ParsedBody {
        value,
        is_repeated,
        yaml_lines,
    } = match body::parse(&request.content_type, &request.body, of) {
        Ok(parsed) => parsed,
        Err(BodyError::Message { names, error }) if error != ProtoError::TooManyValues => {
            check_builtin(kinds, kind, &names)?;
            return Err(cannot_be_handled(&error));
        }
        Err(error) => return Err(error.to_status(&kind.kind)),
    };
    let tree = body::object(value, &kind.kind)?;
    if kind.custom.is_none() {
        check_builtin(kinds, kind, &tree)?;
    } else {
        check_custom(request, &tree)?;
    }
    let is_json = ["", "application/json"].contains(&body::media_type(&request.content_type));
    let source = SourceText {
        text: is_json.then_some(&request.body),
        is_repeated,
        unknown: match kind.custom {
            None => UnknownSource::Types,
            Some(_) => UnknownSource::Schema,
        },
        yaml_lines,
        patch: None,
    };
    decode_tree(request, tree, &source).map_err(|error| cannot_be_handled(&error))
}

/// Decodes an object after a patch.
pub(super) fn decode_patched(
    request: &ResourceRequest,
    patched: &Value,
    patch: &PatchBody,
) -> Result<DecodedBody, Status> {
    let kind = &request.kind;
    let Value::Object(tree) = patched else {
        return Err(invalid_patch(patched, "a JSON object was expected"));
    };
    let own = kind.api_version();
    let given = |field: &str, default| tree.get(field).and_then(Value::as_str).unwrap_or(default);
    let api_version = given("apiVersion", own.as_str());
    let given_kind = given("kind", kind.kind.as_str());
    if kind.custom.is_some() {
        check_version(&own, api_version)?;
        check_custom_kind(kind, given_kind, tree)?;
    } else if api_version != own || given_kind != kind.kind {
        let why = unregistered(given_kind, api_version);
        return Err(invalid_patch(patched, &why));
    }
    let source = SourceText {
        text: patch.is_repeated.then_some(&request.body),
        is_repeated: patch.is_repeated,
        unknown: UnknownSource::Schema,
        yaml_lines: Vec::new(),
        patch: Some(&patch.report),
    };
    let decoded = decode_tree(request, tree.clone(), &source);
    decoded.map_err(|error| invalid_patch(patched, &error.to_string()))
}

/// Checks that the namespace in the object is that of the path, and sets it if it is absent.
pub(super) fn set_namespace(
    request: &ResourceRequest,
    tree: &mut ObjectTree,
) -> Result<(), Status> {
    if !request.kind.namespaced {
        metadata::of(tree).remove("namespace");
        return Ok(());
    }
    let given = metadata::text(tree, "namespace");
    let expected = request.namespace.as_deref().unwrap_or_default();
    if !given.is_empty() && given != expected {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata::of(tree).insert("namespace".into(), expected.into());
    Ok(())
}

/// Brings a tree into its stored form.
/// DEVIATION(field-validation): keys that are repeated in an item that a JSON patch appends are reported of the patch only.
fn decode_tree(
    request: &ResourceRequest,
    mut tree: ObjectTree,
    source: &SourceText<'_>,
) -> Result<DecodedBody, FieldError> {
    let kind = &request.kind;
    tree.remove("apiVersion");
    tree.remove("kind");
    kind.strategy.normalize(kind, &mut tree);
    let mut tree = convert::to_stored(kind, tree);
    let mut unknown = defaults::read(kind, &mut tree)?;
    let dropped = shape::shape(&mut tree, &kind.kind);
    if kind.custom.is_some() {
        // Upstream decodes the metadata of custom kinds by itself.
        let dropped = dropped.map_err(FieldError::outside_object)?;
        unknown.extend(dropped.iter().map(|field| format!("metadata.{field}")));
    } else {
        dropped?;
    }
    unknown.extend(kind.strategy.read(kind, &mut tree)?);
    let warnings = match request.query.get("fieldValidation") {
        Some("Ignore") => Vec::new(),
        _ => source.report(&unknown),
    };
    if request.query.get("fieldValidation") == Some("Strict") && !warnings.is_empty() {
        return Err(source.error(&warnings));
    }
    defaults::fill(kind, &mut tree);
    Ok(DecodedBody { tree, warnings })
}

fn check_builtin(kinds: &KindTable, kind: &ServedKind, tree: &ObjectTree) -> Result<(), Status> {
    let given = |field: &str| {
        let text = tree.get(field).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let own = kind.api_version();
    let api_version = given("apiVersion").unwrap_or(&own);
    let given_kind = given("kind").unwrap_or(&kind.kind);
    if api_version == own && given_kind == kind.kind {
        return Ok(());
    }
    if split_group(api_version).1.contains('/') {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): unexpected GroupVersion string: {api_version}",
            kind.kind
        )));
    }
    let (group, version) = split_group(api_version);
    let is_other_version = (group, given_kind) == (&kind.group, &kind.kind);
    if is_other_version && version != kind.version && is_early(version) {
        return check_version(&own, api_version);
    }
    let is_given =
        |row: &Arc<ServedKind>| row.kind == given_kind && row.api_version() == api_version;
    let why = if kinds.iter().any(is_given) {
        let (package, kind) = (kind.package(), &kind.kind);
        format!("converting ({version}.{given_kind}) to ({package}.{kind}): unknown conversion")
    } else {
        unregistered(given_kind, api_version)
    };
    Err(Status::bad_request(format!(
        "{given_kind} in version {version:?} cannot be handled as a {}: {why}",
        kind.kind
    )))
}

fn check_custom(request: &ResourceRequest, tree: &ObjectTree) -> Result<(), Status> {
    let kind = &request.kind;
    let given = |field: &str| tree.get(field).and_then(Value::as_str).unwrap_or_default();
    if given("kind").is_empty() {
        let shown = String::from_utf8_lossy(&request.body);
        let shown = shown.trim_end();
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{shown}'",
            kind.kind
        )));
    }
    check_version(&kind.api_version(), given("apiVersion"))?;
    check_custom_kind(kind, given("kind"), tree)
}

fn check_version(own: &str, given: &str) -> Result<(), Status> {
    if own == given {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({own})"
    )))
}

fn check_custom_kind(kind: &ServedKind, given: &str, tree: &ObjectTree) -> Result<(), Status> {
    if given == kind.kind {
        return Ok(());
    }
    let cause = StatusCause::invalid("kind", given, &format!("must be {}", kind.kind));
    let named = NamedResource {
        what: given,
        ..kind.kind_named(metadata::text(tree, "name"))
    };
    Err(Status::invalid(named, vec![cause]))
}

fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
        quoted(kind),
        quoted(api_version)
    )
}

/// Reports whether upstream still knows a version by name that it served once.
fn is_early(version: &str) -> bool {
    version.contains("alpha") || version.contains("beta")
}

/// Returns the status of a patched object that does not decode.
fn invalid_patch(patched: &Value, why: &str) -> Status {
    let named = NamedResource {
        group: "",
        what: "",
        name: "",
    };
    let cause = StatusCause::invalid("patch", patched.to_string(), why);
    Status::invalid(named, vec![cause])
}
