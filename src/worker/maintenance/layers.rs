//! The steps about layers: config, the audit log, the registry, effects, traces, the replay log, stream checkpoints,
//! blobs, evaluation runs. A dry run counts what they would remove.

use std::{sync::Arc, time::Duration};

use store_core::{
    CollectBlobs, ErrorKind, PurgeEffects, PurgeEvaluations, PurgeReplay, PurgeStreamCheckpoints, PurgeTraces,
    PurgeVersions, Result, TenantId,
    layers::{
        TrimFeed, TrimmedFeed, audit::AuditStore, blob::BlobStore, config::ConfigStore, effect::EffectStore,
        evaluation::EvaluationStore, registry::RegistryStore, replay::ReplayStore,
        stream_checkpoint::StreamCheckpointStore, trace::TraceStore,
    },
};

use super::{
    MaintenanceSummary,
    steps::{NOTHING_DONE, RoundFailures, StepResult, Steps},
};
use crate::Stores;

/// The layers that the stores have.
pub(super) struct Layers {
    config: Option<Arc<dyn ConfigStore>>,
    audit: Option<Arc<dyn AuditStore>>,
    registry: Option<Arc<dyn RegistryStore>>,
    effects: Option<Arc<dyn EffectStore>>,
    traces: Option<Arc<dyn TraceStore>>,
    replay: Option<Arc<dyn ReplayStore>>,
    stream_checkpoints: Option<Arc<dyn StreamCheckpointStore>>,
    blobs: Option<Arc<dyn BlobStore>>,
    evaluations: Option<Arc<dyn EvaluationStore>>,
}

impl Layers {
    pub(super) fn of(stores: &Stores, tenant: &TenantId) -> Result<Self> {
        Ok(Self {
            config: if_supported(stores.config(tenant))?,
            audit: if_supported(stores.audit(tenant))?,
            registry: if_supported(stores.registry(tenant))?,
            effects: if_supported(stores.effects(tenant))?,
            traces: if_supported(stores.traces(tenant))?,
            replay: if_supported(stores.replay(tenant))?,
            stream_checkpoints: if_supported(stores.stream_checkpoints(tenant))?,
            blobs: if_supported(stores.blobs(tenant))?,
            evaluations: if_supported(stores.evaluations(tenant))?,
        })
    }
}

fn if_supported<T>(layer: Result<T>) -> Result<Option<T>> {
    match layer {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        layer => layer.map(Some),
    }
}

fn step_result(trimmed: Result<TrimmedFeed>) -> StepResult {
    trimmed.map_or_else(|error| (0, Some(error)), |trimmed| (trimmed.removed, None))
}

impl Steps {
    pub(super) async fn add_layer_steps(&self, failures: &mut RoundFailures, summary: &mut MaintenanceSummary) {
        failures.add_step("purge audit records", &mut summary.audit_records, self.purge_audit().await);
        failures.add_step("trim the config feed", &mut summary.config_entries, self.trim_config_feed().await);
        failures.add_step("purge versions", &mut summary.versions, self.purge_versions().await);
        failures.add_step("purge effects", &mut summary.effects, self.purge_effects().await);
        failures.add_step("purge traces", &mut summary.traces, self.purge_traces().await);
        failures.add_step("purge the replay log", &mut summary.replay_records, self.purge_replay().await);
        let checkpoints = self.purge_stream_checkpoints().await;
        failures.add_step("purge stream checkpoints", &mut summary.stream_checkpoints, checkpoints);
        failures.add_step("collect blobs", &mut summary.blobs, self.collect_blobs().await);
        failures.add_step("purge evaluation runs", &mut summary.evaluations, self.purge_evaluations().await);
    }

    async fn trim_config_feed(&self) -> StepResult {
        let (Some(config), Some(age)) = (&self.layers.config, self.retention.config_feed) else { return NOTHING_DONE };
        step_result(config.trim_config_feed(self.trim_request(age), &self.until_stopped()).await)
    }

    async fn purge_audit(&self) -> StepResult {
        let (Some(audit), Some(age)) = (&self.layers.audit, self.retention.audit) else { return NOTHING_DONE };
        step_result(audit.purge_audit(self.trim_request(age), &self.until_stopped()).await)
    }

    async fn purge_versions(&self) -> StepResult {
        let (Some(registry), Some(threads)) = (&self.layers.registry, &self.stores.threads) else {
            return NOTHING_DONE;
        };
        let Some(keep) = self.retention.versions else { return NOTHING_DONE };
        let mut request = PurgeVersions::keeping_newest(keep);
        request.dry_run = self.is_dry_run;
        let purged = registry.purge_versions(request, &**threads, &self.until_stopped()).await;
        purged.map_or_else(|error| (0, Some(error)), |purged| (purged.versions.len() as u64, None))
    }

    async fn purge_effects(&self) -> StepResult {
        let (Some(effects), Some(threads)) = (&self.layers.effects, &self.stores.threads) else { return NOTHING_DONE };
        let Some(age) = self.retention.effects else { return NOTHING_DONE };
        let request = PurgeEffects::new(self.clock.now().saturating_sub(age));
        let request = if self.is_dry_run { request.dry() } else { request };
        let purged = effects.purge_effects(request, &**threads, &self.until_stopped()).await;
        purged.map_or_else(|error| (0, Some(error)), |purged| (purged.effects, None))
    }

    /// Also removes what deleted threads left in the orders of traces, if an age or a number is set.
    async fn purge_traces(&self) -> StepResult {
        let (Some(traces), age, newest) = (&self.layers.traces, self.retention.traces, self.retention.newest_traces)
        else {
            return NOTHING_DONE;
        };
        if age.is_none() && newest.is_none() {
            return NOTHING_DONE;
        }
        let mut request = PurgeTraces::default();
        request.before = age.map(|age| self.clock.now().saturating_sub(age));
        request.keep_newest = newest;
        request.dry_run = self.is_dry_run;
        let purged = traces.purge_traces(request, &self.until_stopped()).await;
        purged.map_or_else(|error| (0, Some(error)), |purged| (purged.traces, None))
    }

    async fn purge_replay(&self) -> StepResult {
        let Some(replay) = &self.layers.replay else { return NOTHING_DONE };
        let request = if self.is_dry_run { PurgeReplay::new().dry() } else { PurgeReplay::new() };
        let purged = replay.purge_replay(request, &self.until_stopped()).await;
        purged.map_or_else(|error| (0, Some(error)), |purged| (purged.records, None))
    }

    async fn purge_stream_checkpoints(&self) -> StepResult {
        let (Some(store), Some(age)) = (&self.layers.stream_checkpoints, self.retention.stream_checkpoints) else {
            return NOTHING_DONE;
        };
        let mut request = PurgeStreamCheckpoints::updated_before(self.clock.now().saturating_sub(age));
        request.dry_run = self.is_dry_run;
        let purged = store.purge_stream_checkpoints(request, &self.until_stopped()).await;
        purged.map_or_else(|error| (0, Some(error)), |purged| (purged.checkpoints, None))
    }

    async fn collect_blobs(&self) -> StepResult {
        let (Some(blobs), Some(grace)) = (&self.layers.blobs, self.retention.blobs) else { return NOTHING_DONE };
        let mut request = CollectBlobs::new(grace);
        request.dry_run = self.is_dry_run;
        let collected = blobs.collect_blobs(request, &self.until_stopped()).await;
        collected.map_or_else(|error| (0, Some(error)), |collected| (collected.removed, None))
    }

    async fn purge_evaluations(&self) -> StepResult {
        let (Some(store), Some(age)) = (&self.layers.evaluations, self.retention.evaluations) else {
            return NOTHING_DONE;
        };
        let mut request = PurgeEvaluations::before(self.clock.now().saturating_sub(age));
        (request.keep_newest, request.dry_run) = (self.retention.newest_evaluations, self.is_dry_run);
        let purged = store.purge_evaluations(request, &self.until_stopped()).await;
        purged.map_or_else(|error| (0, Some(error)), |purged| (purged.evaluations.len() as u64, None))
    }

    fn trim_request(&self, age: Duration) -> TrimFeed {
        let request = TrimFeed::new(self.settings_clock.now().saturating_sub(age));
        if self.is_dry_run { request.dry() } else { request }
    }
}
