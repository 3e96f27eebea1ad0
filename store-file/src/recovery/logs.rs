//! The logs of a root before its index is looked at: what the journal does to them, and what it finds.

use store_core::{Detail, Error, Result, codec::Codec};

use super::index::position;
use crate::{
    codec::Rows,
    config::FileConfig,
    damage::{Damage, without_generation},
    decoded::own_header,
    error,
    index::Index,
    journal::{History, Redone, lacks_batches},
    log::{Known, Recovery, Tail, classify, put_aside, set_aside},
    meta::Meta,
    replay::From,
    report::{Opening, SetAside},
    root,
    staged::Staged,
    table,
    vfs::{Damaged, FilePath, Open, Vfs},
};

/// Where the logs of a root end, and what the index needs to get there.
pub(crate) struct Found {
    pub(crate) meta: Meta,
    pub(crate) opening: Opening,
    pub(crate) history: Option<History>,
    pub(crate) redone: Redone,
    /// Whether the logs may not be durable: no journal was there to say so.
    pub(crate) rewrite: bool,
    /// Whether logs and index may be ahead of the journal, which [`Found::is_behind`] says.
    pub(crate) may_be_ahead: bool,
    /// The first opening after the last clean close; none if the last holder closed the root, or has it open.
    pub(crate) since: Option<u64>,
    /// For a reader beside a holder: the last batch that is in all of its logs.
    pub(crate) visible: Option<u64>,
}

impl Found {
    /// Of a root of which nothing was looked at yet.
    pub(crate) fn new(meta: Meta, unclean: bool, since: Option<u64>) -> Self {
        let rewrite = unclean && !meta.has_journal();
        let opening = Opening { unclean, ..Opening::default() };
        Self {
            meta,
            opening,
            history: None,
            redone: Redone::default(),
            rewrite,
            may_be_ahead: false,
            since,
            visible: None,
        }
    }

    /// Goes on without the journal. Nothing says then what of the logs is durable.
    pub(crate) fn give_up_journal(&mut self, why: String) {
        (self.history, self.redone, self.rewrite) = (None, Redone::default(), true);
        self.opening = Opening { unclean: true, lost_journal: Some(why), ..Opening::default() };
    }

    /// The last batch that was committed.
    pub(crate) fn last_batch(&self) -> u64 {
        self.history.as_ref().map(History::last).or(self.visible).unwrap_or(u64::MAX)
    }

    /// Whether logs and index may be ahead of the journal, because a power cut may have taken batches that were
    /// acknowledged. `relaxed` is the session number of the last opening with relaxed durability. A later opening may
    /// have ended before it raised the incarnation. So `relaxed` counts as long as no close was clean since then.
    /// Beside a holder the answer is always yes: the logs may have batches above the last published one.
    pub(crate) fn is_behind(&self, relaxed: Option<u64>) -> bool {
        let may_be_lost = self.since.is_some_and(|since| relaxed.is_some_and(|session| session >= since));
        may_be_lost || self.visible.is_some()
    }

    pub(crate) fn from(&self) -> From {
        From {
            last_batch: self.last_batch(),
            may_be_ahead: self.may_be_ahead,
            rewrite: self.rewrite,
            unclean: self.opening.unclean,
        }
    }
}

/// The journal of a root that has one. After a clean close it is empty, and nothing is lost without it.
pub(crate) fn journal_of(vfs: &dyn Vfs, meta: &Meta, (is_new, was_clean): (bool, bool)) -> Result<Option<History>> {
    if is_new || !meta.has_journal() {
        return Ok(None);
    }
    let Some(history) = History::read(vfs, &meta.name())? else {
        return if was_clean { Ok(None) } else { Err(lost()) };
    };
    if history.incarnation() > meta.incarnation() {
        return Err(Error::corrupt("the journal: it belongs to a later incarnation of the store"));
    }
    Ok(Some(history))
}

/// The error of a journal that is gone.
pub(crate) fn lost() -> Error {
    Error::corrupt("the journal: its files are missing")
}

/// Sets aside what logs have after the end that the journal states. A whole group after that end belongs to a batch
/// that the journal lacks: the opening is refused.
pub(crate) fn cut_to_ends(vfs: &dyn Vfs, config: &FileConfig, found: &mut Found) -> Result<()> {
    for (path, end) in &found.redone.ends {
        let fail = |source| error::io(path, source);
        let file = vfs.open(path, if config.read_only { Open::Read } else { Open::Write }).map_err(fail)?;
        let len = file.len().map_err(fail)?;
        let known = Known { acknowledged: 0, last_batch: u64::MAX };
        match classify(&*file, *end, len, known).map_err(fail)? {
            Tail::Corrupt { .. } => return Err(lacks_batches()),
            Tail::Torn { .. } if !config.read_only => {
                found.opening.set_aside.push(SetAside::of(&set_aside(vfs, path, &*file, *end).map_err(fail)?));
            }
            Tail::Torn { .. } | Tail::Clean => {}
        }
    }
    Ok(())
}

/// What is wrong with a log that lacks what was durable once.
fn damage_of(path: &FilePath) -> String {
    format!("{path}: it is shorter than what was written")
}

/// Keeps what the journal has of logs that cannot be mended: it is not in them, and goes with the journal.
pub(crate) fn keep_bytes(vfs: &dyn Vfs, history: &History, redone: &Redone, opening: &mut Opening) -> Result<()> {
    if redone.damaged.is_empty() {
        return Ok(());
    }
    for (path, log) in history.appends()?.into_iter().filter(|(path, _)| redone.damaged.contains(path)) {
        let Some(offset) = log.bytes.keys().next().copied() else { continue };
        let bytes: Vec<u8> = log.bytes.into_values().flatten().collect();
        let aside = put_aside(vfs, &path, offset, &bytes).map_err(|source| error::io(&path, source))?;
        opening.set_aside.push(SetAside::of(&aside));
    }
    Ok(())
}

/// Refuses the threads of logs that lack what was durable once. The row of such a log gets the end that the journal
/// states. So later openings refuse the thread, too: the first use finds that the file is too short.
pub(crate) fn note_damage(on: (&dyn Vfs, &Index), found: &mut Found, damage: &mut Damage) -> Result<()> {
    let (vfs, index) = on;
    found.opening.damaged.extend(found.redone.damaged.iter().map(damage_of));
    let ends = found.history.as_ref().map(History::appends).transpose()?.unwrap_or_default();
    for path in &found.redone.damaged {
        let detail = Detail::Corrupt { location: damage_of(path) };
        let header = match vfs.open(path, Open::Read).ok().map(|file| own_header(&*file, path)).transpose() {
            Err(source) if Damaged::of(&source).is_some() => None,
            read => read.map_err(|source| error::io(path, source))?.flatten(),
        };
        let Some((header, _)) = header else {
            if let Some((name, generation)) = without_generation(path) {
                damage.headless.insert(name.to_owned(), (generation, format!("{path} at byte 0")));
            }
            continue;
        };
        let mut staged = Staged::new(index);
        let log = match header.generation {
            0 => staged.event_log(&header.tenant, &header.thread)?,
            _ => staged.thread_row(&header.tenant, &header.thread)?.map(|row| row.log),
        };
        let end = ends.get(path).and_then(|log| log.bytes.last_key_value());
        if let (Some(log), Some((offset, bytes))) = (log, end)
            && let Some(mut row) = staged.log_row(log)?
        {
            row.end.offset = row.end.offset.max(offset + bytes.len() as u64);
            staged.put(table::log(log), row.encode());
        }
        index.apply(&staged.into_changes())?;
        damage.threads.insert((header.tenant, header.thread), detail);
    }
    Ok(())
}

/// Whether the root log ends where the index says. A torn tail after that is set aside.
pub(crate) fn fits_root_log(vfs: &dyn Vfs, index: &Index, config: &FileConfig, found: &mut Found) -> Result<bool> {
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
