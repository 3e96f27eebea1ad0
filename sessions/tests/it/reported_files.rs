//! Tests with files that caused problems for users of other tools. `AGENTSTORE_CASES` names a folder with such files.
//! Without this variable, the tests look for it beside the repository. `repeated_imports` and `pi_cases` test the same
//! rules with files that they write themselves.

use std::path::{Path, PathBuf};

use sessions::{ImportOptions, ImportReport, IssueCode, import};
use store_core::Timestamp;
use tempfile::tempdir;

use crate::helpers::{export_bytes, format, import_one, new_store};

/// The folder of the reported files, if it exists.
pub(crate) fn cases_folder() -> Option<PathBuf> {
    let chosen = std::env::var_os("AGENTSTORE_CASES").map(PathBuf::from);
    let default_folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let folder = chosen.clone().unwrap_or(default_folder).join("import");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(chosen.is_none(), "AGENTSTORE_CASES: no folder {}", folder.display());
    println!("not run: reported files, as there is no folder {}", folder.display());
    None
}

/// The session files in a folder, without those in its subfolders.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.retain(|path| path.to_string_lossy().contains(".jsonl"));
    files.sort();
    files
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn codes(report: &ImportReport) -> String {
    let codes: Vec<_> = report.issue_counts.iter().map(|(code, count)| format!("{} {count}", code.name())).collect();
    codes.join(", ")
}

#[tokio::test]
async fn no_reported_file_gives_an_empty_thread() {
    let Some(root) = cases_folder() else { return };
    for path in files_in(&root) {
        let commits = new_store();
        let report = import_one(&*commits, &path).await;
        let name = name_of(&path);
        println!("{name}: {} messages; {}", report.messages, codes(&report));
        let Some(thread) = &report.thread else {
            assert!(!report.issues.is_empty(), "{name}");
            continue;
        };
        assert!(report.messages > 0, "{name}");
        let (bytes, exact) = export_bytes(&*commits, thread, format(report.format.unwrap())).await;
        assert!(exact && bytes == std::fs::read(&path).unwrap(), "{name}");
        let updated_at = commits.threads().load_thread(thread).await.unwrap().unwrap().updated_at;
        let newest = newest_line_time(&path);
        // The test cannot read the times of records in damaged lines.
        let is_damaged = report.count(IssueCode::MalformedLine) > 0;
        assert!(is_damaged || newest.is_none_or(|newest| newest == updated_at), "{name}: {newest:?}, {updated_at:?}");
    }
}

/// The newest time of a line of a pi file, if it is not in the future.
fn newest_line_time(path: &Path) -> Option<Timestamp> {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let times = lines.filter_map(|line| {
        let time: jiff::Timestamp = line["timestamp"].as_str()?.parse().ok()?;
        u64::try_from(time.as_millisecond()).ok()
    });
    let newest = times.max()?;
    let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap();
    (newest <= now).then(|| Timestamp::from_millis(newest).unwrap())
}

#[tokio::test]
async fn files_of_unsupported_tools_are_refused() {
    let Some(root) = cases_folder() else { return };
    for path in files_in(&root.join("foreign")) {
        let report = import_one(&*new_store(), &path).await;
        println!("foreign/{}: {}", name_of(&path), report.issues.first().map_or("", |issue| &issue.detail));
        let refusals = [IssueCode::UnknownFormat, IssueCode::UnsupportedFormat];
        assert!(!report.is_imported(), "{}", name_of(&path));
        assert!(refusals.iter().any(|code| report.count(*code) > 0), "{}: {}", name_of(&path), codes(&report));
    }
}

#[tokio::test]
async fn every_file_of_a_folder_with_a_damaged_one_has_a_report() {
    let Some(root) = cases_folder() else { return };
    let mixed_folder = root.join("mix");
    let reports = import(&*new_store(), &mixed_folder, &ImportOptions::default()).await.unwrap();
    assert_eq!(reports.len(), files_in(&mixed_folder).len());
    for report in &reports {
        println!("mix/{}: {} messages; {}", name_of(&report.file), report.messages, codes(report));
        assert_eq!(report.is_imported(), !name_of(&report.file).contains(".gz"), "{}", name_of(&report.file));
    }
}

#[tokio::test]
async fn a_migrated_file_is_reported_as_changed() {
    let Some(root) = cases_folder() else { return };
    let folder = tempdir().unwrap();
    let path = folder.path().join("mig.jsonl");
    let commits = new_store();
    std::fs::copy(root.join("mig-v1.jsonl"), &path).unwrap();
    let first = import_one(&*commits, &path).await;
    std::fs::copy(root.join("mig-v3.jsonl"), &path).unwrap();
    let second = import_one(&*commits, &path).await;
    assert_eq!((&second.thread, second.count(IssueCode::ChangedFile)), (&None, 1));
    println!("mig: {}", second.issues[0].detail);
    let replaced = import(&*commits, &path, &ImportOptions::default().replacing()).await.unwrap().remove(0);
    assert_eq!((replaced.thread, replaced.messages), (first.thread, 4));
}
