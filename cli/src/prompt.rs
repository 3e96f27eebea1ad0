//! Asks the user for confirmation before a change that cannot be undone.

use std::io::{self, BufRead, Write};

use crate::failure::{Failure, Result};

/// Asks the user to confirm, unless `yes` is set.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    let answer = ask(&format!("{question} [y/N] "))?;
    if matches!(answer.to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::Usage(format!("not confirmed, so nothing was done: {question} Use `--yes` to skip this question.")))
}

/// Asks the user to type `name` twice, unless `yes` is set.
pub(crate) fn confirm_name(yes: bool, name: &str, what: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    let first_answer = ask(&format!("This deletes {what}. Type the name `{name}` to confirm: "))?;
    let second_answer = if first_answer == name { ask("Type it again: ")? } else { String::new() };
    if second_answer == name {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "nothing was done: the name `{name}` was not typed twice. Use `--yes` to skip this question."
    )))
}

fn ask(question: &str) -> Result<String> {
    Ok(ask_unless_input_ended(question)?.unwrap_or_default())
}

/// Returns the answer to a question, or none if standard input has ended.
pub(crate) fn ask_unless_input_ended(question: &str) -> Result<Option<String>> {
    let mut stderr = io::stderr();
    stderr.write_all(question.as_bytes())?;
    stderr.flush()?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let length = read.map_err(|error| Failure::io("standard input cannot be read", error))?;
    if length == 0 {
        // The next output begins on a line of its own.
        stderr.write_all(b"\n")?;
    }
    Ok((length > 0).then(|| answer.trim_end_matches(['\n', '\r']).to_owned()))
}
