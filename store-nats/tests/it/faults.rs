//! Servers that die and come back (NA-7).

use std::{sync::Arc, time::Duration};

use store_core::{ErrorKind, Outcome, Store};
use store_nats::{NatsConfig, NatsStore};
use test_servers::Nats;
use tokio::time::{Instant, sleep};

use crate::given::{ack, all, claim, enqueue, mailbox, work};

/// How often the server is killed.
fn rounds() -> usize {
    if std::env::var_os("AGENTSTORE_FULL_FAULTS").is_some() { 40 } else { 4 }
}

/// What was acknowledged is there when a server that was killed is started again, by the handles that were open; what
/// was said not to have been applied is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing() {
    let mut server = Nats::start("").unwrap();
    let mut config = NatsConfig::new(&server.url()).unwrap();
    config.allow_unsafe = true;
    config.deadline = Duration::from_secs(2);
    let stores: Vec<_> = [NatsStore::open(config.clone()).await, NatsStore::open(config).await].into_iter().collect();
    let stores: Vec<Arc<NatsStore>> = stores.into_iter().map(|store| Arc::new(store.unwrap())).collect();
    let (mut accepted, mut refused, mut unknown) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds() {
        let end = Instant::now() + Duration::from_millis(600);
        let writers = (0..4).map(|writer| {
            let mailbox = mailbox(&*stores[writer % 2]);
            tokio::spawn(async move {
                let mut ends = Vec::new();
                for at in 0.. {
                    let id = format!("{round}-{writer}-{at}");
                    let end_of_it =
                        enqueue(&*mailbox, work(&format!("t-{}", at % 5)).with_id(id.parse().unwrap())).await;
                    ends.push((id, end_of_it.map(drop)));
                    if Instant::now() > end {
                        return ends;
                    }
                }
                ends
            })
        });
        let writers: Vec<_> = writers.collect();
        sleep(Duration::from_millis(250)).await;
        server.kill().unwrap();
        sleep(Duration::from_millis(50)).await;
        server.restart().unwrap();
        for writer in writers {
            for (id, end) in writer.await.unwrap() {
                match end {
                    Ok(()) => accepted.push(id),
                    Err(error) if error.outcome() == Outcome::Unknown => unknown += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                        refused.push(id);
                    }
                }
            }
        }
    }
    let mailbox = mailbox(&*stores[0]);
    let found: std::collections::HashSet<_> =
        all(&*mailbox).await.into_iter().map(|found| found.id.to_string()).collect();
    let lost: Vec<_> = accepted.iter().filter(|id| !found.contains(*id)).collect();
    assert!(lost.is_empty(), "{} of {} were lost: {lost:?}", lost.len(), accepted.len());
    let late: Vec<_> = refused.iter().filter(|id| found.contains(*id)).collect();
    assert!(late.is_empty(), "{} of {} came although they were refused: {late:?}", late.len(), refused.len());
    assert!(accepted.len() > 100 && found.len() <= accepted.len() + unknown, "{} accepted", accepted.len());
    // Each is given out once.
    let mut done = 0;
    while let Some(held) = claim(&*mailbox).await.unwrap() {
        assert_eq!(held.dispatch.attempts, 0);
        ack(&*mailbox, &held).await.unwrap();
        done += 1;
        if done == 50 {
            break;
        }
    }
    println!("{} accepted, {} refused, {unknown} unknown", accepted.len(), refused.len());
    for store in stores {
        store.close().await.unwrap();
    }
}
