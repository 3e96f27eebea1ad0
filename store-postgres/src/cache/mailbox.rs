//! The cached records of the mailbox, and a view of the mailbox during decisions.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    DedupeKey, DispatchId, DispatchStatus, Result, ThreadId, Timestamp, length,
    mailbox::{
        DispatchBody, DispatchState, MailboxDecision, MailboxPlan, MailboxView, StoredDispatch, StoredInterrupt,
        StoredMailboxThread, queue_position,
    },
};

use super::{RecordCache, decode};
use crate::{
    columns::{read_i64, read_optional, read_text},
    db::{Connection, add, signed, unsigned},
    mailbox::{Search, Watermarks},
};

/// The maximum number of threads whose due dispatches one claim makes available. The SQL function `look_mailbox` has
/// the same limit.
const MAX_THREADS_MADE_READY: i64 = 1_000;

/// The records of the mailbox that a decision needs, and the threads to search for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MailboxLookup {
    pub(crate) threads: BTreeSet<ThreadId>,
    pub(crate) dispatches: BTreeSet<DispatchId>,
    pub(crate) keys: BTreeSet<(ThreadId, DedupeKey)>,
    pub(crate) interrupts: BTreeSet<(ThreadId, u64)>,
    /// The maximum number of threads with claimable dispatches to find.
    pub(crate) max_ready_threads: u32,
    /// The maximum number of threads with expired leases to find.
    pub(crate) max_expired_leases: u32,
    /// The parts of the mailbox that the search for these threads can skip.
    pub(crate) watermarks: Watermarks,
    /// Whether the decision may make claims, which need numbers.
    pub(crate) makes_claims: bool,
}

/// A claimed dispatch, and the mailbox of its thread.
#[derive(Debug, Clone)]
pub(crate) struct CachedClaim {
    /// The incarnation of the tenant's claim numbers.
    pub(crate) incarnation: u64,
    pub(crate) mailbox: StoredMailboxThread,
    pub(crate) dispatch: StoredDispatch,
}

/// The cached records. A record that is not in a map was not loaded. `None` means that it does not exist.
#[derive(Debug, Default)]
pub(crate) struct MailboxCache {
    /// The incarnation of the tenant's claim numbers.
    claim_incarnation: u64,
    /// Whether the records are from claims that this process made, and were not loaded.
    is_from_claims: bool,
    threads: HashMap<ThreadId, Option<StoredMailboxThread>>,
    dispatches: HashMap<DispatchId, Option<StoredDispatch>>,
    keys: HashMap<(ThreadId, DedupeKey), Option<DispatchId>>,
    interrupts: HashMap<(ThreadId, u64), Option<StoredInterrupt>>,
    /// The first available dispatch of each thread and epoch.
    first_available: HashMap<(ThreadId, u64), Option<DispatchId>>,
    /// The threads that were chosen for a claim, in the order of the claim.
    pub(crate) ready_threads: Vec<ThreadId>,
    /// The threads whose leases have expired.
    pub(crate) threads_with_expired_leases: Vec<ThreadId>,
    /// The search that found these threads.
    pub(crate) search: Option<Search>,
}

/// Loads missing records. With `locks_rows`, no other call can decide about them before the transaction ends.
pub(crate) async fn load_mailbox(
    connection: &mut Connection<'_>,
    cache: &mut RecordCache,
    lookup: MailboxLookup,
    locks_rows: bool,
) -> Result<()> {
    let arguments = lookup_arguments(cache, &lookup, locks_rows)?;
    let mut search = (lookup.max_ready_threads > 0).then(|| Search::new(&lookup.watermarks));
    let rows = connection.write(|sql| &sql.load_mailbox_records, arguments).await.map_err(|failed| failed.error)?;
    search.iter_mut().for_each(Search::end);
    let cached = &mut cache.mailbox;
    cached.threads.extend(lookup.threads.iter().map(|thread| (thread.clone(), None)));
    cached.dispatches.extend(lookup.dispatches.iter().map(|id| (id.clone(), None)));
    cached.keys.extend(lookup.keys.iter().map(|key| (key.clone(), None)));
    cached.interrupts.extend(lookup.interrupts.iter().map(|key| (key.clone(), None)));
    cached.search = search.or(cached.search.take());
    for row in &rows {
        cached.add_row(connection, &lookup, row)?;
    }
    Ok(())
}

impl MailboxCache {
    fn add_row(&mut self, connection: &Connection<'_>, lookup: &MailboxLookup, row: &PgRow) -> Result<()> {
        let kind = read_text(row, 0)?;
        // The kind of the row determines what this number is.
        let number = read_optional::<i64>(row, 1)?.unwrap_or_default();
        if kind == "clock" {
            connection.set_server_time(Duration::from_millis(unsigned(number)?));
            self.update_search(lookup, |search| search.clock = number.unsigned_abs());
            self.claim_incarnation = read_optional::<i64>(row, 3)?.map_or(Ok(0), unsigned)?;
            return Ok(());
        }
        if kind == "turned" {
            // The number of threads whose due dispatches were made available.
            self.update_search(lookup, |search| search.limit_reached.due = number >= MAX_THREADS_MADE_READY);
            return Ok(());
        }
        let id = read_text(row, 2)?;
        match kind.as_str() {
            "ready" => {
                self.ready_threads.push(id.parse()?);
                // A thread in a skipped part is found only if its row has `is_passed` set.
                let is_in_searched_part = read_text(row, 4)? == "its own";
                let found_count = self.ready_threads.len();
                let position = (u8::try_from(number).unwrap_or(u8::MAX), unsigned(read_i64(row, 3)?)?);
                self.update_search(lookup, |search| {
                    search.ready.extend(is_in_searched_part.then_some(position));
                    search.limit_reached.ready = length(found_count) >= u64::from(lookup.max_ready_threads);
                });
            }
            "lapsed" => {
                self.threads_with_expired_leases.push(id.parse()?);
                let found_count = self.threads_with_expired_leases.len();
                self.update_search(lookup, |search| {
                    search.limit_reached.leases = length(found_count) >= u64::from(lookup.max_expired_leases)
                });
            }
            "mailbox" => {
                let stored = decode::<StoredMailboxThread>("mailbox", &read_text(row, 4)?)?;
                let thread_and_epoch = (id.parse::<ThreadId>()?, stored.epoch);
                // Absent if the epoch has no record of an interrupt.
                let newest = read_optional::<String>(row, 5)?;
                let newest = newest.map(|text| decode::<StoredInterrupt>("interrupt", &text)).transpose()?;
                self.interrupts.insert(thread_and_epoch.clone(), newest);
                // A mailbox that was loaded earlier is kept, because other records may have been loaded together with
                // it. If it has changed since, the write is refused.
                self.threads.entry(thread_and_epoch.0.clone()).or_default().get_or_insert(stored);
                let first = self.add_dispatch(row, 6)?;
                self.first_available.insert(thread_and_epoch, first);
                self.add_dispatch(row, 8)?;
            }
            "dispatch" => _ = self.add_dispatch(row, 8)?,
            "key" => {
                let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
                let found = Some(id.parse()?);
                self.keys.extend(lookup.keys.iter().nth(index).map(|key| (key.clone(), found)));
            }
            "interrupt" => {
                let stored = decode::<StoredInterrupt>("interrupt", &read_text(row, 5)?)?;
                self.interrupts.insert((id.parse()?, unsigned(read_i64(row, 3)?)?), Some(stored));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns a cache that contains claims of this process. Other processes may have written to the mailbox since.
    pub(crate) fn from_claims(claimed: Vec<CachedClaim>) -> Self {
        let mut cached = Self { is_from_claims: !claimed.is_empty(), ..Self::default() };
        for CachedClaim { incarnation, mailbox, dispatch } in claimed {
            cached.claim_incarnation = incarnation;
            cached.threads.insert(dispatch.body.thread.clone(), Some(mailbox));
            cached.dispatches.insert(dispatch.id().clone(), Some(dispatch));
        }
        cached
    }

    /// Returns the incarnation of the claim numbers, if the records are from claims that this process made.
    pub(crate) fn incarnation_of_cached_claims(&self) -> Option<u64> {
        self.is_from_claims.then_some(self.claim_incarnation)
    }

    fn update_search(&mut self, lookup: &MailboxLookup, update: impl FnOnce(&mut Search)) {
        if let Some(search) = self.search.as_mut().filter(|_| lookup.max_ready_threads > 0) {
            update(search);
        }
    }

    /// Adds the dispatch whose body is in this column of a row and whose state is in the next one. Returns its id, or
    /// `None` if the columns are empty.
    fn add_dispatch(&mut self, row: &PgRow, body_column: usize) -> Result<Option<DispatchId>> {
        let (body, state) =
            (read_optional::<String>(row, body_column)?, read_optional::<String>(row, body_column + 1)?);
        let (Some(body), Some(state)) = (body, state) else {
            return Ok(None);
        };
        let body = Arc::new(decode::<DispatchBody>("dispatch", &body)?);
        let id = body.id.clone();
        let stored = StoredDispatch::new(body, decode::<DispatchState>("dispatch", &state)?);
        self.dispatches.insert(id.clone(), Some(stored));
        Ok(Some(id))
    }
}

fn lookup_arguments(cache: &RecordCache, lookup: &MailboxLookup, locks_rows: bool) -> Result<PgArguments> {
    let mut arguments = PgArguments::default();
    let to = &mut arguments;
    add(to, cache.constants.tenant.as_str())?;
    add(to, locks_rows)?;
    add(to, lookup.makes_claims)?;
    add(to, lookup.threads.iter().map(ThreadId::as_str).collect::<Vec<_>>())?;
    add(to, lookup.dispatches.iter().map(DispatchId::as_str).collect::<Vec<_>>())?;
    add(to, lookup.keys.iter().map(|(thread, _)| thread.as_str()).collect::<Vec<_>>())?;
    add(to, lookup.keys.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>())?;
    add(to, lookup.interrupts.iter().map(|(thread, _)| thread.as_str()).collect::<Vec<_>>())?;
    add(to, lookup.interrupts.iter().map(|(_, epoch)| signed(*epoch)).collect::<Result<Vec<_>>>()?)?;
    add(to, i32::try_from(lookup.max_ready_threads).unwrap_or(i32::MAX))?;
    add(to, i32::try_from(lookup.max_expired_leases).unwrap_or(i32::MAX))?;
    lookup.watermarks.add_to(to)?;
    Ok(arguments)
}

impl MailboxView for RecordCache {
    fn claim_incarnation(&self) -> u64 {
        self.mailbox.claim_incarnation
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        self.find(&self.mailbox.threads, thread, |lookup| _ = lookup.mailbox.threads.insert(thread.clone()))
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        if self.generated.contains(id.as_str()) {
            return Ok(None);
        }
        self.find(&self.mailbox.dispatches, id, |lookup| _ = lookup.mailbox.dispatches.insert(id.clone()))
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        let cache_key = (thread.clone(), key.clone());
        self.find(&self.mailbox.keys, &cache_key, |lookup| _ = lookup.mailbox.keys.insert(cache_key.clone()))
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, _now: Timestamp) -> Result<Option<DispatchId>> {
        let cache_key = (thread.clone(), epoch);
        match self.mailbox.first_available.get(&cache_key) {
            Some(first) => Ok(first.clone()),
            // The answer contains the first dispatch of the thread's current epoch only. In other epochs no dispatch is
            // available.
            None if self.mailbox.threads.contains_key(thread) => Ok(None),
            None => Err(self.note_missing(|lookup| _ = lookup.mailbox.threads.insert(thread.clone()))),
        }
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        let cache_key = (thread.clone(), epoch);
        self.find(&self.mailbox.interrupts, &cache_key, |lookup| {
            _ = lookup.mailbox.interrupts.insert(cache_key.clone())
        })
    }
}

/// The mailbox during decisions: the cached records, and the changes of the decisions made so far.
#[derive(Debug)]
pub(crate) struct MailboxDraft<'a> {
    pub(crate) cache: &'a RecordCache,
    changes: MailboxChanges,
    /// The last dispatch with each dedupe key, of the dispatches that these decisions queued.
    keys: BTreeMap<(ThreadId, DedupeKey), DispatchId>,
    /// The changed dispatches of each thread.
    changed_dispatches: HashMap<ThreadId, BTreeSet<DispatchId>>,
}

/// The changes to the mailbox.
#[derive(Debug, Default)]
pub(crate) struct MailboxChanges {
    /// The changed mailboxes of threads, each with its previous revision; 0 if there was none.
    pub(crate) threads: BTreeMap<ThreadId, (u64, StoredMailboxThread)>,
    pub(crate) dispatches: BTreeMap<DispatchId, DispatchChange>,
    pub(crate) interrupts: BTreeMap<(ThreadId, u64), Option<StoredInterrupt>>,
    /// The earliest time at which a claim may find dispatches of these changes.
    pub(crate) claimable_from: Option<Timestamp>,
}

/// A dispatch before and after all decisions. `None` means that it does not exist.
#[derive(Debug)]
pub(crate) struct DispatchChange {
    pub(crate) before: Option<StoredDispatch>,
    pub(crate) after: Option<StoredDispatch>,
}

impl MailboxChanges {
    /// Adds the changes of a plan.
    pub(crate) fn apply(&mut self, cache: &RecordCache, plan: MailboxPlan) -> Result<()> {
        self.claimable_from = [self.claimable_from, plan.claimable_from()].into_iter().flatten().min();
        let thread = plan.thread;
        let previous_revision = match self.threads.get(&thread) {
            Some((previous_revision, _)) => *previous_revision,
            None => MailboxView::mailbox(cache, &thread)?.map_or(0, |stored| stored.revision),
        };
        self.threads.insert(thread.clone(), (previous_revision, plan.mailbox));
        for stored in plan.dispatches {
            let (id, is_new) = (stored.id().clone(), stored.is_new());
            self.record_dispatch(cache, id, is_new, Some(stored))?;
        }
        if let Some(id) = plan.purged {
            self.record_dispatch(cache, id, false, None)?;
        }
        self.interrupts.extend(plan.interrupts.into_iter().map(|(epoch, stored)| ((thread.clone(), epoch), stored)));
        Ok(())
    }

    fn record_dispatch(
        &mut self,
        cache: &RecordCache,
        id: DispatchId,
        is_new: bool,
        after: Option<StoredDispatch>,
    ) -> Result<()> {
        if let Some(change) = self.dispatches.get_mut(&id) {
            change.after = after;
            return Ok(());
        }
        let before = if is_new { None } else { cache.dispatch(&id)? };
        self.dispatches.insert(id, DispatchChange { before, after });
        Ok(())
    }
}

impl<'a> MailboxDraft<'a> {
    pub(crate) fn new(cache: &'a RecordCache) -> Self {
        Self { cache, changes: MailboxChanges::default(), keys: BTreeMap::new(), changed_dispatches: HashMap::new() }
    }

    /// Makes one decision. The next decision sees its changes. The inner result is the answer for the caller. An outer
    /// error means that the decision could not be made, for example because a record is not in the cache.
    pub(crate) fn change<T>(&mut self, decide: impl FnOnce(&Self) -> Result<MailboxDecision<T>>) -> Result<Result<T>> {
        let change = decide(self)?;
        if let Some(plan) = change.plan {
            for stored in plan.dispatches.iter().filter(|stored| queue_position(stored).is_some()) {
                let key = stored.body.dedupe_key.clone().map(|key| (plan.thread.clone(), key));
                self.keys.extend(key.map(|key| (key, stored.id().clone())));
            }
            let ids = plan.dispatches.iter().map(|stored| stored.id().clone());
            self.changed_dispatches.entry(plan.thread.clone()).or_default().extend(ids);
            self.changes.apply(self.cache, *plan)?;
        }
        Ok(change.answer)
    }

    /// Returns the claims that these decisions made or changed, as they will be written.
    pub(crate) fn changed_claims(&self) -> Vec<CachedClaim> {
        let changed = self.changes.dispatches.values().filter_map(|change| change.after.as_ref());
        let claimed = changed.filter(|stored| stored.state.status == DispatchStatus::Claimed).filter_map(|stored| {
            let (_, mailbox) = self.changes.threads.get(&stored.body.thread)?;
            let incarnation = self.cache.mailbox.claim_incarnation;
            Some(CachedClaim { incarnation, mailbox: mailbox.clone(), dispatch: stored.clone() })
        });
        claimed.collect()
    }

    pub(crate) fn into_changes(self) -> MailboxChanges {
        self.changes
    }
}

impl MailboxView for MailboxDraft<'_> {
    fn claim_incarnation(&self) -> u64 {
        self.cache.claim_incarnation()
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        match self.changes.threads.get(thread) {
            Some((_, stored)) => Ok(Some(stored.clone())),
            None => MailboxView::mailbox(self.cache, thread),
        }
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        match self.changes.dispatches.get(id) {
            Some(change) => Ok(change.after.clone()),
            None => self.cache.dispatch(id),
        }
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        match self.keys.get(&(thread.clone(), key.clone())) {
            Some(id) => Ok(Some(id.clone())),
            None => self.cache.last_dispatch_with_key(thread, key),
        }
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        let claim_order = |stored: &StoredDispatch| {
            let at = queue_position(stored).filter(|at| at.epoch == epoch && at.due <= now)?;
            Some((at.priority, at.number, stored.id().clone()))
        };
        let after = |id: &DispatchId| self.changes.dispatches.get(id)?.after.as_ref();
        let mut first =
            self.changed_dispatches.get(thread).into_iter().flatten().filter_map(after).filter_map(claim_order).min();
        if let Some(id) = self.cache.first_available(thread, epoch, now)?
            && !self.changes.dispatches.contains_key(&id)
        {
            let stored = self.cache.dispatch(&id)?.filter(|it| it.state.status == DispatchStatus::Queued);
            let cached = stored.as_ref().and_then(claim_order);
            first = [first, cached].into_iter().flatten().min();
        }
        Ok(first.map(|(.., id)| id))
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        match self.changes.interrupts.get(&(thread.clone(), epoch)) {
            Some(stored) => Ok(stored.clone()),
            None => self.cache.interrupt(thread, epoch),
        }
    }
}
