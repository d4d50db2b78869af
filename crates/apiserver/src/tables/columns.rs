//! Which columns a kind has, and where each cell comes from.
//!
//! Custom kinds bring their columns along. Built-in kinds share rows of data: most show name and age, those that
//! upstream has no printer for show when they were made.
//!
//! DEVIATION(column-descriptions): the columns that upstream describes with the text of its API reference have no
//! description here; nothing reads it.
//! DEVIATION(few-columns): other columns of built-in kinds (`Ready`, `Status`, …) are not shown yet.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells;
use super::path::JsonPath;
use crate::kinds::Kind;

/// The columns of a kind, from the left.
pub(super) struct Columns(Vec<Column>);

/// One column: its definition as clients get it, and the source of its cells.
struct Column {
    definition: Value,
    cell: Cell,
}

#[derive(Clone)]
enum Cell {
    /// The object's name.
    Name,
    /// How long ago it was created.
    Age,
    /// When it was created.
    CreatedAt,
    /// What a path leads to, shown as the type says. A path that cannot be read leads nowhere.
    ///
    /// DEVIATION(bad-printer-column): upstream drops such a column and all after it.
    Path(Option<JsonPath>, String),
}

/// Columns shared by built-in kinds: name, type, format, cell.
type Builtin = &'static [(&'static str, &'static str, &'static str, Cell)];

const NAME_AND_AGE: Builtin = &[
    ("Name", "string", "name", Cell::Name),
    ("Age", "string", "", Cell::Age),
];
const NAME_AND_CREATION: Builtin = &[
    ("Name", "string", "name", Cell::Name),
    ("Created At", "date", "", Cell::CreatedAt),
];

/// Kinds that show something else than name and age: group, plural, columns.
const BUILTIN: [(&str, &str, Builtin); 5] = [
    ("", "limitranges", NAME_AND_CREATION),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        NAME_AND_CREATION,
    ),
    (
        "rbac.authorization.k8s.io",
        "clusterroles",
        NAME_AND_CREATION,
    ),
    ("rbac.authorization.k8s.io", "roles", NAME_AND_CREATION),
    ("storage.k8s.io", "csistoragecapacities", NAME_AND_CREATION),
];

// === impl Columns ===

impl Columns {
    pub(super) fn of(kind: &Kind) -> Self {
        let columns = match &kind.custom {
            Some(custom) => custom_columns(&custom.columns),
            None => {
                let row = |(group, plural, _): &&(&str, &str, Builtin)| {
                    *group == kind.group && *plural == kind.plural
                };
                let own = BUILTIN.iter().find(row);
                let columns = own.map_or(NAME_AND_AGE, |(_, _, columns)| columns);
                let columns = columns.iter();
                columns
                    .map(|(name, of_type, format, cell)| {
                        Column::new(name, of_type, format, cell.clone())
                    })
                    .collect()
            }
        };
        Self(columns)
    }

    /// As clients get them.
    pub(super) fn definitions(&self) -> Value {
        self.0
            .iter()
            .map(|column| column.definition.clone())
            .collect()
    }

    /// The cells of one row.
    pub(super) fn cells(&self, name: &str, tree: &Value, now: Timestamp) -> Value {
        let created = tree["metadata"]["creationTimestamp"].as_str();
        let cell = |column: &Column| match &column.cell {
            Cell::Name => name.into(),
            Cell::Age => cells::age(created.unwrap_or_default(), now).into(),
            Cell::CreatedAt => created.unwrap_or(cells::NO_TIME).into(),
            Cell::Path(path, of_type) => {
                let found = path.as_ref().and_then(|path| path.find(tree));
                found.map_or(Value::Null, |value| cells::of_type(of_type, value, now))
            }
        };
        self.0.iter().map(cell).collect()
    }
}

// === impl Column ===

impl Column {
    fn new(name: &str, of_type: &str, format: &str, cell: Cell) -> Self {
        let definition = json!({
            "name": name,
            "type": of_type,
            "format": format,
            "description": "",
            "priority": 0,
        });
        Self { definition, cell }
    }

    /// A column as a definition has it.
    fn custom(column: &Value) -> Self {
        let text = |name: &str| column[name].as_str().unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        let cell = Cell::Path(JsonPath::parse(path), text("type").to_owned());
        let mut column_of = Self::new(text("name"), text("type"), text("format"), cell);
        column_of.definition["description"] = description.into();
        column_of.definition["priority"] = column["priority"].as_i64().unwrap_or_default().into();
        column_of
    }
}

/// The name, and what the definition lists; the age if it lists nothing.
fn custom_columns(columns: &[Value]) -> Vec<Column> {
    let mut all = vec![Column::new("Name", "string", "name", Cell::Name)];
    if columns.is_empty() {
        let path = JsonPath::parse(".metadata.creationTimestamp");
        all.push(Column::new(
            "Age",
            "date",
            "",
            Cell::Path(path, "date".into()),
        ));
    }
    all.extend(columns.iter().map(Column::custom));
    all
}
