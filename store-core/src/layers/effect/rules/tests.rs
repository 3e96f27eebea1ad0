//! Tables of what the rules of effects decide.

use std::collections::BTreeSet;

use super::{
    Generated, Group, changes, document_of, end_changes, name_of_entry, plan_begin, plan_end, plan_resolution,
};
use crate::{
    BegunEffect, ClaimNumber, ClaimToken, Document, DocumentChange, DocumentExpect, DocumentOp, DocumentRef, Effect,
    EffectEnd, EffectIntent, EffectName, EffectOwner, EffectStatus, EndEffect, ErrorKind, Fence, Json, NewAudit,
    NewEffect, Resolution, ResolveEffect, codec::Codec, document::StoredDocument,
};

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn name(thread: &str, run: &str, id: &str) -> EffectName {
    EffectName::new(thread.parse().unwrap(), run.parse().unwrap(), id.parse().unwrap()).unwrap()
}

fn new_effect() -> NewEffect {
    let intent = EffectIntent::new("payment".parse().unwrap(), json(r#"{"cents":500}"#));
    NewEffect::new(name("t", "r", "charge"), intent.in_step(3))
}

fn generated() -> Generated {
    Generated { idempotency_key: "key".parse().unwrap(), begun_by: "me".to_owned() }
}

fn fence(counter: u64) -> Fence {
    let claim = ClaimNumber { incarnation: 1, counter };
    Fence::new("d".parse().unwrap(), ClaimToken::new("secret"), 0, claim)
}

/// A stored effect with this status.
fn effect(status: EffectStatus) -> Effect {
    let BegunEffect::Fresh(effect) = plan_begin(&new_effect(), &generated(), None).unwrap() else { unreachable!() };
    let outcome = status.is_ended().then(|| json("1"));
    let reason = (status == EffectStatus::Unknown).then(|| "timeout".to_owned());
    Effect { status, outcome, reason, revision: 7, ..effect }
}

fn stored(document: DocumentRef, value: &Json) -> Document {
    let raw = format!(r#"{{"value":{value},"revision":7,"created_at":0,"updated_at":0}}"#);
    Document::new(document, StoredDocument::read(&raw).unwrap())
}

/// What is changed, as short texts: `+document` for a put, `-document` for a deletion.
fn texts(changes: &[DocumentChange]) -> Vec<String> {
    let text = |change: &DocumentChange| {
        let sign = match change.op {
            DocumentOp::Put(_) => '+',
            DocumentOp::Delete => '-',
            DocumentOp::Keep => '=',
        };
        format!("{sign}{} if {}", change.document, change.expect)
    };
    changes.iter().map(text).collect()
}

#[test]
fn the_place_of_an_effect_does_not_change() {
    let name = name("t", "r", "a/b");
    assert_eq!(document_of(&name).unwrap().to_string(), "layer.effects/r/a/b of thread t");
    assert_eq!(Group::Open.entry(&name).unwrap().to_string(), "layer.effects.order/1/t/r/a/b");
    assert_eq!(Group::Ended.entry(&name).unwrap().to_string(), "layer.effects.order/2/t/r/a/b");
    let entry = stored(Group::Ended.entry(&name).unwrap(), &json("{}"));
    assert_eq!(name_of_entry(&entry).unwrap(), name);
    let foreign = stored(document_of(&name).unwrap(), &json("{}"));
    assert_eq!(name_of_entry(&foreign).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn names_are_apart_and_the_longest_fit() {
    let names = [name("t", "r", "a"), name("t", "r", "a/b"), name("t", "r/a", "b"), name("t/r", "a", "b")];
    let documents: BTreeSet<_> = names.iter().map(|name| document_of(name).unwrap()).collect();
    let entries: BTreeSet<_> = names.iter().map(|name| Group::Open.entry(name).unwrap()).collect();
    assert_eq!((documents.len(), entries.len()), (4, 4));
    let (longest, id) = ("x".repeat(256), "x".repeat(128));
    assert!(Group::Ended.entry(&name(&longest, &longest, &id)).is_ok());
    let too_long = EffectName::new("t".parse().unwrap(), "r".parse().unwrap(), format!("{id}x").parse().unwrap());
    assert_eq!(too_long.unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn a_list_has_the_entries_of_its_owner() {
    let entry = |group: Group, name: &EffectName| group.entry(name).unwrap();
    let (first, second, third) = (name("t", "r", "a"), name("t", "r2", "a"), name("t2", "r", "a"));
    let check = |owner: EffectOwner, wanted: [bool; 3]| {
        let range = Group::Open.query(&owner).unwrap().key_range().unwrap();
        let is_listed = [&first, &second, &third].map(|name| range.contains(entry(Group::Open, name).key.encoded()));
        assert_eq!(is_listed, wanted, "{owner:?}");
        assert!(!range.contains(entry(Group::Ended, &first).key.encoded()));
    };
    let (thread, run) = ("t".parse().unwrap(), "r".parse().unwrap());
    check(EffectOwner::Tenant, [true, true, true]);
    check(EffectOwner::Thread(first.thread().clone()), [true, true, false]);
    check(EffectOwner::Run(thread, run), [true, false, false]);
}

#[test]
fn an_effect_is_read_back_from_its_document() {
    for status in EffectStatus::ALL {
        let mut written = effect(*status);
        written.claim = Some(fence(4).claim);
        let mut value = written.stored().encode();
        value.insert_str(value.len() - 1, r#","later":1.0"#);
        let document = stored(document_of(&written.name).unwrap(), &json(&value));
        let read = Effect::from_document(&document).unwrap();
        assert_eq!(read.stored().encode(), value);
        written.extra = read.extra.clone();
        assert_eq!(read, written);
    }
    let of_tenant = stored(Group::Open.entry(&name("t", "r", "a")).unwrap(), &json("{}"));
    assert_eq!(Effect::from_document(&of_tenant).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// EF-1, EF-6: who is told that an effect is new, and with which attempt.
#[test]
fn a_caller_is_told_what_is_known() {
    let check = |found: Option<EffectStatus>, wanted: &str, attempt: u32| {
        let found = found.map(effect);
        let other = Generated { idempotency_key: "other".parse().unwrap(), begun_by: "me".to_owned() };
        let generated = if found.is_some() { other } else { generated() };
        let begun = plan_begin(&new_effect().fenced(fence(9)), &generated, found.as_ref()).unwrap();
        let told = match &begun {
            BegunEffect::Fresh(_) => "fresh",
            BegunEffect::Finished(_) => "finished",
            BegunEffect::InDoubt(_) => "in doubt",
        };
        let effect = begun.effect();
        assert_eq!((told, effect.attempt, effect.idempotency_key.as_str()), (wanted, attempt, "key"), "{found:?}");
        if told == "fresh" {
            assert_eq!((effect.status, effect.claim), (EffectStatus::Intended, Some(fence(9).claim)));
        } else {
            assert_eq!(Some(effect), found.as_ref());
        }
    };
    check(None, "fresh", 1);
    check(Some(EffectStatus::Retry), "fresh", 2);
    check(Some(EffectStatus::Intended), "in doubt", 1);
    check(Some(EffectStatus::Unknown), "in doubt", 1);
    check(Some(EffectStatus::Done), "finished", 1);
    check(Some(EffectStatus::Failed), "finished", 1);
}

#[test]
fn a_name_stands_for_one_intent_ef_1() {
    let check = |edit: fn(&mut NewEffect), is_refused: bool| {
        let mut new = new_effect();
        edit(&mut new);
        for status in EffectStatus::ALL {
            let begun = plan_begin(&new, &generated(), Some(&effect(*status))).map(drop).map_err(|e| e.kind());
            let wanted = if is_refused { Err(ErrorKind::IdempotencyMismatch) } else { Ok(()) };
            assert_eq!(begun, wanted, "{new:?} {status}");
        }
    };
    check(|_| {}, false);
    check(|new| new.intent.step = Some(4), false);
    check(|new| new.intent.idempotency_key = Some("key".parse().unwrap()), false);
    check(|new| new.intent.idempotency_key = Some("another".parse().unwrap()), true);
    check(|new| new.intent.kind = "refund".parse().unwrap(), true);
    check(|new| new.intent.value = json(r#"{"cents":501}"#), true);
    check(|new| new.intent.value = json(r#"{"cents":500.0}"#), true);
}

#[test]
fn a_caller_chooses_the_key_of_a_new_effect() {
    let mut new = new_effect();
    new.intent = new.intent.with_key("chosen".parse().unwrap());
    let begun = plan_begin(&new, &generated(), None).unwrap();
    assert_eq!(begun.effect().idempotency_key.as_str(), "chosen");
}

/// EF-3, EF-4, EF-6: every end of every status. `None` is refused, and `""` changes nothing.
#[test]
fn an_effect_ends_once() {
    let unknown = |reason: &str| EffectEnd::Unknown(reason.to_owned());
    let ends = [
        EffectEnd::Done(json("1")),
        EffectEnd::Done(json("2")),
        EffectEnd::Failed(json("1")),
        unknown("timeout"),
        unknown("reset"),
        EffectEnd::Retry,
    ];
    let all = [Some("done"), Some("done"), Some("failed"), Some("unknown"), Some("unknown"), Some("retry")];
    let mut of_unknown = all;
    of_unknown[3] = Some("");
    let of_retry = [Some("done"), Some("done"), Some("failed"), None, None, Some("")];
    for (status, wanted) in [
        (EffectStatus::Intended, all),
        (EffectStatus::Unknown, of_unknown),
        (EffectStatus::Retry, of_retry),
        (EffectStatus::Done, [Some(""), None, None, None, None, None]),
        (EffectStatus::Failed, [None, None, Some(""), None, None, None]),
    ] {
        for (end, wanted) in ends.iter().zip(wanted) {
            let effect = effect(status);
            let planned = plan_end(&effect, &EndEffect::new(effect.name.clone(), 1, end.clone()));
            let found = match &planned {
                Ok(Some(ended)) => {
                    assert_eq!(ended.outcome.is_some(), ended.status.is_ended());
                    assert_eq!(ended.reason.is_some(), ended.status == EffectStatus::Unknown);
                    Ok(ended.status.name())
                }
                Ok(None) => Ok(""),
                Err(error) => Err(error.kind()),
            };
            assert_eq!(found, wanted.ok_or(ErrorKind::InvalidTransition), "{status} {end:?}");
        }
    }
}

#[test]
fn only_the_last_attempt_ends_an_effect() {
    let effect = Effect { attempt: 2, ..effect(EffectStatus::Intended) };
    for (attempt, is_accepted) in [(1, false), (2, true), (3, false)] {
        let planned = plan_end(&effect, &EndEffect::new(effect.name.clone(), attempt, EffectEnd::Done(json("1"))));
        let wanted = if is_accepted { Ok(()) } else { Err(ErrorKind::InvalidTransition) };
        assert_eq!(planned.map(drop).map_err(|e| e.kind()), wanted, "{attempt}");
    }
}

#[test]
fn a_resolution_checks_what_was_looked_at_and_is_audited_ef_6() {
    let effect = effect(EffectStatus::Unknown);
    let resolve = |resolution| ResolveEffect::new(effect.name.clone(), resolution);
    let audit = || NewAudit::new("ada".parse().unwrap());
    for expect in [DocumentExpect::Any, DocumentExpect::Present, DocumentExpect::Revision(7)] {
        let request = resolve(Resolution::Retry).expecting(expect).audited(audit());
        let (resolved, audit) = plan_resolution(&effect, &request).unwrap().unwrap();
        assert_eq!((resolved.status, resolved.reason.as_deref()), (EffectStatus::Retry, None));
        let payload = audit.unwrap().payload.unwrap();
        assert!(payload.as_str().contains(r#""resource":"effect/t/r/charge""#), "{payload}");
    }
    for expect in [DocumentExpect::Absent, DocumentExpect::Revision(6)] {
        let refused = plan_resolution(&effect, &resolve(Resolution::Retry).expecting(expect));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    }
    let done = Effect { status: EffectStatus::Done, outcome: Some(json("1")), reason: None, ..effect.clone() };
    let again = plan_resolution(&done, &resolve(Resolution::Done(json("1"))).audited(audit()));
    assert_eq!(again.unwrap(), None);
    let other = plan_resolution(&done, &resolve(Resolution::Failed(json("1"))));
    assert_eq!(other.unwrap_err().kind(), ErrorKind::InvalidTransition);
}

#[test]
fn a_change_keeps_the_order_of_the_lists() {
    let check = |found: Option<EffectStatus>, status: EffectStatus, wanted: &[&str]| {
        let (found, effect) = (found.map(effect), effect(status));
        assert_eq!(texts(&changes(found.as_ref(), &effect).unwrap()), wanted, "{found:?} {status}");
    };
    let (at_7, absent) =
        ("+layer.effects/r/charge of thread t if revision 7", "+layer.effects/r/charge of thread t if none");
    let (open, ended) =
        ("layer.effects.order/1/t/r/charge if anything", "layer.effects.order/2/t/r/charge if anything");
    check(None, EffectStatus::Intended, &[absent, &format!("+{open}")]);
    check(Some(EffectStatus::Intended), EffectStatus::Unknown, &[at_7]);
    check(Some(EffectStatus::Unknown), EffectStatus::Retry, &[at_7]);
    check(Some(EffectStatus::Retry), EffectStatus::Intended, &[at_7]);
    check(Some(EffectStatus::Intended), EffectStatus::Done, &[at_7, &format!("-{open}"), &format!("+{ended}")]);
    check(Some(EffectStatus::Unknown), EffectStatus::Failed, &[at_7, &format!("-{open}"), &format!("+{ended}")]);
}

#[test]
fn a_commit_carries_the_end_of_an_effect_ef_3() {
    let begun = effect(EffectStatus::Intended);
    let planned = end_changes(&begun, EffectEnd::Done(json("1"))).unwrap();
    assert_eq!(planned, changes(Some(&begun), &effect(EffectStatus::Done)).unwrap());
    let again = end_changes(&effect(EffectStatus::Done), EffectEnd::Done(json("1"))).unwrap();
    assert_eq!(texts(&again), ["=layer.effects/r/charge of thread t if revision 7"]);
    let other = end_changes(&effect(EffectStatus::Done), EffectEnd::Retry).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidTransition);
}
