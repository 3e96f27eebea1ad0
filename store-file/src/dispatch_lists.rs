//! Walks over the lists of a mailbox, for readers and for the writer.

use store_core::{
    Direction, DispatchFilter, DispatchId, DispatchStatus, Purge, Result, TenantId, ThreadId, Timestamp, mailbox,
    merge_ordered,
};

use crate::{
    codec::damaged,
    dispatch_rows::MailboxRows,
    dispatches::MailboxTable,
    index::{Key, after_prefix},
    shared::Shared,
    table::{self, MailboxList},
    walk::{self, Walk},
};

/// A dispatch in a list by time.
pub(crate) type Place = (Timestamp, DispatchId);

/// Which of two steps comes first; an error comes before everything.
fn precedes<T: Ord>(direction: Direction) -> impl Fn(&Result<T>, &Result<T>) -> bool {
    let backward = direction == Direction::Backward;
    move |a, b| match (a, b) {
        (Ok(a), Ok(b)) => (a > b) == backward,
        (a, _) => a.is_err(),
    }
}

/// What a filter may let through, by creation.
pub(crate) fn by_creation<'a, R: Walk>(
    rows: &'a R,
    tenant: &TenantId,
    filter: &DispatchFilter,
    walk: (Option<&Place>, Direction),
) -> impl Iterator<Item = Result<Place>> + use<'a, R> {
    let lists = filter.list_keys().into_iter().map(|scope| timed(rows, tenant, MailboxList::Created(scope), walk));
    merge_ordered(lists.collect::<Vec<_>>(), precedes(walk.1))
}

fn timed<'a, R: Walk>(
    rows: &'a R,
    tenant: &TenantId,
    list: MailboxList<'_>,
    walk: (Option<&Place>, Direction),
) -> Box<dyn Iterator<Item = Result<Place>> + 'a> {
    let (after, direction) = walk;
    let after = after.map(|(time, id)| table::dispatch_place(tenant, list, *time, id).into_bytes());
    let list = table::mailbox_list(tenant, list);
    let keys = walk::keys(rows, list.clone(), after, direction);
    Box::new(keys.map(move |key| table::read_dispatch_place(&list, &key?).ok_or_else(|| damaged("dispatch"))))
}

/// What ended, by its end.
pub(crate) fn by_end<'a, R: Walk>(
    rows: &'a R,
    tenant: &'a TenantId,
    walk: (Option<Place>, Direction),
) -> impl Iterator<Item = Result<Place>> + 'a {
    let (after, direction) = walk;
    let alone = timed(rows, tenant, MailboxList::Ended, (after.as_ref(), direction));
    merge_ordered([alone, in_lots(rows, tenant, (after, direction))], precedes(direction))
}

/// What interrupts ended: each lot by id, and lots of one time together.
fn in_lots<'a, R: Walk>(
    rows: &'a R,
    tenant: &'a TenantId,
    walk: (Option<Place>, Direction),
) -> Box<dyn Iterator<Item = Result<Place>> + 'a> {
    let (after, direction) = walk;
    let first = after.as_ref().map(|(time, _)| *time);
    let times = first.map(Ok).into_iter().chain(times(rows, tenant, (first, direction)));
    Box::new(times.flat_map(move |time| {
        let lots = time.and_then(|time| {
            let after_id = after.as_ref().filter(|(at, _)| *at == time).map(|(_, id)| id);
            Ok((time, lots(rows, tenant, time)?, after_id.cloned()))
        });
        match lots {
            Err(error) => Box::new(std::iter::once(Err(error))) as Box<dyn Iterator<Item = Result<Place>>>,
            Ok((time, lots, after_id)) => {
                let ids: Vec<_> = lots
                    .iter()
                    .map(|(thread, epoch)| ids(rows, tenant, (thread, *epoch), (after_id.as_ref(), direction)))
                    .collect();
                Box::new(merge_ordered(ids, precedes(direction)).map(move |id| Ok((time, id?))))
            }
        }
    }))
}

/// The times of lots, each once, after one of them.
fn times<'a, R: Walk>(
    rows: &'a R,
    tenant: &TenantId,
    walk: (Option<Timestamp>, Direction),
) -> impl Iterator<Item = Result<Timestamp>> + use<'a, R> {
    let (mut last, direction) = walk;
    let list = table::mailbox_list(tenant, MailboxList::Lots);
    let after_time = move |list: &Key, time: Timestamp| {
        let at = list.clone().number(time.as_millis());
        if direction == Direction::Forward { after_prefix(at.as_bytes()) } else { at.into_bytes() }
    };
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended {
            return None;
        }
        let after = last.map(|time| after_time(&list, time));
        let found = rows.next(&list, after, direction).and_then(|key| {
            let read = |key: Vec<u8>| table::read_lot(&list, &key).ok_or_else(|| damaged("interrupt"));
            key.map(read).transpose()
        });
        match found {
            Ok(found) => {
                last = Some(found?.0);
                last.map(Ok)
            }
            Err(error) => {
                ended = true;
                Some(Err(error))
            }
        }
    })
}

/// The lots of a time.
fn lots(rows: &impl Walk, tenant: &TenantId, time: Timestamp) -> Result<Vec<(ThreadId, u64)>> {
    let list = table::mailbox_list(tenant, MailboxList::Lots);
    let before = list.clone().number(time.as_millis()).into_bytes();
    let mut lots = Vec::new();
    for key in walk::keys(rows, list.clone(), Some(before), Direction::Forward) {
        let (at, thread, epoch) = table::read_lot(&list, &key?).ok_or_else(|| damaged("interrupt"))?;
        if at > time {
            break;
        }
        lots.push((thread, epoch));
    }
    Ok(lots)
}

/// The ids of what is queued of an epoch of a thread, in order.
fn ids<'a, R: Walk>(
    rows: &'a R,
    tenant: &TenantId,
    of: (&ThreadId, u64),
    walk: (Option<&DispatchId>, Direction),
) -> impl Iterator<Item = Result<DispatchId>> + use<'a, R> {
    let (after, direction) = walk;
    let list = table::mailbox_list(tenant, MailboxList::Ids(of.0, of.1));
    let after = after.map(|id| list.clone().text(id.as_str()).into_bytes());
    let keys = walk::keys(rows, list.clone(), after, direction);
    keys.map(move |key| table::read_id_place(&list, &key?).ok_or_else(|| damaged("dispatch")))
}

/// What a purge removes: what it names, or else the oldest that ended before its bound.
pub(crate) fn ended(rows: &impl Walk, tenant: &TenantId, request: &Purge) -> Result<Vec<DispatchId>> {
    if !request.ids.is_empty() {
        return Ok(request.ids.clone());
    }
    let ended = by_end(rows, tenant, (None, Direction::Forward));
    let before = ended.take_while(|place| place.as_ref().map_or(true, |(end, _)| *end < request.before));
    before.take(request.limit as usize).map(|place| Ok(place?.1)).collect()
}

/// The oldest dead letters that a filter lets through, up to a limit.
pub(crate) fn dead_letters(
    rows: &impl Walk,
    shared: &Shared,
    tenant: &TenantId,
    which: (&DispatchFilter, u32),
) -> Result<Vec<DispatchId>> {
    let (filter, limit) = (which.0.clone().in_status([DispatchStatus::DeadLetter]), which.1 as usize);
    let table = MailboxTable::new(rows, shared, tenant);
    let mut found = Vec::new();
    for place in by_creation(rows, tenant, &filter, (None, Direction::Forward)) {
        let (_, id) = place?;
        let row = rows.dispatch_row(tenant, &id)?.ok_or_else(|| damaged("dispatch"))?;
        if filter.admits(&mailbox::visible_dispatch(&table, &row.stored())?) {
            found.push(id);
        }
        if found.len() == limit {
            break;
        }
    }
    Ok(found)
}

/// Up to `most` threads whose lease has expired at `now`.
pub(crate) fn lapsed(rows: &impl Walk, tenant: &TenantId, now: Timestamp, most: usize) -> Result<Vec<ThreadId>> {
    let list = table::mailbox_list(tenant, MailboxList::Leases);
    let keys = walk::keys(rows, list.clone(), None, Direction::Forward);
    let places = keys.map(|key| table::read_timed_place(&list, &key?).ok_or_else(|| damaged("lease")));
    let over = places.take_while(|place| place.as_ref().map_or(true, |(end, _)| *end <= now));
    over.take(most).map(|place| Ok(place?.1)).collect()
}
