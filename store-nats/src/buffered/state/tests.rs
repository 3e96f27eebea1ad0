//! Tests of what a node knows from the stream.

use store_core::{
    TenantId, Timestamp,
    buffer::{AppliedPosition, Delta, DeltaKeys, QuarantinedDelta, ThreadDeletion},
    codec::Codec,
};

use super::{DeltaMessage, NextBatch, StreamState, WINDOW};

const ON_TIME: (Timestamp, bool) = (Timestamp::MIN, false);

fn message(as_of: u64, reads: &[&str], writes: &[&str]) -> Option<DeltaMessage> {
    let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    let delta = Delta::Deletion(ThreadDeletion::new(Timestamp::MIN));
    let keys = DeltaKeys::from_lists(list(reads), list(writes));
    let (tenant, delta) = (TenantId::default_tenant(), Some(delta));
    Some(DeltaMessage { tenant, as_of, keys, delta, refreshes: false, detached: None })
}

/// Returns the position after the next batch of at most two deltas, and their number.
fn next(state: &StreamState) -> (u64, usize) {
    match state.next_batch(2) {
        Some(NextBatch::Apply(upto, deltas)) => (upto, deltas.len()),
        other => panic!("{other:?}"),
    }
}

/// Tests NB-2.
#[test]
fn a_message_takes_effect_unless_its_keys_were_written_since_its_decision() {
    let mut state = StreamState::default();
    let mut read = |at, message| state.read(at, "s", message, ON_TIME).unwrap();
    assert!(read(1, message(0, &[], &["a"])));
    assert!(!read(2, message(0, &[], &["a"])), "the same key");
    assert!(!read(3, message(0, &["a"], &["b"])), "a key that it read");
    assert!(!read(4, message(2, &[], &["b"])), "a message without effect counts");
    assert!(read(5, message(0, &["d"], &["c"])), "no common key");
    assert!(read(6, message(0, &["d"], &["e"])), "two that read one key");
    assert!(read(7, message(4, &[], &["b"])));
    assert!(!read(8, message(8, &[], &["x"])), "a position that it cannot know");
}

/// Tests NB-14.
#[test]
fn nothing_takes_effect_while_the_buffer_is_detached() {
    let mut state = StreamState::default();
    let attachment = |detached| Some(DeltaMessage::of_attachment(detached));
    assert_eq!(state.read(1, "s", message(0, &[], &["a"]), ON_TIME), Some(true));
    assert_eq!(state.read(2, "s", attachment(true), ON_TIME), Some(false));
    assert_eq!(state.read(3, "s", message(2, &[], &["b"]), ON_TIME), Some(false));
    assert!(state.is_detached() && state.was_detached());
    assert_eq!(state.read(4, "s", attachment(false), ON_TIME), Some(false));
    assert_eq!(state.read(5, "s", message(4, &[], &["b"]), ON_TIME), Some(true));
    assert!(!state.is_detached() && state.was_detached());
    assert_eq!(state.waiting_count(), 2);
}

/// Tests NB-2.
#[test]
fn a_decision_of_long_ago_takes_no_effect() {
    let mut state = StreamState::new(WINDOW, 0);
    let mut read = |at, message, is_late| state.read(at, "s", message, (Timestamp::MIN, is_late)).unwrap();
    assert!(read(WINDOW + 1, message(1, &[], &["a"]), false));
    assert!(!read(WINDOW + 2, message(1, &[], &["b"]), false));
    assert!(!read(WINDOW + 3, message(WINDOW, &[], &["c"]), true), "it is late");
}

/// Tests NB-4.
#[test]
fn a_message_decided_before_one_that_was_missed_is_left_to_the_inner_store() {
    let mut state = StreamState::new(3, 3);
    assert_eq!(state.read(9, "s", message(8, &[], &["a"]), ON_TIME), Some(true));
    assert_eq!(state.read(10, "s", message(7, &[], &["b"]), ON_TIME), None);
    assert_eq!(state.read(11, "s", message(7, &[], &["a"]), ON_TIME), Some(false));
    assert!(state.must_ask());
    assert_eq!(state.waiting_count(), 1);
    state.set_applied(11);
    assert!(!state.must_ask());
    assert_eq!(state.waiting_count(), 0);
}

/// Tests NB-4.
#[test]
fn applied_deltas_no_longer_wait() {
    let mut state = StreamState::default();
    for at in 1..=3 {
        assert_eq!(state.read(at, "s", message(at - 1, &[], &["a"]), ON_TIME), Some(true));
    }
    assert_eq!(next(&state), (2, 2));
    state.set_applied(2);
    let _effect = state.read(4, "s", None, ON_TIME);
    assert_eq!(next(&state), (4, 1));
    state.set_applied(4);
    assert!(state.next_batch(2).is_none());
    assert_eq!(state.waiting_bytes(), 0);
    assert!(state.overlay(&TenantId::default_tenant()).is_none());
}

/// Tests NB-4 and NB-7.
#[test]
fn what_relies_on_a_delta_in_quarantine_is_not_applied() {
    let mut state = StreamState::default();
    for (at, write) in [(1, "a"), (2, "b"), (3, "a"), (4, "c")] {
        assert_eq!(state.read(at, "s", message(at - 1, &["*"], &[write]), ON_TIME), Some(true));
    }
    let refused = state.waiting_message(1).unwrap();
    let record = |at, message: &DeltaMessage| {
        QuarantinedDelta::new(at, TenantId::default_tenant(), String::new(), Timestamp::MIN, message.encode())
    };
    let position = AppliedPosition::new(None, 1, 1);
    state.set_quarantine(&position, vec![record(1, &refused)]).unwrap();
    assert_eq!(next(&state), (2, 1), "the third relies on the first");
    state.set_applied(2);
    let Some(NextBatch::Quarantine(3, dependent, 1)) = state.next_batch(2) else { panic!("it waits") };
    let position = AppliedPosition::new(None, 3, 2);
    state.set_quarantine(&position, vec![record(1, &refused), record(3, &dependent)]).unwrap();
    assert_eq!(next(&state), (4, 1));
    state.set_applied(4);
    assert!(state.overlay(&TenantId::default_tenant()).is_some(), "reads show what is in quarantine");
    assert!(!state.must_ask());
    let _effect = state.read(5, "s", message(4, &["*"], &["a"]), ON_TIME);
    assert!(state.must_ask(), "its writer may know more");
    state.set_quarantine(&AppliedPosition::new(None, 4, 3), Vec::new()).unwrap();
    state.set_asked(5);
    assert_eq!((next(&state), state.must_ask()), ((5, 1), false));
}
