//! What lies on the disk: names, lines, modes, links, and how many files are open.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::Arc,
    time::Duration,
};

use store_core::{
    AppendEvents, AppendPending, ChildStrategy, ClaimOutbox, ClaimRequest, CommitCoordinator, DeleteRequest, Delivery,
    EntryQuery, ErrorKind, Expect, Interrupt, Json, MailboxStore, Message, NewDispatch, NewEvent, NewInput,
    NewOutboxRow, NewThread, OutboxFilter, RunChange, RunStatus, RunTarget, Scope, Store, TenantId, ThreadFields,
};
use store_file::{Durability, FileStore};

use crate::folder::{Place, answers, commit, commits, fill, say, saying, thread, threads, tree};

/// Shows FI-1: everything but the index is lines of JSON, and each entry has a line of its own.
#[tokio::test]
async fn every_line_is_json_and_every_entry_has_its_own_line() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let awkward = "two\nlines, \"quoted\", \u{2028} and \u{0}";
    say(&store, "a", awkward).await.unwrap();
    store.close().await.unwrap();
    let mut texts = Vec::new();
    for (name, (_, bytes)) in place.tree() {
        let Some(bytes) = bytes.filter(|_| !name.starts_with("index/") && name != "reserve") else { continue };
        let text = String::from_utf8(bytes).unwrap();
        for line in text.trim_end_matches(' ').lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{name}: {e}: {line}"));
            assert!(value.is_object(), "{name}: {line}");
            texts.extend((value["t"] == "entry").then(|| value["body"]["message"]["blocks"][0]["text"].to_string()));
        }
    }
    assert_eq!(texts.len(), 11);
    assert!(texts.contains(&serde_json::to_string(awkward).unwrap()), "{texts:?}");
}

/// Shows FI-1: from an id to the file of its thread.
#[tokio::test]
async fn the_file_of_a_thread_is_found_by_its_id() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let tenant = TenantId::default_tenant();
    for id in ["a", "b"] {
        let path = store.log_path(&tenant, &thread(id)).unwrap().unwrap();
        assert_eq!(path, place.log(id));
        let header = fs::read_to_string(path).unwrap().lines().next().unwrap().to_owned();
        assert!(header.contains(&format!(r#""thread":"{id}""#)), "{header}");
    }
    assert_eq!(store.log_path(&tenant, &thread("none")).unwrap(), None);
    let other = TenantId::new("other").unwrap();
    assert_eq!(store.log_path(&other, &thread("a")).unwrap(), None);
}

/// Whether a file is beside the logs: the index, or the journal.
fn is_beside(name: &str) -> bool {
    name.starts_with("index") || name.starts_with("journal.")
}

/// Shows FI-2: each commit is one group at the end of its thread's log, with one commit line, and nothing else grows.
#[tokio::test]
async fn each_commit_is_one_group_of_its_log() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let run = RunChange::new("r-2".parse().unwrap(), RunStatus::Running).with_agent("guide".parse().unwrap());
    let state = store_core::StateChange::new().set("asked", Json::parse("1").unwrap());
    let whole = saying("b", "one").entries(saying("b", "two").entries).with_run(run).with_state(state);
    let before = place.tree();
    commit(&store, whole).await.unwrap();
    let after = place.tree();
    let grown: Vec<_> =
        after.iter().filter(|(name, file)| !is_beside(name) && before.get(*name) != Some(file)).collect();
    assert_eq!(grown.len(), 1, "{grown:?}");
    let (name, (_, bytes)) = grown[0];
    assert_eq!(place.root().join(name), place.log("b"));
    let (old, new) = (before[name].1.as_ref().unwrap(), bytes.as_ref().unwrap());
    let group = std::str::from_utf8(new.strip_prefix(old.as_slice()).unwrap()).unwrap();
    let kinds: Vec<_> = group.lines().map(|line| line[6..].split('"').next().unwrap()).collect();
    assert_eq!(kinds, ["entry", "entry", "run", "state", "commit"]);
}

/// Shows FI-2: a log has as many commit lines as there were commits.
#[tokio::test]
async fn there_is_a_commit_line_for_each_commit() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let refused = saying("b", "never").expecting(Expect::Absent);
    assert_eq!(commit(&store, refused).await.unwrap_err().kind(), ErrorKind::Conflict);
    for (id, count) in [("a", 6), ("b", 4)] {
        let text = fs::read_to_string(place.log(id)).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with(r#"{"t":"commit","#)).count(), count, "{id}");
    }
}

/// Shows FI-9: folders are 0700 and files 0600, except the files that the engine of the index makes.
#[tokio::test]
async fn folders_and_files_are_for_their_owner_only() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    store.close().await.unwrap();
    place.tear_and_reopen().await;
    let root = fs::metadata(place.root()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(root, 0o700);
    for (name, (mode, bytes)) in place.tree() {
        if name.starts_with("index/") {
            continue;
        }
        let expected = if bytes.is_none() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{name} has {mode:o}");
    }
    assert!(place.tree().keys().any(|name| name.starts_with("aside/")));
}

impl Place {
    /// Leaves a torn tail behind and lets an opening set it aside.
    async fn tear_and_reopen(&self) {
        fs::remove_file(self.root().join("lock")).unwrap();
        crate::folder::edit(&self.log("a"), |log| log.extend_from_slice(b"{\"t\":"));
        self.open().close().await.unwrap();
    }
}

/// Shows FI-9: a link in the place of a file or folder of the root is refused, and what it leads to stays as it was.
#[tokio::test]
async fn links_inside_of_the_root_are_refused() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    store.close().await.unwrap();
    let log = place.log("a").strip_prefix(place.root()).unwrap().to_str().unwrap().to_owned();
    let folder = log.rsplit_once('/').unwrap().0.to_owned();
    for name in ["agentstore.json", "lock", "root.log", "tenants", &folder, &log, "index"] {
        let place = place.copy();
        let (inside, outside) = (place.root().join(name), place.around.path().join("outside"));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let before = snapshot(&outside);
        let read = match place.try_open() {
            Ok(store) => answers(&store).await.map(drop).and(say(&store, "a", "x").await.map(drop)),
            Err(error) => Err(error),
        };
        let error = read.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{name}: {error}");
        assert_eq!(snapshot(&outside), before, "{name}");
    }
}

/// Shows FI-9: nor is one followed in the place of what a root can do without.
#[tokio::test]
async fn links_in_place_of_recreated_files_are_not_followed() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    store.close().await.unwrap();
    place.tear_and_reopen().await;
    for name in ["reserve", "aside"] {
        let place = place.copy();
        let (inside, outside) = (place.root().join(name), place.around.path().join("outside"));
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let before = snapshot(&outside);
        fs::remove_file(place.root().join("lock")).unwrap();
        crate::folder::edit(&place.log("a"), |log| log.extend_from_slice(b"{\"t\":"));
        if let Ok(store) = place.try_open() {
            let _ = say(&store, "b", "x").await.map(drop);
            drop(store);
        }
        assert_eq!(snapshot(&outside), before, "{name}");
    }
}

fn snapshot(path: &Path) -> (Option<Vec<u8>>, crate::folder::Tree) {
    if path.is_dir() { (None, tree(path)) } else { (Some(fs::read(path).unwrap()), crate::folder::Tree::new()) }
}

/// Shows FI-9: a link among the files of the index is no way out either; the index is made anew.
#[tokio::test]
async fn a_link_inside_of_the_index_is_not_followed() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    let outside = place.around.path().join("outside");
    fs::write(&outside, b"untouched").unwrap();
    symlink(&outside, place.root().join("index/planted")).unwrap();
    let store = place.open();
    assert!(store.opening().index_rebuilt);
    assert_eq!(answers(&store).await.unwrap(), expected);
    assert_eq!(fs::read(&outside).unwrap(), b"untouched");
}

/// Shows FI-9: the root itself may be a symbolic link, and is the same root by both names.
#[tokio::test]
async fn the_root_may_be_a_link() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let link = place.around.path().join("link");
    symlink(place.root(), &link).unwrap();
    let same = FileStore::open(&link, place.config()).unwrap();
    assert_eq!(answers(&same).await.unwrap(), answers(&store).await.unwrap());
    store.close().await.unwrap();
    let again = FileStore::open(&link, place.config()).unwrap();
    say(&again, "a", "by the link").await.unwrap();
    again.close().await.unwrap();
}

/// Lock, root log, journal and folders, and what the threads of the pool are at work with.
const IN_USE: usize = 24;

/// Shows FI-13: the number of open files does not grow with the number of threads, however durable they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_files_have_a_bound() {
    for durability in [Durability::Sync, Durability::None] {
        let place = Place::new();
        let store = FileStore::open(place.root(), place.config().with_durability(durability)).unwrap();
        let (mut most, before) = (0, open_files());
        for hundred in 0..20 {
            let ids: Vec<_> = (0..100).map(|number| format!("t-{hundred}-{number}")).collect();
            together(&store, &ids).await;
            most = most.max(open_files());
        }
        for number in 0..2_000 {
            let id = thread(&format!("t-{}-{}", number / 100, number % 100));
            let page = threads(&store).list_entries(&id, EntryQuery::all()).await.unwrap();
            assert_eq!(page.items.len(), 1);
        }
        most = most.max(open_files()) - before;
        println!("{most} open files of 2,000 threads with {durability:?}");
        assert!(most <= 256 + 512 + 64 + IN_USE, "{most} open files with {durability:?}");
        store.close().await.unwrap();
    }
}

/// Commits to many threads at once.
async fn together(store: &FileStore, ids: &[String]) {
    let commits: Arc<dyn CommitCoordinator> = commits(store);
    let tasks: Vec<_> = ids
        .iter()
        .map(|id| {
            let (commits, commit) = (Arc::clone(&commits), saying(id, "x"));
            tokio::spawn(async move { commits.commit(commit).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Ids that lead elsewhere where an id becomes a path or a pattern.
const HOSTILE: [&str; 22] = [
    ".",
    "..",
    "...",
    "/",
    "//",
    "\\",
    "../..",
    "../../x",
    "../root2",
    "/tmp/agentstore-hostile",
    "a/b",
    "~",
    "*",
    "$HOME",
    "%2e%2e%2f",
    "CON",
    "nul.txt",
    "-rf",
    "{\"id\":1}",
    " a",
    "é",
    "\u{202e}abc",
];

/// Shows ID-5: nothing outside of the root, and no name inside of it, comes from an id.
#[tokio::test]
async fn hostile_ids_reach_nothing_outside_of_the_root() {
    let place = Place::new();
    fs::write(place.around.path().join("neighbour"), b"untouched").unwrap();
    let store = place.open();
    let around = || tree(place.around.path()).into_iter().filter(|(name, _)| !name.starts_with("root"));
    let before: Vec<_> = around().collect();
    let longest = ["/".repeat(256), ".".repeat(256), "é".repeat(128)];
    for id in HOSTILE.into_iter().chain(longest.iter().map(String::as_str)) {
        use_everywhere(&store, id).await;
    }
    store.close().await.unwrap();
    assert_eq!(around().collect::<Vec<_>>(), before);
    assert!(!Path::new("/tmp/agentstore-hostile").exists());
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    let named = place.tree().into_keys().filter(|name| !name.starts_with("index"));
    for name in named {
        assert!(plain(&name) && !name.split('/').any(|part| part.starts_with('.')), "{name}");
    }
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    for id in HOSTILE {
        let stores = store.tenant(&TenantId::new(id).unwrap()).unwrap();
        assert!(stores.threads.unwrap().load_entry(&thread(id), &id.parse().unwrap()).await.unwrap().is_some(), "{id}");
        assert_eq!(stores.pending.unwrap().load_queue(&thread("queue")).await.unwrap().inputs.len(), 1, "{id}");
        let scope = Scope::Run(id.parse().unwrap());
        assert_eq!(stores.events.unwrap().load_scope(&scope).await.unwrap().appended, 1, "{id}");
        let row = OutboxFilter::default().of_lane(id.parse().unwrap());
        assert_eq!(stores.outbox.unwrap().count_outbox(&row).await.unwrap().claimed, 1, "{id}");
        assert_eq!(stores.mailbox.unwrap().load_epoch(&thread(id)).await.unwrap(), 1, "{id}");
    }
}

/// An id as that of a tenant, a thread, an entry, a run, an agent, a resource and a key, of everything in the outbox,
/// of events, of pending input and of the mailbox.
async fn use_everywhere(store: &FileStore, id: &str) {
    let stores = store.tenant(&TenantId::new(id).unwrap()).unwrap();
    let commits = stores.commits.unwrap();
    let mut commit = saying(id, id).with_key(id.parse().unwrap());
    commit.entries[0].id = Some(id.parse().unwrap());
    let mut fields = ThreadFields::default();
    fields.resource_id = Some(id.parse().unwrap());
    let run = RunChange::new(id.parse().unwrap(), RunStatus::Running).with_agent(id.parse().unwrap());
    let row = NewOutboxRow::new(id.parse().unwrap(), id.parse().unwrap(), Json::null());
    let row = row.with_dedupe_key(id.parse().unwrap()).with_order_key(id.parse().unwrap());
    commits.commit(commit.creating(fields).with_run(run).with_outbox([row])).await.map(drop).unwrap();
    let claim = ClaimOutbox::new(id.parse().unwrap(), id.parse().unwrap(), 1);
    assert_eq!(stores.outbox.unwrap().claim_outbox(claim).await.unwrap().rows.len(), 1, "{id}");
    let scopes = [Scope::Thread(thread(id)), Scope::Run(id.parse().unwrap())];
    let mut event = NewEvent::new(id.parse().unwrap(), scopes);
    (event.origin, event.causation_id) = (Some(id.parse().unwrap()), Some(id.parse().unwrap()));
    event.correlation_id = Some(id.parse().unwrap());
    let events = AppendEvents::new([event]).with_key(id.parse().unwrap(), id.parse().unwrap());
    stores.events.unwrap().append_events(events).await.unwrap();
    let input = NewInput::message(Message::user(id)).with_id(id.parse().unwrap());
    let input = input.with_delivery(Delivery::default().for_run(RunTarget::new(id.parse().unwrap())));
    stores.pending.unwrap().append_pending(AppendPending::new(thread("queue"), [input])).await.unwrap();
    use_in_mailbox(&*stores.mailbox.unwrap(), id).await;
}

/// An id as that of a dispatch, its thread and run, a dedupe key, a worker, an instance and a key of an interrupt.
async fn use_in_mailbox(mailbox: &dyn MailboxStore, id: &str) {
    let work = NewDispatch::new(thread(id), id.parse().unwrap()).with_id(id.parse().unwrap());
    mailbox.enqueue(vec![work.with_dedupe_key(id.parse().unwrap())]).await.unwrap().remove(0).unwrap();
    let claim = ClaimRequest::new(id.parse().unwrap(), Duration::from_secs(60)).of_dispatch(id.parse().unwrap());
    let held = mailbox.claim(claim).await.unwrap().claimed.remove(0);
    mailbox.start(&held.claim(), id.parse().unwrap()).await.unwrap();
    mailbox.interrupt(Interrupt::new(thread(id)).with_key(id.parse().unwrap())).await.unwrap();
}

/// Shows FI-16: deletions, lost parents and remembered ids stand in the root log; an index made anew agrees.
#[tokio::test]
async fn the_root_log_records_changes_of_several_threads() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    for (id, parent) in [("c", "a"), ("d", "c"), ("e", "b"), ("f", "e")] {
        let mut fields = ThreadFields::default();
        fields.parent_thread_id = Some(thread(parent));
        threads(&store).create_thread(NewThread::new(thread(id)).with_fields(fields)).await.unwrap();
    }
    let cascade = DeleteRequest { children: ChildStrategy::Cascade, ..DeleteRequest::default() };
    threads(&store).delete_thread(&thread("e"), cascade).await.unwrap();
    threads(&store).delete_thread(&thread("a"), DeleteRequest::default()).await.unwrap();
    store.delete_tenant(&TenantId::new("other").unwrap()).await.unwrap();
    let anew = |id: &str| saying(id, "once more").expecting(Expect::Absent);
    let again = commit(&store, anew("a")).await.unwrap();
    assert_eq!(again.generation(), 2);
    let expected = answers(&store).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(deletions(&place), [(vec!["e", "f"], vec![]), (vec!["a"], vec!["c"])].map(owned));
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    assert!(store.opening().index_rebuilt);
    assert_eq!(answers(&store).await.unwrap(), expected);
    assert_eq!(commit(&store, anew("e")).await.unwrap().generation(), 2);
}

type Deletions = (Vec<String>, Vec<String>);

fn owned((deleted, detached): (Vec<&str>, Vec<&str>)) -> Deletions {
    let owned = |ids: Vec<&str>| ids.into_iter().map(str::to_owned).collect();
    (owned(deleted), owned(detached))
}

/// The deletions of the root log: who is gone, and who lost a parent.
fn deletions(place: &Place) -> Vec<Deletions> {
    let text = fs::read_to_string(place.root().join("root.log")).unwrap();
    let facts = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ids = |named: &serde_json::Value| {
        let mut ids: Vec<_> =
            named.as_array().unwrap().iter().map(|one| one["thread"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    facts.filter(|fact| fact["t"] == "delete").map(|fact| (ids(&fact["deleted"]), ids(&fact["detached"]))).collect()
}
