//! A round: what is planned and not written yet, over any number of logs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::Ordering,
};

use store_core::{Error, Result, Scope, TenantId, Timestamp, commit::DecisionContext};

use super::mailbox::OpenGroup;
use crate::{
    codec::Rows,
    error,
    fold::{self, Lines, Owner, Told},
    journal::LogName,
    line::{CommitLine, Line, ThreadHeader},
    log::add_checksum,
    names::{LogKey, Part, log_path},
    remembered::{Loaded, Remembered},
    shared::Shared,
    staged::Staged,
    tails::{Tail, Tails},
    vfs::{FilePath, Open, Vfs},
    view::View,
};

/// What a round may use, if there is little space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Only the space that is free, without the reserve.
    AsAsked,
    /// The reserve, so that work can be ended on a full disk (FI-7).
    Settles,
    /// The reserve, for a change that frees space or is needed to free space.
    Frees,
}

/// Whether the round works on a log, and whether that log has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entered {
    /// No log is entered.
    No,
    /// The log got no group since it was entered.
    Unchanged,
    /// The log got a group since it was entered.
    Changed,
}

/// A log that the round worked on before.
#[derive(Debug, Default)]
struct Parked {
    before: Told,
    told: Told,
    log: Option<u64>,
}

/// What is planned and not written yet. A round works on one log at a time: see [`Round::enter`].
pub(crate) struct Round<'a> {
    pub(crate) shared: &'a Shared,
    pub(super) remembered: &'a mut Remembered,
    pub(crate) staged: Staged<'a>,
    pub(super) tails: Tails,
    /// The log that is worked on.
    pub(super) key: LogKey,
    entered: Entered,
    /// The thread as its rows in `staged` say.
    pub(super) before: Told,
    /// The thread with the groups of this round, too. `leave` writes the difference to `staged`.
    pub(super) told: Told,
    pub(super) log: Option<u64>,
    /// Logs that were worked on before.
    parked: HashMap<LogKey, Parked>,
    /// The number of the batch that the round becomes, as soon as it is known: after the first group or fact, or from
    /// the beginning if another round is being committed.
    pub(super) number: Option<u64>,
    /// Logs that the batch removes.
    pub(super) dropped: Vec<LogName>,
    /// Bytes that take the place of others: the log, the offset and the bytes.
    pub(super) overwritten: Vec<(LogName, u64, Vec<u8>)>,
    /// The group that a call of the mailbox is making.
    pub(super) open: OpenGroup,
    /// By tenant, the time from which claims may find what the round brings.
    claimable: BTreeMap<TenantId, Timestamp>,
    pub(crate) how: How,
    /// Whether the round is durable before it shows, also in a store with relaxed durability.
    pub(super) is_durable: bool,
    /// Something failed in the middle of a change: nothing of the round is written.
    pub(super) broken: bool,
    /// The revision of the documents that a request puts, and how many requests of the round have put some.
    pub(super) revision: u64,
    pub(super) document_writes: u64,
    /// Whether the log of a collection is to be rewritten.
    pub(super) rewrite_due: bool,
    /// By tenant, the last numbers that topics give.
    pub(super) numbers: BTreeMap<TenantId, BTreeMap<Scope, u64>>,
    _poison: PoisonOnPanic<'a>,
}

/// Poisons the store if the thread that holds it panics, because it is unknown how much was written. A plan writes,
/// too: the journal may change halves in `next_batch`, and the index gets rows in `show_alone`. A panic of a rule
/// cannot be told from these, so it also poisons the store.
pub(super) struct PoisonOnPanic<'a>(pub(super) &'a Shared);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison();
        }
    }
}

/// Refuses a path at which there is a file with content. The index does not know that file, so something is damaged.
/// The file stays as it is.
fn check_free(vfs: &dyn Vfs, path: &FilePath) -> Result<()> {
    let len = match vfs.open(path, Open::Read) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.and_then(|file| file.len()).map_err(|source| error::io(path, source))?,
    };
    if len == 0 { Ok(()) } else { Err(error::corrupt(path, Some(0))) }
}

impl<'a> Round<'a> {
    /// A round without changes. No log is entered yet; until then nothing reads `key`.
    pub(super) fn new(shared: &'a Shared, remembered: &'a mut Remembered, key: LogKey) -> Self {
        let previous = remembered.previous();
        let recent = std::mem::take(&mut remembered.recent);
        let number = previous.as_ref().map(|previous| previous.number + 1);
        Self {
            shared,
            remembered,
            staged: Staged::with_recent(&shared.index, recent, previous.clone()),
            tails: Tails::after(previous),
            number,
            key,
            entered: Entered::No,
            before: Told::default(),
            told: Told::default(),
            log: None,
            parked: HashMap::new(),
            dropped: Vec::new(),
            overwritten: Vec::new(),
            open: OpenGroup::default(),
            claimable: BTreeMap::new(),
            how: How::AsAsked,
            is_durable: false,
            broken: false,
            revision: 0,
            document_writes: 0,
            rewrite_due: false,
            numbers: BTreeMap::new(),
            _poison: PoisonOnPanic(shared),
        }
    }

    pub(super) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether nothing waits to be written.
    pub(super) fn is_clean(&self) -> bool {
        self.tails.len() == 0 && self.dropped.is_empty() && self.overwritten.is_empty()
    }

    /// By tenant, the time from which claims may find something.
    pub(super) fn claimable(&mut self) -> BTreeMap<TenantId, Timestamp> {
        std::mem::take(&mut self.claimable)
    }

    /// Notes the time from which a claim may find something.
    pub(super) fn brings(&mut self, claimable_from: Option<Timestamp>) {
        if let Some(from) = claimable_from {
            let first = self.claimable.entry(self.key.0.clone()).or_insert(from);
            *first = from.min(*first);
        }
    }

    /// Goes on with another log. The lines of the log before are in `staged` already. [`Self::leave`] adds the row of
    /// its thread, the record of its id, and how far the index covers it.
    pub(crate) fn enter(&mut self, key: LogKey) -> Result<()> {
        if self.entered != Entered::No && self.key == key {
            return Ok(());
        }
        let next = match self.parked.remove(&key) {
            Some(parked) => parked,
            None => self.load(&key)?,
        };
        self.leave();
        let Parked { before, told, log } = next;
        (self.key, self.before, self.told, self.log) = (key, before, told, log);
        self.entered = Entered::Unchanged;
        Ok(())
    }

    /// Leaves the log. If it got groups, its thread, the record of its id and its end are put into `staged`.
    pub(super) fn leave(&mut self) {
        let entered = std::mem::replace(&mut self.entered, Entered::No);
        if entered == Entered::No {
            return;
        }
        let (mut before, told) = (std::mem::take(&mut self.before), std::mem::take(&mut self.told));
        if let (Entered::Changed, Some(log)) = (entered, self.log)
            && let Some(tail) = self.tails.get(log)
        {
            let (tenant, thread, part) = self.key.clone();
            let owner = Owner { tenant, thread, generation: part.generation(told.generation()), log };
            fold::finish(&mut self.staged, &owner, (&before, &told), tail.end());
            before = told.clone();
        }
        let parked = Parked { before, told, log: self.log };
        self.parked.insert(self.key.clone(), parked);
    }

    /// Loads a log that the end of the round writes to. If it is damaged, the request is refused that needs it.
    pub(super) fn load_ahead(&mut self, key: LogKey) -> Result<()> {
        if self.parked.contains_key(&key) {
            return Ok(());
        }
        let parked = self.load(&key)?;
        if parked.log.is_none() {
            check_free(&*self.shared.vfs, &log_path(&key.0, &key.1, 0)?)?;
        }
        self.parked.insert(key, parked);
        Ok(())
    }

    /// Loads a log. A log that is not remembered comes from the index, and its file is compared with what the index
    /// knows.
    fn load(&mut self, key: &LogKey) -> Result<Parked> {
        let (tenant, thread, part) = key;
        if let Some(Loaded { told, name, end }) = self.remembered.get(key) {
            self.shared.check_damage(tenant, thread)?;
            let log = Some(name.number);
            self.tails.insert_once(name, *end);
            return Ok(Parked { before: told.clone(), told: told.clone(), log });
        }
        let (told, log) = match part {
            Part::Events => {
                self.shared.check_damage(tenant, thread)?;
                (Told::default(), self.staged.event_log(tenant, thread)?)
            }
            Part::Thread => {
                let row = self.shared.thread_row(&self.staged, tenant, thread)?;
                let id = self.staged.id_record(tenant, thread, row.as_ref().map(|row| &row.stored))?;
                let log = row.as_ref().map(|row| row.log);
                (Told { stored: row.map(|row| row.stored), id }, log)
            }
        };
        if let Some(log) = log {
            let row = self.staged.log_row(log)?.ok_or_else(|| crate::codec::damaged("log"))?;
            let (_, path) = self.shared.open_log(log)?;
            self.tails.insert_once(&LogName { number: log, path }, row.end);
        }
        Ok(Parked { before: told.clone(), told, log })
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            shared: self.shared,
            staged: &self.staged,
            tails: &self.tails,
            tenant: &self.key.0,
            told: &self.told,
            log: self.log,
            revision: self.revision,
        }
    }

    pub(super) fn setting(&self, now: Timestamp) -> DecisionContext<'a> {
        DecisionContext::new(now, &self.shared.limits, &*self.shared.config.ids)
    }

    /// Adds a group to the log, and works it into the rows that later requests of the round are judged by.
    pub(super) fn group(
        &mut self,
        generation: u64,
        lines: Vec<Line>,
        texts: &[String],
        commit: CommitLine,
    ) -> Result<()> {
        let numbers = self.new_numbers(&lines)?;
        let owner = self.owner(generation)?;
        let batch = self.next_batch()?;
        let tail = self.tails.get_mut(owner.log).ok_or_else(Error::closed)?;
        let placed = tail.push(batch, texts, &commit.encode())?;
        self.entered = Entered::Changed;
        let lines = lines.into_iter().zip(placed.lines).collect();
        let group = Lines { lines, commit, commit_span: placed.commit, end: placed.end };
        let folded = fold::fold(&mut self.staged, &owner, &mut self.told, &group);
        self.broken |= folded.is_err();
        if !numbers.is_empty() {
            self.numbers.entry(owner.tenant).or_default().extend(numbers);
        }
        folded
    }

    /// The number of the batch that the round becomes. It may change if the journal changes halves before the commit;
    /// then the round is planned again.
    pub(super) fn next_batch(&mut self) -> Result<u64> {
        let next = match self.number {
            Some(number) => number,
            None => self.shared.next_batch()?,
        };
        self.number = Some(next);
        Ok(next)
    }

    /// The owner of the log. A thread without a log gets one here.
    pub(super) fn owner(&mut self, generation: u64) -> Result<Owner> {
        let (tenant, thread, _) = self.key.clone();
        if let Some(log) = self.log {
            return Ok(Owner { tenant, thread, generation, log });
        }
        let path = log_path(&tenant, &thread, generation)?;
        check_free(&*self.shared.vfs, &path)?;
        let header = ThreadHeader { tenant, thread, generation, at: self.shared.time.now() };
        let log = self.shared.next_log.fetch_add(1, Ordering::SeqCst);
        self.tails.insert(Tail::made(LogName { number: log, path }, add_checksum(&header.encode())?));
        self.log = Some(log);
        Ok(Owner { tenant: header.tenant, thread: header.thread, generation, log })
    }

    /// Removes a log with the batch.
    pub(crate) fn drop_log(&mut self, name: LogName) {
        self.dropped.push(name);
    }

    /// Writes bytes over others of a log, with the batch.
    pub(crate) fn overwrite(&mut self, name: LogName, offset: u64, bytes: Vec<u8>) {
        self.overwritten.push((name, offset, bytes));
    }

    /// The logs that have new groups, as they are after the commit.
    pub(super) fn written(&mut self) -> HashMap<LogKey, Loaded> {
        let tails = &self.tails;
        let parked = std::mem::take(&mut self.parked).into_iter();
        let written = parked.filter_map(|(key, Parked { told, log, .. })| {
            let tail = tails.get(log?).filter(|tail| tail.has_groups())?;
            Some((key, Loaded { told, name: tail.name.clone(), end: tail.end() }))
        });
        written.collect()
    }

    /// Forgets what belongs to a tenant.
    pub(crate) fn forget_tenant(&mut self, tenant: &TenantId) {
        self.remembered.forget_tenant(tenant);
    }

    /// Forgets a log, which is changed or removed by something else than its groups.
    pub(crate) fn forget(&mut self, key: &LogKey) {
        self.remembered.forget(key);
    }
}
