//! Appends to a queue.

use store_core::{
    Block, Boundary, DeleteRequest, Delivery, ErrorKind, Message, NewInput, NewThread, PendingBody, PendingUpdate,
    Role, RunTarget,
};

use super::helpers::{ThreadQueue, input, input_with_delivery};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
    log::entry_drafts::json,
};

/// Inputs are appended to the queue in the order given. Positions begin at 1. If the caller does not give an id, the
/// store generates one.
pub(super) async fn inputs_are_appended_in_order(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    queue.expect_inputs("a b").await?;
    let appended = queue.append([NewInput::message(Message::user("generated")), input("c")]).await?;
    expect_eq((appended.inputs.len(), appended.deduplicated), (2, false))?;
    let generated_id = appended.inputs[0].id.to_string();
    queue.expect_inputs(&format!("a b {generated_id} c")).await?;
    let loaded = queue.load().await?;
    let refs: Vec<_> = loaded.inputs.iter().skip(2).map(store_core::PendingInput::to_input_ref).collect();
    expect_eq(refs, appended.inputs)?;
    expect_eq(loaded.revision, 2)
}

/// The message and the delivery of an input are returned as they were given. A reopen does not change the queue.
pub(super) async fn pending_inputs_round_trip(given: &Given) -> Verdict {
    let queue = ThreadQueue::of(given, "t");
    let mut message = Message::user("x\0y");
    message.metadata.insert("n".to_owned(), json("1.50"));
    let delivery = Delivery::at(Boundary::NextStep).alone().as_barrier().for_run(RunTarget::without_fallback(id("r")));
    queue.append([NewInput::message(message.clone()).with_id(id("a")).with_delivery(delivery.clone())]).await?;
    let queue_before = queue.load().await?;
    let found = queue_before.inputs.first();
    expect_eq(found.map(|input| &input.body), Some(&PendingBody::Message(message)))?;
    expect_eq(found.map(|input| &input.delivery), Some(&delivery))?;
    expect(found.is_some_and(|input| input.created_at == input.updated_at), "the times of a new input differ")?;
    given.reopen().await?;
    expect_eq(queue.load().await?, queue_before)
}

/// If one input of an append is refused, none is appended. An append is also refused if some of its inputs are already
/// pending and others are new.
pub(super) async fn an_append_is_all_or_none(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a"]).await?;
    let invalid_input = NewInput::message(Message::new(Role::Tool, vec![Block::text("x")])).with_id(id("bad"));
    queue.expect_refused([input("b"), invalid_input], ErrorKind::Invalid).await?;
    queue.expect_refused([input("b"), input("b")], ErrorKind::AlreadyExists).await?;
    queue.expect_refused([input("a"), input("b")], ErrorKind::AlreadyExists).await?;
    queue.expect_refused([], ErrorKind::Invalid).await?;
    queue.append([input("b")]).await?;
    queue.expect_inputs("a b").await
}

/// If all inputs of an append are already pending with the same content, the append returns them and writes nothing.
pub(super) async fn a_repeated_append_returns_the_first_inputs(given: &Given) -> Verdict {
    let queue = ThreadQueue::of(given, "t");
    let inputs = || [input("a"), input_with_delivery("b", Delivery::at(Boundary::Interrupt))];
    let first_answer = queue.append(inputs()).await?;
    queue.append([input("c")]).await?;
    let queue_before = queue.load().await?;
    let repeated_answer = queue.append(inputs()).await?;
    expect_eq((repeated_answer.inputs, repeated_answer.deduplicated), (first_answer.inputs, true))?;
    expect_eq(queue.load().await?, queue_before)
}

/// An input is refused if its id is that of a pending input with other content, or of an entry in the log.
pub(super) async fn an_id_in_use_is_refused(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    let input_with_other_content = NewInput::message(Message::user("other")).with_id(id("a"));
    queue.expect_refused([input_with_other_content], ErrorKind::AlreadyExists).await?;
    queue
        .expect_refused([input_with_delivery("a", Delivery::at(Boundary::NextStep))], ErrorKind::AlreadyExists)
        .await?;
    queue.consume(&["a"]).await?;
    queue.expect_refused([input("a")], ErrorKind::AlreadyConsumed).await?;
    given
        .expect_accepted(queue.commit_consuming(&[]).await?.entry(crate::log::entry_drafts::user_entry("said")))
        .await?;
    queue.expect_refused([input("said")], ErrorKind::AlreadyConsumed).await?;
    queue.expect_inputs("b").await?;
    ThreadQueue::with_inputs(given, "u", &["a"]).await?.expect_inputs("a").await
}

/// A message that would be refused as an entry is also refused as input, by an append and by an update.
pub(super) async fn an_input_with_an_invalid_message_is_refused(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a"]).await?;
    let message_with_misplaced_block = || Message::new(Role::User, vec![Block::tool_use("c", "tool", json("{}"))]);
    queue.expect_refused([NewInput::message(message_with_misplaced_block())], ErrorKind::Invalid).await?;
    let queue_before = queue.load().await?;
    let update = PendingUpdate::new(id("t"), id("a")).with_message(message_with_misplaced_block());
    expect_kind(queue.store()?.update_pending(update).await, ErrorKind::Invalid)?;
    expect_eq(queue.load().await?, queue_before)
}

/// If the thread does not exist, an append creates it with version 0. A refused append does not create it.
pub(super) async fn an_append_creates_the_thread(given: &Given) -> Verdict {
    let queue = ThreadQueue::of(given, "t");
    queue.expect_refused([], ErrorKind::Invalid).await?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    queue.append([input("a")]).await?;
    let thread = given.thread(&id("t")).await?;
    expect_eq((thread.version.number(), thread.revision.number(), thread.head), (0, 1, None))?;
    expect_kind(given.threads()?.create_thread(NewThread::new(id("t"))).await, ErrorKind::AlreadyExists)?;
    given.create_empty_thread("u").await?;
    ThreadQueue::with_inputs(given, "u", &["a"]).await?.expect_inputs("a").await
}

/// A deleted thread accepts no input until it is created again.
pub(super) async fn a_deleted_thread_takes_no_input(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a"]).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    queue.expect_refused([input("b")], ErrorKind::NotFound).await?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)?;
    given.create_empty_thread("t").await?;
    queue.append([input("c")]).await?;
    queue.expect_inputs("c").await
}

/// The queue of an unknown thread is empty and has revision 0.
pub(super) async fn an_unknown_thread_has_an_empty_queue(given: &Given) -> Verdict {
    let queue = ThreadQueue::of(given, "t").load().await?;
    expect_eq((queue.revision, queue.inputs.len()), (0, 0))?;
    given.create_empty_thread("t").await?;
    let queue = ThreadQueue::of(given, "t").load().await?;
    expect_eq((queue.revision, queue.inputs.len()), (0, 0))
}

/// A queue can hold 10,000 inputs. One more is refused. After an input was retracted, another one can be appended.
pub(super) async fn a_queue_has_ten_thousand_inputs_at_most(given: &Given) -> Verdict {
    let queue = ThreadQueue::of(given, "t");
    let inputs = |from: usize, to: usize| (from..to).map(|number| input(&format!("i-{number}"))).collect::<Vec<_>>();
    for from in (0..9_000).step_by(1_000) {
        queue.append(inputs(from, from + 1_000)).await?;
    }
    queue.append(inputs(9_000, 10_000)).await?;
    let one_more = queue.append_request([input("more")]);
    expect_kind(queue.store()?.append_pending(one_more).await, ErrorKind::LimitExceeded)?;
    queue.store()?.retract_pending(&id("t"), &id("i-7")).await?;
    let two_more = queue.append_request([input("more"), input("even more")]);
    expect_kind(queue.store()?.append_pending(two_more).await, ErrorKind::LimitExceeded)?;
    queue.append([input("more")]).await?;
    expect_eq(queue.load().await?.inputs.len(), 10_000)
}

/// If a store was opened with smaller limits, these apply to the number of inputs and to the size of an input.
pub(super) async fn smaller_limits_of_a_store_apply(given: &Given) -> Verdict {
    let given = given
        .open_another_store_with_limits(|limits| {
            limits.pending_inputs = 2;
            limits.record_bytes = 10_000;
        })
        .await?;
    let queue = ThreadQueue::with_inputs(&given, "t", &["a", "b"]).await?;
    queue.expect_refused([input("c")], ErrorKind::LimitExceeded).await?;
    queue.store()?.retract_pending(&id("t"), &id("a")).await?;
    // 8 KiB of the limit are reserved for the ids, numbers and times of the input and of its entry.
    let large_message = || Message::user("x".repeat(2_000));
    queue.expect_refused([NewInput::message(large_message())], ErrorKind::LimitExceeded).await?;
    let update = PendingUpdate::new(id("t"), id("b")).with_message(large_message());
    expect_kind(queue.store()?.update_pending(update).await, ErrorKind::LimitExceeded)?;
    // The limit applies to the message and the delivery together. Here neither of them is too large by itself.
    let delivery_with_long_target = Delivery::at(Boundary::NextStep).for_run(RunTarget::new(id(&"r".repeat(250))));
    let update = |bytes| PendingUpdate::new(id("t"), id("b")).with_message(Message::user("x".repeat(bytes)));
    let large_update = update(1_600).with_delivery(delivery_with_long_target.clone());
    expect_kind(queue.store()?.update_pending(large_update).await, ErrorKind::LimitExceeded)?;
    queue.store()?.update_pending(update(1_000).with_delivery(delivery_with_long_target)).await?;
    queue.append([input("c")]).await?;
    queue.expect_inputs("b c").await
}
