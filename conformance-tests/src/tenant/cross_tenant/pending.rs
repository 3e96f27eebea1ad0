//! Pending input: an input with the tenant's own name, in the queues of the thread with that name and of the thread
//! `same`.

use async_trait::async_trait;
use store_core::{AppendPending, ErrorKind, Message, NewInput, PageRequest, PendingStore, PendingUpdate, ThreadId};

use super::{TenantActions, TenantUnderTest, require};
use crate::{
    Failure, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
};

pub(super) struct Queues;

fn pending(own: &TenantUnderTest) -> Result<&dyn PendingStore, Failure> {
    require(own.stores.pending.as_ref())
}

#[async_trait]
impl TenantActions for Queues {
    async fn write_records(&self, own: &TenantUnderTest) -> Verdict {
        for thread in [&own.name, "same"] {
            let input = NewInput::message(Message::user("x")).with_id(id(&own.name));
            let appended = pending(own)?.append_pending(AppendPending::new(id(thread), [input])).await?;
            expect(!appended.deduplicated, "the append was deduplicated")?;
        }
        Ok(())
    }

    async fn expect_own_records(&self, own: &TenantUnderTest) -> Verdict {
        let threads = pending(own)?.list_threads_with_pending(PageRequest::default()).await?.items;
        expect_eq(threads.iter().map(ThreadId::as_str).collect::<Vec<_>>(), [own.name.as_str(), "same"])?;
        let queue = pending(own)?.load_queue(&id("same")).await?;
        expect_eq(queue.inputs.iter().map(|input| input.id.as_str()).collect::<Vec<_>>(), [&own.name])
    }

    async fn expect_foreign_unreachable(&self, own: &TenantUnderTest, foreign: &TenantUnderTest) -> Verdict {
        let (pending, foreign_id): (_, ThreadId) = (pending(own)?, id(&foreign.name));
        expect_eq(pending.load_queue(&foreign_id).await?.inputs, [])?;
        for thread in [foreign_id, id("same")] {
            let update = PendingUpdate::new(thread.clone(), id(&foreign.name)).with_message(Message::user("y"));
            expect_kind(pending.update_pending(update).await, ErrorKind::NotFound)?;
            expect_kind(pending.retract_pending(&thread, &id(&foreign.name)).await, ErrorKind::NotFound)?;
        }
        Ok(())
    }

    async fn change_and_remove(&self, own: &TenantUnderTest) -> Verdict {
        let update = PendingUpdate::new(id("same"), id(&own.name)).with_message(Message::user("y"));
        pending(own)?.update_pending(update).await?;
        for thread in [&own.name, "same"] {
            expect_eq(pending(own)?.retract_pending(&id(thread), &id(&own.name)).await?.id.as_str(), &own.name)?;
        }
        expect_eq(pending(own)?.list_threads_with_pending(PageRequest::default()).await?.items, [])
    }
}
