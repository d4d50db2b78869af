//! Messages of a small table: what the decoder accepts, refuses and bounds, and what the encoder writes.
//!
//! `cargo xtask conformance protobuf` compares the whole table with upstream's own samples.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{DEPTH_MAX, VALUES_MAX, decode, encode};
use crate::types::TypeTable;

static TABLE: LazyLock<TypeTable> = LazyLock::new(|| {
    TypeTable::parse(concat!(
        "a.v1.Thing\tmetadata/ObjectMeta:1+a.v1.Meta count:2int32 big:3*int64 flag:4+bool ratio:5*double when:6+time ",
        "at:7*microtime size:8{}quantity port:9*intorstring data:10bytes raw:11*raw verbs:12strings numbers:13[]int32 ",
        "parts:14[]a.v1.Part inner:15^a.v1.Inner next:16*a.v1.Thing files:17{}bytes\n",
        "a.v1.Meta\tname:1string uid/UID:5string labels:11{}string\n",
        "a.v1.Part\tid/ID:1+string\n",
        "a.v1.Inner\thost:1string part:2+a.v1.Part\n",
    ))
    .unwrap()
});

fn read(message: &[u8]) -> Result<Value, String> {
    let of = TABLE.named("a.v1.Thing").unwrap();
    let read = decode(&TABLE, of, message);
    read.map(Value::Object).map_err(|error| error.to_string())
}

fn write(tree: &Value) -> Vec<u8> {
    encode(&TABLE, TABLE.named("a.v1.Thing").unwrap(), tree).unwrap()
}

/// The members that every Thing has.
fn mk_thing(more: &Value) -> Value {
    let mut thing = json!({"metadata": {}, "flag": false, "when": null, "part": {"id": ""}});
    for (name, value) in more.as_object().unwrap() {
        thing[name] = value.clone();
    }
    thing
}

/// The message of a field of bytes.
fn mk_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    super::push_message(&mut field, number.into(), bytes);
    field
}

#[test]
fn empty_messages_have_the_members_that_are_always_written() {
    assert_eq!(read(&[]), Ok(mk_thing(&json!({}))));
    // Structs and scalars that are no pointers are written, pointers, lists and maps are not.
    let zeros = [
        &[0x0a, 4, 0x0a, 0, 0x2a, 0][..],
        &[0x10, 0, 0x20, 0, 0x32, 0],
        &[0x7a, 6, 0x0a, 0, 0x12, 2, 0x0a, 0],
    ];
    assert_eq!(write(&json!({})), zeros.concat());
}

#[test]
fn values_of_each_type_are_read_and_written() {
    let table = [
        json!({"count": -1}),
        json!({"big": 0}),
        json!({"flag": true}),
        json!({"ratio": 0.5}),
        json!({"ratio": 10}),
        json!({"when": "2026-01-01T00:00:00Z"}),
        json!({"when": "0001-01-01T00:00:01Z"}),
        json!({"at": "2026-01-01T00:00:00.123456Z"}),
        json!({"at": "1969-12-31T23:59:59.500000Z"}),
        json!({"size": {"cpu": "500m", "memory": "1Gi"}}),
        json!({"port": 80}),
        json!({"port": "web"}),
        json!({"data": "YQ=="}),
        json!({"raw": {"a": [1, null, "x"]}}),
        json!({"verbs": ["get", ""]}),
        json!({"numbers": [1, -1, 0]}),
        json!({"parts": [{"id": "a"}, {"id": ""}]}),
        json!({"host": "h", "part": {"id": "p"}}),
        json!({"next": mk_thing(&json!({"count": 1}))}),
        json!({"files": {"a": "", "b": "YQ=="}}),
        json!({"metadata": {"name": "n", "uid": "u", "labels": {"a": "", "é": "x"}}}),
    ];
    for more in table {
        let thing = mk_thing(&more);
        assert_eq!(read(&write(&thing)), Ok(thing.clone()), "{thing}");
    }
}

#[test]
fn writes_the_bytes_of_upstream() {
    let table: [(Value, &[u8]); 8] = [
        (
            json!({"port": "web"}),
            b"\x4a\x09\x08\x01\x10\x00\x1a\x03web",
        ),
        (json!({"port": 80}), b"\x4a\x06\x08\x00\x10\x50\x1a\x00"),
        (
            json!({"size": {"b": "1", "a": "2"}}),
            b"\x42\x08\x0a\x01a\x12\x03\x0a\x012\x42\x08\x0a\x01b\x12\x03\x0a\x011",
        ),
        (
            json!({"at": "1970-01-01T00:00:01.000002Z"}),
            b"\x3a\x05\x08\x01\x10\xd0\x0f",
        ),
        (
            json!({"raw": {"b": 1, "a": null}}),
            b"\x5a\x12\x0a\x10{\"a\":null,\"b\":1}",
        ),
        (json!({"verbs": ["get"]}), b"\x62\x05\x0a\x03get"),
        (json!({"numbers": [1, 2]}), b"\x68\x01\x68\x02"),
        (json!({"ratio": 1}), b"\x29\x00\x00\x00\x00\x00\x00\xf0\x3f"),
    ];
    for (more, field) in table {
        let message = write(&more);
        let found = message.windows(field.len()).any(|bytes| bytes == field);
        assert!(found, "{more}: {message:x?}");
    }
}

#[test]
fn repeated_fields_are_merged_or_replaced() {
    let first = mk_field(1, b"\x0a\x01a\x2a\x01u");
    let second = mk_field(1, b"\x0a\x01b");
    let merged = mk_thing(&json!({"metadata": {"name": "b", "uid": "u"}}));
    assert_eq!(read(&[first.clone(), second].concat()), Ok(merged));
    // A zero that comes later counts.
    let zero = mk_field(1, b"\x0a\x00\x2a\x00");
    assert_eq!(read(&[first, zero].concat()), Ok(mk_thing(&json!({}))));
    let parts = [mk_field(14, b"\x0a\x01a"), mk_field(14, b"")].concat();
    let listed = json!({"parts": [{"id": "a"}, {"id": ""}]});
    assert_eq!(read(&parts), Ok(mk_thing(&listed)));
}

#[test]
fn accepts_what_upstream_accepts() {
    let table: [(&[u8], Value); 10] = [
        // Packed numbers, and numbers of more bits than their type.
        (b"\x6a\x02\x01\x02", json!({"numbers": [1, 2]})),
        (b"\x10\x87\x80\x80\x80\x10", json!({"count": 7})),
        (b"\x20\x05", json!({"flag": true})),
        // Unknown fields and groups.
        (b"\xa2\x06\x01x\xa8\x06\x01", json!({})),
        (b"\xa3\x06\x08\x01\xab\x06\xac\x06\xa4\x06", json!({})),
        // Map entries without key or value, with both twice, and of other wire types.
        (b"\x42\x00", json!({"size": {"": "0"}})),
        (
            b"\x42\x09\x0a\x01a\x0a\x01b\x1a\x01x",
            json!({"size": {"b": "0"}}),
        ),
        (b"\x8a\x01\x03\x08\x01a", json!({"files": {"a": ""}})),
        // Bytes that are no text become one replacement character each.
        (
            b"\x0a\x06\x0a\x04a\xff\xe2\x82",
            json!({"metadata": {"name": "a\u{fffd}\u{fffd}\u{fffd}"}}),
        ),
        // A time with no fields is Go's zero time; nanoseconds of a time are dropped.
        (
            b"\x32\x06\x08\x01\x10\xff\xff\x7f",
            json!({"when": "1970-01-01T00:00:01Z"}),
        ),
    ];
    for (message, more) in table {
        assert_eq!(read(message), Ok(mk_thing(&more)), "{message:x?}");
    }
}

#[test]
fn refuses_malformed_messages_in_the_words_of_upstream() {
    let table: [(&[u8], &str); 22] = [
        (b"\x0a", "unexpected EOF"),
        (b"\x0a\x05ab", "unexpected EOF"),
        (b"\x10\x80", "unexpected EOF"),
        (b"\x29\x00", "unexpected EOF"),
        (
            b"\x08\x01",
            "proto: wrong wireType = 0 for field ObjectMeta",
        ),
        (b"\x0b", "proto: wrong wireType = 3 for field ObjectMeta"),
        (b"\x0e", "proto: wrong wireType = 6 for field ObjectMeta"),
        (
            b"\x0a\x02\x28\x01",
            "proto: wrong wireType = 0 for field UID",
        ),
        (b"\x28\x01", "proto: wrong wireType = 0 for field Ratio"),
        (b"\x0c", "proto: Thing: wiretype end group for non-group"),
        (
            b"\x0a\x01\x0c",
            "proto: Meta: wiretype end group for non-group",
        ),
        (b"\x00\x01", "proto: Thing: illegal tag 0 (wire type 0)"),
        (
            b"\x82\x80\x80\x80\x80\x01",
            "proto: Thing: illegal tag 0 (wire type 34359738370)",
        ),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "proto: negative length found during unmarshaling",
        ),
        (b"\x0a\xff\xff\xff\xff\x07", "unexpected EOF"),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "proto: integer overflow",
        ),
        (b"\xa6\x06", "proto: illegal wireType 6"),
        (b"\xa3\x06", "unexpected EOF"),
        (
            b"\x42\x07\x0a\x01a\x12\x02\x0a\x00",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (b"\x4a\x02\x08\x07", "Port: impossible IntOrString.Type"),
        (
            b"\x32\x07\x08\x80\x83\xd1\xff\xaf\x07",
            "When: the time is not in the years 0 to 9999",
        ),
        (
            b"\x29\x00\x00\x00\x00\x00\x00\xf8\x7f",
            "Ratio: json: unsupported value: NaN",
        ),
    ];
    for (message, why) in table {
        assert_eq!(read(message), Err(why.to_owned()), "{message:x?}");
    }
    let raw = mk_field(11, &mk_field(1, b"{bad"));
    assert!(
        read(&raw).unwrap_err().starts_with("Raw: "),
        "{:?}",
        read(&raw)
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| (1..depth).fold(Vec::new(), |inner, _| mk_field(16, &inner));
    // Two structs that every Thing contains are one level deeper than it.
    assert!(read(&nested(DEPTH_MAX - 1)).is_ok());
    assert_eq!(
        read(&nested(DEPTH_MAX)),
        Err("proto: nested too deeply".into())
    );
    assert_eq!(read(&nested(3_000)), Err("proto: nested too deeply".into()));
    let json = |depth: usize| mk_field(11, &mk_field(1, "[".repeat(depth).as_bytes()));
    assert!(read(&json(100_000)).is_err());
    let closed = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let within = |depth: usize| mk_field(16, &mk_field(11, &mk_field(1, closed(depth).as_bytes())));
    assert!(read(&within(DEPTH_MAX - 2)).is_ok());
    assert_eq!(
        read(&within(DEPTH_MAX - 1)),
        Err("proto: nested too deeply".into())
    );
}

#[test]
fn number_of_values_is_bounded() {
    let parts = |count: usize| mk_field(14, b"").repeat(count);
    assert!(read(&parts(VALUES_MAX / 2 - 100)).is_ok());
    assert_eq!(
        read(&parts(VALUES_MAX)),
        Err("proto: too many values".into())
    );
    let packed = mk_field(13, &vec![0; VALUES_MAX + 1]);
    assert_eq!(read(&packed), Err("proto: too many values".into()));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_altered_message_panics(at in 0_usize..200, byte: u8, cut in 0_usize..200) {
        let mut message = write(&mk_thing(&json!({"count": 5, "at": "2026-01-01T00:00:00.123456Z",
            "size": {"cpu": "1"}, "port": "web", "raw": {"a": [1]}, "verbs": ["x"], "numbers": [1, 2],
            "parts": [{"id": "a"}], "next": mk_thing(&json!({"data": "YQ=="})), "files": {"a": "YQ=="}})));
        message.truncate(message.len() - cut.min(message.len()));
        if let Some(old) = message.get_mut(at) {
            *old = byte;
        }
        // What is accepted can be written, and reads the same.
        if let Ok(tree) = read(&message) {
            prop_assert_eq!(read(&write(&tree)), Ok(tree));
        }
    }
}
