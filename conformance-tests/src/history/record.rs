//! Records calls and their answers, in the order in which they happen.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// A call of a history. Times are those of the recorder's logical clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation<O, A> {
    /// What was called.
    pub op: O,
    /// The time at which it was called.
    pub invoked: u64,
    /// The time at which it returned, and its answer. `None` if the outcome is unknown: the operation may have taken
    /// effect at any time after it was invoked, or never.
    pub returned: Option<(u64, A)>,
}

/// Records the history of many concurrent tasks.
///
/// One lock protects the clock and the recorded calls. So if one call returned before another was invoked, the return
/// of the first has a lower time than the invocation of the second.
#[derive(Debug)]
pub struct Recorder<O, A> {
    recorded_calls: Mutex<RecordedCalls<O, A>>,
}

#[derive(Debug)]
struct RecordedCalls<O, A> {
    clock: u64,
    operations: Vec<Operation<O, A>>,
}

/// Identifies an operation that was invoked. The caller passes it to [`Recorder::record_return`] when the operation
/// returns.
#[derive(Debug)]
#[must_use]
pub struct Invocation(usize);

impl<O, A> Default for Recorder<O, A> {
    fn default() -> Self {
        Self { recorded_calls: Mutex::new(RecordedCalls { clock: 0, operations: Vec::new() }) }
    }
}

impl<O, A> Recorder<O, A> {
    fn recorded_calls(&self) -> MutexGuard<'_, RecordedCalls<O, A>> {
        self.recorded_calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the clock and returns the new time.
    pub fn tick(&self) -> u64 {
        self.recorded_calls().tick()
    }

    /// Records that an operation is about to be called.
    pub fn record_invocation(&self, op: O) -> Invocation {
        let mut recorded_calls = self.recorded_calls();
        let invoked = recorded_calls.tick();
        recorded_calls.operations.push(Operation { op, invoked, returned: None });
        Invocation(recorded_calls.operations.len() - 1)
    }

    /// Records the answer of an operation. The caller does not call this method if the outcome of the operation is
    /// unknown.
    #[expect(clippy::needless_pass_by_value, reason = "an operation returns once")]
    pub fn record_return(&self, invocation: Invocation, answer: A) {
        let mut recorded_calls = self.recorded_calls();
        let now = recorded_calls.tick();
        recorded_calls.operations[invocation.0].returned = Some((now, answer));
    }

    /// Returns the history so far, and removes it from the recorder.
    #[must_use]
    pub fn take(&self) -> Vec<Operation<O, A>> {
        std::mem::take(&mut self.recorded_calls().operations)
    }
}

impl<O, A> RecordedCalls<O, A> {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

/// Writes a history as JSON lines, so that it can be stored and checked again.
///
/// # Errors
/// If an operation cannot be written as JSON.
pub fn to_json_lines<O: Serialize, A: Serialize>(history: &[Operation<O, A>]) -> serde_json::Result<String> {
    let mut lines = String::new();
    for operation in history {
        lines.push_str(&serde_json::to_string(operation)?);
        lines.push('\n');
    }
    Ok(lines)
}

/// Reads a history from JSON lines.
///
/// # Errors
/// If a line is not an operation.
pub fn from_json_lines<O, A>(lines: &str) -> serde_json::Result<Vec<Operation<O, A>>>
where
    O: for<'a> Deserialize<'a>,
    A: for<'a> Deserialize<'a>,
{
    lines.lines().map(serde_json::from_str).collect()
}
