//! `events`: events are listed, and followed while another process appends them.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use agentstore::{
    AppendEvents, Commit, EventVisibility, Json, Message, NewEntry, NewEvent, RunId, Scope, TenantId, ThreadId,
};
use serde_json::{Value, json};

use crate::helpers::{TestStore, value_at};

fn public_event(kind: &str) -> NewEvent {
    let scopes = [Scope::Thread(ThreadId::new("t").unwrap()), Scope::Run(RunId::new("r").unwrap())];
    NewEvent::new(kind.parse().unwrap(), scopes).with_payload(Json::parse(r#"{"n":1.50}"#).unwrap())
}

fn internal_event(kind: &str) -> NewEvent {
    public_event(kind).with_visibility(EventVisibility::Internal)
}

async fn open(store: &TestStore) -> agentstore::Stores {
    agentstore::open(&format!("file:{}", store.path().display())).await.unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Tests EV-10, EV-11 and EV-27: the events of a thread or a run are listed in order, and can be chosen by kind and
/// visibility.
#[test]
fn events_are_listed() {
    let store = TestStore::new();
    block_on(async {
        let stores = open(&store).await;
        let events = stores.commits(&TenantId::default_tenant()).unwrap().events();
        events
            .append_events(AppendEvents::new([public_event("started"), internal_event("noted"), public_event("ended")]))
            .await
            .unwrap();
        stores.close().await.unwrap();
    });
    let all = store.json(&["events", "t"]);
    let kinds = |list: &Value| -> Vec<String> {
        value_at(list, "/events").as_array().unwrap().iter().map(|event| value_at(event, "/kind").to_string()).collect()
    };
    assert_eq!(kinds(&all), [r#""started""#, r#""noted""#, r#""ended""#]);
    assert_eq!(value_at(&all, "/events/0/payload"), &json!({"n": 1.50}));
    assert_eq!(kinds(&store.json(&["events", "--run", "r", "--public"])), [r#""started""#, r#""ended""#]);
    assert_eq!(kinds(&store.json(&["events", "t", "--kind", "noted"])), [r#""noted""#]);
    let response = store.run(&["events", "t"]).expect_success().out;
    assert!(response.contains("internal") && response.contains(r#"{"n":1.50}"#), "{response}");
    assert!(store.run(&["events", "u"]).expect_success().out.contains("thread u has no such events"));
    store.run(&["events"]).expect_failure(2, &["THREAD"]);
    store.run(&["events", "t", "--new"]).expect_failure(2, &["--follow"]);
}

/// Tests EV-14 and EV-21: a command prints the stored events first, and then those that another process appends.
#[test]
fn events_can_be_followed_while_another_process_writes() {
    let store = TestStore::new();
    block_on(async {
        let stores = open(&store).await;
        let commits = stores.commits(&TenantId::default_tenant()).unwrap();
        commits.events().append_events(AppendEvents::new([public_event("before")])).await.unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_agentstore"))
            .args(["--store", &format!("file:{}", store.path().display()), "events", "t", "--follow", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next_event = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(value_at(&next_event(), "/kind"), "before");
        let entry = NewEntry::new(Message::user("hello"));
        let commit = Commit::new(ThreadId::new("t").unwrap()).entry(entry).with_key("k".parse().unwrap());
        let thread_event = NewEvent::new("in a commit".parse().unwrap(), [Scope::Thread(ThreadId::new("t").unwrap())]);
        let _ = commits.commit(commit.with_events(AppendEvents::new([thread_event]))).await.unwrap();
        commits.events().append_events(AppendEvents::new([public_event("after")])).await.unwrap();
        assert_eq!(
            [next_event(), next_event()].map(|event| value_at(&event, "/kind").clone()),
            [json!("in a commit"), json!("after")]
        );
        child.kill().unwrap();
        child.wait().unwrap();
        stores.close().await.unwrap();
    });
}
