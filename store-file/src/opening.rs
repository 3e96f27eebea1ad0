//! Opening a root: what it is, who held it, and bringing the index to where the logs are.

use std::{path::Path, sync::Arc};

use store_core::{Detail, Error, ErrorKind, IgnoreProgress, Result, SchemaRemedy, TenantId};

use crate::{
    catch_up::CatchUp,
    config::{Create, Durability, FileConfig},
    damage::{Damage, without_generation},
    deletion,
    dispatches::MailboxRows,
    error,
    facts::Facts,
    files::Files,
    index::{Condition, Index, is_known_damaged},
    journal::{History, Journal, JournalConfig, Persist, Redone},
    line::Fact,
    lock::Lock,
    log::{Aside, Position, Recovery, set_aside},
    meta::Meta,
    overlay::Overlay,
    purge,
    replay::{From, Replay, own_header},
    root,
    shared::{Part, Parts, Shared, guard},
    space,
    staged::Staged,
    table,
    vfs::{Disk, Open, Vfs},
    writer::{How, alone},
};

/// What an opening has found and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// Whether the last holder did not close the root.
    pub unclean: bool,
    /// Whether the index was made anew from the logs.
    pub index_rebuilt: bool,
    /// Logs that were read, to their end or from their beginning.
    pub logs_read: u64,
    /// Bytes behind the last whole commit of a log that were set aside (FI-3).
    pub set_aside: Vec<SetAside>,
    /// What is damaged: the store works, and calls that need it are refused (FI-4). A thread whose log is damaged from
    /// its first commit on is in no list: what there is of it is named here, and found by a verification.
    pub damaged: Vec<String>,
    /// Why the index that was there was of no use.
    pub(crate) stale_index: Option<&'static str>,
}

/// Bytes behind the last whole commit of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// The log, below the root.
    pub log: String,
    /// Where they started.
    pub offset: u64,
    /// How many they were.
    pub bytes: u64,
    /// Where they are now, below the root.
    pub path: Option<String>,
    /// Whether they had been acknowledged: damage, not a crash.
    pub acknowledged: bool,
}

impl SetAside {
    pub(crate) fn of(aside: &Aside) -> Self {
        Self {
            log: aside.log.as_str().to_owned(),
            offset: aside.offset,
            bytes: aside.bytes,
            path: aside.path.as_ref().map(|path| path.as_str().to_owned()),
            acknowledged: aside.acknowledged,
        }
    }
}

/// The disk of a root, made if it may be.
pub(crate) fn disk(path: &Path, config: &FileConfig) -> Result<Disk> {
    let opened = if config.create == Create::Never || config.read_only { Disk::open(path) } else { Disk::create(path) };
    opened.map_err(|source| error::io(path.display(), source))
}

/// Opens a root on its disk.
pub(crate) fn open(disk: Disk, config: FileConfig) -> Result<Arc<Shared>> {
    if config.read_only {
        return open_on(Arc::new(disk), config, false, |_| Ok((Index::in_memory(), Condition::New)));
    }
    let disk = Arc::new(disk);
    let open = || {
        let place = Arc::clone(&disk);
        open_on(Arc::<Disk>::clone(&disk), config.clone(), true, move |_| Index::open(&place))
    };
    match open() {
        // The index is damaged where the opening reads it: without it all is in the logs (FI-10).
        Err(error) if error.kind() == ErrorKind::Corrupt && is_known_damaged(&disk) => open(),
        opened => opened,
    }
}

/// Opens a root on any disk, with an index from `index`, which is asked for once the root is locked. Whether the journal
/// works in the background, too.
pub(crate) fn open_on(
    vfs: Arc<dyn Vfs>,
    config: FileConfig,
    in_background: bool,
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    // Before anything is written: it may be a root of a later release, or a folder of something else.
    if Meta::load(&*vfs)?.is_none() && (config.create == Create::Never || config.read_only) {
        return Err(no_root());
    }
    if config.read_only {
        // While nobody has the root open, its journal may have what the logs lack.
        let lock = Lock::of_nobody(&*vfs)?;
        return open_to_read(lock.as_ref(), None, vfs, config, index);
    }
    let lock = Lock::acquire(&*vfs)?;
    space::make_room_to_open(&*vfs);
    open_to_write(lock, vfs, (config, in_background), index)
}

/// A root that is open for reading, as its next holder will find it: with the index that is on the disk. Nothing is
/// written. None if somebody has the root: its index is in use then, and ahead of what the disk has of it.
pub(crate) fn at_rest(shared: &Shared) -> Result<Option<Arc<Shared>>> {
    let vfs = Arc::clone(&shared.vfs);
    let Some(lock) = Lock::of_nobody(&*vfs)? else { return Ok(None) };
    open_to_read(Some(&lock), Some(&lock), vfs, shared.config.clone(), Index::copied).map(Some)
}

/// Where the logs of a root end, and what the index needs to get there.
struct Found {
    meta: Meta,
    opening: Opening,
    history: Option<History>,
    redone: Redone,
    /// Logs of the first release that were not closed.
    rewrite: bool,
}

impl Found {
    /// The last batch that was committed.
    fn last_batch(&self) -> u64 {
        self.history.as_ref().map_or(u64::MAX, History::last)
    }

    fn from(&self) -> From {
        From { last_batch: self.last_batch(), rewrite: self.rewrite, unclean: self.opening.unclean }
    }
}

/// Opens a root for writing.
fn open_to_write(
    lock: Lock,
    vfs: Arc<dyn Vfs>,
    how: (FileConfig, bool),
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    let (config, in_background) = how;
    let stored = Meta::load(&*vfs)?;
    let is_new = stored.is_none();
    let meta = stored.map_or_else(Meta::new, Ok)?;
    // A record of the last holder that cannot be read counts as not clean.
    let unclean = !(lock.was_clean() || (is_new && lock.former().is_none()));
    let history = journal_of(&*vfs, &meta, is_new)?;
    let redone = history.as_ref().map(|history| history.redo(&*vfs)).transpose()?.unwrap_or_default();
    let rewrite = unclean && !meta.has_journal();
    let mut opening = Opening { unclean, ..Opening::default() };
    cut_to_ends(&*vfs, &redone, &mut opening)?;
    let mut found = Found { meta, opening, history, redone, rewrite };
    let (index, condition) = index(&*vfs)?;
    let index = Arc::new(index);
    let (facts, next_log, mut damage) = catch_up(&*vfs, &index, (condition, Some(&lock)), &config, &mut found)?;
    note_damage(&*vfs, &found.redone, &mut found.opening, &mut damage)?;
    let relaxed = unclean && was_relaxed(&index, &lock)?;
    let former = found.meta.clone();
    let meta = if relaxed { former.next_incarnation() } else { former.clone() }.with_journal();
    if found.meta.has_journal() && meta != former {
        meta.save(&*vfs)?;
    }
    let next = found.history.as_ref().map_or(1, |history| history.last() + 1);
    let persist = persist(&index);
    // What the journal has is in the logs, durably, and in the index: it can begin anew.
    persist(next - 1).map_err(|source| error::io("index", source))?;
    let files = Arc::new(Files::new(Arc::clone(&vfs), Open::Write, config.open_files));
    let journal = JournalConfig {
        root: meta.name(),
        incarnation: meta.incarnation(),
        next,
        durability: config.durability,
        half_bytes: config.journal_bytes / 2,
        in_background,
    };
    let journal = Some(Journal::start(Arc::clone(&vfs), Arc::clone(&files), journal, persist)?);
    if is_new || !former.has_journal() {
        // From here on the journal must be there.
        meta.save(&*vfs)?;
    }
    let opening = found.opening;
    let parts = Parts { vfs, meta, index, files, lock: Some(lock), journal, next_log, damage, opening };
    let shared = Shared::new(parts, config);
    begin(&shared, &facts)?;
    Ok(Arc::new(shared))
}

/// Opens a root for reading: nothing is written. `lock` is held meanwhile if nobody has it open; the index that
/// `trusting` was the last to close is taken as it is.
fn open_to_read(
    lock: Option<&Lock>,
    trusting: Option<&Lock>,
    vfs: Arc<dyn Vfs>,
    config: FileConfig,
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    let meta = Meta::load(&*vfs)?.ok_or_else(no_root)?;
    let unclean = trusting.is_some_and(|lock| !lock.was_clean());
    let history = if lock.is_some() { journal_of(&*vfs, &meta, false)? } else { None };
    let appends = history.as_ref().map(History::appends).transpose()?.unwrap_or_default();
    let vfs: Arc<dyn Vfs> = if appends.is_empty() { vfs } else { Arc::new(Overlay::new(vfs, appends)) };
    let opening = Opening { unclean, ..Opening::default() };
    let mut found = Found { meta, opening, history, redone: Redone::default(), rewrite: false };
    let (index, condition) = index(&*vfs)?;
    let index = Arc::new(index);
    let (_, next_log, damage) = catch_up(&*vfs, &index, (condition, trusting), &config, &mut found)?;
    let files = Arc::new(Files::new(Arc::clone(&vfs), Open::Read, config.open_files));
    let Found { meta, opening, .. } = found;
    let parts = Parts { vfs, meta, index, files, lock: None, journal: None, next_log, damage, opening };
    Ok(Arc::new(Shared::new(parts, config)))
}

/// The journal of a root that has one.
fn journal_of(vfs: &dyn Vfs, meta: &Meta, is_new: bool) -> Result<Option<History>> {
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

/// What makes the index durable, up to a batch.
fn persist(index: &Arc<Index>) -> Persist {
    let index = Arc::clone(index);
    Box::new(move |batch| {
        let mut changes = crate::index::Changes::default();
        changes.put(table::fact("flushed"), batch.to_be_bytes());
        index.apply(changes).and_then(|()| index.persist()).map_err(std::io::Error::other)
    })
}

/// Reads what others wrote since a root was opened for reading, or since this was called last.
///
/// # Errors
/// Those of an opening; `Corrupt` if a log is found damaged.
pub(crate) fn refresh(shared: &Shared) -> Result<()> {
    let _refreshing = guard(&shared.refreshing);
    let (vfs, index) = (&*shared.vfs, &*shared.index);
    let known = position(index)?;
    let mut facts = Facts::unfinished(index)?;
    let from = Recovery { from: known, read_only: true, ..Recovery::default() };
    let read = root::read(vfs, from, |fact| {
        facts.take(fact);
        Ok(())
    })?;
    let config = FileConfig { progress: Arc::new(IgnoreProgress), ..shared.config.clone() };
    let mut opening = Opening::default();
    let from = From { last_batch: u64::MAX, rewrite: false, unclean: false };
    let (_, damage) = read_logs(vfs, index, (&facts, from), &config, &mut opening)?;
    remember(index, &shared.meta, read.map(|found| found.end).or(known).unwrap_or_default(), &facts)?;
    damage.threads.into_values().next().map_or(Ok(()), |detail| Err(Error::new(detail)))
}

fn no_root() -> Error {
    Error::schema_mismatch("none", "a root created by agentstore", SchemaRemedy::Create)
}

/// How far the index knows the root log.
fn position(index: &Index) -> Result<Option<Position>> {
    let found = Staged::new(index).get_position("root")?;
    Ok(found.filter(|position| *position != Position::default()))
}

/// Brings the index to where the logs are: by the journal, if it is not further behind than that, else by the logs.
fn catch_up(
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
        is_trusted = CatchUp::new(vfs, index)?.run(history, &found.redone, now, &mut found.opening)?;
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
    let mut damage = Damage::default();
    let relaxed = lock.is_some_and(|lock| was_relaxed(index, lock).unwrap_or(true));
    let mut next_log = next_log(index)?;
    if found.opening.unclean && relaxed {
        // Logs may have what is lost of the journal.
        (next_log, damage) = read_logs(vfs, index, (&facts, found.from()), config, &mut found.opening)?;
    }
    Ok((facts, next_log, damage))
}

/// Whether the root log ends where the index knows it to. What is behind that is set aside.
fn fits_root_log(vfs: &dyn Vfs, index: &Index, config: &FileConfig, found: &mut Found) -> Result<bool> {
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

/// Sets aside what logs have behind the end that the journal knows.
fn cut_to_ends(vfs: &dyn Vfs, redone: &Redone, opening: &mut Opening) -> Result<()> {
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
fn note_damage(vfs: &dyn Vfs, redone: &Redone, opening: &mut Opening, damage: &mut Damage) -> Result<()> {
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
    let (next_log, damage) = read_logs(vfs, index, (&facts, found.from()), config, &mut found.opening)?;
    remember(index, &found.meta, read.map(|found| found.end).unwrap_or_default(), &facts)?;
    let mut staged = Staged::new(index);
    if let Some(history) = &found.history {
        staged.put(table::fact("batch"), history.last().to_be_bytes());
    }
    index.apply(staged.into_changes())?;
    Ok((facts, next_log, damage))
}

/// Reads every log as far as the index does not cover it.
fn read_logs(
    vfs: &dyn Vfs,
    index: &Index,
    known: (&Facts, From),
    config: &FileConfig,
    opening: &mut Opening,
) -> Result<(u64, Damage)> {
    let facts = known.0;
    let mut staged = Staged::new(index);
    facts.remove_deleted(&mut staged)?;
    index.apply(staged.into_changes())?;
    let mut replay = Replay::new(vfs, index, known, config)?;
    replay.all(opening)?;
    let (next_log, damage) = replay.into_parts();
    let mut staged = Staged::new(index);
    facts.finish(&mut staged)?;
    index.apply(staged.into_changes())?;
    Ok((next_log, damage))
}

/// The number of the next log.
fn next_log(index: &Index) -> Result<u64> {
    let mut next = 1;
    let snapshot = index.snapshot();
    for list in [table::logs(), table::purges()] {
        let newest = snapshot.prefix(list.as_bytes(), crate::index::Direction::Backward).next().transpose()?;
        next = next.max(newest.and_then(|(key, _)| table::read_log(&key)).unwrap_or_default() + 1);
    }
    Ok(next)
}

/// Whether the index can be brought to where the logs are: it is of this root, not ahead of the journal, and not
/// further behind than the journal reaches.
fn is_trusted(index: &Index, condition: Condition, lock: Option<&Lock>, found: &mut Found) -> Result<bool> {
    let store = index.get(table::fact("store").as_bytes())?;
    if condition != Condition::Ready || store.as_deref() != Some(found.meta.key()) {
        let why = if condition == Condition::Damaged { "its files are damaged" } else { "it belongs to another store" };
        // One without a store was being made.
        found.opening.stale_index = (condition == Condition::Damaged || store.is_some()).then_some(why);
        return Ok(false);
    }
    let session = index.get(table::fact("session").as_bytes())?;
    let closed = lock.and_then(Lock::former).map(|former| former.session.to_be_bytes());
    // Without the former holder's record the sessions are counted anew: numbers of the index would mean others.
    let uncounted = lock.is_some() && closed.is_none();
    let differs = session.as_deref() != closed.as_ref().map(<[u8; 8]>::as_slice);
    let mut stale = uncounted || (lock.is_some_and(Lock::was_clean) && differs) || position(index)?.is_none();
    let staged = Staged::new(index);
    let batch = staged.number(&table::fact("batch"))?.unwrap_or_default();
    let covered = batch.max(staged.number(&table::fact("flushed"))?.unwrap_or_default());
    match &found.history {
        Some(history) => stale |= batch > history.last() || covered + 1 < history.base(),
        // The first release knew what of a log was durable, which is not needed behind a clean close.
        None => stale |= found.opening.unclean,
    }
    if stale {
        found.opening.stale_index = (!uncounted && found.history.is_some() && !found.opening.unclean)
            .then_some("it is older or newer than the logs");
    }
    Ok(!stale)
}

/// Removes everything from an index that is of no use.
fn clear(index: &Index) -> Result<()> {
    loop {
        let snapshot = index.snapshot();
        let mut changes = crate::index::Changes::default();
        for pair in snapshot.prefix(&[], crate::index::Direction::Forward).take(10_000) {
            changes.delete(pair?.0);
        }
        if changes.is_empty() {
            return Ok(());
        }
        index.apply(changes)?;
    }
}

/// Whether an opening since the last clean close acknowledged what a power cut may take. It need not be the last one:
/// that may have ended before it came to raise the incarnation.
fn was_relaxed(index: &Index, lock: &Lock) -> Result<bool> {
    let relaxed = Staged::new(index).number(&table::fact("relaxed"))?;
    let since = lock.former().map_or(0, |former| former.since);
    Ok(relaxed.is_some_and(|session| session >= since))
}

fn remember(index: &Index, meta: &Meta, position: Position, facts: &Facts) -> Result<()> {
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
    if let Some(session) = facts.relaxed {
        staged.put(table::fact("relaxed"), session.to_be_bytes());
    }
    index.apply(staged.into_changes())
}

/// The first steps of a writer: what it may lose is said before, and what others left is finished.
fn begin(shared: &Shared, facts: &Facts) -> Result<()> {
    let mut staged = Staged::new(&shared.index);
    staged.put(table::fact("store"), *shared.meta.key());
    shared.index.apply(staged.into_changes())?;
    if position(&shared.index)?.is_none() || shared.config.durability != Durability::Sync {
        let session = shared.lock.as_ref().map_or(0, Lock::session);
        let tenant = TenantId::default_tenant();
        let key = (tenant, crate::outbox::log_id()?, Part::Events);
        alone(shared, key, How::Frees, |round| {
            if shared.config.durability == Durability::Sync {
                return round.begin_root();
            }
            round.staged.put(table::fact("relaxed"), session.to_be_bytes());
            round.fact(&Fact::Relaxed { session })
        })?;
    }
    for tenant in &facts.dropped {
        deletion::finish_drop(shared, tenant)?;
    }
    purge::what_can_be(shared, None)
}

/// Marks a store as closed.
pub(crate) fn mark_closed(shared: &Shared) {
    shared.closed.store(true, std::sync::atomic::Ordering::SeqCst);
    let tenants = std::mem::take(&mut *guard(&shared.tenants));
    tenants.values().for_each(|tenant| tenant.end_waits());
}
