//! The lines of version 4 whose kind is `record`. They are about operations and about the queues of a lane. Operations
//! become runs, and the messages that are still queued become pending input.

use std::collections::{HashMap, HashSet};

use store_core::{Boundary, Completion, EntryId, RunOutcome, TokenCounts, log::check_message};

use super::{
    LineData,
    message::{self, MessageSource},
};
use crate::{
    activity::{Activity, QueuedInput, SourceRun},
    blocks::cut_to_1_kib,
    issue::{IssueCode, Issues},
    json::Object,
    lines::{ObjectLine, note_bad_field},
    tree::Tree,
};

/// The agent of the runs.
pub(super) const AGENT: &str = "pi";

/// The operations and the queued messages so far.
#[derive(Debug, Default)]
pub(super) struct Operations {
    runs: Vec<SourceRun>,
    /// The position of each operation in `runs`, by its id.
    by_id: HashMap<String, usize>,
    /// The operations that were asked to stop. The messages that were queued for them are given up.
    aborted_operations: HashSet<String>,
    queued_input: Vec<QueuedInput>,
    queued_ids: HashSet<EntryId>,
    /// The ids of messages that were removed from a queue.
    cancelled_messages: HashSet<String>,
}

impl Operations {
    /// Reads a record. A record with a wrong field has no effect, and its line is kept.
    pub(super) fn read(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) {
        let object = &line.object;
        let result = match object.text("type").as_deref() {
            Some("operation_started") => self.start(object),
            Some("operation_finished") => self.finish(object),
            Some("abort_requested") => self.abort(object),
            Some("step_attempt") => self.count_step(object),
            Some("usage") => self.count_usage(object),
            Some("queue_enqueued") => self.enqueue(line, issues),
            Some("queue_cancelled") => self.cancel(object),
            _ => Ok(()),
        };
        if let Err(detail) = result {
            note_bad_field(issues, line.number, detail);
        }
    }

    fn start(&mut self, record: &Object<'_>) -> Result<(), String> {
        let id = record.text("id").filter(|id| !id.trim().is_empty()).ok_or("`id` of an operation is missing")?;
        record.object("intent").ok_or("`intent` is not an object")?;
        if self.by_id.contains_key(&id) {
            return Err(format!("the operation `{id}` begins twice"));
        }
        self.by_id.insert(id.clone(), self.runs.len());
        self.runs.push(SourceRun {
            id,
            agent: AGENT,
            request: record.without_fields(&["kind", "type", "id", "seq"]),
            end: None,
            detail: None,
            steps: 0,
            usage: TokenCounts::default(),
        });
        Ok(())
    }

    /// The operation that a record names.
    fn operation_of(&mut self, record: &Object<'_>) -> Result<&mut SourceRun, String> {
        let id = record.text("runId").ok_or("`runId` is not a string")?;
        let found = self.by_id.get(&id).and_then(|at| self.runs.get_mut(*at));
        found.ok_or_else(|| format!("no operation `{id}` begins before this record"))
    }

    fn finish(&mut self, record: &Object<'_>) -> Result<(), String> {
        let run = self.operation_of(record)?;
        if run.end.is_some() {
            return Err(format!("the operation `{}` ends twice", run.id));
        }
        let outcome = record.text("outcome");
        let error = record.object("error");
        let error_text = || error.as_ref().and_then(|error| error.text("message").or_else(|| error.text("code")));
        let mut end = Completion::new(match outcome.as_deref() {
            Some("completed") => RunOutcome::NaturalEnd,
            Some("aborted") => RunOutcome::Cancelled,
            // The operation was not allowed to begin.
            Some("declined") => RunOutcome::Blocked,
            Some("failed") => RunOutcome::Failed { error: error_text().unwrap_or_default() },
            other => RunOutcome::Stopped { code: cut_to_1_kib(other.unwrap_or("unknown")), detail: error_text() },
        });
        end.error = record.json("error").filter(|error| error.as_str() != "null");
        run.end = Some(end);
        outcome.map(|_| ()).ok_or_else(|| "`outcome` is not a string".to_owned())
    }

    fn abort(&mut self, record: &Object<'_>) -> Result<(), String> {
        let run = self.operation_of(record)?;
        run.detail = Some("it was asked to stop");
        let id = run.id.clone();
        self.aborted_operations.insert(id);
        Ok(())
    }

    /// Counts a step by its first attempt.
    fn count_step(&mut self, record: &Object<'_>) -> Result<(), String> {
        let is_first = record.number("attempt").ok_or("`attempt` is not a whole number")? == 1;
        let run = self.operation_of(record)?;
        run.steps = run.steps.saturating_add(u32::from(is_first));
        Ok(())
    }

    /// Counts the tokens of an operation. A record with a wrong field is noted later, when its entry is made.
    fn count_usage(&mut self, record: &Object<'_>) -> Result<(), String> {
        let spent = message::usage_record(record).and_then(|usage| usage.spent);
        if let Some(spent) = spent.filter(|_| record.has("runId")) {
            let run = self.operation_of(record)?;
            run.usage = run.usage.plus(&spent);
        }
        Ok(())
    }

    fn enqueue(&mut self, line: &ObjectLine<'_>, issues: &mut Issues) -> Result<(), String> {
        let record = &line.object;
        let target = record.object("target").ok_or("`target` is not an object")?;
        let id = target.text("id").ok_or("`id` of the queued message is not a string")?;
        let id = EntryId::new(&id).map_err(|e| format!("the id of the queued message: {e}"))?;
        if self.queued_ids.contains(&id) {
            return Err(format!("the message `{id}` is queued twice"));
        }
        let boundary = match record.text("queue").as_deref() {
            Some("steer") => Boundary::NextStep,
            Some("followUp") => Boundary::OnNaturalEnd,
            Some("nextRun") => Boundary::NewRun,
            Some(other) => {
                let action = "the message waits for the next run";
                issues.add(line.number, IssueCode::UnknownType, format!("the queue `{}`", cut_to_1_kib(other)), action);
                Boundary::NewRun
            }
            None => return Err("`queue` is not a string".to_owned()),
        };
        let fields = target.object("message").ok_or("the queued item is not a message")?;
        let source = MessageSource { line: line.number, name: id.as_str(), ..MessageSource::default() };
        let message = message::read(source, &fields, issues)?;
        check_message(&message).map_err(|e| e.to_string())?;
        let run = record.text("runId").filter(|run| boundary != Boundary::NewRun && self.by_id.contains_key(run));
        self.queued_ids.insert(id.clone());
        self.queued_input.push(QueuedInput { line: line.number, id, message, boundary, run });
        Ok(())
    }

    fn cancel(&mut self, record: &Object<'_>) -> Result<(), String> {
        let id = record.text("entryId").ok_or("`entryId` is not a string")?;
        let is_queued = EntryId::new(&id).is_ok_and(|id| self.queued_ids.contains(&id));
        if !is_queued {
            return Err(format!("no message `{id}` is queued before this record"));
        }
        self.cancelled_messages.insert(id);
        Ok(())
    }

    /// The runs, and the messages that are still queued at the end of the file: those that have no entry and were not
    /// given up.
    pub(super) fn take_activity(&mut self, tree: &Tree<LineData>) -> Activity {
        let Self { runs, aborted_operations, queued_input, cancelled_messages, .. } = std::mem::take(self);
        let (queued_input, dequeued): (Vec<_>, Vec<_>) = queued_input.into_iter().partition(|input| {
            let id = input.id.as_str();
            let is_given_up = cancelled_messages.contains(id)
                || input.run.as_ref().is_some_and(|run| aborted_operations.contains(run));
            !is_given_up && tree.nodes_with_id(id).is_empty()
        });
        Activity { runs, queued_input, dequeued_ids: dequeued.into_iter().map(|input| input.id).collect() }
    }
}
