//! Which form an answer takes: what `Accept` prefers among what the server can produce.
//!
//! The first acceptable clause wins. A clause that asks for a conversion nobody knows is skipped; one that asks for a
//! known conversion of the wrong thing is refused later, by whoever knows what the answer is. Protobuf and CBOR are never
//! produced: every client that asks for them also takes JSON.

use caretaker_machinery::status::{Details, Status};

/// What the server can produce, as it says when nothing fits.
const AVAILABLE: &str = "application/json, application/yaml";

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) form: Form,
    pub(crate) encoding: Encoding,
}

/// What an answer shows of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// All of it.
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
    /// Rows for people, in this version of `meta.k8s.io`.
    Table(TableVersion),
    /// Aggregated discovery, on the two roots of the API.
    Discovery,
}

/// The two names of the same Table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableVersion {
    V1,
    V1Beta1,
}

/// How a tree becomes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    PrettyJson,
    Yaml,
}

// === impl Format ===

impl Format {
    /// The form of errors and of everything that nobody negotiates.
    pub(crate) const JSON: Self = Self {
        form: Form::Object,
        encoding: Encoding::Json,
    };

    /// Chooses by the `Accept` header; without one, JSON.
    pub(crate) fn choose(accept: &str) -> Result<Self, Status> {
        let accept = if accept.trim().is_empty() {
            "*/*"
        } else {
            accept
        };
        let mut known_type = false;
        for clause in accept.split(',') {
            let mut parts = clause.split(';').map(str::trim);
            let encoding = match parts.next().unwrap_or_default() {
                "application/json" | "*/*" => Encoding::Json,
                "application/yaml" => Encoding::Yaml,
                _ => continue,
            };
            known_type = true;
            if let Some(form) = form_of(parts) {
                return Ok(Self { form, encoding });
            }
        }
        Err(not_acceptable(known_type))
    }

    /// The same form, easier to read.
    pub(crate) fn pretty(self) -> Self {
        match self.encoding {
            Encoding::Json => Self {
                encoding: Encoding::PrettyJson,
                ..self
            },
            _ => self,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self.encoding {
            Encoding::Json | Encoding::PrettyJson => "application/json",
            Encoding::Yaml => "application/yaml",
        }
    }
}

// === impl TableVersion ===

impl TableVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            TableVersion::V1 => "meta.k8s.io/v1",
            TableVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form a clause's parameters ask for; none if nobody knows it.
fn form_of<'a>(parameters: impl Iterator<Item = &'a str>) -> Option<Form> {
    let (mut form, mut group, mut version) = ("", "", "");
    for parameter in parameters {
        match parameter.split_once('=') {
            Some(("as", value)) => form = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    match (form, group, version) {
        ("", _, _) => Some(Form::Object),
        ("PartialObjectMetadata", "meta.k8s.io", "v1") => Some(Form::Metadata),
        ("PartialObjectMetadataList", "meta.k8s.io", "v1") => Some(Form::MetadataList),
        ("Table", "meta.k8s.io", "v1") => Some(Form::Table(TableVersion::V1)),
        ("Table", "meta.k8s.io", "v1beta1") => Some(Form::Table(TableVersion::V1Beta1)),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Form::Discovery),
        _ => None,
    }
}

fn not_acceptable(known_type: bool) -> Status {
    if known_type {
        let message = format!("only the following media types are accepted: {AVAILABLE}");
        Status::failure(406, "NotAcceptable", message)
    } else {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {AVAILABLE}");
        Status::failure(406, "NotAcceptable", message).with(Details::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let cases = [
            ("", Form::Object, Encoding::Json),
            ("*/*", Form::Object, Encoding::Json),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Form::Object,
                Encoding::Json,
            ),
            ("application/yaml", Form::Object, Encoding::Yaml),
            (table, Form::Table(TableVersion::V1), Encoding::Json),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io, application/json",
                Form::Object,
                Encoding::Json,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Form::MetadataList,
                Encoding::Json,
            ),
        ];
        for (accept, form, encoding) in cases {
            assert_eq!(
                Format::choose(accept),
                Ok(Format { form, encoding }),
                "{accept}"
            );
        }
    }

    #[test]
    fn nothing_that_fits_is_not_acceptable() {
        for accept in ["text/html", "application/json;as=Table;v=v9;g=meta.k8s.io"] {
            assert_eq!(Format::choose(accept).unwrap_err().code, 406, "{accept}");
        }
    }
}
