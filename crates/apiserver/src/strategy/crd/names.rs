//! Names of custom kinds: each is accepted unless another definition of the same group has it.

use serde_json::{Value, json};

use super::set_condition;
use crate::kinds::KindTable;
use crate::metadata::{self, ObjectTree, value_at};
use crate::strategy::WriteContext;

/// Accepts each name unless another definition of the group has it, and establishes the kind if all are free.
pub(super) fn accept(object: &ObjectTree, status: &mut Value, context: WriteContext<'_>) {
    let WriteContext { kinds, now, .. } = context;
    let spec = object.get("spec").cloned().unwrap_or_default();
    let names = &spec["names"];
    if !status["acceptedNames"].is_object() {
        status["acceptedNames"] = json!({"plural": "", "kind": ""});
    }
    let taken = TakenNames::by_others(object, kinds);
    let mut refused = None;
    for (field, reason) in NAMES {
        match taken.find(field, &names[field]) {
            Some(name) => refused = Some((reason, format!("{name:?} is already in use"))),
            None if names[field].is_null() => {}
            None => status["acceptedNames"][field] = names[field].clone(),
        }
    }
    match refused {
        None => {
            let why = ("NoConflicts", "no conflicts found");
            set_condition(status, "NamesAccepted", "True", why, now);
            let message = "the initial names have been accepted";
            let why = ("InitialNamesAccepted", message);
            set_condition(status, "Established", "True", why, now);
        }
        Some((reason, message)) => {
            set_condition(status, "NamesAccepted", "False", (reason, &message), now);
            if !metadata::is_true(status, "Established") {
                let why = ("NotAccepted", "not all names are accepted");
                set_condition(status, "Established", "False", why, now);
            }
        }
    }
}

/// The name fields of a definition in the order of the checks, and the reason of the condition that a conflict sets.
const NAMES: [(&str, &str); 6] = [
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
    ("categories", ""),
];

/// Names that other definitions of a group have.
#[derive(Default)]
struct TakenNames {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl TakenNames {
    fn by_others(object: &ObjectTree, kinds: &KindTable) -> Self {
        let uid = metadata::text(object, "uid");
        let group = value_at(object, "/spec/group").as_str().unwrap_or_default();
        let mut taken = Self::default();
        let others = kinds.iter().filter(|kind| {
            kind.group == group && kind.custom.as_ref().is_none_or(|custom| custom.uid != uid)
        });
        for other in others {
            let names = [&other.plural, &other.singular].into_iter();
            taken
                .resources
                .extend(names.chain(&other.short_names).cloned());
            taken
                .kinds
                .extend([&other.kind, &other.list_kind].map(String::clone));
        }
        taken
    }

    /// Returns the first name in `value` that is taken.
    fn find<'a>(&self, field: &str, value: &'a Value) -> Option<&'a str> {
        let taken = match field {
            "kind" | "listKind" => &self.kinds,
            "categories" => return None,
            _ => &self.resources,
        };
        let names = match value {
            Value::Array(names) => names.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut names = names.iter().filter_map(Value::as_str);
        names.find(|name| taken.iter().any(|other| other == name))
    }
}
