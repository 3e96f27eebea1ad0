//! Pairs each call with at most one result, which comes directly after the message of the call (CX-6 to CX-8).

use store_core::{
    Block, BlockKind, EntryId, Message, OpenCalls, Repair, RepairKind, Role, ToolResult, context::NO_RESULT,
};

use super::{bug::Bug, context::Piece};

/// The position of a block: the index of its message, and its index in the message.
#[derive(Debug, Clone, Copy)]
struct BlockPosition {
    message: usize,
    block: usize,
}

/// A call and the result that answers it.
#[derive(Debug)]
struct CallWithResult {
    position: BlockPosition,
    id: String,
    result: Option<BlockPosition>,
}

/// Moves results directly after their calls, and treats calls without a result as `open_calls` says.
pub(super) fn pair_results(
    pieces: &[Piece],
    open_calls: OpenCalls,
    bug: Option<Bug>,
    repairs: &mut Vec<Repair>,
) -> Vec<Piece> {
    let calls = match_results(pieces, repairs);
    let mut used_tool_messages = Vec::new();
    let mut paired_pieces = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if piece.message.role == Role::Tool {
            if bug == Some(Bug::OrphanResultsKept)
                && !calls.iter().any(|call| call.result.is_some_and(|result| result.message == at))
            {
                paired_pieces.push(piece.clone());
            }
            continue;
        }
        let unanswered_calls = calls.iter().filter(|call| call.position.message == at && call.result.is_none());
        let unanswered_ids: Vec<_> = unanswered_calls.map(|call| call.id.clone()).collect();
        let (piece, answer) = handle_open_calls(piece.clone(), &unanswered_ids, open_calls, repairs);
        paired_pieces.push(piece);
        for tool in 0..pieces.len() {
            let results = calls.iter().filter(|call| call.position.message == at).filter_map(|call| call.result);
            let wanted_blocks: Vec<_> =
                results.filter(|result| result.message == tool).map(|result| result.block).collect();
            if let Some(source) = pieces.get(tool).filter(|_| !wanted_blocks.is_empty()) {
                let is_first_part = !used_tool_messages.contains(&tool);
                used_tool_messages.push(tool);
                add_move_repairs(pieces, (tool, at), &wanted_blocks, repairs);
                paired_pieces.push(select_results(source, &wanted_blocks, is_first_part));
            }
        }
        paired_pieces.extend(answer);
    }
    for (at, piece) in pieces.iter().enumerate() {
        if piece.message.role == Role::Tool && !used_tool_messages.contains(&at) {
            repairs.push(Repair::new(piece.entry.clone(), RepairKind::EmptyMessageDropped, None));
        }
    }
    paired_pieces
}

/// Returns every call with the last result that belongs to it. A result belongs to the nearest call with its id in an
/// earlier message. If there is none, it belongs to the first call with its id.
fn match_results(pieces: &[Piece], repairs: &mut Vec<Repair>) -> Vec<CallWithResult> {
    let mut calls: Vec<CallWithResult> = Vec::new();
    for (position, kind) in blocks(pieces) {
        if let BlockKind::ToolUse(call) = kind {
            calls.push(CallWithResult { position, id: call.id.clone(), result: None });
        }
    }
    let entry = |at: usize| pieces.get(at).map(|piece| piece.entry.clone());
    let mut add_repair = |entry: Option<EntryId>, kind, id: &str| {
        repairs.extend(entry.map(|entry| Repair::new(entry, kind, Some(id.to_owned()))));
    };
    for (position, kind) in blocks(pieces) {
        let BlockKind::ToolResult(result) = kind else { continue };
        let id = &result.tool_use_id;
        let nearest_earlier = calls.iter().rposition(|call| call.id == *id && call.position.message < position.message);
        let owner = nearest_earlier.or_else(|| calls.iter().position(|call| call.id == *id));
        match owner.and_then(|at| calls.get_mut(at)) {
            None => add_repair(entry(position.message), RepairKind::OrphanResultDropped, id),
            Some(call) => {
                if let Some(earlier) = call.result.replace(position) {
                    add_repair(entry(earlier.message), RepairKind::EarlierResultDropped, id);
                }
            }
        }
    }
    calls
}

fn blocks(pieces: &[Piece]) -> impl Iterator<Item = (BlockPosition, &BlockKind)> {
    let index_and_length = |(at, piece): (usize, &'_ Piece)| (at, piece.message.blocks.len());
    let positions = pieces
        .iter()
        .enumerate()
        .map(index_and_length)
        .flat_map(|(message, block_count)| (0..block_count).map(move |block| BlockPosition { message, block }));
    positions.filter_map(|position| {
        Some((position, &pieces.get(position.message)?.message.blocks.get(position.block)?.kind))
    })
}

/// Adds a repair for each moved result. A result is not moved if there are only tool messages between its message and
/// the message of its call.
fn add_move_repairs(
    pieces: &[Piece],
    tool_and_call_message: (usize, usize),
    wanted_blocks: &[usize],
    repairs: &mut Vec<Repair>,
) {
    let (tool, call) = tool_and_call_message;
    let preceding_message = pieces.iter().take(tool).rposition(|piece| piece.message.role != Role::Tool);
    let Some(piece) = pieces.get(tool).filter(|_| preceding_message != Some(call)) else { return };
    for block in wanted_blocks.iter().filter_map(|at| piece.message.blocks.get(*at)) {
        if let BlockKind::ToolResult(result) = &block.kind {
            let id = Some(result.tool_use_id.clone());
            repairs.push(Repair::new(piece.entry.clone(), RepairKind::ResultMoved, id));
        }
    }
}

/// Returns a part of a tool message: the wanted results, and in the first part also the blocks of other kinds.
fn select_results(source: &Piece, wanted_blocks: &[usize], is_first_part: bool) -> Piece {
    let mut piece = source.clone();
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    let blocks = source.message.blocks.iter().enumerate();
    let is_selected =
        |(at, block): &(usize, &Block)| if is_result(block) { wanted_blocks.contains(at) } else { is_first_part };
    piece.message.blocks = blocks.filter(is_selected).map(|(_, block)| block.clone()).collect();
    piece
}

/// Treats the calls of a message that have no result as `open_calls` says. Returns the message and, if results were
/// added, a message with these results.
fn handle_open_calls(
    mut piece: Piece,
    unanswered_ids: &[String],
    open_calls: OpenCalls,
    repairs: &mut Vec<Repair>,
) -> (Piece, Option<Piece>) {
    let kind = match open_calls {
        _ if unanswered_ids.is_empty() => return (piece, None),
        OpenCalls::Keep => return (piece, None),
        OpenCalls::Answer => RepairKind::OpenCallAnswered,
        OpenCalls::Drop => RepairKind::OpenCallDropped,
    };
    repairs.extend(unanswered_ids.iter().map(|id| Repair::new(piece.entry.clone(), kind, Some(id.clone()))));
    if open_calls == OpenCalls::Drop {
        let is_open =
            |block: &Block| matches!(&block.kind, BlockKind::ToolUse(call) if unanswered_ids.contains(&call.id));
        piece.message.blocks.retain(|block| !is_open(block));
        return (piece, None);
    }
    let result_for_open_call = |id: &String| {
        let mut result = ToolResult::new(id, vec![Block::text(NO_RESULT)]);
        result.is_error = Some(true);
        Block::new(BlockKind::ToolResult(result))
    };
    let message = Message::new(Role::Tool, unanswered_ids.iter().map(result_for_open_call).collect());
    let answer = Piece::synthetic(piece.entry.clone(), message);
    (piece, Some(answer))
}
