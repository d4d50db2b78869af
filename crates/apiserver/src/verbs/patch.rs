//! PATCH: a change of an object in one of three languages, applied to whatever is stored.

use caretaker_machinery::patch::{json, merge, strategic};
use caretaker_machinery::status::{Cause, Details, Named, Status, quoted};
use serde_json::Value;

use super::commit::{self, Mode, Plan};
use super::create::Repeated;
use super::decode::Decoded;
use super::{Ask, Reply, create, decode, update};
use crate::body;
use crate::deletion::dry_run_of;
use crate::fields;
use crate::metadata::{self, Tree};
use crate::server::Inner;
use crate::store::Object;
use crate::strategy::{self, Part, convert};

/// The languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Json,
    Merge,
    Strategic,
}

pub(super) async fn patch(inner: &Inner, ask: &Ask) -> Result<Reply, Status> {
    patch_part(inner, ask, Part::Main).await
}

/// Patches one part of an object.
pub(super) async fn patch_part(inner: &Inner, ask: &Ask, part: Part) -> Result<Reply, Status> {
    let mode = Mode::dry_run(dry_run_of(&ask.query, "PatchOptions")?);
    strategy::check_options(&ask.query, "PatchOptions")?;
    let language = Language::of(ask)?;
    if ask.query.get("force").is_some() {
        let cause = Cause::forbidden("force", "may not be specified for non-apply patch");
        let of = Named {
            group: "meta.k8s.io",
            what: "PatchOptions",
            name: "",
        };
        return Err(Status::invalid(of, vec![cause]));
    }
    let patch = language.parse(&ask.body)?;
    let mut warnings = Vec::new();
    let key = ask.key();
    let outcome = commit::commit(inner, &ask.kind, &key, mode, |current| {
        let current = current.ok_or_else(|| ask.not_found())?;
        plan(inner, ask, language, &patch, part, current, &mut warnings)
    });
    Ok(update::reply(outcome.await?, warnings))
}

fn plan(
    inner: &Inner,
    ask: &Ask,
    language: Language,
    patch: &Value,
    part: Part,
    current: &Object,
    warnings: &mut Vec<String>,
) -> Result<Plan, Status> {
    let old = convert::current(&ask.kind, current);
    let patched = language.apply(ask, convert::served(&ask.kind, &old), patch.clone())?;
    let Value::Object(patched) = patched else {
        return Err(unacceptable(&patched, "a JSON object was expected"));
    };
    let Decoded {
        tree,
        warnings: heard,
    } = settle(ask, patched)?;
    let mut new = update::named(ask, tree)?;
    create::place(ask, &mut new)?;
    update::check_version(ask, &old, &new)?;
    *warnings = heard;
    warnings.extend(strategy::warnings(&ask.kind, &new));
    update::change(inner, ask, &old, new, part, Repeated::AfterPatch, warnings)
}

/// The patched tree in its stored form.
fn settle(ask: &Ask, patched: Tree) -> Result<Decoded, Status> {
    let kind = &ask.kind;
    let shown = Value::Object(patched.clone());
    let own = kind.api_version();
    let given = |field: &str| {
        let default = if field == "kind" {
            kind.kind.as_str()
        } else {
            own.as_str()
        };
        patched
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or(default)
    };
    let api_version = given("apiVersion");
    let as_expected = api_version == own && given("kind") == kind.kind;
    if !as_expected && kind.custom.is_none() {
        let why = format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quoted(given("kind")),
            quoted(api_version)
        );
        return Err(unacceptable(&shown, &why));
    }
    if api_version != own {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({own})"
        )));
    }
    if given("kind") != kind.kind {
        let name = metadata::text(&patched, "name");
        let why = format!("must be {}", kind.kind);
        let cause = Cause::invalid("kind", given("kind"), &why);
        let of = Named {
            what: given("kind"),
            ..kind.kind_named(name)
        };
        return Err(Status::invalid(of, vec![cause]));
    }
    decode::finish(ask, patched).map_err(|why| unacceptable(&shown, &why))
}

// === impl Language ===

impl Language {
    fn of(ask: &Ask) -> Result<Self, Status> {
        match body::media_type(&ask.content_type) {
            "application/json-patch+json" => Ok(Language::Json),
            "application/merge-patch+json" => Ok(Language::Merge),
            "application/strategic-merge-patch+json" if ask.kind.custom.is_none() => {
                Ok(Language::Strategic)
            }
            "application/strategic-merge-patch+json" => Err(Status::failure(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            "application/apply-patch+yaml" => Err(Status::failure(
                415,
                "UnsupportedMediaType",
                "this server does not do server-side apply yet: use kubectl apply without --server-side, or a merge patch",
            )),
            _ => Err(
                Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                    .with(Details::default()),
            ),
        }
    }

    fn parse(self, body: &[u8]) -> Result<Value, Status> {
        let patch: Value = serde_json::from_slice(body)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        Ok(patch)
    }

    fn apply(self, ask: &Ask, object: Value, patch: Value) -> Result<Value, Status> {
        match self {
            Language::Json => json::apply(object, patch)
                .map_err(|error| refused(error.code(), &undecodable(error.code(), &error))),
            Language::Merge => {
                merge::apply(object, patch).map_err(|error| refused(400, &undecodable(400, &error)))
            }
            Language::Strategic => {
                let schema = fields::schema();
                let root = schema.root(&ask.kind.group, &ask.kind.version, &ask.kind.kind);
                strategic::apply(object, patch, schema, root)
                    .map_err(|error| refused(error.code(), &error.to_string()))
            }
        }
    }
}

/// A patch that is no patch is said to be undecodable; strategic ones are not.
fn undecodable(code: u16, error: &dyn std::fmt::Display) -> String {
    if code == 400 {
        format!("error decoding patch: {error}")
    } else {
        error.to_string()
    }
}

/// Why a patch could not be applied, by its code.
fn refused(code: u16, why: &str) -> Status {
    match code {
        400 => Status::bad_request(why),
        413 => Status::failure(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: {why}"),
        ),
        422 => Status::failure(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .with(Details::default()),
        _ => Status::unexplained(why),
    }
}

/// The patched object does not decode.
fn unacceptable(patched: &Value, why: &str) -> Status {
    let of = Named {
        group: "",
        what: "",
        name: "",
    };
    let shown = serde_json::to_string(patched).unwrap_or_default();
    Status::invalid(of, vec![Cause::invalid("patch", shown, why)])
}
