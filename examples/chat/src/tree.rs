//! The list of all entries of a thread, with its branches.

use std::collections::{HashMap, HashSet};

use agentstore::{Block, BlockKind, Entry, EntryQuery, LogReaderExt, ThreadId, ThreadRunStore};
use anyhow::Result;
use futures_util::TryStreamExt;

use crate::{terminal::print_line, tool};

/// Prints a line for each entry. Entries of the current branch have a `*`. If the parent of an entry is not the entry
/// of the previous line, the line says which entry is the parent.
pub(crate) async fn print(threads: &dyn ThreadRunStore, thread: &ThreadId) -> Result<()> {
    let head = threads.load_thread(thread).await?.and_then(|thread| thread.head);
    let mut branch = HashSet::new();
    if let Some(head) = head {
        let mut path = threads.stream_entries(thread, EntryQuery::path_of(head));
        while let Some(entry) = path.try_next().await? {
            branch.insert(entry.id.clone());
        }
    }
    let mut query = EntryQuery::all();
    query.side = Some(false);
    let mut entries = threads.stream_entries(thread, query);
    // The number of each entry that was printed, by its id. A later line may name the entry as a parent.
    let mut numbers = HashMap::new();
    let mut previous = None;
    while let Some(entry) = entries.try_next().await? {
        let mark = if branch.contains(&entry.id) { '*' } else { ' ' };
        let parent = entry.parent.as_ref().and_then(|id| numbers.get(id)).copied();
        let parent_note = match parent {
            _ if parent == previous => String::new(),
            Some(parent) => format!("  (after {parent})"),
            None => "  (a new beginning)".to_owned(),
        };
        print_line(&format!("{mark} {:>3} {:<9}  {}{parent_note}", entry.seq, role(&entry), text(&entry)))?;
        numbers.insert(entry.id.clone(), entry.seq);
        previous = Some(entry.seq);
    }
    Ok(())
}

fn role(entry: &Entry) -> &'static str {
    entry.message().map_or_else(|| entry.kind().name(), |message| message.role.name())
}

/// Returns the content of an entry as one line.
fn text(entry: &Entry) -> String {
    const MAX_CHARS: usize = 80;
    let blocks = entry.message().map_or(&[][..], |message| &message.blocks);
    let line = blocks.iter().filter_map(block_text).collect::<Vec<_>>().join(" ").replace('\n', " ");
    if line.chars().count() <= MAX_CHARS { line } else { line.chars().take(MAX_CHARS).chain(['…']).collect() }
}

fn block_text(block: &Block) -> Option<String> {
    match &block.kind {
        BlockKind::Text(text) => Some(text.clone()),
        BlockKind::ToolUse(call) => Some(format!("{}({})", call.name, call.input)),
        BlockKind::ToolResult(result) => Some(tool::text(result)),
        _ => None,
    }
}
