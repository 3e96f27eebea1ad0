//! `cargo xtask tidy`: checks what no compiler checks.

mod crate_dependencies;
mod decisions;
mod layers;
mod phrases;
mod promises;
mod sources;
mod tables;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

/// A source file of the workspace.
pub(crate) struct Source {
    /// The path from the root, with `/` between the names.
    pub(crate) path: String,
    /// The text of the file.
    pub(crate) text: String,
}

/// Runs all checks and prints their findings.
pub(crate) fn run(root: &Path) -> Result<()> {
    let sources = load_sources(root)?;
    let mut findings = sources::check(&sources);
    findings.extend(crate_dependencies::check(root)?);
    findings.extend(decisions::check(root)?);
    findings.extend(layers::check(&sources));
    findings.extend(tables::check(root)?);
    findings.extend(phrases::check(root, &sources)?);
    let summary = promises::check(root, &sources, &mut findings)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    println!("{} source files, {summary}", sources.len());
    Ok(())
}

fn load_sources(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    collect_sources(root, root, &mut sources)?;
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn collect_sources(root: &Path, folder: &Path, sources: &mut Vec<Source>) -> Result<()> {
    let cannot_read = |path: &Path| format!("{} cannot be read", path.display());
    for entry in fs::read_dir(folder).with_context(|| cannot_read(folder))? {
        let path = entry.with_context(|| cannot_read(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && name != "fixtures" && !name.starts_with('.') {
                collect_sources(root, &path, sources)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| cannot_read(&path))?;
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            sources.push(Source { path, text });
        }
    }
    Ok(())
}
