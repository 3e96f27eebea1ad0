//! Roots on a real disk: opened, written, copied, compared.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use store_core::{
    Commit, CommitCoordinator, ContextRequest, EntryQuery, Expect, ManualClock, Message, NewEntry, PageRequest, Result,
    RunChange, RunQuery, RunStatus, Store, TenantId, ThreadId, ThreadQuery, ThreadRunStore, Timestamp, Version,
    WaitingReason,
};
use store_file::{FileConfig, FileStore};

/// The root `root` in a folder of its own, and the clock of its stores.
pub(crate) struct Place {
    pub(crate) around: tempfile::TempDir,
    pub(crate) clock: ManualClock,
}

impl Place {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_763_700_000_000).unwrap());
        Self { around: tempfile::tempdir().unwrap(), clock }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.around.path().join("root")
    }

    pub(crate) fn config(&self) -> FileConfig {
        FileConfig::default().with_clock(Arc::new(self.clock.clone()))
    }

    pub(crate) fn try_open(&self) -> Result<FileStore> {
        FileStore::open(self.root(), self.config())
    }

    pub(crate) fn open(&self) -> FileStore {
        self.try_open().unwrap()
    }

    /// Another place with the root as it is on the disk now. Of an open one: as a killed process would leave it.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self { around: tempfile::tempdir().unwrap(), clock: self.clock.clone() };
        copy_tree(&self.root(), &copy.root());
        copy
    }

    pub(crate) fn tree(&self) -> Tree {
        tree(&self.root())
    }

    /// The log of a thread of the default tenant, below the root.
    pub(crate) fn log(&self, thread: &str) -> PathBuf {
        let start = format!("{thread}.");
        let mut found = self.logs();
        found.retain(|log| log.file_name().unwrap().to_str().unwrap().starts_with(&start));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    /// All logs of threads.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let files = self.tree().into_keys().map(|name| self.root().join(name));
        files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
    }
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What is below a folder: mode, and the bytes of files or where links lead.
pub(crate) type Tree = BTreeMap<String, (u32, Option<Vec<u8>>)>;

pub(crate) fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    walk(folder, "", &mut found);
    found
}

fn walk(folder: &Path, prefix: &str, found: &mut Tree) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_dir() {
            walk(&entry.path(), &format!("{name}/"), found);
        }
        let bytes = match metadata.file_type() {
            kind if kind.is_dir() => None,
            kind if kind.is_symlink() => Some(fs::read_link(entry.path()).unwrap().to_str().unwrap().into()),
            _ => Some(fs::read(entry.path()).unwrap()),
        };
        found.insert(name, (mode, bytes));
    }
}

/// Changes the bytes of a file.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

pub(crate) fn thread(id: &str) -> ThreadId {
    ThreadId::new(id).unwrap()
}

pub(crate) fn commits(store: &FileStore) -> Arc<dyn CommitCoordinator> {
    store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap()
}

pub(crate) fn threads(store: &FileStore) -> Arc<dyn ThreadRunStore> {
    commits(store).threads()
}

/// A commit of one message, under a key of its own.
pub(crate) fn saying(id: &str, text: &str) -> Commit {
    static KEYS: AtomicU64 = AtomicU64::new(1);
    let key = format!("key-{}", KEYS.fetch_add(1, Ordering::Relaxed));
    Commit::new(thread(id)).entry(NewEntry::new(Message::user(text))).with_key(key.parse().unwrap())
}

/// Commits, and says which version the thread has then.
pub(crate) async fn commit(store: &FileStore, commit: Commit) -> Result<Version> {
    commits(store).commit(commit).await.map(|receipt| receipt.version)
}

pub(crate) async fn say(store: &FileStore, id: &str, text: &str) -> Result<Version> {
    commit(store, saying(id, text)).await
}

/// Two threads with some commits each, and a run in the first one.
pub(crate) async fn fill(store: &FileStore) {
    let run = |status| RunChange::new("r-1".parse().unwrap(), status).with_agent("guide".parse().unwrap());
    let first = saying("a", "hello").expecting(Expect::Absent).with_run(run(RunStatus::Running));
    commit(store, first.with_key("k-1".parse().unwrap())).await.unwrap();
    for number in 0..4 {
        say(store, "a", &format!("a {number}")).await.unwrap();
        say(store, "b", &format!("b {number}")).await.unwrap();
    }
    let waiting = run(RunStatus::waiting(WaitingReason::UserInput));
    commit(store, saying("a", "done").with_run(waiting)).await.unwrap();
}

/// Everything that a store answers of the default tenant, as text.
pub(crate) async fn answers(store: &FileStore) -> Result<Vec<String>> {
    let threads = threads(store);
    let most = PageRequest::first(1000);
    let listed = threads.list_threads(ThreadQuery::default().with_page(most.clone())).await?.items;
    let mut all = vec![format!("{listed:#?}"), format!("{:?}", threads.list_runs(RunQuery::default()).await?.items)];
    for thread in &listed {
        all.push(format!("{:?}", threads.list_entries(&thread.id, EntryQuery::all().with_page(most.clone())).await?));
        all.push(format!("{:?}", threads.list_leaves(&thread.id, most.clone()).await?));
        all.push(format!("{:?}", threads.list_snapshots(&thread.id, most.clone()).await?));
        all.push(format!("{:?}", threads.load_context(&thread.id, ContextRequest::head()).await?));
    }
    Ok(all)
}
