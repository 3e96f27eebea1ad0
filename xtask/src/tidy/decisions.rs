//! Checks that the numbers of the decisions are unique, and that each decision is short.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

const MAX_LINES: usize = 80;

pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let mut numbers = BTreeMap::new();
    let folder = root.join("docs/decisions");
    for entry in fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.split('-').next().unwrap_or_default().to_owned();
        if number.len() != 4 || number.parse::<u32>().is_err() {
            findings.push(format!("docs/decisions/{name}: the name does not begin with a number of four digits"));
        }
        if let Some(other) = numbers.insert(number, name.clone()) {
            findings.push(format!("docs/decisions/{name}: has the same number as {other}"));
        }
        let lines = fs::read_to_string(&path)?.lines().count();
        if lines > MAX_LINES {
            findings.push(format!("docs/decisions/{name}: {lines} lines (at most {MAX_LINES})"));
        }
    }
    Ok(findings)
}
