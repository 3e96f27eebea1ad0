//! A server in a process of its own, and requests to it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

/// How long an answer may take. No test is expected to take so long.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts a server whose agent takes this time for each word.
    pub(crate) fn start(url: &str, word_millis: u64) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_replay-server-example"))
            .args(["--store", url, "--listen", "127.0.0.1:0", "--word-millis", &word_millis.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("it printed {line:?}"));
        Self { address: address.to_owned(), child }
    }

    /// Kills the server, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a run. Returns the status of the response.
    pub(crate) fn start_run(&self, run: &str, question: &str) -> u16 {
        let length = question.len();
        let head = format!("POST /runs/{run} HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n");
        self.send(&format!("{head}{question}")).0
    }

    /// Asks for the events of a run after the last one that was received. Returns the status, and the body as it comes.
    pub(crate) fn get(&self, run: &str, last_id: Option<&str>) -> (u16, impl Read + use<>) {
        let last_id = last_id.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        self.send(&format!("GET /runs/{run}/events HTTP/1.0\r\n{last_id}\r\n"))
    }

    /// Sends a request. With HTTP/1.0 the body ends with the connection, and consists of nothing but its own bytes.
    fn send(&self, request: &str) -> (u16, BufReader<TcpStream>) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(DEADLINE)).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut response = BufReader::new(connection);
        let (mut status, mut line) = (String::new(), String::new());
        response.read_line(&mut status).unwrap();
        while line != "\r\n" {
            line.clear();
            assert!(response.read_line(&mut line).unwrap() > 0, "the response has no body: {status}");
        }
        (status.split(' ').nth(1).unwrap().parse().unwrap(), response)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let (_killed, _ended) = (self.child.kill(), self.child.wait());
    }
}
