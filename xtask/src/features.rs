//! CP-4: each feature of the library compiles alone, in a pair with any other feature, and together with all features.
//! A build without a feature has none of its drivers. Only the full run compiles pairs.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::test::cargo;

const LIBRARY: &str = "agentstore";

/// The features that add dependencies, each with the crates that no other feature adds.
const CRATES_OF_FEATURES: [(&str, &[&str]); 6] = [
    ("file", &["fjall"]),
    ("metrics", &["metrics"]),
    ("nats", &["async-nats"]),
    ("postgres", &["sqlx-core", "sqlx-postgres"]),
    ("sqlite-mailbox", &["rusqlite", "libsqlite3-sys"]),
    ("tls-aws-lc-rs", &["aws-lc-rs"]),
];

/// Compiles the library without features, with each feature, with all features and, if `checks_pairs` is set, with each
/// pair of features. Then checks the dependencies of the features.
pub(crate) fn run(root: &Path, checks_pairs: bool) -> Result<()> {
    let features = features(root)?;
    let single_features = features.iter().cloned();
    let pairs = features
        .iter()
        .enumerate()
        .flat_map(|(at, one)| features.iter().skip(at + 1).map(move |other| format!("{one},{other}")));
    let none_and_all = [String::new(), features.join(",")];
    for selection in none_and_all.into_iter().chain(single_features).chain(pairs.filter(|_| checks_pairs)) {
        let check = ["clippy", "--quiet", "--package", LIBRARY, "--no-default-features", "--features", &selection];
        cargo(root, "features", &[&check[..], &["--", "--deny", "warnings"]].concat())?;
    }
    let all_dependencies = dependencies(root, &features.join(","))?;
    for (feature, crates) in CRATES_OF_FEATURES {
        let other_features: Vec<_> = features.iter().filter(|other| *other != feature).map(String::as_str).collect();
        let dependencies_without = dependencies(root, &other_features.join(","))?;
        for name in crates {
            if !all_dependencies.iter().any(|found| found == name) {
                bail!("`{name}` is not a dependency of a build with all features: `{feature}` should bring it");
            }
            if dependencies_without.iter().any(|found| found == name) {
                bail!("`{name}` is a dependency of a build without the feature `{feature}`");
            }
        }
    }
    let pairs = if checks_pairs { ", in pairs" } else { "" };
    println!("{} features compile alone{pairs} and together; none has the drivers of another", features.len());
    Ok(())
}

/// Returns the names of the features of the library, except `default`.
fn features(root: &Path) -> Result<Vec<String>> {
    let metadata: Value =
        serde_json::from_str(&cargo_output(root, &["metadata", "--no-deps", "--format-version", "1"])?)?;
    let packages = metadata.get("packages").and_then(Value::as_array);
    let library = packages.into_iter().flatten().find(|package| package.get("name").is_some_and(|it| it == LIBRARY));
    let features = library.and_then(|library| library.get("features")?.as_object());
    let features = features.with_context(|| format!("cargo does not know the package `{LIBRARY}`"))?;
    Ok(features.keys().filter(|name| *name != "default").cloned().collect())
}

/// Returns the names of all packages that a build with these features depends on.
fn dependencies(root: &Path, features: &str) -> Result<Vec<String>> {
    let tree = [
        "tree",
        "--package",
        LIBRARY,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--no-default-features",
        "--features",
        features,
    ];
    let tree = cargo_output(root, &tree)?;
    Ok(tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}

fn cargo_output(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root).output();
    let output = output.with_context(|| format!("`cargo {}` cannot be started", args.join(" ")))?;
    if !output.status.success() {
        bail!("`cargo {}` failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
