//! Test N4 of docs/reliability.md: faults of a cluster of three servers under load (NA-7). Connections between the
//! servers are cut, and servers are paused, killed and restarted. Nothing that was acknowledged is lost, no thread is
//! claimed twice at the same time, a minority of the servers acknowledges nothing, and a majority continues. The test
//! needs network namespaces, which only root can create. Without them it is skipped and prints a note.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use conformance_tests::TestLength;
use store_core::{ClaimNumber, ClaimRequest, DispatchStatus, MailboxStore, Outcome, Result, Store, ThreadId, WorkerId};
use store_nats::{NatsConfig, NatsStore};
use test_servers::{Network, report_not_run};
use tokio::time::{Instant, sleep};

use crate::helpers::{ack, all_dispatches, enqueue, mailbox, new_dispatch};

const LEASE: Duration = Duration::from_secs(4);
/// How long a call waits for the servers. A call that a fault affects ends after this time, and its caller then makes
/// the next one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How soon after a fault a majority must continue. Servers elect a leader in 4 to 9 s, if the first election
/// succeeds.
const MAX_RECOVERY_TIME: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    IsolateLeader,
    IsolateFollower,
    /// The leader receives the messages of the other servers, but they do not receive its messages.
    OneWay,
    /// No server is connected to another one.
    Split,
    PauseLeader,
    KillLeader,
    KillFollowers,
    RollingRestart,
}

pub(crate) const ALL_FAULTS: [Fault; 8] = [
    Fault::IsolateLeader,
    Fault::Split,
    Fault::PauseLeader,
    Fault::OneWay,
    Fault::KillLeader,
    Fault::IsolateFollower,
    Fault::KillFollowers,
    Fault::RollingRestart,
];

/// An acknowledged call: the number of the server through which it was made, when it began, and when it ended.
struct AcknowledgedCall {
    server: usize,
    started_at: Instant,
    ended_at: Instant,
}

/// The answers that callers received.
#[derive(Default)]
struct ReceivedAnswers {
    acknowledged_calls: Vec<AcknowledgedCall>,
    /// The successful calls of `barrier`.
    barrier_calls: Vec<AcknowledgedCall>,
    /// The ids of the dispatches whose enqueue succeeded.
    accepted_ids: HashSet<String>,
    /// The ids of the dispatches whose enqueue had no effect.
    refused_ids: HashSet<String>,
    /// The ids of the dispatches that a worker successfully acknowledged.
    acked_ids: HashSet<String>,
    /// The claim of each thread, and the earliest time at which its lease can expire.
    current_claims: HashMap<ThreadId, (ClaimNumber, Instant)>,
    claim_count: usize,
    /// The number of enqueues with an unknown outcome.
    unknown_count: usize,
}

impl ReceivedAnswers {
    fn record_acknowledged(&mut self, server: usize, started_at: Instant) {
        self.acknowledged_calls.push(AcknowledgedCall { server, started_at, ended_at: Instant::now() });
    }

    fn record_enqueue(&mut self, id: String, answer: Result<()>, (server, started_at): (usize, Instant)) {
        match answer {
            Ok(()) => {
                self.accepted_ids.insert(id);
                self.record_acknowledged(server, started_at);
            }
            Err(error) if error.outcome() == Outcome::Unknown => self.unknown_count += 1,
            Err(_) => drop(self.refused_ids.insert(id)),
        }
    }

    fn record_claim(&mut self, thread: &ThreadId, number: ClaimNumber, started_at: Instant) {
        self.claim_count += 1;
        if let Some((earlier, until)) = self.current_claims.insert(thread.clone(), (number, started_at + LEASE)) {
            assert!(
                Instant::now() >= until,
                "{thread} was still claimed by {earlier:?} when claim {number:?} was made"
            );
            assert!(number > earlier, "{thread}: claim {number:?} follows {earlier:?}");
        }
    }
}

/// What the tasks that call the stores share.
struct Load {
    answers: Mutex<ReceivedAnswers>,
    has_ended: AtomicBool,
}

/// Enqueues dispatches until the test ends. Their ids begin with `name`.
async fn enqueue_until_end(load: Arc<Load>, server: usize, mailbox: Arc<dyn MailboxStore>, name: String) {
    for number in 0.. {
        if load.has_ended.load(Ordering::SeqCst) {
            return;
        }
        let (id, started_at) = (format!("{name}-{number}"), Instant::now());
        let thread = format!("t-{}", number % 20);
        let answer = enqueue(&*mailbox, new_dispatch(&thread).with_id(id.parse().unwrap())).await;
        load.answers.lock().unwrap().record_enqueue(id, answer.map(drop), (server, started_at));
        sleep(Duration::from_millis(20)).await;
    }
}

/// Calls `barrier` again and again (PR-10). No such call may succeed in a minority.
async fn call_barriers(load: Arc<Load>, server: usize, store: NatsStore) {
    while !load.has_ended.load(Ordering::SeqCst) {
        let started_at = Instant::now();
        if store.barrier().await.is_ok() {
            load.answers.lock().unwrap().barrier_calls.push(AcknowledgedCall {
                server,
                started_at,
                ended_at: Instant::now(),
            });
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Claims and acknowledges dispatches until the test ends.
async fn work_until_end(load: Arc<Load>, server: usize, mailbox: Arc<dyn MailboxStore>) {
    let worker = WorkerId::new(format!("w-{server}")).unwrap();
    while !load.has_ended.load(Ordering::SeqCst) {
        let started_at = Instant::now();
        let Ok(mut claims) = mailbox.claim(ClaimRequest::new(worker.clone(), LEASE)).await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Some(claimed) = claims.claimed.pop() else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let thread = claimed.dispatch.thread.clone();
        {
            let mut answers = load.answers.lock().unwrap();
            answers.record_claim(&thread, claimed.number, started_at);
            answers.record_acknowledged(server, started_at);
        }
        sleep(Duration::from_millis(5)).await;
        // From here on another worker may claim the thread, whatever the acknowledgement returns.
        load.answers.lock().unwrap().current_claims.remove(&thread);
        let started_at = Instant::now();
        if ack(&*mailbox, &claimed).await.is_ok() {
            let mut answers = load.answers.lock().unwrap();
            let is_first_ack = answers.acked_ids.insert(claimed.dispatch.id.to_string());
            assert!(is_first_ack, "{} was acknowledged twice", claimed.dispatch.id);
            answers.record_acknowledged(server, started_at);
        }
    }
}

async fn open(url: &str, replicas: u32) -> NatsStore {
    let mut config = NatsConfig::new(url).unwrap();
    (config.allow_unsafe, config.replicas, config.answer_timeout) = (true, replicas, ANSWER_TIMEOUT);
    let started_at = Instant::now();
    loop {
        match NatsStore::open(config.clone()).await {
            Ok(store) => return store,
            Err(error) => assert!(started_at.elapsed() < Duration::from_secs(60), "{error:?}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until every server is connected to every other one. Otherwise the two servers that a fault leaves might not be
/// connected to each other, and would not be a majority.
pub(crate) async fn wait_until_connected(network: &Network) {
    let started_at = Instant::now();
    while !network.has_recovered().unwrap() {
        assert!(started_at.elapsed() < Duration::from_secs(60), "connections between servers stay silent");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the number of the server that leads a stream.
pub(crate) async fn find_leader(network: &Network, stream: &str) -> usize {
    let started_at = Instant::now();
    for server in (0..3).cycle() {
        assert!(started_at.elapsed() < Duration::from_secs(60), "there is no leader");
        let leader_request = async {
            let client = async_nats::connect(network.servers[server].url()).await.ok()?;
            let info = client.request(format!("$JS.API.STREAM.INFO.{stream}"), "".into()).await.ok()?;
            let info: serde_json::Value = serde_json::from_slice(&info.payload).ok()?;
            info["cluster"]["leader"].as_str()?.trim_start_matches('n').parse().ok()
        };
        if let Ok(Some(leader)) = tokio::time::timeout(Duration::from_secs(2), leader_request).await {
            return leader;
        }
        sleep(Duration::from_millis(200)).await;
    }
    unreachable!("the cycle of servers never ends")
}

/// Causes the fault. Returns the servers that are no longer part of a majority.
pub(crate) fn cause_fault(network: &mut Network, fault: Fault, leader: usize) -> Vec<usize> {
    let (first_follower, second_follower) = ((leader + 1) % 3, (leader + 2) % 3);
    match fault {
        Fault::IsolateLeader => network.isolate(leader).unwrap(),
        Fault::IsolateFollower => {
            network.isolate(first_follower).unwrap();
            return vec![first_follower];
        }
        Fault::OneWay => {
            [first_follower, second_follower].iter().for_each(|follower| network.cut(leader, *follower).unwrap());
        }
        Fault::Split => {
            [0, 1, 2].iter().for_each(|server| network.isolate(*server).unwrap());
            return vec![0, 1, 2];
        }
        Fault::PauseLeader => network.servers[leader].pause().unwrap(),
        Fault::KillLeader => network.servers[leader].kill().unwrap(),
        Fault::KillFollowers => {
            [first_follower, second_follower].iter().for_each(|server| network.servers[*server].kill().unwrap());
            return vec![0, 1, 2];
        }
        Fault::RollingRestart => return Vec::new(),
    }
    vec![leader]
}

pub(crate) fn end_fault(network: &mut Network, fault: Fault, leader: usize) {
    match fault {
        Fault::PauseLeader => network.servers[leader].resume().unwrap(),
        Fault::KillLeader => network.servers[leader].restart().unwrap(),
        Fault::KillFollowers => [1, 2].iter().for_each(|step| network.servers[(leader + step) % 3].restart().unwrap()),
        _ => network.restore().unwrap(),
    }
}

/// Causes a fault for some time, and checks the answers that callers received meanwhile.
async fn run_round(network: &mut Network, load: &Load, fault: Fault, duration: Duration) {
    wait_until_connected(network).await;
    let leader = find_leader(network, "agentstore").await;
    let minority = cause_fault(network, fault, leader);
    let fault_begun = Instant::now();
    if fault == Fault::RollingRestart {
        for server in 0..3 {
            network.servers[server].kill().unwrap();
            sleep(Duration::from_secs(1)).await;
            network.servers[server].restart().unwrap();
            sleep(duration / 3).await;
        }
    } else {
        sleep(duration).await;
    }
    let fault_ended = Instant::now();
    if fault != Fault::RollingRestart {
        end_fault(network, fault, leader);
    }
    let calls_during_fault = |calls: &[AcknowledgedCall]| -> Vec<(usize, Duration)> {
        let calls = calls.iter().filter(|call| call.started_at >= fault_begun && call.ended_at < fault_ended);
        calls.map(|call| (call.server, call.ended_at - fault_begun)).collect()
    };
    let (calls, barriers) = {
        let answers = load.answers.lock().unwrap();
        (calls_during_fault(&answers.acknowledged_calls), calls_during_fault(&answers.barrier_calls))
    };
    let from_minority = calls.iter().chain(&barriers).filter(|(server, _)| minority.contains(server)).count();
    assert_eq!(from_minority, 0, "{fault:?}: a minority acknowledged something");
    let first_call_after = calls.iter().map(|(_, after)| *after).min();
    if minority.len() < 2 {
        assert!(
            first_call_after.is_some_and(|after| after < MAX_RECOVERY_TIME),
            "{fault:?}: the majority continued after {first_call_after:?}"
        );
    }
    // Calls must succeed again through every server.
    let mut unproven_servers: HashSet<usize> = (0..3).collect();
    while !unproven_servers.is_empty() {
        assert!(
            fault_ended.elapsed() < Duration::from_secs(60),
            "{fault:?}: no call succeeds through {unproven_servers:?}"
        );
        sleep(Duration::from_millis(100)).await;
        let answers = load.answers.lock().unwrap();
        for call in answers.acknowledged_calls.iter().filter(|call| call.started_at > fault_ended) {
            unproven_servers.remove(&call.server);
        }
    }
    println!(
        "{fault:?}: {} calls succeeded during the fault, the first after {first_call_after:?}; all servers accepted \
         calls {:?} after its end",
        calls.len(),
        fault_ended.elapsed()
    );
}

/// Checks that every server shows the same data: every accepted dispatch exists, no refused dispatch exists, and every
/// dispatch that a worker successfully acknowledged has ended.
async fn check_stores(load: &Load, stores: &[NatsStore]) {
    let mut views = Vec::new();
    for store in stores {
        let found =
            all_dispatches(&*mailbox(store)).await.into_iter().map(|found| (found.id.to_string(), found.status));
        views.push(found.collect::<HashMap<_, _>>());
    }
    assert!(views.iter().all(|view| *view == views[0]), "the servers show different data");
    let (found, answers) = (&views[0], load.answers.lock().unwrap());
    let lost_ids: Vec<_> = answers.accepted_ids.iter().filter(|id| !found.contains_key(*id)).collect();
    assert!(lost_ids.is_empty(), "{} of {} were lost: {lost_ids:?}", lost_ids.len(), answers.accepted_ids.len());
    let wrong_ids: Vec<_> = answers.refused_ids.iter().filter(|id| found.contains_key(*id)).collect();
    assert!(wrong_ids.is_empty(), "{wrong_ids:?} exist although they were refused");
    let is_unacked = |id: &&String| found.get(*id) != Some(&DispatchStatus::Acked);
    let lost_acks: Vec<_> = answers.acked_ids.iter().filter(is_unacked).collect();
    assert!(lost_acks.is_empty(), "acknowledgements of {lost_acks:?} are lost");
    println!(
        "{} dispatches accepted, {} refused, {} with an unknown outcome, {} claims, {} acknowledged",
        answers.accepted_ids.len(),
        answers.refused_ids.len(),
        answers.unknown_count,
        answers.claim_count,
        answers.acked_ids.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_cluster_loses_nothing_that_it_acknowledged() {
    let mut network = match Network::start("") {
        Ok(network) => network,
        Err(error) => return report_not_run("a test of a partitioned cluster", format_args!("{error:#}")),
    };
    let (rounds, duration) =
        (TestLength::pick_by_env(1, 2, 20), Duration::from_secs(TestLength::pick_by_env(16, 16, 20)));
    let mut stores = Vec::new();
    for server in &network.servers {
        stores.push(open(&server.url(), 3).await);
    }
    let load = Arc::new(Load { answers: Mutex::default(), has_ended: AtomicBool::new(false) });
    let mut callers = Vec::new();
    for (server, store) in stores.iter().enumerate() {
        for writer in 0..2 {
            let name = format!("d-{server}-{writer}");
            callers.push(tokio::spawn(enqueue_until_end(Arc::clone(&load), server, mailbox(store), name)));
        }
        callers.push(tokio::spawn(call_barriers(Arc::clone(&load), server, store.clone())));
        for _ in 0..2 {
            callers.push(tokio::spawn(work_until_end(Arc::clone(&load), server, mailbox(store))));
        }
    }
    for fault in ALL_FAULTS.into_iter().cycle().take(rounds) {
        run_round(&mut network, &load, fault, duration).await;
        assert!(callers.iter().all(|caller| !caller.is_finished()), "a caller found a violation");
    }
    load.has_ended.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    check_stores(&load, &stores).await;
    for store in stores {
        store.close().await.unwrap();
    }
}
