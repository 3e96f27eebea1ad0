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
    async fn new(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let bytes_until_break = Arc::new(AtomicU64::new(u64::MAX));
        let left = Arc::clone(&bytes_until_break);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&to).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&left)));
            }
        });
        Self { port, bytes_until_break }
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, bytes_until_break: Arc<AtomicU64>) {
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(length @ 1..) = read else { return };
                if server.write_all(&up[..length]).await.is_err() {
                    return;
                }
                let left = bytes_until_break.load(Ordering::SeqCst);
                if left == u64::MAX {
                    continue;
                }
                bytes_until_break.store(left.saturating_sub(length as u64), Ordering::SeqCst);
                if left <= length as u64 {
                    // The request reaches the server, and no answer comes back.
                    bytes_until_break.store(u64::MAX, Ordering::SeqCst);
                    sleep(Duration::from_millis(20)).await;
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&down[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_a_lost_answer_is_looked_up() {
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
            // The connection breaks after a different number of sent bytes each time, so that each request of the call
            // is hit at some time.
            proxy.bytes_until_break.store(1 + (round as u64 * 97) % 1_500, Ordering::SeqCst);
        }
        let run = format!("run-{round}");
        let mut new = new_dispatch(&format!("t-{}", round % 3));
        new.run = run.parse().unwrap();
        outcomes.record(run, enqueue(&*mailbox, new).await);
    }
    let EnqueueOutcomes { accepted, refused, unknown } = outcomes;
    proxy.bytes_until_break.store(u64::MAX, Ordering::SeqCst);
    sleep(Duration::from_millis(500)).await;
    let found: Vec<_> = all_dispatches(&*mailbox).await.into_iter().map(|found| found.run.to_string()).collect();
    let distinct_runs: HashSet<_> = found.iter().collect();
    assert_eq!(distinct_runs.len(), found.len(), "something was enqueued twice");
    let lost: Vec<_> = accepted.iter().filter(|run| !distinct_runs.contains(run)).collect();
    let late: Vec<_> = refused.iter().filter(|run| distinct_runs.contains(run)).collect();
    assert!(lost.is_empty() && late.is_empty(), "lost: {lost:?}, refused but present: {late:?}");
    println!("{} lost answers: {} accepted, {} refused, {unknown} unknown", rounds / 3, accepted.len(), refused.len());
    assert!(accepted.len() > rounds / 2, "too many calls had no answer");
    store.close().await.unwrap();
    remove_streams(&config).await;
}
