//! A server as a process.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// How long a server may need for a line. It is long, because many tests run at once.
const DEADLINE: Duration = Duration::from_secs(120);

/// A running server. It is killed when the value is dropped.
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Lines about settings that were printed while the test waited for an answer.
    settings: Vec<String>,
}

impl Server {
    pub(crate) fn start(url: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_agent-server-example"))
            .args(["--store", url])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let read = BufReader::new(stdout).lines().map_while(Result::ok);
            let _until_the_test_ends = read.map(|line| sender.send(line)).find(Result::is_err);
        });
        Self { child, stdin, lines, settings: Vec::new() }
    }

    /// Types a command, and returns the answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        writeln!(self.stdin.as_ref().unwrap(), "{command}").unwrap();
        loop {
            let line = self.next_line(command);
            if !line.starts_with("settings:") {
                return line;
            }
            self.settings.push(line);
        }
    }

    /// Waits until the server prints a line about its settings.
    pub(crate) fn wait_for(&mut self, line: &str) {
        while !self.settings.iter().any(|printed| printed == line) {
            let printed = self.next_line(line);
            self.settings.push(printed);
        }
    }

    fn next_line(&mut self, awaited: &str) -> String {
        self.lines.recv_timeout(DEADLINE).unwrap_or_else(|e| panic!("{awaited}: {e}, after {:?}", self.settings))
    }

    /// Closes the input, and waits until the server ends.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.stdin = None;
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let (_killed, _ended) = (self.child.kill(), self.child.wait());
    }
}
