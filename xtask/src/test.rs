//! `cargo xtask test`: everything that must hold, step by step, stopping at the first that does not.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::tidy;

/// Runs all steps in the workspace at `root`.
pub(crate) fn run(root: &Path) -> Result<()> {
    cargo(root, "format", &["fmt", "--all", "--check"])?;
    cargo(root, "lints", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    println!("\n== tidy");
    tidy::run(root)?;
    if has_nextest(root) {
        cargo(root, "tests", &["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "slow"])?;
    } else {
        cargo(root, "tests", &["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--quiet"])?;
    }
    cargo(root, "doc tests", &["test", "--workspace", "--doc", "--quiet"])?;
    println!("\n== all steps passed");
    Ok(())
}

fn cargo(root: &Path, step: &str, args: &[&str]) -> Result<()> {
    println!("\n== {step}: cargo {}", args.join(" "));
    let status = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root)
        .status()
        .with_context(|| format!("`cargo {}` cannot be started", args.join(" ")))?;
    if !status.success() {
        bail!("the step `{step}` failed");
    }
    Ok(())
}

fn has_nextest(root: &Path) -> bool {
    let status = Command::new(env!("CARGO"))
        .args(["nextest", "--version"])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
