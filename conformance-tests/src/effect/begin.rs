//! Beginning effects: what a caller is told, and who performs an effect.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{BegunEffect, EffectEnd, EffectIntent, EffectStatus, ErrorKind, NewEffect, Resolution};

use super::helpers::{
    begin_all, begin_fresh, done, effects, end, expect_told, list, load, named, new_payment, payment, resolve, told,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, run_concurrently},
    log::entry_drafts::json,
};

/// The number of callers that begin one effect at the same time.
const CALLERS: usize = 8;

/// A new effect is loaded as it was begun, with the first attempt, a key and store time.
pub(super) async fn a_new_effect_is_loaded_as_it_was_begun(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let value = json(r#"{"b":1.50,"a":[null]}"#);
    let intent = EffectIntent::new(id("payment"), value.clone()).in_step(3);
    let begun = effects(given)?.begin_effect(NewEffect::new(named("t/r/a/b"), intent)).await?;
    expect_eq(told(&begun), "fresh")?;
    let effect = begun.effect();
    expect_eq(&load(given, "t/r/a/b").await?, effect)?;
    expect_eq((&effect.name, effect.kind.as_str(), &effect.intent), (&named("t/r/a/b"), "payment", &value))?;
    expect_eq((effect.step, effect.attempt, effect.status), (Some(3), 1, EffectStatus::Intended))?;
    expect_eq((&effect.outcome, &effect.reason, effect.claim), (&None, &None, None))?;
    expect_eq(effect.created_at, effect.updated_at)?;
    expect(effect.revision > 0 && !effect.idempotency_key.as_str().is_empty(), "no revision or no key")?;
    expect_eq(effects(given)?.load_effect(&named("t/r/b")).await?, None)
}

/// A caller that begins an effect of which no caller has said how it ended is told so, and nothing changes.
pub(super) async fn an_effect_that_was_begun_is_in_doubt(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a"]).await?;
    for _ in 0..2 {
        let found = expect_told(given, "t/r/a", "in doubt").await?;
        expect_eq(&found, &begun[0])?;
    }
    expect_eq(load(given, "t/r/a").await?, begun[0].clone())
}

/// A caller that begins an effect that ended gets its outcome.
pub(super) async fn an_effect_that_ended_is_finished(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b"]).await?;
    end(given, &begun[0], done(r#"{"receipt":7}"#)).await?;
    end(given, &begun[1], EffectEnd::Failed(json("\"declined\""))).await?;
    for (name, status, outcome) in
        [("t/r/a", EffectStatus::Done, r#"{"receipt":7}"#), ("t/r/b", EffectStatus::Failed, "\"declined\"")]
    {
        let found = expect_told(given, name, "finished").await?;
        expect_eq((found.status, found.outcome), (status, Some(json(outcome))))?;
    }
    Ok(())
}

/// A name stands for one kind and one intent, whatever is known about the effect.
pub(super) async fn a_name_stands_for_one_intent(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a"]).await?;
    let others = || {
        [payment(501), EffectIntent::new(id("refund"), payment(500).value), payment(500).with_key(id("another key"))]
    };
    for ends in [false, true] {
        if ends {
            end(given, &begun[0], done("1")).await?;
        }
        let before = load(given, "t/r/a").await?;
        for other in others() {
            let refused = effects(given)?.begin_effect(NewEffect::new(named("t/r/a"), other)).await;
            expect_kind(refused, ErrorKind::IdempotencyMismatch)?;
        }
        let with_its_key = payment(500).with_key(before.idempotency_key.clone()).in_step(9);
        let _begun = effects(given)?.begin_effect(NewEffect::new(named("t/r/a"), with_its_key)).await?;
        expect_eq(load(given, "t/r/a").await?, before)?;
    }
    Ok(())
}

/// An effect of a thread that does not exist cannot be begun.
pub(super) async fn an_effect_needs_its_thread(given: &Given) -> Verdict {
    let refused = effects(given)?.begin_effect(new_payment("t/r/a")).await;
    expect_kind(refused, ErrorKind::NotFound)?;
    expect_eq(effects(given)?.load_effect(&named("t/r/a")).await?, None)?;
    expect_eq(list(given, &Default::default()).await?.len(), 0)?;
    begin_all(given, "t", &["t/r/a"]).await.map(drop)
}

/// Effects and what is known about them survive a reopen.
pub(super) async fn effects_survive_a_reopen(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b", "t/r/c"]).await?;
    end(given, &begun[1], done("1")).await?;
    end(given, &begun[2], EffectEnd::Unknown("timeout".to_owned())).await?;
    let before = list(given, &Default::default()).await?;
    given.reopen().await?;
    expect_eq(list(given, &Default::default()).await?, before)?;
    for (name, expected) in [("t/r/a", "in doubt"), ("t/r/b", "finished"), ("t/r/c", "in doubt"), ("t/r/d", "fresh")] {
        expect_told(given, name, expected).await?;
    }
    Ok(())
}

/// Effects with one id in different runs and threads are different effects.
pub(super) async fn names_of_effects_are_apart(given: &Given) -> Verdict {
    let names = ["t/r/a", "t/s/a", "t/r/A", "t/r/a/b", "u/r/a", "u/r/a "];
    given.create_empty_thread("t").await?;
    given.create_empty_thread("u").await?;
    for name in names {
        let effect = begin_fresh(given, name).await?;
        end(given, &effect, done(&json_text(name))).await?;
    }
    for name in names {
        expect_eq(load(given, name).await?.outcome, Some(json(&json_text(name))))?;
    }
    Ok(())
}

fn json_text(text: &str) -> String {
    format!("\"{text}\"")
}

/// No two effects have one generated key.
pub(super) async fn every_effect_has_a_key_of_its_own(given: &Given) -> Verdict {
    let mut keys = BTreeSet::new();
    given.create_empty_thread("t").await?;
    given.create_empty_thread("u").await?;
    for name in ["t/r/a", "t/r/b", "t/s/a", "u/r/a"] {
        let effect = begin_fresh(given, name).await?;
        expect(keys.insert(effect.idempotency_key.clone()), format!("{name} has the key of another effect"))?;
        let again = expect_told(given, name, "in doubt").await?;
        expect_eq(again.idempotency_key, effect.idempotency_key)?;
    }
    Ok(())
}

/// The key that a caller chooses is kept.
pub(super) async fn a_caller_may_choose_the_key(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let begin = async || {
        let new = NewEffect::new(named("t/r/a"), payment(500).with_key(id("order-7")));
        Ok::<_, Failure>(effects(given)?.begin_effect(new).await?.effect().idempotency_key.clone())
    };
    for _ in 0..2 {
        expect_eq(begin().await?.as_str(), "order-7")?;
    }
    expect_eq(load(given, "t/r/a").await?.idempotency_key.as_str(), "order-7")
}

/// Lets several callers begin one effect at the same time. Checks that exactly one is told that it is new.
async fn expect_one_fresh(given: &Given, name: &str) -> Verdict {
    let store = effects(given)?;
    let results = run_concurrently(CALLERS, |_| {
        let (store, new) = (Arc::clone(&store), new_payment(name));
        async move { store.begin_effect(new).await }
    });
    let begun: Vec<BegunEffect> = results.await.into_iter().collect::<store_core::Result<_>>()?;
    let count = |what: &str| begun.iter().filter(|begun| told(begun) == what).count();
    expect_eq((count("fresh"), count("in doubt")), (1, CALLERS - 1))?;
    let stored = load(given, name).await?;
    for begun in &begun {
        expect_eq(begun.effect(), &stored)?;
    }
    Ok(())
}

/// Of several callers that begin one effect at the same time, exactly one is told that it is new.
pub(super) async fn one_of_several_callers_is_told_that_an_effect_is_new(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    for round in 0..10 {
        expect_one_fresh(given, &format!("t/r/{round}")).await?;
    }
    Ok(())
}

/// Of several callers that begin an effect that is to be tried again, exactly one is told that it is new.
pub(super) async fn one_of_several_callers_tries_an_effect_again(given: &Given) -> Verdict {
    begin_all(given, "t", &["t/r/a"]).await?;
    for round in 0..10 {
        resolve(given, "t/r/a", Resolution::Retry).await?;
        expect_one_fresh(given, "t/r/a").await?;
        expect_eq(load(given, "t/r/a").await?.attempt, round + 2)?;
    }
    Ok(())
}
