//! Helpers that begin, end and list effects.

use std::sync::Arc;

use store_core::{
    BegunEffect, ClaimNumber, ClaimToken, Effect, EffectEnd, EffectIntent, EffectName, EffectQuery, EffectStore,
    EndEffect, Fence, NewEffect, PageRequest, Resolution, ResolveEffect,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_some},
    given::{id, read_all_pages},
    log::entry_drafts::json,
};

/// The effects of the tenant `default`.
pub(crate) fn effects(given: &Given) -> Result<Arc<dyn EffectStore>, Failure> {
    Ok(given.fixture().effects(&given.stores()?)?)
}

/// The name `THREAD/RUN/ID`.
pub(super) fn named(text: &str) -> EffectName {
    let mut parts = text.splitn(3, '/').map(str::to_owned);
    let mut next = || parts.next().expect("a name with three parts");
    EffectName::new(id(&next()), id(&next()), id(&next())).expect("a short id")
}

/// A payment of some cents.
pub(super) fn payment(cents: u64) -> EffectIntent {
    EffectIntent::new(id("payment"), json(&format!(r#"{{"cents":{cents}}}"#)))
}

/// A payment of 500 cents with this name.
pub(super) fn new_payment(name: &str) -> NewEffect {
    NewEffect::new(named(name), payment(500))
}

/// A claim of a dispatch, as another mailbox might give it.
pub(super) fn fence_of_claim(counter: u64) -> Fence {
    Fence::new(id("dispatch"), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter })
}

/// What a caller was told: `fresh`, `finished` or `in doubt`.
pub(super) fn told(begun: &BegunEffect) -> &'static str {
    match begun {
        BegunEffect::Fresh(_) => "fresh",
        BegunEffect::Finished(_) => "finished",
        BegunEffect::InDoubt(_) => "in doubt",
    }
}

/// Begins an effect that must be new.
pub(super) async fn begin_fresh(given: &Given, name: &str) -> Result<Effect, Failure> {
    match effects(given)?.begin_effect(new_payment(name)).await? {
        BegunEffect::Fresh(effect) => Ok(effect),
        other => Err(Failure::new(format!("{name} is not new: {}", told(&other)))),
    }
}

/// Creates the thread of some effects, and begins them.
pub(super) async fn begin_all(given: &Given, thread: &str, names: &[&str]) -> Result<Vec<Effect>, Failure> {
    given.create_empty_thread(thread).await?;
    let mut begun = Vec::new();
    for name in names {
        begun.push(begin_fresh(given, name).await?);
    }
    Ok(begun)
}

/// Checks what a caller that begins an effect is told. Returns the effect.
pub(super) async fn expect_told(given: &Given, name: &str, expected: &str) -> Result<Effect, Failure> {
    let begun = effects(given)?.begin_effect(new_payment(name)).await?;
    expect_eq((name, told(&begun)), (name, expected))?;
    Ok(begun.effect().clone())
}

/// The end of an attempt that performed an effect, with an outcome.
pub(super) fn done(text: &str) -> EffectEnd {
    EffectEnd::Done(json(text))
}

/// A request to end the attempt that began an effect.
pub(super) fn end_of(effect: &Effect, end: EffectEnd) -> EndEffect {
    EndEffect::new(effect.name.clone(), effect.attempt, end)
}

/// Ends the attempt that began an effect. Returns the effect.
pub(super) async fn end(given: &Given, effect: &Effect, end: EffectEnd) -> Result<Effect, Failure> {
    Ok(effects(given)?.end_effect(end_of(effect, end)).await?)
}

/// Ends a doubt. Returns the effect.
pub(super) async fn resolve(given: &Given, name: &str, resolution: Resolution) -> Result<Effect, Failure> {
    Ok(effects(given)?.resolve_effect(ResolveEffect::new(named(name), resolution)).await?)
}

/// Loads an effect that must exist.
pub(super) async fn load(given: &Given, name: &str) -> Result<Effect, Failure> {
    expect_some(effects(given)?.load_effect(&named(name)).await?, name)
}

/// Checks the status and the outcome of a stored effect: `done 1`, `intended`.
pub(super) async fn expect_stored(given: &Given, name: &str, expected: &str) -> Verdict {
    let found = load(given, name).await?;
    let outcome = found.outcome.as_ref().map(|outcome| format!(" {outcome}")).unwrap_or_default();
    expect_eq(format!("{}{outcome}", found.status), expected)
}

/// All effects of a query, read in small pages.
pub(super) async fn list(given: &Given, query: &EffectQuery) -> Result<Vec<Effect>, Failure> {
    let store = &effects(given)?;
    read_all_pages(PageRequest::first(2), |page| store.list_effects(query.clone().with_page(page))).await
}

/// Checks the names and statuses of all effects of a query, in their order: `t/r/a intended, t/r/b done`.
pub(super) async fn expect_listed(given: &Given, query: &EffectQuery, expected: &str) -> Verdict {
    let text = |effect: &Effect| format!("{} {}", effect.name, effect.status);
    expect_eq(list(given, query).await?.iter().map(text).collect::<Vec<_>>().join(", ").as_str(), expected)
}
