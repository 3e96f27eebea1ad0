//! The program as a process.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use crate::fake::{FakeServer, KEY};

/// How long the program may need for an answer. It is long, because many tests run at once.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running program. It is killed when the value is dropped.
pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
    /// The output since the last command.
    pub(crate) output_since_command: String,
}

impl Program {
    /// Starts the program with a store in `folder`.
    pub(crate) fn start(folder: &Path, server: &FakeServer, arguments: &[&str]) -> Self {
        Self::start_with_key(folder, server, KEY, arguments)
    }

    /// Starts the program, and waits until it asks for input.
    pub(crate) fn start_with_key(folder: &Path, server: &FakeServer, key: &str, arguments: &[&str]) -> Self {
        let mut program = Self::begin(folder, server, key, arguments);
        program.wait_until(asks_for_input);
        program
    }

    /// Starts the program, which may go on with an answer before it asks for input.
    pub(crate) fn start_without_waiting(folder: &Path, server: &FakeServer) -> Self {
        Self::begin(folder, server, KEY, &[])
    }

    fn begin(folder: &Path, server: &FakeServer, key: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chat-example"));
        command.env_clear().arg("--store").arg(format!("file:{}", folder.join("store").display())).args(arguments);
        // What is shown is stored before.
        command.args(["--checkpoint-millis", "0"]);
        for provider in ["ANTHROPIC", "OPENAI", "GEMINI"] {
            command.env(format!("{provider}_API_KEY"), key).env(format!("{provider}_BASE_URL"), server.url());
        }
        command.stderr(File::options().create(true).append(true).open(folder.join("stderr")).unwrap());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, mut stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(length @ 1..) = stdout.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, stdin, output, output_since_command: String::new() }
    }

    /// Starts the program with this model.
    pub(crate) fn start_with_model(folder: &Path, server: &FakeServer, (provider, model): (&str, &str)) -> Self {
        Self::start(folder, server, &["--provider", provider, "--model", model])
    }

    /// Types a line.
    pub(crate) fn send(&mut self, line: &str) {
        self.output_since_command.clear();
        writeln!(self.stdin.as_ref().unwrap(), "{line}").unwrap();
    }

    /// Types a line, waits until the program asks for the next one, and returns what it printed in between.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.wait_until(asks_for_input);
        self.output_since_command.strip_suffix("> ").unwrap().to_owned()
    }

    /// Waits until the output since the last command contains a text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(|output| output.contains(text));
    }

    fn wait_until(&mut self, is_enough: impl Fn(&str) -> bool) {
        while !is_enough(&self.output_since_command) {
            match self.output.recv_timeout(DEADLINE) {
                Ok(bytes) => self.output_since_command.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout) => panic!("the program is silent after: {}", self.output_since_command),
                Err(RecvTimeoutError::Disconnected) => panic!("the program ended after: {}", self.output_since_command),
            }
        }
    }

    /// Kills the program with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the input, and waits until the program ends.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.stdin = None;
        self.child.wait().unwrap()
    }
}

fn asks_for_input(output: &str) -> bool {
    output == "> " || output.ends_with("\n> ")
}

impl Drop for Program {
    fn drop(&mut self) {
        let (_killed, _ended) = (self.child.kill(), self.child.wait());
    }
}
