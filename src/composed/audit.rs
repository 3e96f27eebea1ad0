//! The audit logs of two stores, read as one.

use std::cmp::Ordering;

use async_trait::async_trait;
use futures_util::stream;
use store_core::{
    Cursor, EventId, Json, Page, PageRequest, Progress, Result,
    layers::{
        TrimFeed, TrimmedFeed,
        audit::{AuditLog, AuditQuery, AuditRecord, AuditResource, AuditStore, AuditStream, NewAudit},
        until_error,
    },
};

use super::merged_list::{self, ListSource};

/// The audit log of config and profiles, with that of a registry in another store.
pub(crate) struct MergedAudit {
    settings: AuditLog,
    registry: AuditLog,
}

impl MergedAudit {
    pub(crate) const fn new(settings: AuditLog, registry: AuditLog) -> Self {
        Self { settings, registry }
    }
}

/// The list of a query in one store.
struct AuditList<'a> {
    log: &'a AuditLog,
    query: &'a AuditQuery,
}

#[async_trait]
impl ListSource<AuditRecord> for AuditList<'_> {
    async fn list(&self, page: PageRequest) -> Result<Page<(AuditRecord, Option<Cursor>)>> {
        let Page { items, next } = self.log.list_with_cursors(&self.query.clone().with_page(page)).await?;
        Ok(Page { items: items.into_iter().map(|(record, cursor)| (record, Some(cursor))).collect(), next })
    }
}

fn newest_first(left: &AuditRecord, right: &AuditRecord) -> Ordering {
    right.time.cmp(&left.time)
}

#[async_trait]
impl AuditStore for MergedAudit {
    /// Writes the record to the store of config and profiles.
    async fn append_audit(
        &self,
        audit: NewAudit,
        resource: AuditResource,
        before: Option<Json>,
        after: Option<Json>,
    ) -> Result<AuditRecord> {
        self.settings.append_audit(audit, resource, before, after).await
    }

    async fn load_audit(&self, id: &EventId) -> Result<Option<AuditRecord>> {
        match self.settings.load_audit(id).await? {
            Some(record) => Ok(Some(record)),
            None => self.registry.load_audit(id).await,
        }
    }

    async fn list_audit(&self, query: AuditQuery) -> Result<Page<AuditRecord>> {
        let list = |log| AuditList { log, query: &query };
        let (settings, registry) = (list(&self.settings), list(&self.registry));
        merged_list::list(&settings, &registry, newest_first, query.page.clone()).await
    }

    async fn subscribe_audit(&self, query: AuditQuery) -> Result<AuditStream> {
        let settings = self.settings.subscribe_audit(query.clone()).await?;
        Ok(Box::pin(until_error(stream::select(settings, self.registry.subscribe_audit(query).await?))))
    }

    async fn purge_audit(&self, request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed> {
        let mut trimmed = self.settings.purge_audit(request, progress).await?;
        if !trimmed.stopped {
            let of_registry = self.registry.purge_audit(request, progress).await?;
            (trimmed.removed, trimmed.stopped) = (trimmed.removed + of_registry.removed, of_registry.stopped);
        }
        Ok(trimmed)
    }
}
