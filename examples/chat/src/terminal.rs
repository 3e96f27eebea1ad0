//! Input and output.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Result;

/// Whether the last printed line has not ended yet.
static IS_LINE_OPEN: AtomicBool = AtomicBool::new(false);

/// Prints a text as a line of its own.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    end_line()?;
    print_piece(text)?;
    print_piece("\n")
}

/// Prints a piece of a line at once.
pub(crate) fn print_piece(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // Models and servers must not be able to control the terminal.
    let is_safe = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = text.chars().filter(is_safe).collect();
    if let Some(last) = text.chars().last() {
        IS_LINE_OPEN.store(last != '\n', Ordering::Relaxed);
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn end_line() -> io::Result<()> {
    if IS_LINE_OPEN.load(Ordering::Relaxed) { print_piece("\n") } else { Ok(()) }
}

/// Asks for a line. Returns `None` at the end of the input.
pub(crate) async fn read_line() -> Result<Option<String>> {
    end_line()?;
    print_piece("> ")?;
    let line = tokio::task::spawn_blocking(|| io::stdin().lines().next()).await?;
    // The user has ended the line.
    IS_LINE_OPEN.store(false, Ordering::Relaxed);
    Ok(line.transpose()?)
}
