//! The names under which enum values are stored. They never change.

use store_core::{
    AttemptEnd, BodyKind, Boundary, DecisionAction, DispatchStatus, Entry, EventVisibility, Granularity, OutboxStatus,
    Role, RunPhase, RunStatus, Visibility, WaitingReason, codec::Codec,
};

use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
};

fn is_snake_case(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Checks that the values of an enum are stored under these names, and that the names are in snake case.
fn expect_stored_names<T: Codec>(all: &[T], names: &str) -> Verdict {
    let found: Vec<_> = all.iter().map(|value| value.encode().trim_matches('"').to_owned()).collect();
    expect(found.iter().all(|name| is_snake_case(name)), format!("{found:?}"))?;
    expect_eq(found.join(" "), names)
}

/// The stored names of enum values are in lower snake case and never change.
pub(super) async fn stored_names_never_change(_given: &Given) -> Verdict {
    expect_stored_names(Role::ALL, "system user assistant tool")?;
    expect_stored_names(Visibility::ALL, "all internal aside")?;
    expect_stored_names(RunPhase::ALL, "created running waiting done")?;
    expect_stored_names(BodyKind::ALL, "message compaction checkpoint usage label rewind custom decision unknown")?;
    expect_stored_names(Boundary::ALL, "interrupt next_step on_natural_end new_run resume_input")?;
    expect_stored_names(Granularity::ALL, "batch one")?;
    expect_stored_names(DecisionAction::ALL, "resume cancel")?;
    expect_stored_names(DispatchStatus::ALL, "queued claimed acked cancelled superseded dead_letter")?;
    let attempt_ends = "acked retried snoozed released dead_lettered cancelled lease_expired superseded";
    expect_stored_names(AttemptEnd::ALL, attempt_ends)?;
    expect_stored_names(EventVisibility::ALL, "public internal audit sensitive")?;
    expect_stored_names(OutboxStatus::ALL, "pending claimed delivered dead_letter")?;
    expect_stored_names(
        WaitingReason::ALL,
        "tool_permission user_input background_tasks external_event rate_limit manual_pause",
    )
}

/// An enum is a closed set, so an unknown name is refused. The kinds of bodies are an open set, so an unknown kind is
/// kept.
pub(super) async fn unknown_names_of_closed_enums_are_refused(_given: &Given) -> Verdict {
    for text in ["\"Assistant\"", "\"robot\"", "\"\"", "1", "null", "{}"] {
        expect(Role::read(text).is_err() && Visibility::read(text).is_err(), text)?;
        expect(EventVisibility::read(text).is_err() && OutboxStatus::read(text).is_err(), text)?;
        expect(Boundary::read(text).is_err() && Granularity::read(text).is_err(), text)?;
        expect(DispatchStatus::read(text).is_err() && AttemptEnd::read(text).is_err(), text)?;
        expect(WaitingReason::read(text).is_err() && RunPhase::read(text).is_err(), text)?;
    }
    for text in [
        "{}",
        "{\"paused\":{}}",
        "{\"waiting\":{}}",
        "{\"waiting\":{\"reason\":\"mood\"}}",
        "\"running\"",
        "{\"done\":{}}",
    ] {
        expect(RunStatus::read(text).is_err(), text)?;
    }
    let entry_of_unknown_kind = r#"{"seq":1,"id":"a","timestamp":5,"body":{"hologram":[1.50]}}"#;
    expect_eq(Entry::read(entry_of_unknown_kind).map(|entry| entry.encode()), Ok(entry_of_unknown_kind.to_owned()))
}
