//! Putting and loading checkpoints.

use std::sync::Arc;

use store_core::{
    CallInFlight, ClaimNumber, ClaimToken, Commit, ContextRequest, ErrorKind, Fence, PartialAnswer,
    PutStreamCheckpoint, Recovery, StreamCheckpointOutcome, ToolUse, stream_checkpoint_removal,
};

use super::helpers::{answer, checkpoints, expect_sequence, load, put, put_stored, request, start_runs};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, keyed_commit_with_message, run_concurrently},
    log::entry_drafts::json,
};

/// An answer with everything that an answer can have.
fn full_answer() -> PartialAnswer {
    PartialAnswer::new(7)
        .by_model("model")
        .with_text("The \"capital\"\n\u{0}of é🦀")
        .with_finished_call(ToolUse::new("c1", "search", json(r#"{"q":1.50}"#)))
        .with_finished_call(ToolUse::new("c2", "search", json("null")))
        .with_call_in_flight(CallInFlight::new("c3", "write").with_arguments(r#"{"path":"a\"#))
}

/// A checkpoint is loaded with everything that was put, and with store time. Another put replaces it.
pub(super) async fn a_checkpoint_is_loaded_as_it_was_put(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    let store = checkpoints(given)?;
    let full = PutStreamCheckpoint::new(id("t"), id("r"), 3, full_answer());
    expect_eq(store.put_stream_checkpoint(full).await?, StreamCheckpointOutcome::Stored)?;
    let loaded = expect_some(load(given, "r").await?, "checkpoint")?;
    expect_eq((&loaded.thread, &loaded.run, loaded.sequence), (&id("t"), &id("r"), 3))?;
    expect_eq(loaded.answer, full_answer())?;
    let run = expect_some(given.threads()?.load_run(&id("r")).await?, "run")?;
    expect(loaded.updated_at >= run.created_at, "the checkpoint is older than its run")?;
    put_stored(given, "r", 4).await?;
    expect_eq(load(given, "r").await?.map(|loaded| loaded.answer), Some(answer("4")))
}

/// A run without a checkpoint has none, whatever other runs and threads have.
pub(super) async fn an_unknown_checkpoint_is_none(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    expect_eq(load(given, "r").await?, None)?;
    put_stored(given, "r", 1).await?;
    expect_eq(load(given, "other").await?, None)?;
    expect_eq(checkpoints(given)?.load_stream_checkpoint(&id("u"), &id("r")).await?, None)
}

/// Each run has one checkpoint of its own.
pub(super) async fn each_run_has_one_checkpoint(given: &Given) -> Verdict {
    start_runs(given, &["a", "b"]).await?;
    for (run, sequence) in [("a", 1), ("b", 2), ("a", 3), ("b", 4)] {
        put_stored(given, run, sequence).await?;
    }
    expect_sequence(given, "a", Some(3)).await?;
    expect_sequence(given, "b", Some(4)).await?;
    expect_eq(super::helpers::document_counts(given).await?, (2, 2))
}

/// Checkpoints survive a reopen.
pub(super) async fn checkpoints_survive_a_reopen(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    put_stored(given, "r", 5).await?;
    let before = load(given, "r").await?;
    given.reopen().await?;
    expect_eq(load(given, "r").await?, before)?;
    expect_eq(put(given, "r", 5).await?, StreamCheckpointOutcome::Ignored { stored: 5 })
}

/// A put whose sequence is not above that of the stored checkpoint changes nothing.
pub(super) async fn a_lower_sequence_is_ignored(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    put_stored(given, "r", 5).await?;
    let before = load(given, "r").await?;
    for sequence in [0, 4, 5] {
        let late = PutStreamCheckpoint::new(id("t"), id("r"), sequence, answer("late"));
        let _outcome = checkpoints(given)?.put_stream_checkpoint(late).await?;
        expect_eq(load(given, "r").await?, before.clone())?;
    }
    put_stored(given, "r", u64::MAX).await?;
    expect_sequence(given, "r", Some(u64::MAX)).await
}

/// A put that is ignored says which sequence is stored.
pub(super) async fn an_ignored_put_says_so(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    expect_eq(put(given, "r", 0).await?, StreamCheckpointOutcome::Stored)?;
    expect_eq(put(given, "r", 0).await?, StreamCheckpointOutcome::Ignored { stored: 0 })?;
    expect_eq(put(given, "r", 9).await?, StreamCheckpointOutcome::Stored)?;
    expect_eq(put(given, "r", 8).await?, StreamCheckpointOutcome::Ignored { stored: 9 })
}

/// Of concurrent puts, the one with the highest sequence stays.
pub(super) async fn the_highest_of_concurrent_puts_stays(given: &Given) -> Verdict {
    const WRITERS: u64 = 8;
    start_runs(given, &["r"]).await?;
    for round in 0..10 {
        let store = checkpoints(given)?;
        // The first writer has the highest sequence.
        let sequences: Vec<_> = (round * WRITERS + 1..=(round + 1) * WRITERS).rev().collect();
        let results = run_concurrently(sequences.len(), |writer| {
            let (store, sequence) = (Arc::clone(&store), sequences[writer]);
            async move { store.put_stream_checkpoint(request("r", sequence)).await }
        });
        for outcome in results.await {
            let _outcome: StreamCheckpointOutcome = outcome?;
        }
        expect_sequence(given, "r", Some((round + 1) * WRITERS)).await?;
    }
    Ok(())
}

/// From the loaded checkpoint follows how the answer goes on.
pub(super) async fn an_answer_goes_on_by_what_was_received(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    let in_flight = CallInFlight::new("c", "write").with_arguments("{");
    let answers = [
        (answer("The"), Recovery::Continue { text: "The".to_owned() }),
        (
            answer("The").with_call_in_flight(in_flight.clone()),
            Recovery::CutBeforeCall { text: "The".to_owned(), dropped: in_flight.clone() },
        ),
        (full_answer(), Recovery::UseCalls { text: full_answer().text, calls: full_answer().finished_calls }),
        (answer("").with_call_in_flight(in_flight), Recovery::StartAgain),
    ];
    for (sequence, (received, expected)) in (1..).zip(answers) {
        let put = PutStreamCheckpoint::new(id("t"), id("r"), sequence, received);
        expect_eq(checkpoints(given)?.put_stream_checkpoint(put).await?, StreamCheckpointOutcome::Stored)?;
        expect_eq(load(given, "r").await?.map(|loaded| loaded.answer.recovery()), Some(expected))?;
    }
    Ok(())
}

/// A checkpoint changes neither the log, nor the context, nor the thread.
pub(super) async fn a_checkpoint_is_not_part_of_the_thread(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["hello"]).await?;
    start_runs(given, &["r"]).await?;
    let threads = given.threads()?;
    let read = async || {
        let context = threads.load_context(&id("t"), ContextRequest::head()).await?;
        Ok::<_, crate::Failure>((given.thread(&id("t")).await?, given.read_log(&id("t")).await?, context.context))
    };
    let before = read().await?;
    put_stored(given, "r", 1).await?;
    put_stored(given, "r", 2).await?;
    expect_eq(read().await?, before)
}

/// A put that fails leaves the stored checkpoint, and a commit that names the checkpoint succeeds after it, whether or
/// not there is one.
pub(super) async fn a_failing_put_does_not_fail_the_commit(given: &Given) -> Verdict {
    let given = given.open_another_store_with_limits(|limits| limits.record_bytes = 10_000).await?;
    start_runs(&given, &["r"]).await?;
    let too_large = PutStreamCheckpoint::new(id("t"), id("r"), 9, answer(&"x".repeat(10_000)));
    for stored in [None, Some(1)] {
        if let Some(sequence) = stored {
            put_stored(&given, "r", sequence).await?;
        }
        let failed = checkpoints(&given)?.put_stream_checkpoint(too_large.clone()).await;
        expect_kind(failed, ErrorKind::LimitExceeded)?;
        expect_sequence(&given, "r", stored).await?;
        let commit = keyed_commit_with_message(&id("t"), &format!("{stored:?}"), "answer");
        given.expect_accepted(commit.with_documents(stream_checkpoint_removal(&id("t"), &id("r"))?)).await?;
        expect_sequence(&given, "r", None).await?;
    }
    expect_eq(given.read_log(&id("t")).await?.len(), 2)
}

/// A put under a claim that is lower than the highest one that wrote to the thread is refused.
pub(super) async fn a_checkpoint_can_carry_a_claim(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    let store = checkpoints(given)?;
    let under = |counter: u64, sequence: u64| {
        let number = ClaimNumber { incarnation: 1, counter };
        request("r", sequence).fenced(Fence::new(id("dispatch"), ClaimToken::new("token"), 1, number))
    };
    expect_eq(store.put_stream_checkpoint(under(5, 1)).await?, StreamCheckpointOutcome::Stored)?;
    expect_kind(store.put_stream_checkpoint(under(4, 2)).await, ErrorKind::StaleEpoch)?;
    expect_sequence(given, "r", Some(1)).await?;
    let number = ClaimNumber { incarnation: 1, counter: 7 };
    let claim = Fence::new(id("dispatch"), ClaimToken::new("token"), 1, number);
    given.expect_accepted(Commit::new(id("t")).fenced(claim)).await?;
    expect_kind(store.put_stream_checkpoint(under(6, 2)).await, ErrorKind::StaleEpoch)?;
    expect_eq(store.put_stream_checkpoint(under(7, 2)).await?, StreamCheckpointOutcome::Stored)?;
    expect_sequence(given, "r", Some(2)).await
}
