//! Another checker, from the crate `stateright`. It is fast enough for small histories only.

use std::collections::BTreeMap;

use conformance_tests::history::Operation;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::generated_histories::ExecutableSpec;

/// All objects of a specification, as the other checker expects them.
struct AllObjects<S: ExecutableSpec>(BTreeMap<S::Key, S::State>);

impl<S: ExecutableSpec> Clone for AllObjects<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: ExecutableSpec> SequentialSpec for AllObjects<S> {
    type Op = S::Op;
    type Ret = S::Answer;

    fn invoke(&mut self, op: &S::Op) -> S::Answer {
        let spec = S::default();
        let state = self.0.entry(spec.key(op)).or_insert_with(|| spec.initial());
        let (answer, after) = S::execute(state, op);
        *state = after;
        answer
    }
}

/// Returns whether the other checker accepts a history.
pub(crate) fn accepts<S: ExecutableSpec>(history: &[Operation<S::Op, S::Answer>]) -> bool {
    let mut moments = Vec::new();
    for (at, operation) in history.iter().enumerate() {
        moments.push((operation.invoked, at, None));
        moments.extend(operation.returned.map(|(time, answer)| (time, at, Some(answer))));
    }
    moments.sort_by_key(|(time, ..)| *time);
    let mut tester = LinearizabilityTester::new(AllObjects::<S>(BTreeMap::new()));
    // The other checker allows each caller one operation at a time. A caller is reused after its operation has
    // returned.
    let (mut free_callers, mut caller_of_operation) = (Vec::new(), BTreeMap::new());
    for (_, at, answer) in moments {
        if let Some(answer) = answer {
            let caller = caller_of_operation.remove(&at).unwrap();
            tester.on_return(caller, answer).unwrap();
            free_callers.push(caller);
        } else {
            let caller = free_callers.pop().unwrap_or(at);
            tester.on_invoke(caller, history[at].op.clone()).unwrap();
            caller_of_operation.insert(at, caller);
        }
    }
    tester.is_consistent()
}
