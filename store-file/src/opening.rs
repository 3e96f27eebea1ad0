//! Opening a root: what it is, which process held it, what a crash left, and bringing the index to where the logs are.

use std::{path::Path, sync::Arc};

use store_core::{Error, ErrorKind, Outcome, Result, SchemaRemedy, TenantId};

use crate::{
    config::{Create, Durability, FileConfig},
    damage::Damage,
    deletion, error,
    facts::Facts,
    files::Files,
    index::{Condition, Index, is_known_damaged},
    journal::{Follower, History, Journal, JournalConfig, is_of_journal},
    line::Fact,
    lock::Lock,
    meta::Meta,
    mutex::guard,
    names::{Part, outbox_log_id},
    object_files,
    overlay::Overlay,
    purge,
    recovery::{
        Found, catch_up, check_journal, journal_of, keep_bytes, last_batch, lost, note_damage, persist, position,
    },
    refresh::last_published,
    shared::{Parts, Shared},
    space,
    staged::Staged,
    table,
    vfs::{Cold, Disk, Open, Vfs},
    writer::{How, alone},
};

/// A power cut takes fewer batches than this from a journal with relaxed durability.
const MOST_LOST_BATCHES: u64 = 1 << 28;

/// The disk of a root, made if it may be.
pub(crate) fn disk(path: &Path, config: &FileConfig) -> Result<Disk> {
    let opened = if config.create == Create::Never || config.read_only { Disk::open(path) } else { Disk::create(path) };
    opened.map_err(|source| error::io(path.display(), source))
}

/// Opens a root on its disk.
pub(crate) fn open(disk: Disk, config: FileConfig) -> Result<Arc<Shared>> {
    if config.read_only {
        let vfs: Arc<dyn Vfs> = Arc::new(Cold::over(Arc::new(disk)));
        return match Lock::of_nobody(&*vfs)? {
            Some(lock) => open_to_read(Some(&lock), vfs, config, Index::copied),
            // Its index is in use, and ahead of what the disk has of it.
            None => open_to_read(None, vfs, config, |_| Ok((Index::temporary()?, Condition::New))),
        };
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

/// Opens a root on any disk, with an index from `index`, which is asked for once the root is locked. `in_background`
/// lets the journal be flushed by a thread of its own.
pub(crate) fn open_on(
    vfs: Arc<dyn Vfs>,
    config: FileConfig,
    in_background: bool,
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    // Before anything is written: it may be a root of a later release, or a folder of something else.
    if Meta::load(&*vfs)?.is_none() && config.create == Create::Never {
        return Err(no_root());
    }
    let lock = Lock::acquire(&*vfs)?;
    space::make_room_to_open(&*vfs);
    open_to_write(lock, Cold::over(vfs), (config, in_background), index)
}

/// A root that is open for reading, as its next holder will find it: with the index that is on the disk, all of which
/// can be read. Nothing is written. Returns `None` if a process has the root open for writing.
pub(crate) fn at_rest(shared: &Shared) -> Result<Option<Arc<Shared>>> {
    let vfs = Arc::clone(&shared.vfs);
    let Some(lock) = Lock::of_nobody(&*vfs)? else { return Ok(None) };
    let index = |vfs: &dyn Vfs| match Index::copied(vfs)? {
        (index, Condition::Ready) => index.or_empty_if_damaged(),
        other => Ok(other),
    };
    open_to_read(Some(&lock), vfs, shared.config.clone(), index).map(Some)
}

/// Opens a root for writing.
fn open_to_write(
    lock: Lock,
    cold: Cold,
    how: (FileConfig, bool),
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    let (config, in_background) = how;
    cold.clean();
    let vfs: Arc<dyn Vfs> = Arc::new(cold.clone());
    let stored = Meta::load(&*vfs)?;
    let is_new = stored.is_none();
    let meta = stored.map_or_else(Meta::new, Ok)?;
    // A record of the last holder that cannot be read counts as not clean.
    let unclean = !(lock.was_clean() || (is_new && lock.former().is_none()));
    let since = unclean.then(|| lock.since_of_former());
    let mut found = Found::new(meta, unclean, since);
    let (index, condition) = index(&*vfs)?;
    let index = Arc::new(index);
    let (on, known) = ((&*vfs, &*index), (condition, &lock));
    let (facts, next_log, damage) = match recover(on, known, &config, (&mut found, is_new)) {
        Err(error) if config.accept_lost_journal && is_of_journal(&error) => {
            found.give_up_journal(error.to_string());
            catch_up(&*vfs, &index, (condition, Some(&lock)), &config, &mut found)?
        }
        recovered => recovered?,
    };
    if is_new {
        // An earlier opening may have been cut short while it made the root. Then `catch_up` has noted why the index of
        // that opening is of no use. For a new root that is nothing to report.
        found.opening.stale_index = None;
    }
    let (meta, journal, files) = begin_journal((&vfs, &index), &found, (is_new, in_background), &config)?;
    let opening = found.opening;
    let (lock, journal, cold, follower) = (Some(lock), Some(journal), Some(cold), None);
    let parts = Parts { vfs, cold, meta, index, files, lock, journal, next_log, damage, opening, follower };
    let shared = Shared::new(parts, config);
    begin(&shared, &facts).map_err(refused)?;
    Ok(Arc::new(shared))
}

/// Makes logs and index what they were when the last batch was committed.
fn recover(
    on: (&dyn Vfs, &Index),
    known: (Condition, &Lock),
    config: &FileConfig,
    what: (&mut Found, bool),
) -> Result<(Facts, u64, Damage)> {
    let ((vfs, index), (condition, lock), (found, is_new)) = (on, known, what);
    found.history = journal_of(vfs, &found.meta, (is_new, lock.was_clean()))?;
    check_journal(index, (condition, lock), found)?;
    if let Some(history) = &found.history {
        found.redone = history.redo(vfs)?;
        keep_bytes(vfs, history, &found.redone, &mut found.opening)?;
    }
    let (facts, next_log, mut damage) = catch_up(vfs, index, (condition, Some(lock)), config, found)?;
    if found.history.is_none() && found.meta.has_journal() && !is_new && found.opening.index_rebuilt {
        // Nothing says which number comes next.
        return Err(lost());
    }
    note_damage((vfs, index), found, &mut damage)?;
    Ok((facts, next_log, damage))
}

/// Begins the journal anew: what the last one has is in the logs, durably, and in the index.
fn begin_journal(
    on: (&Arc<dyn Vfs>, &Arc<Index>),
    found: &Found,
    how: (bool, bool),
    config: &FileConfig,
) -> Result<(Meta, Journal, Arc<Files>)> {
    let ((vfs, index), (is_new, in_background)) = (on, how);
    let (former, is_lost) = (&found.meta, found.opening.lost_journal.is_some());
    let meta = if found.may_be_ahead || is_lost { former.next_incarnation() } else { former.clone() }.with_journal();
    if former.has_journal() && meta != *former {
        meta.save(&**vfs)?;
    }
    let next = match &found.history {
        // Above every number that lost batches had: documents have had revisions with these numbers.
        Some(history) if found.may_be_ahead => history.last() + 1 + MOST_LOST_BATCHES,
        Some(history) => history.last() + 1,
        // Above every number that a group may have.
        None if is_lost => (meta.incarnation() << 40) + 1,
        // One that was closed, and whose files are gone. The index knows its last batch.
        None if former.has_journal() && !is_new => last_batch(index)? + 1,
        None => 1,
    };
    let persist = persist(index);
    persist(next - 1).map_err(|source| error::io("index", source))?;
    let files = Arc::new(Files::new(Arc::clone(vfs), Open::Write, config.open_files));
    let journal = JournalConfig {
        root: meta.name(),
        incarnation: meta.incarnation(),
        next,
        durability: config.durability,
        half_bytes: config.journal_bytes / 2,
        in_background,
    };
    let journal = Journal::start(Arc::clone(vfs), Arc::clone(&files), journal, persist)?;
    if is_new || !former.has_journal() {
        // From here on the journal must be there.
        meta.save(&**vfs)?;
    }
    Ok((meta, journal, files))
}

/// Opens a root for reading, and writes nothing. If no process has the root open for writing, the caller has taken the
/// lock of the root, and passes it: then the journal may contain what the logs lack, and the index is as the last
/// holder left it. This function releases the lock after it has read both.
fn open_to_read(
    lock: Option<&Lock>,
    vfs: Arc<dyn Vfs>,
    config: FileConfig,
    index: impl FnOnce(&dyn Vfs) -> Result<(Index, Condition)>,
) -> Result<Arc<Shared>> {
    let meta = Meta::load(&*vfs)?.ok_or_else(no_root)?;
    let since = lock.filter(|lock| !lock.was_clean()).map(Lock::since_of_former);
    let history = match lock {
        Some(lock) => journal_of(&*vfs, &meta, (false, lock.was_clean()))?,
        None => None,
    };
    let visible = if lock.is_some() { None } else { Some(last_published(&*vfs)?) };
    let unclean = lock.is_some_and(|lock| !lock.was_clean());
    let appends = history.as_ref().map(History::appends).transpose()?.unwrap_or_default();
    let vfs: Arc<dyn Vfs> = if appends.is_empty() { vfs } else { Arc::new(Overlay::new(vfs, appends)) };
    let mut found = Found { history, visible, rewrite: false, ..Found::new(meta, unclean, since) };
    let (index, condition) = index(&*vfs)?;
    let index = Arc::new(index);
    lock.map_or(Ok(()), |lock| lock.close(false))?;
    let (_, next_log, damage) = catch_up(&*vfs, &index, (condition, lock), &config, &mut found)?;
    let files = Arc::new(Files::new(Arc::clone(&vfs), Open::Read, config.open_files));
    let follower = Some(Follower::behind(&*vfs, found.last_batch())?);
    let Found { meta, opening, .. } = found;
    let (lock, journal, cold) = (None, None, None);
    let parts = Parts { vfs, cold, meta, index, files, lock, journal, next_log, damage, opening, follower };
    Ok(Arc::new(Shared::new(parts, config)))
}

/// The first steps of a store that is open for writing. It records relaxed durability before a power cut can take
/// anything, and finishes what earlier openings left.
fn begin(shared: &Shared, facts: &Facts) -> Result<()> {
    let mut staged = Staged::new(&shared.index);
    staged.put(table::fact("store"), *shared.meta.key());
    shared.index.apply(&staged.into_changes())?;
    if position(&shared.index)?.is_none() || shared.config.durability != Durability::Sync {
        let session = shared.lock.as_ref().map_or(0, Lock::session);
        let tenant = TenantId::default_tenant();
        let key = (tenant, outbox_log_id()?, Part::Events);
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
    object_files::remove_uploads(&*shared.vfs)?;
    purge::what_can_be(shared, None)
}

/// The error of an opening: nothing was asked for yet that may have an effect.
fn refused(error: Error) -> Error {
    match error.outcome() {
        Outcome::NotApplied => error,
        Outcome::Unknown => Error::unavailable("the root cannot be written").with_source(error),
    }
}

/// Marks a store as closed.
pub(crate) fn mark_closed(shared: &Shared) {
    shared.closed.store(true, std::sync::atomic::Ordering::SeqCst);
    let tenants = std::mem::take(&mut *guard(&shared.tenants));
    tenants.values().for_each(|tenant| tenant.end_waits());
}

fn no_root() -> Error {
    Error::schema_mismatch("none", "a root created by agentstore", SchemaRemedy::Create)
}
