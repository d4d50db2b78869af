//! The form and the encoding of a response, chosen by the `Accept` header.
//!
//! Mirrors three steps of upstream (1.36). A route of a built-in kind refuses a header without one of its media types
//! (go-restful). The endpoint takes the first clause that it can serve, by quality and then by how specific it is
//! (`endpoints/handlers/negotiation`); a clause with an unknown conversion is skipped. An error is not converted, so its
//! encoding is chosen separately. A known conversion that does not fit the response is refused later, when the response
//! is known. CBOR is not served; upstream does not serve it by default either.

use caretaker_machinery::status::{Status, StatusDetails};

use crate::kinds::ServedKind;
use crate::tables;

/// Media types of objects, as errors name them.
pub(crate) const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];
/// Media types of watches, as errors name them.
const STREAM_TYPES: [&str; 2] = [
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// The media type of objects in protobuf encoding.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Most clauses of a header that count; clients send three or four.
const CLAUSES_MAX: usize = 100;

/// An `Accept` header.
#[derive(Debug, Clone)]
pub(crate) struct AcceptHeader<'a> {
    text: &'a str,
    /// The best first.
    clauses: Vec<AcceptClause<'a>>,
    /// The client gets indented JSON.
    pretty: bool,
}

/// A media type that the client accepts.
#[derive(Debug, Clone)]
struct AcceptClause<'a> {
    main: &'a str,
    sub: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

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
    Metadata(MetaVersion),
    MetadataList(MetaVersion),
    Table(MetaVersion),
    /// Aggregated discovery, at `/api` and `/apis`.
    Discovery,
}

/// The versions of `meta.k8s.io`, which differ in name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseEncoding {
    Json,
    PrettyJson,
    Yaml,
    Protobuf,
}

/// The conversions and encodings of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndpointForms {
    Builtin,
    /// Objects that upstream has no table convertor for.
    Untabled,
    /// Objects without a type: only their metadata can be a message.
    Custom,
    /// Nothing but aggregated discovery.
    Discovery,
    /// Nothing is converted.
    Plain,
}

// === impl AcceptHeader ===

impl<'a> AcceptHeader<'a> {
    pub(crate) fn parse(text: &'a str, pretty: bool) -> Self {
        let clauses = text.split(',').take(CLAUSES_MAX);
        let mut accept = Self {
            text,
            clauses: clauses.filter_map(AcceptClause::parse).collect(),
            pretty,
        };
        // The order of upstream is not consistent, so the result depends on the algorithm: an insertion sort, which Go's
        // library uses for up to twelve elements.
        for end in 1..accept.clauses.len() {
            let mut at = end;
            while at > 0 && accept.clauses[at].is_better(&accept.clauses[at - 1]) {
                accept.clauses.swap(at, at - 1);
                at -= 1;
            }
        }
        accept
    }

    /// Returns the format of an object, a list or a watch of this kind, or of one of its subresources.
    pub(crate) fn resource(
        &self,
        kind: &ServedKind,
        subresource: Option<&str>,
        endpoint: ResourceEndpoint,
    ) -> Result<ResponseFormat, Status> {
        let forms = match kind.custom {
            Some(_) => EndpointForms::Custom,
            None if tables::has_table(kind, subresource) => EndpointForms::Builtin,
            None => EndpointForms::Untabled,
        };
        let route = match endpoint {
            ResourceEndpoint::Connection => return Ok(self.status()),
            ResourceEndpoint::Objects => MEDIA_TYPES.to_vec(),
            ResourceEndpoint::Log => [&["text/plain"], &MEDIA_TYPES[..]].concat(),
            ResourceEndpoint::List | ResourceEndpoint::Watch => {
                [&MEDIA_TYPES[..], &STREAM_TYPES].concat()
            }
        };
        if forms != EndpointForms::Custom {
            self.check_route(&route)?;
        }
        let format = self.choose(forms);
        let format = format.ok_or_else(|| not_accepted(&MEDIA_TYPES))?;
        if endpoint == ResourceEndpoint::Watch && format.encoding == ResponseEncoding::Yaml {
            return Err(not_accepted(&STREAM_TYPES));
        }
        Ok(format)
    }

    /// Returns the format of a document of discovery.
    pub(crate) fn document(&self) -> Result<ResponseFormat, Status> {
        let format = self.choose(EndpointForms::Plain);
        format.ok_or_else(|| not_accepted(&MEDIA_TYPES))
    }

    /// Returns the format of aggregated discovery, if a clause names it.
    pub(crate) fn aggregated(&self) -> Option<ResponseFormat> {
        self.choose(EndpointForms::Discovery)
    }

    /// Returns whether an OpenAPI document is encoded as protobuf, which has these names below `application`; none if
    /// neither protobuf nor JSON is accepted. Like upstream, a quality of zero counts.
    pub(crate) fn openapi(&self, protobuf: &[&str]) -> Option<bool> {
        if self.text.is_empty() {
            return Some(false);
        }
        self.clauses
            .iter()
            .find_map(|clause| match (clause.main, clause.sub) {
                ("*", "*") | ("application", "*" | "json") => Some(false),
                ("application", sub) if protobuf.contains(&sub) => Some(true),
                _ => None,
            })
    }

    /// Returns the format of an error.
    pub(crate) fn status(&self) -> ResponseFormat {
        let format = self.choose(EndpointForms::Plain);
        // Upstream indents an error that it could not negotiate.
        format.unwrap_or(ResponseFormat::JSON.pretty())
    }

    /// Refuses a header without one of the media types that a route of go-restful has.
    pub(crate) fn check_route(&self, media_types: &[&str]) -> Result<(), Status> {
        let mut accepted = self.text.split(',').map(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default();
            media_type.trim_matches(' ')
        });
        let fits = |accepted: &str| accepted == "*/*" || media_types.contains(&accepted);
        if self.text.is_empty() || accepted.any(fits) {
            return Ok(());
        }
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            media_types.join(", ")
        );
        Err(Status::failure(406, "NotAcceptable", message).with(StatusDetails::default()))
    }

    fn choose(&self, forms: EndpointForms) -> Option<ResponseFormat> {
        let format = if self.text.is_empty() && forms != EndpointForms::Discovery {
            Some(ResponseFormat::JSON)
        } else {
            self.clauses.iter().find_map(|clause| clause.choose(forms))
        };
        format.map(|format| if self.pretty { format.pretty() } else { format })
    }
}

/// The part of a resource that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceEndpoint {
    Objects,
    List,
    Watch,
    /// The log of a Pod, which is text; its errors are objects.
    Log,
    /// A connection to a Pod or a Node: only errors are negotiated.
    Connection,
}

// === impl AcceptClause ===

impl<'a> AcceptClause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let media_type = parts.next()?.trim_matches(' ');
        let (main, sub) = match media_type.split_once('/') {
            Some((main, sub)) if !sub.contains('/') => (main.trim_matches(' '), sub),
            None if media_type == "*" => ("*", "*"),
            _ => return None,
        };
        let mut clause = Self {
            main,
            sub: sub.trim_matches(' '),
            quality: 1.0,
            parameters: Vec::new(),
        };
        for part in parts {
            match part.split_once('=') {
                Some((name, value)) if name.trim_matches(' ') == "q" => {
                    clause.quality = value.parse().unwrap_or(0.0);
                }
                Some((name, value)) if !value.is_empty() && !value.contains('=') => {
                    let parameter = (name.trim_matches(' '), value.trim_matches(' '));
                    clause.parameters.push(parameter);
                }
                _ => {}
            }
        }
        Some(clause)
    }

    /// Compares as upstream does, which is not an order.
    fn is_better(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.main != "*" && other.main == "*"
            || self.sub != "*" && other.sub == "*"
    }

    fn choose(&self, forms: EndpointForms) -> Option<ResponseFormat> {
        let encodings = [
            ("json", ResponseEncoding::Json),
            ("yaml", ResponseEncoding::Yaml),
            ("vnd.kubernetes.protobuf", ResponseEncoding::Protobuf),
        ];
        encodings.into_iter().find_map(|(sub, encoding)| {
            let fits = match (self.main, self.sub) {
                ("application", own) => own == sub || own == "*",
                any => any == ("*", "*"),
            };
            fits.then(|| self.format(encoding, forms)).flatten()
        })
    }

    /// Returns the format that the parameters name; none if the endpoint does not have it.
    fn format(&self, encoding: ResponseEncoding, forms: EndpointForms) -> Option<ResponseFormat> {
        let (mut form, mut group, mut version) = ("", "", "");
        let (mut converts, mut pretty) = (false, false);
        for (name, value) in self.parameters.iter().copied() {
            match name {
                "as" => form = value,
                "g" => group = value,
                "v" => version = value,
                "pretty" => pretty = value == "1",
                "stream" if encoding == ResponseEncoding::Yaml || value != "watch" => return None,
                "sv" if value != "v1" || !forms.converts_objects() => return None,
                _ => {}
            }
            converts |= matches!(name, "as" | "g" | "v");
        }
        let form = match (converts, group) {
            (false, _) => forms.plain(encoding),
            (true, "meta.k8s.io") if forms.converts_objects() => {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1Beta1,
                    _ => return None,
                };
                match form {
                    "PartialObjectMetadata" => Some(ResponseForm::Metadata(version)),
                    "PartialObjectMetadataList" => Some(ResponseForm::MetadataList(version)),
                    "Table" if encoding != ResponseEncoding::Protobuf && forms.has_tables() => {
                        Some(ResponseForm::Table(version))
                    }
                    _ => None,
                }
            }
            (true, "apidiscovery.k8s.io") => {
                let fits = (form, version) == ("APIGroupDiscoveryList", "v2");
                (fits && forms == EndpointForms::Discovery).then_some(ResponseForm::Discovery)
            }
            (true, _) => None,
        };
        let format = ResponseFormat {
            form: form?,
            encoding,
        };
        Some(if pretty { format.pretty() } else { format })
    }
}

// === impl EndpointForms ===

impl EndpointForms {
    fn converts_objects(self) -> bool {
        self.has_tables() || self == EndpointForms::Untabled
    }

    fn has_tables(self) -> bool {
        matches!(self, EndpointForms::Builtin | EndpointForms::Custom)
    }

    /// Returns the form of a clause without a conversion.
    fn plain(self, encoding: ResponseEncoding) -> Option<ResponseForm> {
        match (self, encoding) {
            (EndpointForms::Discovery, _) | (EndpointForms::Custom, ResponseEncoding::Protobuf) => {
                None
            }
            _ => Some(ResponseForm::Object),
        }
    }
}

// === impl ResponseFormat ===

impl ResponseFormat {
    /// The format of responses that are not negotiated.
    pub(crate) const JSON: Self = Self {
        form: ResponseForm::Object,
        encoding: ResponseEncoding::Json,
    };

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
            ResponseEncoding::Json | ResponseEncoding::PrettyJson => MEDIA_TYPES[0],
            ResponseEncoding::Yaml => MEDIA_TYPES[1],
            ResponseEncoding::Protobuf => PROTOBUF,
        }
    }

    /// Returns the content type of a watch.
    pub(crate) fn stream_type(self) -> &'static str {
        match self.encoding {
            ResponseEncoding::Protobuf => STREAM_TYPES[1],
            _ => MEDIA_TYPES[0],
        }
    }
}

// === impl ResponseForm ===

impl ResponseForm {
    /// Returns the version of an object's metadata; none if the object is shown otherwise.
    pub(crate) fn metadata(self) -> Option<MetaVersion> {
        match self {
            ResponseForm::Metadata(version) | ResponseForm::MetadataList(version) => Some(version),
            _ => None,
        }
    }
}

// === impl MetaVersion ===

impl MetaVersion {
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

fn not_accepted(media_types: &[&str]) -> Status {
    let message = format!(
        "only the following media types are accepted: {}",
        media_types.join(", ")
    );
    Status::failure(406, "NotAcceptable", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: ResponseFormat = ResponseFormat {
        form: ResponseForm::Object,
        encoding: ResponseEncoding::Protobuf,
    };
    const YAML: ResponseFormat = ResponseFormat {
        form: ResponseForm::Object,
        encoding: ResponseEncoding::Yaml,
    };

    fn choose(accept: &str, forms: EndpointForms) -> Option<ResponseFormat> {
        AcceptHeader::parse(accept, false).choose(forms)
    }

    fn mk_format(form: ResponseForm, encoding: ResponseEncoding) -> ResponseFormat {
        ResponseFormat { form, encoding }
    }

    #[test]
    fn prefers_quality_and_specific_types_as_the_real_server_does() {
        let json = ResponseFormat::JSON;
        let cases = [
            ("", Some(json)),
            ("*/*", Some(json)),
            ("*", Some(json)),
            ("application/*", Some(json)),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(PROTO),
            ),
            (
                "application/json,application/vnd.kubernetes.protobuf",
                Some(json),
            ),
            (
                "application/json;q=0.5,application/vnd.kubernetes.protobuf",
                Some(PROTO),
            ),
            (
                "application/vnd.kubernetes.protobuf;q=0.5,application/json;q=0.9",
                Some(json),
            ),
            (
                "*/*;q=0.1,application/vnd.kubernetes.protobuf;q=0.01",
                Some(PROTO),
            ),
            ("text/html,*/*;q=0.8", Some(json)),
            ("application/json;q=0", Some(json)),
            (
                "application/yaml,application/vnd.kubernetes.protobuf",
                Some(YAML),
            ),
            ("application/yaml;stream=watch", None),
            (
                "application/vnd.kubernetes.protobuf;stream=watch",
                Some(PROTO),
            ),
            ("application/json;stream=foo", None),
            ("application/json;sv=v1", Some(json)),
            ("application/json;sv=v2", None),
            ("application/json;pretty=1", Some(json.pretty())),
            ("application/json;v=v1", None),
            ("application/json;unknown=1", Some(json)),
            ("application", None),
            ("a/b/c,application/json", Some(json)),
            ("APPLICATION/JSON", None),
            ("text/html", None),
        ];
        for (accept, expected) in cases {
            assert_eq!(choose(accept, EndpointForms::Builtin), expected, "{accept}");
        }
    }

    #[test]
    fn converts_where_the_endpoint_does() {
        let (proto, json) = (ResponseEncoding::Protobuf, ResponseEncoding::Json);
        let metadata = ResponseForm::Metadata(MetaVersion::V1);
        let partial =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let table = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
        let proto_table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io";
        let unknown = "application/json;as=Table;v=v9;g=meta.k8s.io, application/yaml";
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let cases = [
            (
                partial,
                EndpointForms::Builtin,
                Some(mk_format(metadata, proto)),
            ),
            (
                partial,
                EndpointForms::Custom,
                Some(mk_format(metadata, proto)),
            ),
            (partial, EndpointForms::Plain, None),
            (
                partial,
                EndpointForms::Untabled,
                Some(mk_format(metadata, proto)),
            ),
            (table, EndpointForms::Untabled, None),
            (
                table,
                EndpointForms::Custom,
                Some(mk_format(ResponseForm::Table(MetaVersion::V1Beta1), json)),
            ),
            (proto_table, EndpointForms::Builtin, None),
            (unknown, EndpointForms::Builtin, Some(YAML)),
            (PROTOBUF, EndpointForms::Custom, None),
            (PROTOBUF, EndpointForms::Plain, Some(PROTO)),
            (discovery, EndpointForms::Builtin, None),
            (
                discovery,
                EndpointForms::Discovery,
                Some(mk_format(ResponseForm::Discovery, json)),
            ),
            ("application/json", EndpointForms::Discovery, None),
            ("", EndpointForms::Discovery, None),
        ];
        for (accept, forms, expected) in cases {
            assert_eq!(choose(accept, forms), expected, "{accept} {forms:?}");
        }
    }

    #[test]
    fn routes_refuse_other_media_types_and_wildcards_of_a_part() {
        for (accept, fits) in [
            ("", true),
            ("*/*", true),
            ("text/html, application/yaml;q=0.1", true),
            ("application/*", false),
            ("*", false),
            ("text/html", false),
        ] {
            let accept = AcceptHeader::parse(accept, false);
            assert_eq!(accept.check_route(&MEDIA_TYPES).is_ok(), fits, "{accept:?}");
        }
    }

    #[test]
    fn errors_are_not_converted() {
        let partial =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let with_json = format!("{partial},application/json");
        let cases = [
            (PROTOBUF, PROTO),
            (partial, ResponseFormat::JSON.pretty()),
            (&with_json, ResponseFormat::JSON),
            ("text/html", ResponseFormat::JSON.pretty()),
        ];
        for (accept, expected) in cases {
            assert_eq!(
                AcceptHeader::parse(accept, false).status(),
                expected,
                "{accept}"
            );
        }
    }

    #[test]
    fn many_clauses_take_bounded_work() {
        let clauses: Vec<String> = (0..40_000).map(|n| format!("a/b;q=0.{n:05}")).collect();
        let text = clauses.join(",");
        assert_eq!(AcceptHeader::parse(&text, false).clauses.len(), CLAUSES_MAX);
    }
}
