//! Processes for tests. Each process runs one test of the same test binary. This test communicates with the test that
//! started the process.

#![expect(clippy::unwrap_used, reason = "a test that cannot communicate with its processes fails")]
#![expect(clippy::must_use_candidate, reason = "a caller that ends a process may ignore its output")]

use std::{
    fmt::Display,
    io::{BufRead as _, BufReader, Lines, Read as _, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

/// A process that runs one test of this binary. Environment variables tell the test what to do.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A process whose output is read continuously by an OS thread of the test, so that the process never has to wait until
/// its output is read.
#[derive(Debug)]
pub struct ProcessWithReader {
    child: Child,
    received_lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

/// Sends a line to the process that started this one.
pub fn send_line(line: impl Display) {
    let mut out = std::io::stdout().lock();
    // The test harness may have printed an incomplete line before.
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Waits until the process that started this one calls [`Process::let_continue`] or [`Process::end`], or ends.
pub fn wait_for_parent() {
    let _signal = std::io::stdin().read(&mut [0]);
}

impl Process {
    /// Starts a process that runs the test with this name. `command_prefix` is empty, or is a command, such as `strace`
    /// with its arguments, that starts the test binary.
    #[must_use]
    pub fn begin(command_prefix: &[&str], test: &str, environment: &[(&str, &str)]) -> Self {
        let binary = std::env::current_exe().unwrap();
        let mut words = command_prefix.iter().map(Into::into).chain([binary.into_os_string()]);
        let mut child = Command::new(words.next().unwrap())
            .args(words)
            .args(["--exact", test, "--nocapture", "--test-threads", "1"])
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the id of the process in the operating system.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line that the process sends with [`send_line`]. Returns `None` after the last line.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.by_ref().map(Result::unwrap).find_map(|line| line.strip_prefix('@').map(str::to_owned))
    }

    /// Waits for the end of the output, and returns the remaining lines.
    pub fn remaining_lines(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next_line()).collect()
    }

    /// Reads the output continuously from now on.
    #[must_use]
    pub fn with_reader(self) -> ProcessWithReader {
        let (Self { child, lines }, received_lines) = (self, Arc::<Mutex<Vec<_>>>::default());
        let lines_for_reader = Arc::clone(&received_lines);
        let reader = std::thread::spawn(move || {
            let lines = lines.map(Result::unwrap).filter_map(|line| line.strip_prefix('@').map(str::to_owned));
            lines.for_each(|line| lines_for_reader.lock().unwrap().push(line));
        });
        ProcessWithReader { child, received_lines, reader }
    }

    /// Lets the process continue if it is waiting in [`wait_for_parent`].
    pub fn let_continue(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b".").unwrap();
    }

    /// Kills the process after it has sent this number of lines, if it has not ended before. None: waits until it ends,
    /// and panics unless it ends successfully. Returns all lines that it sent, except those that were already read.
    pub fn kill_after(mut self, lines: Option<usize>) -> Vec<String> {
        let Some(count) = lines else { return self.end() };
        let mut received: Vec<_> = (0..count).map_while(|_| self.next_line()).collect();
        received.extend(self.kill());
        received
    }

    /// Kills the process. Returns the lines that it sent, except those that were already read.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let received = self.remaining_lines();
        self.child.wait().unwrap();
        received
    }

    /// Closes the input of the process, and returns its remaining lines. Panics unless the process ends
    /// successfully.
    pub fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let received = self.remaining_lines();
        assert!(self.child.wait().unwrap().success(), "{received:?}");
        received
    }
}

impl ProcessWithReader {
    /// Returns the lines that were read up to now.
    #[must_use]
    pub fn lines_so_far(&self) -> Vec<String> {
        self.received_lines.lock().unwrap().clone()
    }

    /// Kills the process, and returns all lines that were read.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.reader.join().unwrap();
        self.child.wait().unwrap();
        std::mem::take(&mut *self.received_lines.lock().unwrap())
    }
}
