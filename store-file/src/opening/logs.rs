//! The logs of a root before its index is looked at: what the journal does to them, and what it finds.

use store_core::{Detail, Error, Result};

use super::{Opening, SetAside, index::position};
use crate::{
    config::FileConfig,
    damage::{Damage, without_generation},
    error,
    index::Index,
    journal::{History, Redone},
    log::{Recovery, set_aside},
    meta::Meta,
    replay::{From, own_header},
    root,
    vfs::{Open, Vfs},
};

/// Where the logs of a root end, and what the index needs to get there.
pub(super) struct Found {
    pub(super) meta: Meta,
    pub(super) opening: Opening,
    pub(super) history: Option<History>,
    pub(super) redone: Redone,
    /// Whether the logs may not be durable: no journal was there to say so.
    pub(super) rewrite: bool,
}

impl Found {
    /// The last batch that was committed.
    pub(super) fn last_batch(&self) -> u64 {
        self.history.as_ref().map_or(u64::MAX, History::last)
    }

    pub(super) fn from(&self) -> From {
        From { last_batch: self.last_batch(), rewrite: self.rewrite, unclean: self.opening.unclean }
    }
}

/// The journal of a root that has one.
pub(super) fn journal_of(vfs: &dyn Vfs, meta: &Meta, is_new: bool) -> Result<Option<History>> {
    if is_new || !meta.has_journal() {
        return Ok(None);
    }
    let lost = || Error::corrupt("the journal: its files are missing");
    let history = History::read(vfs, &meta.name())?.ok_or_else(lost)?;
    if history.incarnation() > meta.incarnation() {
        return Err(Error::corrupt("the journal: it belongs to a later incarnation of the store"));
    }
    Ok(Some(history))
}

/// Sets aside what logs have behind the end that the journal knows.
pub(super) fn cut_to_ends(vfs: &dyn Vfs, redone: &Redone, opening: &mut Opening) -> Result<()> {
    for (path, end) in &redone.ends {
        let fail = |source| error::io(path, source);
        let file = vfs.open(path, Open::Write).map_err(fail)?;
        if file.len().map_err(fail)? > *end {
            opening.set_aside.push(SetAside::of(&set_aside(vfs, path, &*file, *end).map_err(fail)?));
        }
    }
    Ok(())
}

/// Names the logs that lack what was durable once: nothing of their threads can be read.
pub(super) fn note_damage(vfs: &dyn Vfs, redone: &Redone, opening: &mut Opening, damage: &mut Damage) -> Result<()> {
    for path in &redone.damaged {
        let detail = format!("{path}: it is shorter than what was written");
        opening.damaged.push(detail.clone());
        let file = vfs.open(path, Open::Read).ok();
        let header = file.map(|file| own_header(&*file, path)).transpose().map_err(|source| error::io(path, source))?;
        if let Some((header, _)) = header.flatten() {
            damage.threads.insert((header.tenant, header.thread), Detail::Corrupt { location: detail });
        } else if let Some((name, generation)) = without_generation(path) {
            damage.headless.insert(name.to_owned(), (generation, path.clone()));
        }
    }
    Ok(())
}

/// Whether the root log ends where the index knows it to. What is behind that is set aside.
pub(super) fn fits_root_log(vfs: &dyn Vfs, index: &Index, config: &FileConfig, found: &mut Found) -> Result<bool> {
    let from = position(index)?;
    let known = Recovery {
        from,
        acknowledged: from.map_or(0, |from| from.offset),
        last_batch: found.last_batch(),
        read_only: config.read_only,
        ..Recovery::default()
    };
    let mut fits = true;
    let read = root::read(vfs, known, |_| {
        fits = false;
        Ok(())
    })?;
    found.opening.set_aside.extend(read.as_ref().and_then(|found| found.aside.as_ref()).map(SetAside::of));
    Ok(fits)
}
