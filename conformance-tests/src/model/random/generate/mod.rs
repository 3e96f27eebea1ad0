//! Generates random histories. Most steps are valid, and most references name something that exists. The other steps
//! are wrong in various ways.

mod delivery;
mod document;

use delivery::{commit_with_rows, mailbox_ops, outbox_filter, outbox_ops, outbox_row};
use document::document_ops;
use proptest::{collection::vec, option, prelude::*, sample::select, strategy::BoxedStrategy};
use store_core::{Boundary, ChildStrategy, Direction, DispatchOrder, DispatchStatus, OpenCalls, RunPhase, ThreadOrder};

use super::ops::{
    AppendEventsOp, BodyOp, CommitOp, EntryFilterOp, EntryOp, EventFilterOp, EventOp, GuardOp, InputOp, ListOp, Op,
    OrderMistake, ParentOp, RewindTarget, RunFilterOp, RunOp, ScopeOp, StateChangeOp, StateKeyOp, ThreadFieldsOp,
    ThreadFilterOp, ThreadPatchOp,
};

/// Most operations choose from the numbers below this limit. The numbers stand for threads, runs, keys, names and
/// values.
pub(super) const SMALL_NUMBER_LIMIT: u8 = 4;

fn small_number() -> impl Strategy<Value = u8> {
    0..SMALL_NUMBER_LIMIT
}

/// Generates the number of a thread. Most steps are about thread 0.
fn thread() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(0_u8), 3 => Just(1), 2 => small_number()]
}

/// Generates a value once in `times` times, but with a probability of at most 0.9. Otherwise generates `None`.
fn once_in<S: Strategy>(times: u32, strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    option::weighted((1.0 / f64::from(times)).min(0.9), strategy)
}

/// Generates histories of `steps` steps. Most histories use all operations. Some are mainly about the outbox, the
/// mailbox or documents.
///
/// One step in a thousand is left out. Because every step can be left out, proptest can shorten a history by leaving
/// out more steps.
pub(super) fn histories(steps: usize) -> impl Strategy<Value = Vec<Op>> {
    let outbox_steps = prop_oneof![
        10 => outbox_ops(),
        6 => commit_with_rows(),
        2 => commit_ops(),
        1 => read_ops(),
        5 => environment_ops(),
    ];
    let mailbox_steps = prop_oneof![20 => mailbox_ops(), 2 => commit_ops(), 2 => read_ops(), 4 => environment_ops()];
    let document_steps = prop_oneof![
        20 => document_ops(),
        3 => thread_ops(),
        2 => commit_ops(),
        4 => environment_ops(),
    ];
    prop_oneof![
        4 => history_of(op(), steps),
        1 => history_of(outbox_steps.boxed(), steps),
        1 => history_of(mailbox_steps.boxed(), steps),
        1 => history_of(document_steps.boxed(), steps),
    ]
}

fn history_of(op: BoxedStrategy<Op>, steps: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(option::weighted(0.999, op), steps.max(1)).prop_map(|steps| steps.into_iter().flatten().collect())
}

fn op() -> BoxedStrategy<Op> {
    prop_oneof![
        10 => thread_ops(),
        9 => input_ops(),
        6 => event_ops(),
        4 => outbox_ops(),
        4 => mailbox_ops(),
        5 => document_ops(),
        22 => commit_ops(),
        14 => read_ops(),
        6 => environment_ops(),
    ]
    .boxed()
}

fn thread_ops() -> BoxedStrategy<Op> {
    prop_oneof![
        4 => (small_number(), fields(), once_in(3, any::<u8>())).prop_map(|(thread, fields, at)| Op::Create {
            thread, fields, at: at.map(u16::from),
        }),
        4 => (thread(), patch(), guard()).prop_map(|(thread, patch, guard)| Op::Update { thread, patch, guard }),
        2 => (small_number(), children(), once_in(3, guard())).prop_map(|(thread, children, guard)| Op::Delete {
            thread, children, guard: guard.unwrap_or(GuardOp::Any),
        }),
        1 => (0_u16..2000, any::<bool>()).prop_map(|(idle_millis, dry_run)| Op::Prune { idle_millis, dry_run }),
        1 => small_number().prop_map(|thread| Op::ResetFence { thread }),
    ]
    .boxed()
}

fn input_ops() -> BoxedStrategy<Op> {
    let reorder = (thread(), small_number(), once_in(5, Just(1)), once_in(5, order_mistake()));
    prop_oneof![
        6 => (thread(), vec(input(), 0..3)).prop_map(|(thread, inputs)| Op::AppendInputs { thread, inputs }),
        4 => (thread(), decision()).prop_map(|(thread, input)| Op::AppendInputs { thread, inputs: vec![input] }),
        2 => (thread(), small_number(), once_in(2, 0_u8..2), once_in(1, small_number()), once_in(3, boundary())).prop_map(
            |(thread, index, behind, text, boundary)| Op::ChangeInput { thread, index, behind, text, boundary }
        ),
        2 => (thread(), small_number()).prop_map(|(thread, index)| Op::Retract { thread, index }),
        2 => reorder.prop_map(|(thread, rotation, behind, mistake)| {
            Op::Reorder { thread, rotation, behind: behind.unwrap_or(0), mistake }
        }),
    ]
    .boxed()
}

fn order_mistake() -> impl Strategy<Value = OrderMistake> {
    any::<bool>().prop_map(|repeats| if repeats { OrderMistake::RepeatsInput } else { OrderMistake::OmitsInput })
}

fn event_ops() -> BoxedStrategy<Op> {
    let append = (vec(event(), 0..4), once_in(2, small_number()), once_in(4, 0_u8..2), once_in(10, small_number()));
    prop_oneof![
        6 => append.prop_map(
            |(events, key, expect, fence)| Op::AppendEvents(AppendEventsOp { events, key, expect, fence })
        ),
        2 => any::<u8>().prop_map(|which| Op::RepeatAppendEvents { which }),
        2 => (scope(), small_number(), once_in(3, any::<u8>()), any::<bool>())
            .prop_map(|(scope, index, older_millis, dry_run)| Op::Trim { scope, index, older_millis, dry_run }),
        2 => (scope(), event_filter(), small_number()).prop_map(|(scope, filter, index)| Op::ReadScope { scope, filter, index }),
    ]
    .boxed()
}

fn event() -> impl Strategy<Value = EventOp> {
    let scopes = (prop_oneof![9 => Just(true), 2 => Just(false)], once_in(12, small_number()), once_in(2, 0_u8..3));
    (scopes, small_number(), once_in(2, small_number())).prop_map(|((in_thread, thread, run), kind, payload)| EventOp {
        in_thread,
        thread,
        run,
        kind,
        payload,
    })
}

fn scope() -> impl Strategy<Value = ScopeOp> {
    prop_oneof![thread().prop_map(ScopeOp::Thread), small_number().prop_map(ScopeOp::Run)]
}

fn event_filter() -> impl Strategy<Value = EventFilterOp> {
    (any::<bool>(), once_in(4, small_number()), once_in(5, 0_u16..2000), once_in(5, 0_u16..2000))
        .prop_map(|(public, kind, before, after)| EventFilterOp { public, kind, before, after })
}

fn commit_ops() -> BoxedStrategy<Op> {
    prop_oneof![
        20 => commit().prop_map(Op::Commit),
        2 => (commit_with_entries(), 0_u8..4).prop_map(|(commit, polls)| Op::DropCommit { commit, polls }),
        3 => any::<u8>().prop_map(|which| Op::RepeatCommit { which }),
    ]
    .boxed()
}

fn read_ops() -> BoxedStrategy<Op> {
    prop_oneof![
        2 => (thread(), any::<u8>(), small_number()).prop_map(|(thread, entry, run)| Op::LoadRecords { thread, entry, run }),
        1 => (small_number(), small_number()).prop_map(|(thread, parent)| Op::ValidateParent { thread, parent }),
        5 => (thread(), once_in(2, any::<u8>()), open_calls(), once_in(4, 0_u8..6))
            .prop_map(|(thread, at, open_calls, budget)| Op::Context { thread, at, open_calls, budget }),
        6 => (list(), 1_u8..4, once_in(3, commit()))
            .prop_map(|(list, limit, commit_between)| Op::ReadList { list, limit, commit_between }),
    ]
    .boxed()
}

fn environment_ops() -> BoxedStrategy<Op> {
    prop_oneof![
        6 => prop_oneof![Just(0_u32), 1_u32..5, 500_u32..3000].prop_map(|millis| Op::Advance { millis }),
        // A store remembers the ids of deleted threads and the keys of events for 30 days (TH-25, EV-5). Two of these
        // steps pass that time. One step does not.
        1 => Just(Op::Advance { millis: 16 * 24 * 60 * 60 * 1000 + 7 }),
        1 => (0_u16..500).prop_map(|millis| Op::SetBack { millis }),
        1 => Just(Op::Reopen),
    ]
    .boxed()
}

fn children() -> impl Strategy<Value = ChildStrategy> {
    select(vec![ChildStrategy::Detach, ChildStrategy::Cascade, ChildStrategy::Reject])
}

fn open_calls() -> impl Strategy<Value = OpenCalls> {
    select(vec![OpenCalls::Answer, OpenCalls::Keep, OpenCalls::Drop])
}

fn direction() -> impl Strategy<Value = Direction> {
    select(vec![Direction::Forward, Direction::Backward])
}

fn phase() -> impl Strategy<Value = RunPhase> {
    prop_oneof![
        1 => Just(RunPhase::Created),
        6 => Just(RunPhase::Running),
        3 => Just(RunPhase::Waiting),
        3 => Just(RunPhase::Done),
    ]
}

fn guard() -> impl Strategy<Value = GuardOp> {
    prop_oneof![
        8 => Just(GuardOp::Any),
        1 => Just(GuardOp::Absent),
        16 => Just(GuardOp::Behind(0)),
        2 => (1_u8..3).prop_map(GuardOp::Behind),
        1 => Just(GuardOp::Ahead),
        1 => Just(GuardOp::OtherGeneration),
    ]
}

fn fields() -> impl Strategy<Value = ThreadFieldsOp> {
    (
        once_in(3, small_number()),
        once_in(2, thread()),
        once_in(3, small_number()),
        vec((small_number(), small_number()), 0..3),
    )
        .prop_map(|(resource, parent, title, metadata)| ThreadFieldsOp { resource, parent, title, metadata })
}

fn patch() -> impl Strategy<Value = ThreadPatchOp> {
    let maybe = |times| once_in(times, once_in(2, thread()));
    (maybe(4), maybe(2), maybe(4), vec((small_number(), once_in(2, small_number())), 0..3), once_in(8, small_number()))
        .prop_map(|(resource, parent, title, metadata, fence)| ThreadPatchOp {
            resource,
            parent,
            title,
            metadata,
            fence,
        })
}

fn commit() -> BoxedStrategy<CommitOp> {
    commit_with_min_entries(0)
}

fn commit_with_entries() -> BoxedStrategy<CommitOp> {
    commit_with_min_entries(1)
}

fn commit_with_min_entries(min_entries: usize) -> BoxedStrategy<CommitOp> {
    let leading_fields = (
        thread(),
        guard(),
        once_in(2, small_number()),
        once_in(8, small_number()),
        once_in(8, any::<u8>()),
        once_in(6, fields()),
    );
    let consume = once_in(2, vec((small_number(), prop_oneof![9 => Just(0_u8), 1 => Just(1)]), 1..3));
    let events = once_in(3, vec(event(), 1..3));
    let outbox = once_in(3, vec(outbox_row(), 1..4));
    let parts = (vec(entry(), min_entries..5), once_in(3, run()), once_in(3, state_change()), consume, events, outbox);
    (leading_fields, parts)
        .prop_map(|((thread, guard, key, fence, at, create), (entries, run, state, consume, events, outbox))| {
            CommitOp {
                thread,
                guard: if key.is_none() && matches!(guard, GuardOp::Any) { GuardOp::Behind(0) } else { guard },
                key,
                fence,
                at: at.map(u16::from),
                create,
                entries,
                run,
                state,
                consume: consume.unwrap_or_default(),
                events: events.unwrap_or_default(),
                outbox: outbox.unwrap_or_default(),
            }
        })
        .boxed()
}

fn boundary() -> impl Strategy<Value = Boundary> {
    select(Boundary::ALL)
}

fn input() -> impl Strategy<Value = InputOp> {
    let ids = (once_in(20, any::<u8>()), once_in(4, small_number()), any::<bool>());
    (ids, small_number(), boundary(), once_in(4, small_number())).prop_map(
        |((id_of_entry, id_of_pending, equals_pending), text, boundary, target_run)| InputOp {
            id_of_entry,
            id_of_pending,
            equals_pending,
            text,
            boundary,
            target_run,
            decision: None,
        },
    )
}

fn decision() -> impl Strategy<Value = InputOp> {
    (input(), 0_u8..2, any::<bool>())
        .prop_map(|(input, run, cancel)| InputOp { decision: Some((run, cancel)), ..input })
}

fn entry() -> impl Strategy<Value = EntryOp> {
    let parent = prop_oneof![
        14 => Just(ParentOp::Head),
        1 => Just(ParentOp::Root),
        4 => any::<u8>().prop_map(ParentOp::Entry),
    ];
    let ids = (once_in(30, any::<u8>()), once_in(20, small_number()));
    (ids, parent, once_in(12, any::<bool>()), once_in(8, any::<u8>()), once_in(5, any::<u8>()), body()).prop_map(
        |((id_of_entry, id_of_pending), parent, side, timestamp, run, body)| EntryOp {
            id_of_entry,
            id_of_pending,
            parent,
            side: side.filter(|_| !matches!(body, BodyOp::Checkpoint { .. })),
            timestamp: timestamp.map(u16::from),
            run,
            body,
        },
    )
}

fn body() -> impl Strategy<Value = BodyOp> {
    let any_number = any::<u8>;
    prop_oneof![
        24 => small_number().prop_map(BodyOp::User),
        1 => small_number().prop_map(BodyOp::System),
        1 => small_number().prop_map(BodyOp::Aside),
        1 => Just(BodyOp::Empty),
        1 => Just(BodyOp::UserToolCall),
        20 => (once_in(2, small_number()), vec(small_number(), 0..3), once_in(3, 0_u8..2), once_in(4, small_number())).prop_map(
            |(text, calls, message, tokens)| BodyOp::Assistant { text, calls, message, tokens }
        ),
        14 => vec(small_number(), 1..3).prop_map(BodyOp::Results),
        8 => (once_in(1, (any_number(), any_number())), once_in(4, Just(())))
            .prop_map(|(covers, replacement)| BodyOp::Compaction { covers, has_replacement: replacement.is_some() }),
        1 => Just(BodyOp::Compaction { covers: None, has_replacement: false }),
        8 => (once_in(6, small_number()), once_in(2, small_number())).prop_map(|(number, label)| BodyOp::Checkpoint { number, label }),
        3 => (once_in(2, small_number()), once_in(2, small_number())).prop_map(|(spent, context_size)| BodyOp::Usage { spent, context_size }),
        3 => (any_number(), once_in(1, small_number())).prop_map(|(target, text)| BodyOp::Label { target, text }),
        6 => rewind_target().prop_map(BodyOp::Rewind),
        2 => any_number().prop_map(BodyOp::Custom),
        1 => small_number().prop_map(BodyOp::Unknown),
    ]
}

fn rewind_target() -> impl Strategy<Value = RewindTarget> {
    prop_oneof![
        1 => Just(RewindTarget::Start),
        6 => any::<u8>().prop_map(RewindTarget::Entry),
        2 => (0_u8..2).prop_map(RewindTarget::Checkpoint),
        1 => (0_u8..2).prop_map(RewindTarget::Label),
        1 => (0_u8..2).prop_map(RewindTarget::Snapshot),
    ]
}

fn run() -> impl Strategy<Value = RunOp> {
    let main_fields = (0_u8..3, option::weighted(0.9, any::<bool>()), once_in(6, small_number()), phase());
    let rare_fields =
        (once_in(6, any::<bool>()), once_in(6, any::<bool>()), once_in(4, small_number()), once_in(4, small_number()));
    let lists = (once_in(3, (1_u8..8, 0_u8..4)), vec((small_number(), once_in(2, small_number())), 0..3));
    (main_fields, rare_fields, lists).prop_map(
        |((run, agent, parent, status), (manifest, dispatch, steps, tokens), (output, state))| RunOp {
            run,
            agent: agent.map(|other| other && steps.is_some()),
            parent,
            status,
            manifest,
            dispatch,
            steps,
            tokens,
            output,
            state,
        },
    )
}

fn state_change() -> impl Strategy<Value = StateChangeOp> {
    let add = || prop_oneof![9 => -3_i64..4, 1 => Just(i64::MAX)].prop_map(StateKeyOp::Add);
    let any_op = prop_oneof![
        any::<u8>().prop_map(StateKeyOp::Set),
        Just(StateKeyOp::Remove),
        add(),
        (-3_i64..4).prop_map(StateKeyOp::Max),
        any::<u8>().prop_map(StateKeyOp::Append),
        any::<u8>().prop_map(StateKeyOp::Merge),
    ];
    // Most changes of a key are of the kind that belongs to this key. So the values of a key mostly keep one type.
    let change = prop_oneof![
        4 => prop_oneof![add(), (-3_i64..4).prop_map(StateKeyOp::Max)].prop_map(|op| (0, op)),
        2 => any::<u8>().prop_map(|number| (1, StateKeyOp::Append(number))),
        2 => any::<u8>().prop_map(|number| (2, StateKeyOp::Merge(number))),
        4 => any::<u8>().prop_map(|number| (3, StateKeyOp::Set(number))),
        2 => (small_number(), any_op),
    ];
    (once_in(4, 0_u8..2), once_in(8, Just(())), vec(change, 0..3)).prop_map(|(behind, clear, changes)| StateChangeOp {
        behind,
        clear: clear.is_some(),
        changes,
    })
}

fn list() -> impl Strategy<Value = ListOp> {
    let order = select(vec![ThreadOrder::LastActivity, ThreadOrder::Creation]);
    prop_oneof![
        4 => (thread_filter(), order, direction())
            .prop_map(|(filter, order, direction)| ListOp::Threads { filter, order, direction }),
        2 => (run_filter(), direction()).prop_map(|(filter, direction)| ListOp::Runs { filter, direction }),
        4 => (thread(), entry_filter(), direction())
            .prop_map(|(thread, filter, direction)| ListOp::Entries { thread, filter, direction }),
        1 => thread().prop_map(|thread| ListOp::Leaves { thread }),
        1 => thread().prop_map(|thread| ListOp::BranchPoints { thread }),
        1 => thread().prop_map(|thread| ListOp::Snapshots { thread }),
        1 => Just(ListOp::ThreadsWithInput),
        1 => Just(ListOp::ReadyThreads),
        3 => (once_in(2, thread()), once_in(3, vec(select(DispatchStatus::ALL), 0..3)), dispatch_order(), direction())
            .prop_map(|(thread, statuses, order, direction)| ListOp::Dispatches { thread, statuses, order, direction }),
        2 => (outbox_filter(), direction()).prop_map(|(filter, direction)| ListOp::Outbox { filter, direction }),
        3 => (scope(), event_filter(), direction())
            .prop_map(|(scope, filter, direction)| ListOp::Events { scope, filter, direction }),
    ]
}

fn dispatch_order() -> impl Strategy<Value = DispatchOrder> {
    select(vec![DispatchOrder::Creation, DispatchOrder::End, DispatchOrder::Claim])
}

fn thread_filter() -> impl Strategy<Value = ThreadFilterOp> {
    let times = (once_in(5, 0_u16..2000), once_in(5, 0_u16..2000));
    (
        once_in(5, small_number()),
        once_in(4, once_in(2, small_number())),
        once_in(5, any::<bool>()),
        times,
        once_in(5, (small_number(), small_number())),
    )
        .prop_map(|(resource, parent, has_open_runs, (active_after, created_before), metadata)| ThreadFilterOp {
            resource,
            parent,
            has_open_runs,
            active_after,
            created_before,
            metadata,
        })
}

fn run_filter() -> impl Strategy<Value = RunFilterOp> {
    (once_in(3, small_number()), once_in(3, vec(phase(), 0..3)), once_in(5, any::<bool>()), once_in(5, small_number()))
        .prop_map(|(thread, statuses, agent, parent)| RunFilterOp { thread, statuses, agent, parent })
}

fn entry_filter() -> impl Strategy<Value = EntryFilterOp> {
    let positions =
        (once_in(5, any::<u8>()), once_in(5, any::<u8>()), once_in(2, any::<u8>()), once_in(6, any::<u8>()));
    (positions, once_in(5, any::<bool>()), once_in(6, small_number()), once_in(6, any::<bool>())).prop_map(
        |((from_seq, to_seq, path_of, children_of), messages, run, side)| EntryFilterOp {
            from_seq,
            to_seq,
            path_of,
            children_of,
            messages,
            run,
            side,
        },
    )
}
