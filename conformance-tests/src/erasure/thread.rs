//! What belongs to a thread is erased with it.

use store_core::{
    AuditQuery, DispatchFilter, DocumentKey, DocumentQuery, EraseThread, ErrorKind, EventQuery, IgnoreProgress,
    KeySegment, NewThread, OutboxFilter, OutboxQuery, PageRequest, ParentFilter, ReplayContent, ReplayQuery,
    ReplayStreamRef, Scope, ThreadFilter, ThreadQuery, thread::ThreadFields,
};

use super::helpers::{ADA, BOB, by_admin, erase, erasure, plant};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::id,
};

/// No record of any contract has the text of an erased thread, and its id can be used for a new thread.
pub(super) async fn no_reader_sees_anything_of_an_erased_thread(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA]).await?;
    let threads = stores.threads.clone().ok_or_else(|| Failure::new("no threads"))?;
    let erased = erase(given, ADA.name).await?;
    expect_eq((erased.threads.len(), erased.entries, erased.runs), (2, 7, 1))?;
    expect_eq(threads.load_thread(&id(ADA.name)).await?, None)?;
    expect_eq(threads.load_run(&id(&ADA.run())).await?, None)?;
    // The profile belongs to the user, not to the thread.
    let profiles = store_core::ProfileLayer::new(store_core::LayerStore::new(&stores)?);
    let user = store_core::ProfileOwner::User(id("ada"));
    expect_eq(store_core::ProfileStore::clear_profile(&profiles, &user).await?, 1)?;
    let audits = store_core::AuditLog::new(store_core::LayerStore::new(&stores)?);
    let page = store_core::AuditStore::list_audit(&audits, AuditQuery::new()).await?;
    expect(page.items.iter().any(|record| record.error.is_some()), "an audit record about the user lost its error")?;
    let seen = super::ErasureSubject::read_everything(&stores, &[&ADA]).await?;
    let others = seen.lines().filter(|line| line.contains(ADA.marker) && !line.contains("profile/user")).count();
    expect_eq(others, 0)
}

/// Dispatches of every status are gone, and the holder of a claim can write nothing more.
pub(super) async fn dispatches_are_erased(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA]).await?;
    let Some(mailbox) = stores.mailbox else { return Ok(()) };
    expect_eq(mailbox.count_dispatches(Some(&id(ADA.name))).await?.total(), 4)?;
    let claimed = mailbox.list_dispatches(store_core::DispatchQuery::new(DispatchFilter::default())).await?;
    let waiting = expect_some(claimed.items.iter().find(|dispatch| dispatch.claim.is_some()), "a claimed dispatch")?;
    expect_eq(erase(given, ADA.name).await?.dispatches, 4)?;
    expect_eq(mailbox.count_dispatches(Some(&id(ADA.name))).await?.total(), 0)?;
    expect_eq(mailbox.load_dispatch(&waiting.id).await?, None)?;
    // An interrupt with a former key is a new one.
    let again = store_core::Interrupt::new(id(ADA.name)).with_key(id(&ADA.text("interrupt-key")));
    expect_eq(mailbox.interrupt(again).await?.deduplicated, false)
}

/// Rows of the outbox are gone, also those that a consumer holds, and their keys are free.
pub(super) async fn outbox_rows_are_erased_whatever_their_status(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB]).await?;
    let outbox = stores.outbox.clone().ok_or_else(|| Failure::new("no outbox"))?;
    expect_eq(erase(given, ADA.name).await?.outbox_rows, 2)?;
    let mut query = OutboxQuery::new(OutboxFilter::default());
    query.page = PageRequest::first(100);
    let left: Vec<_> = outbox.list_outbox(query).await?.items.into_iter().map(|row| row.thread.to_string()).collect();
    expect_eq(left, vec![BOB.name.to_owned(); 2])
}

/// The scopes of the thread and of its run are empty. Their numbers go on.
pub(super) async fn events_of_the_thread_and_its_runs_are_erased(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA]).await?;
    let events = stores.events.clone().ok_or_else(|| Failure::new("no events"))?;
    expect_eq(erase(given, ADA.name).await?.events, 4)?;
    for (scope, appended) in [(Scope::Thread(id(ADA.name)), 3), (Scope::Run(id(&ADA.run())), 2)] {
        let info = events.load_scope(&scope).await?;
        expect_eq((info.appended, info.events), (appended, 0))?;
        expect_eq(events.list_events(EventQuery::new(scope)).await?.items, Vec::new())?;
    }
    Ok(())
}

/// An event that is in a topic, too, stays there with its number, and without its content.
pub(super) async fn events_in_topics_lose_their_content(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB]).await?;
    let events = stores.events.clone().ok_or_else(|| Failure::new("no events"))?;
    let query = EventQuery::new(Scope::Topic(id("erasure-topic")));
    let before = events.list_events(query.clone()).await?.items;
    expect_eq(before.len(), 4)?;
    erase(given, ADA.name).await?;
    let after = events.list_events(query).await?.items;
    for (old, new) in before.iter().zip(&after) {
        expect_eq((&old.id, &old.kind, old.created_at), (&new.id, &new.kind, new.created_at))?;
        expect_eq(&old.cursors.topics, &new.cursors.topics)?;
        let is_of_ada = old.thread.as_ref().is_some_and(|thread| thread.as_str() == ADA.name);
        expect_eq((new.redacted, new.payload.is_none()), (is_of_ada, is_of_ada))?;
    }
    expect_eq(after.len(), 4)
}

fn stream(name: &str) -> ReplayStreamRef {
    ReplayStreamRef::new(id(name), id("wire"), id("1")).expect("a short name")
}

async fn listed(given: &Given, name: &str) -> Result<Vec<store_core::ReplayRecord>, Failure> {
    let clock = std::sync::Arc::new(store_core::SystemClock);
    let replay = given.fixture().replay(&given.stores()?, clock)?;
    Ok(replay.list_replay(ReplayQuery::new(stream(name))).await?.items)
}

/// A replay stream with the id of a run of the thread is gone, and its wire ids are free.
pub(super) async fn replay_streams_of_the_thread_are_removed(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB]).await?;
    expect_eq((listed(given, &ADA.run()).await?.len(), listed(given, &BOB.run()).await?.len()), (1, 1))?;
    erase(given, ADA.name).await?;
    expect_eq((listed(given, &ADA.run()).await?.len(), listed(given, &BOB.run()).await?.len()), (0, 1))?;
    let documents = stores.documents.ok_or_else(|| Failure::new("no documents"))?;
    let wire_id = KeySegment::Id(id(&format!("{}-replay", ADA.name)));
    let key = DocumentKey::new(
        id("layer.replay.records"),
        ["wire", "1"].map(|text| KeySegment::Id(id(text))).into_iter().chain([wire_id]),
    )?;
    expect_eq(documents.load_documents(&[key.into()]).await?, vec![None])
}

/// Records of other streams stay, and have no bytes any more if they were made from events of the thread.
pub(super) async fn records_made_from_erased_events_lose_their_bytes(given: &Given) -> Verdict {
    plant(given, &[ADA, BOB]).await?;
    let before = listed(given, "erasure-shared").await?;
    expect(before.iter().all(|record| record.bytes().is_some()), "a record had no bytes")?;
    expect_eq(erase(given, ADA.name).await?.replay_records, 2)?;
    let after = listed(given, "erasure-shared").await?;
    expect_eq(after.iter().map(|record| record.sequence).collect::<Vec<_>>(), vec![1, 2])?;
    expect(matches!(after[0].content, ReplayContent::Redacted { .. }), "the bytes are still there")?;
    expect_eq(&after[1], &before[1])
}

/// A replay stream that the caller names is removed, whatever its id.
pub(super) async fn named_replay_streams_are_removed(given: &Given) -> Verdict {
    plant(given, &[ADA, BOB]).await?;
    let request = EraseThread::new(id(ADA.name), by_admin()).with_replay(stream("erasure-shared"));
    let dry = erasure(given)?.erase_thread(request.clone().dry(), &IgnoreProgress).await?;
    expect_eq((dry.replay_records, listed(given, "erasure-shared").await?.len()), (4, 2))?;
    erasure(given)?.erase_thread(request, &IgnoreProgress).await?;
    expect_eq(listed(given, "erasure-shared").await?.len(), 0)
}

/// The orders of effects and of stream checkpoints have no entry of the thread.
pub(super) async fn layers_keep_no_entry_of_an_erased_thread(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB]).await?;
    let documents = stores.documents.ok_or_else(|| Failure::new("no documents"))?;
    expect_eq(erase(given, ADA.name).await?.documents, 3)?;
    for (collection, left) in [("layer.effects.order", 2), ("layer.stream_checkpoints.index", 1)] {
        let found = documents.list_documents(DocumentQuery::new(id(collection))).await?.items;
        expect(found.iter().all(|document| !document.key.to_string().contains(ADA.name)), collection)?;
        expect_eq((collection, found.len()), (collection, left))?;
    }
    Ok(())
}

/// Audit records about the thread stay, with who did what and when. Their values and errors are gone.
pub(super) async fn audit_records_lose_their_values(given: &Given) -> Verdict {
    plant(given, &[ADA, BOB]).await?;
    let audit = given.fixture().audit(&given.stores()?)?;
    let of = |name: &str| AuditQuery::new().about(store_core::ResourceFilter::Below(resource(&["thread", name])));
    let before = audit.list_audit(of(ADA.name)).await?.items;
    expect_eq((before.len(), before[0].before.is_some(), before[0].redacted), (1, true, false))?;
    expect_eq(erase(given, ADA.name).await?.audit_records, 1)?;
    let after = audit.list_audit(of(ADA.name)).await?.items;
    expect_eq(
        (&after[0].id, &after[0].actor, &after[0].action, after[0].time),
        (&before[0].id, &before[0].actor, &before[0].action, before[0].time),
    )?;
    expect_eq((&after[0].before, &after[0].after, &after[0].error, after[0].redacted), (&None, &None, &None, true))?;
    expect(audit.list_audit(of(BOB.name)).await?.items[0].before.is_some(), "the record of another thread")
}

fn resource(parts: &[&str]) -> store_core::AuditResource {
    store_core::AuditResource::of(parts.iter().copied()).expect("a resource")
}

/// Values that agents share in the thread are removed.
pub(super) async fn profiles_of_the_thread_are_removed(given: &Given) -> Verdict {
    let stores = plant(given, &[ADA, BOB]).await?;
    let profiles = store_core::ProfileLayer::new(store_core::LayerStore::new(&stores)?);
    expect_eq(erase(given, ADA.name).await?.profile_values, 1)?;
    let owners = store_core::ProfileStore::list_owners(&profiles, None, 100).await?;
    let owners: Vec<_> = owners.iter().map(ToString::to_string).collect();
    expect_eq(owners, ["user:ada", "user:bob", "thread:bob-1"].map(str::to_owned).to_vec())
}

async fn create(given: &Given, name: &str, parent: &str, resource: Option<&str>) -> Verdict {
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(id(parent));
    fields.resource_id = resource.map(id);
    let _thread = given.threads()?.create_thread(NewThread::new(id(name)).with_fields(fields)).await?;
    Ok(())
}

/// Children and their children are erased with a thread, the deepest first.
pub(super) async fn descendants_are_erased(given: &Given) -> Verdict {
    plant(given, &[ADA, BOB]).await?;
    create(given, "deep", "ada-1-child", None).await?;
    create(given, "deeper", "deep", Some("ada")).await?;
    let erased = erase(given, ADA.name).await?;
    let names: Vec<_> = erased.threads.iter().map(ToString::to_string).collect();
    expect_eq(names, ["deeper", "deep", "ada-1-child", "ada-1"].map(str::to_owned).to_vec())?;
    let left = given.threads()?.list_threads(ThreadQuery::default()).await?.items;
    expect_eq(left.len(), 2)
}

/// A child that belongs to another resource stays with all that it has, and has no parent any more.
pub(super) async fn children_of_another_resource_stay(given: &Given) -> Verdict {
    plant(given, &[ADA]).await?;
    create(given, "of-bob", "ada-1-child", Some("bob")).await?;
    create(given, "below", "of-bob", None).await?;
    let erased = erase(given, ADA.name).await?;
    expect_eq(erased.detached.iter().map(ToString::to_string).collect::<Vec<_>>(), vec!["of-bob".to_owned()])?;
    let kept = given.thread(&id("of-bob")).await?;
    expect_eq((kept.parent_thread_id, kept.resource_id), (None, Some(id("bob"))))?;
    let mut filter = ThreadFilter::default();
    filter.parent = Some(ParentFilter::Of(id("of-bob")));
    expect_eq(given.threads()?.count_threads(&filter).await?, 1)
}

/// The erasure has an audit record that names the thread, and no value. A refused or dry one has none.
pub(super) async fn an_erasure_is_audited_without_content(given: &Given) -> Verdict {
    plant(given, &[ADA]).await?;
    let request = EraseThread::new(id(ADA.name), by_admin());
    erasure(given)?.erase_thread(request.dry(), &IgnoreProgress).await?;
    let audit = given.fixture().audit(&given.stores()?)?;
    let about = AuditQuery::new().about(store_core::ResourceFilter::Exact(resource(&["thread", ADA.name])));
    expect_eq(audit.list_audit(about.clone()).await?.items.len(), 0)?;
    erase(given, ADA.name).await?;
    let found = audit.list_audit(about).await?.items;
    expect_eq(found.len(), 1)?;
    let record = &found[0];
    expect_eq((record.action.name(), record.actor.as_str()), ("erase", "admin"))?;
    expect_eq((&record.before, &record.after, &record.error), (&None, &None, &None))?;
    let refused = audit.load_audit(&record.id).await?;
    expect_eq(refused.as_ref(), Some(record))?;
    expect_kind(
        given.threads()?.delete_thread(&id(ADA.name), store_core::DeleteRequest::default()).await,
        ErrorKind::NotFound,
    )?;
    Ok(())
}
