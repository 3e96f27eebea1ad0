//! `mailbox work`: commands run for dispatches, are killed or stopped, and another worker does their work. Also tests a
//! mailbox in another store than the threads.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    helpers::{CommandOutput, run, value_at},
    postgres::PostgresTestStore,
};

/// How long a test waits for something that must happen. It takes far less time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One store, or one for the threads and one for the mailbox. Also a folder for the files that commands write.
struct WorkSetup {
    store_url: String,
    /// The URL of the mailbox's store, if the mailbox is in another store than the threads.
    mailbox_url: Option<String>,
    folder: TempDir,
    _server: Option<PostgresTestStore>,
}

impl WorkSetup {
    fn in_files() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store_url = format!("file:{}", folder.path().join("data").display());
        Self { store_url, mailbox_url: None, folder, _server: None }
    }

    /// Creates a setup with the threads in one file store and the mailbox in another.
    fn in_two_stores() -> Self {
        let mut setup = Self::in_files();
        setup.mailbox_url = Some(format!("file:{}", setup.folder.path().join("queue").display()));
        setup
    }

    fn on_a_server() -> Self {
        let server = PostgresTestStore::new();
        let folder = tempfile::tempdir().unwrap();
        Self { store_url: server.url().to_owned(), mailbox_url: None, folder, _server: Some(server) }
    }

    /// Puts the options that name the stores in front of the arguments.
    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let mut all_args = vec!["--store", self.store_url.as_str()];
        if let Some(url) = &self.mailbox_url {
            all_args.extend(["--mailbox", url.as_str()]);
        }
        all_args.extend_from_slice(args);
        all_args
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        run(&self.args(args), "")
    }

    fn json(&self, args: &[&str]) -> Value {
        let response = self.run(&[args, &["--json"]].concat()).expect_success();
        serde_json::from_str(&response.out).unwrap_or_else(|error| panic!("{error}: {}", response.out))
    }

    fn enqueue(&self, thread: &str, id: &str) {
        self.json(&["mailbox", "enqueue", thread, "--run", "r", "--id", id, "--payload", r#"{"n":1}"#]);
    }

    /// Returns the status of a dispatch, the number of its failures, and how its attempts ended.
    fn status_summary(&self, id: &str) -> (String, Value, Vec<String>) {
        let list = self.json(&["mailbox", "list"]);
        let all = value_at(&list, "/dispatches").as_array().unwrap();
        let dispatch = all.iter().find(|dispatch| value_at(dispatch, "/id") == id).unwrap();
        let history = dispatch.get("history").and_then(Value::as_array).cloned().unwrap_or_default();
        let ends = history.iter().map(|attempt| value_at(attempt, "/end").as_str().unwrap().to_owned()).collect();
        (value_at(dispatch, "/status").as_str().unwrap().to_owned(), value_at(dispatch, "/attempts").clone(), ends)
    }

    fn status(&self, id: &str) -> String {
        let (status, _, _) = self.status_summary(id);
        status
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a worker that runs until it is stopped.
    fn start_worker(&self, exec: &str, args: &[&str]) -> Child {
        let args = self.args(&[&["mailbox", "work", "--json", "--exec", exec], args].concat());
        Command::new(env!("CARGO_BIN_EXE_agentstore"))
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("AGENTSTORE_URL")
            .env_remove("AGENTSTORE_MAILBOX")
            .env_remove("AGENTSTORE_SETTINGS")
            .env_remove("AGENTSTORE_BLOBS")
            .env_remove("AGENTSTORE_TENANT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timed out while waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the process id that a command writes into a file, and returns it.
fn read_process_id(path: &Path) -> Pid {
    let read = || fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'));
    wait_until("the process id", || read().is_some());
    Pid::from_raw(read().unwrap().trim().parse().unwrap()).unwrap()
}

fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Waits for the end of a worker, which must succeed, and returns its summary.
fn wait_for_summary(worker: Child) -> Value {
    let output = worker.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{:?}: {out} {err}", output.status);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    value_at(&last, "/summary").clone()
}

/// Tests WK-3: the way in which a command ends decides what becomes of its dispatch.
#[test]
fn the_exit_code_of_a_command_decides_how_its_dispatch_is_settled() {
    let setup = WorkSetup::in_files();
    let ids = ["good", "later", "bad", "killed", "long", "quiet"];
    ids.iter().for_each(|id| setup.enqueue(id, id));
    let exec = "case $AGENTSTORE_DISPATCH_ID in
        good) jq -c . 2>/dev/null || cat; echo \"$AGENTSTORE_THREAD_ID $AGENTSTORE_RUN_ID $AGENTSTORE_ATTEMPT $AGENTSTORE_CLAIM\" ;;
        later) exit 75 ;;
        bad) [ $AGENTSTORE_ATTEMPT -gt 1 ] || { echo first >&2; echo 'no network' >&2; exit 3; } ;;
        killed) [ $AGENTSTORE_ATTEMPT -gt 1 ] || kill -9 $$ ;;
        long) head -c 200000 /dev/zero | tr '\\0' x ;;
        quiet) sleep 100 & echo started ;;
        esac";
    let response = setup.run(&["mailbox", "work", "--until-idle", "--concurrency", "3", "--json", "--exec", exec]);
    // Two attempts fail. Their warnings are of one kind, which is printed once.
    let warnings: Vec<Value> = response.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((response.code, warnings.len()), (0, 1), "{response:?}");
    assert_eq!(value_at(&warnings[0], "/message"), "an attempt failed");
    let lines = response.documents();
    let (summary_line, reports) = lines.split_last().unwrap();
    let counts =
        ["acked", "retried", "snoozed", "lost"].map(|name| value_at(summary_line, &format!("/summary/{name}")).clone());
    assert_eq!(counts, [json!(5), json!(2), json!(1), json!(0)], "{summary_line}");
    assert_eq!(reports.len(), 8);
    let report_of = |id: &str| reports.iter().find(|report| value_at(report, "/dispatch") == id).unwrap();
    assert_eq!((value_at(report_of("bad"), "/exit"), value_at(report_of("killed"), "/signal")), (&json!(3), &json!(9)));

    let ends = |ends: &[&str]| ends.iter().map(|end| (*end).to_owned()).collect::<Vec<_>>();
    assert_eq!(setup.status_summary("good"), ("acked".to_owned(), json!(0), ends(&["acked"])));
    assert_eq!(setup.status_summary("later"), ("queued".to_owned(), json!(0), ends(&["snoozed"])));
    assert_eq!(setup.status_summary("bad"), ("acked".to_owned(), json!(1), ends(&["retried", "acked"])));
    assert_eq!(setup.status_summary("killed"), ("acked".to_owned(), json!(1), ends(&["retried", "acked"])));
    let list = setup.json(&["mailbox", "list"]);
    let dispatch_with_id = |id: &str| {
        let all = value_at(&list, "/dispatches").as_array().unwrap();
        all.iter().find(|dispatch| value_at(dispatch, "/id") == id).unwrap().clone()
    };
    let good_dispatch = dispatch_with_id("good");
    let output = value_at(&good_dispatch, "/result/output").as_str().unwrap();
    let document: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    assert_eq!((value_at(&document, "/id"), value_at(&document, "/payload/n")), (&json!("good"), &json!(1)));
    let claim = value_at(&document, "/claim/number").as_array().unwrap().clone();
    let expected_last_line = format!("good r 1 {}.{}", claim[0], claim[1]);
    assert_eq!(output.lines().last(), Some(expected_last_line.as_str()));
    assert!(value_at(&document, "/claim").get("token").is_none());
    assert_eq!(value_at(&dispatch_with_id("bad"), "/last_error"), &json!("exit code 3: first\nno network"));
    assert_eq!(value_at(&dispatch_with_id("killed"), "/last_error"), &json!("killed by signal 9"));
    let long_dispatch = dispatch_with_id("long");
    assert_eq!(
        (
            value_at(&long_dispatch, "/result/output").as_str().unwrap().len(),
            value_at(&long_dispatch, "/result/is_cut")
        ),
        (65_536, &json!(true))
    );
    assert_eq!(value_at(&dispatch_with_id("quiet"), "/result/output"), &json!("started\n"));
}

/// Kills a worker in the middle of its work, and lets another worker do the work. Checks that the command of the killed
/// worker and the processes that the command started end as well.
fn check_another_worker_finishes(setup: &WorkSetup) {
    setup.enqueue("t", "d");
    let mut first_worker = setup.start_worker("sleep 1000 & echo $! > pid; wait; touch outlived", &["--lease", "1s"]);
    let command_process = read_process_id(&setup.path("pid"));
    assert!(test_kill_process(command_process).is_ok(), "the command is not running");
    send_signal(&first_worker, Signal::KILL);
    first_worker.wait().unwrap();
    wait_until("the end of the command", || test_kill_process(command_process).is_err());
    let second_worker = setup.start_worker("touch done", &["--lease", "30s"]);
    wait_until("the second worker", || setup.path("done").exists());
    send_signal(&second_worker, Signal::TERM);
    let summary = wait_for_summary(second_worker);
    assert_eq!((value_at(&summary, "/claimed"), value_at(&summary, "/acked")), (&json!(1), &json!(1)));
    let ends = vec!["lease_expired".to_owned(), "acked".to_owned()];
    assert_eq!(setup.status_summary("d"), ("acked".to_owned(), json!(1), ends));
    assert!(!setup.path("outlived").exists());
}

/// If the worker dies before its command has begun, the command does not begin.
#[test]
fn a_command_does_not_start_after_its_worker_died() {
    let setup = WorkSetup::in_files();
    let exec = format!("touch '{}'", setup.path("began").display());
    // The parent of the `supervise` process has another id, as if the worker had died.
    let response = run(&["supervise", "--worker", &i32::MAX.to_string(), "--", &exec], "");
    assert_eq!((response.code, setup.path("began").exists()), (1, false), "{response:?}");
}

/// Tests WK-4 and MB-51 with a file store: another worker does the work after the lease of the killed one has expired.
#[test]
fn another_worker_finishes_the_work_of_a_killed_one() {
    check_another_worker_finishes(&WorkSetup::in_files());
}

/// Tests WK-4 and MB-51 with a store on a server.
#[test]
fn another_worker_finishes_the_work_of_a_killed_one_on_a_server() {
    check_another_worker_finishes(&WorkSetup::on_a_server());
}

/// Tests WK-4 and CP-2 with the mailbox in another store than the threads.
#[test]
fn another_worker_finishes_the_work_of_a_killed_one_on_two_stores() {
    check_another_worker_finishes(&WorkSetup::in_two_stores());
}

/// Tests WK-2: an interrupt by another process ends the claim, and with it the command and all processes that the
/// command started.
#[test]
fn a_command_whose_claim_is_lost_is_killed_with_its_child_processes() {
    let setup = WorkSetup::on_a_server();
    setup.enqueue("t", "d");
    let exec = "sleep 1000 & echo $! > pid; trap '' TERM; wait; touch outlived; sleep 1000";
    let worker = setup.start_worker(exec, &["--lease", "600ms"]);
    let child_process = read_process_id(&setup.path("pid"));
    setup.json(&["mailbox", "interrupt", "t", "--yes"]);
    wait_until("the end of the process that the command started", || test_kill_process(child_process).is_err());
    wait_until("the end of the attempt", || setup.status("d") == "superseded");
    send_signal(&worker, Signal::TERM);
    let summary = wait_for_summary(worker);
    assert_eq!((value_at(&summary, "/lost"), value_at(&summary, "/acked")), (&json!(1), &json!(0)));
    assert!(!setup.path("outlived").exists());
}

/// Tests WK-4: after the first signal the worker claims nothing more, and its command may finish.
#[test]
fn a_worker_that_is_asked_to_end_lets_its_command_finish() {
    let setup = WorkSetup::in_files();
    setup.enqueue("t", "d");
    setup.enqueue("t", "after");
    let worker = setup.start_worker("touch began; while ! [ -e go ]; do sleep 0.05; done", &[]);
    wait_until("the command", || setup.path("began").exists());
    send_signal(&worker, Signal::INT);
    fs::write(setup.path("go"), "").unwrap();
    let summary = wait_for_summary(worker);
    assert_eq!((value_at(&summary, "/claimed"), value_at(&summary, "/acked")), (&json!(1), &json!(1)));
    assert_eq!(setup.status("after"), "queued");
}

/// Tests WK-4: after the deadline, or at the second signal, the command is ended and its dispatch is released.
#[test]
fn the_dispatch_of_an_unfinished_command_is_released() {
    for (args, signals) in [(&["--stop-after", "0s"][..], 1), (&["--stop-after", "1h"][..], 2)] {
        let setup = WorkSetup::in_files();
        setup.enqueue("t", "d");
        let mut worker = setup.start_worker("echo $$ > pid; trap 'exit 0' TERM; while true; do sleep 0.05; done", args);
        let command_process = read_process_id(&setup.path("pid"));
        let mut stderr = std::io::BufReader::new(worker.stderr.take().unwrap());
        for _ in 0..signals {
            send_signal(&worker, Signal::TERM);
            let mut line = String::new();
            std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
        }
        let summary = wait_for_summary(worker);
        assert_eq!((value_at(&summary, "/released"), value_at(&summary, "/acked")), (&json!(1), &json!(0)));
        assert!(test_kill_process(command_process).is_err());
        assert_eq!(setup.status_summary("d"), ("queued".to_owned(), json!(0), vec!["released".to_owned()]));
    }
}

/// Tests CP-1, CP-2 and CP-3: dispatches are in the store of `--mailbox`, and threads in that of `--store`.
#[test]
fn a_mailbox_can_be_in_another_store() {
    let setup = WorkSetup::in_two_stores();
    setup.enqueue("t", "d");
    setup.json(&["append", "t", "--message", "hi"]);
    let listed = setup.json(&["threads"]);
    assert!(value_at(&listed, "/mailbox").as_str().unwrap().ends_with("/queue"));
    assert_eq!(value_at(&listed, "/capabilities/fenced"), &json!(false));
    let run_on_url = |url: &str, args: &[&str]| {
        let response = run(&[&["--store", url, "--json"], args].concat(), "").expect_success();
        serde_json::from_str::<Value>(&response.out).unwrap()
    };
    let (store, mailbox) = (&setup.store_url, setup.mailbox_url.as_ref().unwrap());
    assert_eq!(value_at(&run_on_url(store, &["mailbox", "list"]), "/counts/queued"), &json!(0));
    assert_eq!(value_at(&run_on_url(mailbox, &["mailbox", "list"]), "/counts/queued"), &json!(1));
    assert_eq!(value_at(&run_on_url(mailbox, &["threads"]), "/threads"), &json!([]));
    // This is another spelling of the same path.
    let output = run_on_url(store, &["threads", "--mailbox", &store.replace("/data", "/./data")]);
    assert!(output.get("mailbox").is_none());
    assert_eq!(value_at(&output, "/capabilities/fenced"), &json!(true));
    let response = setup.run(&["mailbox", "work", "--exec", "true", "--until-idle"]).expect_success();
    assert_eq!(response.out, "dispatch d of thread t, attempt 1: exit code 0\n1 done\n");
    setup.json(&["tenants", "delete", "default", "--yes"]);
    for url in [store, mailbox] {
        assert_eq!(value_at(&run_on_url(url, &["tenants"]), "/tenants"), &json!([]));
    }
}

fn with_tenant_option<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["--tenant", "acme"], args].concat()
}

/// Tests WK-12: a command finds the store, the mailbox and the tenant of its worker, in every folder.
#[test]
fn a_command_finds_the_store_of_its_worker() {
    let program = env!("CARGO_BIN_EXE_agentstore");
    let setup = WorkSetup::in_two_stores();
    setup.json(&with_tenant_option(&["append", "t", "--message", "hi"]));
    setup.json(&with_tenant_option(&["mailbox", "enqueue", "t", "--run", "r"]));
    // A command can read while the worker has the store open. It cannot write, and the advice names the solutions.
    let exec = format!(
        "cd / && {program} context $AGENTSTORE_THREAD_ID --json && {program} append t --message x --json 2>&1; \
         echo \"$AGENTSTORE_URL $AGENTSTORE_MAILBOX $AGENTSTORE_TENANT\""
    );
    setup.run(&with_tenant_option(&["mailbox", "work", "--until-idle", "--exec", &exec])).expect_success();
    let list = setup.json(&with_tenant_option(&["mailbox", "list"]));
    let output = value_at(&list, "/dispatches/0/result/output").as_str().unwrap();
    assert!(output.contains(r#"{"text":"hi"}"#) && output.contains("docs/compositions.md"), "{output}");
    let mailbox = setup.mailbox_url.as_ref().unwrap();
    assert_eq!(output.lines().last().unwrap(), format!("{} {mailbox} acme", setup.store_url));
}

/// Tests WK-12: a command gets the URL of the store with its password, and can write to the thread that it works for.
#[test]
fn a_command_on_a_server_writes_to_its_thread() {
    let mut setup = WorkSetup::on_a_server();
    setup.store_url = setup.store_url.replacen("postgres@", "postgres:canary@", 1);
    setup.enqueue("t", "d");
    let program = env!("CARGO_BIN_EXE_agentstore");
    let exec = format!("{program} append $AGENTSTORE_THREAD_ID --message done && echo \"$AGENTSTORE_URL\"");
    setup.run(&["mailbox", "work", "--until-idle", "--exec", &exec]).expect_success();
    let list = setup.json(&["mailbox", "list"]);
    let output = value_at(&list, "/dispatches/0/result/output").as_str().unwrap();
    assert!(output.lines().last().unwrap().contains("postgres:canary@"), "{output}");
    assert_eq!(value_at(&setup.json(&["context", "t"]), "/messages/0/message/blocks/0/text"), "done");
}
