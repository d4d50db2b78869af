//! An object decodes to the same record from both forms; a malformed message is an error, a missing field is not.

use super::super::{RecordView, decode};
use super::*;

/// A field that holds bytes.
fn put(message: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(message, u64::from(number) << 3 | 2);
    varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// A field that holds a number.
fn put_number(message: &mut Vec<u8>, number: u32, value: u64) {
    varint(message, u64::from(number) << 3);
    varint(message, value);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

fn mk_metadata() -> Vec<u8> {
    let mut time = Vec::new();
    put_number(&mut time, 1, 1_772_366_400);
    let mut owner = Vec::new();
    put(&mut owner, 1, b"ReplicaSet");
    put(&mut owner, 3, b"web");
    put(&mut owner, 4, b"0a1b2c3d-0000-4000-8000-00000000abcd");
    put(&mut owner, 5, b"apps/v1");
    put_number(&mut owner, 6, 1);
    put_number(&mut owner, 7, 0);
    let mut metadata = Vec::new();
    put(&mut metadata, 1, b"web-1");
    put(&mut metadata, 2, b"web-");
    put(&mut metadata, 3, b"shop");
    put(&mut metadata, 5, b"odd uid");
    put(&mut metadata, 6, b"42");
    put_number(&mut metadata, 7, 3);
    put(&mut metadata, 9, &time);
    put(&mut metadata, 11, b"\x0a\x01a\x12\x01b");
    put(&mut metadata, 13, &owner);
    put(&mut metadata, 13, b"");
    put(&mut metadata, 14, b"foregroundDeletion");
    put(&mut metadata, 14, b"example.com/a");
    put(&mut metadata, 17, b"anything at all");
    metadata
}

fn mk_object(metadata: &[u8]) -> Vec<u8> {
    let mut object = Vec::new();
    put(&mut object, 1, metadata);
    object
}

#[test]
fn an_object_reads_as_it_does_from_json() {
    let json = br#"{"metadata": {"name": "web-1", "generateName": "web-", "namespace": "shop", "uid": "odd uid",
        "resourceVersion": "42", "generation": 3, "deletionTimestamp": "2026-03-01T12:00:00Z", "labels": {"a": "b"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true,
            "uid": "0a1b2c3d-0000-4000-8000-00000000abcd", "blockOwnerDeletion": false}, {}],
        "finalizers": ["foregroundDeletion", "example.com/a"]}}"#;
    let expected = decode(KindId(3), json, RecordView::Metadata).unwrap();
    let read = decode_partial(KindId(3), &mk_object(&mk_metadata()));
    assert_eq!(read, Ok(expected));
}

#[test]
fn what_cannot_be_read_keeps_its_name() {
    let mut cut_off = mk_metadata();
    cut_off.truncate(cut_off.len() - 3);
    let mut no_text = mk_metadata();
    put(&mut no_text, 14, b"\xff");
    let mut no_time = mk_metadata();
    put(&mut no_time, 9, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
    for metadata in [cut_off, no_text, no_time] {
        let read = decode_partial(KindId(0), &mk_object(&metadata)).unwrap_err();
        assert_eq!(read.name.as_deref(), Some("shop/web-1"));
        assert_eq!(read.uid, Some(Uid::from("odd uid")));
        assert_eq!(read.revision, Some("42".into()));
    }
    let read = decode_partial(KindId(0), &[]).unwrap_err();
    assert_eq!(read.error, DecodeError::NoName);
    let mut named = Vec::new();
    put(&mut named, 1, b"a");
    let read = decode_partial(KindId(0), &mk_object(&named)).unwrap_err();
    assert_eq!(
        (read.error, read.name.as_deref()),
        (DecodeError::NoUid, Some("a"))
    );
}

#[test]
fn times_before_1970_are_times() {
    let mut time = Vec::new();
    put_number(&mut time, 1, (-62_135_596_800_i64).cast_unsigned());
    assert_eq!(
        read_time(&time).unwrap().to_string(),
        "0001-01-01T00:00:00Z"
    );
    assert_eq!(read_time(&[]), Ok(Timestamp::UNIX_EPOCH));
}

#[test]
fn a_frame_is_an_event_and_an_object() {
    let mut extension = Vec::new();
    put(&mut extension, 1, b"k8s\0...");
    let mut frame = Vec::new();
    put(&mut frame, 1, b"DELETED");
    put(&mut frame, 2, &extension);
    assert_eq!(watch_event(&frame), Ok(("DELETED", &b"k8s\0..."[..])));
    assert_eq!(watch_event(b"\x0a\x7f"), Err(MalformedProto));
}
