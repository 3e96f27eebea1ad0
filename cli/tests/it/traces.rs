//! `traces`: what happened in runs is listed and shown, and spans are exchanged with other programs.

use agentstore::{
    Block, Commit, Message, NewEntry, OpenOptions, Role, RunChange, RunOutcome, RunStatus, TenantId, TokenCounts,
};
use conformance_tests::OTLP_SCENARIOS;
use serde_json::{Value, json};

use crate::{
    helpers::{TestStore, value_at},
    postgres::on_files_and_postgres,
};

/// Commits a run of the thread `t` that failed, with an answer, a tool call and its result.
fn commit_run(store: &TestStore) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stores = OpenOptions::new().open(store.url()).await.unwrap();
        let commits = stores.commits(&TenantId::default_tenant()).unwrap();
        let call = Block::tool_use("c1", "search", agentstore::Json::parse("{}").unwrap());
        let answer = Message::new(Role::Assistant, vec![Block::text("Let me look."), call]);
        let result = Message::new(Role::Tool, vec![Block::tool_result("c1", vec![Block::text("nothing")])]);
        let entries = [Message::user("Where?"), answer.with_usage(TokenCounts::new(20, 8).into()), result];
        let entries = entries.map(|message| NewEntry::new(message).with_run("r".parse().unwrap(), None));
        let status = RunStatus::done(RunOutcome::Failed { error: "no money".to_owned() });
        let run = RunChange::new("r".parse().unwrap(), status).with_agent("helper".parse().unwrap());
        let commit = Commit::new("t".parse().unwrap()).with_key("k".parse().unwrap()).entries(entries).with_run(run);
        let _receipt = commits.commit(commit).await.unwrap();
        stores.close().await.unwrap();
    });
}

/// Returns the names of the traces that a list has.
fn listed(store: &TestStore, args: &[&str]) -> Vec<String> {
    let list = store.json(&[&["traces", "list"], args].concat());
    let traces = value_at(&list, "/traces").as_array().unwrap().iter();
    let part = |trace: &Value, part: &str| value_at(trace, part).as_str().unwrap().to_owned();
    traces.map(|trace| format!("{}/{}", part(trace, "/name/thread"), part(trace, "/name/run"))).collect()
}

fn scenario(name: &str) -> &'static str {
    OTLP_SCENARIOS.iter().find(|(scenario, _)| *scenario == name).unwrap().1
}

/// Tests TR-7 and TR-8 for the command: a run that was committed is listed and shown, although no span was put.
#[test]
fn a_committed_run_is_listed_and_shown() {
    on_files_and_postgres(|store| {
        commit_run(store);
        assert_eq!(listed(store, &[]), ["t/r"]);
        assert_eq!(listed(store, &["--errors", "--agent", "helper", "--thread", "t", "--since", "1d"]), ["t/r"]);
        assert_eq!(listed(store, &["--until", "2020-01-01"]), Vec::<String>::new());
        assert_eq!(listed(store, &["--limit", "0"]), Vec::<String>::new());
        let table = store.run(&["traces", "list"]).expect_success().out;
        assert!(table.contains("t r") && table.contains("done, error") && table.contains("20 in, 8 out"), "{table}");
        assert!(store.run(&["traces", "list", "--agent", "x"]).expect_success().out.contains("no such traces"));

        let shown = store.run(&["traces", "show", "r"]).expect_success().out;
        for part in
            ["t r", "3 spans", "invoke_agent helper", "error no money", "├─ ", "└─ ", "chat", "execute_tool search"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
        // The texts of the entries are not in the trace.
        assert!(!shown.contains("Let me look"), "{shown}");
        let document = store.json(&["traces", "show", "r", "--thread", "t"]);
        assert_eq!(value_at(&document, "/spans").as_array().unwrap().len(), 3);
        store.run(&["traces", "show", "x"]).expect_failure(1, &["trace `x` does not exist", "agentstore traces list"]);
    });
}

/// Tests TR-9 for the command: scenarios of the conventions are imported and exported as equal JSON, and an import may
/// be repeated.
#[test]
fn otlp_comes_back_equal() {
    on_files_and_postgres(|store| {
        store.append("t", "hi");
        for (name, text) in OTLP_SCENARIOS {
            let file = store.write_file(&format!("{name}.json"), text);
            let import = ["traces", "import", &file, "--thread", "t", "--run", name];
            let document = store.json(&import);
            assert_eq!(value_at(&document, "/losses"), &json!([]), "{name}");
            let count = value_at(&document, "/traces/0/written").clone();
            let again = store.json(&import);
            assert_eq!(value_at(&again, "/traces/0/unchanged"), &count, "{name}");
            let exported = store.run(&["traces", "export", name]).expect_success().out;
            let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(parsed(&exported), parsed(text), "{name}");
        }
    });
}

/// Spans go to the thread and the run that they name, or that the caller names.
#[test]
fn an_import_finds_its_thread_and_run() {
    let store = TestStore::new();
    let named = store.write_file("named.json", scenario("tool_calls"));
    let unnamed = store.write_file("unnamed.json", scenario("chat"));
    store.append("t", "hi");
    store.run(&["traces", "import", &unnamed]).expect_failure(2, &["name no thread", "--thread"]);
    store.run(&["traces", "import", &named]).expect_failure(1, &["thread `talk-9` does not exist"]);
    let imported = store.run(&["traces", "import", &named, "--create-thread"]).expect_success().out;
    let run = "00000000000000000000000000000004";
    assert_eq!(imported, format!("talk-9 {run}: 4 spans stored\n"));
    assert_eq!(listed(&store, &["--agent", "agent-4"]), [format!("talk-9/{run}")]);
    // An export of a run names its thread and its run.
    commit_run(&store);
    let file = store.sibling_path("r.json");
    let file = file.to_str().unwrap();
    let wrote = store.run(&["traces", "export", "r", "--out", file]).expect_success().out;
    assert!(wrote.starts_with("wrote 3 spans to "), "{wrote}");
    store.run(&["traces", "export", "r", "--out", file]).expect_failure(1, &["cannot be written"]);
    let other = TestStore::new();
    let document = other.json(&["traces", "import", file, "--create-thread"]);
    assert_eq!(value_at(&document, "/traces/0/name"), &json!({"thread": "t", "run": "r"}));
    let (left, right) = (
        store.run(&["traces", "export", "r"]).expect_success(),
        other.run(&["traces", "export", "r"]).expect_success(),
    );
    assert_eq!(left.out, right.out);
}

/// A file that is no OTLP/JSON is refused before anything is written, and what is not kept is named.
#[test]
fn an_import_says_what_it_did_not_keep() {
    let store = TestStore::new();
    store.append("t", "hi");
    for (text, expected) in [
        ("{}", "`resourceSpans`: is missing"),
        ("not json", "it is not JSON"),
        (r#"{"resourceSpans":[]}"#, "it has no spans"),
    ] {
        let file = store.write_file("bad.json", text);
        store.run(&["traces", "import", &file, "--thread", "t"]).expect_failure(2, &[expected]);
    }
    let text = scenario("chat").replacen('{', r#"{"later":1,"#, 1);
    let response = store.run_with_input(&["traces", "import", "-", "--thread", "t"], &text);
    assert_eq!((response.code, response.err.as_str()), (0, "not kept: later\n"), "{response:?}");
    let changed = scenario("chat").replace("chat ink-2", "chat ink-3");
    let response = store.run_with_input(&["traces", "import", "-", "--thread", "t"], &changed);
    assert_eq!(response.code, 1, "{response:?}");
    assert_eq!(listed(&store, &[]).len(), 1);
}

/// Tests TR-6 for the command: a pinned trace is not purged.
#[test]
fn a_pin_keeps_a_trace() {
    let store = TestStore::new();
    store.append("t", "hi");
    for name in ["chat", "reasoning"] {
        let file = store.write_file("spans.json", scenario(name));
        store.json(&["traces", "import", &file, "--thread", "t", "--run", name]);
    }
    let pinned = store.run(&["traces", "pin", "chat", "--holder", "user:ada"]).expect_success().out;
    assert_eq!(pinned, "t/chat is kept by user:ada\n");
    assert!(store.run(&["traces", "show", "chat"]).expect_success().out.contains("pinned by user:ada since "));
    let purge = ["maintain", "--once", "--traces", "0s"];
    let dry = store.json(&["maintain", "--dry-run", "--keep-traces", "0"]);
    assert_eq!(value_at(&dry, "/did/traces"), &json!(1));
    assert_eq!(value_at(&store.json(&purge), "/did/traces"), &json!(1));
    assert_eq!(listed(&store, &[]), ["t/chat"]);
    store.run(&["traces", "unpin", "chat", "--holder", "user:ada"]).expect_success();
    assert_eq!(value_at(&store.json(&purge), "/did/traces"), &json!(1));
    assert_eq!(listed(&store, &[]), Vec::<String>::new());
}
