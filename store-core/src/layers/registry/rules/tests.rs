//! Tests of the rules of the registry.

use std::collections::BTreeMap;

use super::{Plan, check_entry, content_hash, encoded, pin_changes, plan_archival, plan_publication};
use crate::{
    Document, DocumentChange, DocumentExpect, DocumentOp, DocumentRef, ErrorKind, Json,
    codec::{Codec, Extra},
    document::StoredDocument,
    layers::{
        audit::NewAudit,
        registry::{
            DefinitionRef, NewVersion, PublicationEntry, PublishAll, PublishedVersion, VersionContent, VersionRef,
            keys::{self, Loaded, MARKS, VERSIONS},
            record::DefinitionState,
        },
    },
};

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn name(id: &str) -> DefinitionRef {
    DefinitionRef::new("agent".parse().unwrap(), id.parse().unwrap()).unwrap()
}

fn content(value: &str) -> VersionContent {
    VersionContent {
        hash: content_hash(1, &json(value)).unwrap(),
        schema_version: 1,
        value: json(value),
        metadata: None,
        copied_from: None,
        extra: Extra::default(),
    }
}

/// Documents that are stored with the revision 7.
#[derive(Default)]
struct Stored(BTreeMap<DocumentRef, Json>);

impl Stored {
    fn with(mut self, document: DocumentRef, value: &impl Codec) -> Self {
        self.0.insert(document, encoded(value).unwrap());
        self
    }

    /// A definition whose versions from 1 on have these values.
    fn definition(mut self, id: &str, values: &[&str], archived: bool) -> Self {
        for (value, version) in values.iter().zip(1..) {
            let document = name(id).at(version).in_collection(VERSIONS).unwrap();
            self = self.with(document, &content(value));
        }
        let (current, hash) = (values.len() as u64, content(values.last().unwrap()).hash);
        let state = DefinitionState { current, hash, archived, extra: Extra::default() };
        self.with(name(id).document().unwrap(), &state)
    }

    fn publication(self, id: &str, snapshot: u64) -> Self {
        self.with(keys::publication_id(&id.parse().unwrap()).unwrap(), &snapshot)
    }

    fn load(&self) -> Loaded {
        let to_document = |(document, value): (&DocumentRef, &Json)| {
            let raw = format!(r#"{{"value":{value},"revision":7,"created_at":1,"updated_at":2}}"#);
            Document::new(document.clone(), StoredDocument::read(&raw).unwrap())
        };
        Loaded(self.0.iter().map(|stored| (stored.0.clone(), to_document(stored))).collect())
    }
}

fn new_version(id: &str, value: &str) -> NewVersion {
    NewVersion::new(name(id), json(value))
}

#[test]
fn the_content_hash_does_not_change_rg_3() {
    let hash = |text: &str| content_hash(1, &json(text)).unwrap();
    assert_eq!(hash("{}"), format!("sha256-jcs:{}", crate::codec::sha256_hex(r#"{"schema_version":1,"value":{}}"#)));
    assert_eq!(hash(r#"{"a":1,"b":"é"}"#), hash(r#"{ "b" : "\u00e9", "a" : 1.0 }"#));
    assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":"1"}"#));
    assert_ne!(hash("{}"), content_hash(2, &json("{}")).unwrap());
    assert_eq!(content_hash(1, &json(r#"{"a":1,"a":2}"#)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn only_changed_content_gets_a_version_rg_1() {
    let check = |stored: Stored, new: &NewVersion, wanted: Result<(u64, bool), ErrorKind>| {
        let published = Plan::default().add_version(new, None, &stored.load());
        let found = published.map(|PublishedVersion { name, created, .. }| (name.version, created));
        assert_eq!(found.map_err(|error| error.kind()), wanted, "{new:?}");
    };
    let stored = || Stored::default().definition("a", &["1", "2"], false);
    check(Stored::default(), &new_version("a", "1"), Ok((1, true)));
    check(stored(), &new_version("a", "2"), Ok((2, false)));
    check(stored(), &new_version("a", "2.0"), Ok((2, false)));
    check(stored(), &new_version("a", "1"), Ok((3, true)));
    check(stored(), &new_version("a", "3"), Ok((3, true)));
    check(stored(), &NewVersion { schema_version: 2, ..new_version("a", "2") }, Ok((3, true)));
    check(stored(), &NewVersion { schema_version: 0, ..new_version("a", "2") }, Err(ErrorKind::Invalid));
    check(stored(), &new_version("a", "1e999"), Err(ErrorKind::Invalid));
    let archived = || Stored::default().definition("a", &["1"], true);
    check(archived(), &new_version("a", "2"), Err(ErrorKind::InvalidTransition));
    check(archived(), &new_version("a", "1"), Err(ErrorKind::InvalidTransition));
}

#[test]
fn a_version_is_written_only_over_what_was_read_rg_4() {
    let expectations = |stored: &Stored| {
        let mut plan = Plan::default();
        plan.add_version(&new_version("a", "3"), None, &stored.load()).unwrap();
        plan.changes.iter().map(|change| change.expect).collect::<Vec<_>>()
    };
    let stored = Stored::default().definition("a", &["1"], false);
    assert_eq!(expectations(&stored), [DocumentExpect::Revision(7), DocumentExpect::Absent]);
    assert_eq!(expectations(&Stored::default()), [DocumentExpect::Absent, DocumentExpect::Absent]);
}

fn check_publication(stored: &Stored, latest: u64, request: &PublishAll, wanted: Result<&str, ErrorKind>) {
    let planned = plan_publication(request, latest, &stored.load()).map(|(snapshot, content, _)| {
        let names: Vec<_> = content.entries.iter().map(|entry| entry.name().to_string()).collect();
        format!("{snapshot}: {}", names.join(" "))
    });
    assert_eq!(planned.map_err(|error| error.kind()), wanted.map(str::to_owned), "{request:?}");
}

fn request(new: &[(&str, &str)], existing: &[(&str, u64)]) -> PublishAll {
    let mut request = PublishAll::new("p".parse().unwrap());
    request.versions = new.iter().map(|(id, value)| new_version(id, value)).collect();
    request.existing = existing.iter().map(|(id, version)| name(id).at(*version)).collect();
    request
}

#[test]
fn a_publication_names_each_definition_once_rg_7() {
    let stored = Stored::default().definition("a", &["1", "2"], false).definition("old", &["1"], true);
    check_publication(&stored, 0, &request(&[("b", "1")], &[("a", 1)]), Ok("1: agent/b@1 agent/a@1"));
    check_publication(&stored, 0, &request(&[("a", "2"), ("b", "1")], &[]), Ok("1: agent/a@2 agent/b@1"));
    check_publication(&stored, 0, &request(&[], &[]), Err(ErrorKind::Invalid));
    check_publication(&stored, 0, &request(&[("a", "3")], &[("a", 1)]), Err(ErrorKind::Invalid));
    check_publication(&stored, 0, &request(&[("b", "3"), ("b", "3")], &[]), Err(ErrorKind::Invalid));
    check_publication(&stored, 0, &request(&[], &[("a", 3)]), Err(ErrorKind::NotFound));
    check_publication(&stored, 0, &request(&[], &[("b", 1)]), Err(ErrorKind::NotFound));
    check_publication(&stored, 0, &request(&[("b", "1")], &[("old", 1)]), Err(ErrorKind::InvalidTransition));
    check_publication(&stored, 0, &request(&[("old", "1")], &[]), Err(ErrorKind::InvalidTransition));
}

#[test]
fn a_publication_is_judged_by_id_and_then_by_guard_rg_6_rg_8() {
    let stored = Stored::default().definition("a", &["1"], false).publication("q", 4);
    let guarded = |snapshot| request(&[("a", "1")], &[]).expecting_snapshot(snapshot);
    check_publication(&stored, 4, &guarded(4), Ok("5: agent/a@1"));
    check_publication(&stored, 4, &guarded(3), Err(ErrorKind::Conflict));
    check_publication(&stored, 4, &guarded(5), Err(ErrorKind::Conflict));
    check_publication(&stored, 4, &guarded(0), Err(ErrorKind::Conflict));
    check_publication(&Stored::default(), 0, &guarded(0), Ok("1: agent/a@1"));
    check_publication(&Stored::default(), 0, &guarded(1), Err(ErrorKind::Conflict));
    let taken = Stored::default().publication("p", 4);
    check_publication(&taken, 4, &guarded(3), Err(ErrorKind::AlreadyExists));
}

#[test]
fn a_publication_expects_no_mark_on_old_versions_rg_11() {
    let stored = Stored::default().definition("a", &["1", "2"], false);
    let (_, _, planned) = plan_publication(&request(&[("b", "1")], &[("a", 1)]), 0, &stored.load()).unwrap();
    let mark = |version: &VersionRef| version.in_collection(MARKS).unwrap();
    let wanted = DocumentChange::check(mark(&name("a").at(1)), DocumentExpect::Absent);
    assert!(planned.changes.contains(&wanted));
    assert!(!planned.changes.iter().any(|change| change.document == mark(&name("b").at(1))));
}

#[test]
fn archiving_may_be_repeated_rg_5() {
    let check = |stored: Stored, archived: bool, wanted: Result<bool, ErrorKind>| {
        let planned = plan_archival(&name("a"), archived, None, &stored.load());
        let planned = planned.map(|planned| (planned.changes.len(), planned.events.len()) == (1, 1));
        assert_eq!(planned.map_err(|error| error.kind()), wanted);
    };
    let stored = |archived| Stored::default().definition("a", &["1"], archived);
    check(stored(false), true, Ok(true));
    check(stored(true), true, Ok(false));
    check(stored(true), false, Ok(true));
    check(stored(false), false, Ok(false));
    check(Stored::default(), true, Err(ErrorKind::NotFound));
}

#[test]
fn a_manifest_is_never_repaired_rg_9() {
    let entry = |value: &str| PublicationEntry {
        definition: name("a"),
        version: 1,
        hash: content(value).hash,
        extra: Extra::default(),
    };
    let check = |stored: Option<VersionContent>, is_intact: bool| {
        let mut documents = Stored::default();
        if let Some(content) = stored {
            documents = documents.with(name("a").at(1).in_collection(VERSIONS).unwrap(), &content);
        }
        let found = check_entry(&entry("1"), documents.load().0.values().next()).map(drop).map_err(|e| e.kind());
        assert_eq!(found, if is_intact { Ok(()) } else { Err(ErrorKind::Corrupt) });
    };
    check(Some(content("1")), true);
    check(None, false);
    check(Some(content("2")), false);
    check(Some(VersionContent { value: json("2"), ..content("1") }), false);
    check(Some(VersionContent { schema_version: 2, ..content("1") }), false);
}

#[test]
fn a_pin_expects_the_version_and_no_mark_rg_11() {
    let changes = pin_changes(&"r".parse().unwrap(), [&name("a").at(3)]).unwrap();
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.document.to_string(), change.expect, matches!(change.op, DocumentOp::Keep)))
        .collect();
    let wanted = [
        ("layer.registry.versions/agent/a/3".to_owned(), DocumentExpect::Present, true),
        ("layer.registry.marks/agent/a/3".to_owned(), DocumentExpect::Absent, true),
        ("layer.registry.pins/agent/a/3/r".to_owned(), DocumentExpect::Any, false),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn every_key_of_the_longest_ids_fits() {
    let longest = "x".repeat(256);
    let kind = |bytes: usize| "k".repeat(bytes).parse().unwrap();
    let name = DefinitionRef::new(kind(64), longest.parse().unwrap()).unwrap();
    assert!(pin_changes(&longest.parse().unwrap(), [&name.at(u64::MAX)]).is_ok());
    let error = DefinitionRef::new(kind(65), longest.parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn what_is_new_is_audited_au_1() {
    let audits = |request: PublishAll, stored: &Stored| {
        let (_, _, plan) = plan_publication(&request, 0, &stored.load()).unwrap();
        let text = |event: &crate::NewEvent| {
            let resource: serde_json::Value = event.payload.clone().unwrap().to().unwrap();
            format!("{} {}", event.kind, resource["resource"].as_str().unwrap_or_default())
        };
        plan.events.iter().map(text).collect::<Vec<_>>().join(", ")
    };
    let stored = Stored::default().definition("a", &["1"], false).definition("b", &["1"], false);
    let contents = [("a", "1"), ("b", "2"), ("c", "1")];
    assert_eq!(audits(request(&contents, &[]), &stored), "registry.published ");
    let audited = request(&contents, &[]).audited(NewAudit::new("ada".parse().unwrap()));
    let wanted = "registry.published , update definition/agent/b, create definition/agent/c, publish publication/p";
    assert_eq!(audits(audited, &stored), wanted);
}
