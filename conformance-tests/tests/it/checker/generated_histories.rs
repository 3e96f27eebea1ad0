//! Generates random histories. They are correct, because each operation takes effect at one moment. Mutations may make
//! them wrong.

use conformance_tests::{
    Random,
    history::{
        GuardedLogs, LogAct, LogAnswer, LogOp, Operation, RegisterAct, RegisterAnswer, RegisterOp, Registers, Spec,
    },
};

/// A specification whose operations can also be executed.
pub(crate) trait ExecutableSpec: Spec<Op: Clone, Answer: Copy + PartialEq> + Default {
    /// Executes an operation. Returns its answer and the state after it.
    fn execute(state: &Self::State, op: &Self::Op) -> (Self::Answer, Self::State);

    /// Returns a random operation.
    fn random_operation(random: &mut Random) -> Self::Op;

    /// Returns a random answer.
    fn random_answer(random: &mut Random) -> Self::Answer;
}

impl ExecutableSpec for Registers {
    fn execute(state: &u8, op: &RegisterOp) -> (RegisterAnswer, u8) {
        Self::apply(*state, op.act)
    }

    fn random_operation(random: &mut Random) -> RegisterOp {
        let mut value = || u8::try_from(random.below(3)).unwrap();
        let act = match value() {
            0 => RegisterAct::Read,
            1 => RegisterAct::Write(value()),
            _ => RegisterAct::CompareAndSet(value(), value()),
        };
        RegisterOp { register: u8::from(random.once_in(4)), act }
    }

    fn random_answer(random: &mut Random) -> RegisterAnswer {
        match random.below(6) {
            0 => RegisterAnswer::Written,
            1 => RegisterAnswer::Set(false),
            2 => RegisterAnswer::Set(true),
            value => RegisterAnswer::Value(u8::try_from(value - 3).unwrap()),
        }
    }
}

impl ExecutableSpec for GuardedLogs {
    fn execute(state: &Vec<u64>, op: &LogOp) -> (LogAnswer, Vec<u64>) {
        let (answer, added) = Self::apply(state, op.act);
        (answer, state.iter().copied().chain(added).collect())
    }

    fn random_operation(random: &mut Random) -> LogOp {
        let mut number = |below| random.below(below) as u64;
        // There are so few commit numbers and versions that some commits are repeats and some guards hold.
        let act =
            if number(3) == 0 { LogAct::Read } else { LogAct::Commit { from: number(3), commit_number: number(5) } };
        LogOp { thread: format!("t-{}", number(4) / 3), act }
    }

    fn random_answer(random: &mut Random) -> LogAnswer {
        let mut number = || random.below(3) as u64;
        match number() {
            0 => LogAnswer::Seen { version: number(), head: Some(number()) },
            1 => LogAnswer::Committed { version: number(), deduplicated: number() == 0 },
            _ => LogAnswer::Conflict { actual: number() },
        }
    }
}

/// What a client is waiting for. A number is the index of an operation in the history.
enum ClientState<A> {
    /// Nothing.
    Idle,
    /// An operation that has not taken effect yet.
    Invoked(usize),
    /// The answer of an operation that has taken effect.
    Answered(usize, A),
}

/// Generates a history of `length` operations. Each takes effect at one moment between its invocation and its return.
/// An operation without an answer takes effect at any moment after its invocation, or never.
pub(crate) fn correct_history<S: ExecutableSpec>(
    random: &mut Random,
    length: usize,
    client_count: usize,
) -> Vec<Operation<S::Op, S::Answer>> {
    let mut history: Vec<Operation<S::Op, S::Answer>> = Vec::new();
    let mut states: Vec<(S::Key, S::State)> = Vec::new();
    let mut clients: Vec<_> = (0..client_count).map(|_| ClientState::Idle).collect();
    // Operations whose answer was lost, and which take effect later or never.
    let mut late_operations = Vec::new();
    let mut time = 0;
    while history.len() < length || clients.iter().any(|client| !matches!(client, ClientState::Idle)) {
        time += 1;
        if !late_operations.is_empty() && random.once_in(6) {
            let operation: usize = late_operations.swap_remove(random.below(late_operations.len()));
            apply_operation::<S>(&mut states, &history[operation].op);
        }
        let client = random.below(clients.len());
        clients[client] = match std::mem::replace(&mut clients[client], ClientState::Idle) {
            ClientState::Idle if history.len() == length => ClientState::Idle,
            ClientState::Idle => {
                history.push(Operation { op: S::random_operation(random), invoked: time, returned: None });
                ClientState::Invoked(history.len() - 1)
            }
            ClientState::Invoked(operation) if random.once_in(10) => {
                // The answer is lost. The operation takes effect later, now, or never.
                match random.below(3) {
                    0 => late_operations.push(operation),
                    1 => drop(apply_operation::<S>(&mut states, &history[operation].op)),
                    _ => {}
                }
                ClientState::Idle
            }
            ClientState::Invoked(operation) => {
                ClientState::Answered(operation, apply_operation::<S>(&mut states, &history[operation].op))
            }
            ClientState::Answered(operation, answer) => {
                history[operation].returned = Some((time, answer));
                ClientState::Idle
            }
        };
    }
    history
}

fn apply_operation<S: ExecutableSpec>(states: &mut Vec<(S::Key, S::State)>, op: &S::Op) -> S::Answer {
    let spec = S::default();
    let key = spec.key(op);
    let index = states.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        states.push((key, spec.initial()));
        states.len() - 1
    });
    let (answer, new_state) = S::execute(&states[index].1, op);
    states[index].1 = new_state;
    answer
}

/// Replaces an answer, exchanges two answers, removes one, or moves an invocation or a return to another time.
pub(crate) fn mutate<S: ExecutableSpec>(random: &mut Random, history: &mut [Operation<S::Op, S::Answer>]) {
    let index = random.below(history.len());
    match random.below(5) {
        0 => {
            if let Some((_, answer)) = &mut history[index].returned {
                *answer = S::random_answer(random);
            }
        }
        1 => {
            let other_index = random.below(history.len());
            if let (Some((_, answer)), Some((_, other_answer))) =
                (history[index].returned, history[other_index].returned)
            {
                history[index].returned = history[index].returned.map(|(time, _)| (time, other_answer));
                history[other_index].returned = history[other_index].returned.map(|(time, _)| (time, answer));
            }
        }
        2 => history[index].returned = None,
        _ => move_one_moment(random, history),
    }
}

/// Moves one invocation or return to a random position, and numbers all of them again. If an operation would then
/// return before its invocation, its two times are exchanged.
fn move_one_moment<O, A>(random: &mut Random, history: &mut [Operation<O, A>]) {
    let mut moments: Vec<&mut u64> = Vec::new();
    for operation in history.iter_mut() {
        moments.push(&mut operation.invoked);
        moments.extend(operation.returned.as_mut().map(|(time, _)| time));
    }
    moments.sort_unstable();
    let moment = moments.remove(random.below(moments.len()));
    moments.insert(random.below(moments.len() + 1), moment);
    (1..).zip(moments).for_each(|(time, moment)| *moment = time);
    for Operation { invoked, returned, .. } in history {
        if let Some((time, _)) = returned.as_mut().filter(|(time, _)| *time < *invoked) {
            std::mem::swap(time, invoked);
        }
    }
}
