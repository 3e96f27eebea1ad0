//! Tests of deltas, their JSON and their overlay.

use std::{cell::Cell, sync::Arc};

use super::{
    ApplyStep, Delta, DeltaKeys, Overlay, OverlayView, ReadDelta, StoreConstants, ThreadDeletion, UnreadStore,
    join_deltas, keys_of_commit, keys_of_deletion,
};
use crate::{
    AgentId, AppendEvents, Commit, CommitKey, DocumentChange, DocumentKey, EventKind, Expect, IdSource, Json,
    KeySegment, LaneId, Limits, Message, NewEntry, NewEvent, NewOutboxRow, OutboxTarget, RunChange, RunId, RunOutcome,
    RunStatus, Scope, StateChange, ThreadId, Timestamp,
    codec::Codec,
    commit::{CommitDecision, CommitKeyRecord, CommitView, DecisionContext, LogView, Plan, plan},
    document::{DocumentRef, DocumentState, DocumentView},
    error::{Error, Result},
    event::{EventKeyRecord, EventView, ScopeState, StoredEvent},
    id::{EntryId, EventId, EventKey, OutboxId, TenantId, WriterId},
    log::{EntryMarks, MarkSource, Node, NodeSource},
    mailbox::MailboxView,
    outbox::{OutboxList, OutboxPosition, OutboxView, StoredOutboxRow},
    page::CursorKey,
    pending::{DecisionRecord, StoredInput},
    run::Run,
    thread::{StoredThread, ThreadIdRecord},
};

/// A store without any record.
struct Empty {
    tenant: TenantId,
    key: CursorKey,
}

impl Empty {
    fn new() -> Self {
        Self { tenant: TenantId::default_tenant(), key: CursorKey::new([0; 32]) }
    }
}

macro_rules! knows_nothing {
    ($($trait:ident { $($method:ident($($argument:ty),*) -> $result:ty;)* })*) => {$(
        impl $trait for Empty {
            $(knows_nothing!(@method $method($($argument),*) -> $result);)*
        }
    )*};
    (@method $method:ident($a:ty) -> $result:ty) => {
        fn $method(&self, _: $a) -> Result<$result> { Ok(Default::default()) }
    };
    (@method $method:ident($a:ty, $b:ty) -> $result:ty) => {
        fn $method(&self, _: $a, _: $b) -> Result<$result> { Ok(Default::default()) }
    };
}

knows_nothing! {
    MarkSource { marks(u64) -> EntryMarks; }
    OutboxView {
        row(&OutboxId) -> Option<StoredOutboxRow>;
        next(&OutboxList, Option<&OutboxPosition>) -> Option<OutboxPosition>;
        last(&OutboxList) -> Option<OutboxPosition>;
    }
}

impl NodeSource for Empty {
    fn node(&self, seq: u64) -> Result<Node> {
        Err(Error::corrupt(format!("entry {seq}")))
    }
}

impl LogView for Empty {
    fn entry(&self, _: &EntryId) -> Result<Option<u64>> {
        Ok(None)
    }
    fn entry_id(&self, seq: u64) -> Result<EntryId> {
        Err(Error::corrupt(format!("entry {seq}")))
    }
    fn snapshot(&self, _: &str) -> Result<Option<u64>> {
        Ok(None)
    }
}

impl DocumentView for Empty {
    fn document(&self, _: &DocumentRef) -> Result<Option<DocumentState>> {
        Ok(None)
    }
    fn next_document_revision(&self) -> Result<u64> {
        Ok(7)
    }
}

impl EventView for Empty {
    fn scope(&self, _: &Scope) -> Result<ScopeState> {
        Ok(ScopeState::default())
    }
    fn event_key(&self, _: &WriterId, _: &EventKey) -> Result<Option<EventKeyRecord>> {
        Ok(None)
    }
    fn event(&self, _: &EventId) -> Result<Option<StoredEvent>> {
        Ok(None)
    }
    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        (&self.tenant, &self.key)
    }
}

impl CommitView for Empty {
    fn incarnation(&self) -> u64 {
        0
    }
    fn fenced_mailbox(&self) -> Option<&dyn MailboxView> {
        None
    }
    fn id_record(&self) -> Result<ThreadIdRecord> {
        Ok(ThreadIdRecord::default())
    }
    fn thread(&self) -> Result<Option<StoredThread>> {
        Ok(None)
    }
    fn key(&self, _: &CommitKey) -> Result<Option<CommitKeyRecord>> {
        Ok(None)
    }
    fn thread_exists(&self, _: &ThreadId) -> Result<bool> {
        Ok(false)
    }
    fn run(&self, _: &RunId) -> Result<Option<Run>> {
        Ok(None)
    }
    fn state(&self, _: &str) -> Result<Option<Json>> {
        Ok(None)
    }
    fn pending(&self, _: &EntryId) -> Result<Option<StoredInput>> {
        Ok(None)
    }
    fn decision(&self, _: &RunId, _: &str) -> Result<Option<DecisionRecord>> {
        Ok(None)
    }
    fn queue(&self) -> Result<Vec<EntryId>> {
        Ok(Vec::new())
    }
}

/// Ids that count up.
#[derive(Debug, Default)]
struct Counting(std::sync::atomic::AtomicU64);

impl IdSource for Counting {
    fn next_id(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }
}

fn thread() -> ThreadId {
    ThreadId::new("t").unwrap()
}

/// A buffer over an empty store that never applies anything.
struct Buffer {
    overlay: Overlay,
    ids: Arc<Counting>,
    at: Cell<u64>,
}

impl Buffer {
    fn new() -> Self {
        Self { overlay: Overlay::default(), ids: Arc::default(), at: Cell::new(0) }
    }

    fn decide(&self, commit: &Commit) -> Result<CommitDecision> {
        let (empty, limits) = (Empty::new(), Limits::default());
        let context = DecisionContext::new(Timestamp::from_millis(5).unwrap(), &limits, &*self.ids);
        plan(&OverlayView::new(&self.overlay, &empty, &commit.thread), commit, context)
    }

    fn plan(&self, commit: &Commit) -> Plan {
        match self.decide(commit).unwrap() {
            CommitDecision::Write(plan) => *plan,
            CommitDecision::Repeat(receipt) => panic!("{receipt:?}"),
        }
    }

    fn add(&mut self, delta: &Delta) -> u64 {
        self.at.set(self.at.get() + 1);
        self.overlay.add(self.at.get(), delta);
        self.at.get()
    }
}

fn commit_with_everything(key: &str) -> Commit {
    let run = RunChange::new(RunId::new("r").unwrap(), RunStatus::Running).with_agent(AgentId::new("a").unwrap());
    let event = NewEvent::new(EventKind::new("k").unwrap(), [Scope::Thread(thread())]);
    let row = NewOutboxRow::new(LaneId::new("l").unwrap(), OutboxTarget::new("o").unwrap(), Json::null())
        .with_dedupe_key("once".parse().unwrap())
        .with_order_key("group".parse().unwrap());
    let document = DocumentKey::new("c".parse().unwrap(), [KeySegment::Number(1)]).unwrap();
    Commit::new(thread())
        .with_key(CommitKey::new(key).unwrap())
        .entry(NewEntry::new(Message::user("hello")))
        .entry(NewEntry::new(Message::assistant("hi")))
        .with_run(run)
        .with_state(StateChange::new().set("a", Json::null()).set("b", Json::parse("1.0").unwrap()))
        .with_events(AppendEvents::new([event]))
        .with_outbox([row])
        .with_documents([DocumentChange::put(document, Json::parse("2").unwrap())])
}

/// Tests NB-1.
#[test]
fn a_delta_is_read_back_as_it_was_written() {
    let buffer = Buffer::new();
    let delta = Delta::of_commit(buffer.plan(&commit_with_everything("k")));
    assert_eq!(Delta::read(&delta.encode()).unwrap(), delta);
    let mut deletion = ThreadDeletion::new(Timestamp::MIN);
    deletion.deleted.push((thread(), ThreadIdRecord::default()));
    let deletion = Delta::Deletion(deletion);
    assert_eq!(Delta::read(&deletion.encode()).unwrap(), deletion);
}

/// Tests NB-3.
#[test]
fn the_next_decision_sees_every_record_of_a_delta_that_is_not_applied() {
    let mut buffer = Buffer::new();
    let first = buffer.plan(&commit_with_everything("k"));
    let _at = buffer.add(&Delta::of_commit(first.clone()));
    let CommitDecision::Repeat(receipt) = buffer.decide(&commit_with_everything("k")).unwrap() else { panic!() };
    assert_eq!(receipt.entry_ids, first.receipt.entry_ids);
    let stale = Commit::new(thread()).expecting(Expect::Absent).entry(NewEntry::new(Message::user("x")));
    assert_eq!(buffer.decide(&stale).unwrap_err().kind(), crate::ErrorKind::Conflict);
    let next = Commit::new(thread()).expecting(Expect::Version(first.receipt.version));
    let next = buffer.plan(&next.entry(NewEntry::new(Message::user("more"))));
    assert_eq!(next.receipt.first_seq, Some(3));
    assert_eq!(next.entries[0].entry.parent, first.receipt.head);
}

/// Tests NB-4.
#[test]
fn an_applied_delta_leaves_nothing_and_later_records_stay() {
    let mut buffer = Buffer::new();
    // The thread exists in the store behind, so the overlay has only what the deltas wrote.
    let plan = buffer.plan(&commit_with_everything("k"));
    let first = Delta::of_commit(Plan { creates_thread: false, ..plan });
    let first_at = buffer.add(&first);
    let second = Commit::new(thread()).with_state(StateChange::new().set("a", Json::parse("2").unwrap()));
    let second = Delta::of_commit(buffer.plan(&second));
    let second_at = buffer.add(&second);
    assert_eq!(buffer.overlay.remove(first_at, &first), []);
    assert_eq!(buffer.overlay.newest_of_thread(&thread()), second_at);
    let (empty, id) = (Empty::new(), thread());
    let view = OverlayView::new(&buffer.overlay, &empty, &id);
    assert_eq!(view.state("a").unwrap(), Some(Json::parse("2").unwrap()));
    assert_eq!(view.state("b").unwrap(), None);
    assert_eq!(buffer.overlay.remove(second_at, &second), []);
    assert!(buffer.overlay.is_empty());
    assert_eq!(buffer.overlay.newest_of_thread(&thread()), 0);
}

/// Tests NB-3 and NB-6: what a delta created stays known after it was applied, until it is forgotten.
#[test]
fn a_whole_thread_is_kept_and_forgotten() {
    let mut buffer = Buffer::new();
    let first = buffer.plan(&commit_with_everything("k"));
    let (delta, version) = (Delta::of_commit(first.clone()), first.receipt.version);
    let first_at = buffer.add(&delta);
    assert!(buffer.overlay.hides_stored(&thread()));
    assert_eq!(buffer.overlay.remove(first_at, &delta), [thread()]);
    assert!(buffer.overlay.is_whole(&thread()) && !buffer.overlay.hides_stored(&thread()));
    assert!(buffer.overlay.kept() > 0);
    // The commit is still known by its key, and its entries by their ids. The rest is in the store behind.
    let (tenant, constants) = (TenantId::default_tenant(), constants());
    let unread = UnreadStore::new(&tenant, &constants);
    let (id, known_key) = (thread(), CommitKey::new("k").unwrap());
    let view = OverlayView::new(&buffer.overlay, &unread, &id);
    assert_eq!(view.entry(&first.receipt.entry_ids[1]).unwrap(), Some(2));
    assert_eq!(view.key(&CommitKey::new("other").unwrap()).unwrap(), None);
    assert!(!unread.was_asked());
    assert!(view.key(&known_key).is_err() && unread.was_asked());
    assert!(buffer.overlay.entry(&thread(), &first.receipt.entry_ids[0]).is_none());
    let next = Commit::new(thread()).expecting(Expect::Version(version)).entry(NewEntry::new(Message::user("more")));
    let next = buffer.plan(&next);
    assert_eq!(next.entries[0].entry.parent, first.receipt.head);
    // With a delta that waits, only that is left after it is forgotten.
    let second = Delta::of_commit(next);
    let second_at = buffer.add(&second);
    buffer.overlay.forget(&thread(), first_at, first_at);
    assert!(!buffer.overlay.is_whole(&thread()));
    assert_eq!((buffer.overlay.kept(), buffer.overlay.newest_of_thread(&thread())), (0, second_at));
    assert_eq!(buffer.overlay.entries(&thread()).map(|(seq, _)| seq).collect::<Vec<_>>(), [3]);
    assert_eq!(buffer.overlay.remove(second_at, &second), []);
    assert!(buffer.overlay.is_empty());
}

fn constants() -> StoreConstants {
    StoreConstants { incarnation: 0, cursor_key: CursorKey::new([0; 32]), limits: Limits::default() }
}

/// Tests NB-6: the thousandth commit to a thread needs the store behind as little as the first, and the node keeps
/// little of the others.
#[test]
fn a_long_thread_is_decided_without_the_store_behind() {
    let mut buffer = Buffer::new();
    let (tenant, constants) = (TenantId::default_tenant(), constants());
    for number in 0..1_000 {
        let commit = commit_to("t", &number.to_string());
        let unread = UnreadStore::new(&tenant, &constants);
        let delta = if number == 0 {
            Delta::of_commit(buffer.plan(&commit))
        } else {
            let context = DecisionContext::new(Timestamp::from_millis(5).unwrap(), &constants.limits, &*buffer.ids);
            match plan(&OverlayView::new(&buffer.overlay, &unread, &commit.thread), &commit, context).unwrap() {
                CommitDecision::Write(plan) => Delta::of_commit(*plan),
                CommitDecision::Repeat(receipt) => panic!("{receipt:?}"),
            }
        };
        assert!(!unread.was_asked(), "commit {number}");
        let at = buffer.add(&delta);
        assert_eq!(buffer.overlay.remove(at, &delta), [thread()]);
    }
    assert!(buffer.overlay.kept() < 1_000 * 600, "{}", buffer.overlay.kept());
    let id = thread();
    let unread = UnreadStore::new(&tenant, &constants);
    let view = OverlayView::new(&buffer.overlay, &unread, &id);
    assert!(view.node(500).is_err() && unread.was_asked(), "an older entry is in the store behind");
}

/// Tests NB-3: a delta that another node applied before this one read it is not in the overlay.
#[test]
fn a_thread_that_was_changed_unseen_is_forgotten() {
    let mut buffer = Buffer::new();
    let first = Delta::of_commit(buffer.plan(&commit_with_everything("k")));
    let first_at = buffer.add(&first);
    assert_eq!(buffer.overlay.remove(first_at, &first), [thread()]);
    let unseen = Commit::new(thread()).with_state(StateChange::new().set("a", Json::parse("2").unwrap()));
    let unseen = Delta::of_commit(buffer.plan(&unseen));
    buffer.overlay.forget_changed(&unseen, first_at + 1);
    assert!(!buffer.overlay.is_whole(&thread()));
    assert!(buffer.overlay.is_empty());
}

/// Tests NB-9: nothing of a tenant is kept after its deletion.
#[test]
fn a_deletion_of_the_tenant_ends_what_is_kept() {
    let mut buffer = Buffer::new();
    let first = Delta::of_commit(buffer.plan(&commit_with_everything("k")));
    let first_at = buffer.add(&first);
    let deletion_at = buffer.add(&Delta::TenantDeletion);
    assert_eq!(buffer.overlay.remove(first_at, &first), [thread()]);
    assert_eq!(buffer.overlay.remove(deletion_at, &Delta::TenantDeletion), []);
    assert!(buffer.overlay.is_empty());
    assert_eq!(buffer.overlay.kept(), 0);
}

/// Tests NB-9.
#[test]
fn a_deletion_hides_what_is_stored_and_what_was_buffered() {
    let mut buffer = Buffer::new();
    let plan = buffer.plan(&commit_with_everything("k"));
    let (id_record, stored) = (plan.id_record.clone(), plan.thread.clone().unwrap());
    let _at = buffer.add(&Delta::of_commit(plan));
    let mut deletion = ThreadDeletion::new(Timestamp::MIN);
    deletion.deleted.push((thread(), crate::thread::id_record_after_deletion(&id_record, &stored, deletion.at)));
    let _at = buffer.add(&Delta::Deletion(deletion));
    assert_eq!(buffer.overlay.thread(&thread()), Some(None));
    let late = Commit::new(thread()).expecting(Expect::Version(stored.thread.version));
    let late = late.entry(NewEntry::new(Message::user("late")));
    assert_eq!(buffer.decide(&late).unwrap_err().kind(), crate::ErrorKind::NotFound);
    let anew = Commit::new(thread()).expecting(Expect::Absent).entry(NewEntry::new(Message::user("anew")));
    let anew = buffer.plan(&anew);
    assert_eq!((anew.receipt.version.generation(), anew.receipt.first_seq), (2, Some(1)));
}

/// Tests NB-4.
#[test]
fn keys_name_what_a_commit_reads_and_writes() {
    let buffer = Buffer::new();
    let commit = commit_with_everything("k");
    let DeltaKeys { reads, writes } = keys_of_commit(&commit, &buffer.plan(&commit));
    let kinds =
        |keys: &std::collections::BTreeSet<String>| keys.iter().map(|key| key[..1].to_owned()).collect::<String>();
    assert_eq!((kinds(&reads).as_str(), kinds(&writes).as_str()), ("", "dgqrstx"));
    let mut deletion = ThreadDeletion::new(Timestamp::MIN);
    deletion.deleted.push((thread(), ThreadIdRecord::default()));
    assert_eq!(kinds(&keys_of_deletion(&deletion).writes), "ctx");
}

/// Decides commits one after another, and returns them as a store behind the buffer gets them.
fn read_deltas(commits: impl IntoIterator<Item = Commit>) -> Vec<ReadDelta> {
    let mut buffer = Buffer::new();
    let read = commits.into_iter().map(|commit| {
        let delta = Delta::of_commit(buffer.plan(&commit));
        ReadDelta::new(buffer.add(&delta), TenantId::default_tenant(), Arc::new(delta))
    });
    read.collect()
}

fn commit_to(thread: &str, key: &str) -> Commit {
    Commit::new(ThreadId::new(thread).unwrap())
        .with_key(CommitKey::new(key).unwrap())
        .entry(NewEntry::new(Message::user(key)))
}

/// Tests NB-4.
#[test]
fn plans_of_one_thread_are_joined_into_their_last_records() {
    let run = |status| RunChange::new(RunId::new("r").unwrap(), status).with_agent(AgentId::new("a").unwrap());
    let event = || NewEvent::new(EventKind::new("k").unwrap(), [Scope::Thread(thread())]);
    let set = |key, value| StateChange::new().set(key, Json::parse(value).unwrap());
    let deltas = read_deltas([
        commit_to("t", "1")
            .with_run(run(RunStatus::Running))
            .with_state(set("gone", "1"))
            .with_events(AppendEvents::new([event()])),
        commit_to("other", "2"),
        commit_to("t", "3")
            .with_state(StateChange { clear: true, ..set("a", "1") })
            .with_events(AppendEvents::new([event()])),
        commit_to("t", "4").with_run(run(RunStatus::done(RunOutcome::NaturalEnd))).with_state(set("b", "2")),
    ]);
    let steps = join_deltas(&deltas);
    let [ApplyStep::Plans(plans)] = &steps[..] else { panic!("{steps:?}") };
    let [joined, other] = &plans[..] else { panic!("{plans:?}") };
    let Delta::Thread(last) = &*deltas[3].delta else { panic!() };
    assert_eq!(joined.plan.thread, last.thread);
    assert!(joined.plan.creates_thread);
    assert_eq!(joined.plan.entries.iter().map(|planned| planned.node.seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(joined.plan.runs, last.runs);
    assert_eq!(joined.plan.events.as_ref().map(|events| events.events.len()), Some(2));
    let scopes = joined.plan.events.iter().flat_map(|events| events.scopes.values());
    assert_eq!(scopes.map(|scope| scope.count).collect::<Vec<_>>(), [2]);
    assert!(joined.plan.state.clear);
    assert_eq!(joined.plan.state.values.keys().collect::<Vec<_>>(), ["a", "b"]);
    let keys = joined.earlier_keys.iter().chain(&joined.plan.key).map(|record| record.key.as_str());
    assert_eq!(keys.collect::<Vec<_>>(), ["1", "3", "4"]);
    assert_eq!((&other.plan.receipt.thread.to_string(), other.earlier_keys.len()), (&"other".to_owned(), 0));
}

/// Tests NB-4: two plans are not joined over what must keep its order.
#[test]
fn what_must_keep_its_order_is_a_step_of_its_own() {
    let topic = || NewEvent::new(EventKind::new("k").unwrap(), [Scope::Topic("news".parse().unwrap())]);
    let steps = |commits: [Commit; 3]| {
        let count = |step: ApplyStep| match step {
            ApplyStep::Plans(plans) => plans.len(),
            other => panic!("{other:?}"),
        };
        join_deltas(&read_deltas(commits)).into_iter().map(count).collect::<Vec<_>>()
    };
    assert_eq!(steps([commit_to("t", "1"), commit_to("u", "2"), commit_to("t", "3")]), [2]);
    assert_eq!(steps([commit_to("t", "1"), commit_with_everything("2"), commit_to("t", "3")]), [1, 1, 1]);
    let in_topic = commit_to("u", "2").with_events(AppendEvents::new([topic()]));
    assert_eq!(steps([commit_to("t", "1"), in_topic, commit_to("t", "3")]), [1, 1, 1]);
    let mut deltas = read_deltas([commit_to("t", "1"), commit_to("t", "2")]);
    let deletion = Arc::new(Delta::Deletion(ThreadDeletion::new(Timestamp::MIN)));
    deltas.insert(1, ReadDelta::new(9, TenantId::default_tenant(), deletion));
    let steps = join_deltas(&deltas);
    assert!(matches!(&steps[..], [ApplyStep::Plans(_), ApplyStep::Other(_), ApplyStep::Plans(_)]), "{steps:?}");
}
