//! What tests need of a machine. Where it is missing they are not run, and say so.

use std::{fmt::Display, io::Write as _, process::Command};

/// Says, past any capture, that something is not run.
pub fn not_run(what: &str, why: impl Display) {
    let line = format!("not run: {what}: {why:#}\n");
    let _said = std::io::stderr().write_all(line.as_bytes());
}

/// Whether `strace` can make syncs fail; if not, says that such a test is not run.
#[must_use]
pub fn can_fail_syncs() -> bool {
    let what = "a test with syncs that fail";
    match Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status() {
        Ok(done) if done.success() => return true,
        Ok(done) => not_run(what, format_args!("`strace` ends with {done}")),
        Err(error) => not_run(what, format_args!("there is no `strace`: {error}")),
    }
    false
}
