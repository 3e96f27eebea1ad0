//! Ensures that every call has exactly one result, directly after the message of the call (CX-6 to CX-8).

use std::collections::{BTreeMap, BTreeSet};

use super::{
    OpenCalls, Repair, RepairKind,
    message_draft::{MessageDraft, MessageKind},
};
use crate::log::{Block, BlockKind, Message, Role, ToolResult};

/// The text of the synthetic result of a call for which no result was recorded (CX-7).
pub const NO_RESULT: &str = "no result was recorded";

/// Puts results directly after their calls, and treats calls without a result as `open_calls` says.
pub(super) fn pair_calls_with_results(
    drafts: Vec<MessageDraft>,
    open_calls: OpenCalls,
    repairs: &mut Vec<Repair>,
) -> Vec<MessageDraft> {
    let mut call_results = CallResults::of(calls_with_results(&drafts, repairs));
    let (other_messages, mut tool_messages) = separate_tool_messages(drafts);
    let mut paired_drafts = Vec::new();
    for (at, mut draft) in other_messages {
        let open_ids = call_results.open.remove(&at).unwrap_or_default();
        let synthetic_results = handle_open_calls(&mut draft, open_ids.into_values().collect(), open_calls, repairs);
        paired_drafts.push(draft);
        for (tool_index, result_indexes) in call_results.results.remove(&at).unwrap_or_default() {
            paired_drafts.extend(
                tool_messages
                    .get_mut(&tool_index)
                    .map(|tool_message| tool_message.take_results(at, &result_indexes, repairs)),
            );
        }
        paired_drafts.extend(synthetic_results);
    }
    for tool_message in tool_messages.into_values().filter(|tool_message| !tool_message.is_used) {
        repairs.push(Repair::new(tool_message.draft.entry, RepairKind::EmptyMessageDropped, None));
    }
    paired_drafts
}

/// A call and its last result.
struct Call {
    /// The index of the message with the call.
    message: usize,
    /// The index of the call among the blocks of the message.
    block: usize,
    /// The index of the message with the result, and the index of the result among the blocks of that message.
    result: Option<(usize, usize)>,
}

/// Returns the calls by their ids, each with its last result.
///
/// Several messages may contain a call with the same id. A result then belongs to the nearest call before the result,
/// and to a later call only if there is no earlier one.
fn calls_with_results(drafts: &[MessageDraft], repairs: &mut Vec<Repair>) -> BTreeMap<String, Vec<Call>> {
    let mut calls: BTreeMap<String, Vec<Call>> = BTreeMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        for (block, kind) in block_kinds(&draft.message) {
            if let BlockKind::ToolUse(call) = kind {
                calls.entry(call.id.clone()).or_default().push(Call { message: at, block, result: None });
            }
        }
    }
    for (at, draft) in drafts.iter().enumerate() {
        for (block, kind) in block_kinds(&draft.message) {
            let BlockKind::ToolResult(result) = kind else { continue };
            let id = &result.tool_use_id;
            let left_out = match calls.get_mut(id).and_then(|calls_with_id| answered_call(calls_with_id, at)) {
                None => Some((RepairKind::OrphanResultDropped, draft)),
                Some(call) => {
                    let earlier_result = call.result.replace((at, block));
                    let earlier_result = earlier_result.and_then(|(at, _)| drafts.get(at));
                    earlier_result.map(|draft| (RepairKind::EarlierResultDropped, draft))
                }
            };
            if let Some((kind, draft)) = left_out {
                repairs.push(Repair::new(draft.entry.clone(), kind, Some(id.clone())));
            }
        }
    }
    calls
}

fn block_kinds(message: &Message) -> impl Iterator<Item = (usize, &BlockKind)> {
    message.blocks.iter().map(|block| &block.kind).enumerate()
}

/// Returns the call that a result in message `at` answers.
fn answered_call(calls_with_id: &mut [Call], at: usize) -> Option<&mut Call> {
    let calls_before = calls_with_id.partition_point(|call| call.message < at);
    calls_with_id.get_mut(calls_before.saturating_sub(1))
}

/// The results that have to follow each message with calls.
#[derive(Default)]
struct CallResults {
    /// For the index of each message with calls: the indexes of the tool messages with its results, and for each of
    /// them the indexes of the result blocks.
    results: BTreeMap<usize, BTreeMap<usize, BTreeSet<usize>>>,
    /// For the index of each message with calls: the ids of the calls without a result, by the index of their block.
    open: BTreeMap<usize, BTreeMap<usize, String>>,
}

impl CallResults {
    fn of(calls: BTreeMap<String, Vec<Call>>) -> Self {
        let mut call_results = Self::default();
        for (id, call) in calls
            .into_iter()
            .flat_map(|(id, calls_with_id)| calls_with_id.into_iter().map(move |call| (id.clone(), call)))
        {
            match call.result {
                Some((tool, block)) => {
                    call_results.results.entry(call.message).or_default().entry(tool).or_default().insert(block);
                }
                None => {
                    call_results.open.entry(call.message).or_default().insert(call.block, id);
                }
            }
        }
        call_results
    }
}

/// Keeps the open calls of a message, removes them, or returns a message with synthetic results for them.
fn handle_open_calls(
    draft: &mut MessageDraft,
    open_ids: Vec<String>,
    open_calls: OpenCalls,
    repairs: &mut Vec<Repair>,
) -> Option<MessageDraft> {
    if open_ids.is_empty() || open_calls == OpenCalls::Keep {
        return None;
    }
    let kind = if open_calls == OpenCalls::Drop { RepairKind::OpenCallDropped } else { RepairKind::OpenCallAnswered };
    repairs.extend(open_ids.iter().map(|id| Repair::new(draft.entry.clone(), kind, Some(id.clone()))));
    if open_calls == OpenCalls::Drop {
        draft
            .message
            .blocks
            .retain(|block| !matches!(&block.kind, BlockKind::ToolUse(call) if open_ids.contains(&call.id)));
        return None;
    }
    let message = Message::new(Role::Tool, open_ids.into_iter().map(synthetic_result).collect());
    Some(MessageDraft::new(draft.entry.clone(), MessageKind::SyntheticResult, message))
}

/// Returns the synthetic result of a call.
fn synthetic_result(id: String) -> Block {
    let mut result = ToolResult::new(id, vec![Block::text(NO_RESULT)]);
    result.is_error = Some(true);
    Block::new(BlockKind::ToolResult(result))
}

/// A tool message, from which results are moved to their calls.
struct ToolMessage {
    draft: MessageDraft,
    blocks: Vec<Option<Block>>,
    /// The index of the last message before this one that is not a tool message.
    preceding_message: Option<usize>,
    is_used: bool,
}

/// Separates tool messages from all others. Both are returned with their indexes.
fn separate_tool_messages(drafts: Vec<MessageDraft>) -> (Vec<(usize, MessageDraft)>, BTreeMap<usize, ToolMessage>) {
    let (mut other_messages, mut tool_messages) = (Vec::new(), BTreeMap::new());
    let mut preceding_message = None;
    for (at, mut draft) in drafts.into_iter().enumerate() {
        if draft.role() == Role::Tool {
            let blocks = std::mem::take(&mut draft.message.blocks).into_iter().map(Some).collect();
            tool_messages.insert(at, ToolMessage { draft, blocks, preceding_message, is_used: false });
        } else {
            preceding_message = Some(at);
            other_messages.push((at, draft));
        }
    }
    (other_messages, tool_messages)
}

impl ToolMessage {
    /// Returns a tool message with the results at `result_indexes`, for the calls in message `call_index`. The first
    /// message that is returned also has the blocks that are not results.
    fn take_results(
        &mut self,
        call_index: usize,
        result_indexes: &BTreeSet<usize>,
        repairs: &mut Vec<Repair>,
    ) -> MessageDraft {
        let mut draft = self.draft.clone();
        for (at, block) in self.blocks.iter_mut().enumerate() {
            let answered_id = block.as_ref().and_then(|block| match &block.kind {
                BlockKind::ToolResult(result) => Some(result.tool_use_id.clone()),
                _ => None,
            });
            let is_included = if answered_id.is_some() { result_indexes.contains(&at) } else { !self.is_used };
            if !is_included {
                continue;
            }
            draft.message.blocks.extend(block.take());
            if answered_id.is_some() && self.preceding_message != Some(call_index) {
                repairs.push(Repair::new(draft.entry.clone(), RepairKind::ResultMoved, answered_id));
            }
        }
        self.is_used = true;
        draft
    }
}
