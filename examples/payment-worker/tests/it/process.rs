//! The payment server and the workers, as processes.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use payment_worker_example::Payments;

/// How long a process may need for a line. It is long, because many tests run at once.
const DEADLINE: Duration = Duration::from_secs(120);

/// What the processes print.
enum Output {
    Line,
    WorkerEnded,
}

/// A running payment server, and what it and its workers print. It is killed when the value is dropped.
pub(crate) struct PaymentServer {
    child: Child,
    address: String,
    sender: Sender<Output>,
    output: Mutex<Receiver<Output>>,
}

fn start(arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_payment-worker-example"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    (child, BufReader::new(stdout).lines().map_while(Result::ok))
}

impl PaymentServer {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let (child, mut lines) = start(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        let first = lines.next().unwrap();
        let address = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("it printed {first:?}")).to_owned();
        let (sender, output) = mpsc::channel();
        let line_sender = sender.clone();
        thread::spawn(move || lines.map(|_| line_sender.send(Output::Line)).find(Result::is_err));
        Self { child, address, sender, output: Mutex::new(output) }
    }

    pub(crate) fn payments(&self) -> Payments {
        Payments::new(&self.address)
    }

    /// Runs a worker until it has nothing to do. If `kill_after` is given, kills it with SIGKILL after this number of
    /// lines that it or the server prints. Returns whether it was killed.
    pub(crate) fn run_worker(&self, url: &str, arguments: &[&str], kill_after: Option<usize>) -> bool {
        let output = self.output.lock().unwrap();
        // Lines about earlier workers.
        while output.try_recv().is_ok() {}
        let work = ["work", "--until-idle", "--lease-millis", "500", "--store", url, "--server", &self.address];
        let (mut worker, lines) = start(&[&work, arguments].concat());
        let sender = self.sender.clone();
        let reader = thread::spawn(move || {
            lines.for_each(|_| sender.send(Output::Line).unwrap());
            sender.send(Output::WorkerEnded).unwrap();
        });
        let mut has_ended = false;
        let mut remaining_lines = kill_after.unwrap_or(usize::MAX);
        while remaining_lines > 0 && !has_ended {
            has_ended = matches!(output.recv_timeout(DEADLINE).unwrap(), Output::WorkerEnded);
            remaining_lines -= 1;
        }
        if !has_ended {
            worker.kill().unwrap();
        }
        let status = worker.wait().unwrap();
        reader.join().unwrap();
        // It may have ended by itself before the signal came.
        let is_killed = status.code().is_none();
        assert!(is_killed || status.success(), "{status}");
        is_killed
    }
}

impl Drop for PaymentServer {
    fn drop(&mut self) {
        let (_killed, _ended) = (self.child.kill(), self.child.wait());
    }
}
