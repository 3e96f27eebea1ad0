//! The turns of a rollout. A rollback takes back the last turns of the user. The parent of the next line is then the
//! last line before these turns.

use crate::{json::Object, lines::RewindTarget, tree::ParentField};

/// The beginnings of user messages that Codex itself adds to the conversation. These messages are for the model and not
/// from the user.
const ADDED_BY_CODEX: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<skill>",
    "<user_shell_command>",
    "<turn_aborted>",
    "<subagent_notification>",
];

/// What an item means for a rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnRole {
    /// A turn of the user begins with it.
    Start,
    /// Codex added it for the turn that follows.
    Context,
    /// Anything else.
    Other,
}

impl TurnRole {
    /// The role of an item.
    pub(super) fn of_item(item: &Object<'_>) -> Self {
        let text = first_text(item).unwrap_or_default();
        match (item.text("type").as_deref(), item.text("role").as_deref()) {
            (None | Some("message"), Some("user")) if is_added_by_codex(&text) => Self::Context,
            (None | Some("message"), Some("user")) | (Some("agent_message"), _) => Self::Start,
            (None | Some("message"), Some("developer")) if text.starts_with('<') => Self::Context,
            _ => Self::Other,
        }
    }
}

/// Whether Codex itself added a user message with this text.
pub(super) fn is_added_by_codex(text: &str) -> bool {
    ADDED_BY_CODEX.iter().any(|start| text.trim_start().starts_with(start))
}

/// The first text of a message item.
fn first_text(item: &Object<'_>) -> Option<String> {
    if let Some(text) = item.text("content") {
        return Some(text);
    }
    item.list("content")?.into_iter().find_map(|part| Object::parse(part)?.text("text"))
}

/// The nodes on the path of the current line.
#[derive(Debug, Default)]
pub(super) struct TurnPath {
    nodes: Vec<(u32, TurnRole)>,
    node_count: u32,
}

impl TurnPath {
    /// Adds a node, and returns its parent.
    pub(super) fn push(&mut self, role: TurnRole) -> ParentField {
        let parent = self.nodes.last().map_or(ParentField::Root, |(at, _)| ParentField::Node(*at as usize));
        self.nodes.push((self.node_count, role));
        self.node_count += 1;
        parent
    }

    /// Takes back the last `turns` turns, with what Codex added before the earliest of them. Nothing before the first
    /// turn is taken back. Returns `None` if there is no turn to take back.
    pub(super) fn roll_back(&mut self, turns: u64) -> Option<RewindTarget> {
        let is_start = |(at, (_, role)): (usize, &(u32, TurnRole))| (*role == TurnRole::Start).then_some(at);
        let starts: Vec<usize> = self.nodes.iter().enumerate().filter_map(is_start).collect();
        let first = *starts.first().filter(|_| turns > 0)?;
        let turns = usize::try_from(turns).unwrap_or(usize::MAX);
        let mut end = starts.len().checked_sub(turns).and_then(|at| starts.get(at).copied()).unwrap_or(first);
        let is_context = |at: usize| self.nodes.get(at).is_some_and(|(_, role)| *role == TurnRole::Context);
        while end > first && is_context(end - 1) {
            end -= 1;
        }
        self.nodes.truncate(end);
        Some(self.nodes.last().map_or(RewindTarget::Start, |(at, _)| RewindTarget::Node(*at as usize)))
    }
}

#[cfg(test)]
mod tests {
    use super::{TurnPath, TurnRole};
    use crate::{lines::RewindTarget, tree::ParentField};

    fn path_of(roles: &str) -> TurnPath {
        let mut path = TurnPath::default();
        for role in roles.chars() {
            let role = match role {
                'u' => TurnRole::Start,
                'c' => TurnRole::Context,
                _ => TurnRole::Other,
            };
            path.push(role);
        }
        path
    }

    #[test]
    fn a_rollback_takes_back_turns_and_what_codex_added_before_them() {
        for (roles, turns, target) in [
            ("cuaua", 1, Some(RewindTarget::Node(2))),
            ("cuaccua", 1, Some(RewindTarget::Node(2))),
            ("cuaua", 2, Some(RewindTarget::Node(0))),
            ("cuaua", 9, Some(RewindTarget::Node(0))),
            ("ua", 1, Some(RewindTarget::Start)),
            ("uaua", 0, None),
            ("ca", 1, None),
        ] {
            assert_eq!(path_of(roles).roll_back(turns), target, "{roles} {turns}");
        }
    }

    #[test]
    fn the_next_line_follows_the_target_of_the_rollback() {
        let mut path = path_of("uaua");
        assert_eq!(path.roll_back(1), Some(RewindTarget::Node(1)));
        assert_eq!(path.push(TurnRole::Start), ParentField::Node(1));
        assert_eq!(path.push(TurnRole::Other), ParentField::Node(4));
        assert_eq!(path.roll_back(2), Some(RewindTarget::Start));
        assert_eq!(path.push(TurnRole::Start), ParentField::Root);
    }
}
