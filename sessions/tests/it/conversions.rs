//! Tests that any session can be exported to any format, and that everything that is missing in the export is listed as
//! a loss (SE-6).
//!
//! Texts, calls and results in the context of the head are counted. Every value of every entry of the thread and its
//! child threads is searched for.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use sessions::{ExportOptions, ExportTarget, ImportOptions, export, import};
use store_core::{BlockKind, CommitCoordinator, ContextRequest, EntryId, Message, ThreadId};
use tempfile::tempdir;

use crate::{
    exported_values::check_values,
    helpers::{fixtures, format, has_no_message, new_store},
};

/// The formats that any thread can be exported to.
pub(crate) const TARGETS: &[&str] = &["agent-core", "claude-code", "codex", "kimi-cli", "pi-v3", "pi-v4"];

/// A text, a call or a result of a context, without details that differ between formats.
type Fact = String;

fn facts_of(message: &Message) -> Vec<Fact> {
    let mut facts = Vec::new();
    for block in &message.blocks {
        match &block.kind {
            BlockKind::Text(text) if !text.trim().is_empty() => facts.push(format!("text {}", text.trim())),
            BlockKind::ToolUse(call) => {
                facts.push(format!("call {} {}", call.name, without_spaces(call.input.as_str())))
            }
            BlockKind::ToolResult(result) => {
                for inner in &result.blocks {
                    if let BlockKind::Text(text) = &inner.kind
                        && !text.trim().is_empty()
                    {
                        facts.push(format!("result {}", text.trim()));
                    }
                }
            }
            _ => {}
        }
    }
    facts
}

/// The same JSON without the white space between its parts, and with its keys sorted.
fn without_spaces(json: &str) -> String {
    serde_json::from_str::<serde_json::Value>(json).map_or_else(|_| json.to_owned(), |value| value.to_string())
}

/// The facts of the context of a thread, each with the entry that it comes from. Messages that the context makes, such
/// as those of a compaction, are left out unless `with_synthetic` is set.
async fn facts(commits: &dyn CommitCoordinator, thread: &ThreadId, with_synthetic: bool) -> Vec<(EntryId, Fact)> {
    let context = commits.threads().load_context(thread, ContextRequest::head()).await.unwrap().context;
    let messages = context.messages.iter().filter(|message| with_synthetic || !message.synthetic);
    messages.flat_map(|found| facts_of(&found.message).into_iter().map(|fact| (found.entry.clone(), fact))).collect()
}

/// Exports the first thread of a source to a format, imports the export, and checks that every missing fact was
/// listed as a loss. Returns the number of facts, and how many of them were listed.
pub(crate) async fn check_conversion(source: &Path, target: &str) -> Option<(usize, usize)> {
    let commits = new_store();
    let reports = import(&*commits, source, &ImportOptions::default()).await.unwrap();
    let thread = reports.first()?.thread.clone()?;
    let before = facts(&*commits, &thread, false).await;
    let folder = tempdir().unwrap();
    let options = ExportOptions::new(format(target));
    let exported = export(&*commits.threads(), &thread, &options, ExportTarget::Folder(folder.path())).await.unwrap();
    check_values(&*commits, &thread, (&exported, folder.path()), &format!("{} as {target}", source.display())).await;
    // A loss of the kind `raw` is about other fields of a line, and not about its message.
    let losses = exported.losses.iter().filter(|loss| loss.thread.is_none() && loss.kind != "raw");
    let entries_with_losses: BTreeSet<_> = losses.filter_map(|loss| loss.entry.clone()).collect();
    let again = new_store();
    let options = ImportOptions::default().with_format(format(target));
    let path = if target == "kimi-cli" { folder.path() } else { exported.files.first()? };
    let reports = import(&*again, path, &options).await.unwrap();
    let name = format!("{} as {target}", source.display());
    if before.is_empty() && has_no_message(&reports[0]) {
        return Some((0, 0));
    }
    assert!(reports[0].is_imported(), "{name}: the export cannot be read: {:?}", reports[0].issues);
    let copy = reports[0].thread.clone()?;
    let mut copied_facts: BTreeMap<Fact, usize> = BTreeMap::new();
    for (_, fact) in facts(&*again, &copy, true).await {
        *copied_facts.entry(fact).or_default() += 1;
    }
    let mut listed_facts = 0;
    for (entry, fact) in &before {
        match copied_facts.get_mut(fact).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => {
                assert!(
                    entries_with_losses.contains(entry),
                    "{name}: lost and not listed, of entry {entry}: {fact}\nfound: {copied_facts:#?}"
                );
                listed_facts += 1;
            }
        }
    }
    Some((before.len(), listed_facts))
}

#[tokio::test]
async fn every_session_can_be_continued_in_every_format() {
    for source in [
        "agent-core/branches.jsonl",
        "agent-core/linear-tools.jsonl",
        "agent-core/open-calls.jsonl",
        "claude-code/fork.jsonl",
        "claude-code/parallel-calls.jsonl",
        "claude-code/compacted.jsonl",
        "claude-code/sidechain.jsonl",
        "claude-code/subagents/5e550000-0000-4000-8000-000000000003.jsonl",
        "codex/rollout.jsonl",
        "codex/turns.jsonl",
        "codex/compacted.jsonl",
        "codex/rolled-back.jsonl",
        "kimi-cli/rotated",
        "kimi-cli/parallel-calls",
        "kimi-cli/media",
        "pi/v1-turns.jsonl",
        "pi/v2-branches.jsonl",
        "pi/v3-tree.jsonl",
        "pi/v4-lanes.jsonl",
    ] {
        for target in TARGETS {
            let (facts, _) = check_conversion(&fixtures().join(source), target).await.unwrap();
            // After the rollback of every turn, the context is empty.
            assert!(facts > 0 || source == "codex/rolled-back.jsonl", "{source}");
        }
    }
}
