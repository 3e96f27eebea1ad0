//! Reading the mailbox.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Dispatch, DispatchCounts, DispatchId, DispatchQuery, Error, MailboxReader, Page, PageBuilder,
    PageRequest, Position, Purge, ReadyThread, Result, ThreadId, commit::DecisionContext, mailbox,
};

use super::NatsMailbox;
use crate::{tenant::Tenant, view::Mailbox};

/// Reads the log to its end, then reads from the mailbox of the tenant. Returns the default if the tenant does not
/// exist.
async fn read_mailbox<T: Default>(tenant: &Tenant, read: impl FnOnce(&Mailbox) -> Result<T> + Send) -> Result<T> {
    tenant.log().catch_up().await?;
    let view = tenant.log().view();
    tenant.tenant_state(&view)?.map_or_else(|| Ok(T::default()), |tenant_state| read(&tenant_state.mailbox))
}

#[async_trait]
impl MailboxReader for NatsMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let dispatch_and_parts = read_mailbox(&tenant, |mailbox| {
                let stored = mailbox.records.get(&id);
                stored
                    .map(|stored| Ok((mailbox::visible_dispatch(&mailbox.records, stored)?, mailbox.large_parts(&id))))
                    .transpose()
            });
            let Some((mut dispatch, large_parts)) = dispatch_and_parts.await? else { return Ok(None) };
            large_parts.load_into(&tenant, &mut dispatch).await?;
            Ok(Some(dispatch))
        };
        self.tenant.read(call).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.tenant.read(|tenant: Arc<Tenant>| async move { list(&tenant, &query).await }).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        let thread = thread.cloned();
        let call = |tenant: Arc<Tenant>| async move {
            read_mailbox(&tenant, |mailbox| Ok(mailbox.records.counts(thread.as_ref()))).await
        };
        self.tenant.read(call).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.tenant.read(|tenant: Arc<Tenant>| async move { list_ready(&tenant, &page).await }).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        let thread = thread.clone();
        self.tenant
            .read(|tenant: Arc<Tenant>| async move {
                read_mailbox(&tenant, |mailbox| Ok(mailbox.records.epoch(&thread))).await
            })
            .await
    }
}

async fn list(tenant: &Tenant, query: &DispatchQuery) -> Result<Page<Dispatch>> {
    query.check()?;
    let limit = query.page.checked_limit()?;
    let scope = CursorScope::new(&tenant.name, "list_dispatches", &query.cursor_binding());
    let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, query.page.cursor.as_ref())?;
    let page = read_mailbox(tenant, |mailbox| {
        let mut page = PageBuilder::new(limit);
        let make_item = |dispatch: Dispatch| {
            let large_parts = mailbox.large_parts(&dispatch.id);
            ((dispatch, large_parts), large_parts.data().map(|data_ref| data_ref.bytes).sum())
        };
        mailbox.records.list(query, after.as_ref(), &mut page, make_item)?;
        Ok(Some(page.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope))))
    });
    let Page { items: listed_items, next } = page.await?.unwrap_or_else(Page::empty);
    let mut items = Vec::with_capacity(listed_items.len());
    for (mut dispatch, large_parts) in listed_items {
        large_parts.load_into(tenant, &mut dispatch).await?;
        items.push(dispatch);
    }
    Ok(Page { items, next })
}

async fn list_ready(tenant: &Tenant, request: &PageRequest) -> Result<Page<ReadyThread>> {
    let mut page = PageBuilder::new(request.checked_limit()?);
    let scope = CursorScope::new(&tenant.name, "list_ready_threads", "");
    let after = Position::from_cursor(&tenant.shared.cursor_key, &scope, request.cursor.as_ref())?;
    tenant.log().catch_up().await?;
    let now = tenant.log().now()?;
    let Some(incarnation) =
        tenant.tenant_state(&tenant.log().view())?.map(|tenant_state| tenant_state.record.incarnation)
    else {
        return Ok(Page::empty());
    };
    let mut view = tenant.log().view_mut();
    let tenant_state = view.tenant_state_mut(&tenant.name, incarnation).ok_or_else(Error::closed)?;
    let config = &tenant.shared.config;
    tenant_state.mailbox.records.list_ready(
        after.as_ref(),
        &mut page,
        DecisionContext::new(now, &config.limits, &*config.ids),
    )?;
    Ok(page.finish(|position| position.to_cursor(&tenant.shared.cursor_key, &scope)))
}

/// Returns the dispatches that ended before the time in the request, oldest first.
pub(super) fn dispatches_to_purge(tenant: &Tenant, request: &Purge) -> Result<Vec<DispatchId>> {
    let view = tenant.log().view();
    Ok(tenant
        .tenant_state(&view)?
        .map(|tenant_state| tenant_state.mailbox.records.dispatches_to_purge(request))
        .unwrap_or_default())
}
