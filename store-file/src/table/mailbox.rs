//! The keys of the mailbox: dispatches, threads, and the lists that they stand in.

use store_core::{
    DedupeKey, DispatchId, TenantId, ThreadId, Timestamp,
    mailbox::{DispatchListKey, QueuePosition},
};

use super::{
    DISPATCH, DISPATCH_KEY, INTERRUPT, LOG_MAILBOX, MAILBOX, MAILBOX_FACT, MAILBOX_PLACE, PLACED, of_log,
    read_tenant_and_id,
};
use crate::index::{Key, KeyReader};

/// A list of the mailbox of a tenant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MailboxList<'a> {
    /// Dispatches by their enqueue.
    Created(DispatchListKey<'a>),
    /// Those that ended, each by itself, by their end.
    Ended,
    /// What interrupts ended: time, thread, epoch.
    Lots,
    /// What is queued of an epoch of a thread, by priority and number.
    Queue(&'a ThreadId, u64),
    /// What of that is due.
    Available(&'a ThreadId, u64),
    /// What is queued of an epoch of a thread, by the time at which it becomes due.
    ByDue(&'a ThreadId, u64),
    /// What is queued of an epoch of a thread, by id.
    Ids(&'a ThreadId, u64),
    /// Threads of which something is available, by priority and the time since which.
    Ready,
    /// Threads of which something becomes available later, by when.
    Due,
    /// Threads of which something is claimed, by the end of the lease.
    Leases,
}

/// The dispatches of all tenants.
pub(crate) fn all_dispatches() -> Key {
    Key::new(DISPATCH)
}

/// The dispatches of a tenant.
pub(crate) fn dispatches(tenant: &TenantId) -> Key {
    all_dispatches().text(tenant.as_str())
}

/// A dispatch.
pub(crate) fn dispatch(tenant: &TenantId, id: &DispatchId) -> Key {
    dispatches(tenant).text(id.as_str())
}

/// The records of the threads of all tenants.
pub(crate) fn all_mailboxes() -> Key {
    Key::new(MAILBOX)
}

/// The records of the threads of a tenant.
pub(crate) fn mailboxes(tenant: &TenantId) -> Key {
    all_mailboxes().text(tenant.as_str())
}

/// The record of a thread.
pub(crate) fn mailbox(tenant: &TenantId, thread: &ThreadId) -> Key {
    mailboxes(tenant).text(thread.as_str())
}

/// The tenant and thread of a record's key.
pub(crate) fn read_mailbox(key: &[u8]) -> Option<(String, String)> {
    read_tenant_and_id(MAILBOX, key)
}

/// The interrupts of a tenant.
pub(crate) fn interrupts(tenant: &TenantId) -> Key {
    Key::new(INTERRUPT).text(tenant.as_str())
}

/// The interrupt of a thread that began an epoch.
pub(crate) fn interrupt(tenant: &TenantId, thread: &ThreadId, epoch: u64) -> Key {
    interrupts(tenant).text(thread.as_str()).number(epoch)
}

fn dispatch_keys(tenant: &TenantId) -> Key {
    Key::new(DISPATCH_KEY).text(tenant.as_str())
}

/// The dispatch that took a dedupe key last.
pub(crate) fn dispatch_key(tenant: &TenantId, thread: &ThreadId, key: &DedupeKey) -> Key {
    dispatch_keys(tenant).text(thread.as_str()).text(key.as_str())
}

fn places(tenant: &TenantId) -> Key {
    Key::new(MAILBOX_PLACE).text(tenant.as_str())
}

/// A list, without its places.
pub(crate) fn mailbox_list(tenant: &TenantId, list: MailboxList<'_>) -> Key {
    let key = places(tenant);
    let of = |key: Key, thread: &ThreadId, epoch| key.text(thread.as_str()).number(epoch);
    match list {
        MailboxList::Created(DispatchListKey::All) => key.mark(0),
        MailboxList::Created(DispatchListKey::Thread(thread)) => key.mark(1).text(thread.as_str()),
        MailboxList::Created(DispatchListKey::Status(status)) => key.mark(2).mark(status as u8),
        MailboxList::Ended => key.mark(3),
        MailboxList::Lots => key.mark(4),
        MailboxList::Queue(thread, epoch) => of(key.mark(5), thread, epoch),
        MailboxList::Available(thread, epoch) => of(key.mark(6), thread, epoch),
        MailboxList::ByDue(thread, epoch) => of(key.mark(7), thread, epoch),
        MailboxList::Ids(thread, epoch) => of(key.mark(8), thread, epoch),
        MailboxList::Ready => key.mark(9),
        MailboxList::Due => key.mark(10),
        MailboxList::Leases => key.mark(11),
    }
}

/// Thread and epoch of a place among what is available.
pub(crate) fn read_available(tenant: &TenantId, key: &[u8]) -> Option<(ThreadId, u64)> {
    let mut reader = KeyReader::below(&places(tenant).mark(6), key)?;
    Some((ThreadId::new(reader.text()?).ok()?, reader.number()?))
}

/// The place of a dispatch in a list by time.
pub(crate) fn dispatch_place(tenant: &TenantId, list: MailboxList<'_>, time: Timestamp, id: &DispatchId) -> Key {
    mailbox_list(tenant, list).number(time.as_millis()).text(id.as_str())
}

/// Its place in the queue of its thread, or among what of that is available.
pub(crate) fn queue_place(list: Key, priority: u8, number: u64) -> Key {
    list.mark(priority).number(number)
}

/// The priority and number of such a place.
pub(crate) fn read_queue_place(list: &Key, key: &[u8]) -> Option<(u8, u64)> {
    let mut reader = KeyReader::below(list, key)?;
    Some((reader.mark()?, reader.number()?))
}

/// Its place by the time when it can be given out.
pub(crate) fn due_place(list: Key, at: QueuePosition) -> Key {
    list.number(at.due.as_millis()).mark(at.priority).number(at.number)
}

/// The place after everything that is due at `time`.
pub(crate) fn behind_due(list: Key, time: Timestamp) -> Key {
    list.number(time.as_millis()).mark(u8::MAX).number(u64::MAX)
}

/// Time, priority and number of such a place.
pub(crate) fn read_due_place(list: &Key, key: &[u8]) -> Option<(Timestamp, u8, u64)> {
    let mut reader = KeyReader::below(list, key)?;
    Some((Timestamp::from_millis(reader.number()?).ok()?, reader.mark()?, reader.number()?))
}

/// The id of a place among the ids of a queue.
pub(crate) fn read_id_place(list: &Key, key: &[u8]) -> Option<DispatchId> {
    DispatchId::new(KeyReader::below(list, key)?.text()?).ok()
}

/// A place of a thread in a list by time.
pub(crate) fn thread_place(list: Key, time: Timestamp, thread: &ThreadId) -> Key {
    list.number(time.as_millis()).text(thread.as_str())
}

/// Time and thread of such a place.
pub(crate) fn read_timed_place(list: &Key, key: &[u8]) -> Option<(Timestamp, ThreadId)> {
    let mut reader = KeyReader::below(list, key)?;
    Some((Timestamp::from_millis(reader.number()?).ok()?, ThreadId::new(reader.text()?).ok()?))
}

/// Time and dispatch of a place in a list by time.
pub(crate) fn read_dispatch_place(list: &Key, key: &[u8]) -> Option<(Timestamp, DispatchId)> {
    let mut reader = KeyReader::below(list, key)?;
    Some((Timestamp::from_millis(reader.number()?).ok()?, DispatchId::new(reader.text()?).ok()?))
}

/// A place of a thread among the ready ones.
pub(crate) fn ready_place(list: Key, priority: u8, since: Timestamp, thread: &ThreadId) -> Key {
    thread_place(list.mark(priority), since, thread)
}

/// Priority, time and thread of such a place.
pub(crate) fn read_ready_place(list: &Key, key: &[u8]) -> Option<(u8, Timestamp, ThreadId)> {
    let mut reader = KeyReader::below(list, key)?;
    let (priority, time) = (reader.mark()?, Timestamp::from_millis(reader.number()?).ok()?);
    Some((priority, time, ThreadId::new(reader.text()?).ok()?))
}

/// Thread and epoch of a lot.
pub(crate) fn read_lot(list: &Key, key: &[u8]) -> Option<(Timestamp, ThreadId, u64)> {
    let mut reader = KeyReader::below(list, key)?;
    let time = Timestamp::from_millis(reader.number()?).ok()?;
    Some((time, ThreadId::new(reader.text()?).ok()?, reader.number()?))
}

/// Where a thread stands among the others.
pub(crate) fn placed(tenant: &TenantId, thread: &ThreadId) -> Key {
    all_placed(tenant).text(thread.as_str())
}

fn all_placed(tenant: &TenantId) -> Key {
    Key::new(PLACED).text(tenant.as_str())
}

/// Whether a key says where a thread stands.
pub(crate) fn is_placed(key: &[u8]) -> bool {
    key.first() == Some(&PLACED)
}

/// The incarnation of a tenant's claim numbers, from when its mailbox was made.
pub(crate) fn mailbox_made(tenant: &TenantId) -> Key {
    mailbox_facts(tenant).mark(0)
}

/// The last time at which a dispatch of any thread became available.
pub(crate) fn mailbox_turned(tenant: &TenantId) -> Key {
    mailbox_facts(tenant).mark(1)
}

fn mailbox_facts(tenant: &TenantId) -> Key {
    Key::new(MAILBOX_FACT).text(tenant.as_str())
}

/// Everything about the mailbox that stands under the name of a tenant.
pub(crate) fn mailbox_of(tenant: &TenantId) -> [Key; 7] {
    [
        dispatches(tenant),
        mailboxes(tenant),
        interrupts(tenant),
        dispatch_keys(tenant),
        places(tenant),
        all_placed(tenant),
        mailbox_facts(tenant),
    ]
}

/// Says that a thread's log has something of the mailbox; below it are the dispatches whose newest state it has.
pub(crate) fn log_mailbox(log: u64) -> Key {
    of_log(LOG_MAILBOX, log)
}

/// The id of a dispatch whose newest state a log has; none for what only says that there is something.
pub(crate) fn read_log_mailbox(key: &[u8]) -> Option<DispatchId> {
    DispatchId::new(KeyReader::of_log(LOG_MAILBOX, key)?.text()?).ok()
}

/// Whether a key is about the mailbox: several logs may say something of what it stands for.
pub(crate) fn is_of_mailbox(key: &[u8]) -> bool {
    let sorts = [DISPATCH, MAILBOX, INTERRUPT, DISPATCH_KEY, MAILBOX_PLACE, PLACED, MAILBOX_FACT, LOG_MAILBOX];
    key.first().is_some_and(|sort| sorts.contains(sort))
}
