//! The difference between two contexts, and lines of text that show it.

use agentstore::{Context, ContextMessage};

use crate::{
    failure::Result,
    output::Output,
    text::{self, with_noun},
};

/// What two contexts have in common at their beginning and at their end, and what each has in between.
///
/// Two messages are the same if a model gets the same of them: their roles and blocks are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextDiff<'a> {
    /// The messages that both begin with.
    pub(crate) start: &'a [ContextMessage],
    /// The messages in between that only the first context has.
    pub(crate) only_first: &'a [ContextMessage],
    /// The messages in between that only the second context has.
    pub(crate) only_second: &'a [ContextMessage],
    /// The messages that both end with.
    pub(crate) end: &'a [ContextMessage],
}

impl<'a> ContextDiff<'a> {
    pub(crate) fn of(first: &'a Context, second: &'a Context) -> Self {
        let count = |pairs: &mut dyn Iterator<Item = (&ContextMessage, &ContextMessage)>| {
            pairs.take_while(|(first, second)| is_same(first, second)).count()
        };
        let (first, second) = (first.messages.as_slice(), second.messages.as_slice());
        let (start, first) = first.split_at_checked(count(&mut first.iter().zip(second))).unwrap_or((&[], first));
        let (_, second) = second.split_at_checked(start.len()).unwrap_or((&[], second));
        let end_length = count(&mut first.iter().rev().zip(second.iter().rev()));
        let at = first.len().saturating_sub(end_length);
        let (only_first, end) = first.split_at_checked(at).unwrap_or((first, &[]));
        let (only_second, _) =
            second.split_at_checked(second.len().saturating_sub(end_length)).unwrap_or((second, &[]));
        Self { start, only_first, only_second, end }
    }

    /// Prints the messages that only one context has, each on a line that begins with its mark, with the number of
    /// messages that both have before and after them.
    pub(crate) fn print(&self, marks: (&str, &str), out: &mut Output) -> Result<()> {
        print_count(self.start.len(), "the same before", out)?;
        for message in self.only_first {
            let line = message_line(marks.0, message, out);
            out.print_line(out.style(line).red())?;
        }
        for message in self.only_second {
            let line = message_line(marks.1, message, out);
            out.print_line(out.style(line).green())?;
        }
        print_count(self.end.len(), "the same after", out)
    }
}

fn is_same(first: &ContextMessage, second: &ContextMessage) -> bool {
    first.message.role == second.message.role && first.message.blocks == second.message.blocks
}

fn print_count(count: usize, what: &str, out: &mut Output) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let line = format!("    {} {what}", with_noun(count as u64, "message"));
    out.print_line(out.style(line).dim())
}

/// Returns a message on one line: a mark, its role and its text, as much as fits.
pub(crate) fn message_line(mark: &str, message: &ContextMessage, out: &Output) -> String {
    let made = if message.synthetic { "~" } else { " " };
    let head = format!("  {mark} {made}{:<9} ", message.message.role.name());
    let width = out.width().saturating_sub(head.len()).max(10);
    format!("{head}{}", text::one_line(&text::message_text(&message.message), width))
}

#[cfg(test)]
mod tests {
    use agentstore::{Context, ContextMessage, EntryId, Message};

    use super::ContextDiff;

    fn context(texts: &str) -> Context {
        let mut context = Context::default();
        for (at, text) in texts.split_whitespace().enumerate() {
            let id = EntryId::new(format!("{at}-{}", texts.len())).unwrap();
            context.messages.push(ContextMessage::new(id, false, Message::user(text)));
        }
        context
    }

    #[test]
    fn contexts_differ_between_what_they_share() {
        let check = |first: &str, second: &str, expected: [usize; 4]| {
            let (first, second) = (context(first), context(second));
            let diff = ContextDiff::of(&first, &second);
            let lengths = [diff.start.len(), diff.only_first.len(), diff.only_second.len(), diff.end.len()];
            assert_eq!(lengths, expected, "{first:?} {second:?}");
        };
        check("", "", [0, 0, 0, 0]);
        check("a b", "a b", [2, 0, 0, 0]);
        check("a b", "a b c", [2, 0, 1, 0]);
        check("a b c d", "s c d", [0, 2, 1, 2]);
        check("a b c", "a x c", [1, 1, 1, 1]);
        // No message is counted twice.
        check("a", "a a", [1, 0, 1, 0]);
        check("a b a", "a", [1, 2, 0, 0]);
    }
}
