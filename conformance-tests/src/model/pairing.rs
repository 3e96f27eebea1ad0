//! Pairs calls with results: every call gets one result, directly after the message of the call (CX-6 to CX-8).

use store_core::{
    Block, BlockKind, EntryId, Message, OpenCalls, Repair, RepairKind, Role, ToolResult, context::NO_RESULT,
};

use super::{bug::Bug, context::Piece};

/// The position of a block: the index of its message, and its index in the message.
type BlockPosition = (usize, usize);

/// A call and the result that answers it.
#[derive(Debug)]
struct Call {
    position: BlockPosition,
    id: String,
    result: Option<BlockPosition>,
}

/// Moves results directly after their calls, and treats calls without a result as `open` says.
pub(super) fn pair_results(
    pieces: &[Piece],
    open: OpenCalls,
    bug: Option<Bug>,
    repairs: &mut Vec<Repair>,
) -> Vec<Piece> {
    let calls = match_results(pieces, repairs);
    let mut used = Vec::new();
    let mut out = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if piece.message.role == Role::Tool {
            if bug == Some(Bug::OrphanResultsKept)
                && !calls.iter().any(|call| call.result.is_some_and(|(i, _)| i == at))
            {
                out.push(piece.clone());
            }
            continue;
        }
        let unanswered = calls.iter().filter(|call| call.position.0 == at && call.result.is_none());
        let unanswered: Vec<_> = unanswered.map(|call| call.id.clone()).collect();
        let (piece, answer) = handle_open_calls(piece.clone(), &unanswered, open, repairs);
        out.push(piece);
        for tool in 0..pieces.len() {
            let wanted = calls.iter().filter(|call| call.position.0 == at).filter_map(|call| call.result);
            let wanted: Vec<_> = wanted.filter(|(i, _)| *i == tool).map(|(_, block)| block).collect();
            if let Some(source) = pieces.get(tool).filter(|_| !wanted.is_empty()) {
                let first = !used.contains(&tool);
                used.push(tool);
                note_moved(pieces, (tool, at), &wanted, repairs);
                out.push(select_results(source, &wanted, first));
            }
        }
        out.extend(answer);
    }
    for (at, piece) in pieces.iter().enumerate() {
        if piece.message.role == Role::Tool && !used.contains(&at) {
            repairs.push(Repair::new(piece.entry.clone(), RepairKind::EmptyMessageDropped, None));
        }
    }
    out
}

/// Returns every call with the last result that belongs to it. A result belongs to the nearest call with its id in an
/// earlier message. If there is none, it belongs to the first call with its id.
fn match_results(pieces: &[Piece], repairs: &mut Vec<Repair>) -> Vec<Call> {
    let mut found: Vec<Call> = Vec::new();
    for (position, kind) in blocks(pieces) {
        if let BlockKind::ToolUse(call) = kind {
            found.push(Call { position, id: call.id.clone(), result: None });
        }
    }
    let entry = |at: usize| pieces.get(at).map(|piece| piece.entry.clone());
    let mut note = |entry: Option<EntryId>, kind, id: &str| {
        repairs.extend(entry.map(|entry| Repair::new(entry, kind, Some(id.to_owned()))));
    };
    for (position, kind) in blocks(pieces) {
        let BlockKind::ToolResult(result) = kind else { continue };
        let id = &result.tool_use_id;
        let before = found.iter().rposition(|call| call.id == *id && call.position.0 < position.0);
        let owner = before.or_else(|| found.iter().position(|call| call.id == *id));
        match owner.and_then(|at| found.get_mut(at)) {
            None => note(entry(position.0), RepairKind::OrphanResultDropped, id),
            Some(call) => {
                if let Some((earlier, _)) = call.result.replace(position) {
                    note(entry(earlier), RepairKind::EarlierResultDropped, id);
                }
            }
        }
    }
    found
}

fn blocks(pieces: &[Piece]) -> impl Iterator<Item = (BlockPosition, &BlockKind)> {
    let of = |(at, piece): (usize, &'_ Piece)| (at, piece.message.blocks.len());
    let places = pieces.iter().enumerate().map(of).flat_map(|(at, blocks)| (0..blocks).map(move |block| (at, block)));
    places.filter_map(|position| Some((position, &pieces.get(position.0)?.message.blocks.get(position.1)?.kind)))
}

/// Adds a repair for each moved result. A result is not moved if only tool messages lie between its message and the
/// message of its call.
fn note_moved(pieces: &[Piece], from: (usize, usize), wanted: &[usize], repairs: &mut Vec<Repair>) {
    let (tool, call) = from;
    let behind = pieces.iter().take(tool).rposition(|piece| piece.message.role != Role::Tool);
    let Some(piece) = pieces.get(tool).filter(|_| behind != Some(call)) else { return };
    for block in wanted.iter().filter_map(|at| piece.message.blocks.get(*at)) {
        if let BlockKind::ToolResult(result) = &block.kind {
            let id = Some(result.tool_use_id.clone());
            repairs.push(Repair::new(piece.entry.clone(), RepairKind::ResultMoved, id));
        }
    }
}

/// Returns a tool message with only the wanted results. Its blocks of other kinds are included if `first` is set, for
/// the first results that are taken from the message.
fn select_results(source: &Piece, wanted: &[usize], first: bool) -> Piece {
    let mut piece = source.clone();
    let is_result = |block: &Block| matches!(block.kind, BlockKind::ToolResult(_));
    let blocks = source.message.blocks.iter().enumerate();
    let is_selected = |(at, block): &(usize, &Block)| if is_result(block) { wanted.contains(at) } else { first };
    piece.message.blocks = blocks.filter(is_selected).map(|(_, block)| block.clone()).collect();
    piece
}

/// Treats the calls of a message that have no result as `open` says. Returns the message, and a message with the
/// results that were added, if any.
fn handle_open_calls(
    mut piece: Piece,
    unanswered: &[String],
    open: OpenCalls,
    repairs: &mut Vec<Repair>,
) -> (Piece, Option<Piece>) {
    let kind = match open {
        _ if unanswered.is_empty() => return (piece, None),
        OpenCalls::Keep => return (piece, None),
        OpenCalls::Answer => RepairKind::OpenCallAnswered,
        OpenCalls::Drop => RepairKind::OpenCallDropped,
    };
    repairs.extend(unanswered.iter().map(|id| Repair::new(piece.entry.clone(), kind, Some(id.clone()))));
    if open == OpenCalls::Drop {
        let is_open = |block: &Block| matches!(&block.kind, BlockKind::ToolUse(call) if unanswered.contains(&call.id));
        piece.message.blocks.retain(|block| !is_open(block));
        return (piece, None);
    }
    let failed = |id: &String| {
        let mut result = ToolResult::new(id, vec![Block::text(NO_RESULT)]);
        result.is_error = Some(true);
        Block::new(BlockKind::ToolResult(result))
    };
    let message = Message::new(Role::Tool, unanswered.iter().map(failed).collect());
    let answer = Piece::new(piece.entry.clone(), true, message);
    (piece, Some(answer))
}
