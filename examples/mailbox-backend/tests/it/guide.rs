//! Checks that the code that `docs/write-a-backend.md` quotes is in this crate.

use std::{fs, path::Path};

use conformance_tests::model::Bug;

/// The files that the guide quotes.
const QUOTED_FILES: &[&str] = &[
    "src/mailbox.rs",
    "src/data.rs",
    "src/documents.rs",
    "src/store.rs",
    "tests/it/conformance.rs",
    "tests/it/fixture.rs",
];

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn guide() -> String {
    read("../../docs/write-a-backend.md")
}

/// Returns the text without indentation, which differs between the guide and the code, and without empty lines.
fn without_indentation(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_guide_quotes_existing_code() {
    let (guide, files): (_, Vec<_>) =
        (guide(), QUOTED_FILES.iter().map(|file| without_indentation(&read(file))).collect());
    // Each odd fence begins a block. The first line of a block is the language that the fence names.
    let blocks: Vec<_> = guide.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n')).collect();
    let quotes: Vec<_> = blocks.iter().filter(|(kind, _)| *kind == "rust,ignore").collect();
    assert!(quotes.len() >= 5, "{} quotes", quotes.len());
    for (_, quote) in quotes {
        assert!(
            files.iter().any(|file| file.contains(&without_indentation(quote))),
            "none of {QUOTED_FILES:?} has this quote:\n{quote}"
        );
    }
}

#[test]
fn the_guide_names_bugs_with_the_cases_that_find_them() {
    let bugs: Vec<_> =
        Bug::ALL.iter().map(|bug| (format!("| `{bug:?}` |"), format!("| `{}` |", bug.finding_case()))).collect();
    let guide = guide();
    let rows: Vec<_> = guide.lines().filter(|line| line.starts_with("| ") && line.contains("::")).collect();
    assert!(rows.len() > 5, "{} rows", rows.len());
    for row in rows {
        assert!(bugs.iter().any(|(bug, case)| row.contains(bug) && row.contains(case)), "{row}");
    }
}
