//! A write is visible as soon as it returns. Its parts become visible together.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use store_core::{
    Commit, ContextRequest, EntryQuery, Expect, Json, PageRequest, Result, StateChange, StateOp, Store, ThreadId,
    ThreadPatch, ThreadRunStore,
};

use crate::{
    Failure, Given, Verdict,
    case::Contract,
    check::{expect, expect_eq},
    errors::tenant_as_text,
    given::{commit_with_message, id, keyed_commit_with_message, message_entry, run_concurrently},
    record_list::first_record_list,
};

/// Writes records and commits to a thread, and reads both through other handles. Returns a description of the first
/// write that a read did not show, or `None`.
async fn describe_missing_write(store: Arc<dyn Store>, contract: Contract, task: usize) -> Result<Option<String>> {
    let (thread, records): (ThreadId, _) = (id(&format!("t-{task}")), first_record_list(contract));
    for at in 0..25_u64 {
        let (writer, reader) = (store.tenant(&id("default"))?, store.tenant(&id("default"))?);
        let name = format!("{task}-{at}");
        records.write(&writer, &name).await?;
        if !records.has(&reader, &name).await? {
            return Ok(Some(name));
        }
        let (Some(commits), Some(threads)) = (writer.commits, reader.threads) else { continue };
        let receipt = commits.commit(keyed_commit_with_message(&thread, &format!("{at}"), "x")).await?;
        let loaded_version = threads.load_thread(&thread).await?.map(|thread| thread.version);
        let has_entry = threads.load_entry(&thread, &receipt.entry_ids[0]).await?.is_some();
        let listed_count = threads.list_entries(&thread, EntryQuery::all()).await?.items.len() as u64;
        let context_length = threads.load_context(&thread, ContextRequest::head()).await?.context.messages.len() as u64;
        let reads = (loaded_version, has_entry, listed_count, context_length);
        if reads != (Some(receipt.version), true, at + 1, at + 1) {
            return Ok(Some(format!("read {reads:?} after {receipt:?}")));
        }
    }
    Ok(None)
}

/// After a write has returned, every later read through any handle shows it. Threads, entries, lists and contexts are
/// read.
pub(super) async fn writes_are_read_back_through_every_handle(given: &Given) -> Verdict {
    let (store, contract) = (given.store(), given.contract());
    for missing_write in run_concurrently(8, |task| describe_missing_write(Arc::clone(&store), contract, task)).await {
        expect_eq(missing_write?, None)?;
    }
    Ok(())
}

/// A commit of two entries that also adds 2 to a counter in the state of the thread.
fn commit_of_two_entries(thread: &ThreadId, key: &str) -> Commit {
    let state = StateChange::new().with("count", StateOp::Add(2));
    keyed_commit_with_message(thread, key, "one").entry(message_entry("two")).with_state(state)
}

/// Reads a thread whose commits were all made by [`commit_of_two_entries`]. Returns a description if the reads show
/// only a part of a commit.
async fn describe_partial_commit(threads: &dyn ThreadRunStore, thread: &ThreadId) -> Result<Option<String>> {
    let context = threads.load_context(thread, ContextRequest::head()).await?;
    let version = context.thread.version.number();
    let count = context.state.get("count").map_or("0", Json::as_str).to_owned();
    let messages = context.context.messages.len() as u64;
    let listed = threads.list_entries(thread, EntryQuery::all().with_page(PageRequest::first(1000))).await?.items;
    // The list is read after the context. So it can be longer, but not shorter.
    let last_seq = listed.last().map(|entry| entry.seq);
    let is_consistent = version % 2 == 0
        && count == version.to_string()
        && messages == version
        && context.at == context.thread.head
        && listed.len() % 2 == 0
        && last_seq.unwrap_or_default() >= version;
    Ok((!is_consistent)
        .then(|| format!("version {version}, count {count}, {messages} messages, {} entries", listed.len())))
}

/// Reads until all commits are done, or until a read shows only a part of a commit.
async fn read_until_done(
    threads: Arc<dyn ThreadRunStore>,
    thread: ThreadId,
    is_done: Arc<AtomicBool>,
) -> Result<Option<String>> {
    while !is_done.load(Ordering::SeqCst) {
        if let Some(partial_commit) = describe_partial_commit(&*threads, &thread).await? {
            return Ok(Some(partial_commit));
        }
        tokio::task::yield_now().await;
    }
    Ok(None)
}

/// A reader never sees only a part of a commit, not even in a read of several records, such as a context together with
/// the state of its thread.
pub(super) async fn a_read_of_several_records_shows_whole_commits(given: &Given) -> Verdict {
    let (thread, is_done): (ThreadId, _) = (id("t"), Arc::new(AtomicBool::new(false)));
    given.expect_accepted(commit_of_two_entries(&thread, "first")).await?;
    let mut readers = Vec::new();
    for _ in 0..3 {
        let (threads, thread, is_done) = (given.threads()?, thread.clone(), Arc::clone(&is_done));
        readers.push(tokio::spawn(read_until_done(threads, thread, is_done)));
    }
    for at in 0..150 {
        given.expect_accepted(commit_of_two_entries(&thread, &format!("{at}"))).await?;
    }
    is_done.store(true, Ordering::SeqCst);
    for reader in readers {
        expect_eq(reader.await.map_err(|panic| Failure::new(panic.to_string()))??, None)?;
    }
    Ok(())
}

/// Calls that are made one after another take effect in that order: times and versions never decrease.
pub(super) async fn calls_take_effect_in_their_order(given: &Given) -> Verdict {
    let mut thread = given.create_empty_thread("t").await?;
    for at in 0..30 {
        let receipt = given.commit(commit_with_message(&thread.id, Expect::Version(thread.version), "x")).await?;
        let patch = ThreadPatch::default().with_title(format!("{at}"));
        let updated = given.threads()?.update_thread(&thread.id, patch, Expect::Version(thread.revision)).await?;
        expect_eq(updated.version, receipt.version)?;
        expect(updated.updated_at >= receipt.time && receipt.time >= thread.updated_at, "time went back")?;
        thread = updated;
    }
    Ok(())
}

/// All acknowledged data is there after the store was opened again: every read returns the same as before.
pub(super) async fn acknowledged_data_survives_a_reopen(given: &Given) -> Verdict {
    for tenant in ["default", "acme"] {
        crate::errors::create_sample_records(&given.tenant(tenant)?).await?;
    }
    let (stores, contract) = (given.stores()?, given.contract());
    let results = run_concurrently(8, |task| {
        let stores = stores.clone();
        async move {
            for at in 0..10 {
                let name = format!("{task}-{at}");
                first_record_list(contract).write(&stores, &name).await?;
                let Some(commits) = &stores.commits else { continue };
                let _receipt = commits.commit(commit_of_two_entries(&id(&format!("t-{}", task % 3)), &name)).await?;
            }
            Result::Ok(())
        }
    });
    results.await.into_iter().collect::<Result<Vec<_>>>()?;
    drop(stores);
    let before = [tenant_as_text(&given.tenant("default")?).await?, tenant_as_text(&given.tenant("acme")?).await?];
    given.reopen().await?;
    let after = [tenant_as_text(&given.tenant("default")?).await?, tenant_as_text(&given.tenant("acme")?).await?];
    expect_eq(after, before)
}
