//! The columns of a kind and the sources of their cells.
//!
//! Custom kinds define their columns; those of built-in kinds are [data](super::builtin).

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::path::JsonPath;
use super::{builtin, cells};
use crate::kinds::ServedKind;

/// The name of a column without a definition: its cells follow those of the defined ones.
pub(super) const UNDEFINED: &str = "";

/// The columns of a kind in order.
pub(super) struct TableColumns(Cow<'static, [TableColumn]>);

/// One column of a table.
#[derive(Clone)]
pub(super) struct TableColumn {
    name: Cow<'static, str>,
    of_type: Cow<'static, str>,
    format: Cow<'static, str>,
    description: String,
    /// Greater than 0 for columns that only `-o wide` shows.
    priority: i64,
    cell: CellSource,
}

/// The source of the cells of a column.
#[derive(Clone)]
pub(super) enum CellSource {
    /// The name of the object.
    Name,
    /// A function of the object, shown instead of the name.
    NameOf(fn(&Value) -> Value),
    /// The age of the object.
    Age,
    /// The creation time.
    CreatedAt,
    /// The string at a JSON pointer, with a placeholder.
    Text(&'static str, &'static str),
    /// The number at a JSON pointer, or 0.
    Number(&'static str),
    /// A function of the object.
    Of(fn(&Value) -> Value),
    /// A function of the object and the current time.
    At(fn(&Value, Timestamp) -> Value),
    /// The value at a JSONPath, formatted by type. An invalid path yields nothing.
    ///
    /// DEVIATION(bad-printer-column): upstream drops such a column and all after it.
    Path(Option<JsonPath>, String),
}

// === impl TableColumns ===

impl TableColumns {
    pub(super) fn of(kind: &ServedKind) -> Self {
        Self(match &kind.custom {
            Some(custom) => custom_columns(&custom.columns).into(),
            None => builtin::columns(kind).into(),
        })
    }

    /// The column definitions in wire format.
    pub(super) fn definitions(&self) -> Value {
        let defined = self.0.iter().filter(|column| column.name != UNDEFINED);
        defined.map(TableColumn::definition).collect()
    }

    /// Whether a cell needs more than the metadata of an object.
    pub(super) fn look_beyond_metadata(&self) -> bool {
        self.0
            .iter()
            .any(|column| column.cell.looks_beyond_metadata())
    }

    /// The cells of one row.
    pub(super) fn cells(&self, name: &str, tree: &Value, now: Timestamp) -> Value {
        let cell = |column: &TableColumn| column.cell.show(name, tree, now);
        self.0.iter().map(cell).collect()
    }
}

// === impl TableColumn ===

impl TableColumn {
    /// A column of a built-in kind.
    ///
    /// DEVIATION(column-descriptions): upstream has descriptions from its API reference; no client reads them.
    pub(super) const fn new(name: &'static str, of_type: &'static str, cell: CellSource) -> Self {
        let format = if cell.is_name() { "name" } else { "" };
        Self {
            name: Cow::Borrowed(name),
            of_type: Cow::Borrowed(of_type),
            format: Cow::Borrowed(format),
            description: String::new(),
            priority: 0,
            cell,
        }
    }

    /// A text column that only `-o wide` shows.
    pub(super) const fn wide(name: &'static str, cell: CellSource) -> Self {
        let mut column = Self::new(name, "string", cell);
        column.priority = 1;
        column
    }

    /// Reads a column of a CustomResourceDefinition.
    fn custom(column: &Value) -> Self {
        let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
        let path = text("jsonPath");
        let description = match text("description") {
            none if none.is_empty() => {
                format!("Custom resource definition column (in JSONPath format): {path}")
            }
            description => description,
        };
        Self {
            name: text("name").into(),
            of_type: text("type").into(),
            format: text("format").into(),
            description,
            priority: column["priority"].as_i64().unwrap_or_default(),
            cell: CellSource::Path(JsonPath::parse(&path), text("type")),
        }
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.of_type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

// === impl CellSource ===

impl CellSource {
    const fn is_name(&self) -> bool {
        matches!(self, Self::Name | Self::NameOf(_))
    }

    fn looks_beyond_metadata(&self) -> bool {
        !matches!(self, Self::Name | Self::Age | Self::CreatedAt)
    }

    fn show(&self, name: &str, tree: &Value, now: Timestamp) -> Value {
        let created = || tree["metadata"]["creationTimestamp"].as_str();
        match self {
            Self::Name => name.into(),
            Self::Age => cells::age(created().unwrap_or_default(), now).into(),
            Self::CreatedAt => created().unwrap_or(cells::NO_TIME).into(),
            Self::Text(pointer, none) => {
                let text = tree.pointer(pointer).and_then(Value::as_str);
                text.filter(|text| !text.is_empty()).unwrap_or(none).into()
            }
            Self::Number(pointer) => {
                let number = tree.pointer(pointer).and_then(Value::as_i64);
                number.unwrap_or_default().into()
            }
            Self::NameOf(show) | Self::Of(show) => show(tree),
            Self::At(show) => show(tree, now),
            Self::Path(path, of_type) => {
                let found = path.as_ref().and_then(|path| path.find(tree));
                found.map_or(Value::Null, |value| cells::of_type(of_type, value, now))
            }
        }
    }
}

/// The name and the columns of the definition; the age if it has none.
fn custom_columns(columns: &[Value]) -> Vec<TableColumn> {
    let mut all = vec![TableColumn::new("Name", "string", CellSource::Name)];
    if columns.is_empty() {
        let path = JsonPath::parse(".metadata.creationTimestamp");
        let age = CellSource::Path(path, "date".into());
        all.push(TableColumn::new("Age", "date", age));
    }
    all.extend(columns.iter().map(TableColumn::custom));
    all
}
