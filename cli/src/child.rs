//! Runs one command of the user in a process group of its own, under a supervisor. This process writes the input, reads
//! the output and waits for the end. If the command must end early, it is killed together with all processes that it
//! started.

use std::{
    ffi::OsString,
    fmt, io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentstore::CancelReason;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

/// How long a command that was asked to end may continue before it is killed.
pub(crate) const KILL_DELAY: Duration = Duration::from_secs(3);
/// How long this process waits for the end of an output that a background process of the command keeps open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of bytes at the end of a command's standard error that this process keeps.
const MAX_ERROR_OUTPUT_BYTES: usize = 900;

/// How a command ended, and what it printed.
#[derive(Debug)]
pub(crate) struct CommandOutcome {
    pub(crate) end_reason: EndReason,
    /// The beginning of its standard output.
    pub(crate) output: Vec<u8>,
    /// The number of bytes of the whole standard output.
    pub(crate) printed_bytes: u64,
    /// The end of its standard error.
    pub(crate) error_output: String,
}

impl CommandOutcome {
    /// Returns the outcome of a command that could not be run.
    pub(crate) fn not_run(error: io::Error) -> Self {
        let (output, error_output) = (Vec::new(), String::new());
        Self { end_reason: EndReason::SystemError(error), output, printed_bytes: 0, error_output }
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) enum EndReason {
    /// The command ended with this exit code.
    Code(i32),
    /// This signal, which this process did not send, ended the command.
    Signal(i32),
    /// This process ended the command for this reason.
    Cancelled(CancelReason),
    /// The command could not be started, or waiting for its end failed.
    SystemError(io::Error),
}

/// A command, which may be run several times.
#[derive(Debug)]
pub(crate) struct CommandSpec {
    /// The text of the command, which is run by `sh -c`.
    pub(crate) command: String,
    /// The variables from which the command learns the store of this process. They contain passwords and must not be
    /// printed.
    pub(crate) environment: Environment,
}

/// Environment variables. Those without a value are removed from the environment.
pub(crate) struct Environment(pub(crate) [(&'static str, Option<OsString>); 6]);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// What one execution of a command gets, and how much of its output is kept.
#[derive(Debug)]
pub(crate) struct CommandInput {
    /// The bytes of standard input.
    pub(crate) bytes: Vec<u8>,
    /// Environment variables of this execution.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// The number of bytes at the beginning of the command's standard output that this process keeps.
    pub(crate) max_output_bytes: usize,
}

/// Runs the command once. When `stop` returns a reason, the command is ended. Dropping the future kills it.
pub(crate) async fn run(
    spec: &CommandSpec,
    input: CommandInput,
    stop: impl Future<Output = CancelReason>,
) -> CommandOutcome {
    match ProcessGroup::spawn(spec, input) {
        Ok(group) => group.wait_or_kill(stop).await,
        Err(error) => CommandOutcome::not_run(error),
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
    fn spawn(spec: &CommandSpec, input: CommandInput) -> io::Result<Self> {
        let CommandInput { bytes, variables, max_output_bytes } = input;
        let mut command = Command::new(this_program()?);
        for (name, value) in &spec.environment.0 {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command
            .args(["supervise", "--worker", &std::process::id().to_string(), "--", &spec.command])
            .envs(variables)
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
                let _ = stdin.write_all(&bytes).await;
            }
        });
        let output = OutputReader::new(child.stdout.take(), KeptPart::Beginning(max_output_bytes));
        let error_output = OutputReader::new(child.stderr.take(), KeptPart::End(MAX_ERROR_OUTPUT_BYTES));
        Ok(Self { child, id, output, error_output, input_writer })
    }

    /// Waits for the end of the command. If a claim is lost, the command is killed at once, because another worker may
    /// already be doing the work.
    async fn wait_or_kill(mut self, stop: impl Future<Output = CancelReason>) -> CommandOutcome {
        let end_reason = tokio::select! {
            biased;
            status = self.child.wait() => end_reason_of(status),
            reason = stop => {
                if matches!(reason, CancelReason::Deadline | CancelReason::Stopping) {
                    self.kill(Signal::TERM);
                    let _in_time = timeout(KILL_DELAY, self.child.wait()).await;
                }
                // This also kills processes that outlived the first one. The id of a group is not given to another
                // process while the group has members.
                self.kill(Signal::KILL);
                let _status = self.child.wait().await;
                EndReason::Cancelled(reason)
            }
        };
        // Without the id, dropping the group kills nothing: if the command ended by itself, the processes that it left
        // in the background continue to run.
        self.id = None;
        let (output, printed_bytes) = self.output.finish().await;
        let (error_output, _) = self.error_output.finish().await;
        // A character that was cut in the middle becomes a replacement character.
        let error_output = String::from_utf8_lossy(&error_output).into_owned();
        CommandOutcome { end_reason, output, printed_bytes, error_output }
    }

    fn kill(&self, signal: Signal) {
        if let Some(id) = self.id {
            // The group may have ended already.
            let _ = kill_process_group(id, signal);
        }
    }
}

/// Adds the end of a command's standard error to a text that says how the command ended.
pub(crate) fn with_error_output(how_it_ended: String, error_output: &str) -> String {
    let error_output = error_output.trim();
    if error_output.is_empty() { how_it_ended } else { format!("{how_it_ended}: {error_output}") }
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
    /// The kept bytes, and the number of all bytes.
    kept: Arc<Mutex<(Vec<u8>, u64)>>,
    task: JoinHandle<()>,
}

impl OutputReader {
    fn new(stream: Option<impl AsyncRead + Unpin + Send + 'static>, kept_part: KeptPart) -> Self {
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
                match kept_part {
                    KeptPart::Beginning(max_bytes) => bytes.truncate(max_bytes),
                    KeptPart::End(max_bytes) => drop(bytes.drain(..bytes.len().saturating_sub(max_bytes))),
                }
            }
        });
        Self { kept, task }
    }

    /// Returns the kept part, and the number of all bytes. If a process that the command left in the background keeps
    /// the output open, the reader stops after `DRAIN_TIMEOUT`.
    async fn finish(&mut self) -> (Vec<u8>, u64) {
        let _ended = timeout(DRAIN_TIMEOUT, &mut self.task).await;
        self.task.abort();
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
