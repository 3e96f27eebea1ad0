//! Tests of deltas, their JSON and their overlay.

use std::{cell::Cell, sync::Arc};

use super::{Delta, DeltaKeys, Overlay, OverlayView, ThreadDeletion, keys_of_commit, keys_of_deletion};
use crate::{
    AgentId, AppendEvents, Commit, CommitKey, DocumentChange, DocumentKey, EventKind, Expect, IdSource, Json,
    KeySegment, LaneId, Limits, Message, NewEntry, NewEvent, NewOutboxRow, OutboxTarget, RunChange, RunId, RunStatus,
    Scope, StateChange, ThreadId, Timestamp,
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
    // The commit is still known by its key, and its entries by their ids; their contents are in the store behind.
    let CommitDecision::Repeat(receipt) = buffer.decide(&commit_with_everything("k")).unwrap() else { panic!() };
    assert_eq!(receipt.entry_ids, first.receipt.entry_ids);
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
