//! Checks that each value of a thread is in the exported files, or listed as a loss.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;
use sessions::{ExportOptions, ExportTarget, Exported, Loss, export};
use store_core::{Body, CommitCoordinator, Entry, ThreadId};
use tempfile::tempdir;

use crate::{
    claude_code_export::thread_of_all_blocks,
    claude_code_random::random_thread,
    codex_exports::{every_kind_of_entry, thread_of},
    conversions::TARGETS,
    exports::thread_of_everything,
    helpers::{entries, format, new_store},
    pi_exports::thread_that_pi_cannot_represent,
};

/// Fields whose values have another form in each format: roles, ids of entries, times, and the types of messages and
/// blocks. Other tests check them.
const FIELDS_WITH_OTHER_FORMS: &[&str] = &[
    "role",
    "visibility",
    "target",
    "from",
    "to",
    "parentId",
    "timestamp",
    "type",
    "raw",
    "kind",
    "format",
    "firstKeptEntryIndex",
];

/// The texts and the numbers in JSON values. A text may itself be JSON: then the values in it are added, too.
#[derive(Debug, Default)]
struct Values {
    texts_and_numbers: BTreeSet<String>,
}

impl Values {
    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.texts_and_numbers.insert(text.trim().to_owned());
                if let Some((media_type, data)) = text.strip_prefix("data:").and_then(|url| url.split_once(";base64,"))
                {
                    self.texts_and_numbers.extend([media_type.to_owned(), data.to_owned()]);
                }
                if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
                    self.add(&inner);
                }
            }
            Value::Number(number) => {
                self.texts_and_numbers.insert(number.to_string());
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) => fields.values().for_each(|value| self.add(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Whether a text or a number is among the values. A text that is JSON also counts if all values in it are there.
    fn has(&self, value: &Value) -> bool {
        match value {
            Value::String(text) if self.texts_and_numbers.contains(text.trim()) => true,
            Value::String(text) => match serde_json::from_str(text) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => self.missing(&inner, String::new()).is_empty(),
                _ => text.trim().is_empty(),
            },
            Value::Number(number) => self.texts_and_numbers.contains(&number.to_string()),
            _ => true,
        }
    }

    /// The values of this JSON that are not here, each with its path.
    fn missing(&self, value: &Value, path: String) -> Vec<(String, Value)> {
        match value {
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.flat_map(|(at, item)| self.missing(item, format!("{path}/{at}"))).collect()
            }
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(name, _)| !FIELDS_WITH_OTHER_FORMS.contains(&name.as_str()));
                fields.flat_map(|(name, value)| self.missing(value, format!("{path}/{name}"))).collect()
            }
            _ if self.has(value) => Vec::new(),
            _ => vec![(path, value.clone())],
        }
    }
}

/// Every value in the lines of the files of a folder.
fn values_of_files(folder: &Path) -> Values {
    let mut values = Values::default();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for found in std::fs::read_dir(folder).unwrap() {
            let path = found.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            match serde_json::from_str(&text) {
                Ok(value) => values.add(&value),
                Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).for_each(|v| values.add(&v)),
            }
        }
    }
    values
}

/// Checks that each value of a thread and its child threads is in this folder after the export, or listed as a loss.
pub(crate) async fn check_values(
    commits: &dyn CommitCoordinator,
    thread: &ThreadId,
    (exported, folder): (&Exported, &Path),
    name: &str,
) {
    if exported.exact {
        return;
    }
    let mut values = values_of_files(folder);
    // The format itself implies the provider and the API of the messages of a model.
    let implied_values: &[&str] = match exported.format {
        "claude-code" => &["anthropic", "anthropic-messages"],
        "codex" => &["openai", "openai-responses"],
        _ => &[],
    };
    values.texts_and_numbers.extend(implied_values.iter().map(|value| (*value).to_owned()));
    let mut losses: BTreeMap<(Option<&str>, Option<&str>), Vec<&Loss>> = BTreeMap::new();
    for loss in &exported.losses {
        let key = (loss.thread.as_ref().map(ThreadId::as_str), loss.entry.as_ref().map(|entry| entry.as_str()));
        losses.entry(key).or_default().push(loss);
    }
    let mut threads = vec![thread.clone()];
    threads.extend(descendants(commits, thread).await);
    let mut unlisted = Vec::new();
    for found in &threads {
        // A loss names its thread only if this is a child thread.
        let key = Some(found).filter(|found| *found != thread).map(ThreadId::as_str);
        let thread_losses = losses.get(&(key, None)).map_or(&[][..], Vec::as_slice);
        if thread_losses.iter().any(|loss| loss.kind == "child_thread") {
            continue;
        }
        let stored_thread = commits.threads().load_thread(found).await.unwrap().unwrap();
        if let Some(title) = &stored_thread.title
            && !values.has(&Value::String(title.clone()))
            && thread_losses.iter().all(|loss| loss.kind != "title")
        {
            unlisted.push(format!("the title of {found}: {title}"));
        }
        for entry in entries(commits, found).await {
            let entry_losses = losses.get(&(key, Some(entry.id.as_str()))).map_or(&[][..], Vec::as_slice);
            unlisted.extend(unlisted_values(&entry, &values, (entry_losses, name_without_version(exported.format))));
        }
    }
    assert!(unlisted.is_empty(), "{name}: lost and not listed:\n{}", unlisted.join("\n"));
}

/// The values of an entry that are neither in the files nor listed as a loss.
fn unlisted_values(entry: &Entry, values: &Values, (losses, target): (&[&Loss], &str)) -> Vec<String> {
    let mut unlisted = Vec::new();
    let origin = entry.origin.as_ref();
    let describe =
        |path: &str, value: &Value| format!("{} of entry {} ({}): {value}", path, entry.id, entry.kind().name());
    let body = serde_json::to_value(&*entry.body).unwrap();
    let body = match &*entry.body {
        Body::Message(message) => serde_json::to_value(message).unwrap(),
        _ => body,
    };
    // If the raw line is of the target format, perhaps in another version, its values are compared below, and not those
    // of the body.
    let is_of_target_format =
        origin.is_some_and(|origin| name_without_version(&origin.format) == target && origin.raw.is_some());
    for (path, value) in if is_of_target_format { Vec::new() } else { values.missing(&body, String::new()) } {
        let is_listed = losses.iter().any(|loss| {
            let is_near = entry.message().is_none() || is_in_same_part(&path, &loss.path);
            // A text that was merged with others is a part of a longer text, and is not found alone.
            loss.path.is_empty() || loss.kind == "merged" || (loss.kind != "raw" && is_near)
        });
        if !is_listed {
            unlisted.push(describe(&path, &value));
        }
    }
    if let Some(raw) = origin.and_then(|origin| origin.raw.as_ref())
        && let Ok(line) = serde_json::from_slice::<Value>(raw)
        && let Some((path, value)) = values.missing(&line, String::new()).into_iter().next()
        && losses.is_empty()
    {
        unlisted.push(describe(&format!("the line's {path}"), &value));
    }
    unlisted
}

/// The name of a format without its version.
fn name_without_version(format: &str) -> &str {
    format.split_once("-v").map_or(format, |(name, _)| name)
}

/// Whether the path of a value and the path of a loss lead to the same block, or else to the same field of a message.
fn is_in_same_part(value_path: &str, loss_path: &str) -> bool {
    let begin = |path: &str| -> Vec<String> { path.split('/').skip(1).take(2).map(str::to_owned).collect() };
    let (value, loss) = (begin(value_path), begin(loss_path));
    let is_block = loss.first().is_some_and(|first| first == "blocks");
    if is_block { value.starts_with(&loss) } else { value.first() == loss.first() }
}

/// The child threads of a thread, their child threads, and so on.
async fn descendants(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<ThreadId> {
    let mut found = vec![thread.clone()];
    let mut at = 0;
    while at < found.len() {
        let mut filter = store_core::ThreadFilter::default();
        filter.parent = Some(store_core::ParentFilter::Of(found[at].clone()));
        let page = commits.threads().list_threads(store_core::ThreadQuery::new(filter)).await.unwrap();
        found.extend(page.items.into_iter().map(|thread| thread.id));
        at += 1;
    }
    found.split_off(1)
}

#[tokio::test]
async fn every_value_of_threads_that_were_not_imported_is_written_or_listed() {
    let commits = new_store();
    let threads = [
        thread_of_everything(&*commits).await,
        thread_of_all_blocks(&*commits).await,
        thread_that_pi_cannot_represent(&*commits).await,
        thread_of(&*commits, "kinds", every_kind_of_entry()).await,
    ];
    for thread in &threads {
        for target in TARGETS {
            let folder = tempdir().unwrap();
            let options = ExportOptions::new(format(target));
            let to = ExportTarget::Folder(folder.path());
            let exported = export(&*commits.threads(), thread, &options, to).await.unwrap();
            check_values(&*commits, thread, (&exported, folder.path()), &format!("{thread} as {target}")).await;
        }
    }
}

#[tokio::test]
async fn every_value_of_random_threads_is_written_or_listed() {
    for seed in 0..60 {
        let (commits, thread) = random_thread(seed).await;
        for target in TARGETS {
            let folder = tempdir().unwrap();
            let options = ExportOptions::new(format(target));
            let to = ExportTarget::Folder(folder.path());
            let exported = export(&*commits.threads(), &thread, &options, to).await.unwrap();
            check_values(&*commits, &thread, (&exported, folder.path()), &format!("{seed} as {target}")).await;
        }
    }
}
