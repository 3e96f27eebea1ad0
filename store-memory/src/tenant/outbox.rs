//! The outbox of a tenant: its rows, and the ordered lists that contain them.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
};

use store_core::{
    Direction, Error, Json, OutboxId, OutboxRow, Result, length,
    outbox::{OutboxList, OutboxPlan, OutboxPosition, OutboxTable, OutboxView, StoredOutboxRow, put_row},
};

/// Rows and their lists. Both change together, under the lock of the index.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    rows: HashMap<OutboxId, StoredOutboxRow>,
    payloads: HashMap<OutboxId, Json>,
    lists: HashMap<OutboxList, BTreeSet<OutboxPosition>>,
}

impl Outbox {
    /// Writes the rows of a commit.
    pub(crate) fn apply(&mut self, plan: OutboxPlan) -> Result<()> {
        for (row, payload) in plan.rows {
            self.payloads.insert(row.id.clone(), payload);
            put_row(self, row)?;
        }
        Ok(())
    }

    /// Returns all rows with their payloads, in no particular order.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&StoredOutboxRow, &Json)> {
        self.rows.iter().filter_map(|(id, row)| Some((row, self.payloads.get(id)?)))
    }

    /// Writes a row as it was in another store.
    pub(crate) fn restore(&mut self, row: StoredOutboxRow, payload: Json) -> Result<()> {
        self.payloads.insert(row.id.clone(), payload);
        put_row(self, row)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns a row with its payload.
    pub(crate) fn get(&self, id: &OutboxId) -> Option<OutboxRow> {
        Some(OutboxRow::new(self.rows.get(id)?.clone(), self.payloads.get(id)?.clone()))
    }

    pub(crate) fn stored_row(&self, id: &OutboxId) -> Option<&StoredOutboxRow> {
        self.rows.get(id)
    }

    pub(crate) fn len(&self, list: &OutboxList) -> u64 {
        self.lists.get(list).map_or(0, |positions| length(positions.len()))
    }

    /// Returns the positions in a list after the position `after`, in the given direction.
    pub(crate) fn walk(
        &self,
        list: &OutboxList,
        after: Option<&OutboxPosition>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = &OutboxPosition> + '_> {
        let Some(positions) = self.lists.get(list) else { return Box::new(std::iter::empty()) };
        let after = after.cloned().map_or(Bound::Unbounded, Bound::Excluded);
        match direction {
            Direction::Forward => Box::new(positions.range((after, Bound::Unbounded))),
            Direction::Backward => Box::new(positions.range((Bound::Unbounded, after)).rev()),
        }
    }
}

impl OutboxView for Outbox {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        Ok(self.rows.get(id).cloned())
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        Ok(self.walk(list, after, Direction::Forward).next().cloned())
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        Ok(self.walk(list, None, Direction::Backward).next().cloned())
    }
}

impl OutboxTable for Outbox {
    fn incarnation(&self) -> u64 {
        0
    }

    fn payload(&self, id: &OutboxId) -> Result<Json> {
        self.payloads.get(id).cloned().ok_or_else(|| Error::corrupt("an outbox row has no payload"))
    }

    fn set_row(&mut self, id: &OutboxId, row: Option<StoredOutboxRow>) {
        match row {
            Some(row) => drop(self.rows.insert(id.clone(), row)),
            None => {
                self.rows.remove(id);
                self.payloads.remove(id);
            }
        }
    }

    fn set_position(&mut self, list: &OutboxList, position: &OutboxPosition, is_listed: bool) {
        if is_listed {
            self.lists.entry(list.clone()).or_default().insert(position.clone());
        } else if let Some(positions) = self.lists.get_mut(list) {
            positions.remove(position);
            if positions.is_empty() {
                self.lists.remove(list);
            }
        }
    }
}
