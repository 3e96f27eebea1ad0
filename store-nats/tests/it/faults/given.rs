//! Functions that several tests of faults use.

use std::{collections::HashSet, sync::Arc, time::Duration};

use store_core::{Enqueued, ErrorKind, MailboxStore, Outcome, Result};
use store_nats::{NatsConfig, NatsStore};
use tokio::time::{Instant, sleep};

use crate::given::{ack, all, claim, enqueue, mailbox, work};

/// How enqueues ended.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) accepted: Vec<String>,
    pub(super) refused: Vec<String>,
    pub(super) unknown: usize,
}

impl Ends {
    pub(super) fn note(&mut self, id: String, enqueued: Result<Enqueued>) {
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

/// Enqueues through several stores at the same time, for the time `lasts`.
pub(super) async fn write(stores: &[Arc<NatsStore>], round: usize, lasts: Duration) -> Ends {
    let end = Instant::now() + lasts;
    let writers = (0..4).map(|writer| {
        let mailbox = mailbox(&*stores[writer % stores.len()]);
        tokio::spawn(async move {
            let (mut ends, mut at) = (Ends::default(), 0);
            while Instant::now() < end {
                let id = format!("{round}-{writer}-{at}");
                let new = work(&format!("t-{}", at % 5)).with_id(id.parse().unwrap());
                ends.note(id, enqueue(&*mailbox, new).await);
                at += 1;
            }
            ends
        })
    });
    let mut all = Ends::default();
    for writer in writers.collect::<Vec<_>>() {
        all.add(writer.await.unwrap());
    }
    all
}

/// Checks that all accepted dispatches exist, and that no refused ones do. Then works on up to 50 of them, and checks
/// that they have no earlier attempt.
pub(super) async fn check(mailbox: &dyn MailboxStore, ends: &Ends) {
    let found: HashSet<_> = all(mailbox).await.into_iter().map(|found| found.id.to_string()).collect();
    let lost: Vec<_> = ends.accepted.iter().filter(|id| !found.contains(*id)).collect();
    assert!(lost.is_empty(), "{} of {} were lost: {lost:?}", lost.len(), ends.accepted.len());
    let late: Vec<_> = ends.refused.iter().filter(|id| found.contains(*id)).collect();
    assert!(late.is_empty(), "{} of {} refused dispatches exist: {late:?}", late.len(), ends.refused.len());
    assert!(found.len() <= ends.accepted.len() + ends.unknown, "{} dispatches exist", found.len());
    let mut worked_on = HashSet::new();
    for _ in 0..50 {
        let Some(held) = claim(mailbox).await.unwrap() else { break };
        assert_eq!(held.dispatch.attempts, 0);
        assert!(worked_on.insert(held.dispatch.id.clone()), "{} was claimed twice", held.dispatch.id);
        ack(mailbox, &held).await.unwrap();
    }
    println!("{} accepted, {} refused, {} unknown", ends.accepted.len(), ends.refused.len(), ends.unknown);
}

pub(super) async fn open(url: &str, replicas: u32) -> Arc<NatsStore> {
    let mut config = NatsConfig::new(url).unwrap();
    config.allow_unsafe = true;
    config.replicas = replicas;
    config.deadline = Duration::from_secs(5);
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
