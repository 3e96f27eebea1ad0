//! Whether a history is linearizable: a search for an order of its operations that explains every answer.
//!
//! The algorithm of Wing and Gong in the form that Lowe gave it: operations are tried in the order of their
//! invocations, an order is given up when an operation that returned cannot be placed before its return, and a
//! configuration (which operations are placed, and the state that they lead to) is looked at once.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::{self, Debug},
    hash::Hash,
};

use super::record::Operation;

/// How many placements are tried for one key before the search gives up.
const MOST_STEPS: u64 = 20_000_000;
/// How many operations a violation shows.
const SHOWN: usize = 40;

/// What an object does when its operations come one after the other.
pub trait Spec {
    /// Which object an operation is for. Objects have nothing to do with each other, and are checked one by one.
    type Key: Ord + Clone + Debug;
    /// What there is to know of an object between two operations.
    type State: Clone + Eq + Hash + Debug;
    /// What can be called.
    type Op: Debug;
    /// What it can return.
    type Answer: Debug;

    /// The object that an operation is for.
    fn key(&self, op: &Self::Op) -> Self::Key;

    /// An object as it is made.
    fn initial(&self) -> Self::State;

    /// The state after `op`, if it can give this answer in `state`; without an answer, the state that it leads to when
    /// it takes effect, or none if it has none there.
    fn step(&self, state: &Self::State, op: &Self::Op, answer: Option<&Self::Answer>) -> Option<Self::State>;

    /// Whether `op` never changes a state in which it gives this answer: a read, or a refusal. It is then placed as
    /// early as it fits, and no other place is tried.
    fn is_read(&self, op: &Self::Op, answer: &Self::Answer) -> bool;
}

/// What was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checked {
    /// So many objects.
    pub keys: usize,
    /// So many operations on them.
    pub operations: usize,
    /// Of these, so many without a known outcome.
    pub unknown: usize,
    /// So many placements were tried.
    pub steps: u64,
}

/// Why a history is not linearizable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The object.
    pub key: String,
    /// What the search ended with.
    pub why: String,
    /// The operations that were not placed where it came furthest, with those that could have come next.
    pub stuck: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the history of {} is not linearizable: {}", self.key, self.why)?;
        for operation in &self.stuck {
            writeln!(f, "  {operation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}

/// The operations on one object.
type Operations<'a, S> = Vec<&'a Operation<<S as Spec>::Op, <S as Spec>::Answer>>;

/// Wants the operations on each object to have an order that keeps to their times and explains their answers.
///
/// # Errors
/// The first object whose operations have none.
pub fn check<S: Spec>(spec: &S, history: &[Operation<S::Op, S::Answer>]) -> Result<Checked, Box<Violation>> {
    let mut objects: BTreeMap<S::Key, Operations<'_, S>> = BTreeMap::new();
    for operation in history {
        objects.entry(spec.key(&operation.op)).or_default().push(operation);
    }
    let unknown = history.iter().filter(|operation| operation.returned.is_none()).count();
    let mut checked = Checked { keys: objects.len(), operations: history.len(), unknown, steps: 0 };
    for (key, operations) in objects {
        let mut search = Search::new(spec, operations);
        if let Err((why, stuck)) = search.run() {
            return Err(Box::new(Violation { key: format!("{key:?}"), why, stuck }));
        }
        checked.steps += search.steps;
    }
    Ok(checked)
}

/// What is ahead of the search: invocations (`2 * operation`) and returns (the number behind it) in the order of their
/// times, as a list that closes at `head`. A placed operation is taken out and can be put back.
struct Ahead {
    next: Vec<usize>,
    previous: Vec<usize>,
    head: usize,
}

impl Ahead {
    fn new<O, A>(operations: &[&Operation<O, A>]) -> Self {
        let head = operations.len() * 2;
        let mut times = Vec::with_capacity(head);
        for (at, operation) in operations.iter().enumerate() {
            times.push((operation.invoked, at * 2));
            times.extend(operation.returned.as_ref().map(|(time, _)| (*time, at * 2 + 1)));
        }
        times.sort_unstable();
        let mut list = Self { next: vec![head; head + 1], previous: vec![head; head + 1], head };
        let mut last = head;
        for (_, node) in times {
            (list.next[last], list.previous[node]) = (node, last);
            last = node;
        }
        (list.next[last], list.previous[head]) = (head, last);
        list
    }

    fn first(&self) -> usize {
        self.next[self.head]
    }

    fn take(&mut self, node: usize) {
        let (before, behind) = (self.previous[node], self.next[node]);
        (self.next[before], self.previous[behind]) = (behind, before);
    }

    /// The reverse of the last `take` that was not put back.
    fn put_back(&mut self, node: usize) {
        let (before, behind) = (self.previous[node], self.next[node]);
        (self.next[before], self.previous[behind]) = (node, node);
    }
}

/// Which operations are placed: a bit for each.
type Placed = Vec<u64>;

struct Search<'a, S: Spec> {
    spec: &'a S,
    operations: Operations<'a, S>,
    ahead: Ahead,
    state: S::State,
    placed: Placed,
    /// The order so far, each operation with the state before it; reads without.
    order: Vec<(usize, Option<S::State>)>,
    /// Configurations that were looked at: coming to one again leads nowhere again.
    seen: HashSet<(Placed, S::State)>,
    /// How many operations that returned are not placed.
    open: usize,
    steps: u64,
    furthest: Option<(usize, Vec<String>)>,
}

impl<'a, S: Spec> Search<'a, S> {
    fn new(spec: &'a S, mut operations: Operations<'a, S>) -> Self {
        operations.sort_by_key(|operation| operation.invoked);
        let open = operations.iter().filter(|operation| operation.returned.is_some()).count();
        Self {
            spec,
            ahead: Ahead::new(&operations),
            state: spec.initial(),
            placed: vec![0; operations.len().div_ceil(64)],
            order: Vec::new(),
            seen: HashSet::new(),
            open,
            steps: 0,
            furthest: None,
            operations,
        }
    }

    fn run(&mut self) -> Result<(), (String, Vec<String>)> {
        let mut node = self.ahead.first();
        // Operations of unknown outcome need no place: done is when all others have one.
        while self.open > 0 {
            if node.is_multiple_of(2) && node != self.ahead.head {
                node = if self.place(node / 2) { self.ahead.first() } else { self.ahead.next[node] };
                if self.steps > MOST_STEPS {
                    return Err((format!("undecided after {MOST_STEPS} steps"), Vec::new()));
                }
                continue;
            }
            // Everything behind this return was invoked after it: something before it must be placed otherwise.
            self.remember_furthest(node);
            let Some(operation) = self.take_back() else {
                let (placed, stuck) = self.furthest.take().unwrap_or_default();
                let all = self.operations.len();
                return Err((format!("at most {placed} of {all} operations have an order, then one of"), stuck));
            };
            node = self.ahead.next[operation * 2];
        }
        Ok(())
    }

    /// Places an operation next, if it can come there and leads to something new.
    fn place(&mut self, operation: usize) -> bool {
        self.steps += 1;
        let Operation { op, returned, .. } = self.operations[operation];
        let answer = returned.as_ref().map(|(_, answer)| answer);
        let Some(after) = self.spec.step(&self.state, op, answer) else { return false };
        // Without an effect and without an answer it explains nothing, and may still have its effect later.
        if answer.is_none() && after == self.state {
            return false;
        }
        let is_read = answer.is_some_and(|answer| self.spec.is_read(op, answer));
        self.flip(operation);
        if !is_read && !self.seen.insert((self.placed.clone(), after.clone())) {
            self.flip(operation);
            return false;
        }
        self.order.push((operation, (!is_read).then(|| std::mem::replace(&mut self.state, after))));
        self.ahead.take(operation * 2);
        if answer.is_some() {
            self.ahead.take(operation * 2 + 1);
            self.open -= 1;
        }
        true
    }

    /// Takes back the last operation that is no read, and the reads behind it: these fitted, and later they could do no
    /// better.
    fn take_back(&mut self) -> Option<usize> {
        loop {
            let (operation, before) = self.order.pop()?;
            self.flip(operation);
            if self.operations[operation].returned.is_some() {
                self.ahead.put_back(operation * 2 + 1);
                self.open += 1;
            }
            self.ahead.put_back(operation * 2);
            if let Some(before) = before {
                self.state = before;
                return Some(operation);
            }
        }
    }

    fn flip(&mut self, operation: usize) {
        self.placed[operation / 64] ^= 1 << (operation % 64);
    }

    /// Keeps what the search looked like where it placed the most.
    fn remember_furthest(&mut self, node: usize) {
        if self.furthest.as_ref().is_some_and(|(placed, _)| *placed >= self.order.len()) {
            return;
        }
        let mut stuck = vec![format!("state {:?}", self.state)];
        let mut ahead = self.ahead.first();
        while ahead != node && stuck.len() < SHOWN {
            let Operation { op, invoked, returned } = self.operations[ahead / 2];
            stuck.push(match returned {
                Some((time, answer)) => format!("{invoked}..{time} {op:?} -> {answer:?}"),
                None => format!("{invoked}.. {op:?} -> unknown"),
            });
            ahead = self.ahead.next[ahead];
        }
        self.furthest = Some((self.order.len(), stuck));
    }
}
