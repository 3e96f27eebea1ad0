//! What is at the limits is kept, what is above is refused, and refusing takes little memory.

use conformance_tests::history::{OversizedArguments, check_text_sizes, run};
use test_servers::{Process, send_line};

/// Set for the child of the test below.
const TASK: &str = "AGENTSTORE_TEST_BOUNDS";

/// MT4. Shows ER-9 with the default limits.
#[test]
fn every_size_up_to_the_default_limits_is_kept() {
    run(check_text_sizes(crate::fixture()));
}

/// SEC5. Shows ER-9: a refusal takes at most 64 MiB, beside its argument. In a process of its own, whose memory nobody
/// else uses.
#[test]
fn a_refusal_takes_little_memory() {
    let said = Process::begin(&[], "bounds::a_child_refuses", &[(TASK, "1")]).end();
    println!("{}", said.join("\n"));
    assert_eq!(said.len(), 1, "the child did nothing");
}

/// The other side of the test above; started by hand it has nothing to do.
#[test]
fn a_child_refuses() {
    if std::env::var_os(TASK).is_none() {
        return;
    }
    let refused = async { Ok(OversizedArguments::default().run(crate::fixture()).await) };
    match run(refused) {
        Ok(figures) => send_line(figures),
        Err(failure) => {
            send_line(&failure);
            panic!("{failure}");
        }
    }
}
