//! Roots that the first release wrote, kept in `tests/fixtures`: every later one reads them as they were (PR-18).
//! `root-v1` has threads, entries and runs; `root-v1-work` has queued input, events, an outbox and a mailbox as well.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use conformance_tests::TestLength;
use store_core::{
    Block, ClaimNumber, ClaimToken, Commit, Compaction, ContextRequest, Custom, DispatchFilter, DispatchQuery,
    EntryQuery, ErrorKind, EventQuery, Expect, Fence, IgnoreProgress, Json, Message, NewEntry, OutboxQuery,
    PageRequest, Receipt, Result, Role, RunChange, RunQuery, RunStatus, StateChange, Store, ThreadFields, ThreadQuery,
};
use store_file::{
    FileStore,
    testing::{Fault, FilePath, Open, SimDisk, Survivors, Vfs, add_checksum, ensure_dir},
};

use crate::{
    folder::{Place, copy_tree, edit},
    script::{LATER, Step, script},
    world::{at, config, saying, scopes, tenant, thread},
};

const ELSEWHERE: &str = "mandant-ü";
const THREAD: &str = "日本/e\u{301} 🦀";

const THREADS: &str = "root-v1";
const WORK: &str = "root-v1-work";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A place with a copy of a root.
fn place_of(name: &str) -> Place {
    let place = Place::new();
    copy_tree(&fixture(name).join("root"), &place.root());
    place.clock.set(at(1_000));
    place
}

fn place() -> Place {
    place_of(THREADS)
}

/// A commit of everything that the script leaves out. It stands in the root under its key: never change it.
fn keyed() -> Commit {
    let json = |text| Json::parse(text).unwrap();
    let mut fields = ThreadFields::default();
    fields.title = Some("Überschrift\u{0}".to_owned());
    fields.resource_id = Some("größe".parse().unwrap());
    fields.metadata.insert("zahl".to_owned(), json("1.50e2"));
    let call = Block::tool_use("ruf-1", "suche", json(r#"{"big":12345678901234567890123,"minus":-0.0}"#));
    let answer = Message::new(Role::Assistant, vec![Block::text("ich sehe nach"), call]);
    let result = Message::new(Role::Tool, vec![Block::tool_result("ruf-1", vec![Block::text("gefunden ✓")])]);
    let run = RunChange::new("läuf-1".parse().unwrap(), RunStatus::Running).with_agent("führer".parse().unwrap());
    Commit::new(thread(THREAD))
        .creating(fields)
        .expecting(Expect::Absent)
        .with_key("schlüssel-1".parse().unwrap())
        .entry(NewEntry::new(Message::user("grüße, 世界")).with_id("é-1".parse().unwrap()))
        .entry(NewEntry::new(answer).with_id("é-2".parse().unwrap()))
        .entry(NewEntry::new(result).with_id("é-3".parse().unwrap()))
        .with_run(run)
        .with_state(StateChange::new().set("größe", json(r#"{"a":[1e2,null]}"#)))
}

/// A commit that makes a child of that thread, and gives it a summary and something of its own kind.
fn child() -> Commit {
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(thread(THREAD));
    let mut compaction = Compaction::default();
    compaction.summary = vec![Block::text("kurz gesagt")];
    let custom = Custom::new("eigenes", Json::parse(r#"{"x":[0.10,"\u0000"]}"#).unwrap());
    let entries = [NewEntry::new(compaction), NewEntry::new(custom)].into_iter().zip(1..);
    Commit::new(thread("kind"))
        .creating(fields)
        .expecting(Expect::Absent)
        .entries(entries.map(|(entry, number)| entry.with_id(format!("k-{number}").parse().unwrap())))
}

async fn commit(store: &FileStore, of: &str, commit: Commit) -> Result<Receipt> {
    store.tenant(&tenant(of)).unwrap().commits.unwrap().commit(commit).await
}

/// Everything that the store has, each record as its JSON, a line each.
async fn records(store: &FileStore) -> String {
    let whole = || PageRequest::first(1000);
    let mut out = String::new();
    let mut line = |name: &str, record: serde_json::Result<String>| {
        let _ = writeln!(out, r#"{{"{name}":{}}}"#, record.unwrap());
    };
    for tenant in store.list_tenants(whole()).await.unwrap().items {
        line("tenant", serde_json::to_string(&tenant));
        let stores = store.tenant(&tenant).unwrap();
        let threads = stores.threads.unwrap();
        for thread in threads.list_threads(ThreadQuery::default().with_page(whole())).await.unwrap().items {
            line("thread", serde_json::to_string(&thread));
            for entry in threads.list_entries(&thread.id, EntryQuery::all().with_page(whole())).await.unwrap().items {
                line("entry", serde_json::to_string(&*entry));
            }
            line("leaves", serde_json::to_string(&threads.list_leaves(&thread.id, whole()).await.unwrap().items));
            line("snapshots", serde_json::to_string(&threads.list_snapshots(&thread.id, whole()).await.unwrap().items));
            let context = threads.load_context(&thread.id, ContextRequest::head()).await.unwrap();
            line("state", serde_json::to_string(&context.state));
            let queue = stores.pending.as_ref().unwrap().load_queue(&thread.id).await.unwrap();
            queue.inputs.iter().for_each(|input| line("input", serde_json::to_string(input)));
        }
        let mut runs = RunQuery::default();
        runs.page = whole();
        for run in threads.list_runs(runs).await.unwrap().items {
            line("run", serde_json::to_string(&run));
        }
        let events = stores.events.unwrap();
        for scope in scopes() {
            let listed = events.list_events(EventQuery::new(scope).with_page(whole())).await.unwrap();
            listed.items.iter().for_each(|event| line("event", serde_json::to_string(event)));
        }
        let rows = stores.outbox.unwrap().list_outbox(OutboxQuery::default().with_page(whole())).await.unwrap();
        rows.items.iter().for_each(|row| line("row", serde_json::to_string(row)));
        let mailbox = stores.mailbox.unwrap();
        let query = DispatchQuery::new(DispatchFilter::default()).with_page(whole());
        for dispatch in mailbox.list_dispatches(query).await.unwrap().items {
            line("dispatch", serde_json::to_string(&dispatch));
            let epoch = mailbox.load_epoch(&dispatch.thread).await.unwrap();
            line("epoch", serde_json::to_string(&(&dispatch.thread, epoch)));
        }
    }
    out
}

/// How the newest fixture was made; the older one was made in the same way. A later release writes a root of its own
/// beside them and leaves them as they are.
#[tokio::test]
#[ignore = "writes the fixture: its README says how"]
async fn make_the_root_of_the_first_release() {
    let place = Place::new();
    let store = place.open();
    for Step { seconds, tenant, calls } in script().into_iter().take_while(|step| step.seconds < LATER) {
        place.clock.set(at(seconds));
        for call in calls {
            // The script has calls that are refused.
            let _ = call.make(&store, tenant).await;
        }
    }
    for made in [keyed(), child()] {
        let _ = commit(&store, ELSEWHERE, made).await.unwrap();
    }
    let records = records(&store).await;
    store.close().await.unwrap();
    for derived in ["index", "lock", "reserve"] {
        let path = place.root().join(derived);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.unwrap();
    }
    fs::remove_dir_all(fixture(WORK).join("root")).ok();
    copy_tree(&place.root(), &fixture(WORK).join("root"));
    fs::write(fixture(WORK).join("expected.jsonl"), records).unwrap();
}

/// What kinds of records and of lines the fixture has.
fn kinds(name: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let expected = fs::read_to_string(fixture(name).join("expected.jsonl")).unwrap();
    let records = expected.lines().map(|line| line.split('"').nth(1).unwrap().to_owned());
    let place = place_of(name);
    let files = place.logs().into_iter().chain([place.root().join("root.log")]);
    let logs: String = files.map(|log| fs::read_to_string(log).unwrap()).collect();
    let lines = logs.lines().filter_map(|line| line.strip_prefix(r#"{"t":""#)?.split('"').next().map(str::to_owned));
    (records.collect(), lines.collect())
}

/// Shows PR-18: every record reads as it did, and again from the index that was made of it.
#[tokio::test]
async fn a_root_of_the_first_release_reads_as_it_did() {
    let expected = fs::read_to_string(fixture(THREADS).join("expected.jsonl")).unwrap();
    for body in ["message", "usage", "checkpoint", "label", "rewind", "compaction", "custom"] {
        assert!(expected.contains(&format!(r#""body":{{"{body}":"#)), "{body}");
    }
    assert_eq!(kinds(THREADS).0.len(), 7);
    let (records_of_work, lines_of_work) = kinds(WORK);
    println!("{records_of_work:?} {lines_of_work:?}");
    for name in [THREADS, WORK] {
        let (expected, place) = (fs::read_to_string(fixture(name).join("expected.jsonl")).unwrap(), place_of(name));
        for _ in 0..2 {
            let store = place.open();
            assert!(store.opening().damaged.is_empty(), "{name}: {:?}", store.opening());
            let read = records(&store).await;
            for (read, expected) in read.lines().zip(expected.lines()) {
                assert_eq!(read, expected, "{name}");
            }
            assert_eq!(read.len(), expected.len(), "{name}");
            store.close().await.unwrap();
        }
    }
}

/// Shows PR-18: keys, claim numbers and deleted ids are remembered, and everything goes on.
#[tokio::test]
async fn a_root_of_the_first_release_can_be_continued() {
    let place = place();
    let store = place.open();
    let receipt = commit(&store, ELSEWHERE, keyed()).await.unwrap();
    assert!(receipt.deduplicated);
    let ids: Vec<_> = receipt.entry_ids.iter().map(ToString::to_string).collect();
    assert_eq!((receipt.version.number(), ids), (3, ["é-1", "é-2", "é-3"].map(str::to_owned).to_vec()));
    let other = keyed().entry(NewEntry::new(Message::user("more")));
    assert_eq!(commit(&store, ELSEWHERE, other).await.unwrap_err().kind(), ErrorKind::IdempotencyMismatch);
    let claim = |counter| {
        Fence::new("d-1".parse().unwrap(), ClaimToken::new("token"), 0, ClaimNumber { incarnation: 0, counter })
    };
    let stale = commit(&store, "default", saying("b", "stale", &["x"]).fenced(claim(1))).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::StaleEpoch);
    let gone = commit(&store, "default", saying("c.1", "gone", &["x"])).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    let anew = commit(&store, "default", saying("c.1", "anew", &["x"]).expecting(Expect::Absent)).await.unwrap();
    assert_eq!(anew.version.generation(), 2);
    let more = commit(&store, ELSEWHERE, saying(THREAD, "more", &["weiter"])).await.unwrap();
    assert_eq!(more.version.number(), 4);
    let written = records(&store).await;
    store.close().await.unwrap();
    let store = place.open();
    assert_eq!(records(&store).await, written);
}

/// Puts what is in a folder on a simulated disk.
fn load(disk: &SimDisk, from: &Path, to: &FilePath) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let path = to.join(entry.file_name().to_str().unwrap()).unwrap();
        if entry.file_type().unwrap().is_dir() {
            ensure_dir(disk, &path).unwrap();
            load(disk, &entry.path(), &path);
        } else {
            disk.open(&path, Open::CreateNew).unwrap().write_at(&fs::read(entry.path()).unwrap(), 0).unwrap();
        }
    }
}

/// Shows PR-18 and FI-2: the opening that gives a root of the first release its journal can be cut at every call of the
/// disk; the next one finds everything.
#[tokio::test]
async fn an_upgrade_can_be_cut_at_every_call() {
    let open = |disk: &SimDisk| {
        let (clock, config) = config();
        clock.set(at(1_000));
        FileStore::open_on(Arc::new(disk.clone()), config)
    };
    for name in [THREADS, WORK] {
        let disk = SimDisk::new();
        load(&disk, &fixture(name).join("root"), &FilePath::root());
        let root = disk.after_crash(Survivors::All);
        let expected = records(&open(&root.after_crash(Survivors::All)).unwrap()).await;
        for call in (0..).step_by(TestLength::pick_by_env(11, 3, 1)) {
            let cut = root.after_crash(Survivors::All).with_fault(call, Fault::Stop);
            let is_whole = open(&cut).is_ok() && cut.has_power();
            for survivors in [Survivors::All, Survivors::Synced, Survivors::Names, Survivors::Random(call)] {
                let crashed = cut.after_crash(survivors);
                let store = open(&crashed).unwrap_or_else(|error| panic!("{name}, {call}, {survivors:?}: {error}"));
                assert_eq!(records(&store).await, expected, "{name}, call {call}, {survivors:?}");
                let again = open(&crashed.after_crash(Survivors::Synced)).unwrap();
                assert_eq!(records(&again).await, expected, "{name}, call {call}, {survivors:?}, once more");
            }
            if is_whole {
                break;
            }
        }
    }
}

/// Shows PR-18: what a later release wrote is refused, both formats are named, and nothing changes on the disk.
#[tokio::test]
async fn a_root_of_a_later_format_is_refused_and_left_as_it_is() {
    let place = place();
    edit(&place.root().join("agentstore.json"), |bytes| {
        *bytes = String::from_utf8_lossy(bytes).replace(r#""format":1"#, r#""format":3"#).into_bytes();
    });
    let before = place.tree();
    let read_only = FileStore::open(place.root(), place.config().read_only());
    for opened in [place.try_open(), read_only] {
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        let text = error.to_string();
        assert!(text.contains("format 3") && text.contains("format 2"), "{text}");
    }
    assert_eq!(place.tree(), before);
}

/// Makes the header of a log one of version 3, with the right sum.
fn header_made_later(log: &mut Vec<u8>) {
    let text = String::from_utf8(log.clone()).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let fields = header.replacen(r#""v":1"#, r#""v":3"#, 1);
    let (header, _) = add_checksum(&format!("{}}}", fields.split_once(r#","crc""#).unwrap().0)).unwrap();
    *log = [&header, rest.as_bytes()].concat();
}

/// Makes the last group of a log one of version 3, with the right sum.
fn group_made_later(log: &mut Vec<u8>) {
    let text = String::from_utf8(log.clone()).unwrap();
    let (before, commit) = text.rsplit_once(r#"{"t":"commit","v":1"#).unwrap();
    let start = before.rfind(r#"{"t":"commit""#).unwrap_or(0);
    let start = start + before[start..].find('\n').unwrap() + 1;
    let commit = commit.rsplit_once(r#","crc""#).unwrap().0;
    let group = format!(r#"{}{{"t":"commit","v":3{commit}"#, &before[start..]);
    let line = format!("{group},\"crc\":\"{:08x}\"}}\n", crc32c::crc32c(group.as_bytes()));
    *log = format!("{}{line}", &before[..start]).into_bytes();
}

/// The error of reading a thread names the version that was found, and the one that is known.
async fn assert_too_new(store: &FileStore, id: &str) {
    let threads = store.tenant(&tenant("default")).unwrap().threads.unwrap();
    let error = threads.list_entries(&thread(id), EntryQuery::all()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    assert!(error.to_string().contains("version 3") && error.to_string().contains("version 2"), "{error}");
    let write = commit(store, "default", saying(id, "x", &["x"])).await.unwrap_err();
    assert_eq!(write.kind(), ErrorKind::SchemaMismatch, "{write}");
    let others = threads.list_entries(&thread("b"), EntryQuery::all()).await.unwrap();
    assert_eq!(others.items.len(), 1);
}

/// Shows PR-18: a log that a later release began or went on with is refused and left as it is, and no other one.
#[tokio::test]
async fn a_log_of_a_later_version_is_refused_and_left_as_it_is() {
    for make_later in [header_made_later, group_made_later] {
        let place = place();
        let log = place.logs().into_iter().max_by_key(|log| fs::metadata(log).unwrap().len()).unwrap();
        edit(&log, make_later);
        let before = fs::read(&log).unwrap();
        let store = place.open();
        assert_too_new(&store, "a").await;
        let findings = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap().findings;
        assert!(findings.iter().any(|found| found.detail.contains("version 3")), "{findings:?}");
        store.close().await.unwrap();
        assert_eq!(fs::read(&log).unwrap(), before);
    }
}

/// Shows PR-18: so is one that becomes so behind an index that can be trusted.
#[tokio::test]
async fn a_log_of_a_later_version_is_noticed_at_its_first_use() {
    let place = place();
    place.open().close().await.unwrap();
    let log = place.logs().into_iter().max_by_key(|log| fs::metadata(log).unwrap().len()).unwrap();
    edit(&log, header_made_later);
    let store = place.open();
    assert!(!store.opening().index_rebuilt);
    assert_too_new(&store, "a").await;
}

/// Shows PR-18: with a root log of a later version nothing can be read.
#[tokio::test]
async fn a_root_log_of_a_later_version_is_refused_and_left_as_it_is() {
    for make_later in [header_made_later, group_made_later] {
        let place = place();
        let log = place.root().join("root.log");
        edit(&log, make_later);
        let before = fs::read(&log).unwrap();
        assert_eq!(place.try_open().unwrap_err().kind(), ErrorKind::SchemaMismatch);
        assert_eq!(fs::read(&log).unwrap(), before);
    }
}
