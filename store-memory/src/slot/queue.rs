//! The pending input of a thread, and the decisions about the tickets of its runs.

use std::collections::{BTreeMap, HashMap};

use store_core::{
    EntryId, PendingInput, RunId,
    pending::{DecisionRecord, QueueWrite, StoredInput},
};

/// Pending inputs in the order of their ranks, and the rank of each id.
#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    inputs: BTreeMap<u64, PendingInput>,
    ranks: HashMap<EntryId, u64>,
    decisions: BTreeMap<RunId, BTreeMap<String, DecisionRecord>>,
}

impl InputQueue {
    pub(crate) fn apply(&mut self, write: QueueWrite) {
        for stored in write.put {
            if let Some((decision, record)) = stored.input.decision() {
                self.decisions.entry(decision.run.clone()).or_default().insert(decision.ticket.clone(), record);
            }
            self.ranks.insert(stored.input.id.clone(), stored.rank);
            self.inputs.insert(stored.rank, stored.input);
        }
        for id in &write.removed {
            self.remove(id);
        }
        for (id, rank) in write.ranks {
            if let Some(input) = self.remove(&id) {
                self.ranks.insert(id, rank);
                self.inputs.insert(rank, input);
            }
        }
    }

    fn remove(&mut self, id: &EntryId) -> Option<PendingInput> {
        self.ranks.remove(id).and_then(|rank| self.inputs.remove(&rank))
    }

    /// Returns the inputs in order.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &PendingInput> {
        self.inputs.values()
    }

    /// Returns the inputs with their ranks, in order.
    pub(crate) fn stored_inputs(&self) -> impl Iterator<Item = StoredInput> {
        self.inputs.iter().map(|(rank, input)| StoredInput::new(input.clone(), *rank))
    }

    /// Returns all decisions, in the order of runs and tickets.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = (&RunId, &str, &DecisionRecord)> {
        self.decisions
            .iter()
            .flat_map(|(run, tickets)| tickets.iter().map(move |(ticket, record)| (run, ticket.as_str(), record)))
    }

    /// Writes an input as it was in another store.
    pub(crate) fn restore_input(&mut self, stored: StoredInput) {
        self.apply(QueueWrite { put: vec![stored], ..QueueWrite::default() });
    }

    /// Writes what is kept about a decision as it was in another store.
    pub(crate) fn restore_decision(&mut self, (run, ticket): (RunId, String), record: DecisionRecord) {
        self.decisions.entry(run).or_default().insert(ticket, record);
    }

    pub(crate) fn get(&self, id: &EntryId) -> Option<StoredInput> {
        let rank = *self.ranks.get(id)?;
        self.inputs.get(&rank).map(|input| StoredInput::new(input.clone(), rank))
    }

    pub(crate) fn decision(&self, run: &RunId, ticket: &str) -> Option<&DecisionRecord> {
        self.decisions.get(run)?.get(ticket)
    }

    /// Returns the number of inputs, plus the number of runs with decisions.
    pub(crate) fn item_count(&self) -> usize {
        self.inputs.len() + self.decisions.len()
    }

    /// Removes one input or, if there is none, the decisions of one run. Returns whether there was anything to remove.
    pub(crate) fn remove_last(&mut self) -> bool {
        match self.inputs.pop_last() {
            Some((_, input)) => self.ranks.remove(&input.id).is_some(),
            None => self.decisions.pop_last().is_some(),
        }
    }
}
