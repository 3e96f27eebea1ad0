//! Stream checkpoints with planted bugs.

use async_trait::async_trait;
use store_core::{
    Commit, Error, ErrorKind, Message, NewEntry, Progress, PurgeStreamCheckpoints, PurgedStreamCheckpoints,
    PutStreamCheckpoint, Result, RunId, RunPhase, StreamCheckpoint, StreamCheckpointLayer, StreamCheckpointOutcome,
    StreamCheckpointStore, TenantStores, ThreadId, Timestamp,
};

use super::LayerBug;

/// Stream checkpoints with a planted bug.
pub(super) struct BuggyStreamCheckpoints {
    inner: StreamCheckpointLayer,
    stores: TenantStores,
    bug: LayerBug,
}

impl BuggyStreamCheckpoints {
    pub(super) fn new(stores: TenantStores, bug: LayerBug) -> Result<Self> {
        Ok(Self { inner: StreamCheckpointLayer::new(&stores)?, stores, bug })
    }

    /// Returns the run under which the checkpoint is kept instead. No commit ever writes this run.
    async fn other_run(&self, run: &RunId) -> Result<RunId> {
        let is_changed = match self.bug {
            LayerBug::CheckpointOfTheThread => return "all".parse(),
            LayerBug::CheckpointIgnoresItsRun => true,
            LayerBug::LateCheckpointLoaded => self.is_done(run).await?,
            _ => false,
        };
        if is_changed { format!("checkpoint of {run}").parse() } else { Ok(run.clone()) }
    }

    async fn is_done(&self, run: &RunId) -> Result<bool> {
        let Some(threads) = &self.stores.threads else { return Ok(false) };
        Ok(threads.load_run(run).await?.is_some_and(|run| run.status.phase() == RunPhase::Done))
    }

    /// Writes the text to the log.
    async fn write_to_log(&self, request: &PutStreamCheckpoint) -> Result<()> {
        let Some(commits) = &self.stores.commits else { return Ok(()) };
        let entry = NewEntry::new(Message::assistant(request.answer.text.clone()));
        commits.commit(Commit::new(request.thread.clone()).entry(entry)).await.map(drop)
    }
}

#[async_trait]
impl StreamCheckpointStore for BuggyStreamCheckpoints {
    async fn put_stream_checkpoint(&self, mut request: PutStreamCheckpoint) -> Result<StreamCheckpointOutcome> {
        request.run = self.other_run(&request.run).await?;
        match self.bug {
            LayerBug::CheckpointCallForgotten => request.answer.call_in_flight = None,
            LayerBug::CheckpointTextForgotten => request.answer.text.clear(),
            LayerBug::CheckpointClaimIgnored => request.fence = None,
            LayerBug::CheckpointSequenceIgnored => {
                self.inner.delete_stream_checkpoint(&request.thread, &request.run).await?;
            }
            LayerBug::CheckpointInTheLog => self.write_to_log(&request).await?,
            _ => {}
        }
        match (self.bug, self.inner.put_stream_checkpoint(request).await) {
            (LayerBug::CheckpointSilentlyIgnored, Ok(_)) => Ok(StreamCheckpointOutcome::Stored),
            (LayerBug::CheckpointOfNoThread, Err(error)) if error.kind() == ErrorKind::NotFound => {
                Ok(StreamCheckpointOutcome::Stored)
            }
            (_, answer) => answer,
        }
    }

    async fn load_stream_checkpoint(&self, thread: &ThreadId, run: &RunId) -> Result<Option<StreamCheckpoint>> {
        let found = self.inner.load_stream_checkpoint(thread, &self.other_run(run).await?).await?;
        if found.is_none() && self.bug == LayerBug::CheckpointOfAnotherRun {
            return self.inner.load_stream_checkpoint(thread, &"r".parse()?).await;
        }
        Ok(found)
    }

    async fn delete_stream_checkpoint(&self, thread: &ThreadId, run: &RunId) -> Result<()> {
        let run = self.other_run(run).await?;
        match self.bug {
            LayerBug::CheckpointDeletionForgotten => return Ok(()),
            LayerBug::CheckpointDeletionNeedsOne
                if self.inner.load_stream_checkpoint(thread, &run).await?.is_none() =>
            {
                return Err(Error::not_found("stream checkpoint", &run));
            }
            _ => {}
        }
        self.inner.delete_stream_checkpoint(thread, &run).await
    }

    async fn purge_stream_checkpoints(
        &self,
        mut request: PurgeStreamCheckpoints,
        progress: &dyn Progress,
    ) -> Result<PurgedStreamCheckpoints> {
        match self.bug {
            LayerBug::CheckpointAgeIgnored => request.updated_before = Timestamp::MIN,
            LayerBug::CheckpointDryRunPurges => request.dry_run = false,
            _ => {}
        }
        self.inner.purge_stream_checkpoints(request, progress).await
    }
}
