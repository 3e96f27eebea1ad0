//! Generates random histories. Most steps are valid, and most references name something that exists. The other steps
//! are wrong in various ways.

mod delivery;

use delivery::{commit_with_rows, mail, outbox, row, rows};
use proptest::{collection::vec, option, prelude::*, sample::select, strategy::BoxedStrategy};
use store_core::{Boundary, ChildStrategy, Direction, DispatchOrder, DispatchStatus, OpenCalls, RunPhase, ThreadOrder};

use super::ops::{
    AppendEventsOp, BodyOp, CommitOp, EntryFilterOp, EntryOp, EventFilterOp, EventOp, Fields, Guard, InputOp, KeyOp,
    List, Op, Parent, Patch, RewindTarget, RunFilterOp, RunOp, ScopeOp, StateChangeOp, ThreadFilterOp,
};
/// How many different threads, runs, keys, names and values most operations choose from.
pub(super) const FEW: u8 = 4;

fn few() -> impl Strategy<Value = u8> {
    0..FEW
}

/// A thread. Most steps are about thread 0.
fn thread() -> impl Strategy<Value = u8> {
    prop_oneof![6 => Just(0_u8), 3 => Just(1), 2 => few()]
}

/// Makes a value with the probability 1 / `of`, but at most 0.9. Otherwise makes `None`.
fn rarely<S: Strategy>(of: u32, strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    option::weighted((1.0 / f64::from(of)).min(0.9), strategy)
}

/// Histories of `steps` steps. Most histories use all operations. Some are mainly about the outbox or the mailbox.
///
/// One step in a thousand is left out. Because every step can be left out, proptest shortens a history by leaving out
/// more steps.
pub(super) fn histories(steps: usize) -> impl Strategy<Value = Vec<Op>> {
    let delivery =
        prop_oneof![10 => outbox(), 6 => commit_with_rows(), 2 => commits(), 1 => reads(), 5 => environment()];
    let mail = prop_oneof![20 => mail(), 2 => commits(), 2 => reads(), 4 => environment()];
    prop_oneof![4 => history_of(op(), steps), 1 => history_of(delivery.boxed(), steps), 1 => history_of(mail.boxed(), steps)]
}

fn history_of(op: BoxedStrategy<Op>, steps: usize) -> impl Strategy<Value = Vec<Op>> {
    vec(option::weighted(0.999, op), steps.max(1)).prop_map(|steps| steps.into_iter().flatten().collect())
}

fn op() -> BoxedStrategy<Op> {
    prop_oneof![
        10 => thread_ops(),
        9 => inputs(),
        6 => events(),
        4 => outbox(),
        4 => mail(),
        22 => commits(),
        14 => reads(),
        6 => environment(),
    ]
    .boxed()
}

fn thread_ops() -> BoxedStrategy<Op> {
    prop_oneof![
        4 => (few(), fields(), rarely(3, any::<u8>())).prop_map(|(thread, fields, at)| Op::Create {
            thread, fields, at: at.map(u16::from),
        }),
        4 => (thread(), patch(), guard()).prop_map(|(thread, patch, guard)| Op::Update { thread, patch, guard }),
        2 => (few(), children(), rarely(3, guard())).prop_map(|(thread, children, guard)| Op::Delete {
            thread, children, guard: guard.unwrap_or(Guard::Any),
        }),
        1 => (0_u16..2000, any::<bool>()).prop_map(|(idle, dry_run)| Op::Prune { idle, dry_run }),
        1 => few().prop_map(|thread| Op::ResetFence { thread }),
    ]
    .boxed()
}

fn inputs() -> BoxedStrategy<Op> {
    prop_oneof![
        6 => (thread(), vec(input(), 0..3)).prop_map(|(thread, inputs)| Op::AppendInputs { thread, inputs }),
        4 => (thread(), decision()).prop_map(|(thread, input)| Op::AppendInputs { thread, inputs: vec![input] }),
        2 => (thread(), few(), rarely(2, 0_u8..2), rarely(1, few()), rarely(3, boundary())).prop_map(
            |(thread, index, behind, text, boundary)| Op::ChangeInput { thread, index, behind, text, boundary }
        ),
        2 => (thread(), few()).prop_map(|(thread, index)| Op::Retract { thread, index }),
        2 => (thread(), few(), rarely(5, Just(1)), rarely(5, any::<bool>())).prop_map(|(thread, rotation, behind, wrong)| {
            Op::Reorder { thread, rotation, behind: behind.unwrap_or(0), wrong }
        }),
    ]
    .boxed()
}

fn events() -> BoxedStrategy<Op> {
    let emit = (vec(event(), 0..4), rarely(2, few()), rarely(4, 0_u8..2), rarely(10, few()));
    prop_oneof![
        6 => emit.prop_map(|(events, key, expect, fence)| Op::AppendEvents(AppendEventsOp { events, key, expect, fence })),
        2 => any::<u8>().prop_map(|which| Op::RepeatAppendEvents { which }),
        2 => (scope(), few(), rarely(3, any::<u8>()), any::<bool>())
            .prop_map(|(scope, index, older, dry_run)| Op::Trim { scope, index, older, dry_run }),
        2 => (scope(), event_filter(), few()).prop_map(|(scope, filter, index)| Op::ReadScope { scope, filter, index }),
    ]
    .boxed()
}

fn event() -> impl Strategy<Value = EventOp> {
    let scopes = (prop_oneof![9 => Just(true), 2 => Just(false)], rarely(12, few()), rarely(2, 0_u8..3));
    (scopes, few(), rarely(2, few())).prop_map(|((in_thread, thread, run), kind, payload)| EventOp {
        in_thread,
        thread,
        run,
        kind,
        payload,
    })
}

fn scope() -> impl Strategy<Value = ScopeOp> {
    prop_oneof![thread().prop_map(ScopeOp::Thread), few().prop_map(ScopeOp::Run)]
}

fn event_filter() -> impl Strategy<Value = EventFilterOp> {
    (any::<bool>(), rarely(4, few()), rarely(5, 0_u16..2000), rarely(5, 0_u16..2000))
        .prop_map(|(public, kind, before, after)| EventFilterOp { public, kind, before, after })
}

fn commits() -> BoxedStrategy<Op> {
    prop_oneof![
        20 => commit().prop_map(Op::Commit),
        2 => (commit_with_entries(), 0_u8..4).prop_map(|(commit, polls)| Op::Dropped { commit, polls }),
        3 => any::<u8>().prop_map(|which| Op::Repeat { which }),
    ]
    .boxed()
}

fn reads() -> BoxedStrategy<Op> {
    prop_oneof![
        2 => (thread(), any::<u8>(), few()).prop_map(|(thread, entry, run)| Op::Load { thread, entry, run }),
        1 => (few(), few()).prop_map(|(thread, parent)| Op::ValidateParent { thread, parent }),
        5 => (thread(), rarely(2, any::<u8>()), open_calls(), rarely(4, 0_u8..6))
            .prop_map(|(thread, at, open, budget)| Op::Context { thread, at, open, budget }),
        6 => (list(), 1_u8..4, rarely(3, commit()))
            .prop_map(|(list, limit, between)| Op::Walk { list, limit, between }),
    ]
    .boxed()
}

fn environment() -> BoxedStrategy<Op> {
    prop_oneof![
        6 => prop_oneof![Just(0_u32), 1_u32..5, 500_u32..3000].prop_map(|millis| Op::Advance { millis }),
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

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        8 => Just(Guard::Any),
        1 => Just(Guard::Absent),
        16 => Just(Guard::Behind(0)),
        2 => (1_u8..3).prop_map(Guard::Behind),
        1 => Just(Guard::Ahead),
        1 => Just(Guard::OtherGeneration),
    ]
}

fn fields() -> impl Strategy<Value = Fields> {
    (rarely(3, few()), rarely(2, thread()), rarely(3, few()), vec((few(), few()), 0..3))
        .prop_map(|(resource, parent, title, metadata)| Fields { resource, parent, title, metadata })
}

fn patch() -> impl Strategy<Value = Patch> {
    let maybe = |of| rarely(of, rarely(2, thread()));
    (maybe(4), maybe(2), maybe(4), vec((few(), rarely(2, few())), 0..3), rarely(8, few()))
        .prop_map(|(resource, parent, title, metadata, fence)| Patch { resource, parent, title, metadata, fence })
}

fn commit() -> BoxedStrategy<CommitOp> {
    commit_of(0)
}

fn commit_with_entries() -> BoxedStrategy<CommitOp> {
    commit_of(1)
}

fn commit_of(least: usize) -> BoxedStrategy<CommitOp> {
    let head = (thread(), guard(), rarely(2, few()), rarely(8, few()), rarely(8, any::<u8>()), rarely(6, fields()));
    let consume = rarely(2, vec((few(), prop_oneof![9 => Just(0_u8), 1 => Just(1)]), 1..3));
    let events = rarely(3, vec(event(), 1..3));
    let outbox = rarely(3, vec(row(), 1..4));
    let parts = (vec(entry(), least..5), rarely(3, run()), rarely(3, state()), consume, events, outbox);
    (head, parts)
        .prop_map(|((thread, guard, key, fence, at, create), (entries, run, state, consume, events, outbox))| {
            CommitOp {
                thread,
                guard: if key.is_none() && matches!(guard, Guard::Any) { Guard::Behind(0) } else { guard },
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
    let ids = (rarely(20, any::<u8>()), rarely(4, few()), any::<bool>());
    (ids, few(), boundary(), rarely(4, few())).prop_map(|((logged, pending, again), text, boundary, target)| InputOp {
        logged,
        pending,
        again,
        text,
        boundary,
        target,
        decision: None,
    })
}

fn decision() -> impl Strategy<Value = InputOp> {
    (input(), 0_u8..2, any::<bool>())
        .prop_map(|(input, run, cancel)| InputOp { decision: Some((run, cancel)), ..input })
}

fn entry() -> impl Strategy<Value = EntryOp> {
    let parent = prop_oneof![
        14 => Just(Parent::Head),
        1 => Just(Parent::Root),
        4 => any::<u8>().prop_map(Parent::Entry),
    ];
    let taken = (rarely(30, any::<u8>()), rarely(20, few()));
    (taken, parent, rarely(12, any::<bool>()), rarely(8, any::<u8>()), rarely(5, any::<u8>()), body()).prop_map(
        |((taken, pending), parent, side, timestamp, run, body)| EntryOp {
            taken,
            pending,
            parent,
            side: side.filter(|_| !matches!(body, BodyOp::Checkpoint { .. })),
            timestamp: timestamp.map(u16::from),
            run,
            body,
        },
    )
}

fn body() -> impl Strategy<Value = BodyOp> {
    let some = any::<u8>;
    prop_oneof![
        24 => few().prop_map(BodyOp::User),
        1 => few().prop_map(BodyOp::System),
        1 => few().prop_map(BodyOp::Aside),
        1 => Just(BodyOp::Empty),
        1 => Just(BodyOp::Misplaced),
        20 => (rarely(2, few()), vec(few(), 0..3), rarely(3, 0_u8..2), rarely(4, few())).prop_map(
            |(text, calls, message, tokens)| BodyOp::Assistant { text, calls, message, tokens }
        ),
        14 => vec(few(), 1..3).prop_map(BodyOp::Results),
        8 => (rarely(1, (some(), some())), rarely(4, Just(())))
            .prop_map(|(covers, replaced)| BodyOp::Compaction { covers, replaced: replaced.is_some() }),
        1 => Just(BodyOp::Compaction { covers: None, replaced: false }),
        8 => (rarely(6, few()), rarely(2, few())).prop_map(|(number, label)| BodyOp::Checkpoint { number, label }),
        3 => (rarely(2, few()), rarely(2, few())).prop_map(|(spent, size)| BodyOp::Usage { spent, size }),
        3 => (some(), rarely(1, few())).prop_map(|(target, text)| BodyOp::Label { target, text }),
        6 => rewind_target().prop_map(BodyOp::Rewind),
        2 => some().prop_map(BodyOp::Custom),
        1 => few().prop_map(BodyOp::Unknown),
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
    let fixed = (0_u8..3, option::weighted(0.9, any::<bool>()), rarely(6, few()), phase());
    let more = (rarely(6, any::<bool>()), rarely(6, any::<bool>()), rarely(4, few()), rarely(4, few()));
    let lists = (rarely(3, (1_u8..8, 0_u8..4)), vec((few(), rarely(2, few())), 0..3));
    (fixed, more, lists).prop_map(
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

fn state() -> impl Strategy<Value = StateChangeOp> {
    let add = || prop_oneof![9 => -3_i64..4, 1 => Just(i64::MAX)].prop_map(KeyOp::Add);
    let any_op = prop_oneof![
        any::<u8>().prop_map(KeyOp::Set),
        Just(KeyOp::Remove),
        add(),
        (-3_i64..4).prop_map(KeyOp::Max),
        any::<u8>().prop_map(KeyOp::Append),
        any::<u8>().prop_map(KeyOp::Merge),
    ];
    // Most keys keep values of one type.
    let change = prop_oneof![
        4 => prop_oneof![add(), (-3_i64..4).prop_map(KeyOp::Max)].prop_map(|op| (0, op)),
        2 => any::<u8>().prop_map(|number| (1, KeyOp::Append(number))),
        2 => any::<u8>().prop_map(|number| (2, KeyOp::Merge(number))),
        4 => any::<u8>().prop_map(|number| (3, KeyOp::Set(number))),
        2 => (few(), any_op),
    ];
    (rarely(4, 0_u8..2), rarely(8, Just(())), vec(change, 0..3)).prop_map(|(behind, clear, changes)| StateChangeOp {
        behind,
        clear: clear.is_some(),
        changes,
    })
}

fn list() -> impl Strategy<Value = List> {
    let order = select(vec![ThreadOrder::LastActivity, ThreadOrder::Creation]);
    prop_oneof![
        4 => (threads(), order, direction())
            .prop_map(|(filter, order, direction)| List::Threads { filter, order, direction }),
        2 => (runs(), direction()).prop_map(|(filter, direction)| List::Runs { filter, direction }),
        4 => (thread(), entries(), direction())
            .prop_map(|(thread, filter, direction)| List::Entries { thread, filter, direction }),
        1 => thread().prop_map(|thread| List::Leaves { thread }),
        1 => thread().prop_map(|thread| List::BranchPoints { thread }),
        1 => thread().prop_map(|thread| List::Snapshots { thread }),
        1 => Just(List::WithInput),
        1 => Just(List::Ready),
        3 => (rarely(2, thread()), rarely(3, vec(select(DispatchStatus::ALL), 0..3)), dispatch_order(), direction())
            .prop_map(|(thread, statuses, order, direction)| List::Dispatches { thread, statuses, order, direction }),
        2 => (rows(), direction()).prop_map(|(filter, direction)| List::Outbox { filter, direction }),
        3 => (scope(), event_filter(), direction())
            .prop_map(|(scope, filter, direction)| List::Events { scope, filter, direction }),
    ]
}

fn dispatch_order() -> impl Strategy<Value = DispatchOrder> {
    select(vec![DispatchOrder::Creation, DispatchOrder::End, DispatchOrder::Claim])
}

fn threads() -> impl Strategy<Value = ThreadFilterOp> {
    let times = (rarely(5, 0_u16..2000), rarely(5, 0_u16..2000));
    (rarely(5, few()), rarely(4, rarely(2, few())), rarely(5, any::<bool>()), times, rarely(5, (few(), few())))
        .prop_map(|(resource, parent, open_runs, (active_after, created_before), metadata)| ThreadFilterOp {
            resource,
            parent,
            open_runs,
            active_after,
            created_before,
            metadata,
        })
}

fn runs() -> impl Strategy<Value = RunFilterOp> {
    (rarely(3, few()), rarely(3, vec(phase(), 0..3)), rarely(5, any::<bool>()), rarely(5, few()))
        .prop_map(|(thread, statuses, agent, parent)| RunFilterOp { thread, statuses, agent, parent })
}

fn entries() -> impl Strategy<Value = EntryFilterOp> {
    let places = (rarely(5, any::<u8>()), rarely(5, any::<u8>()), rarely(2, any::<u8>()), rarely(6, any::<u8>()));
    (places, rarely(5, any::<bool>()), rarely(6, few()), rarely(6, any::<bool>())).prop_map(
        |((from, to, path_of, children_of), messages, run, side)| EntryFilterOp {
            from,
            to,
            path_of,
            children_of,
            messages,
            run,
            side,
        },
    )
}
