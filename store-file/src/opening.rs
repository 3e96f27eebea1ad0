//! Opening a root: what it is, who held it, and bringing the index to where the logs are.

use std::{path::Path, sync::Arc};

use store_core::{Error, ErrorKind, IgnoreProgress, Result, SchemaRemedy};

use crate::{
    config::{Create, Durability, FileConfig},
    damage::Damage,
    deletion,
    dispatches::MailboxRows,
    error,
    facts::Facts,
    index::{Condition, Index, is_known_damaged},
    line::Fact,
    lock::Lock,
    log::{Aside, Position, Recovery},
    meta::Meta,
    purge,
    replay::Replay,
    root::RootLog,
    shared::{Parts, Shared, guard},
    space,
    staged::Staged,
    table,
    vfs::{Disk, Vfs},
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
        return open_on(Arc::new(disk), config, |_| Ok((Index::in_memory(), Condition::New)));
    }
    let disk = Arc::new(disk);
    let open = || {
        let place = Arc::clone(&disk);
        open_on(Arc::<Disk>::clone(&disk), config.clone(), move |_| Index::open(&place))
    };
    match open() {
        // The index is damaged where the opening reads it: without it all is in the logs (FI-10).
        Err(error) if error.kind() == ErrorKind::Corrupt && is_known_damaged(&disk) => open(),
        opened => opened,
    }
}

/// Opens a root on any disk, with an index from `index`, which is asked for once the root is locked.
pub(crate) fn open_on(
    vfs: Arc<dyn Vfs>,
    config: FileConfig,
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    // Before anything is written: it may be a root of a later release, or a folder of something else.
    if Meta::load(&*vfs)?.is_none() && config.create == Create::Never {
        return Err(no_root());
    }
    let lock = if config.read_only { None } else { Some(Lock::acquire(&*vfs)?) };
    if !config.read_only {
        space::make_room_to_open(&*vfs);
    }
    open_under(lock, vfs, config, index)
}

/// A root that is open for reading, as its next holder will find it: with the index that is on the disk. Nothing is
/// written. None if somebody has the root: its index is in use then, and ahead of what the disk has of it.
pub(crate) fn at_rest(shared: &Shared) -> Result<Option<Arc<Shared>>> {
    let vfs = Arc::clone(&shared.vfs);
    let Some(lock) = Lock::of_nobody(&*vfs)? else { return Ok(None) };
    open_under(Some(lock), vfs, shared.config.clone(), Index::copied).map(Some)
}

/// Opens a root. For reading the lock says what the last holder left, and is let go.
fn open_under(
    lock: Option<Lock>,
    vfs: Arc<dyn Vfs>,
    config: FileConfig,
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    let (meta, is_new) = meta(&*vfs, &config)?;
    let (index, condition) = index(&*vfs)?;
    // A record of the last holder that cannot be read counts as not clean.
    let ended = |lock: &Lock| lock.was_clean() || (is_new && lock.former().is_none());
    let mut opening = Opening { unclean: lock.as_ref().is_some_and(|lock| !ended(lock)), ..Opening::default() };
    let trusted = trusted(&index, condition, lock.as_ref(), (&meta, &mut opening))?;
    opening.index_rebuilt = trusted.is_none();
    let mut facts = Facts::unfinished(&index)?;
    let (root, recovered) = RootLog::open(&*vfs, recovery(trusted, &opening, &config), |fact| {
        facts.take(fact);
        Ok(())
    })?;
    opening.set_aside.extend(recovered.as_ref().and_then(|found| found.aside.as_ref()).map(SetAside::of));
    let relaxed = opening.unclean && was_relaxed(&index, &facts, lock.as_ref())?;
    if relaxed && trusted.is_some() {
        // Logs may be read again from their beginning: that takes all facts about their threads.
        facts = RootLog::facts(&*vfs)?;
    }
    let lock = lock.filter(|_| !config.read_only);
    let meta = if relaxed && lock.is_some() { incarnation(&*vfs, &meta)? } else { meta };
    let (next_log, damage) = catch_up(&*vfs, &index, (trusted, &facts), &config, &mut opening)?;
    let end = root.position().or(recovered.map(|found| found.end)).unwrap_or_default();
    remember(&index, &meta, end, &facts)?;
    let shared = Shared::new(Parts { vfs, meta, index, lock, root, next_log, damage, opening }, config);
    if !shared.config.read_only {
        begin(&shared, &facts)?;
    }
    Ok(Arc::new(shared))
}

/// Reads what others wrote since a root was opened for reading, or since this was called last.
///
/// # Errors
/// Those of an opening; `Corrupt` if a log is found damaged.
pub(crate) fn refresh(shared: &Shared) -> Result<()> {
    let _refreshing = guard(&shared.refreshing);
    let (vfs, index) = (&*shared.vfs, &shared.index);
    let known = index.get(table::fact("root").as_bytes())?.and_then(|bytes| decode_position(&bytes));
    let known = known.filter(|position| *position != Position::default());
    let mut facts = Facts::unfinished(index)?;
    let from = Recovery { from: known, read_only: true, ..Recovery::default() };
    let (_, recovered) = RootLog::open(vfs, from, |fact| {
        facts.take(fact);
        Ok(())
    })?;
    let config = FileConfig { progress: Arc::new(IgnoreProgress), ..shared.config.clone() };
    // A log is read on from where it was read to.
    let mut opening = Opening { unclean: true, ..Opening::default() };
    let (_, damage) = catch_up(vfs, index, (known, &facts), &config, &mut opening)?;
    remember(index, &shared.meta, recovered.map(|found| found.end).or(known).unwrap_or_default(), &facts)?;
    damage.threads.into_values().next().map_or(Ok(()), |detail| Err(Error::new(detail)))
}

/// What the root is, and whether it was made just now.
fn meta(vfs: &dyn Vfs, config: &FileConfig) -> Result<(Meta, bool)> {
    if let Some(meta) = Meta::load(vfs)? {
        return Ok((meta, false));
    }
    if config.read_only || config.create == Create::Never {
        return Err(no_root());
    }
    let meta = Meta::new()?;
    meta.save(vfs)?;
    Ok((meta, true))
}

fn no_root() -> Error {
    Error::schema_mismatch("none", "a root created by agentstore", SchemaRemedy::Create)
}

/// Up to where of the root log the index can be trusted; none if it has to be filled from the logs.
fn trusted(
    index: &Index,
    condition: Condition,
    lock: Option<&Lock>,
    found: (&Meta, &mut Opening),
) -> Result<Option<Position>> {
    let (meta, opening) = found;
    let store = index.get(table::fact("store").as_bytes())?;
    if condition != Condition::Ready || store.as_deref() != Some(meta.key()) {
        let why = if condition == Condition::Damaged { "its files are damaged" } else { "it belongs to another store" };
        // One without a store was being made.
        opening.stale_index = (condition == Condition::Damaged || store.is_some()).then_some(why);
        return clear(index).map(|()| None);
    }
    let session = index.get(table::fact("session").as_bytes())?;
    let closed = lock.and_then(Lock::former).map(|former| former.session.to_be_bytes());
    // Without the former holder's record the sessions are counted anew: numbers of the index would mean others.
    let uncounted = lock.is_some() && closed.is_none();
    let differs = session.as_deref() != closed.as_ref().map(<[u8; 8]>::as_slice);
    let stale = uncounted || (lock.is_some_and(Lock::was_clean) && differs);
    let root = index.get(table::fact("root").as_bytes())?.and_then(|bytes| decode_position(&bytes));
    match root {
        Some(position) if !stale => Ok(Some(position)),
        _ => {
            opening.stale_index = (!uncounted).then_some("it is older or newer than the logs");
            clear(index).map(|()| None)
        }
    }
}

/// A position of the root log, as the index keeps it.
pub(crate) fn decode_position(bytes: &[u8]) -> Option<Position> {
    let (offset, crc) = bytes.split_first_chunk::<8>()?;
    Some(Position { offset: u64::from_be_bytes(*offset), crc: u32::from_be_bytes(crc.try_into().ok()?) })
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

fn recovery(trusted: Option<Position>, opening: &Opening, config: &FileConfig) -> Recovery {
    Recovery {
        from: trusted,
        // Facts are synced one by one: what the index knows of was acknowledged.
        acknowledged: trusted.map_or(0, |position| position.offset),
        rewrite_from: opening.unclean.then(|| trusted.map_or(0, |position| position.offset)),
        read_only: config.read_only,
    }
}

/// Whether an opening since the last clean close acknowledged what a power cut may take. It need not be the last one:
/// that may have ended before it came to raise the incarnation.
fn was_relaxed(index: &Index, facts: &Facts, lock: Option<&Lock>) -> Result<bool> {
    let stored = index.get(table::fact("relaxed").as_bytes())?;
    let relaxed = facts.relaxed.or_else(|| stored.and_then(|bytes| table::last_number(&bytes)));
    let since = lock.and_then(Lock::former).map_or(0, |former| former.since);
    Ok(relaxed.is_some_and(|session| session >= since))
}

/// Versions, cursors and tokens that such an opening gave out may speak of what is lost: a new incarnation refuses them
/// (FI-12).
fn incarnation(vfs: &dyn Vfs, meta: &Meta) -> Result<Meta> {
    let meta = meta.next_incarnation();
    meta.save(vfs)?;
    Ok(meta)
}

/// Brings the index to where the logs are.
fn catch_up(
    vfs: &dyn Vfs,
    index: &Index,
    known: (Option<Position>, &Facts),
    config: &FileConfig,
    opening: &mut Opening,
) -> Result<(u64, Damage)> {
    let (trusted, facts) = known;
    let mut staged = Staged::new(index);
    facts.remove_deleted(&mut staged)?;
    index.apply(staged.into_changes())?;
    let mut replay = Replay::new(vfs, index, facts, config)?;
    if trusted.is_none() || opening.unclean {
        replay.all(opening)?;
    }
    let (next_log, damage) = replay.into_parts();
    let mut staged = Staged::new(index);
    facts.finish(&mut staged)?;
    index.apply(staged.into_changes())?;
    Ok((next_log, damage))
}

fn remember(index: &Index, meta: &Meta, root: Position, facts: &Facts) -> Result<()> {
    let mut staged = Staged::new(index);
    staged.put(table::fact("store"), *meta.key());
    staged.put(table::fact("root"), deletion::encode_position(root));
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
    shared.take_reserve();
    if shared.config.durability != Durability::Sync {
        let session = shared.lock.as_ref().map_or(0, Lock::session);
        let mut staged = Staged::new(&shared.index);
        staged.put(table::fact("relaxed"), session.to_be_bytes());
        deletion::record(shared, &Fact::Relaxed { session }, staged)?;
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
