//! A dropped call takes effect in full or not at all, and leaves nothing locked.

use std::{sync::Arc, time::Duration};

use store_core::{
    ChildStrategy, DeleteRequest, Expect, IgnoreProgress, NewThread, PruneRequest, TenantStores, ThreadFields,
    ThreadId, ThreadPatch,
};
use tokio::time::timeout;

use crate::{
    Failure, Given, Verdict,
    call::Call,
    check::{expect, expect_eq},
    drop_points::{CALL_TIMEOUT, LATE_EFFECT_DELAY, MAX_POLLS, poll_then_drop},
    given::{id, keyed_commit_with_message},
};

/// Makes a call on the thread `t`.
type MakeCall = for<'a> fn(&'a TenantStores, ThreadId) -> Call<'a>;

fn creation_call(stores: &TenantStores, t: ThreadId) -> Call<'_> {
    Box::pin(async move {
        let Some(threads) = &stores.threads else { return Ok(()) };
        threads.create_thread(NewThread::new(t)).await.map(drop)
    })
}

fn commit_call(stores: &TenantStores, t: ThreadId) -> Call<'_> {
    Box::pin(async move {
        let Some(commits) = &stores.commits else { return Ok(()) };
        commits
            .commit(keyed_commit_with_message(&t, "dropped", "one").entry(crate::given::message_entry("two")))
            .await
            .map(drop)
    })
}

fn update_call(stores: &TenantStores, t: ThreadId) -> Call<'_> {
    Box::pin(async move {
        let Some(threads) = &stores.threads else { return Ok(()) };
        threads.update_thread(&t, ThreadPatch::default().with_title("dropped"), Expect::Any).await.map(drop)
    })
}

fn deletion_call(stores: &TenantStores, t: ThreadId) -> Call<'_> {
    Box::pin(async move {
        let Some(threads) = &stores.threads else { return Ok(()) };
        let cascade = DeleteRequest { children: ChildStrategy::Cascade, expect: Expect::Any };
        threads.delete_thread(&t, cascade).await?;
        threads.purge_deleted(&IgnoreProgress).await.map(drop)
    })
}

/// The idle time after which a thread is pruned.
const PRUNE_IDLE_TIME: Duration = Duration::from_secs(86_400);

fn prune_call(stores: &TenantStores, _t: ThreadId) -> Call<'_> {
    Box::pin(async move {
        let Some(threads) = &stores.threads else { return Ok(()) };
        let request = PruneRequest { idle: PRUNE_IDLE_TIME, limit: 1000, dry_run: false };
        threads.prune_threads(request).await.map(drop)
    })
}

/// A call that is dropped, and the allowed states of its thread after that.
#[derive(Clone, Copy)]
struct DroppedCall {
    make_call: MakeCall,
    /// Whether the thread is created before the call, with a child.
    has_thread: bool,
    /// How long the thread is idle before the call.
    idle_time: Duration,
    /// Two descriptions of the thread, as [`describe_thread`] returns them: without the effect of the call, and with
    /// this effect.
    before_and_after: [&'static str; 2],
}

const NEW_THREAD: &str = "0 entries, revision 1, None";
const CREATION: DroppedCall = DroppedCall {
    make_call: creation_call,
    has_thread: false,
    idle_time: Duration::ZERO,
    before_and_after: ["", NEW_THREAD],
};
const FIRST_COMMIT: DroppedCall = DroppedCall {
    make_call: commit_call,
    has_thread: false,
    idle_time: Duration::ZERO,
    before_and_after: ["", "2 entries, revision 1, None"],
};
const COMMIT: DroppedCall = DroppedCall {
    make_call: commit_call,
    has_thread: true,
    idle_time: Duration::ZERO,
    before_and_after: [NEW_THREAD, "2 entries, revision 1, None"],
};
const UPDATE: DroppedCall = DroppedCall {
    make_call: update_call,
    has_thread: true,
    idle_time: Duration::ZERO,
    before_and_after: [NEW_THREAD, "0 entries, revision 2, Some(\"dropped\")"],
};
const DELETION: DroppedCall = DroppedCall {
    make_call: deletion_call,
    has_thread: true,
    idle_time: Duration::ZERO,
    before_and_after: [NEW_THREAD, ""],
};
/// The prune removes the child first. After that the thread has no child, and is removed as well.
const PRUNE: DroppedCall = DroppedCall {
    make_call: prune_call,
    has_thread: true,
    idle_time: PRUNE_IDLE_TIME.saturating_add(LATE_EFFECT_DELAY),
    before_and_after: [NEW_THREAD, ""],
};

/// By when the effect of a dropped call must be visible, if it has one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EffectBy {
    /// The next call of the same handle must already find the thread in its final state.
    NextCall,
    /// Only a read after [`LATE_EFFECT_DELAY`] must find the thread in its final state.
    LaterRead,
}

/// Drops the call on a new thread after 0 polls, then after 1 poll, and so on, up to the number of polls after which
/// the call ends by itself. The final state of the thread must be one of the two states `before_and_after`.
async fn check_all_or_nothing(given: &Given, dropped_call: DroppedCall, effect_by: EffectBy) -> Verdict {
    let given = &given.open_another_store().await?;
    let stores = given.stores()?;
    for polls in 0..MAX_POLLS {
        let t: ThreadId = id(&format!("t-{polls}"));
        if dropped_call.has_thread {
            create_thread_with_child(given, &t, &format!("child-{polls}")).await?;
        }
        if !dropped_call.idle_time.is_zero() {
            given.advance(dropped_call.idle_time).await;
        }
        let has_ended = poll_then_drop((dropped_call.make_call)(&stores, t.clone()), polls).await?.is_some();
        let first_read = describe_thread(&stores, &t).await?;
        tokio::time::sleep(LATE_EFFECT_DELAY).await;
        let later_read = describe_thread(&stores, &t).await?;
        let reads = format!("after {polls} polls a read shows {first_read:?}, a later read {later_read:?}");
        expect(dropped_call.before_and_after.contains(&later_read.as_str()), &reads)?;
        expect(
            !has_ended || first_read == dropped_call.before_and_after[1],
            format!("the call ended without its effect: {reads}"),
        )?;
        expect(
            effect_by == EffectBy::LaterRead || first_read == later_read,
            format!("the dropped call took effect later: {reads}"),
        )?;
        check_nothing_locked(given, &stores, &t).await?;
        if has_ended {
            return Ok(());
        }
    }
    Err(Failure::new("the call does not return"))
}

/// Creates a thread with a child.
async fn create_thread_with_child(given: &Given, t: &ThreadId, child: &str) -> Verdict {
    given.create_empty_thread(t.as_str()).await?;
    let mut child_fields = ThreadFields::default();
    child_fields.parent_thread_id = Some(t.clone());
    given.threads()?.create_thread(NewThread::new(id(child)).with_fields(child_fields)).await?;
    Ok(())
}

/// Describes the thread as a read of this handle returns it. The text is empty if there is no thread. The read must end
/// in time.
async fn describe_thread(stores: &TenantStores, t: &ThreadId) -> Result<String, Failure> {
    let threads = stores.threads.as_ref().ok_or_else(|| Failure::new("the store has no threads"))?;
    let found = timeout(CALL_TIMEOUT, threads.load_thread(t)).await.map_err(|_| Failure::new("the next call hangs"))?;
    Ok(found?.map_or_else(String::new, |t| {
        format!("{} entries, revision {}, {:?}", t.version.number(), t.revision.number(), t.title)
    }))
}

/// Checks that nothing is locked. Commits to the thread, if it exists, and to a new thread.
async fn check_nothing_locked(given: &Given, stores: &TenantStores, t: &ThreadId) -> Verdict {
    let commits = stores.commits.as_ref().ok_or_else(|| Failure::new("the store has no commits"))?;
    let existing_thread = given.threads()?.load_thread(t).await?;
    let commit_to_existing_thread = existing_thread.map(|_| keyed_commit_with_message(t, "next", "x"));
    for commit in
        commit_to_existing_thread.into_iter().chain([keyed_commit_with_message(&id(&format!("{t} new")), "next", "x")])
    {
        let written = timeout(CALL_TIMEOUT, commits.commit(commit)).await;
        let _receipt = written.map_err(|_| Failure::new(format!("{t}: a lock is still held")))??;
    }
    Ok(())
}

/// If a creation is dropped at any await, it takes effect or does not, and no later call waits for it.
pub(super) async fn a_dropped_creation_is_all_or_nothing(given: &Given) -> Verdict {
    check_all_or_nothing(given, CREATION, EffectBy::LaterRead).await
}

/// If a commit is dropped at any await, it takes effect in full or not at all, and no later call waits for it.
pub(super) async fn a_dropped_commit_is_all_or_nothing(given: &Given) -> Verdict {
    check_all_or_nothing(given, FIRST_COMMIT, EffectBy::LaterRead).await?;
    check_all_or_nothing(given, COMMIT, EffectBy::LaterRead).await
}

/// If an update is dropped at any await, it takes effect or does not, and no later call waits for it.
pub(super) async fn a_dropped_update_is_all_or_nothing(given: &Given) -> Verdict {
    check_all_or_nothing(given, UPDATE, EffectBy::LaterRead).await
}

/// If a deletion is dropped at any await, it deletes both the thread and its child, or neither of them. No later call
/// waits for it.
pub(super) async fn a_dropped_deletion_is_all_or_nothing(given: &Given) -> Verdict {
    check_all_or_nothing(given, DELETION, EffectBy::LaterRead).await?;
    let given = given.open_another_store().await?;
    for polls in 0..20 {
        let (t, child) = (id::<ThreadId>(&format!("t-{polls}")), format!("child-{polls}"));
        create_thread_with_child(&given, &t, &child).await?;
        poll_then_drop(deletion_call(&given.stores()?, t.clone()), polls).await?;
        tokio::time::sleep(LATE_EFFECT_DELAY).await;
        let threads = given.threads()?;
        let thread_exists = threads.load_thread(&t).await?.is_some();
        let child_exists = threads.load_thread(&id(&child)).await?.is_some();
        expect_eq(thread_exists, child_exists).map_err(|failure| failure.about(format!("after {polls} polls")))?;
    }
    Ok(())
}

/// If a prune is dropped at any await, each thread is removed or unchanged. No later call waits for the prune.
pub(super) async fn a_dropped_prune_is_all_or_nothing(given: &Given) -> Verdict {
    check_all_or_nothing(given, PRUNE, EffectBy::NextCall).await
}

/// A dropped commit takes effect before any later call (or read) of the same handle on the same thread, or never.
pub(super) async fn a_dropped_commit_does_not_take_effect_late(given: &Given) -> Verdict {
    check_all_or_nothing(given, FIRST_COMMIT, EffectBy::NextCall).await?;
    check_all_or_nothing(given, COMMIT, EffectBy::NextCall).await
}

/// A dropped creation, update or deletion takes effect before any later call of the same handle on the same thread, or
/// never.
pub(super) async fn a_dropped_change_does_not_take_effect_late(given: &Given) -> Verdict {
    for dropped_call in [CREATION, UPDATE, DELETION] {
        check_all_or_nothing(given, dropped_call, EffectBy::NextCall).await?;
    }
    Ok(())
}

/// After many concurrent callers have dropped their calls, the store still works: every log is without gaps, and
/// nothing is locked.
pub(super) async fn many_dropped_calls_leave_a_store_that_works(given: &Given) -> Verdict {
    let stores = Arc::new(given.stores()?);
    let results = crate::given::run_concurrently(8, |task| {
        let stores = Arc::clone(&stores);
        async move {
            for at in 0..60 {
                let t: ThreadId = id(&format!("t-{}", at % 4));
                let make_call: MakeCall = [creation_call, commit_call, update_call, deletion_call][(task + at) % 4];
                // A refusal does not matter here, because other tasks create and delete the threads.
                let _result = poll_then_drop(make_call(&stores, t), at % 7).await;
            }
        }
    });
    results.await;
    for at in 0..4 {
        let t: ThreadId = id(&format!("t-{at}"));
        // The thread may already be deleted.
        let _answer = timeout(CALL_TIMEOUT, deletion_call(&stores, t.clone()))
            .await
            .map_err(|_| Failure::new("a lock is held"))?;
        let receipt = given.commit(keyed_commit_with_message(&t, "last", "x").expecting(Expect::Absent)).await?;
        expect_eq((receipt.version.number(), given.read_log(&t).await?.len()), (1, 1))?;
    }
    Ok(())
}
