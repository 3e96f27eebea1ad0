//! Decides whether a history is linearizable, by a search for an order of its operations that explains every answer.
//!
//! The algorithm is that of Wing and Gong, with the improvements of Lowe. It tries operations in the order of their
//! invocations. It abandons an order if an operation cannot be placed before its own return. It examines each
//! configuration (the set of operations that are placed, and the state that they lead to) only once.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::{self, Debug},
    hash::Hash,
};

use super::record::Operation;

/// The number of placements that the search tries for one object before it gives up.
const MAX_STEPS: u64 = 20_000_000;
/// The maximum number of lines that a violation shows. The first line is the state, the others are operations.
const MAX_VIOLATION_LINES: usize = 40;

/// Describes what an object does when its operations are executed one after another.
pub trait Spec {
    /// Identifies an object. Objects are independent of each other, and each is checked on its own.
    type Key: Ord + Clone + Debug;
    /// The state of an object between two operations.
    type State: Clone + Eq + Hash + Debug;
    /// An operation that can be called.
    type Op: Debug;
    /// What an operation can return.
    type Answer: Debug;

    /// Returns the object that an operation is for.
    fn key(&self, op: &Self::Op) -> Self::Key;

    /// Returns the state of a new object.
    fn initial(&self) -> Self::State;

    /// Returns the state after `op`, or `None` if `op` cannot return this answer in `state`.
    ///
    /// If `answer` is `None`, the outcome of `op` is unknown, and the result is the state after `op` has taken effect.
    /// If `op` has no effect in `state`, the result is `None` or the same state.
    fn state_after(&self, state: &Self::State, op: &Self::Op, answer: Option<&Self::Answer>) -> Option<Self::State>;

    /// Returns whether `op` never changes the state if it returns this answer. This is true of reads and of refused
    /// operations. The search places such an operation as early as possible, and tries no other position.
    fn has_no_effect(&self, op: &Self::Op, answer: &Self::Answer) -> bool;
}

/// The size of a history that was checked, and the cost of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckFigures {
    /// The number of objects.
    pub objects: usize,
    /// The number of operations on these objects.
    pub operations: usize,
    /// The number of operations whose outcome is unknown.
    pub unknown: usize,
    /// The number of placements that were tried.
    pub steps: u64,
}

/// Says for which object a check failed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The object.
    pub key: String,
    /// Why the search ended.
    pub reason: String,
    /// Lines that show how far the search got: the state after it had placed the most operations, and the operations
    /// that it then tried to place next.
    pub furthest_lines: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the history of {} is not linearizable: {}", self.key, self.reason)?;
        for line in &self.furthest_lines {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}

/// The operations on one object.
type Operations<'a, S> = Vec<&'a Operation<<S as Spec>::Op, <S as Spec>::Answer>>;

/// Checks that the operations on each object have an order that agrees with their times and explains their answers.
///
/// # Errors
/// Returns the first object for which there is no such order, or for which the search exceeds its limit.
pub fn check<S: Spec>(spec: &S, history: &[Operation<S::Op, S::Answer>]) -> Result<CheckFigures, Box<Violation>> {
    let mut objects: BTreeMap<S::Key, Operations<'_, S>> = BTreeMap::new();
    for operation in history {
        objects.entry(spec.key(&operation.op)).or_default().push(operation);
    }
    let unknown = history.iter().filter(|operation| operation.returned.is_none()).count();
    let mut checked = CheckFigures { objects: objects.len(), operations: history.len(), unknown, steps: 0 };
    for (key, operations) in objects {
        let mut search = Search::new(spec, operations);
        if let Err((reason, furthest_lines)) = search.run() {
            return Err(Box::new(Violation { key: format!("{key:?}"), reason, furthest_lines }));
        }
        checked.steps += search.steps;
    }
    Ok(checked)
}

/// The invocations and returns that are not placed yet, in the order of their times.
///
/// The invocation of an operation is the node `2 * operation`, and its return is the node `2 * operation + 1`. The
/// nodes form a ring of links in both directions. The ring also contains `head`, between the last node and the first
/// one. A placed operation is taken out of the ring and can be put back.
struct UnplacedOperations {
    next: Vec<usize>,
    previous: Vec<usize>,
    head: usize,
}

impl UnplacedOperations {
    fn new<O, A>(operations: &[&Operation<O, A>]) -> Self {
        let head = operations.len() * 2;
        let mut times = Vec::with_capacity(head);
        for (at, operation) in operations.iter().enumerate() {
            times.push((operation.invoked, at * 2));
            times.extend(operation.returned.as_ref().map(|(time, _)| (*time, at * 2 + 1)));
        }
        times.sort_unstable();
        let mut list = Self { next: vec![head; head + 1], previous: vec![head; head + 1], head };
        let mut last_node = head;
        for (_, node) in times {
            (list.next[last_node], list.previous[node]) = (node, last_node);
            last_node = node;
        }
        (list.next[last_node], list.previous[head]) = (head, last_node);
        list
    }

    fn first_node(&self) -> usize {
        self.next[self.head]
    }

    fn remove(&mut self, node: usize) {
        let (before, behind) = (self.previous[node], self.next[node]);
        (self.next[before], self.previous[behind]) = (behind, before);
    }

    /// Puts a node back at its former position. Nodes must be put back in the reverse order of their removal.
    fn put_back(&mut self, node: usize) {
        let (before, behind) = (self.previous[node], self.next[node]);
        (self.next[before], self.previous[behind]) = (node, node);
    }
}

/// One bit for each operation, which says whether it is placed.
type PlacedBits = Vec<u64>;

struct Search<'a, S: Spec> {
    spec: &'a S,
    operations: Operations<'a, S>,
    unplaced_operations: UnplacedOperations,
    state: S::State,
    placed_bits: PlacedBits,
    /// The operations in the order in which they are placed. Each is stored with the state before it, or with `None` if
    /// it has no effect (see [`Spec::has_no_effect`]).
    placements: Vec<(usize, Option<S::State>)>,
    /// Configurations that the search has examined without success. When it reaches one of them again, it backtracks.
    examined_configurations: HashSet<(PlacedBits, S::State)>,
    /// The number of operations that returned and are not placed yet.
    unplaced_returned: usize,
    steps: u64,
    /// The largest number of operations that were placed at a time, and the lines that describe this configuration.
    furthest_configuration: Option<(usize, Vec<String>)>,
}

impl<'a, S: Spec> Search<'a, S> {
    fn new(spec: &'a S, mut operations: Operations<'a, S>) -> Self {
        operations.sort_by_key(|operation| operation.invoked);
        let unplaced_returned = operations.iter().filter(|operation| operation.returned.is_some()).count();
        Self {
            spec,
            unplaced_operations: UnplacedOperations::new(&operations),
            state: spec.initial(),
            placed_bits: vec![0; operations.len().div_ceil(64)],
            placements: Vec::new(),
            examined_configurations: HashSet::new(),
            unplaced_returned,
            steps: 0,
            furthest_configuration: None,
            operations,
        }
    }

    fn run(&mut self) -> Result<(), (String, Vec<String>)> {
        let mut node = self.unplaced_operations.first_node();
        // An operation of unknown outcome need not be placed. The search succeeds when all others are placed.
        while self.unplaced_returned > 0 {
            if node.is_multiple_of(2) && node != self.unplaced_operations.head {
                node = if self.place(node / 2) {
                    self.unplaced_operations.first_node()
                } else {
                    self.unplaced_operations.next[node]
                };
                if self.steps > MAX_STEPS {
                    return Err((format!("undecided after {MAX_STEPS} steps"), Vec::new()));
                }
                continue;
            }
            // No operation that was invoked before this return can be placed next, and the remaining ones were invoked
            // after it. So the search has to change an earlier decision.
            self.remember_furthest(node);
            let Some(operation) = self.undo_last_change() else {
                let (placed_count, furthest_lines) = self.furthest_configuration.take().unwrap_or_default();
                let all = self.operations.len();
                return Err((
                    format!("only {placed_count} of {all} operations can be ordered; none of those below can be next"),
                    furthest_lines,
                ));
            };
            node = self.unplaced_operations.next[operation * 2];
        }
        Ok(())
    }

    /// Places an operation next. Returns false if the operation cannot be next, or if the search has already examined
    /// the configuration that results.
    fn place(&mut self, operation: usize) -> bool {
        self.steps += 1;
        let Operation { op, returned, .. } = self.operations[operation];
        let answer = returned.as_ref().map(|(_, answer)| answer);
        let Some(after) = self.spec.state_after(&self.state, op, answer) else { return false };
        // An operation without effect and without answer need not be placed here. It may still take effect later in
        // the order.
        if answer.is_none() && after == self.state {
            return false;
        }
        let has_no_effect = answer.is_some_and(|answer| self.spec.has_no_effect(op, answer));
        self.toggle_placed(operation);
        if !has_no_effect && !self.examined_configurations.insert((self.placed_bits.clone(), after.clone())) {
            self.toggle_placed(operation);
            return false;
        }
        self.placements.push((operation, (!has_no_effect).then(|| std::mem::replace(&mut self.state, after))));
        self.unplaced_operations.remove(operation * 2);
        if answer.is_some() {
            self.unplaced_operations.remove(operation * 2 + 1);
            self.unplaced_returned -= 1;
        }
        true
    }

    /// Removes the last placed operation that has an effect, and the operations that were placed after it. Returns the
    /// operation, or `None` if no placed operation has an effect.
    ///
    /// No other position is tried for an operation without effect. If an order is possible with this operation at a
    /// later position, an order is also possible with it at its present position.
    fn undo_last_change(&mut self) -> Option<usize> {
        loop {
            let (operation, before) = self.placements.pop()?;
            self.toggle_placed(operation);
            if self.operations[operation].returned.is_some() {
                self.unplaced_operations.put_back(operation * 2 + 1);
                self.unplaced_returned += 1;
            }
            self.unplaced_operations.put_back(operation * 2);
            if let Some(before) = before {
                self.state = before;
                return Some(operation);
            }
        }
    }

    fn toggle_placed(&mut self, operation: usize) {
        self.placed_bits[operation / 64] ^= 1 << (operation % 64);
    }

    /// Remembers the state and the operations that could come next, if more operations are placed than ever before. The
    /// operations that could come next are those before `end_node`.
    fn remember_furthest(&mut self, end_node: usize) {
        if self.furthest_configuration.as_ref().is_some_and(|(placed_count, _)| *placed_count >= self.placements.len())
        {
            return;
        }
        let mut furthest_lines = vec![format!("state {:?}", self.state)];
        let mut next_node = self.unplaced_operations.first_node();
        while next_node != end_node && furthest_lines.len() < MAX_VIOLATION_LINES {
            let Operation { op, invoked, returned } = self.operations[next_node / 2];
            furthest_lines.push(match returned {
                Some((time, answer)) => format!("{invoked}..{time} {op:?} -> {answer:?}"),
                None => format!("{invoked}.. {op:?} -> unknown"),
            });
            next_node = self.unplaced_operations.next[next_node];
        }
        self.furthest_configuration = Some((self.placements.len(), furthest_lines));
    }
}
