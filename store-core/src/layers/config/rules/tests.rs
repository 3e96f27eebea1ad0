//! Tables of the rules for config records.

use super::{ConfigChange, ConfigContent, ConfigName, ConfigOp, ConfigSource, content_after, merge, plan};
use crate::{
    Document, DocumentExpect, DocumentOp, ErrorKind, Json, Timestamp,
    codec::{Codec, Extra},
    document::StoredDocument,
    layers::{audit::NewAudit, config::record::StoredConfig},
};

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn name(id: &str) -> ConfigName {
    ConfigName::new("ns", id).unwrap()
}

fn content(text: &str) -> ConfigContent {
    ConfigContent::new(json(text))
}

fn builtin(text: &str) -> ConfigContent {
    content(text).from_source(ConfigSource::Builtin)
}

fn document(id: &str, revision: u64, content: &ConfigContent) -> Document {
    let value = StoredConfig { revision, content: content.clone(), extra: Extra::default() }.encode();
    let text = format!(r#"{{"value":{value},"revision":77,"created_at":1,"updated_at":2}}"#);
    Document::new(name(id).document().unwrap(), StoredDocument::read(&text).unwrap())
}

#[test]
fn a_change_makes_of_a_record_what_its_operation_says() {
    let check = |op: ConfigOp, before: Option<ConfigContent>, expected: Option<ConfigContent>| {
        assert_eq!(content_after(&op, &name("a"), before.as_ref()).unwrap(), expected, "{op:?}");
    };
    check(ConfigOp::Put(content("1")), Some(builtin("2").hidden(true)), Some(content("1")));
    check(ConfigOp::Delete, Some(content("1")), None);
    check(ConfigOp::Delete, None, None);
    check(ConfigOp::Seed(json("1")), None, Some(builtin("1")));
    let changed = |value| builtin(value).hidden(true).with_overrides(json("{}"));
    check(ConfigOp::Seed(json("2")), Some(changed("1")), Some(changed("2")));
    check(ConfigOp::Seed(json("2")), Some(content("1")), Some(content("1")));
    check(ConfigOp::Override(Some(json("{}"))), Some(builtin("1").hidden(true)), Some(changed("1")));
    check(ConfigOp::Override(None), Some(changed("1")), Some(builtin("1").hidden(true)));
    check(ConfigOp::Hide(true), Some(content("1")), Some(content("1").hidden(true)));
    for op in [ConfigOp::Override(None), ConfigOp::Hide(true)] {
        assert_eq!(content_after(&op, &name("a"), None).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn overrides_are_a_merge_patch() {
    // The examples of RFC 7396, appendix A.
    let check = |value: &str, patch: &str, expected: &str| {
        assert_eq!(merge(&json(value), &json(patch)).unwrap().as_str(), expected, "{value} {patch}");
    };
    check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
    check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
    check(r#"{"a":"b"}"#, r#"{"a":null}"#, "{}");
    check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
    check(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
    check(r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#);
    check(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
    check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
    check(r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#);
    check(r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#);
    check(r#"{"a":"foo"}"#, "null", "null");
    check(r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#);
    check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#);
    check("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#);
    check("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
    check(r#"{"a":1.0,"b":1,"b":2}"#, r#"{"b":3}"#, r#"{"a":1.0,"b":3,"b":3}"#);
}

#[test]
fn changed_records_get_the_next_numbers_of_the_feed_cf_5() {
    let audited = |change: ConfigChange| change.audited(NewAudit::new("ada".parse().unwrap()));
    let changes = [
        audited(ConfigChange::put(name("same"), json("1"))),
        audited(ConfigChange::put(name("new"), json("1"))),
        ConfigChange::put(name("old"), json("2")).expecting(DocumentExpect::Revision(4)),
        ConfigChange::delete(name("gone")),
        ConfigChange::delete(name("missing")),
    ];
    let found = [
        Some(document("same", 3, &content("1"))),
        None,
        Some(document("old", 4, &content("1"))),
        Some(document("gone", 5, &content("1"))),
        None,
    ];
    let planned = plan(&changes, &found, 9).unwrap();
    let kinds: Vec<_> = planned.feed.iter().map(|event| event.kind.to_string()).collect();
    assert_eq!(kinds, ["config.created", "config.updated", "config.deleted"]);
    let payloads: Vec<_> = planned.feed.iter().map(|event| event.payload.clone().unwrap().to_string()).collect();
    let expected = [("new", 10), ("old", 11), ("gone", 12)];
    assert_eq!(payloads, expected.map(|(id, n)| format!(r#"{{"namespace":"ns","id":"{id}","revision":{n}}}"#)));
    assert_eq!(planned.audits.len(), 1, "a change that changes nothing is not audited");
    let expects: Vec<_> = planned.changes.iter().map(|change| change.expect).collect();
    let at = DocumentExpect::Revision(77);
    assert_eq!(expects, [at, DocumentExpect::Absent, at, at, DocumentExpect::Absent]);
    let kept = planned.changes.iter().map(|change| change.op == DocumentOp::Keep);
    assert_eq!(kept.collect::<Vec<_>>(), [true, false, false, false, true]);
    let records = planned.answer(&found, None).unwrap().records;
    let revisions: Vec<_> = records.iter().map(|record| record.as_ref().map(|record| record.revision)).collect();
    assert_eq!(revisions, [Some(3), Some(10), Some(11), None, None]);
    assert_eq!(records[0].as_ref().unwrap().updated_at, Timestamp::from_millis(2).unwrap());
}

#[test]
fn an_expectation_is_about_the_revision_of_the_record_cf_3() {
    let check = |expect: DocumentExpect, exists: bool, holds: bool| {
        let found = [exists.then(|| document("a", 4, &content("1")))];
        let planned = plan(&[ConfigChange::put(name("a"), json("2")).expecting(expect)], &found, 9);
        assert_eq!(planned.map(drop).map_err(|e| e.kind()), if holds { Ok(()) } else { Err(ErrorKind::Conflict) });
    };
    check(DocumentExpect::Revision(4), true, true);
    check(DocumentExpect::Revision(77), true, false);
    check(DocumentExpect::Revision(4), false, false);
    check(DocumentExpect::Absent, true, false);
    check(DocumentExpect::Present, false, false);
    check(DocumentExpect::Any, false, true);
}
