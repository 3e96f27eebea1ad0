//! How effects end: alone, or with the commit that carries their result.

use store_core::{Commit, Effect, EffectEnd, EndEffect, ErrorKind, Expect, Resolution, end_changes};

use super::helpers::{begin_all, done, effects, end, end_of, expect_stored, expect_told, load, named, resolve};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, message_entry},
    log::entry_drafts::json,
};

/// An outcome is recorded in a step of its own. The effect is returned as it is loaded.
pub(super) async fn an_outcome_is_recorded_alone(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b"]).await?;
    let ended = end(given, &begun[0], done(r#"{"receipt":7.0}"#)).await?;
    expect_eq(&load(given, "t/r/a").await?, &ended)?;
    expect(ended.revision > begun[0].revision, "the revision did not grow")?;
    expect_eq((ended.created_at, &ended.idempotency_key), (begun[0].created_at, &begun[0].idempotency_key))?;
    expect_stored(given, "t/r/a", r#"done {"receipt":7.0}"#).await?;
    end(given, &begun[1], EffectEnd::Failed(json("\"declined\""))).await?;
    expect_stored(given, "t/r/b", "failed \"declined\"").await?;
    let unknown = EndEffect::new(named("t/r/c"), 1, done("1"));
    expect_kind(effects(given)?.end_effect(unknown).await, ErrorKind::NotFound).map(drop)
}

/// A commit with an entry that records the outcome of an effect.
fn commit_of(effect: &Effect, text: &str) -> Result<Commit, Failure> {
    let key = id(&format!("paid at {}", effect.revision));
    let commit = Commit::new(id("t")).with_key(key).entry(message_entry("paid"));
    Ok(commit.with_documents(end_changes(effect, done(text))?))
}

/// The commit that carries the result records the outcome in its own step.
pub(super) async fn a_commit_carries_the_outcome(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a"]).await?;
    given.expect_accepted(commit_of(&begun[0], "1")?).await?;
    expect_eq(given.read_log(&id("t")).await?.len(), 1)?;
    expect_stored(given, "t/r/a", "done 1").await?;
    expect_told(given, "t/r/a", "finished").await?;
    // The same end again is no other outcome.
    let ended = load(given, "t/r/a").await?;
    given.expect_accepted(commit_of(&ended, "1")?).await?;
    expect_eq(load(given, "t/r/a").await?, ended)
}

/// A commit that is refused records no outcome.
pub(super) async fn a_refused_commit_leaves_an_effect_in_doubt(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a"]).await?;
    let commit = commit_of(&begun[0], "1")?.expecting(Expect::Absent);
    expect_kind(given.commits()?.commit(commit).await, ErrorKind::Conflict)?;
    expect_eq(load(given, "t/r/a").await?, begun[0].clone())?;
    expect_told(given, "t/r/a", "in doubt").await.map(drop)
}

/// If an effect changed since it was begun, the commit with its outcome is refused as a whole.
pub(super) async fn an_effect_that_changed_refuses_the_commit(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b"]).await?;
    resolve(given, "t/r/a", Resolution::Failed(json("0"))).await?;
    resolve(given, "t/r/b", Resolution::Retry).await?;
    for effect in &begun {
        expect_kind(given.commits()?.commit(commit_of(effect, "1")?).await, ErrorKind::Conflict)?;
    }
    expect_eq(given.read_log(&id("t")).await?.len(), 0)?;
    expect_stored(given, "t/r/a", "failed 0").await?;
    expect_stored(given, "t/r/b", "retry").await
}

/// An effect that ended keeps its outcome: another one is refused.
pub(super) async fn an_ended_effect_keeps_its_outcome(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a"]).await?;
    let ended = end(given, &begun[0], done("1")).await?;
    let unknown = EffectEnd::Unknown("timeout".to_owned());
    for other in [done("2"), EffectEnd::Failed(json("1")), unknown, EffectEnd::Retry] {
        expect_kind(effects(given)?.end_effect(end_of(&begun[0], other.clone())).await, ErrorKind::InvalidTransition)?;
        expect_kind(end_changes(&ended, other), ErrorKind::InvalidTransition)?;
    }
    expect_eq(load(given, "t/r/a").await?, ended)
}

/// The same end again changes nothing and is no error.
pub(super) async fn an_end_may_be_repeated(given: &Given) -> Verdict {
    let names = ["t/r/a", "t/r/b", "t/r/c", "t/r/d"];
    let begun = begin_all(given, "t", &names).await?;
    let unknown = EffectEnd::Unknown("timeout".to_owned());
    let ends = [done("1"), EffectEnd::Failed(json("2")), unknown, EffectEnd::Retry];
    for (effect, how) in begun.iter().zip(ends) {
        let ended = end(given, effect, how.clone()).await?;
        expect_eq(end(given, effect, how).await?, ended)?;
    }
    Ok(())
}

/// An effect whose outcome is said to be unknown is in doubt, with the reason. Its outcome can still be recorded.
pub(super) async fn an_unknown_outcome_is_in_doubt(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a"]).await?;
    let unknown = end(given, &begun[0], EffectEnd::Unknown("timeout".to_owned())).await?;
    let found = expect_told(given, "t/r/a", "in doubt").await?;
    expect_eq((&found, found.reason.as_deref()), (&unknown, Some("timeout")))?;
    let ended = end(given, &begun[0], done("1")).await?;
    expect_eq((ended.reason.clone(), expect_told(given, "t/r/a", "finished").await?), (None, ended))
}

/// Once a later attempt has begun, an earlier one says nothing about the effect.
pub(super) async fn only_the_last_attempt_ends_an_effect(given: &Given) -> Verdict {
    let first = begin_all(given, "t", &["t/r/a"]).await?.remove(0);
    resolve(given, "t/r/a", Resolution::Retry).await?;
    let second = expect_told(given, "t/r/a", "fresh").await?;
    expect_kind(effects(given)?.end_effect(end_of(&first, done("1"))).await, ErrorKind::InvalidTransition)?;
    expect_stored(given, "t/r/a", "intended").await?;
    end(given, &second, done("2")).await?;
    expect_stored(given, "t/r/a", "done 2").await
}

/// An attempt that certainly did not perform the effect asks for another one, which is told that the effect is new.
pub(super) async fn an_attempt_can_ask_for_another_one(given: &Given) -> Verdict {
    let first = begin_all(given, "t", &["t/r/a"]).await?.remove(0);
    end(given, &first, EffectEnd::Retry).await?;
    let late_doubt = end_of(&first, EffectEnd::Unknown("timeout".to_owned()));
    expect_kind(effects(given)?.end_effect(late_doubt).await, ErrorKind::InvalidTransition)?;
    let second = expect_told(given, "t/r/a", "fresh").await?;
    expect_eq((second.attempt, &second.idempotency_key), (2, &first.idempotency_key))?;
    expect_told(given, "t/r/a", "in doubt").await.map(drop)
}
