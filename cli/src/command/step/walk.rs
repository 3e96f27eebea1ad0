//! A walk along a path in a terminal. The user asks for each step.

use super::{Path, failure_of, print_context, print_step};
use crate::{failure::Result, output::Output, prompt};

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Next,
    Back,
    NextFailure,
    Context,
    Step(usize),
    Quit,
    Help,
}

impl Request {
    fn parse(answer: &str) -> Self {
        match answer.trim() {
            "" | "n" => Self::Next,
            "b" => Self::Back,
            "e" => Self::NextFailure,
            "c" => Self::Context,
            "q" => Self::Quit,
            other => other.parse().map_or(Self::Help, Self::Step),
        }
    }
}

/// Shows a step, asks what comes next, and so on until the user quits or the path ends.
pub(super) async fn run(path: &Path, with_context: bool, out: &mut Output) -> Result<()> {
    let last_step = path.entries.len().saturating_sub(1);
    let mut step = 0;
    loop {
        show(path, step, with_context, out).await?;
        step = match next_step(path, step, last_step, out).await? {
            Some(next) => next,
            None => return Ok(()),
        };
    }
}

/// Shows a step. After a failure the whole context is shown, too, because it is what the model was given next.
async fn show(path: &Path, step: usize, with_context: bool, out: &mut Output) -> Result<()> {
    let context_before = path.context_after(step.checked_sub(1)).await?;
    let context_after = path.context_after(Some(step)).await?;
    let has_failed = path.entries.get(step).is_some_and(|entry| failure_of(entry).is_some());
    print_step(path, step, (&context_before, &context_after), with_context || has_failed, out)
}

/// Asks the user until the answer names another step or ends the walk. Returns the step, or `None` at the end.
async fn next_step(path: &Path, step: usize, last_step: usize, out: &mut Output) -> Result<Option<usize>> {
    loop {
        out.flush()?;
        let Some(answer) = prompt::ask_unless_input_ended("[Enter] next, [e] next error, [?] help: ")? else {
            return Ok(None);
        };
        match Request::parse(&answer) {
            Request::Next if step == last_step => return Ok(None),
            Request::Next => return Ok(Some(step + 1)),
            Request::Back => return Ok(Some(step.saturating_sub(1))),
            Request::NextFailure => match next_failure(path, step) {
                Some(failure) => return Ok(Some(failure)),
                None => out.print_line("nothing failed after this step")?,
            },
            Request::Context => print_context(&*path.context_after(Some(step)).await?, out)?,
            Request::Step(number) if (1..=last_step + 1).contains(&number) => return Ok(Some(number - 1)),
            Request::Step(_) => out.print_line(format!("there are steps 1 to {}", last_step + 1))?,
            Request::Quit => return Ok(None),
            Request::Help => print_help(path, step, out)?,
        }
    }
}

fn next_failure(path: &Path, step: usize) -> Option<usize> {
    let later_entries = path.entries.iter().enumerate().skip(step + 1);
    later_entries.filter(|(_, entry)| failure_of(entry).is_some()).map(|(index, _)| index).next()
}

fn print_help(path: &Path, step: usize, out: &mut Output) -> Result<()> {
    out.print_line("Enter or n: the next step, b: the step before, e: the next step that failed")?;
    out.print_line("a number: that step, c: the whole context, q: quit")?;
    let Some(entry) = path.entries.get(step) else { return Ok(()) };
    out.print_line(format!(
        "to go on from here in a new thread: agentstore step {} --at @{} --fork",
        path.thread, entry.seq
    ))
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn an_answer_is_a_letter_or_the_number_of_a_step() {
        for (answer, request) in [
            ("", Request::Next),
            ("n", Request::Next),
            (" b ", Request::Back),
            ("e", Request::NextFailure),
            ("c", Request::Context),
            ("q", Request::Quit),
            ("12", Request::Step(12)),
            ("-1", Request::Help),
            ("what", Request::Help),
        ] {
            assert_eq!(Request::parse(answer), request, "{answer:?}");
        }
    }
}
