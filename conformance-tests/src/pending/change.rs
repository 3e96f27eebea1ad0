//! Updates, retractions and reorders of pending input.

use store_core::{
    Boundary, Delivery, EntryId, ErrorKind, Message, NewInput, PendingBody, PendingInput, PendingUpdate, Reorder,
};

use super::helpers::{ThreadQueue, input};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
};

fn update_of(name: &str) -> PendingUpdate {
    PendingUpdate::new(id("t"), id(name))
}

fn message_update(name: &str, text: &str) -> PendingUpdate {
    update_of(name).with_message(Message::user(text))
}

fn entry_ids(names: &[&str]) -> Vec<EntryId> {
    names.iter().map(|name| id(name)).collect()
}

async fn find_input(queue: &ThreadQueue<'_>, name: &str) -> Result<PendingInput, Failure> {
    let found = queue.load().await?.inputs.into_iter().find(|input| input.id.as_str() == name);
    found.ok_or_else(|| Failure::new(format!("`{name}` is not pending")))
}

/// An update of the message or the delivery does not change the position and the time of creation of the input. It
/// raises the revisions of the input and of the queue.
pub(super) async fn an_update_keeps_the_position(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b", "c"]).await?;
    let input_before = find_input(&queue, "b").await?;
    let input_a = find_input(&queue, "a").await?;
    let changed_input = queue.store()?.update_pending(message_update("b", "new")).await?;
    // Only `load_queue` computes positions. `expect_inputs` below checks them.
    expect_eq(changed_input.position, None)?;
    expect_eq(&changed_input.body, &PendingBody::Message(Message::user("new")))?;
    expect_eq(
        (changed_input.delivery.clone(), changed_input.created_at),
        (input_before.delivery.clone(), input_before.created_at),
    )?;
    let queue_after = queue.load().await?;
    expect_eq((changed_input.revision, queue_after.revision), (2, 2))?;
    queue.expect_inputs("a b c").await?;
    let delivery = Delivery::at(Boundary::NextStep);
    let second_change =
        queue.store()?.update_pending(update_of("b").expecting(2).with_delivery(delivery.clone())).await?;
    expect_eq((&second_change.delivery, &second_change.body), (&delivery, &changed_input.body))?;
    queue.expect_inputs("a b c").await?;
    expect_eq(find_input(&queue, "a").await?, input_a)?;
    expect_eq(find_input(&queue, "b").await?.to_input_ref(), second_change.to_input_ref())
}

/// An update that expects a revision other than the current one is refused.
pub(super) async fn an_update_of_a_stale_revision_is_refused(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    queue.store()?.update_pending(message_update("a", "1").expecting(1)).await?;
    let queue_before = queue.load().await?;
    for revision in [0, 1, 3] {
        let stale = queue.store()?.update_pending(message_update("a", "2").expecting(revision)).await;
        expect_kind(stale, ErrorKind::Conflict)?;
    }
    expect_eq(queue.load().await?, queue_before)?;
    queue.store()?.update_pending(message_update("b", "2").expecting(1)).await.map(drop).map_err(Failure::from)
}

/// An update that changes nothing raises no revision.
pub(super) async fn an_input_update_without_effect_raises_no_revision(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a"]).await?;
    let queue_before = queue.load().await?;
    for update in [update_of("a"), message_update("a", "a"), update_of("a").with_delivery(Delivery::default())] {
        let found = queue.store()?.update_pending(update).await?;
        expect_eq(found.revision, 1)?;
    }
    expect_eq(queue.load().await?, queue_before)
}

/// A retraction removes an input and returns it. It does not change the revisions of the other inputs.
pub(super) async fn a_retraction_returns_the_input(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b", "c"]).await?;
    queue.store()?.update_pending(message_update("b", "new")).await?;
    let (input_b, other_inputs) =
        (find_input(&queue, "b").await?, [find_input(&queue, "a").await?, find_input(&queue, "c").await?]);
    let retracted = queue.store()?.retract_pending(&id("t"), &id("b")).await?;
    expect_eq((retracted.to_input_ref(), &retracted.body), (input_b.to_input_ref(), &input_b.body))?;
    queue.expect_inputs("a c").await?;
    let queue_after = queue.load().await?;
    expect_eq(queue_after.revision, 3)?;
    expect_eq(
        queue_after.inputs.iter().map(PendingInput::to_input_ref).collect::<Vec<_>>(),
        other_inputs.map(|input| input.to_input_ref()),
    )?;
    expect_kind(queue.store()?.retract_pending(&id("t"), &id("b")).await, ErrorKind::NotFound).map(drop)
}

/// A reorder must name every input once, and the current revision of the queue. It raises the revision of the queue,
/// but not those of the inputs.
pub(super) async fn a_reorder_names_every_input(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b", "c"]).await?;
    let revision = queue.store()?.reorder_pending(Reorder::new(id("t"), 1, entry_ids(&["c", "a", "b"]))).await?;
    expect_eq(revision, 2)?;
    queue.expect_inputs("c a b").await?;
    expect_eq(queue.load().await?.revision, 2)?;
    expect_eq(queue.input_ref("a").await?.revision, 1)?;
    let unchanged_revision =
        queue.store()?.reorder_pending(Reorder::new(id("t"), 2, entry_ids(&["c", "a", "b"]))).await?;
    expect_eq(unchanged_revision, 2)?;
    queue.append([input("d")]).await?;
    queue.expect_inputs("c a b d").await?;
    let stale_reorder = Reorder::new(id("t"), 2, entry_ids(&["a", "b", "c", "d"]));
    expect_kind(queue.store()?.reorder_pending(stale_reorder).await, ErrorKind::Conflict)?;
    queue.store()?.reorder_pending(Reorder::new(id("t"), 3, entry_ids(&["d", "c", "b", "a"]))).await?;
    queue.expect_inputs("d c b a").await
}

/// A reorder is refused and changes nothing if the revision is stale, if an input is missing or named twice, or if it
/// names an input of another thread.
pub(super) async fn a_refused_reorder_changes_nothing(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b", "c"]).await?;
    ThreadQueue::with_inputs(given, "u", &["x"]).await?;
    let queue_before = queue.load().await?;
    for (order, revision, kind) in [
        (vec!["a", "b"], 1, ErrorKind::Invalid),
        (vec![], 1, ErrorKind::Invalid),
        (vec!["a", "b", "c", "x"], 1, ErrorKind::Invalid),
        (vec!["a", "b", "b"], 1, ErrorKind::Invalid),
        (vec!["a", "b", "c", "c"], 1, ErrorKind::Invalid),
        (vec!["c", "b", "a"], 0, ErrorKind::Conflict),
        (vec!["c", "b", "a"], 2, ErrorKind::Conflict),
    ] {
        let refused = queue.store()?.reorder_pending(Reorder::new(id("t"), revision, entry_ids(&order))).await;
        expect_kind(refused, kind).map_err(|failure| failure.about(format!("{order:?}")))?;
        expect_eq(queue.load().await?, queue_before.clone())?;
    }
    Ok(())
}

/// An input that was consumed cannot be updated, retracted, reordered or appended again.
pub(super) async fn consumed_input_can_no_longer_be_changed(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    queue.consume(&["a"]).await?;
    let store = queue.store()?;
    expect_kind(store.update_pending(message_update("a", "x")).await, ErrorKind::AlreadyConsumed)?;
    expect_kind(store.retract_pending(&id("t"), &id("a")).await, ErrorKind::AlreadyConsumed)?;
    let revision = queue.load().await?.revision;
    let order = Reorder::new(id("t"), revision, entry_ids(&["a", "b"]));
    expect_kind(store.reorder_pending(order).await, ErrorKind::AlreadyConsumed)?;
    queue.expect_refused([NewInput::message(Message::user("a")).with_id(id("a"))], ErrorKind::AlreadyConsumed).await?;
    queue.expect_inputs("b").await
}

/// For an unknown input or an unknown thread, updates, retractions and reorders fail with `NotFound`.
pub(super) async fn an_unknown_input_is_not_found(given: &Given) -> Verdict {
    // In the first round the thread is unknown. In the second round it has another input.
    for _ in 0..2 {
        let store = ThreadQueue::of(given, "t").store()?;
        expect_kind(store.update_pending(message_update("a", "x")).await, ErrorKind::NotFound)?;
        expect_kind(store.retract_pending(&id("t"), &id("a")).await, ErrorKind::NotFound)?;
        let unknown = store.reorder_pending(Reorder::new(id("unknown"), 0, Vec::new())).await;
        expect_kind(unknown, ErrorKind::NotFound)?;
        ThreadQueue::with_inputs(given, "t", &["b"]).await?;
    }
    Ok(())
}

/// The revision of an input never decreases, even if the input is retracted and appended again, and the queue was empty
/// in between.
pub(super) async fn revisions_never_decrease(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a"]).await?;
    let mut last_revision = queue.input_ref("a").await?.revision;
    for round in 0..3 {
        queue.store()?.update_pending(message_update("a", &format!("{round}"))).await?;
        queue.store()?.retract_pending(&id("t"), &id("a")).await?;
        queue.append([input("a")]).await?;
        let revision = queue.input_ref("a").await?.revision;
        expect(revision > last_revision, format!("revision {revision} follows revision {last_revision}"))?;
        last_revision = revision;
    }
    Ok(())
}

/// Updates, retractions and reorders survive a reopen.
pub(super) async fn changes_of_a_queue_survive_a_reopen(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b", "c", "d"]).await?;
    queue.store()?.update_pending(message_update("b", "new")).await?;
    queue.store()?.retract_pending(&id("t"), &id("c")).await?;
    queue.store()?.reorder_pending(Reorder::new(id("t"), 3, entry_ids(&["d", "b", "a"]))).await?;
    queue.append([input("e")]).await?;
    queue.store()?.update_pending(message_update("d", "newer")).await?;
    let queue_before = queue.load().await?;
    given.reopen().await?;
    expect_eq(queue.load().await?, queue_before)?;
    queue.expect_inputs("d b a e").await
}
