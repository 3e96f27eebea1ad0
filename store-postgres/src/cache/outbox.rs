//! The cached records of the outbox: rows, the beginnings of lists, and the stamps of groups. The stamp of a group is
//! the number of the transaction that wrote to it last.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use sqlx::postgres::PgArguments;
use store_core::{
    Json, OutboxId, Result,
    outbox::{OrderGroup, OutboxList, OutboxPosition, OutboxRows, OutboxScope, OutboxTable, StoredOutboxRow},
};

use super::{RecordCache, decode};
use crate::{
    columns::{optional, read_i64, read_u64, text},
    db::{Connection, add, signed, unsigned},
    error::corrupt,
};

/// The number of places of a list that are loaded at once.
const CHUNK: usize = 128;

/// The records to be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OutboxLookup {
    pub(crate) rows: BTreeSet<OutboxId>,
    pub(crate) groups: BTreeSet<OrderGroup>,
    /// Lists, each with the last place that was loaded. Loading continues after it.
    pub(crate) lists: BTreeMap<OutboxList, Option<OutboxPosition>>,
    /// Groups whose last row is needed.
    pub(crate) lasts: BTreeSet<OrderGroup>,
}

/// The cached records.
#[derive(Debug, Default)]
pub(crate) struct OutboxCache {
    rows: HashMap<OutboxId, Option<StoredOutboxRow>>,
    payloads: HashMap<OutboxId, Json>,
    lists: HashMap<OutboxList, ListPrefix>,
    lasts: HashMap<OrderGroup, Option<OutboxPosition>>,
    groups: HashMap<OrderGroup, i64>,
}

/// The beginning of a list, as far as it was loaded.
#[derive(Debug, Default)]
struct ListPrefix {
    places: BTreeSet<OutboxPosition>,
    is_complete: bool,
}

/// Loads missing records. With `locks`, no other call can decide about them before the transaction ends.
pub(crate) async fn load_outbox(
    connection: &mut Connection<'_>,
    cache: &mut RecordCache,
    look: OutboxLookup,
    locks: bool,
) -> Result<()> {
    let mut asked: Vec<(OutboxList, &'static str, Option<OutboxPosition>)> = Vec::new();
    for (list, after) in &look.lists {
        asked.push((list.clone(), name_of(list), after.clone()));
    }
    for group in &look.lasts {
        asked.push((OutboxList::Numbered(group.clone()), "last", None));
    }
    let arguments = arguments(cache, &look, &asked, locks)?;
    let rows = connection.write(|sql| &sql.look_outbox, arguments).await.map_err(|failed| failed.error)?;
    let known = &mut cache.outbox;
    known.rows.extend(look.rows.iter().map(|id| (id.clone(), None)));
    let mut counts = vec![0; asked.len()];
    known.lasts.extend(look.lasts.iter().map(|group| (group.clone(), None)));
    for row in &rows {
        let (at, kind) = (optional::<i32>(row, 0)?.unwrap_or_default(), text(row, 1)?);
        let at = usize::try_from(at - 1).unwrap_or(usize::MAX);
        match kind.as_str() {
            "clock" => connection.set_server_time(Duration::from_millis(read_u64(row, 2)?)),
            "group" => known.groups.extend(look.groups.iter().nth(at).cloned().zip(optional::<i64>(row, 2)?)),
            _ => {
                let id: OutboxId = text(row, 4)?.parse()?;
                known.rows.insert(id.clone(), Some(decode::<StoredOutboxRow>("outbox row", &text(row, 5)?)?));
                if let Ok(payload) = Json::parse(&text(row, 6)?) {
                    known.payloads.insert(id.clone(), payload);
                }
                let Some((list, name, _)) = asked.get(at).filter(|_| kind == "place") else { continue };
                let place = OutboxPosition { rank: (unsigned(read_i64(row, 2)?)?, unsigned(read_i64(row, 3)?)?), id };
                if let (OutboxList::Numbered(group), "last") = (list, *name) {
                    known.lasts.insert(group.clone(), Some(place));
                    continue;
                }
                known.lists.entry(list.clone()).or_default().places.insert(place);
                counts.iter_mut().skip(at).take(1).for_each(|count| *count += 1);
            }
        }
    }
    for ((list, name, _), count) in asked.into_iter().zip(counts) {
        if name != "last" {
            known.lists.entry(list).or_default().is_complete = count < CHUNK;
        }
    }
    Ok(())
}

fn arguments(
    cache: &RecordCache,
    look: &OutboxLookup,
    asked: &[(OutboxList, &'static str, Option<OutboxPosition>)],
    locks: bool,
) -> Result<PgArguments> {
    let parts: Vec<_> = asked.iter().map(|(list, ..)| parts(list)).collect();
    let rank = |at: &Option<OutboxPosition>, pick: fn(&OutboxPosition) -> u64| {
        at.as_ref().map_or(Ok(-1), |at| signed(pick(at)))
    };
    let firsts: Vec<i64> = asked.iter().map(|(.., at)| rank(at, |at| at.rank.0)).collect::<Result<_>>()?;
    let seconds: Vec<i64> = asked.iter().map(|(.., at)| rank(at, |at| at.rank.1)).collect::<Result<_>>()?;
    let mut arguments = PgArguments::default();
    let to = &mut arguments;
    add(to, cache.constants.tenant.as_str())?;
    add(to, locks)?;
    add(to, look.rows.iter().map(OutboxId::as_str).collect::<Vec<_>>())?;
    add(to, look.groups.iter().map(|group| group.lane.as_str()).collect::<Vec<_>>())?;
    add(to, look.groups.iter().map(|group| group.target.as_str()).collect::<Vec<_>>())?;
    add(to, look.groups.iter().map(|group| group.key.as_str()).collect::<Vec<_>>())?;
    add(to, asked.iter().map(|(_, name, _)| *name).collect::<Vec<_>>())?;
    add(to, parts.iter().map(|parts| parts.0).collect::<Vec<_>>())?;
    add(to, parts.iter().map(|parts| parts.1).collect::<Vec<_>>())?;
    add(to, parts.iter().map(|parts| parts.2).collect::<Vec<_>>())?;
    add(to, parts.iter().map(|parts| parts.3).collect::<Vec<_>>())?;
    add(to, firsts)?;
    add(to, seconds)?;
    add(to, asked.iter().map(|(.., at)| at.as_ref().map_or("", |at| at.id.as_str())).collect::<Vec<_>>())?;
    add(to, i32::try_from(CHUNK).unwrap_or(i32::MAX))?;
    Ok(arguments)
}

fn name_of(list: &OutboxList) -> &'static str {
    match list {
        OutboxList::Created(..) => "created",
        OutboxList::Ready(OutboxScope::Target(..)) => "ready target",
        OutboxList::Ready(_) => "ready",
        OutboxList::Leased(_) => "leased",
        OutboxList::Finished => "finished",
        OutboxList::Keyed(..) => "keyed",
        OutboxList::Numbered(_) | OutboxList::Open(_) => "open",
        OutboxList::Held(_) => "held",
        OutboxList::Next(_) => "next",
    }
}

/// The lane, target, key and status of a list.
type ListArguments<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>, Option<&'static str>);

fn parts(list: &OutboxList) -> ListArguments<'_> {
    let of_scope = |scope| match scope {
        &OutboxScope::All => (None, None),
        OutboxScope::Lane(lane) => (Some(lane.as_str()), None),
        OutboxScope::Target(lane, target) => (Some(lane.as_str()), Some(target.as_str())),
    };
    match list {
        OutboxList::Created(scope, status) => {
            let (lane, target) = of_scope(scope);
            (lane, target, None, status.map(|status| status.name()))
        }
        OutboxList::Ready(scope) | OutboxList::Leased(scope) => {
            let (lane, target) = of_scope(scope);
            (lane, target, None, None)
        }
        OutboxList::Finished => (None, None, None, None),
        OutboxList::Keyed(lane, target, key) => (Some(lane.as_str()), Some(target.as_str()), Some(key.as_str()), None),
        OutboxList::Numbered(group) | OutboxList::Open(group) | OutboxList::Held(group) | OutboxList::Next(group) => {
            (Some(group.lane.as_str()), Some(group.target.as_str()), Some(group.key.as_str()), None)
        }
    }
}

impl RecordCache {
    /// Returns the stamp of a group: the number of the transaction that wrote to it last, or 0 if there is none. A
    /// write is refused if the stamp has changed. So that this check covers the rows of the group, the stamp must be
    /// loaded before the rows or together with them.
    fn group(&self, group: &OrderGroup) -> Result<i64> {
        self.find(&self.outbox.groups, group, |look| {
            look.outbox.groups.insert(group.clone());
            // A decision that asks for a group needs these next.
            look.outbox.lasts.insert(group.clone());
            for list in [OutboxList::Next, OutboxList::Held, OutboxList::Open] {
                look.outbox.lists.entry(list(group.clone())).or_default();
            }
        })
    }
}

impl OutboxRows for RecordCache {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        if self.generated.contains(id.as_str()) {
            return Ok(None);
        }
        self.find(&self.outbox.rows, id, |look| _ = look.outbox.rows.insert(id.clone()))
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        let known = self.outbox.lists.get(list);
        if let Some(known) = known {
            let found = match after {
                Some(after) => {
                    known.places.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded)).next()
                }
                None => known.places.first(),
            };
            if found.is_some() || known.is_complete {
                return Ok(found.cloned());
            }
        } else if matches!(list, OutboxList::Keyed(..)) && !self.is_fresh {
            // If another row has this dedupe key, the server refuses the write by a unique key.
            self.assumed.set(true);
            return Ok(None);
        }
        let last = known.and_then(|known| known.places.last().cloned());
        Err(self.note_missing(|look| _ = look.outbox.lists.insert(list.clone(), last)))
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        let OutboxList::Numbered(group) = list else { return Err(corrupt("a list without a last place")) };
        self.group(group)?;
        self.find(&self.outbox.lasts, group, |look| _ = look.outbox.lasts.insert(group.clone()))
    }
}

/// The outbox during a decision: the cached records, and the changes made so far.
#[derive(Debug)]
pub(crate) struct OutboxDraft<'a> {
    pub(crate) cache: &'a RecordCache,
    rows: BTreeMap<OutboxId, Option<StoredOutboxRow>>,
    places: HashMap<OutboxList, BTreeMap<OutboxPosition, bool>>,
    ready: BTreeMap<OutboxId, bool>,
}

/// The changes to the outbox.
#[derive(Debug, Default)]
pub(crate) struct OutboxChanges {
    /// Changed rows, each with its previous revision (0 if the row is new), and with whether it can be claimed, if that
    /// changes.
    pub(crate) rows: Vec<(u64, StoredOutboxRow, Option<bool>)>,
    /// Rows of which only that last property changes, with its new value.
    pub(crate) ready: Vec<(OutboxId, bool)>,
    pub(crate) deleted: Vec<(OutboxId, u64)>,
    pub(crate) groups: Vec<(OrderGroup, i64)>,
}

impl<'a> OutboxDraft<'a> {
    pub(crate) fn new(cache: &'a RecordCache) -> Self {
        Self { cache, rows: BTreeMap::new(), places: HashMap::new(), ready: BTreeMap::new() }
    }

    pub(crate) fn into_changes(self) -> Result<OutboxChanges> {
        let mut changes = OutboxChanges::default();
        let mut groups = BTreeSet::new();
        for (id, row) in &self.rows {
            let before = OutboxRows::row(self.cache, id)?;
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
            let stamp = self.cache.group(&group)?;
            changes.groups.push((group, stamp));
        }
        Ok(changes)
    }
}

impl OutboxRows for OutboxDraft<'_> {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        self.rows.get(id).map_or_else(|| OutboxRows::row(self.cache, id), |row| Ok(row.clone()))
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        if let OutboxList::Open(group) | OutboxList::Held(group) | OutboxList::Next(group) = list {
            self.cache.group(group)?;
        }
        let changed = self.places.get(list);
        let mut stored = OutboxRows::next(self.cache, list, after)?;
        while let Some(place) = stored.take_if(|place| changed.is_some_and(|it| it.get(place) == Some(&false))) {
            stored = OutboxRows::next(self.cache, list, Some(&place))?;
        }
        let is_behind = |place: &OutboxPosition| after.is_none_or(|after| place > after);
        let added = changed.into_iter().flatten().find(|(place, is_listed)| **is_listed && is_behind(place));
        Ok([stored, added.map(|(place, _)| place.clone())].into_iter().flatten().min())
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        OutboxRows::last(self.cache, list)
    }
}

impl OutboxTable for OutboxDraft<'_> {
    fn incarnation(&self) -> u64 {
        self.cache.constants.incarnation
    }

    fn payload(&self, id: &OutboxId) -> Result<Json> {
        OutboxRows::row(self.cache, id)?;
        let found = self.cache.outbox.payloads.get(id).cloned();
        found.ok_or_else(|| corrupt("an outbox row has no payload"))
    }

    fn set_row(&mut self, id: &OutboxId, row: Option<StoredOutboxRow>) {
        self.rows.insert(id.clone(), row);
    }

    fn set_position(&mut self, list: &OutboxList, place: &OutboxPosition, is_listed: bool) {
        if let OutboxList::Ready(_) = list {
            self.ready.insert(place.id.clone(), is_listed);
        }
        self.places.entry(list.clone()).or_default().insert(place.clone(), is_listed);
    }
}
