//! The index of a root, brought to where the logs are.

use std::sync::Arc;

use store_core::Result;

use super::logs::{Found, cut_to_ends, fits_root_log};
use crate::{
    catch_up::CatchUp,
    config::FileConfig,
    damage::Damage,
    dispatch_rows::MailboxRows,
    facts::Facts,
    index::{Changes, Condition, Direction, Index},
    journal::{Persist, lacks_batches},
    lock::Lock,
    log::{Position, Recovery},
    meta::Meta,
    replay::{From, Replay, next_log},
    report::{Opening, SetAside},
    root,
    staged::Staged,
    table,
    vfs::Vfs,
};

/// Brings the index to where the logs are: by the journal, if that has all batches that the index lacks, else by the
/// logs.
pub(crate) fn catch_up(
    vfs: &dyn Vfs,
    index: &Index,
    known: (Condition, Option<&Lock>),
    config: &FileConfig,
    found: &mut Found,
) -> Result<(Facts, u64, Damage)> {
    let (condition, lock) = known;
    let mut is_trusted = is_trusted(index, condition, lock, found)?;
    if let (true, Some(history)) = (is_trusted, &found.history) {
        let now = config.clock.now();
        let (steps, last) = (history.steps()?, history.last());
        is_trusted = CatchUp::new(vfs, index)?.run((&steps, last), &found.redone, now, &mut found.opening)?;
        if !is_trusted {
            found.opening.stale_index = Some("it does not fit the logs");
        }
    }
    is_trusted = is_trusted && fits_root_log(vfs, index, config, found)?;
    if !is_trusted {
        clear(index)?;
        found.opening.index_rebuilt = true;
        return rebuild(vfs, index, config, found);
    }
    let facts = Facts::unfinished(index)?;
    found.may_be_ahead = found.is_behind(Staged::new(index).number(&table::fact("relaxed"))?);
    if found.may_be_ahead {
        // Logs may have what is lost of the journal.
        let (next_log, damage) = read_logs(vfs, index, (&facts, found.from()), config, &mut found.opening)?;
        return Ok((facts, next_log, damage));
    }
    cut_to_ends(vfs, config, found)?;
    Ok((facts, next_log(index)?, Damage::default()))
}

/// Refuses a journal that lacks batches, before it is redone. After a clean close the journal is empty, because the
/// logs have everything. The index may have a later batch than the journal only if that batch was acknowledged before
/// it was synced.
pub(crate) fn check_journal(index: &Index, known: (Condition, &Lock), found: &Found) -> Result<()> {
    let (condition, lock) = known;
    let Some(history) = &found.history else { return Ok(()) };
    if lock.was_clean() && !history.is_empty() {
        return Err(lacks_batches());
    }
    let is_own = index.get(table::fact("store").as_bytes())?.as_deref() == Some(found.meta.key());
    if condition != Condition::Ready || !is_own || session_differs(index, lock)? {
        return Ok(());
    }
    let staged = Staged::new(index);
    let is_ahead = staged.number(&table::fact("batch"))?.is_some_and(|batch| batch > history.last());
    if is_ahead && !found.is_behind(staged.number(&table::fact("relaxed"))?) { Err(lacks_batches()) } else { Ok(()) }
}

/// The last batch that the index covers. The row `batch` names the last batch whose changes the index has. The row
/// `flushed` names the last batch of the last flush, which may be a control batch.
pub(crate) fn last_batch(index: &Index) -> Result<u64> {
    let staged = Staged::new(index);
    let [batch, flushed] = [staged.number(&table::fact("batch"))?, staged.number(&table::fact("flushed"))?];
    Ok(batch.max(flushed).unwrap_or_default())
}

/// Whether the index is not that of the opening that closed the root.
fn session_differs(index: &Index, lock: &Lock) -> Result<bool> {
    let session = index.get(table::fact("session").as_bytes())?;
    let closed = lock.former().map(|former| former.session.to_be_bytes());
    Ok(lock.was_clean() && session.as_deref() != closed.as_ref().map(<[u8; 8]>::as_slice))
}

/// Whether the index can be brought to where the logs are: it belongs to this root and to the opening that closed it,
/// has no later batch than the journal, and lacks no batch that the journal lacks, too. If not, and if that is a
/// finding to report, this notes the reason in `found.opening.stale_index`.
fn is_trusted(index: &Index, condition: Condition, lock: Option<&Lock>, found: &mut Found) -> Result<bool> {
    let store = index.get(table::fact("store").as_bytes())?;
    if condition != Condition::Ready || store.as_deref() != Some(found.meta.key()) {
        let why = if condition == Condition::Damaged { "its files are damaged" } else { "it belongs to another store" };
        // One without a store was being made.
        found.opening.stale_index = (condition == Condition::Damaged || store.is_some()).then_some(why);
        return Ok(false);
    }
    // Without the record of the former holder the sessions are counted anew. A session number in the index would then
    // name another session.
    let uncounted = lock.is_some_and(|lock| lock.former().is_none());
    let differs = lock.map_or(Ok(false), |lock| session_differs(index, lock))?;
    // An opening that found no space may have ended before it wrote this. Its index is of no use, and no finding.
    let is_unfinished = position(index)?.is_none();
    let mut stale = uncounted || differs || is_unfinished;
    let batch = Staged::new(index).number(&table::fact("batch"))?.unwrap_or_default();
    let covered = last_batch(index)?;
    match &found.history {
        Some(history) => stale |= batch > history.last() || covered + 1 < history.base(),
        // Without a journal only a clean close says that the index is as new as the logs.
        None => stale |= found.opening.unclean,
    }
    if stale {
        let is_finding = !uncounted && !is_unfinished && found.history.is_some() && !found.opening.unclean;
        found.opening.stale_index = is_finding.then_some("it is older or newer than the logs");
    }
    Ok(!stale)
}

/// Fills an empty index from the logs.
fn rebuild(vfs: &dyn Vfs, index: &Index, config: &FileConfig, found: &mut Found) -> Result<(Facts, u64, Damage)> {
    let mut facts = Facts::default();
    let known = Recovery {
        last_batch: found.last_batch(),
        rewrite_from: found.rewrite.then_some(0),
        read_only: config.read_only,
        ..Recovery::default()
    };
    let read = root::read(vfs, known, |fact| {
        facts.take(fact);
        Ok(())
    })?;
    found.opening.set_aside.extend(read.as_ref().and_then(|found| found.aside.as_ref()).map(SetAside::of));
    found.may_be_ahead = found.is_behind(facts.relaxed);
    let (next_log, damage) = read_logs(vfs, index, (&facts, found.from()), config, &mut found.opening)?;
    remember(index, &found.meta, read.map(|found| found.end).unwrap_or_default(), &facts)?;
    let mut staged = Staged::new(index);
    if let Some(history) = &found.history {
        staged.put(table::fact("batch"), history.last().to_be_bytes());
    }
    index.apply(&staged.into_changes())?;
    Ok((facts, next_log, damage))
}

/// Reads every log as far as the index does not cover it.
pub(crate) fn read_logs(
    vfs: &dyn Vfs,
    index: &Index,
    known: (&Facts, From),
    config: &FileConfig,
    opening: &mut Opening,
) -> Result<(u64, Damage)> {
    let facts = known.0;
    let mut staged = Staged::new(index);
    facts.remove_deleted(&mut staged)?;
    index.apply(&staged.into_changes())?;
    let mut replay = Replay::new(vfs, index, known, config)?;
    replay.all(opening)?;
    let (next_log, damage) = replay.into_parts();
    let mut staged = Staged::new(index);
    facts.finish(&mut staged)?;
    index.apply(&staged.into_changes())?;
    Ok((next_log, damage))
}

/// Removes everything from an index that is of no use.
fn clear(index: &Index) -> Result<()> {
    loop {
        let snapshot = index.snapshot();
        let mut changes = Changes::default();
        for pair in snapshot.prefix(&[], Direction::Forward).take(10_000) {
            changes.delete(pair?.0);
        }
        if changes.is_empty() {
            return Ok(());
        }
        index.apply(&changes)?;
    }
}

pub(crate) fn remember(index: &Index, meta: &Meta, position: Position, facts: &Facts) -> Result<()> {
    let mut staged = Staged::new(index);
    staged.put(table::fact("store"), *meta.key());
    staged.put(table::fact("root"), root::encode_position(position));
    for tenant in &facts.dropped {
        staged.put(table::dropping(tenant), []);
    }
    let claims = staged.number(&table::fact("claims"))?.max(facts.claims);
    if let Some(claims) = claims {
        staged.put(table::fact("claims"), claims.to_be_bytes());
    }
    if let Some(documents) = staged.number(&table::fact("documents"))?.max(facts.documents) {
        staged.put(table::fact("documents"), documents.to_be_bytes());
    }
    if let Some(session) = facts.relaxed {
        staged.put(table::fact("relaxed"), session.to_be_bytes());
    }
    index.apply(&staged.into_changes())
}

/// How far the index knows the root log.
pub(crate) fn position(index: &Index) -> Result<Option<Position>> {
    let found = Staged::new(index).get_position("root")?;
    Ok(found.filter(|position| *position != Position::default()))
}

/// What makes the index durable, up to a batch.
pub(crate) fn persist(index: &Arc<Index>) -> Persist {
    let index = Arc::clone(index);
    Box::new(move |batch| {
        let mut changes = Changes::default();
        changes.put(table::fact("flushed"), batch.to_be_bytes());
        index.apply(&changes).and_then(|()| index.persist()).map_err(std::io::Error::other)
    })
}
