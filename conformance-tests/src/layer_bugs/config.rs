//! Config with planted bugs.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt;
use store_core::{
    DocumentExpect, Error, ErrorKind, Json, Page, PageRequest, Progress, Result, SegmentId, Timestamp,
    layers::{
        TrimFeed, TrimmedFeed,
        audit::{AuditAction, AuditLog, AuditStore, Restoration},
        config::{
            ConfigChange, ConfigContent, ConfigEntryKind, ConfigLayer, ConfigName, ConfigOp, ConfigPosition,
            ConfigRecord, ConfigSnapshot, ConfigSource, ConfigStore, ConfigStream, ConfigUpdate, ConfigWatch,
            WrittenConfig,
        },
    },
};

use super::LayerBug;

/// How long a bug waits, so that another caller comes in between.
const PAUSE: Duration = Duration::from_millis(3);

/// Config with a planted bug.
pub(super) struct BuggyConfig {
    inner: ConfigLayer,
    audit: AuditLog,
    bug: LayerBug,
    /// Whether a write runs.
    busy: AtomicBool,
}

impl BuggyConfig {
    pub(super) const fn new(inner: ConfigLayer, audit: AuditLog, bug: LayerBug) -> Self {
        Self { inner, audit, bug, busy: AtomicBool::new(false) }
    }

    /// Changes a change as the bug does.
    fn change(&self, mut change: ConfigChange) -> ConfigChange {
        match (self.bug, &mut change.op) {
            (LayerBug::ContentRewritten, ConfigOp::Put(content)) => content.hidden = false,
            (LayerBug::DeleteHides, ConfigOp::Delete) => change.op = ConfigOp::Hide(true),
            (LayerBug::SeedReplaces, ConfigOp::Seed(value)) => {
                change.op = ConfigOp::Put(ConfigContent::new(value.clone()).from_source(ConfigSource::Builtin));
            }
            (LayerBug::OverridesReplace, ConfigOp::Override(Some(patch))) => {
                change.op = ConfigOp::Put(ConfigContent::new(patch.clone()));
            }
            (LayerBug::OverrideMakesARecord, ConfigOp::Override(_) | ConfigOp::Hide(_)) => {
                change.op = ConfigOp::Put(ConfigContent::new(Json::null()));
            }
            (LayerBug::ExpectationIgnored, _) | (LayerBug::DeleteUnguarded, ConfigOp::Delete) => {
                change.expect = DocumentExpect::Any;
            }
            _ => {}
        }
        match (self.bug, &mut change.audit) {
            (LayerBug::AuditForgotten, audit) => *audit = None,
            (LayerBug::ActionAlwaysUpdate, Some(audit)) => audit.action = Some(AuditAction::Update),
            (LayerBug::SecretsStored, Some(audit)) => audit.secret_keys.clear(),
            _ => {}
        }
        change
    }

    /// Does what the bug does before a write. Returns the changes to write.
    async fn before_write(&self, mut changes: Vec<ConfigChange>) -> Result<Vec<ConfigChange>> {
        match self.bug {
            LayerBug::RecordNamedTwice => {
                let mut names = BTreeSet::new();
                changes.reverse();
                changes.retain(|change| names.insert(change.name.clone()));
                changes.reverse();
            }
            LayerBug::ExpectationCheckedEarly => {
                for change in &mut changes {
                    let revision = self.inner.load_config(&change.name).await?.map(|record| record.revision);
                    if !std::mem::take(&mut change.expect).holds(revision) {
                        return Err(Error::conflict("config", None, None));
                    }
                }
                tokio::time::sleep(PAUSE).await;
            }
            LayerBug::UnchangedHasAnEntry => {
                for change in changes.iter().filter(|change| matches!(change.op, ConfigOp::Put(_))) {
                    if self.inner.load_config(&change.name).await?.is_some() {
                        let hide = ConfigChange::new(change.name.clone(), ConfigOp::Hide(true));
                        self.inner.write_config(vec![hide]).await?;
                    }
                }
            }
            LayerBug::AuditBeforeTheChange => {
                for change in &mut changes {
                    if let Some(audit) = change.audit.take() {
                        self.audit.append_audit(audit, change.name.resource()?, None, Some(Json::null())).await?;
                    }
                }
            }
            _ => {}
        }
        Ok(changes)
    }

    /// Does what the bug does after a write.
    async fn after_write(&self, changes: &[ConfigChange], written: &mut WrittenConfig) -> Result<()> {
        match self.bug {
            LayerBug::NumbersRepeat => {
                let first = written.records.iter().flatten().map(|record| record.revision).next().unwrap_or_default();
                written.records.iter_mut().flatten().for_each(|record| record.revision = first);
            }
            LayerBug::UnchangedAudited if written.entries.is_empty() => {
                for change in changes {
                    if let Some(audit) = change.audit.clone() {
                        let audit = audit.with_action(AuditAction::Update);
                        self.audit.append_audit(audit, change.name.resource()?, None, None).await?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn write_exclusively(&self, changes: Vec<ConfigChange>) -> Result<WrittenConfig> {
        if self.busy.swap(true, Ordering::SeqCst) {
            return Err(Error::conflict("config", None, None));
        }
        tokio::time::sleep(PAUSE).await;
        let written = self.inner.write_config(changes).await;
        self.busy.store(false, Ordering::SeqCst);
        written
    }

    /// Restores the value of an audit record without a check.
    async fn restore_unchecked(
        &self,
        name: ConfigName,
        request: Restoration,
        takes_before: bool,
    ) -> Result<WrittenConfig> {
        let record = self.audit.load_audit(&request.from).await?;
        let record = record.ok_or_else(|| Error::not_found("audit record", &request.from))?;
        let value = if takes_before { record.before } else { record.after };
        let content = value.unwrap_or_else(Json::null).to()?;
        let change = ConfigChange::new(name, ConfigOp::Put(content)).expecting(request.expect);
        self.inner.write_config(vec![change.audited(request.audit.restoring(request.from))]).await
    }
}

#[async_trait]
impl ConfigStore for BuggyConfig {
    async fn write_config(&self, changes: Vec<ConfigChange>) -> Result<WrittenConfig> {
        let changes: Vec<_> = changes.into_iter().map(|change| self.change(change)).collect();
        let changes = self.before_write(changes).await?;
        let mut written = match self.bug {
            LayerBug::GivesUpOnConflict => self.write_exclusively(changes.clone()).await?,
            LayerBug::ChangesOneByOne => {
                let mut last = None;
                for change in &changes {
                    last = Some(self.inner.write_config(vec![change.clone()]).await?);
                }
                last.ok_or_else(|| Error::invalid("config", "there are no changes in the call"))?
            }
            _ => self.inner.write_config(changes.clone()).await?,
        };
        self.after_write(&changes, &mut written).await?;
        Ok(written)
    }

    async fn load_config(&self, name: &ConfigName) -> Result<Option<ConfigRecord>> {
        let mut record = self.inner.load_config(name).await?;
        if self.bug == LayerBug::RevisionStays {
            record.iter_mut().for_each(|record| record.revision = 1);
        }
        Ok(record)
    }

    async fn list_config(&self, namespace: &SegmentId, page: PageRequest) -> Result<Page<ConfigRecord>> {
        let mut page = self.inner.list_config(namespace, page).await?;
        if self.bug == LayerBug::RecordsUnordered {
            page.items.reverse();
        }
        Ok(page)
    }

    async fn list_namespaces(&self, after: Option<&SegmentId>, limit: u32) -> Result<Vec<SegmentId>> {
        let after = after.filter(|_| self.bug != LayerBug::NamespacesFromTheFirst);
        self.inner.list_namespaces(after, limit).await
    }

    async fn restore_config(&self, name: ConfigName, mut request: Restoration) -> Result<WrittenConfig> {
        match self.bug {
            LayerBug::RestoreTakesBefore => return self.restore_unchecked(name, request, true).await,
            LayerBug::DeletionNotRestored => {
                let record = self.audit.load_audit(&request.from).await?;
                if record.is_some_and(|record| record.action == AuditAction::Delete) {
                    return Err(Error::not_found("audit record", &request.from));
                }
            }
            LayerBug::RestoreUnguarded => request.expect = DocumentExpect::Any,
            _ => {}
        }
        match self.inner.restore_config(name.clone(), request.clone()).await {
            Err(error) if self.bug == LayerBug::RestoreAcrossResources && error.kind() == ErrorKind::Invalid => {
                self.restore_unchecked(name, request, false).await
            }
            answer => answer,
        }
    }

    async fn snapshot_config(&self, namespace: Option<&SegmentId>) -> Result<ConfigSnapshot> {
        let mut snapshot = self.inner.snapshot_config(namespace).await?;
        if self.bug == LayerBug::SnapshotPositionLate {
            tokio::time::sleep(PAUSE).await;
            snapshot.position = self.inner.snapshot_config(namespace).await?.position;
        }
        Ok(snapshot)
    }

    async fn subscribe_config(&self, mut after: ConfigPosition) -> Result<ConfigStream> {
        if matches!(self.bug, LayerBug::PositionIgnored | LayerBug::PositionForgotten) {
            after = ConfigPosition::default();
        }
        let continues = self.bug == LayerBug::ExpiredPositionContinues;
        let stream = match self.inner.subscribe_config(after).await {
            Err(error) if continues && error.kind() == ErrorKind::CursorExpired => {
                self.inner.subscribe_config(self.inner.snapshot_config(None).await?.position).await?
            }
            answer => answer?,
        };
        if self.bug == LayerBug::DeletionsHaveNoEntry {
            let is_kept = |entry: &Result<_>| {
                let entry: &Result<store_core::layers::config::ConfigEntry> = entry;
                std::future::ready(!entry.as_ref().is_ok_and(|entry| entry.kind == ConfigEntryKind::Deleted))
            };
            return Ok(Box::pin(stream.filter(is_kept)));
        }
        Ok(stream)
    }

    async fn watch_config(&self, namespace: &SegmentId) -> Result<ConfigWatch> {
        let all = self.inner.snapshot_config(None).await?.records;
        let bug = self.bug;
        let updates = self.inner.watch_config(namespace).await?.map(move |update| match update {
            Ok(ConfigUpdate::Present(_)) if bug == LayerBug::WatchWithoutRecords => Ok(ConfigUpdate::Present(vec![])),
            Ok(ConfigUpdate::Present(_)) if bug == LayerBug::WatchOfAllNamespaces => {
                Ok(ConfigUpdate::Present(all.clone()))
            }
            update => update,
        });
        Ok(Box::pin(updates))
    }

    async fn trim_config_feed(&self, mut request: TrimFeed, progress: &dyn Progress) -> Result<TrimmedFeed> {
        if self.bug == LayerBug::TrimIgnoresTime {
            request.before = Timestamp::MAX;
        }
        self.inner.trim_config_feed(request, progress).await
    }
}
