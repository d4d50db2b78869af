//! Random changes of an object, guided by its type: values stay of the right type in JSON, so that validation decides and
//! not the decoder.

use caretaker_apiserver::types;
use caretaker_machinery::rng::Rng;
use caretaker_machinery::types::{FieldArity, ScalarType, StructField, TypeRef, ValueType};
use serde_json::{Map, Value, json};

/// Levels of structs that a new value has.
const NEW_DEPTH: usize = 2;
/// Fields that no change touches: they decide where the object goes, or have a differential run of their own.
const KEPT: [&str; 5] = ["apiVersion", "kind", "status", "schema", "managedFields"];

const TEXTS: [&str; 26] = [
    "",
    "a",
    "b-1",
    "A_b",
    "-x",
    "x.example.com",
    "example.com/x",
    "a/b/c",
    "/abs",
    "/a/../b",
    "../up",
    "a b",
    "10.0.0.1",
    "010.0.0.1",
    "::1",
    "10.0.0.0/8",
    "1.2.3",
    "*",
    "*.example.com",
    "0",
    "1Gi",
    "metadata.name",
    "kubernetes.io/x",
    "ü",
    "v1",
    "default",
];
const WORDS: [&str; 38] = [
    "Always",
    "Never",
    "OnFailure",
    "IfNotPresent",
    "TCP",
    "UDP",
    "SCTP",
    "ClusterFirst",
    "Default",
    "None",
    "In",
    "NotIn",
    "Exists",
    "DoesNotExist",
    "Gt",
    "Equal",
    "NoSchedule",
    "NoExecute",
    "Retain",
    "Delete",
    "Recycle",
    "ReadWriteOnce",
    "ReadWriteOncePod",
    "Block",
    "ClusterIP",
    "NodePort",
    "LoadBalancer",
    "ExternalName",
    "Local",
    "Cluster",
    "Indexed",
    "Recreate",
    "OnDelete",
    "RollingUpdate",
    "Utilization",
    "Localhost",
    "Role",
    "Exact",
];
const NUMBERS: [i64; 10] = [-1, 0, 1, 2, 5, 100, 101, 4000, 65_536, 2_147_483_647];
const QUANTITIES: [&str; 6] = ["0", "1", "-1", "1.5", "100m", "2Gi"];
const PORTS: [&str; 6] = ["web", "50%", "150%", "x_y", "-1%", ""];

/// A value in an object, with the field that it belongs to.
struct ValuePlace {
    pointer: String,
    field: StructField,
    /// Whether this is one of the values of the field.
    is_item: bool,
}

/// Changes an object in one or two places. Returns the changes in words.
pub(super) fn change(rng: &mut Rng, object: &mut Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let Some(of) = types::named(text("apiVersion"), text("kind")) else {
        return String::new();
    };
    let count = 1 + rng.below(4) / 3;
    let changes: Vec<String> = (0..count).map(|_| change_once(rng, object, of)).collect();
    changes.join("; ")
}

fn change_once(rng: &mut Rng, object: &mut Value, of: TypeRef) -> String {
    let mut places = Vec::new();
    collect(of, object, "", &mut places);
    if places.is_empty() || rng.below(8) == 0 {
        return add_member(rng, object, of, "");
    }
    let place = &places[rng.below(places.len())];
    let Some(value) = object.pointer_mut(&place.pointer) else {
        return String::new();
    };
    let (at, shape) = (&place.pointer, place.field.shape);
    match (value, place.field.of) {
        (value, _) if !place.is_item && rng.below(6) == 0 => {
            *value = Value::Null;
            format!("remove {at}")
        }
        (Value::Array(items), _) if !place.is_item && shape == FieldArity::List => {
            change_list(rng, items, place)
        }
        (value @ Value::Object(_), ValueType::Struct(of))
            if place.is_item || shape == FieldArity::One =>
        {
            add_member(rng, value, of, at)
        }
        (Value::Object(members), of) if !place.is_item => {
            let key = pick(rng, &TEXTS).to_owned();
            let new = new_value(rng, of, NEW_DEPTH);
            let text = format!("set {at}/{key} to {new}");
            members.insert(key, new);
            text
        }
        (value, of) => {
            *value = new_value(rng, of, NEW_DEPTH);
            format!("set {at} to {value}")
        }
    }
}

fn change_list(rng: &mut Rng, items: &mut Vec<Value>, place: &ValuePlace) -> String {
    let at = &place.pointer;
    match rng.below(4) {
        0 => {
            items.clear();
            format!("empty {at}")
        }
        1 if !items.is_empty() => {
            let item = items[rng.below(items.len())].clone();
            items.push(item);
            format!("repeat an item of {at}")
        }
        2 if !items.is_empty() => {
            let index = rng.below(items.len());
            items.remove(index);
            format!("remove {at}/{index}")
        }
        _ => {
            let new = new_value(rng, place.field.of, NEW_DEPTH);
            let text = format!("add {new} to {at}");
            items.push(new);
            text
        }
    }
}

/// Sets a member of a struct that may not have been there.
fn add_member(rng: &mut Rng, object: &mut Value, of: TypeRef, at: &str) -> String {
    let members = &types::types().get(of).members;
    let members = members.iter().filter(|(name, _)| !KEPT.contains(name));
    let members: Vec<_> = members.collect();
    if members.is_empty() {
        return String::new();
    }
    let (name, field) = members[rng.below(members.len())];
    let new = new_field(rng, *field, NEW_DEPTH);
    let text = format!("set {at}/{name} to {new}");
    object[*name] = new;
    text
}

/// Collects the places below a struct.
fn collect(of: TypeRef, object: &Value, at: &str, places: &mut Vec<ValuePlace>) {
    for (name, member) in object.as_object().into_iter().flatten() {
        let Some(field) = types::types().get(of).members.get(name.as_str()) else {
            continue;
        };
        if KEPT.contains(&name.as_str()) {
            continue;
        }
        let pointer = format!("{at}/{}", escaped(name));
        let mut push = |pointer: String, value: &Value, is_item: bool| {
            let is_struct = is_item || field.shape == FieldArity::One;
            if let (ValueType::Struct(of), true) = (field.of, is_struct) {
                collect(of, value, &pointer, places);
            }
            places.push(ValuePlace {
                pointer,
                field: *field,
                is_item,
            });
        };
        match (field.shape, member) {
            (FieldArity::List, Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    push(format!("{pointer}/{index}"), item, true);
                }
            }
            (FieldArity::Map, Value::Object(items)) => {
                for (key, item) in items {
                    push(format!("{pointer}/{}", escaped(key)), item, true);
                }
            }
            _ => {}
        }
        push(pointer, member, false);
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn new_field(rng: &mut Rng, field: StructField, depth: usize) -> Value {
    match field.shape {
        FieldArity::One => new_value(rng, field.of, depth),
        FieldArity::List => {
            let count = rng.below(3);
            (0..count)
                .map(|_| new_value(rng, field.of, depth))
                .collect()
        }
        FieldArity::Map => json!({pick(rng, &TEXTS): new_value(rng, field.of, depth)}),
    }
}

fn new_value(rng: &mut Rng, of: ValueType, depth: usize) -> Value {
    match of {
        ValueType::Scalar(scalar) => new_scalar(rng, scalar),
        ValueType::Struct(_) if depth == 0 => json!({}),
        ValueType::Struct(of) => {
            let mut members = Map::new();
            for (name, field) in &types::types().get(of).members {
                let is_likely = field.always || rng.below(3) == 0;
                if is_likely && !KEPT.contains(name) {
                    members.insert((*name).to_owned(), new_field(rng, *field, depth - 1));
                }
            }
            members.into()
        }
    }
}

fn new_scalar(rng: &mut Rng, scalar: ScalarType) -> Value {
    let number = |rng: &mut Rng| json!(NUMBERS[rng.below(NUMBERS.len())]);
    match scalar {
        ScalarType::Bool => json!(rng.below(2) == 0),
        ScalarType::Bytes => json!("YQ=="),
        ScalarType::Double => json!(0.5),
        ScalarType::Int32 | ScalarType::Int64 => number(rng),
        ScalarType::IntOrString if rng.below(2) == 0 => number(rng),
        ScalarType::IntOrString => json!(pick(rng, &PORTS)),
        ScalarType::MicroTime => json!("2024-01-01T00:00:00.000000Z"),
        ScalarType::Time => json!("2024-01-01T00:00:00Z"),
        ScalarType::Quantity => json!(pick(rng, &QUANTITIES)),
        ScalarType::Raw => json!({"a": 1}),
        ScalarType::Strings => json!([pick(rng, &TEXTS)]),
        ScalarType::String => match rng.below(12) {
            0 => json!("x".repeat(64)),
            1 => json!("x".repeat(254)),
            2..=5 => json!(pick(rng, &WORDS)),
            _ => json!(pick(rng, &TEXTS)),
        },
    }
}

fn pick(rng: &mut Rng, from: &[&'static str]) -> &'static str {
    from[rng.below(from.len())]
}
