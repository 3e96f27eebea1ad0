//! Functions that several tests of faults use.

use std::{collections::HashSet, sync::Arc, time::Duration};

use store_core::{Enqueued, ErrorKind, MailboxStore, Outcome, Result};
use store_nats::{NatsConfig, NatsStore};
use tokio::time::{Instant, sleep};

use crate::helpers::{ack, all_dispatches, claim, enqueue, mailbox, new_dispatch};

/// The outcomes of enqueues: the ids of the dispatches, and the number of unknown outcomes.
#[derive(Default)]
pub(super) struct EnqueueOutcomes {
    pub(super) accepted: Vec<String>,
    pub(super) refused: Vec<String>,
    pub(super) unknown: usize,
}

impl EnqueueOutcomes {
    pub(super) fn record(&mut self, id: String, enqueued: Result<Enqueued>) {
        match enqueued {
            Ok(_) => self.accepted.push(id),
            Err(error) if error.outcome() == Outcome::Unknown => self.unknown += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                self.refused.push(id);
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.accepted.extend(other.accepted);
        self.refused.extend(other.refused);
        self.unknown += other.unknown;
    }
}

/// Enqueues through several stores at the same time, for the given duration.
pub(super) async fn enqueue_concurrently(
    stores: &[Arc<NatsStore>],
    round: usize,
    duration: Duration,
) -> EnqueueOutcomes {
    let end = Instant::now() + duration;
    let writers = (0..4).map(|writer| {
        let mailbox = mailbox(&*stores[writer % stores.len()]);
        tokio::spawn(async move {
            let (mut outcomes, mut at) = (EnqueueOutcomes::default(), 0);
            while Instant::now() < end {
                let id = format!("{round}-{writer}-{at}");
                let new = new_dispatch(&format!("t-{}", at % 5)).with_id(id.parse().unwrap());
                outcomes.record(id, enqueue(&*mailbox, new).await);
                at += 1;
            }
            outcomes
        })
    });
    let mut all = EnqueueOutcomes::default();
    for writer in writers.collect::<Vec<_>>() {
        all.add(writer.await.unwrap());
    }
    all
}

/// Checks that all accepted dispatches exist and that no refused dispatch exists. Then claims and acknowledges up to 50
/// dispatches, and checks that none of them was claimed before.
pub(super) async fn check_outcomes(mailbox: &dyn MailboxStore, outcomes: &EnqueueOutcomes) {
    let found: HashSet<_> = all_dispatches(mailbox).await.into_iter().map(|found| found.id.to_string()).collect();
    let lost: Vec<_> = outcomes.accepted.iter().filter(|id| !found.contains(*id)).collect();
    assert!(lost.is_empty(), "{} of {} were lost: {lost:?}", lost.len(), outcomes.accepted.len());
    let late: Vec<_> = outcomes.refused.iter().filter(|id| found.contains(*id)).collect();
    assert!(late.is_empty(), "{} of {} refused dispatches exist: {late:?}", late.len(), outcomes.refused.len());
    assert!(found.len() <= outcomes.accepted.len() + outcomes.unknown, "{} dispatches exist", found.len());
    let mut worked_on = HashSet::new();
    for _ in 0..50 {
        let Some(claimed) = claim(mailbox).await.unwrap() else { break };
        assert_eq!(claimed.dispatch.attempts, 0);
        assert!(worked_on.insert(claimed.dispatch.id.clone()), "{} was claimed twice", claimed.dispatch.id);
        ack(mailbox, &claimed).await.unwrap();
    }
    println!("{} accepted, {} refused, {} unknown", outcomes.accepted.len(), outcomes.refused.len(), outcomes.unknown);
}

/// Opens a store. Waits until the servers can be used.
pub(super) async fn open(url: &str, replicas: u32) -> Arc<NatsStore> {
    let mut config = NatsConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config.replicas = replicas;
    config.answer_timeout = Duration::from_secs(5);
    let begun = Instant::now();
    loop {
        match NatsStore::open(config.clone()).await {
            Ok(store) => return Arc::new(store),
            // A new cluster has no leader at first.
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}
