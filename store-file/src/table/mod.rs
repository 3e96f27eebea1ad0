//! All keys of the index: one function each, with a sort that never changes meaning.
//!
//! A log has a number that is valid inside of the index only; what belongs to one log stands under that number, so that
//! a deletion removes it batch by batch.

mod documents;
mod events;
mod log;
mod mailbox;
mod outbox;
mod threads;

use store_core::TenantId;

pub(crate) use self::documents::{
    all_collections, all_documents, collection, collection_documents, collections, document, document_bytes, documents,
    documents_of, is_of_documents, read_collection, read_document,
};
pub(crate) use self::events::{
    all_erased, all_events, all_scopes, erased, event, event_key, event_keys, event_log, event_logs, event_places,
    events, events_of, is_of_events, log_event_key, log_event_keys, log_events, read_erased, read_event,
    read_event_key, read_event_log, read_log_event_key, read_scope, scope, scopes,
};
pub(crate) use self::log::{
    branches, children, commit_key, commit_keys, decision, decisions, entry, input_rank, inputs, leaves, log_run,
    log_runs, marks, node, nodes, of_log, read_log_run, read_snapshot, read_state, snapshots, state, states,
};
pub(crate) use self::mailbox::{
    MailboxList, all_mailboxes, behind_due, dispatch, dispatch_key, dispatch_place, dispatches, due_place, interrupt,
    interrupts, is_of_mailbox, is_placed, log_mailbox, mailbox, mailbox_list, mailbox_made, mailbox_of, mailbox_turned,
    mailboxes, placed, queue_place, read_available, read_dispatch_place, read_due_place, read_id_place,
    read_log_mailbox, read_lot, read_mailbox, read_queue_place, read_ready_place, read_timed_place, ready_place,
    thread_place,
};
pub(crate) use self::outbox::{
    all_outbox, is_of_outbox, log_outbox, outbox_list, outbox_of, outbox_payload, outbox_place, outbox_row,
    outbox_rows, read_log_outbox, read_outbox_place, read_outbox_row,
};
pub(crate) use self::threads::{
    all_places, all_runs, all_threads, id, ids, pending_threads, place, read_id, read_pending_thread, read_place,
    read_run, read_run_place, read_thread, read_thread_place, run, run_list, runs, thread, thread_list, threads,
};
use crate::index::{Key, KeyReader};

const THREAD: u8 = 1;
const LOG: u8 = 2;
const ID: u8 = 3;
const THREAD_ORDER: u8 = 4;
const RUN: u8 = 5;
const RUN_ORDER: u8 = 6;
const PURGE: u8 = 7;
const FACT: u8 = 8;
const CHANGED: u8 = 9;
const DROPPING: u8 = 10;
const PENDING: u8 = 11;
const EVENT: u8 = 12;
const SCOPE: u8 = 13;
const EVENT_PLACE: u8 = 14;
const EVENT_KEY: u8 = 15;

const NODE: u8 = 16;
const ENTRY: u8 = 17;
const MARKS: u8 = 18;
const LEAF: u8 = 19;
const BRANCH: u8 = 20;
const SNAPSHOT: u8 = 21;
const STATE: u8 = 22;
const COMMIT_KEY: u8 = 23;
const CHILD: u8 = 24;
const LOG_RUN: u8 = 25;
const INPUT: u8 = 26;
const INPUT_RANK: u8 = 27;
const DECISION: u8 = 28;
const LOG_EVENT: u8 = 29;
const LOG_EVENT_KEY: u8 = 30;

/// No sorts of their own log: a deletion moves them.
const EVENT_LOG: u8 = 31;

const OUTBOX: u8 = 32;
const OUTBOX_PLACE: u8 = 33;
const OUTBOX_PAYLOAD: u8 = 34;
const LOG_OUTBOX: u8 = 35;

const DISPATCH: u8 = 36;
const MAILBOX: u8 = 37;
const INTERRUPT: u8 = 38;
const DISPATCH_KEY: u8 = 39;
const MAILBOX_PLACE: u8 = 40;
const PLACED: u8 = 41;
const MAILBOX_FACT: u8 = 42;
const LOG_MAILBOX: u8 = 43;

const DOCUMENT: u8 = 44;
pub(crate) const COLLECTION: u8 = 45;
const DOCUMENT_BYTES: u8 = 46;
pub(crate) const LOG_DOCUMENT: u8 = 47;

const ERASED: u8 = 48;

/// The sorts that stand under a log's number, in the order in which a purge removes them.
pub(crate) const OF_LOG: [u8; 14] = [
    NODE,
    ENTRY,
    MARKS,
    LEAF,
    BRANCH,
    SNAPSHOT,
    STATE,
    COMMIT_KEY,
    CHILD,
    LOG_RUN,
    INPUT,
    INPUT_RANK,
    DECISION,
    LOG_DOCUMENT,
];

/// The sorts about events, outbox, mailbox and documents of the tenant that stand under a log's number. A deletion of
/// the thread leaves what they lead to.
pub(crate) const LEFT_BY_LOG: [u8; 6] = [LOG_EVENT, LOG_EVENT_KEY, LOG_OUTBOX, LOG_MAILBOX, DOCUMENT_BYTES, ERASED];

/// What is known of a log.
pub(crate) fn log(log: u64) -> Key {
    Key::new(LOG).number(log)
}

/// The number of a thread's last change, among all changes of the root.
pub(crate) fn changed(log: u64) -> Key {
    Key::new(CHANGED).number(log)
}

/// All logs.
pub(crate) fn logs() -> Key {
    Key::new(LOG)
}

/// The number of a log's key, or of a purge's.
pub(crate) fn read_log(key: &[u8]) -> Option<u64> {
    KeyReader::new(LOG, key).or_else(|| KeyReader::new(PURGE, key))?.number()
}

/// What a key is for, in words for people.
pub(crate) fn describe(key: &[u8]) -> &'static str {
    match key.first() {
        Some(&THREAD) => "the thread",
        Some(&ID) => "the thread's id",
        Some(&THREAD_ORDER) => "the lists of threads",
        Some(&(RUN | RUN_ORDER | LOG_RUN)) => "the runs",
        Some(&(NODE | ENTRY | CHILD)) => "the entries",
        Some(&(MARKS | LEAF | BRANCH | SNAPSHOT)) => "the branches",
        Some(&STATE) => "the state",
        Some(&COMMIT_KEY) => "the commit keys",
        Some(&(PENDING | INPUT | INPUT_RANK | DECISION)) => "the pending input",
        _ if is_of_documents(key) || key.first() == Some(&LOG_DOCUMENT) => "the documents",
        _ if is_of_events(key) => "the events",
        _ if is_of_outbox(key) => "the outbox",
        _ if is_of_mailbox(key) => "the mailbox",
        _ => "the log",
    }
}

/// A deleted log whose data is still to be removed.
pub(crate) fn purge(log: u64) -> Key {
    Key::new(PURGE).number(log)
}

/// All deleted logs whose data is still to be removed.
pub(crate) fn purges() -> Key {
    Key::new(PURGE)
}

/// A fact about the index itself.
pub(crate) fn fact(name: &str) -> Key {
    Key::new(FACT).text(name)
}

/// A tenant that is being removed.
pub(crate) fn dropping(tenant: &TenantId) -> Key {
    all_dropping().text(tenant.as_str())
}

/// The tenants that are being removed.
pub(crate) fn all_dropping() -> Key {
    Key::new(DROPPING)
}

/// The tenant of such a key.
pub(crate) fn read_dropping(key: &[u8]) -> Option<String> {
    KeyReader::new(DROPPING, key)?.text()
}

/// The last number of a key whose last part is one.
pub(crate) fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// The tenant and id of a key of this sort that consists of these two.
fn read_tenant_and_id(sort: u8, key: &[u8]) -> Option<(String, String)> {
    let mut reader = KeyReader::new(sort, key)?;
    Some((reader.text()?, reader.text()?))
}
