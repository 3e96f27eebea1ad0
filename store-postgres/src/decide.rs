//! Making a decision. A rule of core decides by the records in the cache, and missing records are loaded. The result is
//! written if the records have not changed since. In the ordinary case only the write goes to the server.

use std::{sync::Arc, time::Instant};

use store_core::{
    Error, Result, ThreadId,
    commit::{DecisionContext, Plan},
    event::EventPlan,
    pending::QueuePlan,
    thread::{StoredThread, ThreadIdRecord},
};

use crate::{
    cache::{self, CachedClaim, DecisionIds, Lookup, MailboxCache, MailboxLookup, OutboxLookup, RecordCache},
    db::Connection,
    tenant::Tenant,
    write::{Batch, WriteResult},
};

/// The maximum number of times that a decision is repeated because of concurrent writes.
pub(crate) const MAX_ROUNDS: usize = 64;
/// The maximum number of times that it is repeated because of new events in its scopes. A scope changes with every
/// event in it, so this happens more often.
const MAX_SCOPE_ROUNDS: usize = 1_000;
/// The maximum number of times that a write is tried again after a deadlock or a conflict of transactions (PO-12).
const MAX_TRIES: usize = 5;

/// The result of a rule.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is destructured at once")]
pub(crate) enum RuleResult<T> {
    /// The answer. There is nothing to write.
    Answer(T),
    /// A batch to be written before the answer is returned.
    Write { batch: Batch, cache_update: CacheUpdate, answer: T },
}

/// How the cached records of the thread change with the write.
#[derive(Debug)]
pub(crate) enum CacheUpdate {
    Commit(Box<Plan>),
    /// A change of the pending input.
    Queue(Box<QueuePlan>),
    /// The thread, if it exists, and the record of its id after the write.
    Thread(Option<Box<StoredThread>>, ThreadIdRecord),
    /// An append of events. An append under a claim also changes the record of the thread's id.
    Events(Box<EventPlan>, Option<ThreadIdRecord>),
    Nothing,
}

/// Makes a decision about a thread. `likely_records` lists the records that the rule most likely needs. They are loaded
/// together with the thread.
pub(crate) async fn decide<T: Send>(
    tenant: &Tenant,
    id: &ThreadId,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync,
) -> Result<T> {
    let thread_cache = tenant.thread_cache(id);
    let mut cache = thread_cache.lock().await;
    let mut decision_loop = DecisionLoop::new(tenant, tenant.db().any_connection(), likely_records);
    let answer = decision_loop.run(&mut cache, &rule).await;
    if answer.is_err() {
        // The cached records may be older than a write whose outcome is unknown.
        cache.clear();
    }
    decision_loop.end(answer).await
}

/// Makes a decision about records that belong to no thread. Locks the records, so that no other call decides about them
/// at the same time. If the rule returns no answer, its changes are written and the rule runs again in the same
/// transaction.
#[expect(clippy::disallowed_methods, reason = "a call that has used up its time is not tried again")]
pub(crate) async fn decide_locked<T: Send>(
    tenant: &Tenant,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<Option<T>>> + Send + Sync,
) -> Result<T> {
    let (mut tries, began) = (0, Instant::now());
    loop {
        tries += 1;
        let connection = tenant.db().begin_transaction().await?;
        let mut decision_loop =
            DecisionLoop { locks_rows: true, ..DecisionLoop::new(tenant, connection, likely_records.clone()) };
        let answer = loop {
            let mut cache = RecordCache::new(Arc::clone(&tenant.constants), None);
            match decision_loop.run(&mut cache, &rule).await {
                Ok(None) => {}
                Ok(Some(answer)) => break Ok(answer),
                Err(error) => break Err(error),
            }
        };
        let has_time = tries < MAX_TRIES && began.elapsed() < tenant.shared.config.answer_timeout;
        let should_retry = has_time && answer.as_ref().is_err_and(Error::is_retryable);
        let answer = decision_loop.end(answer).await;
        if !should_retry {
            return answer;
        }
    }
}

/// Makes a decision about records that belong to no thread, without locks.
pub(crate) async fn decide_without_thread<T: Send>(
    tenant: &Tenant,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync,
) -> Result<T> {
    decide_with_claims(tenant, Vec::new(), likely_records, rule).await
}

/// Makes a decision about documents that belong to no thread, or to a thread to which the decision does not write.
/// First assumes that they are as the rule expects. The server checks that when it writes. If it is wrong, the records
/// are loaded and the rule decides again.
pub(crate) async fn decide_with_assumptions<T: Send>(
    tenant: &Tenant,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync,
) -> Result<T> {
    let mut cache = RecordCache::new(Arc::clone(&tenant.constants), None);
    let connection = tenant.db().any_connection();
    let mut decision_loop =
        DecisionLoop { makes_assumptions: true, ..DecisionLoop::new(tenant, connection, likely_records) };
    let answer = decision_loop.run(&mut cache, &rule).await;
    decision_loop.end(answer).await
}

/// Makes a decision about claims, without locks. `claims` are those that this process has cached. Others are loaded.
pub(crate) async fn decide_with_claims<T: Send>(
    tenant: &Tenant,
    claims: Vec<CachedClaim>,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync,
) -> Result<T> {
    let mut cache = RecordCache::new(Arc::clone(&tenant.constants), None);
    cache.mailbox = MailboxCache::from_claims(claims);
    let mut decision_loop = DecisionLoop::new(tenant, tenant.db().any_connection(), likely_records);
    let answer = decision_loop.run(&mut cache, &rule).await;
    decision_loop.end(answer).await
}

/// Makes a decision about a thread while no other call changes parents or deletes threads of the tenant (PR-12).
pub(crate) async fn decide_in_family<T: Send>(
    tenant: &Tenant,
    id: &ThreadId,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync,
) -> Result<T> {
    let thread_cache = tenant.thread_cache(id);
    let mut cache = thread_cache.lock().await;
    cache.clear();
    let connection = tenant.db().begin_family_transaction(&tenant.constants.tenant).await?;
    let mut decision_loop = DecisionLoop::new(tenant, connection, likely_records);
    let answer = decision_loop.run(&mut cache, &rule).await;
    let answer = decision_loop.end(answer).await;
    if answer.is_err() {
        cache.clear();
    }
    answer
}

/// Makes a decision about a thread in a transaction of the caller. It uses only records that this transaction sees.
/// Other calls do not get these records from the cache, because the transaction may be rolled back.
pub(crate) async fn decide_in_caller_transaction<T: Send>(
    tenant: &Tenant,
    id: &ThreadId,
    connection: Connection<'_>,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync,
) -> Result<T> {
    let mut cache = RecordCache::new(Arc::clone(&tenant.constants), Some(id.clone()));
    DecisionLoop::new(tenant, connection, likely_records).run(&mut cache, &rule).await
}

/// Runs a rule over what is stored now of a thread, and writes nothing. The rule gives an answer.
pub(crate) async fn read_by_rule<T: Send>(
    tenant: &Tenant,
    id: &ThreadId,
    likely_records: Lookup,
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync,
) -> Result<T> {
    let mut cache = RecordCache::new(Arc::clone(&tenant.constants), Some(id.clone()));
    DecisionLoop::new(tenant, tenant.db().any_connection(), likely_records).run(&mut cache, &rule).await
}

/// Makes a decision in a transaction that goes on, and returns its connection and what was written. The caller ends the
/// transaction, and then notifies others of what was written.
pub(crate) async fn write_in_transaction<'a>(
    tenant: &'a Tenant,
    id: Option<&ThreadId>,
    (connection, likely_records): (Connection<'a>, Lookup),
    rule: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<()>> + Send + Sync,
) -> (Connection<'a>, Result<Vec<Arc<Batch>>>) {
    let mut cache = RecordCache::new(Arc::clone(&tenant.constants), id.cloned());
    let mut decision_loop = DecisionLoop::new(tenant, connection, likely_records);
    let answer = decision_loop.run(&mut cache, &rule).await;
    if let Some(id) = id {
        // The records in the cache of this process are older.
        tenant.remove_cached(id);
    }
    let DecisionLoop { connection, written_batches, .. } = decision_loop;
    (connection, answer.map(|()| written_batches))
}

/// Makes a batch in a transaction that goes on. Returns its connection and the batch, which is not written.
pub(crate) async fn batch_in_transaction<'a>(
    tenant: &'a Tenant,
    id: &ThreadId,
    (connection, likely_records): (Connection<'a>, Lookup),
    rule: impl Fn(&RecordCache) -> Result<Batch> + Send + Sync,
) -> (Connection<'a>, Result<Batch>) {
    let mut cache = RecordCache::new(Arc::clone(&tenant.constants), Some(id.clone()));
    let mut decision_loop = DecisionLoop::new(tenant, connection, likely_records);
    let batch = decision_loop.run(&mut cache, &|cache, _| Ok(RuleResult::Answer(rule(cache)?))).await;
    (decision_loop.connection, batch)
}

/// Writes a batch in a transaction that goes on. Returns whether it was written: if not, other callers have changed
/// what it was made from.
pub(crate) async fn write_batch_in_transaction(
    tenant: &Tenant,
    connection: &mut Connection<'_>,
    batch: &Arc<Batch>,
) -> Result<bool> {
    for _ in 0..MAX_ROUNDS {
        match batch.write(connection, tenant, tenant.db().clock.decision_time()?).await {
            Ok(WriteResult::Done(_)) => return Ok(true),
            // The answer has set the clock.
            Ok(WriteResult::ClockDiffers) => {}
            Ok(_) => return Ok(false),
            Err(failed) => return Err(failed.error),
        }
    }
    Err(Error::unavailable("the time of the server keeps changing"))
}

/// Runs a rule again and again until its result is written or needs no write. Loads the records that the rule misses.
struct DecisionLoop<'a> {
    tenant: &'a Tenant,
    connection: Connection<'a>,
    likely_records: Lookup,
    /// Whether the records of `likely_records` were loaded.
    has_loaded_likely_records: bool,
    /// Whether loaded rows are locked until the transaction ends.
    locks_rows: bool,
    /// Whether an empty cache need not be filled first.
    makes_assumptions: bool,
    written_batches: Vec<Arc<Batch>>,
}

impl<'a> DecisionLoop<'a> {
    const fn new(tenant: &'a Tenant, connection: Connection<'a>, likely_records: Lookup) -> Self {
        Self {
            tenant,
            connection,
            likely_records,
            has_loaded_likely_records: false,
            locks_rows: false,
            makes_assumptions: false,
            written_batches: Vec::new(),
        }
    }

    async fn run<T: Send>(
        &mut self,
        cache: &mut RecordCache,
        rule: &(impl Fn(&RecordCache, DecisionContext<'_>) -> Result<RuleResult<T>> + Send + Sync),
    ) -> Result<T> {
        cache.begin_decision();
        let (mut tries, mut rounds, mut scope_rounds) = (0, 0, 0);
        loop {
            // An empty cache is filled first. Claims from the cache of this process suffice for a first try.
            let is_empty =
                cache.row.is_none() && !cache.is_fresh && cache.mailbox.incarnation_of_cached_claims().is_none();
            if is_empty && !self.makes_assumptions {
                self.reload(cache).await?;
            }
            cache.begin_rule();
            let ids = DecisionIds { generated: &Arc::clone(&cache.generated), source: &*self.tenant.shared.config.ids };
            let decision_time = self.tenant.db().clock.decision_time()?;
            let rule_result =
                rule(cache, DecisionContext::new(decision_time.now, &self.tenant.shared.config.limits, &ids));
            if let Some(missing) = cache.take_missing() {
                self.load_missing(cache, missing).await?;
                continue;
            }
            // An answer or a refusal is returned only if none of the records on which it is based may be outdated.
            let (batch, cache_update, answer) = match rule_result {
                Ok(RuleResult::Write { batch, answer, .. }) if batch.is_empty() && cache.is_certain() => {
                    return Ok(answer);
                }
                // The server has no constraint against an input that has the id of an entry. So the write would succeed
                // even if an entry that was assumed to be absent exists.
                Ok(RuleResult::Write { cache_update: CacheUpdate::Queue(_), .. }) if cache.has_assumed_absence() => {
                    self.start_over(cache);
                    continue;
                }
                Ok(RuleResult::Write { batch, cache_update, answer }) => (batch, cache_update, answer),
                Ok(RuleResult::Answer(_)) | Err(_) if !cache.is_certain() => {
                    self.start_over(cache);
                    continue;
                }
                Ok(RuleResult::Answer(answer)) => return Ok(answer),
                Err(error) => return Err(error),
            };
            let batch = Arc::new(batch);
            match batch.write(&mut self.connection, self.tenant, decision_time).await {
                Ok(WriteResult::Done(threads)) => {
                    let (stamp, log) = threads.first().copied().unwrap_or_default();
                    cache.apply_write((stamp, log), cache_update);
                    self.written_batches.push(batch);
                    return Ok(answer);
                }
                Ok(WriteResult::Stale(mut rows, keys)) if rounds < MAX_ROUNDS => {
                    rounds += 1;
                    self.has_loaded_likely_records = false;
                    match rows.pop() {
                        Some(row) => cache.replace_row(row, keys),
                        None => self.start_over(cache),
                    }
                }
                Ok(WriteResult::StaleScopes(scopes)) if scope_rounds < MAX_SCOPE_ROUNDS => {
                    scope_rounds += 1;
                    cache.replace_scopes(scopes);
                }
                Ok(WriteResult::OtherRowsChanged) if rounds < MAX_ROUNDS => {
                    rounds += 1;
                    self.start_over(cache);
                }
                Ok(WriteResult::ClockDiffers) if rounds < MAX_ROUNDS => rounds += 1,
                Ok(_) => return Err(Error::unavailable("other callers kept writing to the same records")),
                Err(failed) if !self.connection.can_continue_after(&failed) => return Err(failed.error),
                // A record that was assumed to be absent exists.
                Err(failed) if failed.violates_unique_key && !cache.is_certain() => self.start_over(cache),
                Err(failed) if (failed.violates_unique_key || failed.is_transient) && tries < MAX_TRIES => {
                    tries += 1;
                    self.start_over(cache);
                }
                Err(failed) => return Err(failed.error),
            }
        }
    }

    /// Empties the cache, so that all records are loaded before the rule decides again.
    fn start_over(&mut self, cache: &mut RecordCache) {
        self.makes_assumptions = false;
        cache.clear();
    }

    /// Ends the transaction: commits it, or rolls it back if there is an error. Subscribers and workers are notified
    /// afterwards, but not of writes in a transaction of the caller, because it is unknown when that transaction ends.
    async fn end<T: Send>(self, answer: Result<T>) -> Result<T> {
        let should_notify = answer.is_ok() && !self.connection.belongs_to_caller();
        let end_result = self.connection.finish(answer.is_ok()).await;
        for batch in self.written_batches.iter().filter(|_| should_notify) {
            self.tenant.notify_subscribers(batch.scopes_written());
            self.tenant.notify_workers(batch.claimable_from());
        }
        end_result.and(answer)
    }

    async fn reload(&mut self, cache: &mut RecordCache) -> Result<()> {
        cache.clear();
        cache.is_fresh = true;
        self.has_loaded_likely_records = true;
        let is_of_thread = cache.id.is_some();
        let lookup = Lookup { thread: is_of_thread, head: is_of_thread, ..self.likely_records.clone() };
        self.load(cache, lookup).await
    }

    /// Loads missing records. A rule stops at the first record that is missing. The first time, nothing is loaded here:
    /// the likely records are noted and the rule runs again, so that they and the missing record are loaded together.
    async fn load_missing(&mut self, cache: &mut RecordCache, missing: Lookup) -> Result<()> {
        if self.has_loaded_likely_records {
            return self.load(cache, missing).await;
        }
        self.has_loaded_likely_records = true;
        cache.note_lookup(self.likely_records.clone());
        Ok(())
    }

    async fn load(&mut self, cache: &mut RecordCache, mut lookup: Lookup) -> Result<()> {
        let (outbox, mailbox) = (std::mem::take(&mut lookup.outbox), std::mem::take(&mut lookup.mailbox));
        let has_other_lookups = outbox != OutboxLookup::default() || mailbox != MailboxLookup::default();
        if lookup != Lookup::default() || !has_other_lookups {
            cache::load_records(&mut self.connection, cache, lookup).await?;
        }
        if outbox != OutboxLookup::default() {
            cache::load_outbox(&mut self.connection, cache, outbox, self.locks_rows).await?;
        }
        if mailbox != MailboxLookup::default() {
            cache::load_mailbox(&mut self.connection, cache, mailbox, self.locks_rows).await?;
        }
        Ok(())
    }
}
