//! Builds the lines of a context file.

use store_core::{Body, Checkpoint, UsageRecord};

use crate::kimi_cli::encode;

/// A checkpoint as a line, and its number.
pub(super) type CheckpointLine = (u64, Vec<u8>);

/// The lines of a context file that is being built.
#[derive(Default)]
pub(super) struct FileLines {
    /// The lines of the previous file.
    previous_lines: Vec<Vec<u8>>,
    pub(super) lines: Vec<Vec<u8>>,
    /// Whether all lines so far are those of the previous file. In that case, an import takes them for copies.
    pub(super) is_copy: bool,
    pub(super) has_message: bool,
    pub(super) ends_with_checkpoint: bool,
    /// The number of the next checkpoint.
    pub(super) next_checkpoint: u64,
    /// The checkpoint before the first message.
    pub(super) opening_checkpoint: Option<CheckpointLine>,
}

impl FileLines {
    /// Begins a file. `previous` contains the lines of the file before it.
    pub(super) fn after(previous: Vec<Vec<u8>>) -> Self {
        Self { previous_lines: previous, is_copy: true, ..Self::default() }
    }

    /// Adds a line. For a message or a checkpoint, use the methods below.
    pub(super) fn push(&mut self, line: Vec<u8>) {
        self.is_copy &= self.previous_lines.get(self.lines.len()) == Some(&line);
        self.lines.push(line);
        self.ends_with_checkpoint = false;
    }

    pub(super) fn push_message(&mut self, line: Vec<u8>) {
        self.push(line);
        self.has_message = true;
    }

    pub(super) fn push_checkpoint(&mut self, (number, line): CheckpointLine) {
        if !self.has_message && self.opening_checkpoint.is_none() {
            self.opening_checkpoint = Some((number, line.clone()));
        }
        self.push(line);
        self.next_checkpoint = number.saturating_add(1);
        self.ends_with_checkpoint = true;
    }

    /// Adds a checkpoint with the next number, unless the last line is a checkpoint.
    pub(super) fn push_next_checkpoint(&mut self) {
        if !self.ends_with_checkpoint {
            self.push_checkpoint((self.next_checkpoint, checkpoint_line(self.next_checkpoint)));
        }
    }
}

/// A checkpoint as kimi-cli writes it.
pub(super) fn checkpoint_line(number: u64) -> Vec<u8> {
    encode_line(&Body::Checkpoint(Checkpoint::new(number, None)))
}

/// A size of the context as kimi-cli writes it.
pub(super) fn size_line(tokens: u64) -> Vec<u8> {
    let mut usage = UsageRecord::default();
    usage.context_size = Some(tokens);
    encode_line(&Body::Usage(usage))
}

fn encode_line(body: &Body) -> Vec<u8> {
    encode::encode_context_line(body).unwrap_or_default().into_bytes()
}
