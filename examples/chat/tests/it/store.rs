//! Reads what the program has stored, after the program has ended.

use std::{fs, path::Path};

use agentstore::{
    BlockKind, EntryQuery, Message, OpenOptions, PartialAnswer, Run, RunQuery, RunStatus, Stores, TenantId, ThreadId,
};

/// How often the store is opened for reading. No program needs as long as all of that.
const MAX_OPENINGS: u32 = 3_000;

/// The thread of the program.
pub(crate) fn thread() -> ThreadId {
    ThreadId::new("chat").unwrap()
}

pub(crate) async fn open(folder: &Path) -> Stores {
    agentstore::open(&url(folder)).await.unwrap()
}

fn url(folder: &Path) -> String {
    format!("file:{}", folder.join("store").display())
}

/// Opens the store for reading beside the program, until the stream checkpoint of the last run is as it should be.
pub(crate) async fn wait_for_checkpoint(folder: &Path, is_expected: fn(&PartialAnswer) -> bool) {
    let (tenant, mut last_found) = (TenantId::default_tenant(), None);
    for _ in 0..MAX_OPENINGS {
        let stores = OpenOptions::new().read_only().open(&url(folder)).await.unwrap();
        let runs = stores.threads(&tenant).unwrap().list_runs(RunQuery::default()).await.unwrap().items;
        if let Some(run) = runs.last() {
            let checkpoints = stores.stream_checkpoints(&tenant).unwrap();
            last_found = checkpoints.load_stream_checkpoint(&thread(), &run.id).await.unwrap();
        }
        stores.close().await.unwrap();
        if last_found.as_ref().is_some_and(|found| is_expected(&found.answer)) {
            return;
        }
    }
    panic!("the checkpoint is {last_found:?}");
}

/// Returns a line for each message of the log: its role and its content.
pub(crate) async fn messages(folder: &Path) -> Vec<String> {
    let stores = open(folder).await;
    let threads = stores.threads(&TenantId::default_tenant()).unwrap();
    let page = threads.list_entries(&thread(), EntryQuery::all()).await.unwrap();
    assert!(page.next.is_none());
    let lines = page.items.iter().filter_map(|entry| entry.message().map(message_line)).collect();
    stores.close().await.unwrap();
    lines
}

fn message_line(message: &Message) -> String {
    let blocks = message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(text) if !text.is_empty() => Some(text.clone()),
        BlockKind::ToolUse(call) => Some(format!("{}{}", call.name, call.input)),
        BlockKind::ToolResult(result) => Some(format!("{:?}", result.blocks[0].kind)),
        _ => None,
    });
    format!("{}: {}", message.role, blocks.collect::<Vec<_>>().join(" "))
}

/// Returns the runs, oldest first.
pub(crate) async fn runs(folder: &Path) -> Vec<Run> {
    let stores = open(folder).await;
    let threads = stores.threads(&TenantId::default_tenant()).unwrap();
    let runs = threads.list_runs(RunQuery::default()).await.unwrap().items;
    stores.close().await.unwrap();
    runs
}

/// Returns how each run ended, oldest first.
pub(crate) async fn outcomes(folder: &Path) -> Vec<String> {
    let outcome = |run: Run| match run.status {
        RunStatus::Done(completion) => format!("{:?}", completion.outcome),
        status => status.to_string(),
    };
    runs(folder).await.into_iter().map(outcome).collect()
}

/// Checks that no file below a folder contains a text.
pub(crate) fn expect_absent(folder: &Path, text: &str) {
    let mut files = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "{}", path.display());
        }
    }
    assert!(files > 1, "the store has no files");
}
