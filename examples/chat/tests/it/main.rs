//! Runs the program against servers that check requests as the providers do.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot continue panics at that line"
)]

mod branches;
mod errors;
mod fake;
mod kill;
mod program;
mod recovery;
mod store;
mod turns;

use self::fake::{FakeServer, Mode, Point};
use self::program::Program;

/// The APIs, each with a model.
const MODELS: [(&str, &str); 4] = [
    ("anthropic", "claude-sonnet-4-5"),
    ("openai-chat", "gpt-4.1-mini"),
    ("openai-responses", "gpt-5-nano"),
    ("google", "gemini-3-pro-preview"),
];
