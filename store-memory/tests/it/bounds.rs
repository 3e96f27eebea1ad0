//! Records at the limits are kept, records above them are refused, and a refusal takes little memory.

use conformance_tests::history::{OversizedArguments, check_text_sizes, run};
use test_servers::{Process, send_line};

/// The environment variable that tells `a_child_refuses` that it runs in the child process.
const CHILD_VARIABLE: &str = "AGENTSTORE_TEST_BOUNDS";

/// MT4: tests ER-9 with the default limits of the contract.
#[test]
fn every_size_up_to_the_default_limits_is_kept() {
    run(check_text_sizes(crate::fixture()));
}

/// SEC5: tests ER-9. A refusal takes at most 64 MiB in addition to its argument. It runs in a process of its own, in
/// which no other test uses memory.
#[test]
fn a_refusal_takes_little_memory() {
    let printed_lines = Process::begin(&[], "bounds::a_child_refuses", &[(CHILD_VARIABLE, "1")]).end();
    println!("{}", printed_lines.join("\n"));
    assert_eq!(printed_lines.len(), 1, "the child process did not print one line");
}

/// The child process of `a_refusal_takes_little_memory`. Without the environment variable it does nothing.
#[test]
fn a_child_refuses() {
    if std::env::var_os(CHILD_VARIABLE).is_none() {
        return;
    }
    let refusals = async { Ok(OversizedArguments::default().run(crate::fixture()).await) };
    match run(refusals) {
        Ok(figures) => send_line(figures),
        Err(failure) => {
            send_line(&failure);
            panic!("{failure}");
        }
    }
}
