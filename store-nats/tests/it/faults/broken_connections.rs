//! Test N6 of docs/reliability.md: connections that break after a request was sent (ER-4, NA-7). What the store reports
//! about each call is true.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use conformance_tests::TestLength;
use store_core::{IdSource, Store, UuidSource};
use store_nats::{NatsConfig, NatsStore};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::helpers::EnqueueOutcomes;
use crate::{
    fixture::server_url,
    helpers::{all_dispatches, enqueue, mailbox, new_dispatch},
    processes::remove_streams,
};

/// A proxy that can break a connection after it has forwarded a request to the server, so that the client gets no
/// answer.
struct BreakingProxy {
    port: u16,
    /// The number of bytes that clients can still send before a connection breaks, or `u64::MAX` if none breaks.
    bytes_until_break: Arc<AtomicU64>,
}

impl BreakingProxy {
    async fn new(server_address: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let bytes_until_break = Arc::new(AtomicU64::new(u64::MAX));
        let bytes_left = Arc::clone(&bytes_until_break);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server_address).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&bytes_left)));
            }
        });
        Self { port, bytes_until_break }
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, bytes_until_break: Arc<AtomicU64>) {
    let (mut client_buffer, mut server_buffer) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut client_buffer) => {
                let Ok(length @ 1..) = read else { return };
                if server.write_all(&client_buffer[..length]).await.is_err() {
                    return;
                }
                let bytes_left = bytes_until_break.load(Ordering::SeqCst);
                if bytes_left == u64::MAX {
                    continue;
                }
                bytes_until_break.store(bytes_left.saturating_sub(length as u64), Ordering::SeqCst);
                if bytes_left <= length as u64 {
                    // The request reaches the server, and no answer comes back.
                    bytes_until_break.store(u64::MAX, Ordering::SeqCst);
                    sleep(Duration::from_millis(20)).await;
                    return;
                }
            }
            read = server.read(&mut server_buffer) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&server_buffer[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_a_call_whose_answer_was_lost_is_looked_up() {
    let address = server_url().trim_start_matches("nats://").trim_end_matches('/').to_owned();
    let proxy = BreakingProxy::new(address).await;
    let prefix = format!("test-{}", UuidSource.next_id());
    let mut config = NatsConfig::new(&format!("nats://127.0.0.1:{}/?prefix={prefix}", proxy.port)).unwrap();
    config.allow_unsafe = true;
    config.answer_timeout = Duration::from_secs(5);
    let store = NatsStore::open(config.clone()).await.unwrap();
    let mailbox = mailbox(&store);
    let (mut outcomes, rounds) = (EnqueueOutcomes::default(), TestLength::pick_by_env(40, 150, 1_500));
    for round in 0..rounds {
        if round % 3 == 0 {
            // The number of sent bytes after which the connection breaks is different each time. So in the course of
            // the rounds, each request of the call loses its answer.
            proxy.bytes_until_break.store(1 + (round as u64 * 97) % 1_500, Ordering::SeqCst);
        }
        let run = format!("run-{round}");
        let mut draft = new_dispatch(&format!("t-{}", round % 3));
        draft.run = run.parse().unwrap();
        outcomes.record(run, enqueue(&*mailbox, draft).await);
    }
    let EnqueueOutcomes { accepted_ids, refused_ids, unknown_count } = outcomes;
    proxy.bytes_until_break.store(u64::MAX, Ordering::SeqCst);
    sleep(Duration::from_millis(500)).await;
    let runs: Vec<_> = all_dispatches(&*mailbox).await.into_iter().map(|dispatch| dispatch.run.to_string()).collect();
    let distinct_runs: HashSet<_> = runs.iter().collect();
    assert_eq!(distinct_runs.len(), runs.len(), "something was enqueued twice");
    let lost_runs: Vec<_> = accepted_ids.iter().filter(|run| !distinct_runs.contains(run)).collect();
    let late_runs: Vec<_> = refused_ids.iter().filter(|run| distinct_runs.contains(run)).collect();
    assert!(lost_runs.is_empty() && late_runs.is_empty(), "lost: {lost_runs:?}, refused but present: {late_runs:?}");
    println!(
        "{} lost answers: {} accepted, {} refused, {unknown_count} unknown",
        rounds / 3,
        accepted_ids.len(),
        refused_ids.len()
    );
    assert!(accepted_ids.len() > rounds / 2, "too many calls had no answer");
    store.close().await.unwrap();
    remove_streams(&config).await;
}
