//! Pairs calls with results: every call gets one result, directly after the message of the call (CX-6 to CX-8).

use store_core::{
    Block, BlockKind, EntryId, Message, OpenCalls, Repair, RepairKind, Role, ToolResult, context::NO_RESULT,
};

use super::{bug::Bug, context::Piece};

/// The position of a block: the index of its message, and its index in the message.
type BlockPosition = (usize, usize);

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
    let mut paired = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if piece.message.role == Role::Tool {
            if bug == Some(Bug::OrphanResultsKept)
                && !calls.iter().any(|call| call.result.is_some_and(|(i, _)| i == at))
            {
                paired.push(piece.clone());
            }
            continue;
        }
        let unanswered = calls.iter().filter(|call| call.position.0 == at && call.result.is_none());
        let unanswered: Vec<_> = unanswered.map(|call| call.id.clone()).collect();
        let (piece, answer) = handle_open_calls(piece.clone(), &unanswered, open_calls, repairs);
        paired.push(piece);
        for tool in 0..pieces.len() {
            let wanted = calls.iter().filter(|call| call.position.0 == at).filter_map(|call| call.result);
            let wanted: Vec<_> = wanted.filter(|(i, _)| *i == tool).map(|(_, block)| block).collect();
            if let Some(source) = pieces.get(tool).filter(|_| !wanted.is_empty()) {
                let is_first_part = !used_tool_messages.contains(&tool);
                used_tool_messages.push(tool);
                add_move_repairs(pieces, (tool, at), &wanted, repairs);
                paired.push(select_results(source, &wanted, is_first_part));
            }
        }
        paired.extend(answer);
    }
    for (at, piece) in pieces.iter().enumerate() {
        if piece.message.role == Role::Tool && !used_tool_messages.contains(&at) {
            repairs.push(Repair::new(piece.entry.clone(), RepairKind::EmptyMessageDropped, None));
        }
    }
    paired
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
        let before = calls.iter().rposition(|call| call.id == *id && call.position.0 < position.0);
        let owner = before.or_else(|| calls.iter().position(|call| call.id == *id));
        match owner.and_then(|at| calls.get_mut(at)) {
            None => add_repair(entry(position.0), RepairKind::OrphanResultDropped, id),
            Some(call) => {
                if let Some((earlier, _)) = call.result.replace(position) {
                    add_repair(entry(earlier), RepairKind::EarlierResultDropped, id);
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
        .flat_map(|(at, blocks)| (0..blocks).map(move |block| (at, block)));
    positions.filter_map(|position| Some((position, &pieces.get(position.0)?.message.blocks.get(position.1)?.kind)))
}

/// Adds a repair for each moved result. A result is not moved if only tool messages lie between its message and the
/// message of its call.
fn add_move_repairs(pieces: &[Piece], tool_and_call: (usize, usize), wanted: &[usize], repairs: &mut Vec<Repair>) {
    let (tool, call) = tool_and_call;
    let preceding = pieces.iter().take(tool).rposition(|piece| piece.message.role != Role::Tool);
    let Some(piece) = pieces.get(tool).filter(|_| preceding != Some(call)) else { return };
    for block in wanted.iter().filter_map(|at| piece.message.blocks.get(*at)) {
        if let BlockKind::ToolResult(result) = &block.kind {
            let id = Some(result.tool_use_id.clone());
            repairs.push(Repair::new(piece.entry.clone(), RepairKind::ResultMoved, id));
        }
    }
}

/// Returns a tool message with only the wanted results. Its blocks of other kinds are included if `is_first_part` is
/// set (for the first results that are taken from the message).
fn select_results(source: &Piece, wanted: &[usize], is_first_part: bool) -> Piece {
    let mut piece = source.clone();
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    let blocks = source.message.blocks.iter().enumerate();
    let is_selected =
        |(at, block): &(usize, &Block)| if is_result(block) { wanted.contains(at) } else { is_first_part };
    piece.message.blocks = blocks.filter(is_selected).map(|(_, block)| block.clone()).collect();
    piece
}

/// Treats the calls of a message that have no result as `open_calls` says. Returns the message, and a message with the
/// results that were added, if any.
fn handle_open_calls(
    mut piece: Piece,
    unanswered: &[String],
    open_calls: OpenCalls,
    repairs: &mut Vec<Repair>,
) -> (Piece, Option<Piece>) {
    let kind = match open_calls {
        _ if unanswered.is_empty() => return (piece, None),
        OpenCalls::Keep => return (piece, None),
        OpenCalls::Answer => RepairKind::OpenCallAnswered,
        OpenCalls::Drop => RepairKind::OpenCallDropped,
    };
    repairs.extend(unanswered.iter().map(|id| Repair::new(piece.entry.clone(), kind, Some(id.clone()))));
    if open_calls == OpenCalls::Drop {
        let is_open = |block: &Block| matches!(&block.kind, BlockKind::ToolUse(call) if unanswered.contains(&call.id));
        piece.message.blocks.retain(|block| !is_open(block));
        return (piece, None);
    }
    let missing_result = |id: &String| {
        let mut result = ToolResult::new(id, vec![Block::text(NO_RESULT)]);
        result.is_error = Some(true);
        Block::new(BlockKind::ToolResult(result))
    };
    let message = Message::new(Role::Tool, unanswered.iter().map(missing_result).collect());
    let answer = Piece::new(piece.entry.clone(), true, message);
    (piece, Some(answer))
}
