//! Decodes a body as upstream's decoder does: it refuses wrong types with the same messages, drops unknown members and
//! optional zeros, and brings quantities, times and bytes into their canonical form.
//!
//! DEVIATION(decode-errors): a field of a named text type is reported as `string`, and members of embedded structs without
//! the struct's name.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::{DecodeError, alphabet};
use caretaker_machinery::quantity::Quantity;
use caretaker_machinery::schema::type_name;
use caretaker_machinery::types::{
    FieldArity, ScalarType, StructField, StructType, TypeRef, ValueType,
};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde_json::{Map, Value};

use crate::body::FieldError;
use crate::metadata::{self, ObjectTree};
use crate::types::{is_schema, types};

/// The members of a nested object that name its type.
const TYPE_MEMBERS: [&str; 2] = ["apiVersion", "kind"];
/// Digits after the decimal point of a MicroTime.
const MICRO_DIGITS: usize = 6;
/// Like Go, ignores unused bits of the last character.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Decodes one object and tracks the path of the current value for errors.
#[derive(Default)]
pub(super) struct TypeReader {
    path: Vec<PathStep>,
    /// Paths of members that the types do not have.
    pub(super) unknown: Vec<String>,
}

/// A step from a value to one that it contains.
enum PathStep {
    Field(String),
    Item(usize),
    Key(String),
}

// === impl TypeReader ===

impl TypeReader {
    /// Reads a whole object. Of its metadata only the unknown members are recorded; `metadata::shape` reads the rest.
    pub(super) fn read_root(
        &mut self,
        of: TypeRef,
        object: &mut ObjectTree,
    ) -> Result<(), FieldError> {
        let metadata = object.remove("metadata");
        let field = types().get(of).members.get("metadata");
        if let (Some(Value::Object(given)), Some(ValueType::Struct(of))) =
            (&metadata, field.map(|field| field.of))
        {
            self.path.push(PathStep::Field("metadata".into()));
            // `metadata::shape` reports the errors in metadata.
            let _ = self.read_struct(of, &mut given.clone());
            self.path.clear();
        }
        self.read_struct(of, object)?;
        if let Some(metadata) = metadata {
            object.insert("metadata".into(), metadata);
        }
        Ok(())
    }

    fn read_struct(&mut self, of: TypeRef, object: &mut ObjectTree) -> Result<(), FieldError> {
        let row = types().get(of);
        for (name, value) in std::mem::take(object) {
            let Some(field) = row.members.get(name.as_str()) else {
                let typed = row.members.contains_key("metadata");
                if !(typed && TYPE_MEMBERS.contains(&name.as_str())) {
                    self.path.push(PathStep::Field(name));
                    self.unknown.push(self.place());
                    self.path.pop();
                }
                continue;
            };
            if value.is_null() {
                continue;
            }
            self.path.push(PathStep::Field(name.clone()));
            let value = self.read_field(row, field, value)?;
            self.path.pop();
            if field.optional || field.is_struct() || !is_zero(&value) {
                object.insert(name, value);
            }
        }
        Ok(())
    }

    fn read_field(
        &mut self,
        owner: &StructType,
        field: &StructField,
        value: Value,
    ) -> Result<Value, FieldError> {
        match (field.shape, value) {
            (FieldArity::One, value) => self.read_value(owner, field, value),
            (FieldArity::List, Value::Array(items)) => {
                let mut read = Vec::with_capacity(items.len());
                for (at, item) in items.into_iter().enumerate() {
                    self.path.push(PathStep::Item(at));
                    read.push(self.read_value(owner, field, item)?);
                    self.path.pop();
                }
                Ok(read.into())
            }
            (FieldArity::Map, Value::Object(members)) => {
                let mut read = Map::new();
                for (key, value) in members {
                    self.path.push(PathStep::Key(key.clone()));
                    read.insert(key, self.read_value(owner, field, value)?);
                    self.path.pop();
                }
                Ok(read.into())
            }
            (_, other) => Err(self.wrong(owner, &other, &go_type(field))),
        }
    }

    /// Reads the value of a field, or one element of its list or map.
    fn read_value(
        &mut self,
        owner: &StructType,
        field: &StructField,
        value: Value,
    ) -> Result<Value, FieldError> {
        match (field.of, value) {
            // The strategy of definitions decodes it.
            (ValueType::Struct(of), schema) if is_schema(of) => Ok(schema),
            (ValueType::Struct(of), Value::Null) => self.read_members(of, Map::new()),
            (ValueType::Struct(of), Value::Object(members)) => self.read_members(of, members),
            (ValueType::Struct(_), other) => Err(self.wrong(owner, &other, &go_name(field.of))),
            (of, Value::Null) => Ok(of.zero()),
            (ValueType::Scalar(scalar), value) => {
                let fits = read_scalar(scalar, &value, field.shape)?;
                fits.ok_or_else(|| self.wrong(owner, &value, &go_name(field.of)))
            }
        }
    }

    fn read_members(&mut self, of: TypeRef, mut members: ObjectTree) -> Result<Value, FieldError> {
        self.read_struct(of, &mut members)?;
        Ok(Value::Object(members))
    }

    /// Returns the error of a value that does not fit the type of its field.
    fn wrong(&self, owner: &StructType, value: &Value, go_type: &str) -> FieldError {
        let found = match value {
            Value::Number(number) if go_type.starts_with("int") => format!("number {number}"),
            _ => type_name(value).to_owned(),
        };
        let owner = owner.name.rsplit('.').next().unwrap_or_default();
        let fields = self.path.iter().filter_map(|step| match step {
            PathStep::Field(name) => Some(name.as_str()),
            PathStep::Item(_) | PathStep::Key(_) => None,
        });
        let fields = fields.collect::<Vec<_>>().join(".");
        FieldError::WrongType {
            found,
            field: format!("{owner}.{fields}"),
            go_type: go_type.to_owned(),
        }
    }

    /// Returns the path of the current value, with list indexes and map keys.
    fn place(&self) -> String {
        let mut place = String::new();
        for step in &self.path {
            match step {
                PathStep::Field(name) | PathStep::Key(name) => {
                    if !place.is_empty() {
                        place.push('.');
                    }
                    place.push_str(name);
                }
                PathStep::Item(at) => place.push_str(&format!("[{at}]")),
            }
        }
        place
    }
}

/// Returns a value in its canonical form; none if it has another type.
fn read_scalar(
    scalar: ScalarType,
    value: &Value,
    shape: FieldArity,
) -> Result<Option<Value>, FieldError> {
    let text = value.as_str();
    let same = |fits: bool| Ok(fits.then(|| value.clone()));
    match scalar {
        ScalarType::Raw => same(true),
        ScalarType::Bool => same(value.is_boolean()),
        ScalarType::String => same(value.is_string()),
        ScalarType::Double => same(value.is_number()),
        ScalarType::Int64 => same(value.as_i64().is_some()),
        ScalarType::Int32 => same(is_int32(value)),
        ScalarType::IntOrString => same(value.is_string() || is_int32(value)),
        ScalarType::Strings => {
            let items = value.as_array();
            same(items.is_some_and(|items| items.iter().all(Value::is_string)))
        }
        ScalarType::Quantity => read_quantity(value, shape).map(Some),
        ScalarType::Bytes => text.map(read_bytes).transpose(),
        ScalarType::Time => text.map(read_time).transpose(),
        ScalarType::MicroTime => text.map(read_micro_time).transpose(),
    }
}

fn is_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
}

/// Reports whether a value is the zero of its type.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Reads a quantity. In a map, quantities are rounded up to thousandths.
fn read_quantity(value: &Value, shape: FieldArity) -> Result<Value, FieldError> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let quantity = Quantity::parse(&text)?;
    let quantity = match shape {
        FieldArity::Map => quantity.rounded_to_milli(),
        FieldArity::One | FieldArity::List => quantity,
    };
    Ok(quantity.to_string().into())
}

/// Reads a time, which is kept in whole seconds.
pub(crate) fn read_time(text: &str) -> Result<Value, FieldError> {
    let at: Timestamp = text.parse().map_err(|_| no_time(text, ""))?;
    Ok(metadata::time(at).into())
}

fn read_micro_time(text: &str) -> Result<Value, FieldError> {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));
    let after = text.split_once('.').map_or("", |(_, after)| after);
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let at: Option<Timestamp> = text.parse().ok();
    match at {
        Some(at) if digits == MICRO_DIGITS => Ok(PRINTER.timestamp_to_string(&at).into()),
        _ => Err(no_time(text, ".000000")),
    }
}

fn no_time(text: &str, fraction: &str) -> FieldError {
    let year = text.split('-').next().unwrap_or_default();
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, expected) = match text.get(19..) {
        Some(rest) if is_year && !fraction.is_empty() => (rest, fraction),
        _ => (text, "2006"),
    };
    FieldError::Time {
        text: text.to_owned(),
        layout: format!("2006-01-02T15:04:05{fraction}Z07:00"),
        rest: rest.to_owned(),
        expected: expected.to_owned(),
    }
}

/// Reads base64, in which line breaks are allowed.
fn read_bytes(text: &str) -> Result<Value, FieldError> {
    let joined: String = text.chars().filter(|c| !"\r\n".contains(*c)).collect();
    let bytes = LENIENT.decode(&joined);
    let bytes = bytes.map_err(|error| FieldError::Base64(illegal_at(&joined, &error)))?;
    Ok(STANDARD.encode(bytes).into())
}

/// Returns the position that upstream's decoder reports: the first invalid byte, else the start of an incomplete last
/// group, or its end if padding is missing.
fn illegal_at(text: &str, error: &DecodeError) -> usize {
    let padding = text.find('=').unwrap_or(text.len());
    let symbol = match error {
        DecodeError::InvalidByte(at, _) => *at,
        _ => text.len(),
    };
    let group = padding / 4 * 4;
    if symbol < padding {
        symbol
    } else if padding == text.len() {
        group
    } else if padding % 4 < 2 {
        padding
    } else {
        // The byte after the padding of a complete group, or the end of the text.
        (group + 4).min(text.len())
    }
}

/// Returns the Go name of the type of a field.
fn go_type(field: &StructField) -> String {
    match (field.shape, field.of) {
        (FieldArity::Map, ValueType::Scalar(ScalarType::Quantity)) => "v1.ResourceList".into(),
        (FieldArity::One, of) => go_name(of),
        (FieldArity::List, of) => format!("[]{}", go_name(of)),
        (FieldArity::Map, of) => format!("map[string]{}", go_name(of)),
    }
}

fn go_name(of: ValueType) -> String {
    let scalar = match of {
        ValueType::Struct(at) => {
            let name = types().get(at).name;
            return name.split_once('.').map_or(name, |(_, rest)| rest).into();
        }
        ValueType::Scalar(scalar) => scalar,
    };
    match scalar {
        ScalarType::Bool => "bool",
        ScalarType::Double => "float64",
        ScalarType::Bytes => "[]uint8",
        ScalarType::Int32 | ScalarType::IntOrString => "int32",
        ScalarType::Int64 => "int64",
        ScalarType::Strings => "[]string",
        ScalarType::Raw | ScalarType::Quantity => "interface {}",
        ScalarType::String | ScalarType::Time | ScalarType::MicroTime => "string",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(of: &str, object: &Value) -> Result<(Value, Vec<String>), FieldError> {
        let mut object = object.as_object().cloned().unwrap_or_default();
        let mut reader = TypeReader::default();
        reader.read_root(types().named(of).unwrap(), &mut object)?;
        Ok((Value::Object(object), reader.unknown))
    }

    #[test]
    fn refuses_wrong_types_with_upstream_messages() {
        let container = |field: Value| json!({"spec": {"containers": [field]}});
        let cases = [
            (
                json!({"spec": 5}),
                "cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec",
            ),
            (
                json!({"spec": {"containers": {}}}),
                "cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                container(json!(5)),
                "cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container",
            ),
            (
                container(json!({"name": 5})),
                "cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
            ),
            (
                container(json!({"resources": {"limits": 5}})),
                "cannot unmarshal number into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
            ),
            (
                container(json!({"ports": [{"containerPort": 1.5}]})),
                "cannot unmarshal number 1.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
            (
                container(json!({"ports": [{"containerPort": 99_999_999_999_i64}]})),
                "cannot unmarshal number 99999999999 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
            ),
            (
                json!({"spec": {"nodeSelector": {"a": 5}}}),
                "cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
            ),
        ];
        for (pod, expected) in cases {
            let found = read("core.v1.Pod", &pod).map_err(|error| error.to_string());
            assert_eq!(found, Err(format!("json: {expected}")));
        }
    }

    #[test]
    fn drops_zeros_of_optional_fields() {
        let given = json!({"spec": {"hostNetwork": false, "nodeName": "", "nodeSelector": {}, "containers": [],
            "securityContext": {}, "activeDeadlineSeconds": 0, "volumes": null, "overhead": {"cpu": null},
            "affinity": null, "hostAliases": [null]}});
        let kept = json!({"spec": {"securityContext": {}, "activeDeadlineSeconds": 0,
            "overhead": {"cpu": "0"}, "hostAliases": [{}]}});
        assert_eq!(read("core.v1.Pod", &given), Ok((kept, vec![])));
        let given = json!({"data": {"a": null}, "binaryData": {}});
        let kept = json!({"data": {"a": ""}});
        assert_eq!(read("core.v1.ConfigMap", &given), Ok((kept, vec![])));
    }

    #[test]
    fn drops_and_reports_unknown_members() {
        let given = json!({"metadata": {"neither": 1, "ownerReferences": [{"nor": 1}]},
            "nope": 1, "spec": {"containers": [{"name": "a"}, {"nope": 1}]}});
        let (mut kept, unknown) = read("core.v1.Pod", &given).unwrap();
        kept.as_object_mut().unwrap().remove("metadata");
        assert_eq!(kept, json!({"spec": {"containers": [{"name": "a"}, {}]}}));
        assert_eq!(
            unknown,
            [
                "metadata.neither",
                "metadata.ownerReferences[0].nor",
                "nope",
                "spec.containers[1].nope"
            ]
        );
    }

    #[test]
    fn checks_base64_as_upstream_does() {
        let cases = [
            ("YQ==", Ok("YQ==")),
            ("Y\nQ==", Ok("YQ==")),
            ("YR==", Ok("YQ==")),
            ("x", Err(0)),
            ("YQ", Err(0)),
            ("YW", Err(0)),
            ("YQ=", Err(3)),
            ("YQ===", Err(4)),
            ("Y!==", Err(1)),
            ("YQ==YQ==", Err(4)),
            ("YWJjZA", Err(4)),
            ("YWJj!", Err(4)),
        ];
        for (text, expected) in cases {
            let expected = expected.map(Value::from).map_err(FieldError::Base64);
            assert_eq!(read_bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn times_get_their_canonical_form() {
        assert_eq!(
            read_time("2026-01-01T00:00:00.7+01:00"),
            Ok("2025-12-31T23:00:00Z".into())
        );
        assert_eq!(
            read_micro_time("2026-01-01T00:00:00.500000+01:00"),
            Ok("2025-12-31T23:00:00.500000Z".into())
        );
        let cases = [
            ("2026-01-01T00:00:00Z", "Z"),
            ("2026-01-01T00:00:00.5Z", ".5Z"),
        ];
        for (text, rest) in cases {
            let why = format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {rest:?} as \".000000\""
            );
            let found = read_micro_time(text).map_err(|error| error.to_string());
            assert_eq!(found, Err(why));
        }
    }
}
