//! Decides how a file of the history continues the previous file: after a compaction, a revert, or a clear.

use super::{
    context_line::{ContextLine, ContextLineKind, ContextLines},
    history::{History, Node, StoredDecision, TreePosition},
};

/// How a file continues the previous file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Continuation {
    /// It repeats the first lines of the previous file and continues after them. After a clear it repeats none.
    Rewind {
        /// How many lines it repeats.
        shared_lines: usize,
        /// Whether it has no other lines yet. A later import may then decide otherwise.
        is_open: bool,
    },
    /// It begins with a summary of the previous file.
    Compaction(Compaction),
}

/// A file that begins with a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compaction {
    /// The line of the summary.
    pub(super) summary_line: usize,
    /// The lines of the previous file that this file repeats after the summary.
    pub(super) kept_lines: Vec<usize>,
    /// The first and the last entry that the summary replaces.
    pub(super) covers: (usize, usize),
    /// Whether the lines before the summary differ from the first lines of the previous file. The compaction then
    /// covers the whole path, and its replacement contains the new instructions.
    pub(super) has_new_instructions: bool,
}

/// Decides how a file continues the previous file. The first rule that fits decides: a summary means a compaction,
/// lines in common mean a revert, and anything else means a clear. A decision that an earlier import has stored is
/// not changed.
pub(super) fn decide_continuation(
    history: &History,
    previous: &ContextLines,
    lines: &ContextLines,
    is_stored: &dyn Fn(StoredDecision) -> bool,
) -> Continuation {
    let file = history.files().len();
    let shared_lines = previous.iter().zip(lines.iter()).take_while(|(a, b)| a.fingerprint == b.fingerprint).count();
    let stored = |decision: fn(usize, usize) -> StoredDecision| {
        (0..=shared_lines).rev().find(|shared_lines| is_stored(decision(file, *shared_lines)))
    };
    if let Some(shared_lines) = stored(StoredDecision::Rewind) {
        return Continuation::Rewind { shared_lines, is_open: false };
    }
    let pair = FilePair { history, previous, lines, shared_lines, file, is_stored };
    let rewind = || pair.find_rewind(stored(StoredDecision::OpenRewind).unwrap_or_default());
    let may_have_new_instructions = stored(StoredDecision::OpenRewind).is_none();
    let compaction =
        pair.find_compaction().filter(|compaction| may_have_new_instructions || !compaction.has_new_instructions);
    compaction.map_or_else(rewind, Continuation::Compaction)
}

/// A file, and the previous file that it continues.
struct FilePair<'a> {
    history: &'a History,
    previous: &'a ContextLines,
    lines: &'a ContextLines,
    /// How many leading lines are equal in both files.
    shared_lines: usize,
    file: usize,
    is_stored: &'a dyn Fn(StoredDecision) -> bool,
}

impl FilePair<'_> {
    fn position(&self, line_index: usize) -> Option<TreePosition> {
        self.history.position(self.file.checked_sub(1)?, line_index)
    }

    /// The last entry on the path after the first `lines` lines of the previous file.
    fn next_parent_after(&self, lines: usize) -> Option<usize> {
        self.position(lines.checked_sub(1)?)?.next_parent
    }

    /// Continues after the lines in common. If only opening lines are in common and other lines follow, as after a
    /// clear, the file repeats nothing, except the first `stored_count` lines, which an earlier import has stored as
    /// repeated.
    fn find_rewind(&self, stored_count: usize) -> Continuation {
        let is_exact = |shared_lines: &usize| {
            shared_lines
                .checked_sub(1)
                .is_none_or(|line_index| self.position(line_index).is_some_and(|position| position.is_exact))
        };
        let shared_lines = (0..=self.shared_lines).rev().find(is_exact).unwrap_or_default();
        let is_conversation = |line: ContextLine| line.kind.is_node() && !line.kind.is_opening();
        let is_revert = self.lines.iter().take(shared_lines).any(is_conversation);
        let is_open = shared_lines == self.lines.len();
        Continuation::Rewind { shared_lines: if is_revert || is_open { shared_lines } else { stored_count }, is_open }
    }

    fn find_compaction(&self) -> Option<Compaction> {
        let summary_line = self.lines.iter().position(|line| line.kind.is_message())?;
        // If the previous file also has this summary, a revert copied it.
        if self.lines.get(summary_line)?.kind != ContextLineKind::Summary || self.shared_lines > summary_line {
            return None;
        }
        let last = self.history.head()?;
        let opening_end = self.next_parent_after(summary_line).filter(|_| self.shared_lines == summary_line);
        let opening_depth = self.history.depth(opening_end);
        let opening_nodes = self.lines.iter().take(summary_line).filter(|line| line.kind.is_node()).count();
        if self.shared_lines != summary_line || opening_depth != opening_nodes {
            let root = self.history.path(Some(last)).last()?;
            let covers = (root, last);
            return Some(Compaction { summary_line, kept_lines: Vec::new(), covers, has_new_instructions: true });
        }
        let from = self.history.path(Some(last)).take(self.history.depth(Some(last)) - opening_depth).last()?;
        let kept_lines = self.find_kept_lines(summary_line, opening_depth).unwrap_or_default();
        let first_kept = kept_lines.first().and_then(|line_index| self.position(*line_index)?.node);
        let to = first_kept.and_then(|first_kept| self.history.node(first_kept)?.parent).unwrap_or(last);
        Some(Compaction { summary_line, kept_lines, covers: (from, to), has_new_instructions: false })
    }

    /// The lines of the previous file that this file repeats after the summary: its last two messages of the user or
    /// the assistant, and the messages between and after them.
    fn find_kept_lines(&self, summary_line: usize, opening_depth: usize) -> Option<Vec<usize>> {
        let previous = || (0..self.previous.len()).filter_map(|at| Some((at, self.previous.get(at)?)));
        let is_user_or_assistant = |(_, line): &(usize, ContextLine)| line.kind.is_user_or_assistant();
        let (first, _) = previous().rev().filter(is_user_or_assistant).nth(1)?;
        let kept: Vec<_> = previous().skip(first).filter(|(_, line)| line.kind.is_message()).collect();
        let following_lines = self.lines.iter().skip(summary_line + 1);
        if self.lines.len() - (summary_line + 1) < kept.len() {
            return None;
        }
        let is_equal = |((_, line), again): (&(usize, ContextLine), ContextLine)| {
            again.kind.is_message() && line.content_hash == again.content_hash
        };
        let all_equal = kept.iter().zip(following_lines).all(is_equal);
        let kept_lines: Vec<_> = kept.into_iter().map(|(line_index, _)| line_index).collect();
        if !all_equal || !self.can_be_kept(&kept_lines, opening_depth) {
            return None;
        }
        let fits_stored_decisions = !(self.is_stored)(StoredDecision::Line(self.file, summary_line))
            || (self.is_stored)(StoredDecision::Reference(self.file, summary_line + 1));
        fits_stored_decisions.then_some(kept_lines)
    }

    /// Whether each of these lines has an entry that is not a compaction, and whether there is an entry before them
    /// that the summary can replace.
    fn can_be_kept(&self, kept_lines: &[usize], opening_depth: usize) -> bool {
        let node = |line_index: &usize| -> Option<Node> { self.history.node(self.position(*line_index)?.node?) };
        let has_more = |first: Node| first.depth > opening_depth + 1;
        kept_lines.first().and_then(node).is_some_and(has_more)
            && kept_lines.iter().all(|line_index| node(line_index).is_some_and(|node| !node.is_compaction))
    }
}

#[cfg(test)]
mod tests {
    use super::{Compaction, Continuation};
    use crate::kimi_cli::{
        context_line::{ContextLine, ContextLineKind, ContextLines, hash},
        history::{History, StoredDecision},
    };
    use store_core::Role;

    /// Makes a line of each character: `s` and `z` are instructions, digits are checkpoints, `=` and `#` summaries,
    /// other upper case letters messages of the assistant, other lower case letters messages of the user, and `_` is
    /// usage.
    fn lines(text: &str) -> ContextLines {
        let mut lines = ContextLines::new(false);
        for char in text.chars() {
            let kind = match char {
                's' | 'z' => ContextLineKind::Prompt,
                '0'..='9' => ContextLineKind::Checkpoint { is_first: char == '0' },
                '=' | '#' => ContextLineKind::Summary,
                'A'..='Z' => ContextLineKind::Message(Role::Assistant),
                '_' => ContextLineKind::SideEntry,
                _ => ContextLineKind::Message(Role::User),
            };
            lines.push(ContextLine { kind, fingerprint: hash(&char), content_hash: hash(&char) });
        }
        lines
    }

    fn history(files: &[&str], stored: &[StoredDecision]) -> History {
        let lines: Vec<_> = files.iter().map(|text| lines(text)).collect();
        let lines: Vec<_> = lines.iter().collect();
        History::of(&lines, &|decision| stored.contains(&decision))
    }

    /// Checks the path of the head. `path` names each entry by its character and the number of its file, and gives
    /// the interval that a summary covers.
    fn check(files: &[&str], stored: &[StoredDecision], path: &str) {
        let history = history(files, stored);
        let name = |at: usize| {
            let node = history.node(at).unwrap();
            let char = files[node.file].chars().nth(node.line_index).unwrap();
            format!("{char}{}", node.file + 1)
        };
        let mut found: Vec<_> = history.path(history.head()).collect();
        found.reverse();
        let found: Vec<_> = found
            .into_iter()
            .map(|at| {
                let node = history.node(at).unwrap();
                match &history.files()[node.file].continuation {
                    Some(Continuation::Compaction(Compaction { covers: (from, to), .. })) if node.is_compaction => {
                        format!("{}({}-{})", name(at), name(*from), name(*to))
                    }
                    _ => name(at),
                }
            })
            .collect();
        assert_eq!(found.join(" "), path, "{files:?}");
    }

    #[test]
    fn common_lines_mean_a_revert() {
        check(&["s0ab1cD", "s0ab1e"], &[], "s1 01 a1 b1 11 e2");
        check(&["s0a1B_2c", "s0a1B_", "s0a1f"], &[], "s1 01 a1 11 f3");
        check(&["a1B", "a1c"], &[], "a1 11 c2");
    }

    #[test]
    fn common_instructions_alone_mean_a_clear() {
        check(&["s0a1B", "s0c"], &[], "s2 02 c2");
        check(&["s0a1B", "z0a"], &[], "z2 02 a2");
        check(&["s0a", "z0"], &[], "z2 02");
        check(&["s0a", "_"], &[], "");
    }

    #[test]
    fn a_summary_replaces_the_messages_that_are_not_kept() {
        check(&["s0a1B2cD", "s0=cD3e"], &[], "s1 01 a1 11 B1 21 c1 D1 =2(a1-21) 32 e2");
        check(&["s0a1B2cD", "s0=e"], &[], "s1 01 a1 11 B1 21 c1 D1 =2(a1-D1) e2");
        check(&["s0a1B2cD", "s0=c"], &[], "s1 01 a1 11 B1 21 c1 D1 =2(a1-D1) c2");
        check(&["a1B2cD", "=cD"], &[], "a1 11 B1 21 c1 D1 =2(a1-21)");
    }

    #[test]
    fn a_second_summary_also_replaces_the_first() {
        check(&["s0a1B2cD", "s0=cD3eF", "s0#eF4g"], &[], "s1 01 a1 11 B1 21 c1 D1 =2(a1-21) 32 e2 F2 #3(a1-32) 43 g3");
        // The second summary keeps a line that the first one had kept.
        check(&["s0aBcD", "s0=cDe", "s0#De"], &[], "s1 01 a1 B1 c1 D1 =2(a1-B1) e2 #3(a1-c1)");
        // The first summary itself is repeated. It is then a new line, because a kept line must not be a compaction.
        check(&["s0aB", "s0=e", "s0#=e"], &[], "s1 01 a1 B1 =2(a1-B1) e2 #3(a1-e2) =3 e3");
    }

    #[test]
    fn changed_instructions_become_new_entries() {
        check(&["aBcD", "s0=cD"], &[], "a1 B1 c1 D1 s2 02 =2(a1-02) c2 D2");
        check(&["aBcD", "s0=cD", "s0#cD"], &[], "a1 B1 c1 D1 s2 02 =2(a1-02) c2 D2 s3 03 #3(a1-03) c3 D3");
    }

    #[test]
    fn a_revert_copies_the_summary_too() {
        check(&["s0aBcD", "s0=cD1e2F", "s0=cD1g"], &[], "s1 01 a1 B1 c1 D1 =2(a1-B1) 12 g3");
        check(&["s0aBcD", "s0=cD1e", "s0=cD1"], &[], "s1 01 a1 B1 c1 D1 =2(a1-B1) 12");
        // The revert removed some of the lines that the summary keeps. No stored entry has the same content as the
        // summary with only some of these lines, so all lines become new entries.
        check(&["s0aBcD", "s0=cD1e", "s0=cx"], &[], "s3 03 =3 c3 x3");
    }

    #[test]
    fn earlier_decisions_about_stored_lines_are_kept() {
        check(&["s0a1B", "s0=a"], &[StoredDecision::Rewind(1, 0)], "s2 02 =2 a2");
        check(&["s0a1B2cD", "s0=cD"], &[StoredDecision::Line(1, 2)], "s1 01 a1 11 B1 21 c1 D1 =2(a1-D1) c2 D2");
        let kept_lines = [StoredDecision::Reference(1, 3), StoredDecision::Reference(1, 4), StoredDecision::Line(1, 2)];
        check(&["s0a1B2cD", "s0=cDe"], &kept_lines, "s1 01 a1 11 B1 21 c1 D1 =2(a1-21) e2");
        check(&["s0a1B", "s0a1Bc"], &[StoredDecision::Rewind(1, 4)], "s1 01 a1 11 B2 c2");
    }

    #[test]
    fn an_undecided_context_can_still_be_decided_either_way() {
        check(&["s0a1B", "s0"], &[], "s1 01");
        let empty = [StoredDecision::OpenRewind(1, 2)];
        check(&["s0a1B", "s0c"], &empty, "s1 01 c2");
        check(&["s0a1B", "s0a1c"], &empty, "s1 01 a1 11 c2");
        check(&["s0a1B2cD", "s0=cD"], &empty, "s1 01 a1 11 B1 21 c1 D1 =2(a1-21)");
        check(&["saB", "s0=aB"], &[StoredDecision::OpenRewind(1, 1)], "s1 02 =2 a2 B2");
    }
}
