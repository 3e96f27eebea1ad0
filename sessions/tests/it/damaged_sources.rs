//! Tests of session folders in which a file was changed, and of compressed files that are damaged.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use proptest::{prelude::*, sample::Index};
use sessions::{ImportOptions, import};
use tempfile::tempdir;

use crate::{
    helpers::{export_bytes, fixtures, format, new_store, write_file},
    kimi_exports::check_exact,
    line_mutations::{File, mutation, run_cases},
};

/// Session folders of kimi-cli.
const FOLDERS: [&str; 4] = ["tool-calls", "rotated", "parallel-calls", "media"];

/// Copies a folder, and adds the paths of the copied `.jsonl` files to `line_files`.
fn copy_folder(from: &Path, to: &Path, line_files: &mut Vec<PathBuf>) {
    fs::create_dir_all(to).unwrap();
    let mut paths: Vec<_> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &copy, line_files);
            continue;
        }
        fs::copy(&path, &copy).unwrap();
        if copy.extension().is_some_and(|end| end == "jsonl") {
            line_files.push(copy);
        }
    }
}

#[test]
fn a_session_folder_with_a_changed_file_round_trips() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let strategy = (0..FOLDERS.len(), any::<Index>(), prop::collection::vec(mutation(), 1..3));
    run_cases(40, &strategy, |(folder_index, file_index, mutations)| {
        let root = tempdir().unwrap();
        let folder = root.path().join("session");
        let mut line_files = Vec::new();
        copy_folder(&fixtures().join("kimi-cli").join(FOLDERS[folder_index]), &folder, &mut line_files);
        let changed = &line_files[file_index.index(line_files.len())];
        let mut file = File::read(changed);
        mutations.iter().for_each(|mutation| file.apply(mutation));
        fs::write(changed, file.bytes()).unwrap();
        runtime.block_on(async {
            let commits = new_store();
            let options = ImportOptions::default();
            let reports = import(&*commits, &folder, &options).await.map_err(|e| e.to_string())?;
            let report_without_issue = reports.iter().find(|report| report.messages == 0 && report.issues.is_empty());
            if let Some(report) = report_without_issue {
                return Err(format!("no message and no issue: {report:?}"));
            }
            let Some(thread) = &reports[0].thread else { return Ok(()) };
            check_exact(&*commits, thread, &folder).await;
            let again = import(&*commits, &folder, &options).await.map_err(|e| e.to_string())?;
            if again.iter().any(|report| report.added > 0) {
                return Err(format!("imported twice: {again:?}"));
            }
            Ok(())
        })
    });
}

/// Flips this bit in a byte of a compressed file, or cuts the file off there if no bit is given.
fn damage(packed: &[u8], at: Index, bit: Option<u8>) -> Vec<u8> {
    let mut bytes = packed.to_vec();
    // The first four bytes say how the file is compressed. They are not changed.
    let at = 4 + at.index(packed.len() - 4);
    match bit {
        Some(bit) => bytes[at] ^= 1 << bit,
        None => bytes.truncate(at),
    }
    bytes
}

#[test]
fn a_damaged_compressed_file_is_read_whole_or_has_an_issue() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let plain: Vec<_> = ["pi/v3-tree", "codex/turns"]
        .map(|name| fs::read(fixtures().join(name).with_extension("jsonl")).unwrap())
        .into();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let packed: Vec<_> = plain.iter().flat_map(|bytes| [gzip(bytes), zstd::encode_all(&**bytes, 3).unwrap()]).collect();
    let strategy = (0..packed.len(), any::<Index>(), prop::option::of(0..8_u8));
    run_cases(60, &strategy, |(which, at, bit)| {
        let folder = tempdir().unwrap();
        // The import recognises the compression by the first bytes, not by the name.
        let path = write_file(folder.path(), "file.jsonl", damage(&packed[which], at, bit));
        runtime.block_on(async {
            let commits = new_store();
            let reports = import(&*commits, &path, &ImportOptions::default()).await.map_err(|e| e.to_string())?;
            let report = &reports[0];
            let content = match &report.thread {
                None => None,
                Some(thread) => Some(export_bytes(&*commits, thread, format(report.format.unwrap())).await.0),
            };
            let is_whole = content.as_deref() == Some(&*plain[which / 2]);
            if !is_whole && report.issues.is_empty() {
                return Err(format!("neither whole nor an issue: {report:?}"));
            }
            Ok(())
        })
    });
}
