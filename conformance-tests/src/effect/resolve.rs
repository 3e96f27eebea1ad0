//! Ending doubts by hand or by a reconciler.

use store_core::{
    AuditQuery, AuditResource, DocumentExpect, EffectEnd, ErrorKind, NewAudit, PageRequest, Resolution, ResolveEffect,
    ResourceFilter,
};

use super::helpers::{begin_all, done, effects, end, expect_stored, expect_told, load, named, resolve};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::id,
    log::entry_drafts::json,
};

/// A doubt ends with an outcome. A caller that begins the effect gets it.
pub(super) async fn a_doubt_is_resolved(given: &Given) -> Verdict {
    let names = ["t/r/a", "t/r/b", "t/r/c"];
    let begun = begin_all(given, "t", &names).await?;
    end(given, &begun[2], EffectEnd::Unknown("timeout".to_owned())).await?;
    let resolved = resolve(given, "t/r/a", Resolution::Done(json("1"))).await?;
    expect_eq(&load(given, "t/r/a").await?, &resolved)?;
    resolve(given, "t/r/b", Resolution::Failed(json("2"))).await?;
    resolve(given, "t/r/c", Resolution::Done(json("3"))).await?;
    for (name, expected) in [("t/r/a", "done 1"), ("t/r/b", "failed 2"), ("t/r/c", "done 3")] {
        expect_stored(given, name, expected).await?;
        expect_eq(expect_told(given, name, "finished").await?.reason, None)?;
    }
    // What is to be tried again, but was not begun yet, can still get an outcome.
    begin_all(given, "u", &["u/r/a"]).await?;
    resolve(given, "u/r/a", Resolution::Retry).await?;
    resolve(given, "u/r/a", Resolution::Done(json("4"))).await?;
    expect_stored(given, "u/r/a", "done 4").await
}

/// After a retry, the next caller is told that the effect is new, with the same key and the next attempt.
pub(super) async fn a_retry_has_the_same_idempotency_key(given: &Given) -> Verdict {
    let first = begin_all(given, "t", &["t/r/a"]).await?.remove(0);
    for attempt in 2..5 {
        let resolved = resolve(given, "t/r/a", Resolution::Retry).await?;
        expect_eq(resolve(given, "t/r/a", Resolution::Retry).await?, resolved)?;
        let found = expect_told(given, "t/r/a", "fresh").await?;
        expect_eq((found.attempt, &found.idempotency_key), (attempt, &first.idempotency_key))?;
        expect_eq((&load(given, "t/r/a").await?, found.created_at), (&found, first.created_at))?;
        expect_told(given, "t/r/a", "in doubt").await?;
    }
    Ok(())
}

/// An effect that ended, and one that does not exist, is not resolved.
pub(super) async fn what_has_ended_is_not_resolved(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a"]).await?;
    let ended = end(given, &begun[0], done("1")).await?;
    for other in [Resolution::Done(json("2")), Resolution::Failed(json("1")), Resolution::Retry] {
        let refused = effects(given)?.resolve_effect(ResolveEffect::new(named("t/r/a"), other)).await;
        expect_kind(refused, ErrorKind::InvalidTransition)?;
    }
    expect_eq(resolve(given, "t/r/a", Resolution::Done(json("1"))).await?, ended.clone())?;
    for unknown in ["t/r/b", "u/r/a"] {
        let refused = effects(given)?.resolve_effect(ResolveEffect::new(named(unknown), Resolution::Retry)).await;
        expect_kind(refused, ErrorKind::NotFound)?;
    }
    expect_eq(load(given, "t/r/a").await?, ended)
}

/// A resolution that expects the revision that was looked at is refused if the effect changed since.
pub(super) async fn a_resolution_can_expect_a_revision(given: &Given) -> Verdict {
    let first = begin_all(given, "t", &["t/r/a"]).await?.remove(0);
    let expecting =
        |revision| ResolveEffect::new(named("t/r/a"), Resolution::Retry).expecting(DocumentExpect::Revision(revision));
    effects(given)?.resolve_effect(expecting(first.revision)).await?;
    let second = expect_told(given, "t/r/a", "fresh").await?;
    expect_kind(effects(given)?.resolve_effect(expecting(first.revision)).await, ErrorKind::Conflict)?;
    expect_stored(given, "t/r/a", "intended").await?;
    effects(given)?.resolve_effect(expecting(second.revision)).await?;
    expect_stored(given, "t/r/a", "retry").await
}

/// A resolution and its audit record are written together. One that changes nothing has no record.
pub(super) async fn a_resolution_is_audited(given: &Given) -> Verdict {
    begin_all(given, "t", &["t/r/a"]).await?;
    for _ in 0..2 {
        let request = ResolveEffect::new(named("t/r/a"), Resolution::Done(json("1")));
        effects(given)?.resolve_effect(request.audited(NewAudit::new(id("ada")))).await?;
    }
    let about = ResourceFilter::Exact(AuditResource::new("effect/t/r/a")?);
    let query = AuditQuery::new().about(about).with_page(PageRequest::first(10));
    let mut records = given.fixture().audit(&given.stores()?)?.list_audit(query).await?.items;
    expect_eq(records.len(), 1)?;
    let record = records.remove(0);
    expect_eq((record.actor.as_str(), record.action.name()), ("ada", "update"))?;
    let has = |value: Option<store_core::Json>, part: &str| value.is_some_and(|value| value.as_str().contains(part));
    expect_eq((has(record.before, r#""status":"intended""#), has(record.after, r#""status":"done""#)), (true, true))?;
    expect_some(load(given, "t/r/a").await?.outcome, "outcome").map(drop)
}
