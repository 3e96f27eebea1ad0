//! Starts a process that commits turns (see `turn.rs`), and kills the process in the middle of a turn.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use agentstore::{Error, ThreadId};

use super::Demo;
use crate::failure::{Failure, Result};

/// The number of turns that the writer finishes before it is killed. It is killed when it begins the next turn.
const TURNS_BEFORE_KILL: u64 = 25;

/// What the writer printed before it was killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct KilledWriter {
    /// The process id of the writer.
    pub(super) pid: u32,
    /// The first turn of the writer.
    pub(super) first_turn: u64,
    /// The last turn that the writer acknowledged.
    pub(super) last_acknowledged: u64,
    /// The last turn that the writer began.
    pub(super) last_begun: u64,
}

/// Starts a writer that commits turns from `first_turn` on, and kills it in the middle of a turn.
pub(super) fn start_and_kill(demo: &Demo, thread: &ThreadId, first_turn: u64) -> Result<KilledWriter> {
    let mut child = start(demo, thread, first_turn)?;
    let pid = child.id();
    let last_turns = read_output_and_kill(&mut child, first_turn);
    // These calls may fail because the child has ended. If it ended by itself, `last_turns` is an error.
    let _ = child.kill();
    let _ = child.wait();
    let (last_acknowledged, last_begun) = last_turns?;
    Ok(KilledWriter { pid, first_turn, last_acknowledged, last_begun })
}

fn start(demo: &Demo, thread: &ThreadId, first_turn: u64) -> Result<Child> {
    let program = std::env::current_exe().map_err(|error| Failure::io("the path of this program is unknown", error))?;
    let mut command = Command::new(program);
    command
        .env("AGENTSTORE_URL", demo.urls.store.with_password())
        .args(["--tenant", demo.tenant.as_str(), "demo-writer", "--"])
        .args([thread.as_str(), &demo.id_prefix, &first_turn.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.spawn().map_err(|error| Failure::io("the writer cannot be started", error))
}

/// Reads what the writer prints, kills it when it begins the turn after the first `TURNS_BEFORE_KILL`, and reads the
/// rest of its output. Returns the last turn that it acknowledged and the last turn that it began.
fn read_output_and_kill(child: &mut Child, first_turn: u64) -> Result<(u64, u64)> {
    let stdout: ChildStdout = child.stdout.take().ok_or_else(|| Error::unavailable("the writer has no output"))?;
    let (mut last_acknowledged, mut last_begun) = (None, None);
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|error| Failure::io("the output of the writer cannot be read", error))?;
        let mut words = line.split_whitespace();
        match (words.next(), words.next().and_then(|number| number.parse::<u64>().ok())) {
            (Some("begin"), number) => last_begun = number,
            (Some("done"), number) => last_acknowledged = number,
            _ => {}
        }
        if last_begun == Some(first_turn + TURNS_BEFORE_KILL) {
            child.kill().map_err(|error| Failure::io("the writer cannot be killed", error))?;
        }
    }
    match (last_acknowledged, last_begun) {
        (Some(last_acknowledged), Some(last_begun)) if last_begun >= first_turn + TURNS_BEFORE_KILL => {
            Ok((last_acknowledged, last_begun))
        }
        _ => Err(Error::unavailable("the writer ended before it was killed").into()),
    }
}
