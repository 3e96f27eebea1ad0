//! Session files that other projects wrote. They are no part of this repository: `AGENTSTORE_FIXTURES` names a folder
//! whose `sessions` is laid out as `fixtures` is here, and without it they are looked for beside the repository.

use std::path::{Path, PathBuf};

use sessions::Code;

use crate::{
    expectations::{check_file, files},
    given::{imported, store},
    kimi::{check_session, folders},
};

/// Where they are, if they are there.
fn theirs() -> Option<PathBuf> {
    let named = std::env::var_os("AGENTSTORE_FIXTURES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    let folder = named.clone().unwrap_or(beside).join("sessions");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(named.is_none(), "AGENTSTORE_FIXTURES: no folder {}", folder.display());
    println!("not run: session files of other projects, as there is no folder {}", folder.display());
    None
}

/// The name of a file in the folder that they are in.
fn below<'a>(root: &Path, path: &'a Path) -> std::path::Display<'a> {
    path.strip_prefix(root).unwrap().display()
}

/// Refuses a file of a format that is not read, and leaves nothing of it.
async fn refuse(root: &Path, path: &Path) {
    let commits = store();
    let report = imported(&*commits, path).await;
    let codes: Vec<_> = report.issues.iter().map(|issue| issue.code).collect();
    let known = [Code::UnsupportedFormat, Code::UnknownFormat, Code::EmptyFile];
    assert!(!report.is_imported() && codes.iter().all(|code| known.contains(code)), "{}: {codes:?}", path.display());
    println!("{}: refused, {}", below(root, path), codes[0].name());
}

#[tokio::test]
async fn session_files_of_other_projects_have_the_facts_of_their_expectations() {
    let Some(root) = theirs() else { return };
    for path in files(&root) {
        match check_file(&path).await {
            Some(format) => println!("{}: {}, exported as the same bytes", below(&root, &path), format.name()),
            None => refuse(&root, &path).await,
        }
    }
    for folder in folders(&root) {
        check_session(&folder).await;
        println!("{}: a kimi-cli session", below(&root, &folder));
    }
    for folder in ["claude-code", "codex", "other"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "jsonl") {
                refuse(&root, &path).await;
            }
        }
    }
}
