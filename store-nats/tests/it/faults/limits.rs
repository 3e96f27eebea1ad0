//! Test N10 of docs/reliability.md: the limits of a server (ER-10). Each limit has an error kind of its own, and
//! accepted data is kept.

use std::time::Duration;

use store_core::{ErrorKind, Json, NewDispatch, Outcome, Store};
use test_servers::Nats;
use tokio::{
    io::copy,
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use super::helpers::open;
use store_nats::{NatsConfig, NatsStore};

use crate::helpers::{all_dispatches, enqueue, mailbox, new_dispatch};

fn dispatch_with_payload_bytes(length: usize) -> NewDispatch {
    new_dispatch("t").with_payload(Json::parse(&format!("\"{}\"", "x".repeat(length))).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_must_fit_into_a_message() {
    let server = Nats::start("max_payload: 262144").unwrap();
    let store = open(&server.url(), 1).await;
    let largest = store.capabilities().max_record_bytes;
    assert_eq!(largest, 131_072);
    enqueue(&*mailbox(&*store), dispatch_with_payload_bytes(120_000)).await.unwrap();
    let refusal = enqueue(&*mailbox(&*store), dispatch_with_payload_bytes(132_000)).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::LimitExceeded, "{refusal}");
    assert_eq!(all_dispatches(&*mailbox(&*store)).await.len(), 1);
    store.close().await.unwrap();
}

/// Tests NA-11: a server must accept messages of a certain size.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_messages_are_too_small_is_refused() {
    let server = Nats::start("max_payload: 196607").unwrap();
    let config = NatsConfig::new(&format!("{}?allow_unsafe=true", server.url())).unwrap();
    let refusal = NatsStore::open(config).await.unwrap_err();
    let text = refusal.to_string();
    assert_eq!((refusal.kind(), refusal.outcome()), (ErrorKind::Invalid, Outcome::NotApplied), "{text}");
    assert!(["max_payload", "196607", "196608"].iter().all(|part| text.contains(part)), "{text}");
    server.stop().unwrap();
    let server = Nats::start("max_payload: 196608").unwrap();
    let store = open(&server.url(), 1).await;
    enqueue(&*mailbox(&*store), dispatch_with_payload_bytes(65_000)).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_full_drops_nothing() {
    let server = Nats::start("jetstream { max_file_store: 3MB }").unwrap();
    let store = open(&server.url(), 1).await;
    let mailbox = mailbox(&*store);
    let mut accepted = 0;
    let refusal = loop {
        match enqueue(&*mailbox, dispatch_with_payload_bytes(100_000)).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100, "the server accepts more than its limit");
    };
    assert_eq!(refusal.kind(), ErrorKind::StorageFull, "{refusal:?}");
    assert!(accepted > 10, "{accepted}");
    assert_eq!(all_dispatches(&*mailbox).await.len(), accepted);
    store.close().await.unwrap();
}

/// If a client does not read what the server sends, the server disconnects the client or stops sending. When the client
/// reads again, it continues at the position that it had reached.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_too_slow_misses_nothing() {
    let server = Nats::start("max_pending: 4MB\nwrite_deadline: \"500ms\"").unwrap();
    let address = server.url().replace("nats://", "").replace('/', "");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow_url = format!("nats://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let (pause_sender, pause_receiver) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (server, mut pause_receiver) = (TcpStream::connect(&address).await.unwrap(), pause_receiver.clone());
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                tokio::select! {
                    _ = copy(&mut from_server, &mut to_client) => return,
                    _ = pause_receiver.wait_for(|is_paused| *is_paused) => {}
                }
                // During the pause nothing is read from the server, so the server may disconnect the client.
                pause_receiver.wait_for(|is_paused| !*is_paused).await.map(drop).unwrap();
                let _ended = copy(&mut from_server, &mut to_client).await;
            });
        }
    });
    let (slow_store, quick_store) = (open(&slow_url, 1).await, open(&server.url(), 1).await);
    enqueue(&*mailbox(&*slow_store), new_dispatch("t")).await.unwrap();
    pause_sender.send(true).unwrap();
    let mut count = 1;
    for number in 0..2_000 {
        let new = (0..10).map(|thread| dispatch_of_thread(&format!("t-{thread}"), number)).collect();
        count += mailbox(&*quick_store).enqueue(new).await.unwrap().into_iter().filter(Result::is_ok).count();
        if count > 3_000 {
            break;
        }
    }
    sleep(Duration::from_secs(1)).await;
    pause_sender.send(false).unwrap();
    let started_at = Instant::now();
    loop {
        match mailbox(&*slow_store).count_dispatches(None).await {
            Ok(counts) => {
                assert_eq!(counts.queued, count as u64);
                break;
            }
            Err(error) => assert!(started_at.elapsed() < Duration::from_secs(60), "{error:?}"),
        }
    }
    // Flow control may stop the server before it disconnects the client.
    let log = std::fs::read_to_string(server.folder().join("log")).unwrap();
    let server_reaction = if log.contains("Slow Consumer") { "was cut off" } else { "was waited for" };
    println!("{count} dispatches, read within {:?} by a reader that {server_reaction}", started_at.elapsed());
    slow_store.close().await.unwrap();
    quick_store.close().await.unwrap();
}

fn dispatch_of_thread(thread: &str, number: usize) -> NewDispatch {
    new_dispatch(thread).with_payload(Json::parse(&format!("[{number},\"{}\"]", "x".repeat(1_500))).unwrap())
}
