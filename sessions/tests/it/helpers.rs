//! Helpers of the tests: stores, files, and the entries of a thread.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;
use sessions::{ExportOptions, ExportTarget, FormatName, ImportOptions, ImportReport, IssueCode, Loss, export, import};
use sha2::{Digest, Sha256};
use store_core::{
    Block, BlockKind, Body, CommitCoordinator, Entry, EntryQuery, PageRequest, Store, TenantId, ThreadId,
};
use store_memory::{MemoryConfig, MemoryStore};

/// The folder with the session files of this project.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// An empty store.
pub(crate) fn new_store() -> Arc<dyn CommitCoordinator> {
    let store = MemoryStore::open(MemoryConfig::default()).unwrap();
    store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap()
}

/// Imports a path that has exactly one source.
pub(crate) async fn import_one(commits: &dyn CommitCoordinator, path: &Path) -> ImportReport {
    let mut reports = import_any(commits, path).await;
    assert_eq!(reports.len(), 1, "{}", path.display());
    reports.remove(0)
}

/// Imports a file or a folder.
pub(crate) async fn import_any(commits: &dyn CommitCoordinator, path: &Path) -> Vec<ImportReport> {
    import(commits, path, &ImportOptions::default()).await.unwrap()
}

/// Whether a source was refused because none of its lines is a message. A session that has just begun may have no
/// message yet.
pub(crate) fn has_no_message(report: &ImportReport) -> bool {
    let has_issue = report.count(IssueCode::NoMessage) > 0;
    assert!(!has_issue || report.thread.is_none() && report.has_no_conversation());
    has_issue
}

/// The format with this name.
pub(crate) fn format(name: &str) -> FormatName {
    name.parse().unwrap()
}

/// Writes a file with these bytes.
pub(crate) fn write_file(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Every entry of a thread.
pub(crate) async fn entries(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<Arc<Entry>> {
    list_all(commits, thread, EntryQuery::all()).await
}

/// The entries of the head's path.
pub(crate) async fn head_path(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<Arc<Entry>> {
    let head = commits.threads().load_thread(thread).await.unwrap().unwrap().head;
    match head {
        Some(head) => list_all(commits, thread, EntryQuery::path_of(head)).await,
        None => Vec::new(),
    }
}

async fn list_all(commits: &dyn CommitCoordinator, thread: &ThreadId, query: EntryQuery) -> Vec<Arc<Entry>> {
    let mut query = query.with_page(PageRequest::first(500));
    let mut found = Vec::new();
    loop {
        let page = commits.threads().list_entries(thread, query.clone()).await.unwrap();
        found.extend(page.items);
        let Some(next) = page.next else { return found };
        query.page = query.page.after(next);
    }
}

/// Exports a thread. Returns the bytes, and whether the export reports that they are equal to the imported bytes.
pub(crate) async fn export_bytes(
    commits: &dyn CommitCoordinator,
    thread: &ThreadId,
    format: FormatName,
) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let target = ExportTarget::Stream(&mut out);
    let report = export(&*commits.threads(), thread, &ExportOptions::new(format), target).await.unwrap();
    assert_eq!(report.bytes, out.len() as u64);
    (out, report.exact)
}

/// The number and the SHA-256 of the texts on a path, as the README of the fixtures defines them.
pub(crate) fn text_count_and_hash(path: &[Arc<Entry>]) -> (usize, String) {
    let mut pieces = Vec::new();
    for message in path.iter().filter_map(|entry| entry.message()) {
        let format = message.provenance.as_ref().and_then(|provenance| provenance.format.as_deref());
        if !matches!(
            format,
            Some("pi.bashExecution" | "pi.custom_message" | "pi.branch_summary" | "claude-code.attachment")
        ) {
            collect_texts(&message.blocks, &mut pieces);
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    let digest = Sha256::digest(pieces.join("\n").as_bytes());
    (pieces.len(), digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn collect_texts(blocks: &[Block], pieces: &mut Vec<String>) {
    for block in blocks {
        match &block.kind {
            BlockKind::Text(text) => pieces.push(text.clone()),
            BlockKind::ToolResult(result) => collect_texts(&result.blocks, pieces),
            _ => {}
        }
    }
}

/// The kind of a custom entry.
pub(crate) fn custom_kind(entry: &Entry) -> &str {
    match &*entry.body {
        Body::Custom(custom) => &custom.kind,
        _ => "",
    }
}

/// The entry that a loss is about; empty for a thread as a whole.
pub(crate) fn entry_of(loss: &Loss) -> &str {
    loss.entry.as_ref().map_or("", |entry| entry.as_str())
}

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A coordinator that fails after some commits, as if its process had been killed.
pub(crate) struct FailingCoordinator<'a> {
    inner: &'a dyn CommitCoordinator,
    remaining_commits: std::sync::atomic::AtomicI64,
}

impl<'a> FailingCoordinator<'a> {
    /// Creates a coordinator that fails after `commits` commits.
    pub(crate) fn after(inner: &'a dyn CommitCoordinator, commits: i64) -> Self {
        Self { inner, remaining_commits: commits.into() }
    }
}

#[async_trait::async_trait]
impl CommitCoordinator for FailingCoordinator<'_> {
    async fn commit(&self, commit: store_core::Commit) -> store_core::Result<store_core::Receipt> {
        if self.remaining_commits.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) <= 0 {
            return Err(store_core::Error::unavailable("it was killed"));
        }
        self.inner.commit(commit).await
    }

    fn threads(&self) -> Arc<dyn store_core::ThreadRunStore> {
        self.inner.threads()
    }

    fn pending(&self) -> Arc<dyn store_core::PendingStore> {
        self.inner.pending()
    }

    fn events(&self) -> Arc<dyn store_core::EventStore> {
        self.inner.events()
    }

    fn outbox(&self) -> Arc<dyn store_core::OutboxStore> {
        self.inner.outbox()
    }

    fn documents(&self) -> Option<Arc<dyn store_core::DocumentStore>> {
        self.inner.documents()
    }
}
