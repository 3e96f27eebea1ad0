//! The difference between two contexts, and lines of text that show it.

use std::hash::{Hash, Hasher};

use agentstore::{Context, ContextMessage};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::{
    failure::Result,
    output::Output,
    text::{self, with_noun},
};

/// Consecutive messages that both contexts have, or that only one of them has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffPart<'a> {
    /// Messages that both have, as the first context has them.
    Both(&'a [ContextMessage]),
    /// Messages that only the first has.
    First(&'a [ContextMessage]),
    /// Messages that only the second has.
    Second(&'a [ContextMessage]),
}

/// The messages that two contexts have in common, and those that only one of them has, in the order of the contexts.
///
/// Two messages are the same if they look the same to a model: their roles and blocks are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContextDiff<'a>(Vec<DiffPart<'a>>);

impl<'a> ContextDiff<'a> {
    pub(crate) fn of(first: &'a Context, second: &'a Context) -> Self {
        let (first, second) = (first.messages.as_slice(), second.messages.as_slice());
        let compared_messages =
            |messages: &'a [ContextMessage]| messages.iter().map(ComparedMessage).collect::<Vec<_>>();
        let operations = capture_diff_slices(Algorithm::Myers, &compared_messages(first), &compared_messages(second));
        let mut parts = Vec::new();
        for operation in operations {
            let first_messages = first.get(operation.old_range()).unwrap_or_default();
            let second_messages = second.get(operation.new_range()).unwrap_or_default();
            match operation {
                DiffOp::Equal { .. } => parts.push(DiffPart::Both(first_messages)),
                DiffOp::Delete { .. } => parts.push(DiffPart::First(first_messages)),
                DiffOp::Insert { .. } => parts.push(DiffPart::Second(second_messages)),
                DiffOp::Replace { .. } => {
                    parts.extend([DiffPart::First(first_messages), DiffPart::Second(second_messages)])
                }
            }
        }
        Self(parts)
    }

    pub(crate) fn parts(&self) -> &[DiffPart<'a>] {
        &self.0
    }

    /// Returns whether both contexts have the same messages.
    pub(crate) fn is_same(&self) -> bool {
        self.0.iter().all(|part| matches!(part, DiffPart::Both(_)))
    }

    /// Returns the messages that only the first context has.
    pub(crate) fn only_first(&self) -> Vec<&'a ContextMessage> {
        let messages = |part: &DiffPart<'a>| if let DiffPart::First(messages) = *part { messages } else { &[] };
        self.0.iter().flat_map(messages).collect()
    }

    /// Returns the messages that only the second context has.
    pub(crate) fn only_second(&self) -> Vec<&'a ContextMessage> {
        let messages = |part: &DiffPart<'a>| if let DiffPart::Second(messages) = *part { messages } else { &[] };
        self.0.iter().flat_map(messages).collect()
    }

    /// Prints the messages that only the first context has with `-`, and those that only the second has with `+`.
    /// Several consecutive messages that both contexts have become one line that says how many they are, unless `all`
    /// is set.
    pub(crate) fn print(&self, all: bool, out: &mut Output) -> Result<()> {
        for part in &self.0 {
            let (mark, messages) = match *part {
                DiffPart::Both(messages) if messages.len() > 1 && !all => {
                    let line = format!("  ⋯ {} the same", with_noun(messages.len() as u64, "message"));
                    out.print_line(out.style(line).dim())?;
                    continue;
                }
                DiffPart::Both(messages) => (" ", messages),
                DiffPart::First(messages) => ("-", messages),
                DiffPart::Second(messages) => ("+", messages),
            };
            for message in messages {
                let line = out.style(message_line(mark, message, out));
                let line = match mark {
                    "-" => line.red(),
                    "+" => line.green(),
                    _ => line.dim(),
                };
                out.print_line(line)?;
            }
        }
        Ok(())
    }
}

/// A message. Two of them are equal if they look the same to a model.
#[derive(Debug)]
struct ComparedMessage<'a>(&'a ContextMessage);

impl PartialEq for ComparedMessage<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (message, other) = (&self.0.message, &other.0.message);
        message.role == other.role && message.blocks == other.blocks
    }
}

impl Eq for ComparedMessage<'_> {}

impl Hash for ComparedMessage<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.message.role.name().hash(state);
        text::message_text(&self.0.message).hash(state);
    }
}

/// Returns one line: a mark, then the role and the text of the message. The text is cut where it does not fit.
pub(crate) fn message_line(mark: &str, message: &ContextMessage, out: &Output) -> String {
    let synthetic_mark = if message.synthetic { "~" } else { " " };
    let head = format!("  {mark} {synthetic_mark}{:<9} ", message.message.role.name());
    let width = out.width().saturating_sub(head.len()).max(10);
    format!("{head}{}", text::one_line(&text::message_text(&message.message), width))
}

#[cfg(test)]
mod tests {
    use agentstore::{Context, ContextMessage, EntryId, Message};

    use super::{ContextDiff, DiffPart};

    fn context(texts: &str) -> Context {
        let mut context = Context::default();
        for (number, text) in texts.split_whitespace().enumerate() {
            let id = EntryId::new(format!("{number}-{}", texts.len())).unwrap();
            context.messages.push(ContextMessage::new(id, false, Message::user(text)));
        }
        context
    }

    #[test]
    fn a_diff_has_the_common_and_the_different_messages_in_order() {
        let check = |first: &str, second: &str, expected: &str| {
            let (first, second) = (context(first), context(second));
            let diff = ContextDiff::of(&first, &second);
            let (part_texts, same): (Vec<_>, Vec<_>) = diff
                .parts()
                .iter()
                .map(|part| match part {
                    DiffPart::Both(messages) => (format!("={}", messages.len()), true),
                    DiffPart::First(messages) => (format!("-{}", messages.len()), false),
                    DiffPart::Second(messages) => (format!("+{}", messages.len()), false),
                })
                .unzip();
            assert_eq!(part_texts.join(" "), expected, "{first:?} {second:?}");
            assert_eq!(diff.is_same(), same.into_iter().all(|same| same));
        };
        check("", "", "");
        check("a b", "a b", "=2");
        check("a b", "a b c", "=2 +1");
        check("a b c d", "s c d", "-2 +1 =2");
        check("a b c", "a x c", "=1 -1 +1 =1");
        check("a b c d e", "x b c y e", "-1 +1 =2 -1 +1 =1");
        // No message is counted twice.
        check("a", "a a", "=1 +1");
        let (first, second) = (context("a b c d e"), context("x b c y e"));
        let diff = ContextDiff::of(&first, &second);
        assert_eq!((diff.only_first().len(), diff.only_second().len()), (2, 2));
    }
}
