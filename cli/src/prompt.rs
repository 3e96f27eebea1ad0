//! Asks the user for confirmation before a change that cannot be undone.

use std::io::{self, BufRead, Write};

use crate::failure::{Failure, Result};

/// Asks the user to confirm, unless `yes` is set.
///
/// # Errors
/// `NotConfirmed` if the user answers anything but yes. `Usage` if there is no answer, because standard input has
/// ended: then only `--yes` can confirm.
pub(crate) fn confirm(yes: bool, question: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    let reason = || format!("not confirmed, so nothing was done: {question}");
    let answer = ask_unless_input_ended(&format!("{question} [y/N] "))?.ok_or_else(|| unanswered(&reason()))?;
    if matches!(answer.to_lowercase().as_str(), "y" | "yes") { Ok(()) } else { Err(Failure::NotConfirmed(reason())) }
}

fn unanswered(reason: &str) -> Failure {
    Failure::Usage(format!("{reason} Use `--yes` to confirm without a question."))
}

/// Asks the user to type `name` twice, unless `yes` is set.
///
/// # Errors
/// As [`confirm`].
pub(crate) fn confirm_name(yes: bool, name: &str, what: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    let reason = format!("not confirmed, so nothing was done: the name `{name}` was not typed twice.");
    for question in [format!("This deletes {what}. Type the name `{name}` to confirm: "), "Type it again: ".to_owned()]
    {
        let answer = ask_unless_input_ended(&question)?.ok_or_else(|| unanswered(&reason))?;
        if answer != name {
            return Err(Failure::NotConfirmed(reason));
        }
    }
    Ok(())
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
