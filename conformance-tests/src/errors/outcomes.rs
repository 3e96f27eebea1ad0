//! Refused calls have no effect, neither at once nor later. Calls whose outcome is unknown can be resolved.

use std::time::Duration;

use store_core::{
    ClaimNumber, ClaimToken, ContextRequest, DispatchQuery, EntryQuery, ErrorKind, Expect, Fence, IgnoreProgress, Page,
    PageRequest, PruneRequest, RunQuery, TenantStores, ThreadId, ThreadQuery, ThreadRunStore,
};

use super::refusals::{create_sample_records, make_refused_calls};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{commit_with_message, id, keyed_commit_with_message},
};

/// The threads, logs, contexts, runs and dispatches of a tenant, as lines of text, so that cases can compare
/// them.
pub(crate) async fn tenant_as_text(stores: &TenantStores) -> Result<Vec<String>, Failure> {
    let mut lines = match &stores.threads {
        Some(threads) => threads_as_text(&**threads).await?,
        None => Vec::new(),
    };
    if let Some(mailbox) = &stores.mailbox {
        lines.extend(page_as_lines("dispatches", &mailbox.list_dispatches(DispatchQuery::default()).await?));
        lines.extend(page_as_lines("ready", &mailbox.list_ready_threads(PageRequest::default()).await?));
        lines.push(format!("{:?}", mailbox.count_dispatches(None).await?));
    }
    Ok(lines)
}

async fn threads_as_text(threads: &dyn ThreadRunStore) -> Result<Vec<String>, Failure> {
    let largest_page = PageRequest::first(1000);
    let listed = threads.list_threads(ThreadQuery::default().with_page(largest_page.clone())).await?;
    let mut lines = page_as_lines("threads", &listed);
    for thread in &listed.items {
        let entries = EntryQuery::all().with_page(largest_page.clone());
        lines.extend(page_as_lines("entries", &threads.list_entries(&thread.id, entries).await?));
        lines.extend(page_as_lines("leaves", &threads.list_leaves(&thread.id, largest_page.clone()).await?));
        lines.extend(page_as_lines(
            "branch points",
            &threads.list_branch_points(&thread.id, largest_page.clone()).await?,
        ));
        lines.extend(page_as_lines("snapshots", &threads.list_snapshots(&thread.id, largest_page.clone()).await?));
        lines.push(format!("{:?}", threads.load_context(&thread.id, ContextRequest::head()).await?));
    }
    lines.extend(page_as_lines("runs", &threads.list_runs(RunQuery::default()).await?));
    Ok(lines)
}

fn page_as_lines<T: std::fmt::Debug>(what: &str, page: &Page<T>) -> Vec<String> {
    page.items.iter().map(|item| format!("{what}: {item:?}")).collect()
}

/// A refused call has the outcome `NotApplied` and changes nothing: no part of it is written, no counter
/// changes, and no key is used up.
pub(super) async fn refused_calls_change_nothing(given: &Given) -> Verdict {
    let stores = given.stores()?;
    create_sample_records(&stores).await?;
    let text_before = tenant_as_text(&stores).await?;
    for (call, error) in make_refused_calls(given.contract(), &stores).await? {
        // Every kind is allowed, so `expect_kind` only checks that the outcome is `NotApplied`.
        let kind = error.kind();
        expect_kind::<()>(Err(error), kind).map_err(|failure| failure.about(call))?;
    }
    expect_eq(tenant_as_text(&stores).await?, text_before)?;
    let Some(commits) = &stores.commits else { return Ok(()) };
    let _receipt = commits.commit(keyed_commit_with_message(&id("t"), "new-key", "free")).await?;
    Ok(())
}

/// After the store is closed and reopened, no effect of a refused call appears.
pub(super) async fn refused_calls_leave_nothing_after_a_reopen(given: &Given) -> Verdict {
    create_sample_records(&given.stores()?).await?;
    let text_before = tenant_as_text(&given.stores()?).await?;
    make_refused_calls(given.contract(), &given.stores()?).await?;
    given.reopen().await?;
    expect_eq(tenant_as_text(&given.stores()?).await?, text_before)
}

/// If a refused call is made again, it is refused in the same way, because a refusal changes nothing that could change
/// the answer.
pub(super) async fn refused_calls_are_refused_again(given: &Given) -> Verdict {
    let stores = given.stores()?;
    create_sample_records(&stores).await?;
    let first_refusals = make_refused_calls(given.contract(), &stores).await?;
    let second_refusals = make_refused_calls(given.contract(), &stores).await?;
    for ((call, first_error), (_, second_error)) in first_refusals.into_iter().zip(second_refusals) {
        expect_eq(first_error.detail(), second_error.detail()).map_err(|failure| failure.about(call))?;
    }
    Ok(())
}

/// If the answer to a call is lost, the caller resolves its outcome as the documentation of the method says, and
/// repeats the call if it had no effect. Then there is exactly one effect: either that of the first call or that of the
/// repeated call.
pub(super) async fn an_unknown_outcome_can_be_resolved(given: &Given) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    for was_applied in [true, false] {
        let name = format!("t-{was_applied}");
        if was_applied {
            given.create_empty_thread(&name).await?;
        }
        // The outcome of a creation is resolved by loading the thread.
        let thread = match threads.load_thread(&id(&name)).await? {
            Some(thread) => thread,
            None => given.create_empty_thread(&name).await?,
        };
        // The outcome of a commit without a key is resolved by loading the thread and comparing its version.
        let commit = commit_with_message(&id(&name), Expect::Version(thread.version), "x");
        if was_applied {
            given.expect_accepted(commit.clone()).await?;
        }
        if given.thread(&id(&name)).await?.version == thread.version {
            given.expect_accepted(commit).await?;
        }
        // The outcome of a commit with a key is resolved by repeating the commit.
        let keyed_commit = keyed_commit_with_message(&id(&name), "k", "y");
        if was_applied {
            given.expect_accepted(keyed_commit.clone()).await?;
        }
        let receipt = commits.commit(keyed_commit).await?;
        expect_eq((receipt.deduplicated, receipt.version.number()), (was_applied, 2))?;
        expect_eq(given.read_log(&id(&name)).await?.len(), 2)?;
    }
    Ok(())
}

/// If the answer to a prune, a purge or a `reset_fence` is lost, the caller repeats the call. Then there is exactly one
/// effect.
pub(super) async fn an_unknown_outcome_of_maintenance_can_be_resolved(given: &Given) -> Verdict {
    const IDLE_TIME: Duration = Duration::from_secs(86_400);
    let (threads, [idle_thread, kept_thread]) = (given.threads()?, [id::<ThreadId>("idle"), id("kept")]);
    for was_applied in [true, false] {
        let commit_under_claim = |counter| {
            let number = ClaimNumber { incarnation: 0, counter };
            let fence = Fence::new(id("dispatch"), ClaimToken::new("token"), 1, number);
            keyed_commit_with_message(&kept_thread, &format!("{counter} {was_applied}"), "x").fenced(fence)
        };
        given.create_thread_with_messages("idle", &["x"]).await?;
        given.advance(IDLE_TIME + Duration::from_secs(1)).await;
        given.expect_accepted(commit_under_claim(9)).await?;
        // If the first call took effect, the repeated call is the second one. Otherwise it is the only one.
        let calls = 0..=usize::from(was_applied);
        for _ in calls.clone() {
            threads.prune_threads(PruneRequest { idle: IDLE_TIME, limit: 1_000, dry_run: false }).await?;
        }
        expect(threads.load_thread(&idle_thread).await?.is_none(), "the idle thread was not pruned")?;
        // In the second round the log also has the two entries of the first.
        expect_eq(given.read_log(&kept_thread).await?.len(), if was_applied { 1 } else { 3 })?;
        for _ in calls.clone() {
            threads.purge_deleted(&IgnoreProgress).await?;
        }
        expect_eq(threads.purge_deleted(&IgnoreProgress).await?, 0)?;
        expect_kind(given.commits()?.commit(commit_under_claim(3)).await, ErrorKind::StaleEpoch)?;
        for _ in calls {
            threads.reset_fence(&kept_thread).await?;
        }
        given.expect_accepted(commit_under_claim(3)).await?;
    }
    Ok(())
}
