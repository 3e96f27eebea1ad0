//! Pending input: an input with the tenant's own name, in the queues of the thread with that name and of the thread
//! `same`.

use async_trait::async_trait;
use store_core::{AppendPending, ErrorKind, Message, NewInput, PageRequest, PendingStore, PendingUpdate, ThreadId};

use super::{Own, Part, has};
use crate::{
    Failure, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
};

pub(super) struct Queues;

fn pending(own: &Own) -> Result<&dyn PendingStore, Failure> {
    has(own.stores.pending.as_ref())
}

#[async_trait]
impl Part for Queues {
    async fn fill(&self, own: &Own) -> Verdict {
        for thread in [&own.name, "same"] {
            let input = NewInput::message(Message::user("x")).with_id(id(&own.name));
            let appended = pending(own)?.append_pending(AppendPending::new(id(thread), [input])).await?;
            expect(!appended.deduplicated, "the append was deduplicated")?;
        }
        Ok(())
    }

    async fn look(&self, own: &Own) -> Verdict {
        let threads = pending(own)?.list_threads_with_pending(PageRequest::default()).await?.items;
        expect_eq(threads.iter().map(ThreadId::as_str).collect::<Vec<_>>(), [own.name.as_str(), "same"])?;
        let queue = pending(own)?.load_queue(&id("same")).await?;
        expect_eq(queue.inputs.iter().map(|input| input.id.as_str()).collect::<Vec<_>>(), [&own.name])
    }

    async fn reach(&self, own: &Own, foreign: &Own) -> Verdict {
        let (pending, there): (_, ThreadId) = (pending(own)?, id(&foreign.name));
        expect_eq(pending.load_queue(&there).await?.inputs, [])?;
        for thread in [there, id("same")] {
            let update = PendingUpdate::new(thread.clone(), id(&foreign.name)).with_message(Message::user("y"));
            expect_kind(pending.update_pending(update).await, ErrorKind::NotFound)?;
            expect_kind(pending.retract_pending(&thread, &id(&foreign.name)).await, ErrorKind::NotFound)?;
        }
        Ok(())
    }

    async fn clear(&self, own: &Own) -> Verdict {
        let update = PendingUpdate::new(id("same"), id(&own.name)).with_message(Message::user("y"));
        pending(own)?.update_pending(update).await?;
        for thread in [&own.name, "same"] {
            expect_eq(pending(own)?.retract_pending(&id(thread), &id(&own.name)).await?.id.as_str(), &own.name)?;
        }
        expect_eq(pending(own)?.list_threads_with_pending(PageRequest::default()).await?.items, [])
    }
}
