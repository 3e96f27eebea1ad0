//! Tests with session files that other projects wrote. These files are not part of this repository.
//! `AGENTSTORE_FIXTURES` names a folder whose subfolder `sessions` has the layout of `fixtures`. Without this
//! variable, the tests look for the files beside the repository.

use std::path::{Path, PathBuf};

use sessions::IssueCode;

use crate::{
    claude_code::{check_session_file, session_files},
    codex_exports::check_continued,
    conversions::{TARGETS, check_conversion},
    expectations::{check_file, files_with_expectation},
    helpers::{import_one, new_store},
    kimi::{check_session, session_folders},
    kimi_exports::check_round_trip,
};

/// The folder of the session files of other projects, if it exists.
fn other_projects_folder() -> Option<PathBuf> {
    let chosen = std::env::var_os("AGENTSTORE_FIXTURES").map(PathBuf::from);
    let default_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    let folder = chosen.clone().unwrap_or(default_folder).join("sessions");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(chosen.is_none(), "AGENTSTORE_FIXTURES: no folder {}", folder.display());
    println!("not run: session files of other projects, as there is no folder {}", folder.display());
    None
}

/// The path of a file, relative to the folder `root`.
fn relative_path<'a>(root: &Path, path: &'a Path) -> std::path::Display<'a> {
    path.strip_prefix(root).unwrap().display()
}

/// Checks that the import refuses a file whose format it does not support.
async fn check_refused(root: &Path, path: &Path) {
    let commits = new_store();
    let report = import_one(&*commits, path).await;
    let codes: Vec<_> = report.issues.iter().map(|issue| issue.code).collect();
    let expected = [IssueCode::UnsupportedFormat, IssueCode::UnknownFormat, IssueCode::EmptyFile];
    assert!(!report.is_imported() && codes.iter().all(|code| expected.contains(code)), "{}: {codes:?}", path.display());
    println!("{}: refused, {}", relative_path(root, path), codes[0].name());
}

#[tokio::test]
async fn session_files_of_other_projects_match_their_expectations() {
    let Some(root) = other_projects_folder() else { return };
    for path in files_with_expectation(&root) {
        match check_file(&path).await {
            Some(format) => {
                println!("{}: {}, exported as the same bytes", relative_path(&root, &path), format.name());
                if format.name() == "codex" {
                    let _codes = check_continued(&path).await;
                }
            }
            None => check_refused(&root, &path).await,
        }
    }
    for folder in session_folders(&root) {
        check_session(&folder).await;
        check_round_trip(&folder).await;
        println!("{}: a kimi-cli session, exported as the same files", relative_path(&root, &folder));
    }
    for path in session_files(&root) {
        check_session_file(&path).await;
        println!("{}: claude-code, exported as the same bytes", relative_path(&root, &path));
    }
    for folder in ["other"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "jsonl") {
                check_refused(&root, &path).await;
            }
        }
    }
}

#[tokio::test]
async fn session_files_of_other_projects_can_be_continued_in_every_format() {
    let Some(root) = other_projects_folder() else { return };
    let mut sources = session_folders(&root);
    for folder in ["agent-core", "bad", "claude-code", "codex", "pi"] {
        let files = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        sources.extend(files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")));
    }
    sources.sort();
    for source in sources {
        let name = relative_path(&root, &source).to_string();
        let mut item_count = 0;
        let mut losses = Vec::new();
        for target in TARGETS {
            let Some((items, lost_items)) = check_conversion(&source, target).await else { break };
            item_count = items;
            losses.push(format!("{target} {lost_items}"));
        }
        println!("{name}: {item_count} texts, calls and results; listed as lost in {}", losses.join(", "));
    }
}
