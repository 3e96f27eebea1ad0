//! The rows that a batch writes. A field `thread` of type `i32` is the number of a thread in the batch, counted from 1.
//! `before` is the state or the revision of the row before the batch.

use serde::Serialize;
use store_core::{
    Run, Scope, Timestamp,
    codec::Codec,
    commit::CommitKeyRecord,
    event::{ScopeState, StoredEvent},
    mailbox::{QueuePosition, StoredDispatch, queue_position},
    outbox::StoredOutboxRow,
    thread::{StoredThread, ThreadIdRecord},
};

/// A thread with the state that it has after the batch. `stamp` is the stamp of the row on which the decision is based.
#[derive(Debug)]
pub(super) struct ThreadRow {
    pub(super) id: String,
    pub(super) stamp: i64,
    pub(super) log: Option<i64>,
    pub(super) creates_thread: bool,
    pub(super) thread: Option<StoredThread>,
    /// What the store keeps about the id, also after the thread is deleted.
    pub(super) id_record: ThreadIdRecord,
}

/// An entry that is appended, with its node.
#[derive(Debug)]
pub(super) struct EntryRow {
    pub(super) thread: i32,
    pub(super) seq: i64,
    pub(super) id: String,
    pub(super) parent: Option<i64>,
    /// The sequence number of the ancestor that the jump pointer leads to.
    pub(super) jump: Option<i64>,
    pub(super) side: bool,
    pub(super) node: String,
    pub(super) body: String,
}

/// The marks of an entry, after the batch.
#[derive(Debug)]
pub(super) struct MarkRow {
    pub(super) thread: i32,
    pub(super) seq: i64,
    pub(super) children: i64,
    pub(super) record: String,
}

/// The current name of the checkpoint `seq`, and the number of the entry that gave the name. Without a name, the
/// checkpoint loses the name that it had. `may_replace_name` says whether the table may contain another name of the
/// checkpoint.
#[derive(Debug)]
pub(super) struct NameRow {
    pub(super) thread: i32,
    pub(super) seq: i64,
    pub(super) name: Option<String>,
    pub(super) naming_seq: i64,
    pub(super) may_replace_name: bool,
}

impl NameRow {
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.name.as_deref().map(str::as_bytes)
    }
}

/// Whether the list of leaves of a thread contains an entry. The list does not contain the head.
#[derive(Debug)]
pub(super) struct LeafRow {
    pub(super) thread: i32,
    pub(super) seq: i64,
    pub(super) is_listed: bool,
}

/// A commit key of a thread.
#[derive(Debug)]
pub(super) struct CommitKeyRow {
    pub(super) thread: i32,
    pub(super) key: String,
    pub(super) record: String,
}

impl CommitKeyRow {
    pub(super) fn of(thread: i32, record: &CommitKeyRecord) -> Self {
        Self { thread, key: record.key.to_string(), record: record.encode() }
    }
}

/// A value of a thread's state. Without a value, the key is removed.
#[derive(Debug)]
pub(super) struct StateRow {
    pub(super) thread: i32,
    pub(super) key: String,
    pub(super) value: Option<String>,
}

/// An input in the queue of a thread. Without a rank, it is removed. Without a record, only its rank changes.
#[derive(Debug)]
pub(super) struct InputRow {
    pub(super) thread: i32,
    pub(super) id: String,
    pub(super) rank: Option<i64>,
    pub(super) record: Option<String>,
}

impl InputRow {
    pub(super) const fn is_removed(&self) -> bool {
        self.rank.is_none()
    }

    pub(super) const fn changes_only_rank(&self) -> bool {
        self.rank.is_some() && self.record.is_none()
    }
}

/// The decision about a ticket of a run.
#[derive(Debug)]
pub(super) struct DecisionRow {
    pub(super) thread: i32,
    pub(super) run: String,
    pub(super) ticket: String,
    pub(super) record: String,
}

/// The key of an append of events.
#[derive(Debug)]
pub(super) struct EventKeyRow {
    pub(super) writer: String,
    pub(super) key: String,
    pub(super) record: String,
}

/// A row of the outbox. `before` is its previous revision; 0 if it is new.
#[derive(Debug, Serialize)]
pub(super) struct OutboxChange {
    pub(super) id: String,
    pub(super) lane: String,
    pub(super) target: String,
    pub(super) status: &'static str,
    pub(super) created: u64,
    pub(super) available: u64,
    pub(super) lease: Option<u64>,
    pub(super) finished: Option<u64>,
    pub(super) dedupe: Option<String>,
    pub(super) order_key: Option<String>,
    pub(super) number: Option<u64>,
    pub(super) ready: Option<bool>,
    pub(super) before: u64,
    pub(super) revision: u64,
    pub(super) record: String,
    pub(super) payload: Option<String>,
}

impl OutboxChange {
    pub(super) fn of(before: u64, row: &StoredOutboxRow, ready: Option<bool>, payload: Option<String>) -> Self {
        Self {
            id: row.id.to_string(),
            lane: row.lane.to_string(),
            target: row.target.to_string(),
            status: row.status.name(),
            created: row.created_at.as_millis(),
            available: row.available_at.as_millis(),
            lease: row.claim.as_ref().map(|claim| claim.lease_until.as_millis()),
            finished: row.finished_at.map(Timestamp::as_millis),
            dedupe: row.dedupe_key.as_ref().map(ToString::to_string),
            order_key: row.order_key.as_ref().map(ToString::to_string),
            number: row.order_key.as_ref().map(|_| row.order),
            ready,
            before,
            revision: row.revision,
            record: row.encode(),
            payload,
        }
    }
}

/// The mailbox of a thread. `before` is its previous revision; 0 if the mailbox is new. Without a record, it is not
/// written, but must be unchanged.
#[derive(Debug, Default)]
pub(super) struct MailboxRow {
    pub(super) thread: String,
    pub(super) before: u64,
    pub(super) revision: u64,
    pub(super) epoch: u64,
    /// The time since which no dispatch of the thread has been claimed.
    pub(super) free_since: u64,
    /// The claimed dispatch.
    pub(super) running: Option<String>,
    pub(super) lease_until: Option<u64>,
    /// The time of the last decision about the thread.
    pub(super) last_time: u64,
    pub(super) record: Option<String>,
}

/// The position of a dispatch in the queue of its thread.
#[derive(Debug)]
pub(crate) struct QueuedRow {
    pub(crate) thread: String,
    pub(crate) at: QueuePosition,
    pub(crate) created_at: Timestamp,
    pub(crate) id: String,
}

impl QueuedRow {
    pub(crate) fn of(stored: &StoredDispatch) -> Option<Self> {
        let (at, body) = (queue_position(stored)?, &stored.body);
        Some(Self { thread: body.thread.to_string(), at, created_at: body.created_at, id: body.id.to_string() })
    }
}

/// The position of a dispatch in the list of dispatches that have ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EndedRow {
    pub(crate) status: &'static str,
    pub(crate) created_at: Timestamp,
    pub(crate) id: String,
    pub(crate) finished_at: Timestamp,
}

impl EndedRow {
    pub(crate) fn of(stored: &StoredDispatch) -> Option<Self> {
        let (body, state) = (&stored.body, &stored.state);
        let finished_at = state.finished_at?;
        Some(Self { status: state.status.name(), created_at: body.created_at, id: body.id.to_string(), finished_at })
    }
}

/// An interrupt. Without a record, it is removed.
#[derive(Debug)]
pub(super) struct InterruptRow {
    pub(super) thread: String,
    pub(super) epoch: u64,
    pub(super) at: Option<u64>,
    /// The number of dispatches that still need the record of the interrupt.
    pub(super) needed_by_count: Option<u64>,
    pub(super) record: Option<String>,
}

/// A row of the outbox in which only `ready` changes: whether a claim may take the row.
#[derive(Debug, Serialize)]
pub(super) struct OutboxReady {
    pub(super) id: String,
    pub(super) ready: bool,
}

/// A row of the outbox that is removed. `before` is its revision.
#[derive(Debug, Serialize)]
pub(super) struct OutboxRemoval {
    pub(super) id: String,
    pub(super) before: u64,
}

/// A group of outbox rows, and the stamp that it must still have.
#[derive(Debug, Serialize)]
pub(super) struct OutboxGroupRow {
    pub(super) lane: String,
    pub(super) target: String,
    pub(super) key: String,
    pub(super) stamp: i64,
}

/// A scope of events, before and after the batch.
#[derive(Debug)]
pub(super) struct ScopeRow {
    pub(super) scope: Scope,
    pub(super) before: ScopeState,
    pub(super) after: ScopeState,
}

/// An event, and the writer and key of its append, if the append had a key.
#[derive(Debug)]
pub(super) struct EventRow {
    pub(super) stored: StoredEvent,
    pub(super) key: Option<(String, String)>,
}

/// A run that is inserted (`is_new`) or updated.
#[derive(Debug)]
pub(super) struct RunRow {
    pub(super) thread: i32,
    pub(super) is_new: bool,
    pub(super) run: Run,
}
