//! Tests of the checker of histories: it rejects bad histories, accepts good ones, and agrees with another checker.

mod bad;
mod made;
mod oracle;

use conformance_tests::{
    Random,
    history::{GuardedLogs, Operation, Registers, check, from_lines, to_lines},
    seed,
};

use self::made::Object;

/// How many histories of each kind are checked.
const HISTORIES: usize = 10_000;

fn random() -> Random {
    let seed = seed("AGENTSTORE_HISTORY_SEED");
    println!("AGENTSTORE_HISTORY_SEED={seed}");
    Random::new(seed)
}

/// No correct history is rejected. The histories are random, with any number of operations, clients and lost answers.
#[test]
fn random_correct_histories_are_accepted() {
    let mut random = random();
    accept::<Registers>(&mut random);
    accept::<GuardedLogs>(&mut random);
}

fn accept<S: Object>(random: &mut Random) {
    let (mut operations, mut unknown) = (0, 0);
    for number in 0..HISTORIES {
        let (length, clients) = (1 + random.below(60), 1 + random.below(10));
        let history = made::correct::<S>(random, length, clients);
        match check(&S::default(), &history) {
            Ok(checked) => (operations, unknown) = (operations + checked.operations, unknown + checked.unknown),
            Err(violation) => panic!("history {number}: {violation}\n{history:#?}"),
        }
    }
    println!("{HISTORIES} histories of {operations} operations accepted, {unknown} of them without an answer");
    assert!(unknown > HISTORIES, "too few answers were lost");
}

/// Correct histories are changed by one or two mutations. Both checkers must give the same verdict on each.
#[test]
fn mutated_histories_get_the_same_verdict_from_another_checker() {
    let mut random = random();
    agree::<Registers>(&mut random);
    agree::<GuardedLogs>(&mut random);
}

fn agree<S: Object>(random: &mut Random) {
    let mut rejected = 0;
    for number in 0..HISTORIES {
        let (length, clients) = (2 + random.below(7), 2 + random.below(3));
        let mut history = made::correct::<S>(random, length, clients);
        for _ in 0..=random.below(2) {
            made::mutate::<S>(random, &mut history);
        }
        let (ours, theirs) = (check(&S::default(), &history).is_ok(), oracle::accepts::<S>(&history));
        assert_eq!(ours, theirs, "history {number}: {history:#?}");
        rejected += usize::from(!ours);
    }
    println!("both checkers agree on {HISTORIES} histories and rejected {rejected} of them");
    assert!(
        (HISTORIES / 10..HISTORIES * 9 / 10).contains(&rejected),
        "too few histories were accepted or rejected: {rejected} were rejected"
    );
}

/// A history can be written as lines, read and checked again.
#[test]
fn a_history_round_trips_as_lines() {
    let history = made::correct::<GuardedLogs>(&mut random(), 200, 8);
    let lines = to_lines(&history).unwrap();
    let again: Vec<Operation<_, _>> = from_lines(&lines).unwrap();
    assert_eq!((again, lines.lines().count()), (history, 200));
}
