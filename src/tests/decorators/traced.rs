//! The spans and metrics of calls (CP-7).

use std::sync::{Arc, Mutex};

use store_core::{Commit, ErrorKind, TenantId};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::Traced;

/// Remembers the fields of each span.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name() == "agentstore.store"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        spans.push(text);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        let at = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut Fields(&mut spans[at]));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

async fn make_calls() {
    let tenant: TenantId = "secret-tenant".parse().unwrap();
    let stores = crate::open("memory:").await.unwrap().decorated(&Traced::new());
    let threads = stores.threads(&tenant).unwrap();
    assert!(threads.load_thread(&"secret-thread".parse().unwrap()).await.unwrap().is_none());
    let refused = stores.commits(&tenant).unwrap().commit(Commit::new("secret-thread".parse().unwrap())).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
}

/// Tests CP-7: a span for each call, with its outcome and without ids.
#[tokio::test]
async fn each_call_has_a_span() {
    let spans = Spans::default();
    let guard = tracing::subscriber::set_default(spans.clone());
    make_calls().await;
    drop(guard);
    let expected = [
        "agentstore.store backend=\"memory\" contract=\"threads\" method=\"load_thread\" outcome=\"ok\"",
        "agentstore.store backend=\"memory\" contract=\"commits\" method=\"commit\" outcome=\"invalid\"",
    ];
    assert_eq!(*spans.0.lock().unwrap(), expected);
}

/// Tests CP-7: exactly these metrics, with these labels and no other.
#[cfg(feature = "metrics")]
#[tokio::test]
async fn each_call_is_counted() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recorder_guard = metrics::set_default_local_recorder(&recorder);
    make_calls().await;
    let mut found: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .map(|(key, _, _, _)| {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            format!("{} {}", key.key().name(), labels.join(" "))
        })
        .collect();
    found.sort();
    let labels = [
        "backend=memory contract=commits method=commit outcome=invalid",
        "backend=memory contract=threads method=load_thread outcome=ok",
    ];
    let expected = ["calls", "duration"].map(|name| labels.map(|labels| format!("agentstore.store.{name} {labels}")));
    assert_eq!(found, expected.concat());
}
