//! Nodes of a write buffer that are killed, and an inner store that is away.

use std::{env, time::Duration};

use conformance_tests::{Random, TestLength};
use store_core::{BlockKind, CommitKey, EntryQuery, ErrorKind, Expect, IdSource, PageRequest, Store, UuidSource};
use store_nats::{BufferConfig, Buffered, TestPrefix};
use store_postgres::{PostgresConfig, PostgresStore};
use test_servers::{Postgres, Process, send_line};

use super::{TempBuffer, commits, id, message, nats_servers};
use crate::fixture::server_url;

const NODE: &str = "AGENTSTORE_TEST_CHILD_NODE";
const SCHEMA: &str = "AGENTSTORE_TEST_SCHEMA";
const PREFIX: &str = "AGENTSTORE_TEST_PREFIX";
const THREADS: usize = 3;

/// The other side of the test with killed nodes: a node that commits until it is killed, and says which commits were
/// acknowledged. If it is started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_node_commits() {
    let Ok(node) = env::var(NODE) else { return };
    let mut inner = PostgresConfig::new(&server_url()).unwrap().with_schema(&env::var(SCHEMA).unwrap()).unwrap();
    (inner.allow_unsafe, inner.behind_buffer) = (true, true);
    let mut config = BufferConfig::new(nats_servers().with_prefix(&env::var(PREFIX).unwrap()).unwrap()).unwrap();
    (config.flush_interval, config.batch) = (Duration::from_millis(5), 4);
    let buffered = Buffered::open(config, PostgresStore::open(inner).await.unwrap()).await.unwrap();
    send_line("open");
    let (commits, mut number) = (commits(&buffered), 0);
    loop {
        let thread = format!("t{}", number % THREADS);
        let key = format!("{node}-{number}");
        // The version is unknown, because other nodes commit to the same threads. The key tells the commits apart.
        let commit = message(&thread, &key).with_key(CommitKey::new(&key).unwrap());
        if commits.commit(commit).await.is_ok() {
            send_line(&key);
        }
        number += 1;
    }
}

/// NB-4, NB-5: nodes are killed while they commit and apply. Nothing that was acknowledged is lost, and nothing is
/// applied twice or in another order.
#[tokio::test(flavor = "multi_thread")]
async fn killed_nodes_lose_nothing_and_apply_nothing_twice() {
    let temp = TempBuffer::with_own_schema().await;
    let (mut random, mut acknowledged) = (Random::new(11), Vec::new());
    let cycles = TestLength::pick_by_env(2, 6, 250);
    for cycle in 0..cycles {
        let mut nodes: Vec<_> = (0..2)
            .map(|node| {
                let name = format!("{cycle}-{node}");
                let variables = [
                    (NODE, name.as_str()),
                    (SCHEMA, temp.schema.config().schema()),
                    (PREFIX, temp.config.servers.prefix()),
                ];
                Process::begin(&[], "buffered::nodes::a_child_node_commits", &variables)
            })
            .collect();
        for node in &mut nodes {
            assert_eq!(node.next_line().unwrap(), "open");
        }
        for node in nodes {
            acknowledged.extend(node.kill_after(Some(5 + random.below(60))));
        }
    }
    let buffered = temp.open().await.unwrap();
    buffered.drain().await.unwrap();
    let mut found = Vec::new();
    for thread in 0..THREADS {
        let (threads, mut page) = (commits(buffered.get_ref()).threads(), PageRequest::first(1_000));
        let mut texts: Vec<String> = Vec::new();
        loop {
            let query = EntryQuery::all().with_page(page);
            let entries = threads.list_entries(&id(&format!("t{thread}")), query).await.unwrap();
            for entry in &entries.items {
                let BlockKind::Text(text) = &entry.message().unwrap().blocks[0].kind else { panic!("{entry:?}") };
                texts.push(text.clone());
            }
            let Some(next) = entries.next else { break };
            page = PageRequest::first(1_000).after(next);
        }
        // Each node numbers its commits, and commits one after another.
        let numbers = |node: &str| -> Vec<usize> {
            let of_node = texts.iter().filter_map(|text| text.strip_prefix(&format!("{node}-")));
            of_node.map(|number| number.parse().unwrap()).collect()
        };
        for node in (0..cycles).flat_map(|cycle| [format!("{cycle}-0"), format!("{cycle}-1")]) {
            assert!(numbers(&node).is_sorted(), "{node}: {:?}", numbers(&node));
        }
        found.extend(texts);
    }
    found.sort();
    let before = found.len();
    found.dedup();
    assert_eq!(found.len(), before, "a commit was applied twice");
    let lost: Vec<_> = acknowledged.iter().filter(|key| found.binary_search(key).is_err()).collect();
    assert_eq!(lost, Vec::<&String>::new());
    println!("{} nodes killed, {} commits acknowledged: none lost, none twice", 2 * cycles, acknowledged.len());
    assert!(acknowledged.len() > 10);
}

/// NB-6: while the server of the inner store is away, commits go on to threads that are in the buffer, and others are
/// refused. When it is back, everything is applied.
#[tokio::test(flavor = "multi_thread")]
async fn commits_go_on_while_the_inner_store_is_away() {
    let mut server = Postgres::start(&[]).unwrap();
    let mut inner = PostgresConfig::new(&server.url()).unwrap();
    inner.behind_buffer = true;
    let prefix = format!("test-{}", UuidSource.next_id());
    let mut config = BufferConfig::new(nats_servers().with_prefix(&prefix).unwrap()).unwrap();
    config.flush_interval = Duration::from_secs(3_600);
    let streams = TestPrefix::from_config(config.servers.clone());
    // A node that ends has created this thread, so the next one has none of its records.
    let earlier = Buffered::open(config.clone(), PostgresStore::open(inner.clone()).await.unwrap()).await.unwrap();
    let stored = commits(&earlier).commit(message("stored", "0").expecting(Expect::Absent)).await.unwrap();
    earlier.close().await.unwrap();
    let buffered = Buffered::open(config, PostgresStore::open(inner).await.unwrap()).await.unwrap();
    let commits = commits(&buffered);
    let mut version = commits.commit(message("buffered", "0").expecting(Expect::Absent)).await.unwrap().version;
    server.kill().unwrap();
    for number in 1..20 {
        let next = message("buffered", &number.to_string()).expecting(Expect::Version(version));
        version = commits.commit(next.with_key(CommitKey::new(number.to_string()).unwrap())).await.unwrap().version;
    }
    let thread = commits.threads().load_thread(&id("buffered")).await.unwrap().unwrap();
    assert_eq!(thread.version, version);
    let refused = commits.commit(message("stored", "1").expecting(Expect::Version(stored.version))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    server.restart().unwrap();
    let mut drained = buffered.drain().await;
    for _ in 0..20 {
        if drained.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        drained = buffered.drain().await;
    }
    drained.unwrap();
    let entries = super::commits(buffered.get_ref()).threads().list_entries(&id("buffered"), EntryQuery::all()).await;
    assert_eq!(entries.unwrap().items.len(), 20);
    let _receipt = commits.commit(message("stored", "1").expecting(Expect::Version(stored.version))).await.unwrap();
    buffered.close().await.unwrap();
    streams.remove().await.unwrap();
    server.stop().unwrap();
}
