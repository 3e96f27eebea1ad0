//! Histories written by hand. Each contains one mistake that a broken store could make.

use conformance_tests::history::{
    GuardedLogs, LogAct, LogAnswer, LogOp, Operation, RegisterAct, RegisterAnswer, RegisterOp, Registers, check,
};

use self::RegisterAct::{CompareAndSet, Read, Write};

/// An operation, the time of its call, and the time and content of its answer, if there was one.
type Call<A, B> = (A, u64, Option<(u64, B)>);

fn accepts_registers(calls: &[Call<RegisterAct, RegisterAnswer>]) -> bool {
    let operation = |(act, invoked, returned): &Call<_, _>| Operation {
        op: RegisterOp { register: 1, act: *act },
        invoked: *invoked,
        returned: *returned,
    };
    check(&Registers, &calls.iter().map(operation).collect::<Vec<_>>()).is_ok()
}

fn accepts_logs(calls: &[Call<LogAct, LogAnswer>]) -> bool {
    let operation = |(act, invoked, returned): &Call<_, _>| Operation {
        op: LogOp { thread: "t".to_owned(), act: *act },
        invoked: *invoked,
        returned: *returned,
    };
    check(&GuardedLogs, &calls.iter().map(operation).collect::<Vec<_>>()).is_ok()
}

const fn value_answer(time: u64, value: u8) -> Option<(u64, RegisterAnswer)> {
    Some((time, RegisterAnswer::Value(value)))
}

const fn written_answer(time: u64) -> Option<(u64, RegisterAnswer)> {
    Some((time, RegisterAnswer::Written))
}

const fn comparison_answer(time: u64, is_set: bool) -> Option<(u64, RegisterAnswer)> {
    Some((time, RegisterAnswer::Set(is_set)))
}

/// Six histories of a register. Each is rejected, and accepted without its last call.
#[test]
fn bad_histories_of_a_register_are_rejected() {
    let bad_histories: [(&str, &[Call<RegisterAct, RegisterAnswer>]); 6] = [
        ("a read after a write does not see it", &[(Write(1), 1, written_answer(2)), (Read, 3, value_answer(4, 0))]),
        ("a value is read that was never written", &[(Write(1), 1, None), (Read, 2, value_answer(3, 2))]),
        ("a value is read before its write began", &[(Write(1), 5, written_answer(6)), (Read, 1, value_answer(4, 1))]),
        (
            "during one write, a read sees the new value and a later read the old one",
            &[(Write(1), 1, written_answer(9)), (Read, 2, value_answer(3, 1)), (Read, 4, value_answer(5, 0))],
        ),
        (
            "two comparisons with the same value succeed",
            &[
                (CompareAndSet(0, 1), 1, comparison_answer(4, true)),
                (CompareAndSet(0, 2), 2, comparison_answer(3, true)),
            ],
        ),
        (
            "a read sees a write of unknown outcome, and a later read does not",
            &[(Write(1), 1, None), (Read, 2, value_answer(3, 1)), (Read, 4, value_answer(5, 0))],
        ),
    ];
    for (mistake, calls) in bad_histories {
        assert!(!accepts_registers(calls), "{mistake}");
        assert!(accepts_registers(&calls[..calls.len() - 1]), "{mistake}, without its last call");
    }
}

const fn commit_act(from: u64, commit_number: u64) -> LogAct {
    LogAct::Commit { from, commit_number }
}

const fn committed_answer(time: u64, version: u64) -> Option<(u64, LogAnswer)> {
    Some((time, LogAnswer::Committed { version, deduplicated: false }))
}

const fn repeated_answer(time: u64, version: u64) -> Option<(u64, LogAnswer)> {
    Some((time, LogAnswer::Committed { version, deduplicated: true }))
}

const fn conflict_answer(time: u64, actual: u64) -> Option<(u64, LogAnswer)> {
    Some((time, LogAnswer::Conflict { actual }))
}

const fn read_answer(time: u64, version: u64, head: Option<u64>) -> Option<(u64, LogAnswer)> {
    Some((time, LogAnswer::Seen { version, head }))
}

/// Six histories of a log. Each is rejected, and accepted without its last call.
#[test]
fn bad_histories_of_a_log_are_rejected() {
    let bad_histories: [(&str, &[Call<LogAct, LogAnswer>]); 6] = [
        (
            "two commits make the same version",
            &[(commit_act(0, 7), 1, committed_answer(4, 1)), (commit_act(0, 8), 2, committed_answer(3, 1))],
        ),
        (
            "an acknowledged commit is missing",
            &[(commit_act(0, 7), 1, committed_answer(2, 1)), (LogAct::Read, 3, read_answer(4, 0, None))],
        ),
        (
            "a repeated commit is written again",
            &[
                (commit_act(0, 7), 1, committed_answer(2, 1)),
                (commit_act(1, 8), 3, committed_answer(4, 2)),
                (commit_act(2, 7), 5, committed_answer(6, 3)),
            ],
        ),
        (
            "a refused commit appears later",
            &[
                (commit_act(0, 7), 1, committed_answer(2, 1)),
                (commit_act(0, 8), 3, conflict_answer(4, 1)),
                (LogAct::Read, 5, read_answer(6, 2, Some(8))),
            ],
        ),
        (
            "a commit of unknown outcome has two effects",
            &[
                (commit_act(0, 7), 1, None),
                (commit_act(0, 7), 2, repeated_answer(3, 1)),
                (commit_act(1, 8), 4, committed_answer(5, 2)),
                (LogAct::Read, 6, read_answer(7, 3, Some(7))),
            ],
        ),
        (
            "a commit is refused although its guard holds",
            &[(commit_act(0, 7), 1, committed_answer(2, 1)), (commit_act(1, 8), 3, conflict_answer(4, 0))],
        ),
    ];
    for (mistake, calls) in bad_histories {
        assert!(!accepts_logs(calls), "{mistake}");
        assert!(accepts_logs(&calls[..calls.len() - 1]), "{mistake}, without its last call");
    }
}
