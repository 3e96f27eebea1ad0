//! Rules for the content of a single entry.

use std::collections::BTreeSet;

use super::{Block, BlockKind, BodyKind, EntryQuery, Message, NewBody, Role};
use crate::{
    error::{Error, Result},
    log::Entry,
    page::encode_query_parts,
};

/// Checks the content of a new entry.
///
/// Its messages must follow EN-18. A body or block of an unknown kind must not have the name of a known kind. Otherwise
/// it would be read back as the known kind (ID-11).
///
/// # Errors
/// `Invalid`, which names the rule.
pub fn check_body(body: &NewBody) -> Result<()> {
    match body {
        NewBody::Message(message) => check_message(message),
        NewBody::Compaction(compaction) => {
            compaction.summary.iter().try_for_each(check_block)?;
            compaction.replacement.iter().flatten().try_for_each(check_message)
        }
        NewBody::Unknown { kind, .. } if kind.parse::<BodyKind>().is_ok_and(|known| known != BodyKind::Unknown) => {
            Err(Error::invalid("body", "a known kind cannot be written as an unknown one"))
        }
        _ => Ok(()),
    }
}

fn check_block(block: &Block) -> Result<()> {
    match &block.kind {
        BlockKind::Unknown { kind, .. } if BlockKind::is_known(kind) => {
            Err(Error::invalid("block", "a known kind cannot be written as an unknown one"))
        }
        // Both values would be written under the same field name.
        BlockKind::Opaque(_) if block.opaque.is_some() => {
            Err(Error::invalid("block", "an opaque block cannot have further opaque data"))
        }
        BlockKind::ToolResult(result) => result.blocks.iter().try_for_each(check_block),
        _ => Ok(()),
    }
}

/// Checks the content of a message (EN-18).
///
/// # Errors
/// `Invalid`, which names the rule.
pub fn check_message(message: &Message) -> Result<()> {
    let mut call_ids = BTreeSet::new();
    let mut result_count = 0;
    for block in &message.blocks {
        check_block(block)?;
        match &block.kind {
            BlockKind::ToolUse(call) => {
                if message.role != Role::Assistant {
                    return refuse("`tool_use` is allowed in assistant messages only");
                }
                if call.id.trim().is_empty() || call.name.trim().is_empty() {
                    return refuse("`tool_use` needs an id and a name");
                }
                if !call_ids.insert(call.id.as_str()) {
                    return refuse("two `tool_use` blocks have the same id");
                }
            }
            BlockKind::ToolResult(result) => {
                if message.role != Role::Tool {
                    return refuse("`tool_result` is allowed in tool messages only");
                }
                if result.tool_use_id.trim().is_empty() {
                    return refuse("`tool_result` needs a `tool_use_id`");
                }
                let is_call_or_result =
                    |kind: &BlockKind| matches!(kind, BlockKind::ToolUse(_) | BlockKind::ToolResult(_));
                if result.blocks.iter().any(|block| is_call_or_result(&block.kind)) {
                    return refuse("`tool_result` cannot contain calls or results");
                }
                result_count += 1;
            }
            _ => {}
        }
    }
    if message.role == Role::Tool && result_count == 0 {
        return refuse("a tool message needs at least one `tool_result`");
    }
    Ok(())
}

fn refuse(reason: &'static str) -> Result<()> {
    Err(Error::invalid("message", reason))
}

impl EntryQuery {
    /// Returns whether `entry` passes those filters that only need the entry itself.
    ///
    /// The store applies the filters that need the tree (`path_of`, `children_of`).
    #[must_use]
    pub fn admits(&self, entry: &Entry) -> bool {
        let message = entry.message();
        self.from_seq.is_none_or(|from| entry.seq >= from)
            && self.to_seq.is_none_or(|to| entry.seq <= to)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&entry.kind()))
            && self.role.is_none_or(|role| message.is_some_and(|message| message.role == role))
            && self.visibility.is_none_or(|visibility| message.is_some_and(|message| message.visibility == visibility))
            && (self.run.is_none() || self.run == entry.run)
            && self.side.is_none_or(|side| entry.side == side)
    }

    /// Returns the query without its page, as text.
    ///
    /// A cursor of the list is bound to this text (PG-6).
    #[must_use]
    pub fn cursor_binding(&self) -> String {
        let text = |value: Option<&dyn ToString>| value.map(ToString::to_string);
        let kinds = |kinds: &Vec<BodyKind>| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
        encode_query_parts(&[
            ("from_seq", text(self.from_seq.as_ref().map(|seq| seq as _))),
            ("to_seq", text(self.to_seq.as_ref().map(|seq| seq as _))),
            ("path_of", text(self.path_of.as_ref().map(|id| id as _))),
            ("children_of", text(self.children_of.as_ref().map(|id| id as _))),
            ("kinds", self.kinds.as_ref().map(kinds)),
            ("role", text(self.role.as_ref().map(|role| role as _))),
            ("visibility", text(self.visibility.as_ref().map(|visibility| visibility as _))),
            ("run", text(self.run.as_ref().map(|run| run as _))),
            ("side", text(self.side.as_ref().map(|side| side as _))),
            ("direction", self.direction.cursor_binding()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::{check_body, check_message};
    use crate::Json;
    use crate::log::{Block, BlockKind, Message, NewBody, Opaque, Origin, Role};

    fn call(id: &str, name: &str) -> Block {
        Block::tool_use(id, name, Json::null())
    }

    fn expect_accepted(role: Role, blocks: Vec<Block>) {
        let message = Message::new(role, blocks);
        assert!(check_message(&message).is_ok(), "{message:?}");
    }

    fn expect_refused(role: Role, blocks: Vec<Block>) {
        let message = Message::new(role, blocks);
        assert!(check_message(&message).is_err(), "{message:?}");
    }

    #[test]
    fn calls_and_results_occur_only_in_messages_of_their_role() {
        let result = || Block::tool_result("c", vec![Block::text("ok")]);
        expect_accepted(Role::Assistant, vec![Block::text("x"), call("a", "n"), call("b", "n")]);
        expect_refused(Role::Assistant, vec![call("a", "n"), call("a", "n")]);
        expect_refused(Role::Assistant, vec![call(" ", "n")]);
        expect_refused(Role::Assistant, vec![call("a", "")]);
        expect_refused(Role::User, vec![call("a", "n")]);
        expect_accepted(Role::Tool, vec![result()]);
        expect_accepted(Role::Tool, vec![Block::text("x"), result(), result()]);
        expect_refused(Role::Tool, vec![Block::text("x")]);
        expect_refused(Role::Tool, vec![Block::tool_result("", vec![])]);
        expect_refused(Role::Tool, vec![Block::tool_result("c", vec![result()])]);
        expect_refused(Role::Assistant, vec![result()]);
        expect_accepted(Role::User, vec![]);
    }

    #[test]
    fn a_block_has_opaque_data_at_most_once() {
        let opaque = || Opaque::new(Origin::new("p"), Json::null());
        let block = Block::new(BlockKind::Opaque(opaque()));
        expect_accepted(Role::User, vec![block.clone()]);
        expect_refused(Role::User, vec![Block { opaque: Some(opaque()), ..block }]);
        expect_accepted(Role::User, vec![Block { opaque: Some(opaque()), ..Block::text("x") }]);
    }

    #[test]
    fn an_unknown_kind_must_not_have_a_known_name() {
        let is_body_accepted =
            |kind: &str| check_body(&NewBody::Unknown { kind: kind.to_owned(), data: Json::null() }).is_ok();
        assert!(is_body_accepted("hologram") && is_body_accepted("unknown"));
        assert!(!is_body_accepted("message") && !is_body_accepted("custom"));
        let block = |kind: &str| Block::new(BlockKind::Unknown { kind: kind.to_owned(), data: Json::null() });
        expect_accepted(Role::User, vec![block("hologram")]);
        expect_refused(Role::User, vec![block("tool_use")]);
        expect_refused(Role::Tool, vec![Block::tool_result("c", vec![block("text")])]);
    }
}
