//! `dataset` and `eval`: cases in versions, and evaluation runs that are interrupted, compared and removed.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use agentstore::{Commit, Message, NewEntry, OpenOptions, RunChange, RunOutcome, RunStatus, TenantId};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    helpers::{CommandOutput, TestStore, value_at},
    postgres::on_files_and_postgres,
    work::wait_until,
};

/// Puts cases of the dataset `d`, each with its own name as input.
fn put_cases(store: &TestStore, cases: &[&str]) {
    for case in cases {
        let _put = store.json(&["dataset", "put", case, "--input", &format!("\"{case}\""), "--dataset", "d"]);
    }
}

/// Returns the ids of a list in a document.
fn ids(document: &Value, list: &str) -> Vec<String> {
    let items = value_at(document, list).as_array().unwrap().iter();
    items.map(|item| value_at(item, "/id").as_str().unwrap().to_owned()).collect()
}

/// Records a run `r` with a question and an answer.
fn record_run(store: &TestStore) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (stores, tenant) = (OpenOptions::new().open(store.url()).await.unwrap(), TenantId::default_tenant());
        let entries = [Message::user("2 + 2?"), Message::assistant("4")];
        let entries = entries.map(|message| NewEntry::new(message).with_run("r".parse().unwrap(), None));
        let done = RunChange::new("r".parse().unwrap(), RunStatus::done(RunOutcome::NaturalEnd));
        let commit = Commit::new("t".parse().unwrap()).with_key("k".parse().unwrap()).entries(entries);
        let commit = commit.with_run(done.with_agent("a".parse().unwrap()));
        let _receipt = stores.commits(&tenant).unwrap().commit(commit).await.unwrap();
        stores.close().await.unwrap();
    });
}

/// Tests TR-3 for the command: each change makes a version, versions stay, and an expectation is checked.
#[test]
fn datasets_are_changed_in_versions() {
    on_files_and_postgres(|store| {
        put_cases(store, &["a", "b"]);
        let again = store.run(&["dataset", "put", "a", "--input", "\"a\"", "--dataset", "d"]).expect_success();
        assert!(again.out.contains("d@2 already has this case"), "{again:?}");
        let args = ["dataset", "remove", "a", "--dataset", "d", "--expect"];
        let stale = store.run(&[&args[..], &["1"]].concat());
        stale.expect_failure(1, &["conflict in the dataset's version", "agentstore dataset show"]);
        let removed = store.run(&[&args[..], &["2"]].concat()).expect_success();
        assert_eq!(removed.out, "d@3: 1 case removed\n");
        store.run(&["dataset", "remove", "a", "--dataset", "d"]).expect_failure(1, &["case `a` does not exist"]);

        assert_eq!(ids(&store.json(&["dataset", "show", "d"]), "/cases"), ["b"]);
        assert_eq!(ids(&store.json(&["dataset", "show", "d@2"]), "/cases"), ["a", "b"]);
        let case = store.json(&["dataset", "show", "d@1", "--case", "a"]);
        assert_eq!((value_at(&case, "/content/input"), value_at(&case, "/since")), (&json!("a"), &json!(1)));
        store.run(&["dataset", "show", "d", "--case", "a"]).expect_failure(1, &["case `a` does not exist"]);
        store.run(&["dataset", "show", "d@9"]).expect_failure(1, &["dataset version `d@9` does not exist"]);
        store.run(&["dataset", "show", "e"]).expect_failure(1, &["dataset `e` does not exist", "dataset list"]);
        let versions = store.json(&["dataset", "show", "d", "--versions"]);
        assert_eq!(value_at(&versions, "/versions/0/content/removed"), &json!(1));
        assert_eq!(ids(&store.json(&["dataset", "list"]), "/datasets"), ["d"]);
        let response = store.run(&["dataset", "list"]).expect_success();
        assert!(response.out.starts_with("dataset  version  cases"), "{response:?}");
    });
}

/// Tests TR-2 for the command: a case is made from a run, and stays when the thread of the run is deleted.
#[test]
fn a_run_becomes_a_case() {
    on_files_and_postgres(|store| {
        record_run(store);
        let add = ["dataset", "add", "r", "--dataset", "d", "--expect-answer"];
        let shown = store.json(&[&add[..], &["--dry-run"]].concat());
        assert_eq!(value_at(&shown, "/origin/run"), &json!("r"));
        store.run(&["dataset", "show", "d"]).expect_failure(1, &["dataset `d` does not exist"]);
        assert_eq!(store.run(&add).expect_success().out, "d@1: 1 case added\n");
        store.run(&["delete", "t", "--yes"]).expect_success();
        let case = store.json(&["dataset", "show", "d", "--case", "r"]);
        assert_eq!(value_at(&case, "/content"), &shown);
        let text = |pointer: &str| value_at(&case, pointer).as_str().unwrap().to_owned();
        assert_eq!(text("/content/expectation/role"), "assistant");
        assert_eq!(value_at(&case, "/content/input/0/role"), &json!("user"));
        store.run(&add).expect_failure(1, &["run `r` does not exist", "agentstore runs"]);
    });
}

/// Writes a script that answers a case with its name, and fails for some names. Returns the command.
fn script(store: &TestStore, text: &str) -> String {
    format!("sh '{}'", store.write_file("answer.sh", text))
}

/// Tests TR-4 and TR-5 for the command: results are recorded, failed ones with the reason, and two runs are compared.
#[test]
fn results_are_recorded_and_compared() {
    on_files_and_postgres(|store| {
        put_cases(store, &["a", "b", "c", "d"]);
        let exec = script(
            store,
            "input=$(cat)\n\
             case $AGENTSTORE_CASE_ID-$AGENTSTORE_CELL in\n\
             a-y) echo 'no such model' >&2; exit 3 ;;\n\
             b-y) echo 'thinking' ;;\n\
             c-y) sleep 1000 ;;\n\
             *) echo \"{\\\"output\\\":$input,\\\"score\\\":0.50,\\\"run\\\":\\\"r-1\\\"}\" ;;\n\
             esac\n",
        );
        let run = |id: &'static str, cell: &'static str| {
            let args = ["eval", "run", "--dataset", "d", "--exec", &exec, "--id", id, "--cell", cell];
            store.run(&[&args[..], &["--timeout", "2s", "--concurrency", "2"]].concat())
        };
        let first = run("before", r#"x={"model":1.0}"#).expect_success();
        assert!(
            first.out.contains("before, dataset d@4, completed") && first.out.contains("4 of 4 results"),
            "{first:?}"
        );
        let second = run("after", "y={}");
        assert_eq!((second.code, second.out.contains("4 of 4 results, 3 failed")), (1, true), "{second:?}");

        let shown = store.json(&["eval", "show", "after", "--results"]);
        let problems: Vec<_> = value_at(&shown, "/results").as_array().unwrap().iter().collect();
        let problem = |index: usize| value_at(problems[index], "/content/error").as_str().unwrap().to_owned();
        assert_eq!((problem(0), problem(2)), ("exit code 3: no such model".to_owned(), "stopped after 2s".to_owned()));
        assert!(problem(1).starts_with("its output is not a result"), "{problems:?}");
        assert_eq!(value_at(problems[3], "/content/score"), &json!(0.5));
        let case = store.run(&["eval", "show", "before", "--case", "a"]).expect_success().out;
        for part in ["a/x/1, score 0.50", "\"parameters\": {", "\"model\": 1.0", "\"input\": \"a\"", "\"sample\": 1"] {
            assert!(case.contains(part), "{part}: {case}");
        }
        let same = run("before", r#"x={"model":1.0}"#).expect_success();
        assert_eq!(same.out, first.out);
        run("before", "x={}").expect_failure(1, &["evaluation `before` already exists"]);

        let third = store.run(&["eval", "run", "--dataset", "d@4", "--exec", &exec, "--id", "third", "--cell", "x={}"]);
        third.expect_success();
        let compared = store.run(&["eval", "compare", "before", "third"]).expect_success();
        assert!(compared.out.contains("0 better, 0 worse, 4 same, 0 missing"), "{compared:?}");
        let missing = store.run(&["eval", "compare", "before", "after", "--json"]);
        let document: Value = serde_json::from_str(&missing.out).unwrap();
        assert_eq!((missing.code, value_at(&document, "/counts/missing")), (1, &json!(8)));
        assert_eq!(value_at(&document, "/cells/0/before/mean"), &json!(0.5));
        store.run(&["eval", "show", "other"]).expect_failure(1, &["evaluation `other` does not exist", "eval list"]);
    });
}

/// Starts `eval run` over the dataset `d` under the id `e`.
fn start(store: &TestStore, exec: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(["--store", store.url(), "eval", "run", "--dataset", "d", "--exec", exec, "--id", "e"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Tests TR-4: `eval run` is stopped and killed in the middle, and the same command goes on. No result that was stored
/// is computed again.
#[test]
fn an_interrupted_evaluation_run_goes_on() {
    on_files_and_postgres(|store| {
        put_cases(store, &["a", "b", "c", "d"]);
        let [started, waiting, go] =
            ["started", "waiting", "go"].map(|name| store.sibling_path(name).display().to_string());
        // The third case waits until the test lets it go on.
        let text = format!(
            "echo $AGENTSTORE_CASE_ID >> '{started}'\n\
             if [ $AGENTSTORE_CASE_ID = c ] && [ ! -e '{go}' ]; then touch '{waiting}'; exec sleep 1000; fi\n\
             echo '{{\"score\":1}}'\n"
        );
        let exec = script(store, &text);
        for (signal, is_asked) in [(Signal::TERM, true), (Signal::KILL, false)] {
            let child = start(store, &exec);
            wait_until("the third case", || fs::exists(&waiting).unwrap());
            fs::remove_file(&waiting).unwrap();
            kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
            let output = child.wait_with_output().unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            let expected = (if is_asked { Some(1) } else { None }, is_asked);
            assert_eq!((output.status.code(), err.contains("2 results missing")), expected, "{err}");
        }
        let shown = store.json(&["eval", "show", "e"]);
        assert_eq!(
            (value_at(&shown, "/missing"), value_at(&shown, "/evaluation/status")),
            (&json!(2), &json!("running"))
        );
        fs::write(&go, "").unwrap();
        let output = start(store, &exec).wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let shown = store.json(&["eval", "show", "e"]);
        assert_eq!(
            (value_at(&shown, "/missing"), value_at(&shown, "/evaluation/status")),
            (&json!(0), &json!("completed"))
        );
        assert_eq!(fs::read_to_string(&started).unwrap(), "a\nb\nc\nc\nc\nd\n");
    });
}

/// Tests TR-6 for the command: evaluation runs that ended are removed by number, pinned ones stay, and a dry run only
/// says which ones.
#[test]
fn evaluation_runs_are_pinned_and_purged() {
    on_files_and_postgres(|store| {
        put_cases(store, &["a"]);
        for id in ["e1", "e2", "e3", "e4"] {
            let _ran =
                store.run(&["eval", "run", "--dataset", "d", "--exec", "echo '{}'", "--id", id]).expect_success();
        }
        assert!(store.run(&["eval", "pin", "e1"]).expect_success().out.contains("e1 is pinned now"));
        let purge = |options: &[&str]| -> CommandOutput { store.run(&[&["eval", "purge"], options].concat()) };
        assert_eq!(purge(&["--keep", "2", "--dry-run"]).expect_success().out, "e2\nwould remove 1 evaluation run\n");
        assert_eq!(purge(&["--older-than", "1d", "--yes"]).expect_success().out, "removed 0 evaluation runs\n");
        let unconfirmed = purge(&["--keep", "2"]);
        assert_eq!((unconfirmed.code, ids(&store.json(&["eval", "list"]), "/evaluations").len()), (2, 4));
        assert_eq!(purge(&["--keep", "2", "--yes"]).expect_success().out, "removed 1 evaluation run\n");
        assert_eq!(ids(&store.json(&["eval", "list"]), "/evaluations"), ["e4", "e3", "e1"]);
        assert_eq!(ids(&store.json(&["eval", "list", "--dataset", "other"]), "/evaluations"), Vec::<String>::new());
        let abandoned = store.run(&["eval", "abandon", "e3"]);
        abandoned.expect_failure(1, &["evaluation `e3` cannot go from completed to abandoned"]);
        let done = store.json(&["maintain", "--once", "--evaluations", "1d", "--keep-evaluations", "1"]);
        assert_eq!(value_at(&done, "/did/evaluations"), &json!(0));
    });
}
