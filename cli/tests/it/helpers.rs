//! A temporary store, and functions that run the command on it.

use std::{
    io::{BufRead, BufReader, PipeWriter, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// A store in a temporary folder, or another store with a temporary folder beside it.
pub(crate) struct TestStore {
    folder: TempDir,
    url: String,
}

/// The exit code and the output of the command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}", folder.path().join("data").display());
        Self { folder, url }
    }

    /// Returns the store at a URL.
    pub(crate) fn at(url: String) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns a path next to the store.
    pub(crate) fn sibling_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the command on the store.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_with_input(args, "")
    }

    /// Runs the command on the store, with this standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> CommandOutput {
        run(&[&["--store", &self.url], args].concat(), input)
    }

    /// Runs the command on the store, with `output` as its standard output.
    pub(crate) fn run_with_stdout(&self, args: &[&str], output: impl Into<Stdio>) -> CommandOutput {
        run_with_stdout(&[&["--store", &self.url], args].concat(), "", output)
    }

    /// Runs the command with `--json`. It must succeed. Returns its document.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let response = self.run(&[args, &["--json"]].concat()).expect_success();
        serde_json::from_str(&response.out).unwrap_or_else(|error| panic!("{error}: {}", response.out))
    }

    /// Writes a file beside the store. Returns its path.
    pub(crate) fn write_file(&self, name: &str, text: &str) -> String {
        let path = self.sibling_path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Appends a message to a thread, and returns the receipt.
    pub(crate) fn append(&self, thread: &str, text: &str) -> Value {
        self.json(&["append", thread, "--message", text])
    }
}

impl CommandOutput {
    /// Checks that the command succeeded and printed nothing to standard error.
    pub(crate) fn expect_success(self) -> Self {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        self
    }

    /// Checks the exit code, that standard error contains each of these texts, and that standard output is empty.
    pub(crate) fn expect_failure(self, code: i32, expected_texts: &[&str]) -> Self {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        for expected_text in expected_texts {
            assert!(self.err.contains(expected_text), "`{expected_text}` is not in {:?}", self.err);
        }
        self
    }

    /// Returns the error document.
    pub(crate) fn error(&self) -> Value {
        serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.err))
    }

    /// Returns the documents on standard output, one per line.
    pub(crate) fn documents(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A command that prints a JSON document on each line until it is killed. Dropping this value kills it.
pub(crate) struct Follower {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Follower {
    /// Starts the command on a store.
    pub(crate) fn start(store: &TestStore, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_agentstore"))
            .args([&["--store", store.url(), "--json"], args].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Waits for the next document.
    pub(crate) fn next(&self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(60));
        let line = line.unwrap_or_else(|error| panic!("the command printed no further line: {error}"));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns the writing end of a pipe whose reading end is closed.
pub(crate) fn closed_pipe() -> PipeWriter {
    std::io::pipe().unwrap().1
}

/// Runs the command in a new folder.
pub(crate) fn run(args: &[&str], input: &str) -> CommandOutput {
    run_with_stdout(args, input, Stdio::piped())
}

fn run_with_stdout(args: &[&str], input: &str, output: impl Into<Stdio>) -> CommandOutput {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(args)
        .current_dir(folder.path())
        .env_remove("AGENTSTORE_URL")
        .env_remove("AGENTSTORE_MAILBOX")
        .env_remove("AGENTSTORE_SETTINGS")
        .env_remove("AGENTSTORE_BLOBS")
        .env_remove("AGENTSTORE_TENANT")
        .env_remove("AGENTSTORE_ACTOR")
        .stdin(Stdio::piped())
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the path of a session file as another tool writes it.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sessions/fixtures").join(name)
}

/// Returns the value at a JSON pointer in a document.
pub(crate) fn value_at<'a>(document: &'a Value, pointer: &str) -> &'a Value {
    document.pointer(pointer).unwrap_or_else(|| panic!("no `{pointer}` in {document}"))
}
