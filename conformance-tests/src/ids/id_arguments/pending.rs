//! Ids of pending input: thread, input, target.

use store_core::{AppendPending, Boundary, Delivery, Message, NewInput, PendingStore, RunTarget, ThreadId};

use super::sorted;
use crate::{
    Verdict,
    check::{expect, expect_eq},
    given::{id, read_all_pages},
};

/// A thread in whose queue each text is the id of one input.
fn shared_thread() -> ThreadId {
    id("shared")
}

/// An append of one input whose target is the run `text`.
fn append_request(thread: &str, input: &str, text: &str) -> AppendPending {
    let delivery = Delivery::at(Boundary::NextStep).for_run(RunTarget::new(id(text)));
    let input = NewInput::message(Message::user(text)).with_id(id(input)).with_delivery(delivery);
    AppendPending::new(id(thread), [input])
}

/// Writes records with `text` as each of their ids.
pub(super) async fn write_records(store: &dyn PendingStore, text: &str) -> Verdict {
    for request in [append_request(text, "input", text), append_request(shared_thread().as_str(), text, text)] {
        expect(!store.append_pending(request).await?.deduplicated, "the first append was deduplicated")?;
    }
    Ok(())
}

/// Checks that the input in the thread `text` is found, and that the append to the shared thread is recognized as a
/// repeat.
pub(super) async fn expect_found_by_each_id(store: &dyn PendingStore, text: &str) -> Verdict {
    let queue = store.load_queue(&id(text)).await?;
    let targets: Vec<_> = queue.inputs.iter().map(|input| input.delivery.target.clone()).collect();
    expect_eq((targets, &queue.inputs[0].thread), (vec![Some(RunTarget::new(id(text)))], &id(text)))?;
    let repeat = store.append_pending(append_request(shared_thread().as_str(), text, text)).await?;
    expect(repeat.deduplicated && repeat.inputs[0].id.as_str() == text, "the repeat was not deduplicated")
}

/// Checks that each text is the id of one input in the shared thread, and that each can be retracted by its id.
pub(super) async fn expect_texts_work_together(store: &dyn PendingStore, texts: &[String]) -> Verdict {
    let queue = store.load_queue(&shared_thread()).await?;
    let wanted = sorted(texts.iter().map(String::as_str));
    expect_eq(sorted(queue.inputs.iter().map(|input| input.id.as_str())), wanted)?;
    let threads =
        read_all_pages(store_core::PageRequest::first(100), |page| store.list_threads_with_pending(page)).await?;
    let wanted = sorted(texts.iter().map(String::as_str).chain(["shared"]));
    expect_eq(threads.iter().map(ThreadId::as_str).collect::<Vec<_>>(), wanted)?;
    for (remaining, text) in (0..texts.len()).rev().zip(texts) {
        expect_eq(store.retract_pending(&shared_thread(), &id(text)).await?.id.as_str(), text)?;
        expect_eq(store.load_queue(&shared_thread()).await?.inputs.len(), remaining)?;
    }
    Ok(())
}
