//! Runs one command in a process group of its own, under a supervisor. The worker writes the input, reads the output
//! and waits for the end. If the command must end early, the worker kills it together with all processes that it
//! started.

use std::{
    ffi::OsString,
    fmt, io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use agentstore::{CancelReason, Work};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

use super::{KILL_DELAY, report::DRAIN_TIMEOUT};

/// How many bytes of the standard output of a command are kept, from its beginning.
pub(super) const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// How many bytes of the standard error of a command are kept, from its end.
const MAX_ERROR_OUTPUT_BYTES: usize = 900;

/// How a command ended, and what it printed.
#[derive(Debug)]
pub(super) struct CommandOutcome {
    pub(super) end_reason: EndReason,
    /// The beginning of its standard output.
    pub(super) output: String,
    /// The number of bytes of the whole standard output.
    pub(super) printed_bytes: u64,
    /// The end of its standard error.
    pub(super) error_output: String,
}

/// How a command ended.
#[derive(Debug)]
pub(super) enum EndReason {
    /// The command ended with this exit code.
    Code(i32),
    /// This signal, which the worker did not send, ended the command.
    Signal(i32),
    /// The worker ended the command for this reason.
    Cancelled(CancelReason),
    /// The command could not be started, or waiting for its end failed.
    SystemError(io::Error),
}

/// The command that is run for each attempt.
#[derive(Debug)]
pub(super) struct CommandSpec {
    /// The text of the command, which is run by `sh -c`.
    pub(super) command: String,
    /// The variables from which the command learns the store of its worker. They contain passwords and must not be
    /// printed.
    pub(super) environment: Environment,
}

/// Environment variables. Those without a value are removed from the environment.
pub(super) struct Environment(pub(super) [(&'static str, Option<OsString>); 3]);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// Runs the command for one attempt. Dropping the future kills the command.
pub(super) async fn run(exec: &CommandSpec, work: &Work) -> CommandOutcome {
    match ProcessGroup::spawn(exec, work) {
        Ok(group) => group.wait_or_kill(work).await,
        Err(error) => CommandOutcome {
            end_reason: EndReason::SystemError(error),
            output: String::new(),
            printed_bytes: 0,
            error_output: String::new(),
        },
    }
}

/// A command with its process group.
struct ProcessGroup {
    child: Child,
    /// The id of the group. It is absent once the end of the first process of the group is known, because the system
    /// may then give the id to another process.
    id: Option<Pid>,
    output: OutputReader,
    error_output: OutputReader,
    input_writer: JoinHandle<()>,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill(Signal::KILL);
        self.input_writer.abort();
    }
}

impl ProcessGroup {
    fn spawn(exec: &CommandSpec, work: &Work) -> io::Result<Self> {
        let dispatch = work.dispatch();
        let document = serde_json::to_vec(dispatch)?;
        let number = work.claim_number();
        let mut command = Command::new(this_program()?);
        for (name, value) in &exec.environment.0 {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command
            .args(["supervise", "--worker", &std::process::id().to_string(), "--", &exec.command])
            .env("AGENTSTORE_DISPATCH_ID", dispatch.id.as_str())
            .env("AGENTSTORE_THREAD_ID", dispatch.thread.as_str())
            .env("AGENTSTORE_RUN_ID", dispatch.run.as_str())
            .env("AGENTSTORE_ATTEMPT", work.attempt().to_string())
            .env("AGENTSTORE_CLAIM", format!("{}.{}", number.incarnation, number.counter))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let stdin = child.stdin.take();
        let input_writer = tokio::spawn(async move {
            // A command that does not read its input has not failed.
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(&document).await;
            }
        });
        let output = OutputReader::new(child.stdout.take(), KeptPart::Beginning(MAX_OUTPUT_BYTES));
        let error_output = OutputReader::new(child.stderr.take(), KeptPart::End(MAX_ERROR_OUTPUT_BYTES));
        Ok(Self { child, id, output, error_output, input_writer })
    }

    /// Waits for the end of the command. If the claim is lost, the command is killed at once, because another worker
    /// may already do the work.
    async fn wait_or_kill(mut self, work: &Work) -> CommandOutcome {
        let end_reason = tokio::select! {
            biased;
            status = self.child.wait() => end_reason_of(status),
            why = work.cancellation().cancelled() => {
                if matches!(why, CancelReason::Deadline | CancelReason::Stopping) {
                    self.kill(Signal::TERM);
                    let _in_time = timeout(KILL_DELAY, self.child.wait()).await;
                }
                // This also kills processes that outlived the first one. The id of a group is not given to another
                // process while the group has members.
                self.kill(Signal::KILL);
                let _status = self.child.wait().await;
                EndReason::Cancelled(why)
            }
        };
        // Without the id, dropping the group kills nothing: if the command ended by itself, the processes that it left
        // in the background continue to run.
        self.id = None;
        let (output, printed_bytes) = self.output.finish().await;
        let (error_output, _) = self.error_output.finish().await;
        CommandOutcome { end_reason, output, printed_bytes, error_output }
    }

    fn kill(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may have ended already.
            let _ = kill_process_group(id, signal);
        }
    }
}

/// Returns the path of the running program. On Linux this is the same program even if its file was replaced.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

fn end_reason_of(status: io::Result<ExitStatus>) -> EndReason {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => EndReason::Code(code),
            (None, signal) => EndReason::Signal(signal.unwrap_or_default()),
        },
        Err(error) => EndReason::SystemError(error),
    }
}

/// Which part of the printed bytes is kept, and how many bytes it has at most.
#[derive(Debug, Clone, Copy)]
enum KeptPart {
    Beginning(usize),
    End(usize),
}

/// Reads everything that a command prints, and keeps a part of it.
struct OutputReader {
    kept: Arc<Mutex<(Vec<u8>, u64)>>,
    task: JoinHandle<()>,
}

impl OutputReader {
    fn new(stream: Option<impl AsyncRead + Unpin + Send + 'static>, keep: KeptPart) -> Self {
        let kept = Arc::new(Mutex::new((Vec::new(), 0)));
        let shared = Arc::clone(&kept);
        let task = tokio::spawn(async move {
            let Some(mut stream) = stream else { return };
            let mut buffer = vec![0; 8 << 10];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let (bytes, printed_bytes) = &mut *shared;
                *printed_bytes += length as u64;
                bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
                match keep {
                    KeptPart::Beginning(most) => bytes.truncate(most),
                    KeptPart::End(most) => drop(bytes.drain(..bytes.len().saturating_sub(most))),
                }
            }
        });
        Self { kept, task }
    }

    /// Returns the kept part as text, and the number of all bytes. If a process that the command left in the background
    /// keeps the output open, the reader stops after `DRAIN_TIMEOUT`.
    async fn finish(&mut self) -> (String, u64) {
        let _ended = timeout(DRAIN_TIMEOUT, &mut self.task).await;
        self.task.abort();
        let (bytes, printed_bytes) = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        // A character that was cut in the middle becomes a replacement character.
        (String::from_utf8_lossy(&bytes).into_owned(), printed_bytes)
    }
}
