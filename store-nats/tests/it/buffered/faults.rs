//! Servers of a write buffer that are killed and started again while nodes commit.

use std::{collections::HashSet, sync::Arc, time::Duration};

use conformance_tests::TestLength;
use store_core::{BlockKind, CommitKey, EntryQuery, Limits, Outcome, PageRequest};
use store_memory::MemoryStore;
use store_nats::{Buffered, NatsConfig};
use test_servers::{Nats, Network, report_not_run};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use super::{
    fixture::TempBuffer,
    nodes::{commits, id, message},
};
use crate::faults::network::{ALL_FAULTS, cause_fault, end_fault, find_leader, wait_until_connected};

const WRITERS: usize = 4;

/// How long a fault of a cluster lasts: longer than the 4 to 9 s in which the other servers elect a leader.
const FAULT_DURATION: Duration = Duration::from_secs(12);

/// The commits of one writer to a thread of its own, each with a key.
#[derive(Default)]
struct Outcomes {
    acknowledged: Vec<String>,
    /// Their outcome is unknown.
    unknown: HashSet<String>,
}

/// Commits one after another until `end`. Texts are numbers, so their order shows.
async fn write(node: Buffered<MemoryStore>, thread: String, first: usize, end: Instant) -> Outcomes {
    let (commits, mut outcomes, mut number) = (commits(&node), Outcomes::default(), first);
    while Instant::now() < end {
        let text = number.to_string();
        let commit = message(&thread, &text).with_key(CommitKey::new(&text).unwrap());
        match commits.commit(commit).await {
            Ok(_) => outcomes.acknowledged.push(text),
            Err(error) if error.outcome() == Outcome::Unknown => {
                let _new = outcomes.unknown.insert(text);
            }
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        number += 1;
    }
    outcomes
}

/// Opens a node as soon as the server that it uses first can be used.
async fn open(temp: &TempBuffer, url: &str) -> Buffered<MemoryStore> {
    let (mut config, started_at) = (temp.config.clone(), Instant::now());
    config.servers = settings(url, temp.config.servers.prefix(), temp.config.servers.replicas);
    loop {
        match Buffered::open(config.clone(), temp.inner.clone()).await {
            Ok(node) => return node,
            Err(error) => assert!(started_at.elapsed() < Duration::from_secs(30), "{error}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn settings(url: &str, prefix: &str, replicas: u32) -> NatsConfig {
    let mut servers = NatsConfig::new(url).unwrap().with_prefix(prefix).unwrap();
    (servers.allow_unsafe, servers.replicas) = (true, replicas);
    servers.answer_timeout = Duration::from_secs(5);
    servers
}

fn on_servers(url: &str, replicas: u32) -> TempBuffer {
    let mut temp = TempBuffer::new(&Limits::default()).unwrap();
    temp.config.servers = settings(url, temp.config.servers.prefix(), replicas);
    (temp.config.flush_interval, temp.config.batch) = (Duration::from_millis(20), 16);
    temp
}

/// Checks that the inner store has every acknowledged commit once and in order, and nothing that was refused. Returns
/// the number of acknowledged commits.
async fn check(inner: &MemoryStore, outcomes: &[Outcomes]) -> usize {
    let mut count = 0;
    for (writer, outcomes) in outcomes.iter().enumerate() {
        let (threads, mut page, mut texts) = (commits(inner).threads(), PageRequest::first(1_000), Vec::new());
        loop {
            let query = EntryQuery::all().with_page(page);
            let entries = threads.list_entries(&id(&format!("t{writer}")), query).await.unwrap();
            for entry in &entries.items {
                let BlockKind::Text(text) = &entry.message().unwrap().blocks[0].kind else { panic!("{entry:?}") };
                texts.push(text.parse::<usize>().unwrap());
            }
            let Some(next) = entries.next else { break };
            page = PageRequest::first(1_000).after(next);
        }
        assert!(texts.is_sorted_by(|one, next| one < next), "twice or in another order: {texts:?}");
        let found: HashSet<_> = texts.iter().map(ToString::to_string).collect();
        let lost: Vec<_> = outcomes.acknowledged.iter().filter(|text| !found.contains(*text)).collect();
        assert_eq!(lost, Vec::<&String>::new(), "lost");
        let acknowledged: HashSet<_> = outcomes.acknowledged.iter().collect();
        let refused = found.iter().filter(|text| !acknowledged.contains(text) && !outcomes.unknown.contains(*text));
        assert_eq!(refused.collect::<Vec<_>>(), Vec::<&String>::new(), "refused, and applied nevertheless");
        count += outcomes.acknowledged.len();
    }
    count
}

/// Runs rounds in which two nodes, each with its URL, commit while `disturb` does something to the servers.
async fn run_rounds<F: Future<Output = ()>>(
    (temp, urls): (&TempBuffer, [&str; 2]),
    rounds: usize,
    length: Duration,
    mut disturb: impl FnMut(usize) -> F,
) {
    let nodes = [open(temp, urls[0]).await, open(temp, urls[1]).await];
    let mut outcomes: Vec<Outcomes> = (0..WRITERS).map(|_| Outcomes::default()).collect();
    for round in 0..rounds {
        let end = Instant::now() + length;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let node = nodes[writer % 2].clone();
                tokio::spawn(write(node, format!("t{writer}"), round * 1_000_000, end))
            })
            .collect();
        disturb(round).await;
        for (all, writer) in outcomes.iter_mut().zip(writers) {
            let new = writer.await.unwrap();
            all.acknowledged.extend(new.acknowledged);
            all.unknown.extend(new.unknown);
        }
    }
    let started_at = Instant::now();
    while let Err(error) = nodes[1].drain().await {
        assert!(started_at.elapsed() < Duration::from_secs(60), "{error}");
        sleep(Duration::from_millis(200)).await;
    }
    let acknowledged = check(&temp.inner, &outcomes).await;
    let unknown: usize = outcomes.iter().map(|outcomes| outcomes.unknown.len()).sum();
    println!(
        "{rounds} rounds, {acknowledged} commits acknowledged, {unknown} unknown: none lost, twice or in another order"
    );
    assert!(acknowledged > 10 * rounds);
}

/// NB-4 and NB-5: the server is killed and started again while two nodes commit and apply.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_and_repeats_nothing() {
    let server = Arc::new(std::sync::Mutex::new(Nats::start("").unwrap()));
    let url = server.lock().unwrap().url();
    let temp = on_servers(&url, 1);
    let rounds = TestLength::pick_by_env(1, 3, 40);
    run_rounds((&temp, [&url, &url]), rounds, Duration::from_millis(1_500), |_| {
        let server = Arc::clone(&server);
        async move {
            sleep(Duration::from_millis(300)).await;
            server.lock().unwrap().kill().unwrap();
            sleep(Duration::from_millis(100)).await;
            server.lock().unwrap().restart().unwrap();
        }
    })
    .await;
}

/// NB-4 and NB-5: the servers of a cluster are killed one by one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_a_killed_server_loses_and_repeats_nothing() {
    let servers = Nats::start_cluster("").unwrap();
    let url = Nats::url_of(&servers);
    let servers = Arc::new(std::sync::Mutex::new(servers));
    let temp = on_servers(&url, 3);
    let rounds = TestLength::pick_by_env(1, 2, 20);
    run_rounds((&temp, [&url, &url]), rounds, Duration::from_secs(2), |round| {
        let servers = Arc::clone(&servers);
        async move {
            sleep(Duration::from_millis(300)).await;
            servers.lock().unwrap()[round % 3].kill().unwrap();
            sleep(Duration::from_millis(700)).await;
            servers.lock().unwrap()[round % 3].restart().unwrap();
            // Two of three servers must be available before the next one is killed.
            sleep(Duration::from_secs(4)).await;
        }
    })
    .await;
}

/// NB-4 and NB-5: the servers of a cluster are cut off from each other, paused and killed. Each node has a server of
/// its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_cluster_loses_and_repeats_nothing() {
    let network = match Network::start("") {
        Ok(network) => network,
        Err(error) => return report_not_run("a test of a partitioned cluster", format_args!("{error:#}")),
    };
    let urls = [network.servers[0].url(), network.servers[1].url()];
    let network = Arc::new(Mutex::new(network));
    let temp = on_servers(&urls[0], 3);
    let rounds = TestLength::pick_by_env(1, 2, 20);
    let stream = temp.config.servers.prefix().to_owned();
    run_rounds((&temp, [&urls[0], &urls[1]]), rounds, Duration::from_secs(20), |round| {
        let (network, stream) = (Arc::clone(&network), stream.clone());
        let fault = ALL_FAULTS[round % (ALL_FAULTS.len() - 1)];
        async move {
            let mut network = network.lock().await;
            wait_until_connected(&network).await;
            let leader = find_leader(&network, &stream).await;
            cause_fault(&mut network, fault, leader);
            sleep(FAULT_DURATION).await;
            end_fault(&mut network, fault, leader);
            println!("{fault:?} has ended");
        }
    })
    .await;
}
