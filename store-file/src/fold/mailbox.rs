//! What lines about the mailbox change in the index. A dispatch and its thread stand in the log of the mailbox; a
//! settlement that came with a commit stands in the log of its thread. Of several records the one with the highest
//! revision counts, in any order in which the logs are read. Of two records with one revision, that of the log of the
//! mailbox counts, to which it was moved.

use std::collections::BTreeMap;

use store_core::{
    DispatchId, Result, TenantId, ThreadId, Timestamp,
    codec::Codec,
    mailbox::{self, DispatchListKey, QueueSummary, StoredMailboxThread, queue_position},
};

use super::Owner;
use crate::{
    codec::damaged,
    dispatch_rows::{DispatchRow, MailboxRow, MailboxRows, PlacedRow},
    index::{Direction, Key},
    line::{DispatchLine, InterruptLine, Line, MailboxLine},
    log::Span,
    staged::Staged,
    table::{self, MailboxList},
    walk::{self, Walk},
};

pub(crate) fn line(staged: &mut Staged<'_>, owner: &Owner, line: (&Line, Span)) -> Result<()> {
    let (line, span) = line;
    match line {
        Line::MailboxMade(claims) => {
            staged.put(table::mailbox_made(&owner.tenant), claims.to_be_bytes());
            Ok(())
        }
        Line::Dispatch(body) => {
            let row = DispatchRow::enqueued(owner.log, span, body);
            let old = staged.dispatch_row(&owner.tenant, &body.id)?;
            put(staged, &owner.tenant, old.as_ref(), &row)
        }
        Line::DispatchState(line) => state(staged, owner, line),
        Line::DispatchGone(id) => gone(staged, &owner.tenant, id),
        Line::Interrupt(line) => interrupt(staged, &owner.tenant, line),
        Line::Mailbox(line) => record(staged, owner, line),
        _ => Ok(()),
    }
}

/// Whether a record of a log takes the place of another one.
const fn is_newer(owner: &Owner, new: u64, old: u64) -> bool {
    new > old || (new == old && owner.generation == 0)
}

/// One that is not there was purged, or its line is lost or cannot be read.
fn state(staged: &mut Staged<'_>, owner: &Owner, line: &DispatchLine) -> Result<()> {
    let Owner { tenant, log, generation, .. } = owner;
    if *generation > 0 {
        staged.put(table::log_mailbox(*log), []);
    }
    let Some(old) = staged.dispatch_row(tenant, &line.id)? else { return Ok(()) };
    // The id may be that of another dispatch by now, of any thread.
    let is_other = old.body.number != line.number || (*generation > 0 && old.body.thread != owner.thread);
    if is_other || !is_newer(owner, line.state.revision, old.state.revision) {
        return Ok(());
    }
    let row = DispatchRow { state_log: *log, state: line.state.clone(), ..old.clone() };
    staged.delete(table::log_mailbox(old.state_log).text(line.id.as_str()));
    if *generation > 0 {
        staged.put(table::log_mailbox(*log).text(line.id.as_str()), []);
    }
    put(staged, tenant, Some(&old), &row)
}

fn gone(staged: &mut Staged<'_>, tenant: &TenantId, id: &DispatchId) -> Result<()> {
    let Some(old) = staged.dispatch_row(tenant, id)? else { return Ok(()) };
    for key in places(tenant, &old).into_keys() {
        staged.delete(Key::from_bytes(&key));
    }
    take_available(staged, tenant, &old);
    if let Some(name) = &old.body.dedupe_key {
        let key = table::dispatch_key(tenant, &old.body.thread, name);
        if staged.dispatch_id(key.as_bytes())?.as_ref() == Some(id) {
            staged.delete(key);
        }
    }
    staged.delete(table::log_mailbox(old.state_log).text(id.as_str()));
    staged.delete(table::dispatch(tenant, id));
    Ok(())
}

/// Writes a dispatch, and moves its places.
fn put(staged: &mut Staged<'_>, tenant: &TenantId, old: Option<&DispatchRow>, new: &DispatchRow) -> Result<()> {
    let was = old.map(|old| places(tenant, old)).unwrap_or_default();
    let is = places(tenant, new);
    for key in was.keys().filter(|key| !is.contains_key(*key)) {
        staged.delete(Key::from_bytes(key));
    }
    if let Some(old) = old {
        take_available(staged, tenant, old);
    }
    for (key, value) in is.into_iter().filter(|(key, _)| !was.contains_key(key)) {
        staged.put(Key::from_bytes(&key), value);
    }
    let thread = &new.body.thread;
    if let Some(at) = queue_position(&new.stored()) {
        // What an interrupt superseded has given its key up.
        let epoch = staged.mailbox_row(tenant, thread)?.map_or(0, |row| row.mailbox.epoch);
        if let Some(name) = new.body.dedupe_key.as_ref().filter(|_| at.epoch >= epoch) {
            staged.put(table::dispatch_key(tenant, thread, name), new.body.id.as_str());
        }
        if at.due <= staged.placed_row(tenant, thread)?.until {
            let list = table::mailbox_list(tenant, MailboxList::Available(thread, at.epoch));
            staged.put(table::queue_place(list, at.priority, at.number), at.due.as_millis().to_be_bytes());
        }
    }
    staged.put_row(table::dispatch(tenant, &new.body.id), new.clone());
    Ok(())
}

/// Where a dispatch stands, and what stands there; whether it is available is for [`turn`].
fn places(tenant: &TenantId, row: &DispatchRow) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (id, thread, created) = (&row.body.id, &row.body.thread, row.body.created_at);
    let scopes = [DispatchListKey::All, DispatchListKey::Thread(thread), DispatchListKey::Status(row.state.status)];
    let created =
        scopes.map(|scope| (table::dispatch_place(tenant, MailboxList::Created(scope), created, id), Vec::new()));
    let ended = row.state.finished_at;
    let ended = ended.map(|end| (table::dispatch_place(tenant, MailboxList::Ended, end, id), Vec::new()));
    let queued = queue_position(&row.stored()).into_iter().flat_map(|at| {
        let list = |list| table::mailbox_list(tenant, list);
        let queue = list(MailboxList::Queue(thread, at.epoch));
        [
            (table::queue_place(queue, at.priority, at.number), id.as_str().as_bytes().to_vec()),
            (table::due_place(list(MailboxList::ByDue(thread, at.epoch)), at), Vec::new()),
            (list(MailboxList::Ids(thread, at.epoch)).text(id.as_str()), Vec::new()),
        ]
    });
    created.into_iter().chain(ended).chain(queued).map(|(key, value)| (key.into_bytes(), value)).collect()
}

fn take_available(staged: &mut Staged<'_>, tenant: &TenantId, row: &DispatchRow) {
    if let Some(at) = queue_position(&row.stored()) {
        let list = table::mailbox_list(tenant, MailboxList::Available(&row.body.thread, at.epoch));
        staged.delete(table::queue_place(list, at.priority, at.number));
    }
}

fn interrupt(staged: &mut Staged<'_>, tenant: &TenantId, line: &InterruptLine) -> Result<()> {
    let InterruptLine { thread, epoch, interrupt } = line;
    let place = |lot: mailbox::SupersededBatch| {
        let list = table::mailbox_list(tenant, MailboxList::Lots);
        table::thread_place(list, lot.at, thread).number(lot.epoch)
    };
    let key = table::interrupt(tenant, thread, *epoch);
    if let Some(old) = staged.interrupt_row(tenant, thread, *epoch)? {
        staged.delete(place(mailbox::superseded_batch(&old)));
    }
    let Some(new) = interrupt else {
        staged.delete(key);
        return Ok(());
    };
    if new.holds > 0 {
        staged.put(place(mailbox::superseded_batch(new)), []);
    }
    staged.put(key, new.encode());
    Ok(())
}

fn record(staged: &mut Staged<'_>, owner: &Owner, line: &MailboxLine) -> Result<()> {
    let (tenant, MailboxLine { thread, mailbox }) = (&owner.tenant, line);
    let old = staged.mailbox_row(tenant, thread)?;
    if old.is_none_or(|old| is_newer(owner, mailbox.revision, old.mailbox.revision)) {
        let row = MailboxRow { log: owner.log, mailbox: mailbox.clone() };
        staged.put_row(table::mailbox(tenant, thread), row);
    }
    turn(staged, tenant, thread, mailbox.last_time)
}

/// Makes available what of a thread is due at `now`, and puts the thread where it stands then.
pub(crate) fn turn(staged: &mut Staged<'_>, tenant: &TenantId, thread: &ThreadId, now: Timestamp) -> Result<()> {
    let Some(MailboxRow { mailbox, .. }) = staged.mailbox_row(tenant, thread)? else { return Ok(()) };
    let now = mailbox::decision_time(Some(&mailbox), now);
    let old = staged.placed_row(tenant, thread)?;
    let moved = move_due(staged, tenant, (thread, mailbox.epoch), (old.until, now))?;
    let ends = ends(staged, tenant, (thread, &mailbox), now)?;
    let new = PlacedRow { until: now, places: mailbox::thread_positions(&mailbox, ends) };
    if !moved && new.places == old.places {
        return Ok(());
    }
    for key in thread_places(tenant, thread, &old) {
        staged.delete(key);
    }
    for key in thread_places(tenant, thread, &new) {
        staged.put(key, []);
    }
    staged.put_row(table::placed(tenant, thread), new);
    Ok(())
}

/// Moves what becomes due between two times once, and back only if time went back. Whether anything did.
fn move_due(
    staged: &mut Staged<'_>,
    tenant: &TenantId,
    queue: (&ThreadId, u64),
    times: (Timestamp, Timestamp),
) -> Result<bool> {
    let ((thread, epoch), (old, now)) = (queue, times);
    let (from, to) = (old.min(now), old.max(now));
    let list = table::mailbox_list(tenant, MailboxList::ByDue(thread, epoch));
    let mut moved = Vec::new();
    // No time comes before `Timestamp::MIN`, so from there the walk takes the list from its beginning.
    let after = (from > Timestamp::MIN).then(|| table::behind_due(list.clone(), from).into_bytes());
    for key in walk::keys(staged, list.clone(), after, Direction::Forward) {
        let place = table::read_due_place(&list, &key?).ok_or_else(|| damaged("queue"))?;
        if place.0 > to {
            break;
        }
        moved.push(place);
    }
    let available = table::mailbox_list(tenant, MailboxList::Available(thread, epoch));
    for (due, priority, number) in &moved {
        let key = table::queue_place(available.clone(), *priority, *number);
        if now > old {
            staged.put(key, due.as_millis().to_be_bytes());
        } else {
            staged.delete(key);
        }
    }
    Ok(!moved.is_empty())
}

/// What the queue of a thread holds of its epoch, with what is due at `now` made available.
fn ends(
    staged: &Staged<'_>,
    tenant: &TenantId,
    of: (&ThreadId, &StoredMailboxThread),
    now: Timestamp,
) -> Result<QueueSummary> {
    let (thread, epoch) = (of.0, of.1.epoch);
    let available = table::mailbox_list(tenant, MailboxList::Available(thread, epoch));
    let by_due = table::mailbox_list(tenant, MailboxList::ByDue(thread, epoch));
    let due = |after| -> Result<Option<Timestamp>> {
        let key = staged.next(&by_due, after, Direction::Forward)?;
        let read = |key: Vec<u8>| table::read_due_place(&by_due, &key).ok_or_else(|| damaged("queue"));
        Ok(key.map(read).transpose()?.map(|place| place.0))
    };
    let first = staged.next(&available, None, Direction::Forward)?;
    let first = first.map(|key| table::read_queue_place(&available, &key).ok_or_else(|| damaged("queue")));
    Ok(QueueSummary {
        first_priority: first.transpose()?.map(|(priority, _)| priority),
        earliest_due: due(None)?,
        next_due: due(Some(table::behind_due(by_due.clone(), now).into_bytes()))?,
    })
}

fn thread_places(tenant: &TenantId, thread: &ThreadId, row: &PlacedRow) -> impl Iterator<Item = Key> {
    let list = |list| table::mailbox_list(tenant, list);
    let ready = row.places.ready;
    let ready = ready.map(|(priority, since)| table::ready_place(list(MailboxList::Ready), priority, since, thread));
    let due = row.places.due.map(|at| table::thread_place(list(MailboxList::Due), at, thread));
    let lease = row.places.lease.map(|at| table::thread_place(list(MailboxList::Leases), at, thread));
    [ready, due, lease].into_iter().flatten()
}

/// Makes available what is due at `now`, of every thread.
pub(crate) fn turn_all(staged: &mut Staged<'_>, tenant: &TenantId, now: Timestamp) -> Result<()> {
    let key = table::mailbox_turned(tenant);
    let turned = staged.time(&key)?;
    let mut threads = Vec::new();
    if turned.is_some_and(|turned| now < turned) {
        let list = table::mailbox_list(tenant, MailboxList::Ready);
        for key in walk::keys(staged, list.clone(), None, Direction::Forward) {
            threads.push(table::read_ready_place(&list, &key?).ok_or_else(|| damaged("ready thread"))?.2);
        }
    }
    let list = table::mailbox_list(tenant, MailboxList::Due);
    for key in walk::keys(staged, list.clone(), None, Direction::Forward) {
        let (at, thread) = table::read_timed_place(&list, &key?).ok_or_else(|| damaged("due thread"))?;
        if at > now {
            break;
        }
        threads.push(thread);
    }
    for thread in &threads {
        turn(staged, tenant, thread, now)?;
    }
    if !threads.is_empty() {
        staged.put(key, now.as_millis().to_be_bytes());
    }
    Ok(())
}
