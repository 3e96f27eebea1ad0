//! Selection: which inputs of a stored queue a run takes at a boundary.

use store_core::{
    Boundary::{self, Interrupt, NewRun, NextStep, OnNaturalEnd, ResumeInput},
    Delivery, RunPhase, RunTarget, select_inputs,
};

use super::helpers::{ThreadQueue, input_with_delivery};
use crate::{
    Failure, Given, Verdict,
    check::expect_eq,
    given::id,
    log::writer::join,
    run::helpers::{done_run, running_run, write_run},
};

/// The ids of the inputs that the run `r` takes from a queue at a boundary.
async fn selected_ids(queue: &ThreadQueue<'_>, boundary: Boundary) -> Result<String, Failure> {
    let inputs = queue.load().await?.inputs;
    let mut finished_runs = Vec::new();
    for target in inputs.iter().filter_map(|input| input.delivery.target.as_ref()) {
        let run = queue.given.threads()?.load_run(&target.run).await?;
        finished_runs.extend(run.filter(|run| run.status.phase() == RunPhase::Done).map(|run| run.id));
    }
    let taken = select_inputs(&inputs, boundary, &id("r"), |run| finished_runs.contains(run));
    Ok(join(taken.iter().map(|input| input.id.as_str())))
}

/// Creates a queue with an input for each delivery. The ids of the inputs are `a`, `b`, `c` and so on.
async fn queue_with_deliveries<'a>(
    given: &'a Given,
    name: &str,
    deliveries: Vec<Delivery>,
) -> Result<ThreadQueue<'a>, Failure> {
    let queue = ThreadQueue::of(given, name);
    let names = ["a", "b", "c", "d", "e"];
    queue.append(names.iter().zip(deliveries).map(|(name, delivery)| input_with_delivery(name, delivery))).await?;
    Ok(queue)
}

/// An input is taken at its own boundary and at every weaker one. From the strongest to the weakest, these are
/// `interrupt`, `next_step`, `on_natural_end` and `new_run`. Inputs for `resume_input` are taken only at that boundary.
/// The taken inputs keep the order of the queue. Taking no input is allowed.
pub(super) async fn inputs_are_taken_at_their_boundary(given: &Given) -> Verdict {
    let boundaries = [NewRun, OnNaturalEnd, ResumeInput, NextStep, Interrupt];
    let queue = queue_with_deliveries(given, "t", boundaries.map(Delivery::at).to_vec()).await?;
    for (boundary, wanted) in
        [(Interrupt, "e"), (NextStep, "d e"), (OnNaturalEnd, "b d e"), (NewRun, "a b d e"), (ResumeInput, "c")]
    {
        expect_eq(selected_ids(&queue, boundary).await?, wanted).map_err(|failure| failure.about(boundary))?;
    }
    expect_eq(selected_ids(&ThreadQueue::of(given, "empty"), NewRun).await?, "")
}

/// An input whose target is a run is taken by that run. If the target has ended and the input allows it, a new run
/// takes the input. No other run takes it.
pub(super) async fn a_targeted_input_is_taken_by_its_run(given: &Given) -> Verdict {
    for run in [running_run("r"), running_run("busy"), done_run("ended")] {
        write_run(given, "t", run).await?;
    }
    let targets = [
        RunTarget::new(id("r")),
        RunTarget::new(id("busy")),
        RunTarget::new(id("ended")),
        RunTarget::without_fallback(id("ended")),
        RunTarget::new(id("unknown")),
    ];
    let deliveries = targets.map(|target| Delivery::at(NextStep).for_run(target)).to_vec();
    let queue = queue_with_deliveries(given, "t", deliveries).await?;
    expect_eq(selected_ids(&queue, NextStep).await?, "a")?;
    expect_eq(selected_ids(&queue, NewRun).await?, "a c")
}

/// An input that cannot be taken is skipped, and inputs behind it are taken. A barrier is an exception: no input behind
/// it is taken, and the barrier itself is taken only if no input in front of it was skipped.
pub(super) async fn nothing_behind_a_barrier_is_taken(given: &Given) -> Verdict {
    let (takeable, not_yet_takeable) = (|| Delivery::at(Interrupt), || Delivery::at(NewRun));
    for (at, (deliveries, wanted)) in [
        (vec![not_yet_takeable(), takeable(), not_yet_takeable(), takeable()], "b d"),
        (vec![takeable(), takeable().as_barrier(), takeable()], "a b"),
        (vec![takeable(), not_yet_takeable().as_barrier(), takeable()], "a"),
        (vec![not_yet_takeable(), takeable().as_barrier(), takeable()], ""),
        (vec![takeable(), not_yet_takeable(), takeable().as_barrier()], "a"),
    ]
    .into_iter()
    .enumerate()
    {
        let queue = queue_with_deliveries(given, &format!("t-{at}"), deliveries).await?;
        expect_eq(selected_ids(&queue, NextStep).await?, wanted).map_err(|failure| failure.about(at))?;
    }
    Ok(())
}

/// An input of granularity `one` is taken only if it is the first input that is taken, and then no other input is
/// taken. If another input was taken before it, no more inputs are taken.
pub(super) async fn an_input_of_granularity_one_is_taken_alone(given: &Given) -> Verdict {
    let (takeable, not_yet_takeable) = (|| Delivery::at(Interrupt), || Delivery::at(NewRun));
    for (at, (deliveries, wanted)) in [
        (vec![takeable().alone(), takeable()], "a"),
        (vec![takeable(), takeable().alone(), takeable()], "a"),
        (vec![not_yet_takeable(), takeable().alone(), takeable()], "b"),
        (vec![takeable(), not_yet_takeable().alone(), takeable()], "a c"),
    ]
    .into_iter()
    .enumerate()
    {
        let queue = queue_with_deliveries(given, &format!("t-{at}"), deliveries).await?;
        expect_eq(selected_ids(&queue, NextStep).await?, wanted).map_err(|failure| failure.about(at))?;
    }
    Ok(())
}
