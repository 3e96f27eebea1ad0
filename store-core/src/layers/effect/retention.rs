//! Removing effects that have ended, and what deleted threads left behind.

use super::{
    record::{Effect, EffectName},
    request::{EffectOwner, PurgeEffects, PurgedEffects},
    rules::{self, Group},
    store::EffectLayer,
};
use crate::{
    document::{Document, DocumentChange, DocumentExpect, WriteDocuments},
    error::{ErrorKind, Result},
    id::RunId,
    page::{MAX_PAGE, PageRequest},
    progress::Progress,
    run::{RunPhase, RunReader},
};

/// How many effects one write removes at most.
const BATCH: usize = 100;

/// What one effect, or one entry of the order without its effect, is removed with.
struct Removal {
    name: EffectName,
    changes: Vec<DocumentChange>,
    /// Whether an effect is removed, not only an entry.
    is_effect: bool,
}

impl EffectLayer {
    /// Removes what the request says, and returns how much it was. In the order, effects of a thread are neighbours, so
    /// that a batch names documents of one thread (DO-8).
    pub(super) async fn purge(
        &self,
        request: PurgeEffects,
        runs: &dyn RunReader,
        progress: &dyn Progress,
    ) -> Result<PurgedEffects> {
        let mut purged = PurgedEffects::default();
        let mut last_run = None;
        for group in Group::ALL {
            let (query, mut next) = (group.query(&EffectOwner::Tenant)?, Some(PageRequest::first(MAX_PAGE)));
            while let Some(page) = next.take() {
                let entries = self.store.documents.list_documents(query.clone().with_page(page)).await?;
                let effects = self.load_of_entries(&entries.items).await?;
                let mut removals = Vec::new();
                for (entry, effect) in entries.items.iter().zip(&effects) {
                    let is_old = effect.as_ref().is_some_and(|effect| is_old(effect, &request));
                    let is_kept = is_old && is_of_open_run(effect.as_ref(), runs, &mut last_run).await?;
                    removals.extend(plan_removal(group, entry, effect.as_ref(), is_old && !is_kept)?);
                }
                purged.effects += self.remove(&removals, request.dry_run).await?;
                next = entries.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
                if next.is_some() && !progress.advance(purged.effects, None) {
                    purged.stopped = true;
                    return Ok(purged);
                }
            }
        }
        Ok(purged)
    }

    /// Makes removals, and returns the number of effects that were removed, or would be.
    async fn remove(&self, removals: &[Removal], dry_run: bool) -> Result<u64> {
        let count = |removals: &[Removal]| removals.iter().map(|removal| u64::from(removal.is_effect)).sum::<u64>();
        if dry_run {
            return Ok(count(removals));
        }
        let mut removed = 0;
        for of_thread in removals.chunk_by(|left, right| left.name.thread() == right.name.thread()) {
            for batch in of_thread.chunks(BATCH) {
                if self.try_remove(batch).await? {
                    removed += count(batch);
                    continue;
                }
                // Something of the batch has changed meanwhile. The rest of it is still removed.
                for removal in batch.chunks(1) {
                    if self.try_remove(removal).await? {
                        removed += count(removal);
                    }
                }
            }
        }
        Ok(removed)
    }

    /// Makes removals in one step. Returns false if something has changed since they were planned: an effect was begun
    /// again, or the thread was deleted.
    async fn try_remove(&self, removals: &[Removal]) -> Result<bool> {
        let changes = removals.iter().flat_map(|removal| removal.changes.iter().cloned());
        match self.store.documents.write_documents(WriteDocuments::new(changes)).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(false),
            written => written.map(|_| true),
        }
    }
}

/// Returns whether an effect ended before the time of the request.
fn is_old(effect: &Effect, request: &PurgeEffects) -> bool {
    effect.status.is_ended() && effect.updated_at < request.before
}

/// Returns whether the run of an effect exists and is not done. Its next attempt may ask for the outcome.
///
/// In the order, effects of a run are neighbours, so it is enough to keep the last answer.
async fn is_of_open_run(
    effect: Option<&Effect>,
    runs: &dyn RunReader,
    last: &mut Option<(RunId, bool)>,
) -> Result<bool> {
    let Some(Effect { name, .. }) = effect else { return Ok(false) };
    if let Some((run, is_open)) = last
        && run == name.run()
    {
        return Ok(*is_open);
    }
    let is_open = runs.load_run(name.run()).await?.is_some_and(|run| run.status.phase() != RunPhase::Done);
    *last = Some((name.run().clone(), is_open));
    Ok(is_open)
}

/// Plans what is removed for an entry of the order: its effect with it, only the entry if it is not about the effect
/// that exists, or nothing.
fn plan_removal(group: Group, entry: &Document, effect: Option<&Effect>, is_purged: bool) -> Result<Option<Removal>> {
    let name = rules::name_of_entry(entry)?;
    let remove_entry = DocumentChange::delete(entry.to_ref()).expecting(DocumentExpect::Revision(entry.revision));
    let Some(effect) = effect.filter(|effect| Group::of(effect.status) == group) else {
        return Ok(Some(Removal { name, changes: vec![remove_entry], is_effect: false }));
    };
    if !is_purged {
        return Ok(None);
    }
    let expect = DocumentExpect::Revision(effect.revision);
    let remove_effect = DocumentChange::delete(rules::document_of(&name)?).expecting(expect);
    Ok(Some(Removal { name, changes: vec![remove_effect, remove_entry], is_effect: true }))
}
