//! The lines that only a restore writes: what does not follow from the other lines of a log.

use store_core::{
    RunId, Scope,
    codec::{DecodeError, Fields},
    event::ScopeState,
    pending::{DecisionRecord, QueueState},
    thread::StoredThread,
};

use super::tagged;

/// What the thread has besides its own fields and what its entries lead to, after the restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestoredLine {
    pub(crate) latest_run: Option<RunId>,
    pub(crate) open_runs: Vec<RunId>,
    pub(crate) state_revision: u64,
    pub(crate) state_keys: u64,
    pub(crate) state_bytes: u64,
    pub(crate) queue: QueueState,
}

impl RestoredLine {
    pub(crate) fn of(stored: &StoredThread) -> Self {
        Self {
            latest_run: stored.thread.latest_run.clone(),
            open_runs: stored.thread.open_runs.clone(),
            state_revision: stored.thread.state_revision,
            state_keys: stored.state_keys,
            state_bytes: stored.state_bytes,
            queue: stored.queue.clone(),
        }
    }

    pub(super) fn encode(&self) -> String {
        tagged("restored", |object| {
            object.maybe("latest_run", self.latest_run.as_ref()).field("open_runs", &self.open_runs);
            object.field("state_revision", &self.state_revision).field("state_keys", &self.state_keys);
            object.field("state_bytes", &self.state_bytes).field("queue", &self.queue);
        })
    }

    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            latest_run: fields.maybe("latest_run")?,
            open_runs: fields.take("open_runs")?,
            state_revision: fields.take("state_revision")?,
            state_keys: fields.take("state_keys")?,
            state_bytes: fields.take("state_bytes")?,
            queue: fields.take("queue")?,
        })
    }
}

/// What is kept about a decision whose input is not in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecisionLine {
    pub(crate) run: RunId,
    pub(crate) ticket: String,
    pub(crate) record: DecisionRecord,
}

impl DecisionLine {
    pub(super) fn encode(&self) -> String {
        tagged("decision", |object| {
            object.field("run", &self.run).field("ticket", &self.ticket).field("record", &self.record);
        })
    }

    pub(super) fn read(mut fields: Fields<'_>) -> Result<Self, DecodeError> {
        Ok(Self { run: fields.take("run")?, ticket: fields.take("ticket")?, record: fields.take("record")? })
    }
}

pub(super) fn scope(scope: &Scope, state: &ScopeState) -> String {
    tagged("scope", |object| {
        object.field("scope", scope).field("state", state);
    })
}

#[cfg(test)]
mod tests {
    use store_core::{Scope, codec::Codec as _, event::ScopeState, pending::DecisionRecord};

    use super::{DecisionLine, RestoredLine};
    use crate::line::Line;

    #[test]
    fn a_line_of_a_restore_is_read_as_it_was_written_vf_6() {
        let restored = RestoredLine {
            latest_run: Some("r-1".parse().unwrap()),
            open_runs: vec!["r-1".parse().unwrap()],
            state_revision: 3,
            state_keys: 2,
            state_bytes: 70,
            queue: store_core::pending::QueueState::read(r#"{"revision":3,"last_rank":4}"#).unwrap(),
        };
        let record = DecisionRecord::read(r#"{"id":"i-1","revision":2,"digest":"1:00"}"#).unwrap();
        let decision = DecisionLine { run: "r-1".parse().unwrap(), ticket: "k".to_owned(), record };
        let state = ScopeState::read(r#"{"count":5,"floor":2,"last_time":9}"#).unwrap();
        let scope = Scope::Topic("agents".parse().unwrap());
        for line in [
            Line::Restored(Box::new(restored)),
            Line::Decision(Box::new(decision)),
            Line::Scope(Box::new((scope, state))),
        ] {
            assert_eq!(Line::decode(&line.encode()).unwrap(), line);
        }
    }
}
