//! Where a context is split, so that each call stays together with its result, in the context and in the log.

use store_core::{
    BlockKind, Context, ContextMessage, EntryId, Error, Interval, LogReaderExt, RepairKind, Result, Role,
    ThreadContext, ThreadRunStore,
    context::{ContextSplit, split_for_compaction},
};

/// The place where a context is split, and the entries that a summary of the older part covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boundary {
    /// The index of the first message that stays.
    pub(super) kept_from: usize,
    /// The entries of the messages before `kept_from`, without system messages at the beginning.
    pub(super) interval: Interval,
}

/// Returns where the context is split so that the last `kept_count` user and assistant messages stay, or none if a
/// summary would replace nothing but an earlier summary.
///
/// More messages stay if a call would otherwise lose its result: the result was recorded after the place of the split,
/// or the run that made the call is open and has not recorded the result yet (CX-20).
pub(super) async fn find_boundary(
    threads: &dyn ThreadRunStore,
    found: &ThreadContext,
    kept_count: usize,
) -> Result<Option<Boundary>> {
    let context = &found.context;
    let split = split_for_compaction(context, kept_count);
    let mut kept_from = split.system.len() + split.older.len();
    let late_results = load_late_results(threads, found, kept_from).await?;
    loop {
        kept_from = start_of_summary(context, kept_from);
        let split = ContextSplit::at(context, kept_from);
        if split.older.iter().all(|message| message.synthetic) {
            return Ok(None);
        }
        let Some(interval) = threads.load_compaction_interval(&found.thread.id, &split).await? else {
            return Ok(None);
        };
        let last_seq = load_entry_seq(threads, found, &interval.to).await?;
        let separated_results =
            late_results.iter().filter(|late| late.call_index < kept_from && late.result_seq > last_seq);
        match separated_results.map(|late| late.call_index).min() {
            Some(call_index) => kept_from = call_index,
            None => return Ok(Some(Boundary { kept_from, interval })),
        }
    }
}

/// Returns the index of the first message of a summary, if the message at `index` belongs to one. A summary can have
/// several messages, which are summarised together or stay together.
fn start_of_summary(context: &Context, mut index: usize) -> usize {
    let message = |index: usize| context.messages.get(index);
    while let (Some(previous), Some(current)) = (index.checked_sub(1).and_then(message), message(index))
        && current.synthetic
        && previous.synthetic
        && previous.entry == current.entry
    {
        index -= 1;
    }
    index
}

/// A result that does not directly follow its call in the log.
struct LateResult {
    /// The index of the message with the call.
    call_index: usize,
    /// The sequence number of the entry with the result; `u64::MAX` if the result may still be recorded.
    result_seq: u64,
}

/// Returns the late results of the calls in the messages before `end`. The repairs of the context name all such calls:
/// a result was moved to its call, or a call got a synthetic result because none is recorded.
async fn load_late_results(threads: &dyn ThreadRunStore, found: &ThreadContext, end: usize) -> Result<Vec<LateResult>> {
    let mut late_results = Vec::new();
    let messages = found.context.messages.get(..end).unwrap_or_default();
    for repair in &found.context.repairs {
        let Some(id) = &repair.tool_use_id else { continue };
        match repair.kind {
            RepairKind::ResultMoved => {
                let Some(call_index) = call_of_moved_result(messages, &repair.entry, id) else { continue };
                late_results
                    .push(LateResult { call_index, result_seq: load_entry_seq(threads, found, &repair.entry).await? });
            }
            RepairKind::OpenCallAnswered if !found.open_runs.is_empty() => {
                let Some(call_index) = index_of_logged_message(messages, &repair.entry) else { continue };
                let entry = threads.load_entry(&found.thread.id, &repair.entry).await?;
                let run = entry.and_then(|entry| entry.run.clone());
                if found.open_runs.iter().any(|open| Some(&open.id) == run.as_ref()) {
                    late_results.push(LateResult { call_index, result_seq: u64::MAX });
                }
            }
            _ => {}
        }
    }
    Ok(late_results)
}

/// Returns the index of the message with the call to which a result was moved.
fn call_of_moved_result(messages: &[ContextMessage], entry: &EntryId, id: &str) -> Option<usize> {
    let has_result = |message: &ContextMessage| {
        message.entry == *entry
            && message
                .message
                .blocks
                .iter()
                .any(|block| matches!(&block.kind, BlockKind::ToolResult(result) if result.tool_use_id == id))
    };
    let result = messages.iter().position(has_result)?;
    messages.get(..result)?.iter().rposition(|message| message.message.role != Role::Tool)
}

fn index_of_logged_message(messages: &[ContextMessage], entry: &EntryId) -> Option<usize> {
    messages.iter().position(|message| message.entry == *entry && !message.synthetic)
}

async fn load_entry_seq(threads: &dyn ThreadRunStore, found: &ThreadContext, entry: &EntryId) -> Result<u64> {
    let loaded = threads.load_entry(&found.thread.id, entry).await?;
    loaded.map(|entry| entry.seq).ok_or_else(|| Error::not_found("entry", entry))
}
