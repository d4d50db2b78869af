//! The wire types of built-in kinds: the fields of each Go struct, with their JSON names and protobuf numbers.
//!
//! A table is read from text in which each line is one struct (`types.txt` of the API server, whose head explains the
//! notation). It never changes. Bodies in JSON and in protobuf are decoded by the same rows.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The structs of one file, by name.
#[derive(Debug)]
pub struct TypeTable {
    rows: Vec<StructType>,
    by_name: BTreeMap<&'static str, TypeRef>,
}

/// A row of a [`TypeTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeRef(usize);

/// One struct of the Go types.
#[derive(Debug)]
pub struct StructType {
    /// Its name with group and version, such as `core.v1.Pod`.
    pub name: &'static str,
    /// Its members in JSON, with those of embedded structs.
    pub members: BTreeMap<&'static str, StructField>,
    /// Its fields in protobuf, by number.
    pub fields: Vec<MessageField>,
    /// One of the values that JSON writes without the struct around it.
    pub union: Option<UnionType>,
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageField {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its name in Go if that is not the JSON name in upper case.
    go_name: Option<&'static str>,
    /// Its members stand in the JSON object of the struct around it.
    pub embedded: bool,
    /// The values that it holds.
    pub field: StructField,
}

/// The presence and the type of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StructField {
    /// Its number in the message of the struct that declares it.
    pub number: u32,
    /// A zero that a client sent is kept, because the field distinguishes it from an absent value.
    pub optional: bool,
    /// The field is written even if it is empty.
    pub always: bool,
    /// One value, or many.
    pub shape: FieldArity,
    /// The type of its value, or of each of them.
    pub of: ValueType,
}

/// The number of values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldArity {
    One,
    /// A list of values.
    List,
    /// Values by name.
    Map,
}

/// The type of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// An object with fields.
    Struct(TypeRef),
    /// A value without fields.
    Scalar(ScalarType),
}

/// The types of values without fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarType {
    /// True or false.
    Bool,
    /// Bytes, in JSON as base64.
    Bytes,
    /// A floating-point number.
    Double,
    /// A number of 32 bits.
    Int32,
    /// A number of 64 bits.
    Int64,
    /// A port or a percentage.
    IntOrString,
    /// A time with microseconds.
    MicroTime,
    /// An amount of a resource.
    Quantity,
    /// A value of any type.
    Raw,
    String,
    /// A list of texts that is one value: the element of a map, or a message.
    Strings,
    /// A time in whole seconds.
    Time,
}

/// The structs of `apiextensions.v1` that JSON writes as one of their members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnionType {
    /// A schema, or whether anything is allowed.
    SchemaOrBool,
    /// A schema, or several.
    SchemaOrArray,
    /// A schema, or names.
    SchemaOrStrings,
}

/// A line that is not a row, or that contradicts another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{row}: {why}")]
pub struct TypeTableError {
    row: String,
    why: String,
}

// === impl TypeTable ===

impl TypeTable {
    /// Reads a table. Lines that begin with `#` are comments.
    ///
    /// # Errors
    /// If a line is no row, two rows or fields have the same name or number, or a struct always contains itself.
    pub fn parse(text: &'static str) -> Result<Self, TypeTableError> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<(&str, &str)> = lines
            .map(|line| line.split_once('\t').unwrap_or((line, "")))
            .collect();
        let mut by_name = BTreeMap::new();
        for (at, (name, _)) in lines.iter().enumerate() {
            if by_name.insert(*name, TypeRef(at)).is_some() {
                return Err(TypeTableError::new(name, "is there twice"));
            }
        }
        let mut rows = Vec::with_capacity(lines.len());
        for (name, fields) in lines {
            let fields = fields.split_terminator(' ');
            let fields = fields.map(|text| MessageField::parse(text, &by_name));
            rows.push(StructType {
                name,
                members: BTreeMap::new(),
                fields: fields
                    .collect::<Result<_, _>>()
                    .map_err(|why| TypeTableError::new(name, &why))?,
                union: UnionType::of(name),
            });
        }
        let mut table = Self { rows, by_name };
        for at in 0..table.rows.len() {
            let mut members = BTreeMap::new();
            table.collect(TypeRef(at), &mut members, &mut Vec::new())?;
            table.rows[at].members = members;
        }
        Ok(table)
    }

    /// Adds the members of a struct and of those that it embeds. Checks its numbers, and that an empty struct ends.
    fn collect(
        &self,
        at: TypeRef,
        members: &mut BTreeMap<&'static str, StructField>,
        outer: &mut Vec<TypeRef>,
    ) -> Result<(), TypeTableError> {
        let row = self.get(at);
        if outer.contains(&at) {
            return Err(TypeTableError::new(row.name, "contains itself"));
        }
        outer.push(at);
        let mut last = 0;
        for field in &row.fields {
            if field.field.number <= last {
                let why = format!("{} follows number {last}", field.name);
                return Err(TypeTableError::new(row.name, &why));
            }
            last = field.field.number;
            let mut apart = BTreeMap::new();
            match field.field.of {
                ValueType::Struct(inner) if field.embedded => {
                    self.collect(inner, members, outer)?;
                    continue;
                }
                ValueType::Struct(inner) if field.field.is_inline() => {
                    self.collect(inner, &mut apart, outer)?;
                }
                _ => {}
            }
            if members.insert(field.name, field.field).is_some() {
                let why = format!("{} is there twice", field.name);
                return Err(TypeTableError::new(row.name, &why));
            }
        }
        outer.pop();
        Ok(())
    }

    /// Returns the row of a reference.
    #[must_use]
    pub fn get(&self, at: TypeRef) -> &StructType {
        &self.rows[at.0]
    }

    /// Finds a row by its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<TypeRef> {
        self.by_name.get(name).copied()
    }

    /// Returns all rows in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (TypeRef, &StructType)> {
        let rows = self.rows.iter().enumerate();
        rows.map(|(at, row)| (TypeRef(at), row))
    }
}

// === impl TypeRef ===

impl TypeRef {
    /// Returns the place of the row, for tables beside this one.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

// === impl StructType ===

impl StructType {
    /// Returns the name without group and version.
    #[must_use]
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// Finds a field by its number.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Option<&MessageField> {
        let at = self
            .fields
            .binary_search_by_key(&number, |field| field.field.number);
        at.ok().map(|at| &self.fields[at])
    }
}

// === impl MessageField ===

impl MessageField {
    /// Reads a field in the notation `name[/GoName]:NUMBER[^|*|+|+*][[]|{}]type`.
    fn parse(
        text: &'static str,
        by_name: &BTreeMap<&'static str, TypeRef>,
    ) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no field");
        let (names, value) = text.split_once(':').ok_or_else(wrong)?;
        let (name, go_name) = match names.split_once('/') {
            Some((name, go_name)) => (name, Some(go_name)),
            None => (names, None),
        };
        let digits = value.bytes().take_while(u8::is_ascii_digit).count();
        let (number, value) = value.split_at(digits);
        let (embedded, value) = strip(value, "^");
        let (always, value) = strip(value, "+");
        let (optional, value) = strip(value, "*");
        let (shape, value) = match (strip(value, "[]"), strip(value, "{}")) {
            ((true, value), _) => (FieldArity::List, value),
            (_, (true, value)) => (FieldArity::Map, value),
            _ => (FieldArity::One, value),
        };
        let scalar = || ScalarType::parse(value).map(ValueType::Scalar);
        let of = by_name.get(value).copied().map(ValueType::Struct);
        let field = Self {
            name,
            go_name,
            embedded,
            field: StructField {
                number: number.parse().map_err(|_| wrong())?,
                optional,
                always,
                shape,
                of: of.or_else(scalar).ok_or_else(wrong)?,
            },
        };
        let is_plain = !always && field.field.is_inline();
        if name.is_empty() || embedded && !is_plain {
            return Err(wrong());
        }
        Ok(field)
    }

    /// Returns the name that upstream's decoder uses in errors.
    #[must_use]
    pub fn go_name(&self) -> String {
        match self.go_name {
            Some(name) => name.to_owned(),
            None => self.name[..1].to_ascii_uppercase() + &self.name[1..],
        }
    }
}

// === impl StructField ===

impl StructField {
    /// Reports whether the field is one struct that is always present.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.is_struct() && !self.optional
    }

    /// Reports whether the field is one struct.
    #[must_use]
    pub fn is_struct(&self) -> bool {
        self.shape == FieldArity::One && matches!(self.of, ValueType::Struct(_))
    }

    /// Returns the value of the field when it is empty.
    #[must_use]
    pub fn zero(&self) -> Value {
        match (self.optional, self.shape) {
            (false, FieldArity::One) => self.of.zero(),
            _ => Value::Null,
        }
    }
}

// === impl ValueType ===

impl ValueType {
    /// Returns the zero value of the type.
    #[must_use]
    pub fn zero(self) -> Value {
        match self {
            ValueType::Struct(_) => Value::Object(Map::new()),
            ValueType::Scalar(ScalarType::Bool) => false.into(),
            ValueType::Scalar(
                ScalarType::Double
                | ScalarType::Int32
                | ScalarType::Int64
                | ScalarType::IntOrString,
            ) => 0.into(),
            ValueType::Scalar(ScalarType::String) => "".into(),
            ValueType::Scalar(ScalarType::Quantity) => "0".into(),
            ValueType::Scalar(
                ScalarType::Bytes
                | ScalarType::MicroTime
                | ScalarType::Raw
                | ScalarType::Strings
                | ScalarType::Time,
            ) => Value::Null,
        }
    }
}

// === impl ScalarType ===

impl ScalarType {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => ScalarType::Bool,
            "bytes" => ScalarType::Bytes,
            "double" => ScalarType::Double,
            "int32" => ScalarType::Int32,
            "int64" => ScalarType::Int64,
            "intorstring" => ScalarType::IntOrString,
            "microtime" => ScalarType::MicroTime,
            "quantity" => ScalarType::Quantity,
            "raw" => ScalarType::Raw,
            "string" => ScalarType::String,
            "strings" => ScalarType::Strings,
            "time" => ScalarType::Time,
            _ => return None,
        })
    }
}

// === impl UnionType ===

impl UnionType {
    fn of(name: &str) -> Option<Self> {
        match name {
            "apiextensions.v1.JSONSchemaPropsOrArray" => Some(UnionType::SchemaOrArray),
            "apiextensions.v1.JSONSchemaPropsOrBool" => Some(UnionType::SchemaOrBool),
            "apiextensions.v1.JSONSchemaPropsOrStringArray" => Some(UnionType::SchemaOrStrings),
            _ => None,
        }
    }
}

// === impl TypeTableError ===

impl TypeTableError {
    fn new(row: &str, why: &str) -> Self {
        Self {
            row: row.to_owned(),
            why: why.to_owned(),
        }
    }
}

/// Returns whether `text` starts with `prefix`, and the text without it.
fn strip<'a>(text: &'a str, prefix: &str) -> (bool, &'a str) {
    match text.strip_prefix(prefix) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rows_and_flattens_embedded_structs() {
        let table = TypeTable::parse(
            "# a comment\na.v1.Outer\tname:1+string inner:2^a.v1.Inner ports:7{}int32\na.v1.Inner\tid/ID:1*int64\n",
        )
        .unwrap();
        let outer = table.get(table.named("a.v1.Outer").unwrap());
        let members: Vec<&str> = outer.members.keys().copied().collect();
        assert_eq!(members, ["id", "name", "ports"]);
        assert!(outer.members["name"].always && !outer.members["name"].optional);
        assert_eq!(outer.members["ports"].shape, FieldArity::Map);
        assert!(outer.numbered(2).unwrap().embedded && outer.numbered(3).is_none());
        let inner = table.get(table.named("a.v1.Inner").unwrap());
        assert_eq!(inner.numbered(1).unwrap().go_name(), "ID");
        assert_eq!(outer.numbered(1).unwrap().go_name(), "Name");
        assert_eq!(outer.short_name(), "Outer");
    }

    #[test]
    fn refuses_rows_that_contradict_each_other() {
        let table = [
            (
                "a.v1.A\tx:1string\na.v1.A\ty:1string",
                "a.v1.A: is there twice",
            ),
            ("a.v1.A\tx:1string x:2string", "a.v1.A: x is there twice"),
            ("a.v1.A\tx:1string y:1string", "a.v1.A: y follows number 1"),
            ("a.v1.A\tx:2string y:1string", "a.v1.A: y follows number 2"),
            ("a.v1.A\tx:0string", "a.v1.A: x follows number 0"),
            ("a.v1.A\tx:string", "a.v1.A: \"x:string\" is no field"),
            ("a.v1.A\tx:1text", "a.v1.A: \"x:1text\" is no field"),
            ("a.v1.A\tx:1a.v1.B", "a.v1.A: \"x:1a.v1.B\" is no field"),
            ("a.v1.A\tx:1^string", "a.v1.A: \"x:1^string\" is no field"),
            ("a.v1.A\tx:1^*a.v1.A", "a.v1.A: \"x:1^*a.v1.A\" is no field"),
            ("a.v1.A\t:1string", "a.v1.A: \":1string\" is no field"),
            ("a.v1.A\tx", "a.v1.A: \"x\" is no field"),
            ("a.v1.A\tx:1^a.v1.A", "a.v1.A: contains itself"),
            ("a.v1.A\tx:1+a.v1.A", "a.v1.A: contains itself"),
            (
                "a.v1.A\tx:1^a.v1.B y:2string\na.v1.B\ty:1string",
                "a.v1.A: y is there twice",
            ),
        ];
        for (text, why) in table {
            let error = TypeTable::parse(text).map(|_| ()).unwrap_err();
            assert_eq!(error.to_string(), why, "{text}");
        }
    }
}
