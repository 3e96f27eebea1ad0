//! Rules for threads: creation, updates, parents and deletion.

use std::time::Duration;

use super::{
    ChildStrategy, DeleteRequest, NewThread, StoredThread, Thread, ThreadFields, ThreadFilter, ThreadIdRecord,
    ThreadOrder, ThreadPatch, ThreadQuery,
};
use crate::{
    codec::{Codec, Extra},
    error::{Error, Result},
    id::ThreadId,
    json::Json,
    limits::{Limits, check_limit, length},
    log::TokenCounts,
    mailbox::{self, MailboxView},
    page::encode_query_parts,
    pending::QueueState,
    thread::ParentFilter,
    time::Timestamp,
    version::{Expect, Version},
};

/// The time for which deleted ids are remembered (TH-25).
pub const DELETED_ID_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Returns the thread that `draft` describes, or the error with which it is refused (TH-1, TH-2, TH-24, TH-29).
///
/// This function does not check whether the parent exists; [`check_parent`] does. `time_and_incarnation` is store
/// time and the incarnation of the store.
///
/// # Errors
/// `AlreadyExists`; `Invalid` for a time later than store time; `LimitExceeded`.
pub fn create(
    stored: Option<&StoredThread>,
    id_record: &ThreadIdRecord,
    draft: &NewThread,
    limits: &Limits,
    time_and_incarnation: (Timestamp, u64),
) -> Result<StoredThread> {
    let (now, incarnation) = time_and_incarnation;
    check_fields(&draft.fields, limits)?;
    if draft.at.is_some_and(|at| at > now) {
        return Err(Error::invalid("at", "it is after the store's time"));
    }
    if stored.is_some() {
        return Err(Error::already_exists("thread", &draft.id));
    }
    let generation = id_record.generation + 1;
    let at = draft.at.unwrap_or(now);
    let ThreadFields { resource_id, parent_thread_id, title, metadata } = draft.fields.clone();
    let thread = Thread {
        id: draft.id.clone(),
        resource_id,
        parent_thread_id,
        title,
        metadata,
        created_at: at,
        updated_at: at,
        version: Version::new(0, generation, incarnation),
        revision: Version::new(1, generation, incarnation),
        head: None,
        latest_run: None,
        open_runs: Vec::new(),
        entry_times: None,
        leaves: 0,
        usage: TokenCounts::default(),
        state_revision: 0,
        extra: Extra::default(),
    };
    Ok(StoredThread {
        thread,
        head_seq: None,
        roots: 0,
        state_keys: 0,
        state_bytes: 0,
        queue: QueueState::default(),
        last_time: now,
        extra: Extra::default(),
    })
}

/// The effect of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadChange {
    /// Nothing changes (TH-5).
    Unchanged(StoredThread),
    /// The thread after the update.
    Changed(StoredThread),
}

/// Returns the thread after an update, or the error with which the update is refused (TH-4 to TH-8, TH-10, CM-32).
///
/// The order of the checks is: the thread exists; the claim is current; the revision is the expected one; the time and
/// the fields are valid; the parent is allowed.
///
/// The number of the claim is noted in the record of the thread's id. `fenced_mailbox` is the mailbox that the store
/// keeps with its threads, if it keeps one; only a patch with a fence needs it. `lineage` returns a thread and all its
/// ancestors, in the form that [`check_parent`] expects.
///
/// # Errors
/// `NotFound` for the thread or the parent, `ClaimLost`, `StaleEpoch`, `Conflict`, `LimitExceeded`, `Invalid`; any
/// error of the read.
pub fn update(
    request: (&ThreadId, &ThreadPatch, Expect),
    thread_and_id_record: (Option<StoredThread>, &mut ThreadIdRecord),
    fenced_mailbox: Option<&dyn MailboxView>,
    lineage: impl FnOnce(&ThreadId) -> Result<Vec<ThreadId>>,
    limits_and_time: (&Limits, Timestamp),
) -> Result<ThreadChange> {
    let ((id, patch, expect), (stored, id_record)) = (request, thread_and_id_record);
    let stored = stored.ok_or_else(|| Error::not_found("thread", id))?;
    if let (Some(fenced_mailbox), Some(fence)) = (fenced_mailbox, &patch.fence) {
        mailbox::check_claim(fenced_mailbox, id, fence)?;
    }
    id_record.check_and_record_claim(patch.fence.as_ref())?;
    expect.check("revision", Some(stored.thread.revision))?;
    let change = apply_patch(stored, patch, limits_and_time)?;
    if let Some(parent) = patch.new_parent() {
        check_parent(id, parent, &lineage(parent)?)?;
    }
    Ok(change)
}

fn apply_patch(
    mut stored: StoredThread,
    patch: &ThreadPatch,
    limits_and_time: (&Limits, Timestamp),
) -> Result<ThreadChange> {
    let (limits, now) = limits_and_time;
    let now = now.max(stored.last_time);
    if patch.at.is_some_and(|at| at > now) {
        return Err(Error::invalid("at", "it is after the store's time"));
    }
    let thread = &mut stored.thread;
    let stored_fields = ThreadFields {
        resource_id: thread.resource_id.clone(),
        parent_thread_id: thread.parent_thread_id.clone(),
        title: thread.title.clone(),
        metadata: thread.metadata.clone(),
    };
    let mut fields = stored_fields.clone();
    patch.apply(&mut fields);
    check_fields(&fields, limits)?;
    if fields == stored_fields {
        return Ok(ThreadChange::Unchanged(stored));
    }
    thread.resource_id = fields.resource_id;
    thread.parent_thread_id = fields.parent_thread_id;
    thread.title = fields.title;
    thread.metadata = fields.metadata;
    thread.revision = thread.revision.plus(1);
    thread.updated_at = thread.updated_at.max(patch.at.unwrap_or(now));
    stored.last_time = now;
    Ok(ThreadChange::Changed(stored))
}

/// Refuses a title or metadata above the limits.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_fields(fields: &ThreadFields, limits: &Limits) -> Result<()> {
    if let Some(title) = &fields.title {
        check_limit("title bytes", length(title.len()), limits.text_bytes)?;
    }
    if !fields.metadata.is_empty() {
        // A lower bound is checked first, so that metadata that is far too large is refused before it is encoded.
        let min_bytes = fields.metadata.iter().map(|(key, value)| length(key.len() + value.as_str().len())).sum();
        check_limit("metadata bytes", min_bytes, limits.metadata_bytes)?;
        check_limit("metadata bytes", length(fields.metadata.encode().len()), limits.metadata_bytes)?;
    }
    Ok(())
}

/// Refuses a patch that sets a title or metadata above the limits, whatever the thread has.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_patch(patch: &ThreadPatch, limits: &Limits) -> Result<()> {
    let mut fields = ThreadFields::default();
    patch.apply(&mut fields);
    check_fields(&fields, limits)
}

/// Checks whether `parent` may become the parent of `thread` (TH-10, TH-11, TH-30).
///
/// `lineage` is the parent and all its ancestors, nearest first. It is empty if the parent does not exist.
///
/// # Errors
/// `NotFound`, which names the parent; `Invalid` if `thread` would become its own ancestor.
pub fn check_parent(thread: &ThreadId, parent: &ThreadId, lineage: &[ThreadId]) -> Result<()> {
    if thread == parent || lineage.contains(thread) {
        return Err(Error::invalid("parent_thread_id", "the thread would become its own ancestor"));
    }
    if lineage.is_empty() {
        return Err(Error::not_found("parent thread", parent));
    }
    Ok(())
}

/// Checks whether a thread may be deleted (TH-17, TH-19, TH-22).
///
/// `counts` is the number of its direct children, and the number of all threads that the deletion changes, including
/// the thread itself.
///
/// # Errors
/// `NotFound`, `Conflict`, `HasChildren`, `LimitExceeded`.
pub(super) fn check_deletion(
    id: &ThreadId,
    stored: Option<&StoredThread>,
    request: DeleteRequest,
    counts: (u64, u64),
    limits: &Limits,
) -> Result<()> {
    let (child_count, changed_threads) = counts;
    let stored = stored.ok_or_else(|| Error::not_found("thread", id))?;
    request.expect.check("version", Some(stored.thread.version))?;
    if request.children == ChildStrategy::Reject && child_count > 0 {
        return Err(Error::new(crate::error::Detail::HasChildren { count: child_count }));
    }
    check_limit("threads changed by a deletion", changed_threads, limits.deletion_threads)
}

/// Returns the record of a thread's id after the thread is deleted (TH-23, TH-25).
///
/// The time of the deletion is never before the last write, even if the clock went back. The id is therefore not
/// forgotten too early (PR-22).
#[must_use]
pub fn id_record_after_deletion(id_record: &ThreadIdRecord, stored: &StoredThread, now: Timestamp) -> ThreadIdRecord {
    ThreadIdRecord { deleted_at: Some(now.max(stored.last_time)), ..id_record.clone() }
}

/// Returns the record of a child after it lost its parent (TH-18).
#[must_use]
pub fn detach(mut child: StoredThread, now: Timestamp) -> StoredThread {
    let now = now.max(child.last_time);
    child.thread.parent_thread_id = None;
    child.thread.revision = child.thread.revision.plus(1);
    child.thread.updated_at = child.thread.updated_at.max(now);
    child.last_time = now;
    child
}

/// Returns whether a thread was not written to for the given time, and has no open run and no pending input (TH-26).
/// Its children are not considered.
///
/// Idle time is measured from the store time of the last write, not from the time that an import gives to a thread.
#[must_use]
pub(super) fn is_unused(stored: &StoredThread, idle: Duration, now: Timestamp) -> bool {
    let last_written = stored.last_time.max(stored.thread.updated_at);
    stored.thread.open_runs.is_empty() && stored.queue.count == 0 && last_written < now.saturating_sub(idle)
}

/// Returns whether the record of a deleted id need no longer be kept (TH-25).
#[must_use]
pub fn can_be_forgotten(id_record: &ThreadIdRecord, now: Timestamp) -> bool {
    id_record.deleted_at.is_some_and(|at| at < now.saturating_sub(DELETED_ID_RETENTION))
}

impl ThreadIdRecord {
    /// Checks that no later claim has written to the thread, and notes the number of this claim (CM-32).
    ///
    /// # Errors
    /// `StaleEpoch` if a later claim has already written.
    pub fn check_and_record_claim(&mut self, fence: Option<&crate::claim::Fence>) -> Result<()> {
        let Some(fence) = fence else { return Ok(()) };
        if let Some(highest) = self.fence.filter(|highest| *highest > fence.claim) {
            return Err(Error::new(crate::error::Detail::StaleEpoch {
                expected: fence.claim.to_string(),
                actual: highest.to_string(),
            }));
        }
        self.fence = Some(fence.claim);
        Ok(())
    }
}

impl ThreadFilter {
    /// Returns whether `thread` passes the filter (TH-13, TH-14, PG-9).
    #[must_use]
    pub fn admits(&self, thread: &Thread) -> bool {
        let parent = thread.parent_thread_id.as_ref();
        (self.resource_id.is_none() || self.resource_id == thread.resource_id)
            && self.parent.as_ref().is_none_or(|filter| match filter {
                ParentFilter::Root => parent.is_none(),
                ParentFilter::Of(id) => parent == Some(id),
            })
            && self.has_open_runs.is_none_or(|has_open_runs| has_open_runs != thread.open_runs.is_empty())
            && self.created_before.is_none_or(|time| thread.created_at < time)
            && self.created_after.is_none_or(|time| thread.created_at >= time)
            && self.active_before.is_none_or(|time| thread.updated_at < time)
            && self.active_after.is_none_or(|time| thread.updated_at >= time)
            && self.metadata.iter().all(|(key, value)| thread.metadata.get(key) == Some(value))
    }
}

impl ThreadQuery {
    /// Returns the query without its page, as text.
    ///
    /// A cursor of the list is bound to this text (PG-6).
    #[must_use]
    pub fn cursor_binding(&self) -> String {
        let filter = &self.filter;
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let metadata = |(key, value): &(String, Json)| {
            encode_query_parts(&[("key", Some(key.clone())), ("is", Some(value.to_string()))])
        };
        encode_query_parts(&[
            ("resource_id", filter.resource_id.as_ref().map(ToString::to_string)),
            ("root", matches!(filter.parent, Some(ParentFilter::Root)).then(String::new)),
            (
                "parent",
                match &filter.parent {
                    Some(ParentFilter::Of(parent)) => Some(parent.to_string()),
                    Some(ParentFilter::Root) | None => None,
                },
            ),
            ("has_open_runs", filter.has_open_runs.map(|has_open_runs| has_open_runs.to_string())),
            ("created_before", time(filter.created_before)),
            ("created_after", time(filter.created_after)),
            ("active_before", time(filter.active_before)),
            ("active_after", time(filter.active_after)),
            ("metadata", (!filter.metadata.is_empty()).then(|| filter.metadata.iter().map(metadata).collect())),
            ("creation", (self.order == ThreadOrder::Creation).then(String::new)),
            ("direction", self.direction.cursor_binding()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{DELETED_ID_RETENTION, ThreadChange, can_be_forgotten, check_parent, create, is_unused, update};
    use crate::{
        ClaimNumber, ClaimToken, Direction, DispatchId, ErrorKind, Expect, Fence, Json, Limits, NewThread,
        ParentFilter, ResourceId, ThreadFilter, ThreadId, ThreadOrder, ThreadPatch, ThreadQuery, Timestamp, Version,
        thread::{StoredThread, ThreadIdRecord},
    };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn id(text: &str) -> ThreadId {
        ThreadId::new(text).unwrap()
    }

    /// Creates the thread `t`, whose id was last used in generation `last_generation` (0 if it was never used).
    fn new_thread(last_generation: u64) -> StoredThread {
        let id_record = ThreadIdRecord { generation: last_generation, ..ThreadIdRecord::default() };
        create(None, &id_record, &NewThread::new(id("t")), &Limits::default(), (at(10), 0)).unwrap()
    }

    #[test]
    fn a_recreated_thread_is_one_generation_higher() {
        assert_eq!(new_thread(0).thread.version, Version::new(0, 1, 0));
        assert_eq!(new_thread(3).thread.version, Version::new(0, 4, 0));
    }

    fn try_update(patch: &ThreadPatch, expect: Expect) -> Result<ThreadChange, ErrorKind> {
        let (request, mut id_record) = ((&id("t"), patch, expect), ThreadIdRecord::default());
        let thread_and_id_record = (Some(new_thread(0)), &mut id_record);
        update(request, thread_and_id_record, None, |_| Ok(Vec::new()), (&Limits::default(), at(5)))
            .map_err(|e| e.kind())
    }

    #[test]
    fn an_update_without_effect_raises_no_revision() {
        let ThreadChange::Unchanged(unchanged_thread) = try_update(&ThreadPatch::default(), Expect::Any).unwrap()
        else {
            panic!("changed")
        };
        assert_eq!(unchanged_thread, new_thread(0));
    }

    #[test]
    fn an_update_raises_the_revision_and_never_turns_time_back() {
        let patch = ThreadPatch::default().with_title("x").with_metadata("k", Json::null());
        let ThreadChange::Changed(changed_thread) = try_update(&patch, Expect::Version(Version::new(1, 1, 0))).unwrap()
        else {
            panic!("unchanged")
        };
        assert_eq!((changed_thread.thread.revision.number(), changed_thread.thread.version.number()), (2, 0));
        assert_eq!(changed_thread.thread.updated_at, at(10));
        assert_eq!(try_update(&patch, Expect::Absent).unwrap_err(), ErrorKind::Conflict);
        assert_eq!(try_update(&patch, Expect::Version(Version::new(2, 1, 0))).unwrap_err(), ErrorKind::Conflict);
        let long_title = ThreadPatch::default().with_title("x".repeat(1025));
        assert_eq!(try_update(&long_title, Expect::Any).unwrap_err(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn an_update_checks_its_claim_before_the_revision_and_its_parent_last() {
        let refusal_kind = |claim, expect| {
            let number = |counter| ClaimNumber { incarnation: 1, counter };
            let mut id_record = ThreadIdRecord { fence: Some(number(7)), ..ThreadIdRecord::default() };
            let dispatch = DispatchId::new("d").unwrap();
            let fence = Fence::new(dispatch, ClaimToken::new("token"), 0, number(claim));
            let patch = ThreadPatch { fence: Some(fence), ..ThreadPatch::default().with_parent(Some(id("p"))) };
            let request = (&id("t"), &patch, expect);
            let thread_and_id_record = (Some(new_thread(0)), &mut id_record);
            update(request, thread_and_id_record, None, |_| Ok(Vec::new()), (&Limits::default(), at(5)))
                .unwrap_err()
                .kind()
        };
        assert_eq!(refusal_kind(6, Expect::Absent), ErrorKind::StaleEpoch);
        assert_eq!(refusal_kind(7, Expect::Absent), ErrorKind::Conflict);
        assert_eq!(refusal_kind(7, Expect::Any), ErrorKind::NotFound);
    }

    #[test]
    fn no_thread_becomes_its_own_ancestor() {
        let check_lineage = |lineage: &[ThreadId]| check_parent(&id("t"), &id("p"), lineage).map_err(|e| e.kind());
        assert_eq!(check_lineage(&[id("p"), id("g")]), Ok(()));
        assert_eq!(check_lineage(&[id("p"), id("t")]), Err(ErrorKind::Invalid));
        assert_eq!(check_lineage(&[]), Err(ErrorKind::NotFound));
        assert_eq!(check_parent(&id("t"), &id("t"), &[]).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_thread_is_unused_after_the_idle_time_has_passed() {
        let mut thread = new_thread(0);
        let idle = std::time::Duration::from_millis(5);
        assert!(!is_unused(&thread, idle, at(15)));
        assert!(is_unused(&thread, idle, at(16)));
        thread.last_time = at(12);
        assert!(!is_unused(&thread, idle, at(16)));
    }

    #[test]
    fn a_deleted_id_is_remembered_for_thirty_days_th_25() {
        let now = at(100).saturating_add(DELETED_ID_RETENTION);
        let is_forgotten =
            |deleted_at| can_be_forgotten(&ThreadIdRecord { deleted_at, ..ThreadIdRecord::default() }, now);
        assert!(!is_forgotten(None) && !is_forgotten(Some(at(100))) && is_forgotten(Some(at(99))));
    }

    #[test]
    fn a_thread_filter_admits_only_matching_threads_th_14() {
        let mut thread = new_thread(0).thread;
        thread.resource_id = ResourceId::new("r").ok();
        let admits = |change: &dyn Fn(&mut ThreadFilter)| {
            let mut filter = ThreadFilter::default();
            change(&mut filter);
            filter.admits(&thread)
        };
        assert!(admits(&|_| {}));
        assert!(admits(&|filter| filter.resource_id = ResourceId::new("r").ok()));
        assert!(!admits(&|filter| filter.resource_id = ResourceId::new("s").ok()));
        for (time, is_later) in [(at(10), false), (at(11), true)] {
            assert_eq!(admits(&|filter| filter.created_before = Some(time)), is_later);
            assert_eq!(admits(&|filter| filter.active_before = Some(time)), is_later);
            assert_eq!(admits(&|filter| filter.created_after = Some(time)), !is_later);
            assert_eq!(admits(&|filter| filter.active_after = Some(time)), !is_later);
        }
        assert!(admits(&|filter| filter.parent = Some(ParentFilter::Root)));
        assert!(!admits(&|filter| filter.parent = Some(ParentFilter::Of(id("p")))));
        assert!(!admits(&|filter| filter.has_open_runs = Some(true)));
        assert!(!admits(&|filter| filter.metadata = vec![("k".to_owned(), Json::null())]));
    }

    #[test]
    fn a_cursor_is_bound_to_the_whole_query_pg_6() {
        let changes: [&dyn Fn(&mut ThreadQuery); 14] = [
            &|_| {},
            &|query| query.filter.resource_id = ResourceId::new("r").ok(),
            &|query| query.filter.parent = Some(ParentFilter::Root),
            &|query| query.filter.parent = Some(ParentFilter::Of(id("p"))),
            &|query| query.filter.parent = Some(ParentFilter::Of(id("q"))),
            &|query| query.filter.has_open_runs = Some(false),
            &|query| query.filter.created_before = Some(at(1)),
            &|query| query.filter.created_after = Some(at(1)),
            &|query| query.filter.active_before = Some(at(1)),
            &|query| query.filter.active_after = Some(at(1)),
            &|query| query.filter.metadata = vec![("k".to_owned(), Json::null())],
            &|query| query.filter.metadata = vec![("l".to_owned(), Json::null())],
            &|query| query.order = ThreadOrder::Creation,
            &|query| query.direction = Direction::Forward,
        ];
        let bindings = changes.map(|change| {
            let mut query = ThreadQuery::default();
            change(&mut query);
            query.cursor_binding()
        });
        assert_eq!(BTreeSet::from(bindings).len(), changes.len());
    }
}
