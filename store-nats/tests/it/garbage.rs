//! After many decisions the log contains only messages that are needed, and a store that reads it from the beginning
//! shows the same data (NA-10).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use store_core::{Dispatch, ErrorKind, Interrupt, Json, MailboxStore, Purge, Requeue, Result, Settlement, Store, When};
use tokio::time::{Instant, sleep};

use crate::{
    fixture::{TempStore, config},
    helpers::{MINUTE, all_dispatches, claim, enqueue, mailbox, new_dispatch, stream_info},
};

/// Of the messages about a dispatch only the last one is kept. So it must contain the dedupe key, even if it records a
/// claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_dedupe_key_stays_in_use_after_its_first_message_was_removed() {
    let mut config = config();
    config.garbage_retention = Duration::from_millis(30);
    let temp_store = TempStore::with_config(config).await.unwrap();
    let store = temp_store.open_store().await.unwrap();
    let new = || new_dispatch("t").with_dedupe_key("key".parse().unwrap());
    enqueue(&*mailbox(&*store), new()).await.unwrap();
    claim(&*mailbox(&*store)).await.unwrap().unwrap();
    let started_at = Instant::now();
    while count_thread_messages(&temp_store).await > 1 {
        assert!(started_at.elapsed() < Duration::from_secs(20), "the first message was not removed");
        sleep(Duration::from_millis(50)).await;
    }
    let new_store = temp_store.open_store().await.unwrap();
    let refusal = enqueue(&*mailbox(&*new_store), new()).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::AlreadyExists, "{refusal}");
}

/// Returns the number of messages about the threads of a store.
async fn count_thread_messages(temp_store: &TempStore) -> u64 {
    let client = async_nats::connect(crate::fixture::server_url()).await.unwrap();
    let prefix = temp_store.config().prefix();
    let request = format!(r#"{{"subjects_filter":"{prefix}.log.thread.>"}}"#);
    let answer = client.request(format!("$JS.API.STREAM.INFO.{prefix}"), request.into()).await.unwrap();
    let info: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
    info["state"]["subjects"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum()
}

/// Pseudo-random numbers, which depend on the seed only.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Executes one random operation.
async fn execute_random_operation(
    temp_store: &TempStore,
    mailbox: &dyn MailboxStore,
    numbers: &mut RandomNumbers,
    operation_number: u64,
) -> Result<()> {
    let thread = format!("t-{}", numbers.below(4));
    match numbers.below(12) {
        0..=3 => {
            let mut new = new_dispatch(&thread).with_priority(u8::try_from(numbers.below(3)).unwrap());
            if numbers.below(3) == 0 {
                new = new.with_id(format!("d-{operation_number}").parse()?);
            }
            if numbers.below(4) == 0 {
                new = new.available(When::In(Duration::from_secs(numbers.below(90))));
            }
            if numbers.below(3) == 0 {
                new = new.with_payload(Json::parse(&format!("\"{}\"", "x".repeat(5_000)))?);
            }
            enqueue(mailbox, new).await?;
        }
        4..=7 => {
            if let Some(claimed) = claim(mailbox).await? {
                let error = "failed".to_owned();
                let settlement = match numbers.below(6) {
                    0 => Settlement::Retry { after: Duration::from_secs(5), error },
                    1 => Settlement::DeadLetter { error },
                    2 => return Ok(()),
                    _ => Settlement::Ack { result: Some(Json::parse("[1]")?) },
                };
                mailbox.settle(vec![(claimed.claim(), settlement)]).await?.remove(0)?;
            }
        }
        8 => drop(mailbox.interrupt(Interrupt::new(thread.parse()?).because("enough")).await?),
        9 => temp_store.advance(MINUTE).await?,
        10 => drop(mailbox.requeue(Requeue::matching(Default::default(), 2)).await?),
        _ => {
            let latest_update = all_dispatches(mailbox).await.iter().map(|found| found.updated_at).max();
            let mut purge = Purge::new(latest_update.unwrap_or_default());
            purge.limit = 5;
            mailbox.purge(purge).await?;
        }
    }
    Ok(())
}

/// What a store shows: all dispatches by their ids, and the counts of the mailbox as a text.
struct MailboxContents {
    dispatches: BTreeMap<String, Dispatch>,
    counts: String,
}

async fn read_contents(store: &dyn Store) -> MailboxContents {
    let mailbox = mailbox(store);
    let counts = mailbox.count_dispatches(None).await.unwrap();
    let all = all_dispatches(&*mailbox).await.into_iter();
    MailboxContents {
        dispatches: all.map(|found| (found.id.to_string(), found)).collect(),
        counts: format!("{counts:?}"),
    }
}

/// Checks that the store shows the expected dispatches and counts. The message of a failure lists the dispatches that
/// differ.
async fn expect_contents(store: &dyn Store, expected: &MailboxContents, when: String) {
    let found = read_contents(store).await;
    let all_ids = found.dispatches.keys().chain(expected.dispatches.keys());
    let different_ids = all_ids.filter(|id| found.dispatches.get(*id) != expected.dispatches.get(*id));
    let summary = |dispatch: Option<&Dispatch>| {
        dispatch.map(|found| format!("{} {} {} {}", found.thread, found.number, found.status, found.attempts))
    };
    let differences: Vec<_> =
        different_ids.map(|id| (id, summary(found.dispatches.get(id)), summary(expected.dispatches.get(id)))).collect();
    assert!(
        differences.is_empty() && found.counts == expected.counts,
        "{when}: {differences:?} {} {}",
        found.counts,
        expected.counts
    );
}

/// Returns the number of messages in a stream of a store. The suffix is the end of the name of the stream.
async fn count_messages(temp_store: &TempStore, suffix: &str) -> u64 {
    let client = async_nats::connect(crate::fixture::server_url()).await.unwrap();
    let name = format!("{}{suffix}", temp_store.config().prefix());
    stream_info(&client, &name).await["state"]["messages"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_garbage_does_not_change_what_a_store_shows() {
    let mut config = config();
    config.garbage_retention = Duration::from_millis(30);
    let temp_store = TempStore::with_config(config).await.unwrap();
    let mut numbers = RandomNumbers(7);
    let mut store: Arc<dyn Store> = temp_store.open_store().await.unwrap();
    for round in 0..8 {
        let mailbox = mailbox(&*store);
        for number in 0..80 {
            execute_random_operation(&temp_store, &*mailbox, &mut numbers, round * 1_000 + number).await.unwrap();
        }
        let expected = read_contents(&*store).await;
        // A store that reads the log while garbage is removed must show the same data as the store that wrote the log.
        // So must a store that reads the log after the removal.
        let other_store = temp_store.open_store().await.unwrap();
        expect_contents(&*other_store, &expected, format!("round {round}, during the removal")).await;
        other_store.close().await.unwrap();
        sleep(Duration::from_millis(200)).await;
        expect_contents(&*store, &expected, format!("round {round}")).await;
        store.close().await.unwrap();
        store = temp_store.open_store().await.unwrap();
        expect_contents(&*store, &expected, format!("round {round}, after reopening")).await;
    }
    let dispatch_count = all_dispatches(&*mailbox(&*store)).await.len() as u64;
    let started_at = Instant::now();
    // Besides a message for each dispatch, the log may contain the last message and an interrupt of each of the four
    // threads, the messages about the tenant and the clock, and messages about ids.
    while count_messages(&temp_store, "").await > dispatch_count + 40
        || count_messages(&temp_store, "-data").await > dispatch_count
    {
        let (log, data) = (count_messages(&temp_store, "").await, count_messages(&temp_store, "-data").await);
        assert!(
            started_at.elapsed() < Duration::from_secs(20),
            "{log} log and {data} data messages for {dispatch_count} dispatches"
        );
        sleep(Duration::from_millis(100)).await;
    }
}
