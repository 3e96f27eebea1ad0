//! All keys of the index: one function each, with a sort that never changes meaning.
//!
//! A log has a number that is valid inside of the index only; what belongs to one log stands under that number, so that
//! a deletion removes it batch by batch.

mod events;
mod mailbox;
mod outbox;

use store_core::{CommitKey, EntryId, RunId, RunListKey, TenantId, ThreadId, ThreadListKey, ThreadOrder, Timestamp};

pub(crate) use self::events::{
    all_events, event, event_key, event_keys, event_log, event_logs, event_places, events, events_of, is_of_events,
    log_event_key, log_event_keys, log_events, read_event, read_event_key, read_log_event_key, read_scope, scope,
    scopes,
};
pub(crate) use self::mailbox::{
    MailboxList, all_mailboxes, behind_due, dispatch, dispatch_key, dispatch_place, due_place, interrupt,
    is_of_mailbox, is_placed, log_mailbox, mailbox, mailbox_list, mailbox_made, mailbox_of, mailbox_turned, mailboxes,
    placed, queue_place, read_available, read_dispatch_place, read_due_place, read_id_place, read_log_mailbox,
    read_lot, read_mailbox, read_queue_place, read_ready_place, read_timed_place, ready_place, thread_place,
};
pub(crate) use self::outbox::{
    all_outbox, is_of_outbox, log_outbox, outbox_list, outbox_of, outbox_payload, outbox_place, outbox_row,
    outbox_rows, read_log_outbox, read_outbox_place, read_outbox_row,
};
use crate::{
    index::{Key, KeyReader},
    vfs::hash_of,
};

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

/// The sorts that stand under a log's number, in the order in which a purge removes them.
pub(crate) const OF_LOG: [u8; 13] =
    [NODE, ENTRY, MARKS, LEAF, BRANCH, SNAPSHOT, STATE, COMMIT_KEY, CHILD, LOG_RUN, INPUT, INPUT_RANK, DECISION];

/// The sorts about events, outbox and mailbox that stand under a log's number. A deletion of the thread leaves what
/// they lead to.
pub(crate) const LEFT_BY_LOG: [u8; 4] = [LOG_EVENT, LOG_EVENT_KEY, LOG_OUTBOX, LOG_MAILBOX];

/// The thread of this id.
pub(crate) fn thread(tenant: &TenantId, id: &ThreadId) -> Key {
    threads(tenant).text(id.as_str())
}

/// The threads of a tenant, by id.
pub(crate) fn threads(tenant: &TenantId) -> Key {
    Key::new(THREAD).text(tenant.as_str())
}

/// The threads of all tenants.
pub(crate) fn all_threads() -> Key {
    Key::new(THREAD)
}

/// The tenant and id of a thread's key.
pub(crate) fn read_thread(key: &[u8]) -> Option<(String, String)> {
    let mut reader = KeyReader::new(THREAD, key)?;
    Some((reader.text()?, reader.text()?))
}

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

/// What is remembered of a thread id.
pub(crate) fn id(tenant: &TenantId, id: &ThreadId) -> Key {
    ids(tenant).text(id.as_str())
}

/// What is remembered of the ids of a tenant.
pub(crate) fn ids(tenant: &TenantId) -> Key {
    Key::new(ID).text(tenant.as_str())
}

/// The tenant and id of an id's key.
pub(crate) fn read_id(key: &[u8]) -> Option<(String, String)> {
    let mut reader = KeyReader::new(ID, key)?;
    Some((reader.text()?, reader.text()?))
}

/// A list of threads, without its places.
pub(crate) fn thread_list(tenant: &TenantId, scope: ThreadListKey<'_>, order: ThreadOrder) -> Key {
    let key = Key::new(THREAD_ORDER).text(tenant.as_str());
    let key = match scope {
        ThreadListKey::All => key.mark(0),
        ThreadListKey::Roots => key.mark(1),
        ThreadListKey::Of(parent) => key.mark(2).text(parent.as_str()),
        ThreadListKey::Resource(resource) => key.mark(3).text(resource.as_str()),
    };
    key.mark(match order {
        ThreadOrder::LastActivity => 0,
        ThreadOrder::Creation => 1,
    })
}

/// A list of runs, without its places.
pub(crate) fn run_list(tenant: &TenantId, scope: RunListKey<'_>) -> Key {
    let key = Key::new(RUN_ORDER).text(tenant.as_str());
    match scope {
        RunListKey::All => key.mark(0),
        RunListKey::Thread(thread) => key.mark(1).text(thread.as_str()),
        RunListKey::Parent(run) => key.mark(2).text(run.as_str()),
        RunListKey::Status(status) => key.mark(3).text(status.name()),
    }
}

/// A place in a list of threads or runs.
pub(crate) fn place(list: Key, time: Timestamp, id: &str) -> Key {
    list.number(time.as_millis()).text(id)
}

/// The time and id of a place; `list` is the list without its places.
pub(crate) fn read_place(list: &Key, key: &[u8]) -> Option<(u64, String)> {
    // A reader wants a sort; the part behind the list begins with a number, so one byte of the list serves as such.
    let cut = list.as_bytes().len().checked_sub(1)?;
    let rest = key.get(cut..)?;
    let mut reader = KeyReader::new(*rest.first()?, rest)?;
    Some((reader.number()?, reader.text()?))
}

/// The threads of a tenant that have pending input, by id.
pub(crate) fn pending_threads(tenant: &TenantId) -> Key {
    Key::new(PENDING).text(tenant.as_str())
}

/// The tenant and id of such a thread.
pub(crate) fn read_pending_thread(key: &[u8]) -> Option<(String, String)> {
    let mut reader = KeyReader::new(PENDING, key)?;
    Some((reader.text()?, reader.text()?))
}

/// All places of threads, and of runs.
pub(crate) fn all_places() -> [Key; 3] {
    [Key::new(THREAD_ORDER), Key::new(PENDING), Key::new(RUN_ORDER)]
}

/// The tenant and id of a place of a thread, in whatever list.
pub(crate) fn read_thread_place(key: &[u8]) -> Option<(String, String)> {
    if let Some(place) = read_pending_thread(key) {
        return Some(place);
    }
    let mut reader = KeyReader::new(THREAD_ORDER, key)?;
    let tenant = reader.text()?;
    if reader.mark()? > 1 {
        reader.text()?;
    }
    reader.mark()?;
    reader.number()?;
    Some((tenant, reader.text()?))
}

/// The tenant and id of a place of a run, in whatever list.
pub(crate) fn read_run_place(key: &[u8]) -> Option<(String, String)> {
    let mut reader = KeyReader::new(RUN_ORDER, key)?;
    let tenant = reader.text()?;
    if reader.mark()? > 0 {
        reader.text()?;
    }
    reader.number()?;
    Some((tenant, reader.text()?))
}

/// A run.
pub(crate) fn run(tenant: &TenantId, id: &RunId) -> Key {
    Key::new(RUN).text(tenant.as_str()).text(id.as_str())
}

/// The runs of all tenants.
pub(crate) fn all_runs() -> Key {
    Key::new(RUN)
}

/// The tenant and id of a run's key.
pub(crate) fn read_run(key: &[u8]) -> Option<(String, String)> {
    let mut reader = KeyReader::new(RUN, key)?;
    Some((reader.text()?, reader.text()?))
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
        Some(&(EVENT | SCOPE | EVENT_PLACE | EVENT_KEY | LOG_EVENT | LOG_EVENT_KEY)) => "the events",
        Some(&(OUTBOX | OUTBOX_PLACE | OUTBOX_PAYLOAD | LOG_OUTBOX)) => "the outbox",
        _ if is_of_mailbox(key) => "the mailbox",
        _ => "the log",
    }
}

/// A run of a log.
pub(crate) fn log_run(log: u64, id: &RunId) -> Key {
    log_runs(log).text(id.as_str())
}

/// The runs of a log.
pub(crate) fn log_runs(log: u64) -> Key {
    Key::new(LOG_RUN).number(log)
}

/// The run id of a key below [`log_runs`].
pub(crate) fn read_log_run(key: &[u8]) -> Option<String> {
    let mut reader = KeyReader::new(LOG_RUN, key)?;
    reader.number()?;
    reader.text()
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

/// What of one sort stands under a log's number.
pub(crate) fn of_log(sort: u8, log: u64) -> Key {
    Key::new(sort).number(log)
}

/// Where an entry stands in its log, its id and its node.
pub(crate) fn node(log: u64, seq: u64) -> Key {
    nodes(log).number(seq)
}

/// The nodes of a log, by sequence number.
pub(crate) fn nodes(log: u64) -> Key {
    of_log(NODE, log)
}

/// The sequence number of an entry.
pub(crate) fn entry(log: u64, id: &EntryId) -> Key {
    of_log(ENTRY, log).text(id.as_str())
}

/// The marks of an entry.
pub(crate) fn marks(log: u64, seq: u64) -> Key {
    of_log(MARKS, log).number(seq)
}

/// The leaves of a log, by sequence number.
pub(crate) fn leaves(log: u64) -> Key {
    of_log(LEAF, log)
}

/// The branch points of a log, by sequence number; 0 stands for before the first entry.
pub(crate) fn branches(log: u64) -> Key {
    of_log(BRANCH, log)
}

/// The snapshots of a log, by name.
pub(crate) fn snapshots(log: u64) -> Key {
    of_log(SNAPSHOT, log)
}

/// The name and sequence number of a snapshot's key.
pub(crate) fn read_snapshot(key: &[u8]) -> Option<(String, u64)> {
    let mut reader = KeyReader::new(SNAPSHOT, key)?;
    reader.number()?;
    Some((reader.text()?, reader.number()?))
}

/// A value of the thread's state.
pub(crate) fn state(log: u64, key: &str) -> Key {
    states(log).text(key)
}

/// The thread's state.
pub(crate) fn states(log: u64) -> Key {
    of_log(STATE, log)
}

/// The name of a state's key.
pub(crate) fn read_state(key: &[u8]) -> Option<String> {
    let mut reader = KeyReader::new(STATE, key)?;
    reader.number()?;
    reader.text()
}

/// Where the commit line of a key stands.
pub(crate) fn commit_key(log: u64, key: &CommitKey) -> Key {
    of_log(COMMIT_KEY, log).text(key.as_str())
}

/// The pending inputs of a log, by rank.
pub(crate) fn inputs(log: u64) -> Key {
    of_log(INPUT, log)
}

/// The rank of a pending input.
pub(crate) fn input_rank(log: u64, id: &EntryId) -> Key {
    of_log(INPUT_RANK, log).text(id.as_str())
}

/// What was decided about a ticket of a run. A ticket may have any length, so its sum stands for it.
pub(crate) fn decision(log: u64, run: &RunId, ticket: &str) -> Key {
    of_log(DECISION, log).text(run.as_str()).text(&hash_of(ticket))
}

/// The children of an entry, side entries included; 0 stands for before the first entry.
pub(crate) fn children(log: u64, parent: u64) -> Key {
    of_log(CHILD, log).number(parent)
}

/// The last number of a key whose last part is one.
pub(crate) fn last_number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use store_core::{TenantId, ThreadListKey, ThreadOrder, Timestamp};

    use super::{place, read_place, thread_list};

    #[test]
    fn a_place_is_parsed_after_its_list_prefix() {
        let tenant = TenantId::new("a\u{301}.b").unwrap();
        for scope in [ThreadListKey::All, ThreadListKey::Roots] {
            let list = || thread_list(&tenant, scope, ThreadOrder::Creation);
            let key = place(list(), Timestamp::from_millis(258).unwrap(), "t-1").into_bytes();
            assert_eq!(read_place(&list(), &key), Some((258, "t-1".to_owned())));
        }
    }
}
