//! Checks which crates of the workspace depend on which others.

use std::{fs, path::Path};

use anyhow::{Context, Result};

const BACKENDS: &[&str] = &["store-memory", "store-file", "store-postgres", "store-sqlite-mailbox", "store-nats"];

/// Returns the packages of the workspace that a package may depend on. Dev-dependencies are not checked.
fn allowed_dependencies(package: &str) -> Vec<&'static str> {
    match package {
        "store-core" => Vec::new(),
        "agentstore" => [BACKENDS, &["store-core"]].concat(),
        "benches" => [BACKENDS, &["agentstore", "store-core"]].concat(),
        "chat-example" => vec!["agentstore", "providers"],
        "cli" => vec!["agentstore", "sessions", "providers", "conformance-tests", "store-core"],
        // The session files of Codex contain items in the format of OpenAI Responses.
        "sessions" => vec!["providers", "store-core"],
        "soak" => vec!["agentstore", "conformance-tests"],
        "test-servers" => Vec::new(),
        "agent-server-example" | "payment-worker-example" | "replay-server-example" | "webhook-example" => {
            vec!["agentstore"]
        }
        "xtask" => vec!["conformance-tests", "store-core", "test-servers"],
        _ => vec!["store-core"],
    }
}

pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let examples = root.join("examples");
    let mut folders = vec![root.to_owned()];
    for entry in fs::read_dir(root)?.chain(fs::read_dir(&examples)?) {
        let path = entry?.path();
        if path.join("Cargo.toml").is_file() {
            folders.push(path);
        }
    }
    let names: Vec<String> = folders.iter().map(|folder| package_name(folder)).collect::<Result<_>>()?;
    for (folder, name) in folders.iter().zip(&names) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        let allowed_dependencies = allowed_dependencies(name);
        for dependency in dependency_names(&manifest) {
            if names.iter().any(|package| package == dependency) && !allowed_dependencies.contains(&dependency) {
                findings.push(format!("{name}: must not depend on {dependency}"));
            }
        }
        // The name of an example ends with `-example`, and that of its folder does not.
        let expected_name =
            if folder.starts_with(&examples) { name.strip_suffix("-example") } else { Some(name.as_str()) };
        if folder != root && folder.file_name().is_some_and(|folder| Some(&*folder.to_string_lossy()) != expected_name)
        {
            findings.push(format!("{name}: its folder has another name"));
        }
    }
    Ok(findings)
}

fn package_name(folder: &Path) -> Result<String> {
    let path = folder.join("Cargo.toml");
    let manifest = fs::read_to_string(&path)?;
    let section = manifest.split("[package]").nth(1).unwrap_or_default();
    let line = section.lines().find(|line| line.starts_with("name"));
    let name = line.and_then(|line| line.split('"').nth(1));
    name.map(str::to_owned).with_context(|| format!("{} does not name a package", path.display()))
}

/// Returns the names in `[dependencies]` of a manifest.
fn dependency_names(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[dependencies]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split(['.', '=', ' ']).next()).filter(|name| !name.is_empty()).collect()
}
