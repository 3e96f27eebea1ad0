//! Texts and messages without content, which APIs refuse.

use store_core::BlockKind;

use crate::{
    compile::{Compiler, Part},
    loss::{Action, LossKind},
};

impl Compiler<'_> {
    /// Leaves out the texts that the target refuses, and reports them. If such a text begins a message, the next part
    /// begins the message instead.
    pub(crate) fn drop_refused_texts(&mut self, is_refused: impl Fn(&Part<'_>, &str) -> bool) {
        let mut begins_message = false;
        for mut part in std::mem::take(&mut self.parts) {
            if let BlockKind::Text(text) = &part.block.kind
                && is_refused(&part, text)
            {
                begins_message |= part.begins_message;
                self.report_refused_text(&part);
                continue;
            }
            part.begins_message |= std::mem::take(&mut begins_message);
            self.parts.push(part);
        }
    }

    fn report_refused_text(&mut self, part: &Part<'_>) {
        self.losses.add(&part.position, LossKind::Empty, Action::Dropped, "the target refuses blank text");
    }

    /// Returns whether a text inside a result or inside thinking is blank. The caller leaves out a blank text; this
    /// function reports it.
    pub(crate) fn report_if_blank(&mut self, part: &Part<'_>, text: &str) -> bool {
        let is_blank = is_blank(text);
        if is_blank {
            self.report_refused_text(part);
        }
        is_blank
    }

    /// Reports a message without content, which the target refuses.
    pub(crate) fn report_empty_message(&mut self, part: &Part<'_>) {
        self.losses.add(
            &part.position,
            LossKind::Empty,
            Action::Dropped,
            "the target refuses a message without content",
        );
    }
}

/// Returns whether a text is empty or contains only white space.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
