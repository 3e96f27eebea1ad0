//! The audit log with planted bugs.

use std::time::Duration;

use async_trait::async_trait;
use store_core::{
    Error, ErrorKind, EventId, Json, Page, PageRequest, Progress, Result, Scope, TrimBefore, TrimRequest,
    layers::{
        LayerStore, TrimFeed, TrimmedFeed,
        audit::{
            AuditLog, AuditQuery, AuditRecord, AuditResource, AuditStore, AuditStream, NewAudit, ResourceFilter,
            TextFilter,
        },
    },
};

use super::LayerBug;

/// The audit log with a planted bug.
pub(super) struct BuggyAudit {
    inner: AuditLog,
    layers: LayerStore,
    bug: LayerBug,
}

impl BuggyAudit {
    pub(super) const fn new(inner: AuditLog, layers: LayerStore, bug: LayerBug) -> Self {
        Self { inner, layers, bug }
    }

    /// Changes a query as the bug does.
    fn query(&self, mut query: AuditQuery) -> Result<AuditQuery> {
        match self.bug {
            LayerBug::ActorFilterIgnored => query.actor = None,
            LayerBug::SecondFilterIgnored if query.resource.is_some() => query.actor = None,
            LayerBug::PrefixIsWhole => {
                if let Some(TextFilter::Prefix(prefix)) = query.actor {
                    query.actor = Some(TextFilter::Exact(prefix));
                }
            }
            LayerBug::ResourceFilterIgnored | LayerBug::FolderIsAPrefix => query.resource = None,
            LayerBug::DeepFolderCut => {
                if let Some(ResourceFilter::Below(folder)) = query.resource {
                    let cut = folder.as_str().split('/').take(5).collect::<Vec<_>>().join("/");
                    query.resource = Some(ResourceFilter::Below(AuditResource::new(cut)?));
                }
            }
            LayerBug::ActionFilterIgnored => query.actions = None,
            LayerBug::FromExcluded => {
                query.from = query.from.map(|time| time.saturating_add(Duration::from_millis(1)));
            }
            LayerBug::BeforeIncluded => {
                query.before = query.before.map(|time| time.saturating_add(Duration::from_millis(1)));
            }
            _ => {}
        }
        Ok(query)
    }
}

#[async_trait]
impl AuditStore for BuggyAudit {
    async fn append_audit(
        &self,
        mut audit: NewAudit,
        resource: AuditResource,
        before: Option<Json>,
        after: Option<Json>,
    ) -> Result<AuditRecord> {
        if self.bug == LayerBug::ErrorForgotten {
            audit.error = None;
        }
        self.inner.append_audit(audit, resource, before, after).await
    }

    async fn load_audit(&self, id: &EventId) -> Result<Option<AuditRecord>> {
        self.inner.load_audit(id).await
    }

    async fn list_audit(&self, query: AuditQuery) -> Result<Page<AuditRecord>> {
        let folder = match &query.resource {
            Some(ResourceFilter::Below(folder)) if self.bug == LayerBug::FolderIsAPrefix => Some(folder.clone()),
            _ => None,
        };
        let query = self.query(query)?;
        let limit = query.page.limit;
        let page = match self.inner.list_audit(query.clone()).await {
            Err(error) if self.bug == LayerBug::CursorOfAnotherOrder && error.kind() == ErrorKind::InvalidCursor => {
                self.inner.list_audit(query.with_page(PageRequest { limit, cursor: None })).await
            }
            answer => answer,
        };
        let mut page: Page<AuditRecord> = page?;
        if let Some(folder) = folder {
            page.items.retain(|record| record.resource.as_str().starts_with(folder.as_str()));
        }
        if self.bug == LayerBug::OldestFirst {
            page.items.reverse();
        }
        Ok(page)
    }

    async fn subscribe_audit(&self, query: AuditQuery) -> Result<AuditStream> {
        let query = if self.bug == LayerBug::SubscriptionUnfiltered { AuditQuery::new() } else { query };
        self.inner.subscribe_audit(query).await
    }

    async fn purge_audit(&self, mut request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed> {
        if self.bug == LayerBug::DryRunPurges {
            request.dry_run = false;
        }
        if self.bug == LayerBug::PurgeOfOneOrder && !request.dry_run {
            let counted = self.inner.purge_audit(request.dry(), progress).await?;
            let scope = Scope::Topic("layer.audit".parse::<store_core::TopicId>()?);
            let trim = TrimRequest::new(scope, TrimBefore::Time(request.before));
            self.layers.events.trim_events(trim).await?;
            return Ok::<_, Error>(counted);
        }
        self.inner.purge_audit(request, progress).await
    }
}
