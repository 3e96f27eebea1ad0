//! Which inputs are taken at a boundary of a run: a pure function over the queue (PI-15 to PI-21).

use super::{Boundary, Granularity, InputRef, PendingInput};
use crate::id::RunId;

/// Returns the inputs of `queue` that are to be consumed at `boundary` of `run`, in the order of the queue. There may
/// be none (PI-21).
///
/// `run` is the run that takes the inputs; at [`Boundary::NewRun`] it is the run that begins. `is_done` returns whether
/// a run is done. For an unknown run it returns false.
///
/// # Guarantees
/// - An input may be taken at its own boundary and at every weaker boundary. From the strongest to the weakest, the
///   order is `interrupt`, `next_step`, `on_natural_end`, `new_run` (PI-15). An input for `resume_input` may be taken
///   only at that boundary, and no other input may be taken there (PI-16).
/// - An input with a target may be taken by that run. Another run that begins may take it only if the target is done
///   and `fallback` is set (PI-17). A decision is taken only by its own run.
/// - An input that may not be taken is passed over (PI-18). No input behind a barrier is taken, and a barrier is taken
///   only if no input in front of it was passed over (PI-19).
/// - An input of granularity `one` is taken alone (PI-20).
///
/// ```
/// use store_core::{Boundary, PendingQueue, RunId, select_inputs};
///
/// let queue = PendingQueue::new(0, []);
/// assert!(select_inputs(&queue.inputs, Boundary::NewRun, &RunId::new("r-1")?, |_| false).is_empty());
/// # Ok::<(), store_core::Error>(())
/// ```
#[must_use]
pub fn select_inputs(
    queue: &[PendingInput],
    boundary: Boundary,
    run: &RunId,
    is_done: impl Fn(&RunId) -> bool,
) -> Vec<InputRef> {
    let (mut taken_inputs, mut has_passed_over) = (Vec::new(), false);
    for input in queue {
        let is_eligible = may_be_taken_at(input.delivery.boundary, boundary)
            && input.target().is_none_or(|(target, fallback)| {
                target == run || (boundary == Boundary::NewRun && fallback && is_done(target))
            });
        let is_alone = input.delivery.granularity == Granularity::One;
        if is_eligible && is_alone && !taken_inputs.is_empty() {
            break;
        }
        if is_eligible && !(input.delivery.barrier && has_passed_over) {
            taken_inputs.push(input.to_input_ref());
            if is_alone {
                break;
            }
        } else {
            has_passed_over = true;
        }
        if input.delivery.barrier {
            break;
        }
    }
    taken_inputs
}

/// Returns whether an input with the boundary `input_boundary` may be taken at `boundary`.
fn may_be_taken_at(input_boundary: Boundary, boundary: Boundary) -> bool {
    match (input_boundary, boundary) {
        (Boundary::ResumeInput, Boundary::ResumeInput) => true,
        (Boundary::ResumeInput, _) | (_, Boundary::ResumeInput) => false,
        (input_boundary, boundary) => input_boundary <= boundary,
    }
}

#[cfg(test)]
mod tests {
    use super::select_inputs;
    use crate::{
        Boundary::{self, Interrupt, NewRun, NextStep, OnNaturalEnd, ResumeInput},
        Decision, DecisionAction, Delivery, EntryId, Message, PendingInput, RunId, RunTarget, ThreadId, Timestamp,
        codec::Extra,
        pending::PendingBody,
    };

    fn run(text: &str) -> RunId {
        RunId::new(text).unwrap()
    }

    fn input(number: usize, body: PendingBody, delivery: Delivery) -> PendingInput {
        PendingInput {
            id: EntryId::new(format!("{number}")).unwrap(),
            thread: ThreadId::new("t").unwrap(),
            position: None,
            revision: 1,
            body,
            delivery,
            created_at: Timestamp::MIN,
            updated_at: Timestamp::MIN,
            extra: Extra::default(),
        }
    }

    fn queue(deliveries: impl IntoIterator<Item = Delivery>) -> Vec<PendingInput> {
        let message = || PendingBody::Message(Message::user("hi"));
        deliveries.into_iter().enumerate().map(|(number, delivery)| input(number, message(), delivery)).collect()
    }

    /// Returns the numbers of the inputs that run `r` takes. Run `finished` is done.
    fn taken_numbers(queue: &[PendingInput], boundary: Boundary) -> String {
        let taken_inputs = select_inputs(queue, boundary, &run("r"), |run| run.as_str() == "finished");
        taken_inputs.iter().map(|input| input.id.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn inputs_are_taken_at_their_boundary_and_at_weaker_ones() {
        let inputs = queue(Boundary::ALL.iter().map(|boundary| Delivery::at(*boundary)));
        let taken = Boundary::ALL.iter().map(|boundary| taken_numbers(&inputs, *boundary)).collect::<Vec<_>>();
        assert_eq!(taken, ["0", "0 1", "0 1 2", "0 1 2 3", "4"]);
    }

    #[test]
    fn a_targeted_input_goes_to_its_run_or_to_a_new_run() {
        let targets = [
            RunTarget::new(run("r")),
            RunTarget::new(run("finished")),
            RunTarget::without_fallback(run("finished")),
            RunTarget::new(run("x")),
        ];
        let inputs = queue(targets.map(|target| Delivery::at(NextStep).for_run(target)));
        assert_eq!(taken_numbers(&inputs, NextStep), "0");
        assert_eq!(taken_numbers(&inputs, NewRun), "0 1");
    }

    #[test]
    fn a_decision_is_taken_only_by_its_run() {
        let decision = |run_name| PendingBody::Decision(Decision::new(run(run_name), "k", DecisionAction::Resume));
        let inputs: Vec<_> = ["x", "r"]
            .into_iter()
            .enumerate()
            .map(|(number, run_name)| input(number, decision(run_name), Delivery::at(ResumeInput)))
            .collect();
        assert_eq!(taken_numbers(&inputs, ResumeInput), "1");
        assert_eq!(taken_numbers(&inputs, NewRun), "");
    }

    #[test]
    fn ineligible_input_blocks_nothing_unless_it_is_a_barrier() {
        let for_new_run = || Delivery::at(NewRun);
        let for_interrupt = || Delivery::at(Interrupt);
        for (deliveries, expected) in [
            (vec![for_new_run(), for_interrupt(), for_new_run(), for_interrupt()], "1 3"),
            (vec![for_interrupt(), for_new_run().as_barrier(), for_interrupt()], "0"),
            (vec![for_interrupt(), for_interrupt().as_barrier(), for_interrupt()], "0 1"),
            (vec![for_new_run(), for_interrupt().as_barrier(), for_interrupt()], ""),
            (vec![for_interrupt(), for_new_run(), for_interrupt().as_barrier(), for_interrupt()], "0"),
            (vec![for_interrupt().alone(), for_interrupt()], "0"),
            (vec![for_interrupt(), for_interrupt().alone(), for_interrupt()], "0"),
            (vec![for_new_run(), for_interrupt().alone(), for_interrupt()], "1"),
            (vec![for_new_run().alone(), for_interrupt()], "1"),
            (vec![for_interrupt(), for_new_run().alone(), for_interrupt()], "0 2"),
            (vec![for_new_run(), for_interrupt().alone().as_barrier(), for_interrupt()], ""),
            (vec![for_interrupt().alone().as_barrier(), for_interrupt()], "0"),
            (vec![], ""),
        ] {
            assert_eq!(taken_numbers(&queue(deliveries.clone()), OnNaturalEnd), expected, "{deliveries:?}");
        }
    }
}
