//! What the holder of a root writes while another process has it open for reading.

use std::sync::Arc;

use store_core::{Error, IgnoreProgress, Result};

use crate::{
    catch_up::CatchUp,
    config::FileConfig,
    error,
    facts::Facts,
    journal::{Follower, Redone, published},
    log::Recovery,
    mutex::guard,
    recovery::{position, read_logs, remember},
    replay::From,
    report::Opening,
    root,
    shared::Shared,
    vfs::Vfs,
};

/// Reads what the holder wrote since this process opened the root for reading, or since this was called last.
///
/// # Errors
/// Those of an opening; `Corrupt` if a log is found damaged.
pub(crate) fn refresh(shared: &Shared) -> Result<()> {
    let mut following = guard(&shared.following);
    let (vfs, index) = (&*shared.vfs, &*shared.index);
    // Before any log is read: what is published then is in all of them.
    let last_batch = last_published(vfs)?;
    if let Some(mut follower) = following.take()
        && let Some(steps) = follower.steps(vfs, last_batch)?
        && let (now, redone) = (shared.time.now(), Redone::default())
        && CatchUp::new(vfs, index)?.run((&steps, last_batch), &redone, now, &mut Opening::default())?
    {
        *following = Some(follower);
        return Ok(());
    }
    let known = position(index)?;
    let mut facts = Facts::unfinished(index)?;
    let from = Recovery { from: known, read_only: true, last_batch, ..Recovery::default() };
    let read = root::read(vfs, from, |fact| {
        facts.take(fact);
        Ok(())
    })?;
    let config = FileConfig { progress: Arc::new(IgnoreProgress), ..shared.config.clone() };
    let mut opening = Opening::default();
    let from = From { last_batch, may_be_ahead: true, rewrite: false, unclean: false };
    let (_, damage) = read_logs(vfs, index, (&facts, from), &config, &mut opening)?;
    remember(index, &shared.meta, read.map(|found| found.end).or(known).unwrap_or_default(), &facts)?;
    *following = Some(Follower::behind(vfs, last_batch)?);
    damage.threads.into_values().next().map_or(Ok(()), |detail| Err(Error::new(detail)))
}

/// The last batch that a reader beside a holder sees. If there is no file that says so, the reader uses every group
/// that it finds, and a batch may show in part.
pub(crate) fn last_published(vfs: &dyn Vfs) -> Result<u64> {
    Ok(published(vfs).map_err(|source| error::io("journal.last", source))?.unwrap_or(u64::MAX))
}
