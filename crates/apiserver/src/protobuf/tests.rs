//! Every kind of the table in random contents: JSON to protobuf and back is the identity, and no message panics.

use caretaker_machinery::proto::{self, DEPTH_MAX};
use caretaker_machinery::rng::Rng;
use caretaker_machinery::types::{
    FieldArity, ScalarType, StructField, TypeRef, UnionType, ValueType,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Most optional values of a random tree, and the depth below which it gets no optional structs.
const RANDOM_VALUES: usize = 60;
const RANDOM_DEPTH: usize = 8;

/// Makes trees as the decoder writes them.
struct TreeMaker {
    rng: Rng,
    values_left: usize,
}

// === impl TreeMaker ===

impl TreeMaker {
    fn chance(&mut self, one_in: usize) -> bool {
        self.rng.below(one_in) == 0
    }

    fn tree(&mut self, of: TypeRef, depth: usize) -> Map<String, Value> {
        let mut tree = Map::new();
        for (name, field) in &types().get(of).members {
            if let Some(value) = self.member(field, depth) {
                tree.insert((*name).to_owned(), value);
            }
        }
        tree
    }

    /// Returns none for a member that is left out.
    fn member(&mut self, field: &StructField, depth: usize) -> Option<Value> {
        let is_struct = matches!(field.of, ValueType::Struct(_));
        let is_nil = field.optional || field.shape != FieldArity::One;
        let is_enough = self.values_left == 0 || is_struct && depth > RANDOM_DEPTH;
        if is_nil && (is_enough || !self.chance(4)) {
            return field.always.then_some(Value::Null);
        }
        self.values_left = self.values_left.saturating_sub(1);
        let value = match field.shape {
            FieldArity::One => self.value(field.of, depth),
            FieldArity::List => (0..=self.rng.below(2))
                .map(|_| self.value(field.of, depth))
                .collect(),
            FieldArity::Map => {
                let entries = (0..=self.rng.below(2)).map(|_| {
                    let key = self.text();
                    (key, self.value(field.of, depth))
                });
                Value::Object(entries.collect())
            }
        };
        let is_zero = [json!(""), json!(0), json!(false), Value::Null].contains(&value);
        let is_left_out =
            is_zero && !field.always && !field.optional && field.shape == FieldArity::One;
        (!is_left_out).then_some(value)
    }

    fn value(&mut self, of: ValueType, depth: usize) -> Value {
        let scalar = match of {
            ValueType::Scalar(scalar) => scalar,
            ValueType::Struct(of) => return self.structure(of, depth + 1),
        };
        let number = self.rng.u64();
        match scalar {
            ScalarType::Bool => self.chance(2).into(),
            ScalarType::Bytes => ["", "YQ==", "/+8="][self.rng.below(3)].into(),
            ScalarType::Double => {
                [json!(0), json!(-3), json!(0.1), json!(1e300)][self.rng.below(4)].clone()
            }
            ScalarType::Int32 => (number as i32).into(),
            ScalarType::Int64 => (number as i64).into(),
            ScalarType::IntOrString if self.chance(2) => (number as i32).into(),
            ScalarType::IntOrString | ScalarType::String => self.text().into(),
            ScalarType::MicroTime => {
                let texts = ["2026-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z"];
                texts[self.rng.below(2)].into()
            }
            ScalarType::Quantity => {
                ["0", "1", "500m", "1Gi", "-1", "1e3"][self.rng.below(6)].into()
            }
            ScalarType::Raw => json!({"a": [1, "x", null], "b": {"c": true}}),
            ScalarType::Strings => vec![self.text(), self.text()].into(),
            ScalarType::Time => {
                ["2026-01-01T00:00:00Z", "0001-01-01T00:00:01Z"][self.rng.below(2)].into()
            }
        }
    }

    fn structure(&mut self, of: TypeRef, depth: usize) -> Value {
        let row = types().get(of);
        let Some(union) = row.union else {
            return Value::Object(self.tree(of, depth));
        };
        let Some(ValueType::Struct(schema)) = row.members.get("schema").map(|field| field.of)
        else {
            panic!("{} has no schema", row.name);
        };
        let one = |maker: &mut Self| Value::Object(maker.tree(schema, depth));
        match union {
            UnionType::SchemaOrBool if self.chance(2) => self.chance(2).into(),
            UnionType::SchemaOrArray if self.chance(2) => vec![one(self), one(self)].into(),
            UnionType::SchemaOrStrings if self.chance(2) => vec![self.text()].into(),
            _ => one(self),
        }
    }

    fn text(&mut self) -> String {
        ["", "a", "b.c/d", "é\u{1F600}", "\u{0}\"\\\n"][self.rng.below(5)].to_owned()
    }
}

fn mk_tree(of: TypeRef, seed: u64) -> Value {
    let mut maker = TreeMaker {
        rng: Rng::seeded(seed),
        values_left: RANDOM_VALUES,
    };
    Value::Object(maker.tree(of, 0))
}

/// The structs that are no part of another value: unions have no form of their own in JSON.
fn rows() -> impl Iterator<Item = TypeRef> {
    let rows = types().iter().filter(|(_, row)| row.union.is_none());
    rows.map(|(of, _)| of)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn json_to_protobuf_to_json_is_the_identity_on_every_type(seed: u64) {
        for of in rows() {
            let tree = mk_tree(of, seed);
            let message = proto::encode(types(), of, &tree).unwrap();
            let back = Value::Object(proto::decode(types(), of, &message).unwrap());
            prop_assert_eq!(&back, &tree, "{}", types().get(of).name);
            // The text of an object gives the same bytes as its tree.
            let from_text = encode_bytes(of, tree.to_string().as_bytes()).unwrap();
            prop_assert_eq!(&from_text, &message, "{}", types().get(of).name);
        }
    }

    #[test]
    fn altered_messages_of_every_type_do_no_harm(seed: u64, at: usize, byte: u8) {
        for of in rows() {
            let mut message = proto::encode(types(), of, mk_tree(of, seed)).unwrap();
            let length = message.len().max(1);
            if let Some(old) = message.get_mut(at % length) {
                *old = byte;
            }
            message.truncate(at / 7 % (length + 100));
            if let Ok(tree) = proto::decode(types(), of, &message) {
                let text = serde_json::to_vec(&tree).unwrap();
                // What is accepted can be stored, and written again.
                prop_assert!(serde_json::from_slice::<Value>(&text).is_ok());
                prop_assert!(encode_bytes(of, &text).is_ok());
            }
        }
    }

    #[test]
    fn no_bytes_of_any_type_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        for of in rows() {
            let _ = proto::decode(types(), of, &bytes);
        }
        let _ = decode(&bytes);
        let _ = decode(&[b"k8s\0", &bytes[..]].concat());
    }
}

#[test]
fn objects_and_lists_keep_their_names() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    assert_eq!(decode(&encode(&map).unwrap()), Ok(map.clone()));
    let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "5"},
        "items": [{"metadata": {"name": "a"}, "data": {"k": "v"}}]});
    assert_eq!(decode(&encode(&list).unwrap()), Ok(list));
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404});
    assert_eq!(decode(&encode(&status).unwrap()), Ok(status));
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    assert!(encode(&widget).is_err());
}

#[test]
fn nested_schemas_are_bounded_as_in_json() {
    let of = named("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let mut schema = Vec::new();
    for _ in 0..DEPTH_MAX {
        let mut outer = Vec::new();
        proto::push_message(&mut outer, 28, &schema);
        schema = outer;
    }
    for number in [1, 4, 7, 2] {
        let mut outer = Vec::new();
        proto::push_message(&mut outer, number, &schema);
        schema = outer;
    }
    assert_eq!(
        proto::decode(types(), of, &schema),
        Err(ProtoError::TooDeep)
    );
}
