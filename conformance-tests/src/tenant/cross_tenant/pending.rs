//! Pending input. Each tenant has an id of its own ([`TenantUnderTest::own_id`]). It has an input with this id on two
//! threads: on a thread with the same id, and on the thread `same`, which all tenants have.

use async_trait::async_trait;
use store_core::{AppendPending, ErrorKind, Message, NewInput, PageRequest, PendingStore, PendingUpdate, ThreadId};

use super::{TenantActions, TenantUnderTest, require_store};
use crate::{
    Failure, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
};

pub(super) struct QueueActions;

fn pending(tenant: &TenantUnderTest) -> Result<&dyn PendingStore, Failure> {
    require_store(tenant.stores.pending.as_ref())
}

#[async_trait]
impl TenantActions for QueueActions {
    async fn write_records(&self, tenant: &TenantUnderTest) -> Verdict {
        for thread in [&tenant.own_id, "same"] {
            let input = NewInput::message(Message::user("x")).with_id(id(&tenant.own_id));
            let appended = pending(tenant)?.append_pending(AppendPending::new(id(thread), [input])).await?;
            expect(!appended.deduplicated, "the append was deduplicated")?;
        }
        Ok(())
    }

    async fn expect_own_records(&self, tenant: &TenantUnderTest) -> Verdict {
        let threads = pending(tenant)?.list_threads_with_pending(PageRequest::default()).await?.items;
        expect_eq(threads.iter().map(ThreadId::as_str).collect::<Vec<_>>(), [tenant.own_id.as_str(), "same"])?;
        let queue = pending(tenant)?.load_queue(&id("same")).await?;
        expect_eq(queue.inputs.iter().map(|input| input.id.as_str()).collect::<Vec<_>>(), [&tenant.own_id])
    }

    async fn expect_other_records_unreachable(
        &self,
        tenant: &TenantUnderTest,
        other_tenant: &TenantUnderTest,
    ) -> Verdict {
        let (pending, other_thread_id): (_, ThreadId) = (pending(tenant)?, id(&other_tenant.own_id));
        expect_eq(pending.load_queue(&other_thread_id).await?.inputs, [])?;
        for thread in [other_thread_id, id("same")] {
            let update = PendingUpdate::new(thread.clone(), id(&other_tenant.own_id)).with_message(Message::user("y"));
            expect_kind(pending.update_pending(update).await, ErrorKind::NotFound)?;
            expect_kind(pending.retract_pending(&thread, &id(&other_tenant.own_id)).await, ErrorKind::NotFound)?;
        }
        Ok(())
    }

    async fn change_and_remove(&self, tenant: &TenantUnderTest) -> Verdict {
        let update = PendingUpdate::new(id("same"), id(&tenant.own_id)).with_message(Message::user("y"));
        pending(tenant)?.update_pending(update).await?;
        for thread in [&tenant.own_id, "same"] {
            expect_eq(
                pending(tenant)?.retract_pending(&id(thread), &id(&tenant.own_id)).await?.id.as_str(),
                &tenant.own_id,
            )?;
        }
        expect_eq(pending(tenant)?.list_threads_with_pending(PageRequest::default()).await?.items, [])
    }
}
