//! From a body to an object of the kind that the path names.
//!
//! Upstream decodes into Go types; this does what is visible of it without them: the apiVersion and kind must fit,
//! metadata gets its shape, null members count as absent.

use caretaker_machinery::status::{Cause, Named, Status, quoted};
use serde_json::{Map, Value};

use super::Ask;
use crate::body;
use crate::kinds::{Kind, Kinds, split_group};
use crate::metadata::{Tree, shape};
use crate::strategy::{self, convert, crd, defaults};

/// An object in its stored form, and what its client should hear about the way it came.
pub(crate) struct Decoded {
    pub(crate) tree: Tree,
    pub(crate) warnings: Vec<String>,
}

/// The object in the body of a create or update.
pub(crate) fn object(kinds: &Kinds, ask: &Ask) -> Result<Decoded, Status> {
    let kind = &ask.kind;
    let value = body::parse(&ask.content_type, &ask.body)
        .map_err(|unreadable| unreadable.to_status(&kind.kind))?;
    let tree = body::object(value, &kind.kind)?;
    if kind.custom.is_none() {
        check_builtin(kinds, kind, &tree)?;
    } else {
        check_custom(ask, &tree)?;
    }
    finish(ask, tree).map_err(|why| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            kind.kind, kind.version, kind.kind
        ))
    })
}

/// Brings a tree into its stored form, or says what does not decode.
pub(crate) fn finish(ask: &Ask, mut tree: Tree) -> Result<Decoded, String> {
    let kind = &ask.kind;
    tree.remove("apiVersion");
    tree.remove("kind");
    let mut schemas = crd::take_schemas(kind, &mut tree);
    if kind.custom.is_some() {
        tree.values_mut().for_each(settle_numbers);
    } else if !defaults::knows(kind) {
        drop_nulls(&mut tree);
    }
    crd::put_schemas(&mut tree, &mut schemas);
    let mut tree = convert::to_stored(kind, tree);
    let mut unknown = defaults::read(kind, &mut tree)?;
    let unshaped = shape::shape(&mut tree, &kind.kind).map_err(|why| match &kind.custom {
        // Upstream decodes the metadata of custom kinds by itself.
        Some(_) => why.replace("ObjectMeta.metadata.", "ObjectMeta."),
        None => why,
    })?;
    if kind.custom.is_some() {
        unknown.extend(unshaped.iter().map(|field| format!("metadata.{field}")));
    }
    unknown.extend(strategy::read(kind, &mut tree)?);
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    let warnings: Vec<String> = match ask.query.get("fieldValidation") {
        Some("Ignore") => Vec::new(),
        _ => unknown.collect(),
    };
    if ask.query.get("fieldValidation") == Some("Strict") && !warnings.is_empty() {
        return Err(format!("strict decoding error: {}", warnings.join(", ")));
    }
    defaults::fill(kind, &mut tree);
    Ok(Decoded { tree, warnings })
}

fn check_builtin(kinds: &Kinds, kind: &Kind, tree: &Tree) -> Result<(), Status> {
    let given = |field: &str| {
        tree.get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
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
    if group == kind.group
        && given_kind == kind.kind
        && version != kind.version
        && is_early(version)
    {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({own})"
        )));
    }
    let registered = kinds
        .iter()
        .any(|row| row.kind == given_kind && row.api_version() == api_version);
    let why = if registered {
        let package = kind
            .group
            .split('.')
            .next()
            .filter(|package| !package.is_empty());
        format!(
            "converting ({version}.{given_kind}) to ({}.{}): unknown conversion",
            package.unwrap_or("core"),
            kind.kind
        )
    } else {
        format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quoted(given_kind),
            quoted(api_version)
        )
    };
    Err(Status::bad_request(format!(
        "{given_kind} in version {version:?} cannot be handled as a {}: {why}",
        kind.kind
    )))
}

fn check_custom(ask: &Ask, tree: &Tree) -> Result<(), Status> {
    let given = |field: &str| tree.get(field).and_then(Value::as_str).unwrap_or_default();
    if given("kind").is_empty() {
        let shown = String::from_utf8_lossy(&ask.body);
        let shown = shown.trim_end();
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{shown}'",
            ask.kind.kind
        )));
    }
    let own = ask.kind.api_version();
    let api_version = given("apiVersion");
    if api_version != own {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({own})"
        )));
    }
    if given("kind") != ask.kind.kind {
        let name = crate::metadata::text(tree, "name");
        let why = format!("must be {}", ask.kind.kind);
        let cause = Cause::invalid("kind", given("kind"), &why);
        let of = Named {
            what: given("kind"),
            ..ask.kind.kind_named(name)
        };
        return Err(Status::invalid(of, vec![cause]));
    }
    Ok(())
}

/// Versions that were served once; upstream still knows their names.
fn is_early(version: &str) -> bool {
    version.contains("alpha") || version.contains("beta")
}

/// A whole number is one however it is written: 1e3 is 1000.
fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < WHOLE_FLOAT_MAX {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(members) => members.values_mut().for_each(settle_numbers),
        _ => {}
    }
}

/// Beyond this, not every whole number is a float.
const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// A null member is an absent one, at any depth: in kinds that are not read by their types.
fn drop_nulls(tree: &mut Map<String, Value>) {
    tree.retain(|_, value| !value.is_null());
    tree.values_mut().for_each(drop_nulls_in);
}

fn drop_nulls_in(value: &mut Value) {
    match value {
        Value::Object(members) => drop_nulls(members),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls_in),
        _ => {}
    }
}
