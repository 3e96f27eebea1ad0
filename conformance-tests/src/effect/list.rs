//! Lists of effects.

use store_core::{
    DeleteRequest, EffectEnd, EffectOwner, EffectQuery, EffectStatus, ErrorKind, PageRequest, Resolution,
};

use super::helpers::{
    begin_all, begin_fresh, done, effects, end, expect_listed, expect_stored, expect_told, list, load, named, resolve,
};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::id,
    log::entry_drafts::json,
};

fn all() -> EffectQuery {
    EffectQuery::default()
}

fn of_run(thread: &str, run: &str) -> EffectQuery {
    EffectQuery::of(EffectOwner::Run(id(thread), id(run)))
}

/// Begins effects of three runs in two threads. Some of them end.
async fn some_effects(given: &Given) -> Verdict {
    let of_t = begin_all(given, "t", &["t/r/a", "t/r/b", "t/r/c", "t/r2/a"]).await?;
    let of_u = begin_all(given, "u", &["u/r/a", "u/r/b"]).await?;
    end(given, &of_t[0], done("1")).await?;
    end(given, &of_t[1], EffectEnd::Unknown("timeout".to_owned())).await?;
    end(given, &of_u[0], EffectEnd::Failed(json("1"))).await?;
    resolve(given, "u/r/b", Resolution::Retry).await.map(drop)
}

/// In every list, effects that have not ended come first, then the others, each by name. Pages of any size give the
/// same list.
pub(super) async fn effects_that_have_not_ended_come_first(given: &Given) -> Verdict {
    some_effects(given).await?;
    let open = "t/r/b unknown, t/r/c intended, t/r2/a intended, u/r/b retry";
    expect_listed(given, &all(), &format!("{open}, t/r/a done, u/r/a failed")).await?;
    let whole = list(given, &all()).await?;
    for limit in [1, 3, 4, 5, 6, 100] {
        let store = effects(given)?;
        let page = PageRequest::first(limit);
        let found = crate::given::read_all_pages(page, |page| store.list_effects(all().with_page(page))).await?;
        expect_eq((limit, &found), (limit, &whole))?;
    }
    for effect in whole {
        expect_eq(expect_some(effects(given)?.load_effect(&effect.name).await?, "effect")?, effect)?;
    }
    let wrong_limit = effects(given)?.list_effects(all().with_page(PageRequest::first(0))).await;
    expect_kind(wrong_limit, ErrorKind::Invalid).map(drop)
}

/// The list of a thread has the effects of all its runs, and the list of a run has only its own.
pub(super) async fn effects_of_a_thread_and_of_a_run_are_listed(given: &Given) -> Verdict {
    some_effects(given).await?;
    let of_thread = |thread: &str| EffectQuery::of(EffectOwner::Thread(id(thread)));
    expect_listed(given, &of_thread("t"), "t/r/b unknown, t/r/c intended, t/r2/a intended, t/r/a done").await?;
    expect_listed(given, &of_thread("u"), "u/r/b retry, u/r/a failed").await?;
    expect_listed(given, &of_run("t", "r"), "t/r/b unknown, t/r/c intended, t/r/a done").await?;
    expect_listed(given, &of_run("t", "r2"), "t/r2/a intended").await?;
    for query in [of_thread("r"), of_run("u", "r2"), of_run("v", "r")] {
        expect_listed(given, &query, "").await?;
    }
    Ok(())
}

/// A list can be restricted to statuses, and to what is in doubt.
pub(super) async fn effects_of_a_status_are_listed(given: &Given) -> Verdict {
    some_effects(given).await?;
    expect_listed(given, &all().in_doubt(), "t/r/b unknown, t/r/c intended, t/r2/a intended").await?;
    expect_listed(given, &all().in_status([EffectStatus::Retry]), "u/r/b retry").await?;
    let ended = all().in_status([EffectStatus::Failed, EffectStatus::Done]);
    expect_listed(given, &ended, "t/r/a done, u/r/a failed").await?;
    let mixed = of_run("t", "r").in_status([EffectStatus::Intended, EffectStatus::Done]);
    expect_listed(given, &mixed, "t/r/c intended, t/r/a done").await?;
    expect_listed(given, &all().in_status([]), "").await
}

/// A walk that began before an effect ended lists it, at its old place or at its new one.
pub(super) async fn a_walk_misses_no_effect_that_ends_meanwhile(given: &Given) -> Verdict {
    let begun = begin_all(given, "t", &["t/r/a", "t/r/b", "t/r/c", "t/r/d"]).await?;
    let store = effects(given)?;
    let first = store.list_effects(all().with_page(PageRequest::first(2))).await?;
    for effect in &begun {
        end(given, effect, done("1")).await?;
    }
    begin_fresh(given, "t/r/e").await?;
    let (mut found, mut next) = (first.items, first.next);
    while let Some(cursor) = next {
        let page = store.list_effects(all().with_page(PageRequest::first(2).after(cursor))).await?;
        found.extend(page.items);
        next = page.next;
    }
    let text = found.iter().map(|effect| format!("{} {}", effect.name.id(), effect.status)).collect::<Vec<_>>();
    expect_eq(text.join(", "), "a intended, b intended, e intended, a done, b done, c done, d done")
}

/// A cursor of one list is refused by another one.
pub(super) async fn a_cursor_belongs_to_one_list_of_effects(given: &Given) -> Verdict {
    some_effects(given).await?;
    let store = effects(given)?;
    let page = store.list_effects(of_run("t", "r").with_page(PageRequest::first(1))).await?;
    let cursor = expect_some(page.next, "cursor")?;
    for other in [all(), of_run("t", "r2"), of_run("u", "r")] {
        let page = PageRequest::first(1).after(cursor.clone());
        expect_kind(store.list_effects(other.with_page(page)).await, ErrorKind::InvalidCursor)?;
    }
    for forged in ["", "1", "3.x", "1.x", "x"] {
        let page = PageRequest::first(1).after(store_core::Cursor::from_text(forged));
        expect_kind(store.list_effects(all().with_page(page)).await, ErrorKind::InvalidCursor)?;
    }
    Ok(())
}

/// The effects of a deleted thread are neither loaded nor listed. Those of a new thread with its id are new.
pub(super) async fn effects_go_with_their_thread(given: &Given) -> Verdict {
    some_effects(given).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    for name in ["t/r/a", "t/r/b"] {
        expect_eq(effects(given)?.load_effect(&named(name)).await?, None)?;
    }
    expect_listed(given, &all(), "u/r/b retry, u/r/a failed").await?;
    begin_all(given, "t", &["t/r/a", "t/r/b"]).await?;
    expect_listed(given, &all(), "t/r/a intended, t/r/b intended, u/r/b retry, u/r/a failed").await?;
    let again = load(given, "t/r/b").await?;
    expect_told(given, "t/r/b", "in doubt").await?;
    end(given, &again, done("2")).await?;
    expect_stored(given, "t/r/b", "done 2").await?;
    expect_listed(given, &all(), "t/r/a intended, u/r/b retry, t/r/b done, u/r/a failed").await
}
