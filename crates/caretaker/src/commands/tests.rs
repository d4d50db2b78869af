use caretaker_controllers::runtime::kind::{ApiKind, KindScope, KindVerbs};
use jiff::Timestamp;

use super::*;

fn mk_catalog(resources: impl Iterator<Item = String>) -> KindCatalog {
    KindCatalog::default().with(resources.map(|resource| ApiKind {
        group: "".into(),
        version: "v1".into(),
        kind: "K".into(),
        resource: resource.into(),
        scope: KindScope::Namespaced,
        verbs: KindVerbs::default(),
        versions: vec!["v1".into()],
        aliases: Vec::new(),
    }))
}

#[test]
fn missing_kinds_are_named_by_reason() {
    let names = ["as", "bs", "cs", "ds", "es"];
    let catalog = mk_catalog(names.iter().map(ToString::to_string));
    let states = [
        KindState::Synced,
        KindState::Forbidden,
        KindState::Failing(Timestamp::UNIX_EPOCH),
        KindState::Syncing(Timestamp::UNIX_EPOCH),
        KindState::Frozen,
    ];
    let states: BTreeMap<KindId, KindState> = (0..).map(KindId).zip(states).collect();
    assert_eq!(
        gaps(&catalog, &states, 2),
        [
            "missing in this output: bs (forbidden to list)",
            "missing in this output: cs (the server failed to list them)",
            "missing in this output: ds, es (not listed within 30 s)",
            "missing in this output: 2 objects that cannot be parsed",
        ]
    );
    let synced = BTreeMap::from([(KindId(0), KindState::Synced)]);
    assert_eq!(gaps(&catalog, &synced, 0), Vec::<String>::new());
}

#[test]
fn many_forbidden_kinds_are_one_line() {
    let catalog = mk_catalog((0..57).map(|number| format!("k{number:02}")));
    let states = catalog.iter().map(|(id, _)| (id, KindState::Forbidden));
    let sentences = gaps(&catalog, &states.collect(), 0);
    assert_eq!(sentences.len(), 1);
    assert!(
        sentences[0].contains("k08, k09 and 47 more (forbidden"),
        "{sentences:?}"
    );
}
