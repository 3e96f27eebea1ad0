//! Functions that several tests of faults use.

use std::{collections::HashSet, sync::Arc, time::Duration};

use store_core::{Enqueued, ErrorKind, MailboxStore, Outcome, Result};
use store_nats::{NatsConfig, NatsStore};
use tokio::time::{Instant, sleep};

use crate::helpers::{ack, all_dispatches, claim, enqueue, mailbox, new_dispatch};

/// The outcomes of enqueues: the ids of the accepted and of the refused dispatches, and the number of unknown outcomes.
/// A test may use the ids of runs instead.
#[derive(Default)]
pub(super) struct EnqueueOutcomes {
    pub(super) accepted_ids: Vec<String>,
    pub(super) refused_ids: Vec<String>,
    pub(super) unknown_count: usize,
}

impl EnqueueOutcomes {
    pub(super) fn record(&mut self, id: String, result: Result<Enqueued>) {
        match result {
            Ok(_) => self.accepted_ids.push(id),
            Err(error) if error.outcome() == Outcome::Unknown => self.unknown_count += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                self.refused_ids.push(id);
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.accepted_ids.extend(other.accepted_ids);
        self.refused_ids.extend(other.refused_ids);
        self.unknown_count += other.unknown_count;
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
            let (mut outcomes, mut number) = (EnqueueOutcomes::default(), 0);
            while Instant::now() < end {
                let id = format!("{round}-{writer}-{number}");
                let draft = new_dispatch(&format!("t-{}", number % 5)).with_id(id.parse().unwrap());
                outcomes.record(id, enqueue(&*mailbox, draft).await);
                number += 1;
            }
            outcomes
        })
    });
    let mut all_outcomes = EnqueueOutcomes::default();
    for writer in writers.collect::<Vec<_>>() {
        all_outcomes.add(writer.await.unwrap());
    }
    all_outcomes
}

/// Checks that all accepted dispatches exist and that no refused dispatch exists. Then claims and acknowledges up to 50
/// dispatches, and checks that none of them was claimed before.
pub(super) async fn check_outcomes(mailbox: &dyn MailboxStore, outcomes: &EnqueueOutcomes) {
    let existing_ids: HashSet<_> =
        all_dispatches(mailbox).await.into_iter().map(|dispatch| dispatch.id.to_string()).collect();
    let lost_ids: Vec<_> = outcomes.accepted_ids.iter().filter(|id| !existing_ids.contains(*id)).collect();
    assert!(lost_ids.is_empty(), "{} of {} were lost: {lost_ids:?}", lost_ids.len(), outcomes.accepted_ids.len());
    let late_ids: Vec<_> = outcomes.refused_ids.iter().filter(|id| existing_ids.contains(*id)).collect();
    assert!(
        late_ids.is_empty(),
        "{} of {} refused dispatches exist: {late_ids:?}",
        late_ids.len(),
        outcomes.refused_ids.len()
    );
    assert!(
        existing_ids.len() <= outcomes.accepted_ids.len() + outcomes.unknown_count,
        "{} dispatches exist",
        existing_ids.len()
    );
    let mut claimed_ids = HashSet::new();
    for _ in 0..50 {
        let Some(claimed_dispatch) = claim(mailbox).await.unwrap() else { break };
        assert_eq!(claimed_dispatch.dispatch.attempts, 0);
        assert!(
            claimed_ids.insert(claimed_dispatch.dispatch.id.clone()),
            "{} was claimed twice",
            claimed_dispatch.dispatch.id
        );
        ack(mailbox, &claimed_dispatch).await.unwrap();
    }
    println!(
        "{} accepted, {} refused, {} unknown",
        outcomes.accepted_ids.len(),
        outcomes.refused_ids.len(),
        outcomes.unknown_count
    );
}

/// Opens a store. Waits until the servers can be used.
pub(super) async fn open(url: &str, replicas: u32) -> Arc<NatsStore> {
    let mut config = NatsConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config.replicas = replicas;
    config.answer_timeout = Duration::from_secs(5);
    let started_at = Instant::now();
    loop {
        match NatsStore::open(config.clone()).await {
            Ok(store) => return Arc::new(store),
            // A new cluster has no leader at first.
            Err(error) => assert!(started_at.elapsed() < Duration::from_secs(30), "{error}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}
