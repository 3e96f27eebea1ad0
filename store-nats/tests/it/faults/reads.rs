//! Tests N5 and N9 of docs/reliability.md: reads and conditional writes through different servers of one cluster
//! (NA-1).

use std::sync::atomic::{AtomicUsize, Ordering};

use async_nats::{
    HeaderMap,
    jetstream::{self, Context, context::PublishErrorKind, stream::Config},
};
use conformance_tests::TestLength;
use futures_util::future::join_all;
use store_core::Store;
use test_servers::Nats;

use super::helpers::open;
use crate::helpers::{enqueue, mailbox, new_dispatch};

const TASKS: usize = 8;

async fn jetstream_context(server: &Nats) -> Context {
    jetstream::new(async_nats::connect(server.url()).await.unwrap())
}

/// Whether any server may answer a read of the stream, or only its leader.
#[derive(Clone, Copy, PartialEq)]
enum DirectReads {
    Allowed,
    Forbidden,
}

/// Creates the stream of raw messages, with a copy on each server.
async fn create_raw_stream(context: &Context, direct_reads: DirectReads) {
    let config = Config {
        name: "raw".to_owned(),
        subjects: vec!["raw.>".to_owned()],
        num_replicas: 3,
        allow_direct: direct_reads == DirectReads::Allowed,
        ..Config::default()
    };
    let _stream = context.create_stream(config).await.unwrap();
}

/// As soon as a write through one server is acknowledged, it can be read through another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_through_one_server_is_read_through_another_at_once() {
    let servers = Nats::start_cluster("").unwrap();
    let (first, second) = (open(&servers[0].url(), 3).await, open(&servers[1].url(), 3).await);
    let pairs = TestLength::pick_by_env(100, 400, 10_000);
    let tasks = (0..TASKS).map(|task| {
        let (first, second) = (mailbox(&*first), mailbox(&*second));
        async move {
            for number in 0..pairs / TASKS {
                let new = enqueue(&*first, new_dispatch(&format!("t-{task}"))).await.unwrap();
                let read = second.load_dispatch(&new.id).await.unwrap();
                assert!(read.is_some(), "dispatch {number} of task {task} cannot be read yet");
            }
        }
    });
    join_all(tasks).await;
    println!("{pairs} pairs, none stale");
    count_stale_direct_reads(&servers, pairs).await;
    for store in [first, second] {
        store.close().await.unwrap();
    }
}

/// The control experiment: counts reads that miss an acknowledged write. Any server may answer a direct read, even one
/// that lags behind. This is why a store makes no direct reads.
async fn count_stale_direct_reads(servers: &[Nats; 3], pairs: usize) {
    let (first, second) = (jetstream_context(&servers[0]).await, jetstream_context(&servers[1]).await);
    create_raw_stream(&first, DirectReads::Allowed).await;
    let (stream, stale_reads) = (second.get_stream("raw").await.unwrap(), AtomicUsize::default());
    let tasks = (0..TASKS).map(|task| {
        let (first, stream, stale_reads) = (&first, &stream, &stale_reads);
        async move {
            for _ in 0..pairs / TASKS {
                let ack = first.publish(format!("raw.{task}"), "x".into()).await.unwrap().await.unwrap();
                if stream.direct_get(ack.sequence).await.is_err() {
                    stale_reads.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    });
    join_all(tasks).await;
    println!("the control: {} of {pairs} direct reads were stale", stale_reads.into_inner());
}

/// If a write expects a certain last message on its subject, it is not refused because of messages on other subjects.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_condition_holds_is_never_refused() {
    let servers = Nats::start_cluster("").unwrap();
    // This waits until the cluster has a leader.
    let _ready = open(&servers[0].url(), 3).await;
    let context = jetstream_context(&servers[0]).await;
    create_raw_stream(&context, DirectReads::Forbidden).await;
    let messages = TestLength::pick_by_env(300, 1_000, 20_000);
    let tasks = (0..TASKS).map(|task| {
        let context = &context;
        async move {
            let mut last_sequence = 0;
            for _ in 0..messages / TASKS {
                let mut headers = HeaderMap::new();
                headers.insert("Nats-Expected-Last-Subject-Sequence", last_sequence.to_string());
                let sent = context.publish_with_headers(format!("raw.{task}"), headers, "x".into()).await.unwrap();
                last_sequence = match sent.await {
                    Ok(ack) => ack.sequence,
                    Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => panic!("a false conflict"),
                    Err(error) => panic!("{error}"),
                };
            }
        }
    });
    join_all(tasks).await;
    println!("{messages} conditional writes to a busy stream, no false conflict");
}
