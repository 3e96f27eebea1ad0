//! Processes that are the test binary itself, told what to do.

#![expect(clippy::unwrap_used, reason = "a test that cannot speak with its processes has failed")]
#![expect(clippy::must_use_candidate, reason = "who ends a process need not care for what it said")]

use std::{
    fmt::Display,
    io::{BufRead as _, BufReader, Lines, Read as _, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

/// A process that runs one test of this binary, which does what its environment tells.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// A process that is heard all the time: it never waits for who hears it.
#[derive(Debug)]
pub struct Heard {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    hearing: JoinHandle<()>,
}

/// Says a line to whoever began this process.
pub fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    // On a line of its own, whatever stands before it.
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Waits until whoever began this process tells it to go on, or lets go of it.
pub fn listen() {
    let _told = std::io::stdin().read(&mut [0]);
}

impl Process {
    /// Begins one with a test of this name. What stands before its own command is perhaps `strace`.
    #[must_use]
    pub fn begin(before: &[&str], test: &str, environment: &[(&str, &str)]) -> Self {
        let binary = std::env::current_exe().unwrap();
        let mut words = before.iter().map(Into::into).chain([binary.into_os_string()]);
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

    /// Its number in the system.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next thing that it says; nothing at its end.
    pub fn hear(&mut self) -> Option<String> {
        self.lines.by_ref().map(Result::unwrap).find_map(|line| line.strip_prefix('@').map(str::to_owned))
    }

    /// The rest of what it says.
    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.hear()).collect()
    }

    /// Hears it from now on, all the time.
    #[must_use]
    pub fn heard(self) -> Heard {
        let (Self { child, lines }, said) = (self, Arc::<Mutex<Vec<_>>>::default());
        let heard = Arc::clone(&said);
        let hearing = std::thread::spawn(move || {
            let lines = lines.map(Result::unwrap).filter_map(|line| line.strip_prefix('@').map(str::to_owned));
            lines.for_each(|line| heard.lock().unwrap().push(line));
        });
        Heard { child, said, hearing }
    }

    /// Lets it go on, if it waits for that.
    pub fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b".").unwrap();
    }

    /// Kills it, and gives what it had said.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let said = self.rest();
        self.child.wait().unwrap();
        said
    }

    /// Lets go of it, and gives what it says until it ends well.
    pub fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let said = self.rest();
        assert!(self.child.wait().unwrap().success(), "{said:?}");
        said
    }
}

impl Heard {
    /// What it said up to now.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Kills it, and gives all that it said.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.hearing.join().unwrap();
        self.child.wait().unwrap();
        std::mem::take(&mut *self.said.lock().unwrap())
    }
}
