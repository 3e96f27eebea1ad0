//! The cached records of the outbox: rows, the beginnings of lists, and the stamps of groups. A group consists of the
//! rows of a target with the same order key. Its stamp is the number of the transaction that wrote to it last.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use sqlx::postgres::PgArguments;
use store_core::{
    Json, OutboxId, Result,
    outbox::{OrderGroup, OutboxList, OutboxPosition, OutboxSubset, OutboxTable, OutboxView, StoredOutboxRow},
};

use super::{RecordCache, decode};
use crate::{
    columns::{read_i64, read_optional, read_text, read_u64},
    db::{Connection, add, signed, unsigned},
    error::corrupt,
};

/// The number of positions of a list that are loaded at once.
const LIST_CHUNK: usize = 128;

/// The records of the outbox that a decision needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OutboxLookup {
    pub(crate) rows: BTreeSet<OutboxId>,
    /// Groups whose stamps are needed.
    pub(crate) groups: BTreeSet<OrderGroup>,
    /// Lists, each with the last position that was loaded. Loading continues after it.
    pub(crate) lists: BTreeMap<OutboxList, Option<OutboxPosition>>,
    /// Groups whose last row is needed.
    pub(crate) last_positions: BTreeSet<OrderGroup>,
}

/// The cached records.
#[derive(Debug, Default)]
pub(crate) struct OutboxCache {
    rows: HashMap<OutboxId, Option<StoredOutboxRow>>,
    payloads: HashMap<OutboxId, Json>,
    lists: HashMap<OutboxList, ListPrefix>,
    last_positions: HashMap<OrderGroup, Option<OutboxPosition>>,
    group_stamps: HashMap<OrderGroup, i64>,
}

/// The beginning of a list, as far as it was loaded.
#[derive(Debug, Default)]
struct ListPrefix {
    positions: BTreeSet<OutboxPosition>,
    is_complete: bool,
}

/// A request for the next positions of a list.
struct ListRequest {
    list: OutboxList,
    /// The name by which the SQL function `look_outbox` knows the list. `last` stands for the last position only.
    name: &'static str,
    after: Option<OutboxPosition>,
}

/// Loads missing records. With `locks_rows`, no other call can decide about them before the transaction ends.
pub(crate) async fn load_outbox(
    connection: &mut Connection<'_>,
    cache: &mut RecordCache,
    lookup: OutboxLookup,
    locks_rows: bool,
) -> Result<()> {
    let mut list_requests = Vec::new();
    for (list, after) in &lookup.lists {
        list_requests.push(ListRequest { list: list.clone(), name: list_name(list), after: after.clone() });
    }
    for group in &lookup.last_positions {
        list_requests.push(ListRequest { list: OutboxList::AllOfGroup(group.clone()), name: "last", after: None });
    }
    let arguments = lookup_arguments(cache, &lookup, &list_requests, locks_rows)?;
    let rows = connection.write(|sql| &sql.load_outbox_records, arguments).await.map_err(|failed| failed.error)?;
    let cached = &mut cache.outbox;
    cached.rows.extend(lookup.rows.iter().map(|id| (id.clone(), None)));
    let mut counts = vec![0; list_requests.len()];
    cached.last_positions.extend(lookup.last_positions.iter().map(|group| (group.clone(), None)));
    for row in &rows {
        let (number, kind) = (read_optional::<i32>(row, 0)?.unwrap_or_default(), read_text(row, 1)?);
        // The index of the group or list in the lookup.
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        match kind.as_str() {
            "clock" => connection.set_server_time(Duration::from_millis(read_u64(row, 2)?)),
            "group" => {
                cached.group_stamps.extend(lookup.groups.iter().nth(index).cloned().zip(read_optional::<i64>(row, 2)?))
            }
            _ => {
                let id: OutboxId = read_text(row, 4)?.parse()?;
                cached.rows.insert(id.clone(), Some(decode::<StoredOutboxRow>("outbox row", &read_text(row, 5)?)?));
                if let Ok(payload) = Json::parse(&read_text(row, 6)?) {
                    cached.payloads.insert(id.clone(), payload);
                }
                let Some(ListRequest { list, name, .. }) = list_requests.get(index).filter(|_| kind == "place") else {
                    continue;
                };
                let position =
                    OutboxPosition { rank: (unsigned(read_i64(row, 2)?)?, unsigned(read_i64(row, 3)?)?), id };
                if let (OutboxList::AllOfGroup(group), "last") = (list, *name) {
                    cached.last_positions.insert(group.clone(), Some(position));
                    continue;
                }
                cached.lists.entry(list.clone()).or_default().positions.insert(position);
                counts.iter_mut().skip(index).take(1).for_each(|count| *count += 1);
            }
        }
    }
    for (ListRequest { list, name, .. }, count) in list_requests.into_iter().zip(counts) {
        if name != "last" {
            cached.lists.entry(list).or_default().is_complete = count < LIST_CHUNK;
        }
    }
    Ok(())
}

fn lookup_arguments(
    cache: &RecordCache,
    lookup: &OutboxLookup,
    list_requests: &[ListRequest],
    locks_rows: bool,
) -> Result<PgArguments> {
    let lists: Vec<_> = list_requests.iter().map(|request| list_arguments(&request.list)).collect();
    let rank = |request: &ListRequest, pick: fn(&OutboxPosition) -> u64| {
        request.after.as_ref().map_or(Ok(-1), |after| signed(pick(after)))
    };
    let first_ranks: Vec<i64> =
        list_requests.iter().map(|request| rank(request, |after| after.rank.0)).collect::<Result<_>>()?;
    let second_ranks: Vec<i64> =
        list_requests.iter().map(|request| rank(request, |after| after.rank.1)).collect::<Result<_>>()?;
    let mut arguments = PgArguments::default();
    let to = &mut arguments;
    add(to, cache.constants.tenant.as_str())?;
    add(to, locks_rows)?;
    add(to, lookup.rows.iter().map(OutboxId::as_str).collect::<Vec<_>>())?;
    add(to, lookup.groups.iter().map(|group| group.lane.as_str()).collect::<Vec<_>>())?;
    add(to, lookup.groups.iter().map(|group| group.target.as_str()).collect::<Vec<_>>())?;
    add(to, lookup.groups.iter().map(|group| group.key.as_str()).collect::<Vec<_>>())?;
    add(to, list_requests.iter().map(|request| request.name).collect::<Vec<_>>())?;
    add(to, lists.iter().map(|list| list.lane).collect::<Vec<_>>())?;
    add(to, lists.iter().map(|list| list.target).collect::<Vec<_>>())?;
    add(to, lists.iter().map(|list| list.key).collect::<Vec<_>>())?;
    add(to, lists.iter().map(|list| list.status).collect::<Vec<_>>())?;
    add(to, first_ranks)?;
    add(to, second_ranks)?;
    let after = list_requests.iter().map(|request| request.after.as_ref());
    add(to, after.map(|after| after.map_or("", |after| after.id.as_str())).collect::<Vec<_>>())?;
    add(to, i32::try_from(LIST_CHUNK).unwrap_or(i32::MAX))?;
    Ok(arguments)
}

fn list_name(list: &OutboxList) -> &'static str {
    match list {
        OutboxList::Created(..) => "created",
        OutboxList::Ready(OutboxSubset::Target(..)) => "ready target",
        OutboxList::Ready(_) => "ready",
        OutboxList::Leased(_) => "leased",
        OutboxList::Finished => "finished",
        OutboxList::Keyed(..) => "keyed",
        OutboxList::AllOfGroup(_) | OutboxList::OpenOfGroup(_) => "open",
        OutboxList::ClaimedOfGroup(_) => "held",
        OutboxList::ReadyOfGroup(_) => "next",
    }
}

/// The properties that the rows of a list have in common. `None` means any.
#[derive(Default)]
struct ListArguments<'a> {
    lane: Option<&'a str>,
    target: Option<&'a str>,
    key: Option<&'a str>,
    status: Option<&'static str>,
}

fn list_arguments(list: &OutboxList) -> ListArguments<'_> {
    let lane_and_target = |subset| match subset {
        &OutboxSubset::All => (None, None),
        OutboxSubset::Lane(lane) => (Some(lane.as_str()), None),
        OutboxSubset::Target(lane, target) => (Some(lane.as_str()), Some(target.as_str())),
    };
    match list {
        OutboxList::Created(subset, status) => {
            let (lane, target) = lane_and_target(subset);
            ListArguments { lane, target, key: None, status: status.map(|status| status.name()) }
        }
        OutboxList::Ready(subset) | OutboxList::Leased(subset) => {
            let (lane, target) = lane_and_target(subset);
            ListArguments { lane, target, ..ListArguments::default() }
        }
        OutboxList::Finished => ListArguments::default(),
        OutboxList::Keyed(lane, target, key) => ListArguments {
            lane: Some(lane.as_str()),
            target: Some(target.as_str()),
            key: Some(key.as_str()),
            status: None,
        },
        OutboxList::AllOfGroup(group)
        | OutboxList::OpenOfGroup(group)
        | OutboxList::ClaimedOfGroup(group)
        | OutboxList::ReadyOfGroup(group) => ListArguments {
            lane: Some(group.lane.as_str()),
            target: Some(group.target.as_str()),
            key: Some(group.key.as_str()),
            status: None,
        },
    }
}

impl RecordCache {
    /// Returns the stamp of a group: the number of the transaction that wrote to it last, or 0 if there is none. A
    /// write is refused if the stamp has changed. So that this check covers the rows of the group, the stamp must be
    /// loaded before the rows or together with them.
    fn group_stamp(&self, group: &OrderGroup) -> Result<i64> {
        self.find(&self.outbox.group_stamps, group, |lookup| {
            lookup.outbox.groups.insert(group.clone());
            // A decision that asks for a group needs these next.
            lookup.outbox.last_positions.insert(group.clone());
            for list in [OutboxList::ReadyOfGroup, OutboxList::ClaimedOfGroup, OutboxList::OpenOfGroup] {
                lookup.outbox.lists.entry(list(group.clone())).or_default();
            }
        })
    }
}

impl OutboxView for RecordCache {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        if self.generated.contains(id.as_str()) {
            return Ok(None);
        }
        self.find(&self.outbox.rows, id, |lookup| _ = lookup.outbox.rows.insert(id.clone()))
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        let cached = self.outbox.lists.get(list);
        if let Some(cached) = cached {
            let found = match after {
                Some(after) => {
                    cached.positions.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded)).next()
                }
                None => cached.positions.first(),
            };
            if found.is_some() || cached.is_complete {
                return Ok(found.cloned());
            }
        } else if matches!(list, OutboxList::Keyed(..)) && !self.is_fresh {
            // If another row has this dedupe key, the server refuses the write because of a unique index.
            self.assumed_absence.set(true);
            return Ok(None);
        }
        let last_loaded = cached.and_then(|cached| cached.positions.last().cloned());
        Err(self.note_missing(|lookup| _ = lookup.outbox.lists.insert(list.clone(), last_loaded)))
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        let OutboxList::AllOfGroup(group) = list else {
            return Err(corrupt("a rule asked for the last position of a list that does not have all rows of a group"));
        };
        self.group_stamp(group)?;
        self.find(&self.outbox.last_positions, group, |lookup| _ = lookup.outbox.last_positions.insert(group.clone()))
    }
}

/// The outbox during a decision: the cached records, and the changes made so far.
#[derive(Debug)]
pub(crate) struct OutboxDraft<'a> {
    pub(crate) cache: &'a RecordCache,
    rows: BTreeMap<OutboxId, Option<StoredOutboxRow>>,
    /// The changed positions of each list: whether the list now contains the position.
    positions: HashMap<OutboxList, BTreeMap<OutboxPosition, bool>>,
    /// The rows that claims may now take (`true`), and those that they may no longer take (`false`).
    ready: BTreeMap<OutboxId, bool>,
}

/// The changes to the outbox.
#[derive(Debug, Default)]
pub(crate) struct OutboxChanges {
    /// Changed rows, each with its previous revision (0 if the row is new). The last part says whether a claim may take
    /// the row; `None` if that does not change.
    pub(crate) rows: Vec<(u64, StoredOutboxRow, Option<bool>)>,
    /// Rows whose only change is whether a claim may take them.
    pub(crate) ready: Vec<(OutboxId, bool)>,
    /// Deleted rows, each with its previous revision.
    pub(crate) deleted: Vec<(OutboxId, u64)>,
    /// The groups of these rows, each with the stamp on which the changes are based.
    pub(crate) groups: Vec<(OrderGroup, i64)>,
}

impl<'a> OutboxDraft<'a> {
    pub(crate) fn new(cache: &'a RecordCache) -> Self {
        Self { cache, rows: BTreeMap::new(), positions: HashMap::new(), ready: BTreeMap::new() }
    }

    pub(crate) fn into_changes(self) -> Result<OutboxChanges> {
        let mut changes = OutboxChanges::default();
        let mut groups = BTreeSet::new();
        for (id, row) in &self.rows {
            let before = OutboxView::row(self.cache, id)?;
            groups.extend(before.iter().chain(row).filter_map(StoredOutboxRow::group));
            match row {
                Some(row) => {
                    let revision = before.map_or(0, |before| before.revision);
                    changes.rows.push((revision, row.clone(), self.ready.get(id).copied()));
                }
                None => changes.deleted.extend(before.map(|before| (id.clone(), before.revision))),
            }
        }
        let is_other = |id: &&OutboxId| !self.rows.contains_key(*id);
        changes.ready.extend(self.ready.iter().filter(|(id, _)| is_other(id)).map(|(id, ready)| (id.clone(), *ready)));
        for group in groups {
            let stamp = self.cache.group_stamp(&group)?;
            changes.groups.push((group, stamp));
        }
        Ok(changes)
    }
}

impl OutboxView for OutboxDraft<'_> {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        self.rows.get(id).map_or_else(|| OutboxView::row(self.cache, id), |row| Ok(row.clone()))
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        if let OutboxList::OpenOfGroup(group) | OutboxList::ClaimedOfGroup(group) | OutboxList::ReadyOfGroup(group) =
            list
        {
            self.cache.group_stamp(group)?;
        }
        let changed = self.positions.get(list);
        let mut stored = OutboxView::next(self.cache, list, after)?;
        while let Some(position) = stored.take_if(|position| changed.is_some_and(|it| it.get(position) == Some(&false)))
        {
            stored = OutboxView::next(self.cache, list, Some(&position))?;
        }
        let is_after = |position: &OutboxPosition| after.is_none_or(|after| position > after);
        let added = changed.into_iter().flatten().find(|(position, is_listed)| **is_listed && is_after(position));
        Ok([stored, added.map(|(position, _)| position.clone())].into_iter().flatten().min())
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        OutboxView::last(self.cache, list)
    }
}

impl OutboxTable for OutboxDraft<'_> {
    fn incarnation(&self) -> u64 {
        self.cache.constants.incarnation
    }

    fn payload(&self, id: &OutboxId) -> Result<Json> {
        OutboxView::row(self.cache, id)?;
        let found = self.cache.outbox.payloads.get(id).cloned();
        found.ok_or_else(|| corrupt("an outbox row has no payload"))
    }

    fn set_row(&mut self, id: &OutboxId, row: Option<StoredOutboxRow>) {
        self.rows.insert(id.clone(), row);
    }

    fn set_position(&mut self, list: &OutboxList, position: &OutboxPosition, is_listed: bool) {
        if let OutboxList::Ready(_) = list {
            self.ready.insert(position.id.clone(), is_listed);
        }
        self.positions.entry(list.clone()).or_default().insert(position.clone(), is_listed);
    }
}
