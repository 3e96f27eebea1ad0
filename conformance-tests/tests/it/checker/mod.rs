//! Tests of the checker of histories: it rejects bad histories, accepts good ones, and agrees with another checker.

mod bad_histories;
mod generated_histories;
mod other_checker;

use conformance_tests::{
    Random,
    history::{GuardedLogs, Operation, Registers, check, from_json_lines, to_json_lines},
    seed_from_env,
};

use self::generated_histories::ExecutableSpec;

/// How many histories of each kind are checked.
const HISTORY_COUNT: usize = 10_000;

fn seeded_random() -> Random {
    let seed = seed_from_env("AGENTSTORE_HISTORY_SEED");
    println!("AGENTSTORE_HISTORY_SEED={seed}");
    Random::new(seed)
}

/// No correct history is rejected. The histories are random, with any number of operations, clients and lost answers.
#[test]
fn random_correct_histories_are_accepted() {
    let mut random = seeded_random();
    expect_accepted::<Registers>(&mut random);
    expect_accepted::<GuardedLogs>(&mut random);
}

fn expect_accepted<S: ExecutableSpec>(random: &mut Random) {
    let (mut operation_count, mut unknown_count) = (0, 0);
    for number in 0..HISTORY_COUNT {
        let (length, clients) = (1 + random.below(60), 1 + random.below(10));
        let history = generated_histories::correct_history::<S>(random, length, clients);
        match check(&S::default(), &history) {
            Ok(checked) => {
                operation_count += checked.operations;
                unknown_count += checked.unknown;
            }
            Err(violation) => panic!("history {number}: {violation}\n{history:#?}"),
        }
    }
    println!(
        "{HISTORY_COUNT} histories of {operation_count} operations accepted, {unknown_count} of them without an answer"
    );
    assert!(unknown_count > HISTORY_COUNT, "too few answers were lost");
}

/// Correct histories are changed by one or two mutations. Both checkers must give the same verdict on each.
#[test]
fn mutated_histories_get_the_same_verdict_from_another_checker() {
    let mut random = seeded_random();
    expect_same_verdicts::<Registers>(&mut random);
    expect_same_verdicts::<GuardedLogs>(&mut random);
}

fn expect_same_verdicts<S: ExecutableSpec>(random: &mut Random) {
    let mut rejected = 0;
    for number in 0..HISTORY_COUNT {
        let (length, clients) = (2 + random.below(7), 2 + random.below(3));
        let mut history = generated_histories::correct_history::<S>(random, length, clients);
        for _ in 0..=random.below(2) {
            generated_histories::mutate::<S>(random, &mut history);
        }
        let (is_accepted, other_accepts) =
            (check(&S::default(), &history).is_ok(), other_checker::accepts::<S>(&history));
        assert_eq!(is_accepted, other_accepts, "history {number}: {history:#?}");
        rejected += usize::from(!is_accepted);
    }
    println!("both checkers agree on {HISTORY_COUNT} histories and rejected {rejected} of them");
    assert!(
        (HISTORY_COUNT / 10..HISTORY_COUNT * 9 / 10).contains(&rejected),
        "too few histories were accepted or rejected: {rejected} were rejected"
    );
}

/// A history can be written as lines, read and checked again.
#[test]
fn a_history_round_trips_as_lines() {
    let history = generated_histories::correct_history::<GuardedLogs>(&mut seeded_random(), 200, 8);
    let lines = to_json_lines(&history).unwrap();
    let read_back: Vec<Operation<_, _>> = from_json_lines(&lines).unwrap();
    assert_eq!((read_back, lines.lines().count()), (history, 200));
}
