//! Tests the relay against a web server that returns given answers.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot continue panics at that line")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentstore::{
    Backoff, Commit, Json, NewOutboxRow, OutboxFilter, OutboxId, OutboxStatus, OutboxStore, Stores, TenantId,
    WorkerOptions,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use webhook_example::relay;

/// A received request: its idempotency key and its body.
type Request = (String, String);

/// A web server, with the answers that it still has to give and the requests that it received.
struct TestServer {
    url: String,
    answers: Arc<Mutex<VecDeque<&'static str>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl TestServer {
    /// Starts a server that gives these answers in order, and then answers with 200. An answer is a status and headers,
    /// each with its line end.
    async fn start(answers: impl IntoIterator<Item = &'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (next_answers, received_requests) = (Arc::clone(&answers), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = next_answers.lock().unwrap().pop_front().unwrap_or("200 OK\r\n");
                let request = answer_request(stream, answer).await;
                received_requests.lock().unwrap().push(request);
            }
        });
        Self { url, answers, requests }
    }
}

/// Reads one request and answers it. With an empty answer it closes the connection.
async fn answer_request(mut stream: TcpStream, answer: &str) -> Request {
    let mut text = String::new();
    let (headers, mut body) = loop {
        let mut bytes = [0; 1_024];
        let length = stream.read(&mut bytes).await.unwrap();
        assert!(length > 0, "the client closed the connection before it had sent a request");
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        if let Some((headers, body)) = text.split_once("\r\n\r\n") {
            break (headers.to_ascii_lowercase(), body.to_owned());
        }
    };
    let header = |name: &str| headers.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let length: usize = header("content-length:").parse().unwrap();
    while body.len() < length {
        let mut bytes = [0; 1_024];
        let length = stream.read(&mut bytes).await.unwrap();
        assert!(length > 0, "the client closed the connection before it had sent a request");
        body.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    if !answer.is_empty() {
        let answer = format!("HTTP/1.1 {answer}Content-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
    (header("idempotency-key:"), body)
}

struct TestTenant {
    stores: Stores,
    tenant: TenantId,
}

impl TestTenant {
    async fn new() -> Self {
        Self { stores: agentstore::open("memory:").await.unwrap(), tenant: TenantId::default_tenant() }
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        self.stores.commits(&self.tenant).unwrap().outbox()
    }

    /// Commits a row for each payload, all with the same order key.
    async fn commit_rows(&self, url: &str, payloads: &[&str]) -> Vec<OutboxId> {
        let row = |text: &&str| {
            let row = NewOutboxRow::new("webhook".parse().unwrap(), url.parse().unwrap(), Json::parse(text).unwrap());
            row.with_order_key("orders".parse().unwrap()).with_max_attempts(3)
        };
        let commit = Commit::new("t".parse().unwrap()).with_outbox(payloads.iter().map(row));
        self.stores.commits(&self.tenant).unwrap().commit(commit).await.unwrap().outbox
    }

    async fn deliver_all(&self) -> agentstore::WorkSummary {
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(5));
        let options = WorkerOptions::default().with_backoff(backoff);
        relay(&self.stores, &self.tenant, options).unwrap().run_until_idle().await.unwrap()
    }
}

/// Tests WK-10, OB-10 and OB-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_delivery_is_repeated_with_its_id_and_in_order() {
    let tenant = TestTenant::new().await;
    let server = TestServer::start(["500 Oops\r\n", "", "200 OK\r\n", "503 Busy\r\nRetry-After: 0\r\n"]).await;
    let ids = tenant.commit_rows(&server.url, &[r#"{"n":1}"#, r#"{"n":2}"#]).await;
    let summary = tenant.deliver_all().await;
    assert_eq!((summary.acked, summary.retried), (2, 3), "{summary:?}");
    let requests = server.requests.lock().unwrap().clone();
    let [first, second] = [0, 1].map(|at: usize| (ids[at].to_string(), format!(r#"{{"n":{}}}"#, at + 1)));
    assert_eq!(requests, [first.clone(), first.clone(), first, second.clone(), second]);
    assert!(server.answers.lock().unwrap().is_empty());
}

/// Tests WK-10: a row that the server will never accept, and one that it refused too often, become dead letters. The
/// next row is still delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_delivered_becomes_a_dead_letter() {
    let tenant = TestTenant::new().await;
    let oops = "500 Oops\r\n";
    let server = TestServer::start(["410 Gone\r\n", oops, oops, oops]).await;
    let ids = tenant.commit_rows(&server.url, &["1", "2", "3"]).await;
    let summary = tenant.deliver_all().await;
    assert_eq!((summary.acked, summary.dead_lettered), (1, 2), "{summary:?}");
    let mut statuses = Vec::new();
    for id in &ids {
        let row = tenant.outbox().load_outbox(id).await.unwrap().unwrap();
        statuses.push((row.status, row.last_error.unwrap_or_default()));
    }
    assert_eq!(statuses[0], (OutboxStatus::DeadLetter, "the server answered 410 Gone".to_owned()));
    assert_eq!(statuses[1], (OutboxStatus::DeadLetter, "the server answered 500 Internal Server Error".to_owned()));
    assert_eq!(statuses[2].0, OutboxStatus::Delivered);
    let counts = tenant.outbox().count_outbox(&OutboxFilter::default()).await.unwrap();
    assert_eq!((counts.delivered, counts.dead_letter, counts.pending), (1, 2, 0));
}

/// Tests WK-10: a delivery to an unreachable server is tried again like one that fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_to_an_unreachable_server_is_repeated() {
    let tenant = TestTenant::new().await;
    let unused_address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let ids = tenant.commit_rows(&format!("http://{unused_address}/hook"), &["1"]).await;
    let summary = tenant.deliver_all().await;
    assert_eq!((summary.retried, summary.dead_lettered), (2, 1), "{summary:?}");
    let row = tenant.outbox().load_outbox(&ids[0]).await.unwrap().unwrap();
    assert_eq!(row.attempts, 3);
}
