//! What some tests need from the machine. If it is missing, such a test prints that it is not run, and succeeds.

use std::{fmt::Display, io::Write as _, process::Command};

/// Prints that a test is not run, and why. The test harness does not capture this line.
pub fn report_not_run(test: &str, reason: impl Display) {
    let line = format!("not run: {test}: {reason:#}\n");
    let _written = std::io::stderr().write_all(line.as_bytes());
}

/// Returns whether `strace` can make syncs fail. If it cannot, prints that the test is not run.
#[must_use]
pub fn can_fail_syncs() -> bool {
    let test = "a test with syncs that fail";
    match Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status() {
        Ok(status) if status.success() => return true,
        Ok(status) => report_not_run(test, format_args!("`strace` ended with {status}")),
        Err(error) => report_not_run(test, format_args!("`strace` cannot be started: {error}")),
    }
    false
}
