//! The retention of effects.

use std::time::Duration;

use store_core::{
    CollectionId, DeleteRequest, DocumentQuery, DocumentStoreExt, EffectEnd, EffectQuery, IgnoreProgress, PurgeEffects,
    Resolution, Timestamp,
};

use super::helpers::{begin_all, begin_fresh, done, effects, end, expect_listed, expect_told, load, resolve};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_some},
    given::id,
    log::entry_drafts::json,
    run::helpers::{done_run, running_run, write_run},
};

const DAY: Duration = Duration::from_hours(24);

/// Makes a purge, and returns the number of removed effects.
async fn purge(given: &Given, request: PurgeEffects) -> Result<u64, Failure> {
    let purged = effects(given)?.purge_effects(request, &*given.threads()?, &IgnoreProgress).await?;
    expect_eq(purged.stopped, false)?;
    Ok(purged.effects)
}

/// Begins and ends an effect a day later. Returns the time of its end.
async fn end_one_a_day_later(given: &Given, name: &str) -> Result<Timestamp, Failure> {
    given.advance(DAY).await;
    let effect = begin_fresh(given, name).await?;
    Ok(end(given, &effect, done("1")).await?.updated_at)
}

/// Effects that ended before a time are removed, and newer ones stay. What was removed can be begun again.
pub(super) async fn old_effects_that_ended_are_removed(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b", "t/s/a"]).await?;
    end(given, &begun[0], done("1")).await?;
    end(given, &begun[1], EffectEnd::Failed(json("1"))).await?;
    let of_u = begin_all(given, "u", &["u/r/a"]).await?;
    end(given, &of_u[0], done("1")).await?;
    let time = end_one_a_day_later(given, "u/r/b").await?;
    // It was begun long ago, but ended now.
    end(given, &begun[2], done("1")).await?;
    expect_eq(purge(given, PurgeEffects::new(time)).await?, 3)?;
    expect_listed(given, &EffectQuery::default(), "t/s/a done, u/r/b done").await?;
    expect_eq(purge(given, PurgeEffects::new(time)).await?, 0)?;
    expect_told(given, "t/r/a", "fresh").await?;
    expect_told(given, "u/r/b", "finished").await.map(drop)
}

/// An effect without an outcome is never removed, however old it is.
pub(super) async fn an_effect_in_doubt_is_never_removed(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b", "t/r/c", "t/r/d"]).await?;
    end(given, &begun[1], EffectEnd::Unknown("timeout".to_owned())).await?;
    resolve(given, "t/r/c", Resolution::Retry).await?;
    end(given, &begun[3], done("1")).await?;
    given.advance(DAY * 1_000).await;
    let now = end_one_a_day_later(given, "t/r/e").await?;
    expect_eq(purge(given, PurgeEffects::new(now)).await?, 1)?;
    let left = "t/r/a intended, t/r/b unknown, t/r/c retry, t/r/e done";
    expect_listed(given, &EffectQuery::default(), left).await?;
    expect_told(given, "t/r/b", "in doubt").await.map(drop)
}

/// The effects of a run that is not done stay, because its next attempt may ask for them.
pub(super) async fn effects_of_open_runs_stay(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/open/a", "t/open/b", "t/ended/a", "t/unknown/a"]).await?;
    for effect in &begun {
        end(given, effect, done("1")).await?;
    }
    write_run(given, "t", running_run("open")).await?;
    write_run(given, "t", running_run("ended")).await?;
    write_run(given, "t", done_run("ended")).await?;
    let now = end_one_a_day_later(given, "t/unknown/b").await?;
    expect_eq(purge(given, PurgeEffects::new(now)).await?, 2)?;
    expect_listed(given, &EffectQuery::default(), "t/open/a done, t/open/b done, t/unknown/b done").await?;
    write_run(given, "t", done_run("open")).await?;
    expect_eq(purge(given, PurgeEffects::new(now)).await?, 2)
}

/// A dry run returns how many effects a purge would remove, and removes none.
pub(super) async fn a_dry_purge_removes_no_effect(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b"]).await?;
    end(given, &begun[0], done("1")).await?;
    let now = end_one_a_day_later(given, "t/r/c").await?;
    for _ in 0..2 {
        expect_eq(purge(given, PurgeEffects::new(now).dry()).await?, 1)?;
    }
    expect_listed(given, &EffectQuery::default(), "t/r/b intended, t/r/a done, t/r/c done").await?;
    expect_eq(load(given, "t/r/a").await?.outcome, Some(json("1")))
}

/// What deleted threads left in the order of the lists is removed. What was begun again meanwhile stays.
pub(super) async fn a_purge_removes_what_deleted_threads_left(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b", "t/r/c"]).await?;
    end(given, &begun[0], done("1")).await?;
    end(given, &begun[2], done("1")).await?;
    let count = async || {
        let documents = expect_some(given.stores()?.documents, "documents")?;
        let entries = DocumentQuery::new(CollectionId::new("layer.effects.order")?);
        Ok::<_, Failure>(documents.count_documents(entries).await?)
    };
    expect_eq(count().await?, 3)?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    begin_all(given, "t", &["t/r/b", "t/r/c"]).await?;
    let long_ago = PurgeEffects::new(Timestamp::default());
    expect_eq((purge(given, long_ago.dry()).await?, count().await?), (0, 4))?;
    expect_eq((purge(given, long_ago).await?, count().await?), (0, 2))?;
    expect_listed(given, &EffectQuery::default(), "t/r/b intended, t/r/c intended").await
}
