//! `copy`: killed at any moment it goes on, it takes blobs of other stores along, and a comparison finds what was
//! changed behind a store.

use std::{
    process::{Command, Stdio},
    thread,
};

use agentstore::{
    AppendEvents, Commit, CopyStep, Durability, Message, NewDispatch, NewEntry, NewEvent, OpenOptions, Progress, Scope,
    TenantId, copy_stores, records::CopyOptions,
};
use conformance_tests::{KillMoments, TestLength, seed_from_env};
use serde_json::{Value, json};

use crate::{
    damage::{damaged_log, flip_bit, rewrite_groups},
    helpers::{CommandOutput, TestStore, run, value_at},
    postgres::PostgresTestStore,
};

const THREADS: usize = 12;
const COMMITS: usize = 10;
const ENTRIES_OF_COMMIT: usize = 25;

/// Fills a store with threads, events and dispatches: several pages of most lists.
fn fill(store: &TestStore) {
    tokio::runtime::Runtime::new().unwrap().block_on(fill_at(store.url()));
}

async fn fill_at(url: &str) {
    let stores = OpenOptions::new().with_durability(Durability::None).open(url).await.unwrap();
    let tenant = TenantId::default_tenant();
    let commits = stores.commits(&tenant).unwrap();
    for number in 0..THREADS {
        let thread = format!("t-{number}");
        for commit in 0..COMMITS {
            let entry = |entry: usize| NewEntry::new(Message::user(format!("message {commit} {entry} of {thread}")));
            let topic = Scope::Topic("topic".parse().unwrap());
            let event = NewEvent::new("happened".parse().unwrap(), [Scope::Thread(thread.parse().unwrap()), topic]);
            let new = Commit::new(thread.parse().unwrap())
                .with_key(format!("k-{commit}").parse().unwrap())
                .with_events(AppendEvents::new([event]));
            let new = (0..ENTRIES_OF_COMMIT).fold(new, |new, number| new.entry(entry(number)));
            let _receipt = commits.commit(new).await.unwrap();
        }
        let work = |_| NewDispatch::new(thread.parse().unwrap(), "r".parse().unwrap());
        stores.mailbox(&tenant).unwrap().enqueue((0..40).map(work).collect()).await.unwrap();
    }
    stores.close().await.unwrap();
}

fn copy_args<'a>(from: &'a str, to: &'a str) -> [&'a str; 6] {
    ["copy", "--json", "--from", from, "--to", to]
}

/// Begins a copy, and kills it after a random time unless it has ended. Returns whether it was killed.
fn copy_until_killed(args: &[&str], moments: &mut KillMoments) -> bool {
    let mut child = Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(args)
        .env_remove("AGENTSTORE_URL")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(moments.delay());
    let ended = child.try_wait().unwrap();
    if ended.is_none() {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let is_killed = output.status.code().is_none();
    assert!(is_killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    moments.report(is_killed);
    is_killed
}

/// The digest of the default tenant, as `verify` prints it. Nothing may be wrong with the store.
fn digest(store: &TestStore) -> Value {
    value_at(&store.json(&["verify", "--digest"]), "/digests/default").clone()
}

/// Copies to new targets, kills the copies, and repeats each until it ends.
#[expect(clippy::print_stdout, reason = "a test of faults prints what it did")]
fn check_killed_copies<T: std::ops::Deref<Target = TestStore>>(new_target: fn() -> T, kills: usize) {
    let source = TestStore::new();
    fill(&source);
    let expected = digest(&source);
    let (mut moments, mut killed, mut continued) = (KillMoments::new(seed_from_env("AGENTSTORE_SEED")), 0, 0);
    // A copy that is killed before or after its work does not continue.
    while killed < kills || (continued == 0 && killed < 20 * kills) {
        let target = new_target();
        let args = copy_args(source.url(), target.url());
        // The first kill comes while nothing, a part or everything is copied, and so does the next one.
        let rounds = 1 + moments.rounds() % 3;
        for _ in 0..rounds {
            if !copy_until_killed(&args, &mut moments) {
                break;
            }
            killed += 1;
        }
        let ended = run(&args, "").expect_success();
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        continued += usize::from(value_at(&report, "/tenants/0/continued") == &json!(true));
        assert_eq!(value_at(&report, "/tenants/0/difference_count"), 0, "{report}");
        let compared = run(&[&args[..], &["--compare"]].concat(), "").expect_success();
        let compared: Value = serde_json::from_str(&compared.out).unwrap();
        assert_eq!(value_at(&compared, "/tenants/0/source/digest"), value_at(&compared, "/tenants/0/target/digest"));
        assert_eq!(digest(&target), expected);
        // No mark is left: another store can be copied from this one.
        let next = TestStore::new();
        run(&copy_args(target.url(), next.url()), "").expect_success();
        assert_eq!(digest(&next), expected);
    }
    println!("{killed} copies were killed in {} runs, {continued} of the last ones continued", moments.rounds());
    assert!(continued > 0, "no copy was killed in its midst");
}

/// A new store in a folder, with the type that a store on a server has.
struct FileTarget(TestStore);

impl std::ops::Deref for FileTarget {
    type Target = TestStore;

    fn deref(&self) -> &TestStore {
        &self.0
    }
}

/// A copy from files to files that is killed at any moment (`kill -9`) goes on when it is repeated, and has every
/// record once (VF-2).
#[test]
fn a_killed_copy_to_files_goes_on_vf_2() {
    check_killed_copies(|| FileTarget(TestStore::new()), TestLength::pick_by_env(6, 40, 200));
}

/// A copy from files to PostgreSQL that is killed at any moment (`kill -9`) goes on when it is repeated, and has every
/// record once (VF-2).
#[test]
fn a_killed_copy_to_postgres_goes_on_vf_2() {
    check_killed_copies(PostgresTestStore::new, TestLength::pick_by_env(6, 40, 200));
}

fn compare(from: &TestStore, to: &TestStore) -> CommandOutput {
    run(&[&copy_args(from.url(), to.url())[..], &["--compare"]].concat(), "")
}

/// A line of a log that was changed behind the store is found by a comparison and by `verify`, also if its checksums
/// are right (VF-1, VF-3).
#[test]
fn a_line_that_was_changed_behind_a_store_is_found_vf_3() {
    let (source, whole) = (TestStore::new(), TestStore::new());
    for text in ["one", "two", "three"] {
        source.append("damaged", text);
    }
    run(&copy_args(source.url(), whole.url()), "").expect_success();
    compare(&source, &whole).expect_success();
    let flipped = TestStore::new();
    run(&copy_args(source.url(), flipped.url()), "").expect_success();
    // The lines of a restored thread: header, thread, commit, entries.
    flip_bit(damaged_log(&flipped), 5);
    let compared = compare(&source, &flipped);
    assert_eq!(compared.code, 1, "{compared:?}");
    assert!(compared.err.contains("damaged."), "{compared:?}");
    let verified = flipped.run(&["verify", "--json"]);
    assert_eq!(verified.code, 1, "{verified:?}");

    // The same for the first log, whose checksums are right again: it is not the one that the store wrote.
    let rewritten = &source;
    rewrite_groups(damaged_log(rewritten), |groups| groups[1] = groups[1].replace("two", "TWO"));
    let compared = compare(&whole, rewritten);
    assert_eq!(compared.code, 1, "{compared:?}");
    let text = format!("{}{}", compared.out, compared.err);
    assert!(text.contains("damaged"), "{text}");
    let digests = [&whole, rewritten].map(|store| store.run(&["verify", "--digest", "--json"]).out);
    assert_ne!(digests[0], digests[1]);
}

/// The bytes of blobs in a store of their own are copied from there and to there (CP-1, VF-2).
#[test]
fn blobs_in_other_stores_are_copied_vf_2() {
    let (from, to) = (TestStore::new(), TestStore::new());
    let blobs = |store: &TestStore| format!("file:{}", store.sibling_path("blobs").display());
    let (from_blobs, to_blobs) = (blobs(&from), blobs(&to));
    let file = from.write_file("image", "bytes of an image");
    let put = from.json(&["--blobs", &from_blobs, "blobs", "put", &file]);
    let hash = value_at(&put, "/hash").as_str().unwrap();
    let parts = ["--from-blobs", &from_blobs, "--to-blobs", &to_blobs];
    let copied = run(&[&copy_args(from.url(), to.url())[..], &parts].concat(), "").expect_success();
    let copied: Value = serde_json::from_str(&copied.out).unwrap();
    assert_eq!(value_at(&copied, "/tenants/0/difference_count"), 0);
    let out = to.sibling_path("out").display().to_string();
    to.run(&["--blobs", &to_blobs, "blobs", "get", hash, "--out", &out]).expect_success();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "bytes of an image");
    to.run(&["blobs", "get", hash, "--out", &out]).expect_failure(1, &[hash]);
}

/// A mailbox in SQLite goes to the mailbox of a store of files, and back (VF-2, VF-6).
#[test]
fn a_mailbox_is_copied_between_compositions_vf_2() {
    let (from, to) = (TestStore::new(), TestStore::new());
    let queue = format!("sqlite:{}", from.sibling_path("queue.db").display());
    from.append("t", "hi");
    from.json(&["--mailbox", &queue, "mailbox", "enqueue", "t", "--run", "r"]);
    run(&[&copy_args(from.url(), to.url())[..], &["--from-mailbox", &queue]].concat(), "").expect_success();
    let counts = |store: &TestStore, args: &[&str]| store.json(&[args, &["mailbox", "list"]].concat());
    assert_eq!(value_at(&counts(&to, &[]), "/dispatches").as_array().unwrap().len(), 1);
    let back = TestStore::new();
    let queue = format!("sqlite:{}", back.sibling_path("queue.db").display());
    run(&[&copy_args(to.url(), back.url())[..], &["--to-mailbox", &queue]].concat(), "").expect_success();
    assert_eq!(value_at(&counts(&back, &["--mailbox", &queue]), "/dispatches").as_array().unwrap().len(), 1);
    assert_eq!(
        digest(&to),
        value_at(&back.json(&["--mailbox", &queue, "verify", "--digest"]), "/digests/default").clone()
    );
    // Threads have no place in a store that keeps mailboxes only.
    let other = format!("sqlite:{}", back.sibling_path("other.db").display());
    run(&copy_args(to.url(), &other), "").expect_failure(1, &["threads", "partial"]);
}

/// Stops a copy after its first records.
#[derive(Debug)]
struct StopAtOnce;

impl Progress for StopAtOnce {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        false
    }
}

/// Begins a copy that stops in its midst.
async fn begin_copy(from: &TestStore, to: &TestStore) {
    let (source, target) = (agentstore::open(from.url()).await.unwrap(), agentstore::open(to.url()).await.unwrap());
    let options = CopyOptions::new(from.url());
    let copied = copy_stores((&source, &target), None, CopyStep::Copy, &options, &StopAtOnce).await.unwrap();
    assert!(copied[0].report.stopped);
    assert!(target.unfinished_copy(&TenantId::default_tenant()).await.unwrap().is_some());
    target.close().await.unwrap();
    source.close().await.unwrap();
}

/// Until a copy has ended, its target says so, and is not written to (VF-2).
#[test]
fn the_target_of_an_unfinished_copy_says_so_vf_2() {
    let (source, target) = (TestStore::new(), TestStore::new());
    for text in ["one", "two"] {
        source.append("t", text);
    }
    tokio::runtime::Runtime::new().unwrap().block_on(begin_copy(&source, &target));

    let read = target.run(&["threads"]);
    assert_eq!(read.code, 0, "{read:?}");
    assert!(read.err.contains("is not complete") && read.err.contains(source.url()), "{read:?}");
    target.run_with_input(&["append", "t"], "x").expect_failure(1, &["has not ended", "repeat `agentstore copy`"]);
    let checked = target.run(&["doctor"]);
    assert!(checked.code == 1 && checked.out.contains("is not complete"), "{checked:?}");
    let verified = target.run(&["verify"]);
    assert!(verified.code == 1 && verified.out.contains("unfinished copy"), "{verified:?}");
    assert!(verified.out.contains(": 1 finding"), "{verified:?}");
    let verified: Value = serde_json::from_str(&target.run(&["verify", "--json"]).out).unwrap();
    assert_eq!(value_at(&verified, "/unfinished_copies/0/source"), &json!(source.url()));
    let other = TestStore::new();
    other.append("other", "x");
    run(&copy_args(other.url(), target.url()), "").expect_failure(1, &["unfinished copy", "repeat the copy from that"]);
    run(&copy_args(target.url(), other.url()), "").expect_failure(1, &["has not ended"]);

    let ended = run(&copy_args(source.url(), target.url()), "").expect_success();
    let ended: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(value_at(&ended, "/tenants/0/continued"), &json!(true));
    assert_eq!(digest(&target), digest(&source));
    target.append("t", "three");
    run(&copy_args(other.url(), target.url()), "").expect_failure(1, &["--merge"]);
    let compared = run(&["copy", "--compare", "--from", other.url(), "--to", target.url()], "");
    assert!(compared.code == 1 && compared.out.contains(" only in the target"), "{compared:?}");
}
