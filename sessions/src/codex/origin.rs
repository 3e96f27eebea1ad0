//! Origins of blocks, and the data that a provider adds to blocks.

use store_core::{Block, BlockKind, Message, Origin};

use crate::json::{Object, parse_json_string};

/// Removes the data of the provider from a block if it says only how the item is laid out, for example that its content
/// is a list. Every item of a rollout is laid out in the same way.
pub(super) fn drop_layout(block: &mut Block) {
    block.opaque.take_if(|opaque| Object::parse(opaque.data.as_str()).is_some_and(|data| says_only_layout(&data)));
    if let BlockKind::ToolResult(result) = &mut block.kind {
        for block in &mut result.blocks {
            drop_layout(block);
        }
    }
}

/// Whether the data of a provider says only how an item is laid out. The data is in the form of `providers`: `message`
/// and `part` say how the provider's JSON differs from the JSON that is written by default. The differences in the list
/// `marks` are the flags of `providers`.
fn says_only_layout(data: &Object<'_>) -> bool {
    let is_layout =
        |flag: &str| parse_json_string(flag).is_some_and(|flag| matches!(flag.as_str(), "list" | "text" | "input"));
    let changes_only_layout = |form: Object<'_>| {
        form.object("set").is_none_or(|set| set.iter().all(|(_, value)| value == "null"))
            && form.list("marks").unwrap_or_default().into_iter().all(is_layout)
    };
    data.iter()
        .all(|(name, raw)| matches!(name, "message" | "part") && Object::parse(raw).is_some_and(changes_only_layout))
}

/// Removes the model from every origin in a message whose model is not known.
pub(super) fn remove_models(message: &mut Message) {
    if let Some(origin) = message.provenance.as_mut().and_then(|provenance| provenance.origin.as_mut()) {
        origin.model = None;
    }
    for block in &mut message.blocks {
        change_origins(block, &mut |origin| origin.model = None);
    }
}

fn change_origins(block: &mut Block, change: &mut dyn FnMut(&mut Origin)) {
    if let Some(opaque) = &mut block.opaque {
        change(&mut opaque.origin);
    }
    match &mut block.kind {
        BlockKind::Thinking(thinking) => thinking.origin.as_mut().into_iter().for_each(change),
        BlockKind::Opaque(opaque) => change(&mut opaque.origin),
        BlockKind::ToolResult(result) => {
            for block in &mut result.blocks {
                change_origins(block, change);
            }
        }
        _ => {}
    }
}

/// Every origin that a message and its blocks name.
pub(super) fn origins(message: &Message) -> Vec<&Origin> {
    let mut found: Vec<_> = message.provenance.iter().filter_map(|provenance| provenance.origin.as_ref()).collect();
    for block in &message.blocks {
        found.extend(block.opaque.iter().map(|opaque| &opaque.origin));
        match &block.kind {
            BlockKind::Thinking(thinking) => found.extend(&thinking.origin),
            BlockKind::Opaque(opaque) => found.push(&opaque.origin),
            _ => {}
        }
    }
    found
}
