//! What lines about pending input change in the index.

use store_core::{EntryId, Result, codec::Codec, pending::StoredInput};

use crate::{
    codec::{InputRow, Rows, damaged},
    line::{DecisionLine, QueueLine},
    log::Span,
    staged::Staged,
    table,
};

/// Puts an input into its place.
pub(super) fn input(staged: &mut Staged<'_>, log: u64, stored: &StoredInput, span: Span) {
    let StoredInput { input, rank, .. } = stored;
    let row = InputRow { span, id: input.id.clone() };
    staged.put(table::inputs(log).number(*rank), row.encode());
    staged.put(table::input_rank(log, &input.id), rank.to_be_bytes());
    if let Some((decision, record)) = input.decision() {
        staged.put(table::decision(log, &decision.run, &decision.ticket), record.encode());
    }
}

/// Puts what is kept about a decision.
pub(super) fn decision(staged: &mut Staged<'_>, log: u64, line: &DecisionLine) {
    staged.put(table::decision(log, &line.run, &line.ticket), line.record.encode());
}

/// Removes inputs, and gives others new places.
pub(super) fn queue(staged: &mut Staged<'_>, log: u64, line: &QueueLine) -> Result<()> {
    for id in &line.removed {
        take(staged, log, id)?;
        staged.delete(table::input_rank(log, id));
    }
    for (id, rank) in &line.ranks {
        let row = take(staged, log, id)?;
        staged.put(table::inputs(log).number(*rank), row.encode());
        staged.put(table::input_rank(log, id), rank.to_be_bytes());
    }
    Ok(())
}

/// Takes an input from its place.
fn take(staged: &mut Staged<'_>, log: u64, id: &EntryId) -> Result<InputRow> {
    let rank = staged.input_rank(log, id)?.ok_or_else(|| damaged("pending input"))?;
    let row = staged.expect_input(log, rank)?;
    staged.delete(table::inputs(log).number(rank));
    Ok(row)
}
