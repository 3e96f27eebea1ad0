//! Real processes: writers that are killed at any moment, and openers that meet.

#![expect(clippy::disallowed_methods, reason = "how long an opening takes is real time")]

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use conformance_tests::TestLength;
use store_core::{
    AppendEvents, AppendPending, ClaimNumber, ClaimRequest, ClaimToken, Commit, CommitKey, DispatchStatus, EntryQuery,
    ErrorKind, Fence, IgnoreProgress, InputRef, Interrupt, Json, MailboxStore, Message, NewDispatch, NewEntry,
    NewEvent, NewInput, NewOutboxRow, OutboxFilter, PageRequest, RunChange, RunOutcome, RunStatus, Scope, Settlement,
    StateChange, StateOp, Store, TenantId, TenantStores, Thread, ThreadId,
};
use store_file::{Durability, FileConfig, FileStore};
use test_servers::{Disk, Process, can_fail_syncs, send_line, wait_for_parent};

/// What a child of these tests is to do, and where.
const TASK: &str = "AGENTSTORE_TEST_CHILD";
const ROOT: &str = "AGENTSTORE_TEST_ROOT";
const ROUND: &str = "AGENTSTORE_TEST_ROUND";

const WRITERS: usize = 16;
const THREADS: usize = 4;

fn begin(task: &str, root: &Path, round: u64) -> Process {
    begin_under(&[], task, root, round)
}

/// Begins a process. What stands before its own command is perhaps `strace`.
fn begin_under(before: &[&str], task: &str, root: &Path, round: u64) -> Process {
    let told = [(TASK, task), (ROOT, root.to_str().unwrap()), (ROUND, &round.to_string())];
    Process::begin(before, "processes::a_child_process_performs_its_task", &told)
}

/// The other side of the tests below; started by hand it has nothing to do.
#[test]
fn a_child_process_performs_its_task() {
    let Ok(task) = std::env::var(TASK) else { return };
    let root = std::env::var(ROOT).unwrap();
    let round = std::env::var(ROUND).unwrap();
    match task.as_str() {
        "write" => write_until_killed(Path::new(&root), &round, Durability::Sync),
        "write unsafely" => write_until_killed(Path::new(&root), &round, Durability::None),
        "write until it fails" => write_until_it_fails(Path::new(&root), &round),
        _ => open_and_hold(Path::new(&root)),
    }
}

/// The threads of a round: ten rounds share them, so that logs go on after a kill and stay short.
fn thread(round: &str, writer: usize) -> ThreadId {
    let shared = round.parse::<u64>().unwrap() / 10;
    ThreadId::new(format!("t-{shared}-{}", writer % THREADS)).unwrap()
}

fn name(round: &str, writer: usize, number: usize) -> String {
    format!("{round}-{writer}-{number}")
}

/// What a commit consumes.
fn input(round: &str, writer: usize, number: usize) -> AppendPending {
    let name = name(round, writer, number);
    let input = NewInput::message(Message::user(format!("input {name}"))).with_id(name.parse().unwrap());
    AppendPending::new(thread(round, writer), [input])
}

/// Whether a writer ends a dispatch with each commit: one on each thread does.
const fn settles(writer: usize) -> bool {
    writer < THREADS
}

/// What a commit that settles ends.
fn dispatch(round: &str, writer: usize, number: usize) -> NewDispatch {
    let id = name(round, writer, number).parse().unwrap();
    NewDispatch::new(thread(round, writer), "work".parse().unwrap()).with_id(id)
}

/// A claim that was, or is to be: a repeated commit is known by its key.
fn no_claim(round: &str, writer: usize, number: usize) -> Option<Fence> {
    let id = name(round, writer, number).parse().unwrap();
    let never = ClaimNumber { incarnation: 0, counter: 0 };
    settles(writer).then(|| Fence::new(id, ClaimToken::new("none"), 0, never))
}

/// Enqueues the work of a commit, and claims it.
async fn claimed(mailbox: &dyn MailboxStore, round: &str, writer: usize, number: usize) -> Option<Fence> {
    if !settles(writer) {
        return None;
    }
    let new = dispatch(round, writer, number);
    let request = ClaimRequest::new("worker".parse().unwrap(), Duration::from_secs(60)).of_dispatch(new.id.clone()?);
    mailbox.enqueue(vec![new]).await.unwrap().remove(0).unwrap();
    Some(mailbox.claim(request).await.unwrap().claimed.remove(0).fence())
}

/// A commit of everything that can be known again: an input that it takes, two entries, a run, state, an event, a row
/// of the outbox, and with a claim its end.
fn commit(round: &str, writer: usize, number: usize, revision: u64, claim: Option<Fence>) -> Commit {
    let (name, id) = (name(round, writer, number), thread(round, writer));
    let run = RunChange::new(name.parse().unwrap(), RunStatus::done(RunOutcome::NaturalEnd));
    let scopes = [Scope::Thread(id.clone()), Scope::Run(name.parse().unwrap())];
    let event = NewEvent::new("turn".parse().unwrap(), scopes).with_payload(Json::of(&name).unwrap());
    let row = NewOutboxRow::new(id.as_str().parse().unwrap(), "web".parse().unwrap(), Json::of(&name).unwrap());
    let mut state = StateChange::new().with("commits", StateOp::Add(1));
    if claim.is_some() {
        state = state.with("settled", StateOp::Add(1));
    }
    let commit = Commit::new(id)
        .with_key(CommitKey::new(&name).unwrap())
        .consuming([InputRef::new(name.parse().unwrap(), revision)])
        .with_run(run.with_agent("writer".parse().unwrap()))
        .with_events(AppendEvents::new([event]))
        .entry(NewEntry::new(Message::user(format!("ask {name}"))))
        .entry(NewEntry::new(Message::assistant(format!("answer {name}"))))
        .with_outbox([row])
        .with_state(state);
    match claim {
        Some(claim) => commit.fenced(claim).settling(Settlement::Ack { result: Some(Json::of(&name).unwrap()) }),
        None => commit,
    }
}

fn write_until_killed(root: &Path, round: &str, durability: Durability) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store =
            FileStore::open(root, FileConfig::default().with_durability(durability).with_journal_bytes(256 << 10))
                .unwrap();
        let stores = store.tenant(&TenantId::default_tenant()).unwrap();
        let (commits, mailbox) = (stores.commits.unwrap(), stores.mailbox.unwrap());
        // What the killed one had claimed is nobody's.
        for writer in 0..THREADS {
            mailbox.interrupt(Interrupt::new(thread(round, writer))).await.unwrap();
        }
        send_line("open");
        let writers = (0..WRITERS).map(|writer| {
            let (commits, mailbox, round) = (Arc::clone(&commits), Arc::clone(&mailbox), round.to_owned());
            tokio::spawn(async move {
                for number in 0.. {
                    let claim = claimed(&*mailbox, &round, writer, number).await;
                    let queued = commits.pending().append_pending(input(&round, writer, number)).await.unwrap();
                    let revision = queued.inputs[0].revision;
                    let receipt = commits.commit(commit(&round, writer, number, revision, claim)).await.unwrap();
                    send_line(format_args!("ack {writer} {number} {} {revision}", receipt.first_seq.unwrap()));
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

/// Commits until a commit fails. Says of which kind the error is, that of the next commit, and that reading goes on.
fn write_until_it_fails(root: &Path, round: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = FileStore::open(root, FileConfig::default()).unwrap();
        let stores = store.tenant(&TenantId::default_tenant()).unwrap();
        let (commits, threads) = (stores.commits.unwrap(), stores.threads.unwrap());
        let writer = THREADS;
        let mut kinds = Vec::new();
        for number in 0.. {
            let done = async {
                let queued = commits.pending().append_pending(input(round, writer, number)).await?;
                let revision = queued.inputs[0].revision;
                let receipt = commits.commit(commit(round, writer, number, revision, None)).await?;
                Ok::<_, store_core::Error>(format!("ack {writer} {number} {} {revision}", receipt.first_seq.unwrap()))
            };
            match done.await {
                Ok(line) => send_line(line),
                Err(error) => kinds.push(error.kind().name()),
            }
            if kinds.len() == 2 {
                break;
            }
        }
        assert!(threads.load_thread(&thread(round, writer)).await.unwrap().is_some());
        send_line(format_args!("failed {}", kinds.join(" ")));
    });
}

fn open_and_hold(root: &Path) {
    match FileStore::open(root, FileConfig::default()) {
        Ok(_store) => {
            send_line("held");
            wait_for_parent();
        }
        Err(error) => send_line(format_args!("refused {} {error}", error.kind().name())),
    }
}

struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::env::var("AGENTSTORE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        println!("AGENTSTORE_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Starts a writer, lets it write for `after`, and then calls `stop`. Returns what it acknowledged before `stop`, and
/// what it acknowledged in all. In every other round the time counts from its first acknowledgement.
fn stopped_writer(task: &str, root: &Path, round: u64, after: Duration, stop: impl FnOnce()) -> [Vec<String>; 2] {
    let mut writer = begin(task, root, round);
    assert_eq!(writer.next_line().as_deref(), Some("open"), "the writer did not open the store");
    let first = if round % 2 == 1 { writer.next_line() } else { None };
    let writer = writer.with_reader();
    std::thread::sleep(after);
    let before = writer.lines_so_far();
    stop();
    [before, writer.kill()].map(|said| acknowledged(first.iter().cloned().chain(said)))
}

/// What a writer acknowledged, of what it said.
fn acknowledged(said: impl IntoIterator<Item = String>) -> Vec<String> {
    said.into_iter().filter_map(|line| line.strip_prefix("ack ").map(str::to_owned)).collect()
}

/// What a killed writer acknowledged is there, with its content and under its key; nothing is half there; the next
/// opening works at once (CM-1, CM-17, PR-9, FI-5, FI-6, PR-21).
#[test]
fn a_killed_writer_loses_nothing_that_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let acknowledged = nothing_is_lost(folder.path(), TestLength::pick_by_env(20, 200, 500), |round, after| {
        let [_, all] = stopped_writer("write", folder.path(), round, after, || ());
        all
    });
    println!(
        "{} kills, {acknowledged} acknowledged commits, none lost, none half there",
        TestLength::pick_by_env(20, 200, 500)
    );
}

/// Stops writers, and checks after each that what it acknowledged is there. Gives how much that was.
fn nothing_is_lost(root: &Path, rounds: u64, stopped: impl Fn(u64, Duration) -> Vec<String>) -> usize {
    let mut random = Random::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut acknowledged = 0;
    for round in 0..rounds {
        let said = stopped(round, Duration::from_millis(1 + random.below(80)));
        acknowledged += said.len();
        runtime.block_on(check(root, round, &said));
    }
    assert!(acknowledged > 0, "nothing was written");
    runtime.block_on(async {
        let store = FileStore::open(root, FileConfig::default()).unwrap();
        let seen = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
        assert_eq!(seen.findings, []);
    });
    acknowledged
}

/// A commit whose sync failed is not known to be done, and nothing is written behind it; opened anew the store has all
/// that it acknowledged, and goes on (FI-6). `strace` makes the system say that a sync failed.
#[test]
fn a_failed_sync_stops_writes_until_the_store_is_reopened() {
    if !can_fail_syncs() {
        return;
    }
    let (folder, rounds, mut unknown) = (tempfile::tempdir().unwrap(), TestLength::pick_by_env(2, 5, 50), 0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(FileStore::open(folder.path(), FileConfig::default()).unwrap().close()).unwrap();
    for round in 0..rounds {
        // Of each thread that one fails. An opening has fewer.
        let fails = format!("inject=fsync,fdatasync:error=EIO:when={}", 60 + round);
        let trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &fails];
        let said = begin_under(&trace, "write until it fails", folder.path(), round).end();
        match said.last().map(String::as_str) {
            Some("failed commit_unknown poisoned") => unknown += 1,
            // The sync was one of the index, or of a thread that nobody waits for.
            Some("failed poisoned poisoned") => {}
            other => panic!("round {round}: {other:?} in {said:?}"),
        }
        runtime.block_on(check(folder.path(), round, &acknowledged(said)));
    }
    println!("{rounds} failed syncs ended writing, nothing acknowledged was lost; {unknown} commits were in doubt");
    assert!(unknown > rounds / 2, "{unknown}");
}

/// Cuts the power of a disk under a writer. Gives what the writer had said before: a sync that is under way while the
/// file system is stopped may return as if it had done its work, which no real power cut does.
fn cut_off(disk: &Disk, task: &str, round: u64, after: Duration) -> Vec<String> {
    let root = disk.folder().join("root");
    let [before, _] = stopped_writer(task, &root, round, after, || disk.cut_power().unwrap());
    disk.power_on().unwrap();
    before
}

/// What a writer acknowledged before the power of its disk goes is there, whole (CM-1, PR-9, FI-6, PR-21).
#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let Some(disk) = Disk::new_or_skip("file-power", 512) else { return };
    let (root, rounds) = (disk.folder().join("root"), TestLength::pick_by_env(2, 6, 200));
    let acknowledged = nothing_is_lost(&root, rounds, |round, after| cut_off(&disk, "write", round, after));
    println!("{rounds} power cuts, {acknowledged} acknowledged commits, none lost, none half there");
}

/// The control: without syncs acknowledged commits are lost.
#[tokio::test(flavor = "multi_thread")]
async fn without_syncs_a_power_cut_loses_acknowledged_commits() {
    let Some(disk) = Disk::new_or_skip("file-control", 512) else { return };
    for round in 0..20 {
        let said = cut_off(&disk, "write unsafely", round, Duration::from_millis(80));
        let store = FileStore::open(disk.folder().join("root"), FileConfig::default()).unwrap();
        let threads = store.tenant(&TenantId::default_tenant()).unwrap().threads.unwrap();
        let mut lost = 0;
        for line in &said {
            let numbers: Vec<usize> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            let run = name(&round.to_string(), numbers[0], numbers[1]).parse().unwrap();
            lost += usize::from(!threads.load_run(&run).await.is_ok_and(|run| run.is_some()));
        }
        store.close().await.unwrap();
        if lost > 0 {
            println!("power cut {round}: {lost} of {} acknowledged commits are lost", said.len());
            return;
        }
    }
    panic!("nothing was lost in 20 power cuts: the test is blind");
}

async fn check(root: &Path, round: u64, said: &[String]) {
    let store = FileStore::open(root, FileConfig::default()).unwrap();
    assert!(store.opening().damaged.is_empty(), "{:?}", store.opening());
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    let (commits, mailbox) = (stores.commits.as_ref().unwrap(), stores.mailbox.as_ref().unwrap());
    let threads = commits.threads();
    for line in said {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let (writer, number) = (usize::try_from(numbers[0]).unwrap(), usize::try_from(numbers[1]).unwrap());
        let round = &round.to_string();
        let again = commit(round, writer, number, numbers[3], no_claim(round, writer, number));
        let mut query = EntryQuery::all().with_page(PageRequest::first(3));
        query.from_seq = Some(numbers[2]);
        let page = threads.list_entries(&again.thread, query).await.unwrap();
        for (entry, word) in page.items.iter().zip(["input", "ask", "answer"]) {
            let text = format!("{word} {round}-{writer}-{number}");
            assert_eq!(entry.message().unwrap().blocks, [store_core::Block::text(text)]);
        }
        assert_eq!(page.items.len(), 3);
        let run = again.run.clone().unwrap().id;
        assert!(threads.load_run(&run).await.unwrap().is_some_and(|run| !run.is_open()));
        if let Some(fence) = &again.fence {
            let settled = mailbox.load_dispatch(&fence.dispatch).await.unwrap().unwrap();
            assert_eq!(settled.status, DispatchStatus::Acked);
        }
        let receipt = commits.commit(again).await.unwrap();
        let event = commits.events().load_event(&receipt.events[0].id).await.unwrap().unwrap();
        assert_eq!(event.run, Some(run));
        assert!(receipt.deduplicated && receipt.first_seq == Some(numbers[2]), "{line}: {receipt:?}");
    }
    for at in 0..THREADS {
        let Some(thread) = threads.load_thread(&thread(&round.to_string(), at)).await.unwrap() else { continue };
        check_whole(&stores, &thread).await;
    }
    store.close().await.unwrap();
}

/// Every part of a thread tells of the same commits.
async fn check_whole(stores: &TenantStores, thread: &Thread) {
    let (threads, events) = (stores.threads.as_ref().unwrap(), stores.events.as_ref().unwrap());
    let (mailbox, outbox) = (stores.mailbox.as_ref().unwrap(), stores.outbox.as_ref().unwrap());
    let found = threads.load_context(&thread.id, store_core::ContextRequest::head()).await.unwrap();
    let count = thread.version.number() / 3;
    // An input alone makes a thread, without a commit.
    let value = (count > 0).then(|| Json::of(&count).unwrap());
    assert_eq!((thread.version.number() % 3, found.state.get("commits")), (0, value.as_ref()), "half a commit");
    let scope = Scope::Thread(thread.id.clone());
    assert_eq!(events.load_scope(&scope).await.unwrap().appended, count, "half a commit");
    let rows = OutboxFilter::default().of_lane(thread.id.as_str().parse().unwrap());
    assert_eq!(outbox.count_outbox(&rows).await.unwrap().pending, count, "half a commit");
    let settled = mailbox.count_dispatches(Some(&thread.id)).await.unwrap().acked;
    let value = (settled > 0).then(|| Json::of(&settled).unwrap());
    assert_eq!(found.state.get("settled"), value.as_ref(), "half a commit");
    // Each writer may have queued one more than it took.
    let queue = stores.pending.as_ref().unwrap().load_queue(&thread.id).await.unwrap();
    assert!(queue.inputs.len() <= WRITERS / THREADS * 10, "{}", queue.inputs.len());
}

/// Of two that open a root at once one holds it and the other is told by whom; after a kill the next opens (FI-5).
#[test]
fn one_of_two_concurrent_openers_gets_the_root() {
    let (folder, mut longest) = (tempfile::tempdir().unwrap(), Duration::ZERO);
    for round in 0..100 {
        let mut openers = [begin("open", folder.path(), round), begin("open", folder.path(), round)];
        let words: Vec<String> = openers.iter_mut().map(|opener| opener.next_line().unwrap()).collect();
        let at = words.iter().position(|word| word == "held").expect("nobody holds it");
        let [first, second] = openers;
        let (holder, other) = if at == 0 { (first, second) } else { (second, first) };
        let refused = &words[1 - at];
        assert!(refused.starts_with(&format!("refused {}", ErrorKind::Unavailable.name())), "{refused}");
        assert!(refused.contains(&format!("held by process {} on host", holder.id())), "{refused}");
        other.end();
        if round % 5 == 0 {
            holder.kill();
        } else {
            holder.end();
        }
        let begun = Instant::now();
        let opening = FileStore::open(folder.path(), FileConfig::default()).unwrap();
        longest = longest.max(begun.elapsed());
        assert_eq!(opening.opening().unclean, round % 5 == 0);
    }
    println!("of two openers one held the root, 100 times; the next opening took {longest:?} at most, after 20 kills");
}
