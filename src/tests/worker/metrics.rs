//! Tests of the names and labels of metrics.

use std::{collections::BTreeMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use store_core::Interrupt;

use super::{new_dispatch, options_without_delays, test_bed::TestBed};
use crate::{Done, Failure, Maintenance, Work, Worker};

/// Returns the recorded metrics. A key is a name with its labels. Its value is the count, the gauge, or the number of
/// recorded values.
fn recorded_metrics(snapshotter: &Snapshotter) -> BTreeMap<String, String> {
    let found = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => count.to_string(),
            DebugValue::Gauge(value) => value.into_inner().to_string(),
            DebugValue::Histogram(values) => values.len().to_string(),
        };
        (format!("{} {}", key.key().name(), labels.join(" ")), value)
    });
    found.collect()
}

/// Tests WK-7: exactly these names, with the labels `backend` and `outcome` and no other.
#[tokio::test]
async fn names_and_labels_are_those_of_the_contract() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // The recorder belongs to this OS thread. The runtime of the test has no other OS thread.
    let _recorder_guard = metrics::set_default_local_recorder(&recorder);
    let bed = TestBed::memory().await;
    bed.enqueue([new_dispatch("t", "d"), new_dispatch("u", "e"), new_dispatch("v", "f")]).await;
    bed.enqueue([new_dispatch("t", "d")]).await;
    bed.advance(Duration::from_secs(7)).await;
    Maintenance::new(&bed.stores, &bed.tenant).unwrap().run_once().await.unwrap();
    let mailbox = bed.mailbox();
    let handler = move |work: Work| {
        let mailbox = std::sync::Arc::clone(&mailbox);
        async move {
            match work.dispatch().id.as_str() {
                "e" if work.attempt() == 1 => Err(Failure::new("once")),
                "f" => {
                    mailbox.interrupt(Interrupt::new("v".parse()?)).await?;
                    Ok(Done::ack())
                }
                _ => Ok(Done::ack()),
            }
        }
    };
    let worker = Worker::with_options(&bed.stores, &bed.tenant, handler, options_without_delays()).unwrap();
    worker.run_until_idle().await.unwrap();
    let expected = [
        ("claimed backend=memory outcome=claimed", 4),
        ("depth backend=memory outcome=queued", 3),
        ("enqueued backend=memory outcome=deduplicated", 1),
        ("enqueued backend=memory outcome=queued", 3),
        ("lost backend=memory outcome=superseded", 1),
        ("oldest_age backend=memory outcome=queued", 7),
        ("run backend=memory outcome=acked", 2),
        ("run backend=memory outcome=retried", 1),
        ("run backend=memory outcome=superseded", 1),
        ("settled backend=memory outcome=acked", 2),
        ("settled backend=memory outcome=retried", 1),
        ("wait backend=memory outcome=claimed", 4),
    ];
    let expected = expected.map(|(name, count)| (format!("agentstore.mailbox.{name}"), count.to_string()));
    assert_eq!(recorded_metrics(&snapshotter), BTreeMap::from(expected));
}
