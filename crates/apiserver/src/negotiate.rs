//! The form of a response: the first that `Accept` names and the server can produce.
//!
//! A clause with an unknown conversion is skipped. A known conversion that does not fit the response is refused later,
//! when the response is known. The server never produces Protobuf or CBOR: every client that accepts them also accepts
//! JSON.

use caretaker_machinery::status::{Status, StatusDetails};

/// Media types that the server can produce, as errors name them.
const AVAILABLE: &str = "application/json, application/yaml";

/// The form and the encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseFormat {
    pub(crate) form: ResponseForm,
    pub(crate) encoding: ResponseEncoding,
}

/// The representation of an object in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    Object,
    Metadata,
    MetadataList,
    /// A Table in this version of `meta.k8s.io`.
    Table(TableVersion),
    /// Aggregated discovery, at `/api` and `/apis`.
    Discovery,
}

/// The versions of a Table, which differ in name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableVersion {
    V1,
    V1Beta1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseEncoding {
    Json,
    PrettyJson,
    Yaml,
}

// === impl ResponseFormat ===

impl ResponseFormat {
    /// The format of errors and of responses that are not negotiated.
    pub(crate) const JSON: Self = Self {
        form: ResponseForm::Object,
        encoding: ResponseEncoding::Json,
    };

    /// Chooses the format by the `Accept` header; without one, JSON.
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
                "application/json" | "*/*" => ResponseEncoding::Json,
                "application/yaml" => ResponseEncoding::Yaml,
                _ => continue,
            };
            known_type = true;
            if let Some(form) = form_of(parts) {
                return Ok(Self { form, encoding });
            }
        }
        Err(not_acceptable(known_type))
    }

    /// Returns the same format with indented JSON.
    pub(crate) fn pretty(self) -> Self {
        match self.encoding {
            ResponseEncoding::Json => Self {
                encoding: ResponseEncoding::PrettyJson,
                ..self
            },
            _ => self,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self.encoding {
            ResponseEncoding::Json | ResponseEncoding::PrettyJson => "application/json",
            ResponseEncoding::Yaml => "application/yaml",
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

/// Returns the form that a clause's parameters name; none if it is unknown.
fn form_of<'a>(parameters: impl Iterator<Item = &'a str>) -> Option<ResponseForm> {
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
        ("", _, _) => Some(ResponseForm::Object),
        ("PartialObjectMetadata", "meta.k8s.io", "v1") => Some(ResponseForm::Metadata),
        ("PartialObjectMetadataList", "meta.k8s.io", "v1") => Some(ResponseForm::MetadataList),
        ("Table", "meta.k8s.io", "v1") => Some(ResponseForm::Table(TableVersion::V1)),
        ("Table", "meta.k8s.io", "v1beta1") => Some(ResponseForm::Table(TableVersion::V1Beta1)),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(ResponseForm::Discovery),
        _ => None,
    }
}

fn not_acceptable(known_type: bool) -> Status {
    if known_type {
        let message = format!("only the following media types are accepted: {AVAILABLE}");
        Status::failure(406, "NotAcceptable", message)
    } else {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {AVAILABLE}");
        Status::failure(406, "NotAcceptable", message).with(StatusDetails::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_the_first_clause_that_can_be_served() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let cases = [
            ("", ResponseForm::Object, ResponseEncoding::Json),
            ("*/*", ResponseForm::Object, ResponseEncoding::Json),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                ResponseForm::Object,
                ResponseEncoding::Json,
            ),
            (
                "application/yaml",
                ResponseForm::Object,
                ResponseEncoding::Yaml,
            ),
            (
                table,
                ResponseForm::Table(TableVersion::V1),
                ResponseEncoding::Json,
            ),
            (
                "application/json;as=Table;v=v9;g=meta.k8s.io, application/json",
                ResponseForm::Object,
                ResponseEncoding::Json,
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                ResponseForm::MetadataList,
                ResponseEncoding::Json,
            ),
        ];
        for (accept, form, encoding) in cases {
            assert_eq!(
                ResponseFormat::choose(accept),
                Ok(ResponseFormat { form, encoding }),
                "{accept}"
            );
        }
    }

    #[test]
    fn refuses_a_header_without_a_known_form() {
        for accept in ["text/html", "application/json;as=Table;v=v9;g=meta.k8s.io"] {
            assert_eq!(
                ResponseFormat::choose(accept).unwrap_err().code,
                406,
                "{accept}"
            );
        }
    }
}
