//! Generates steps of the outbox and the mailbox.

use proptest::{collection::vec, prelude::*, sample::select, strategy::BoxedStrategy};

use super::{
    super::{
        ops::{CommitOp, GuardOp, MailboxOp, Op, OutboxFilterOp, OutboxOp, RowOp, SettleOp},
        outbox::FILTER_STATUSES,
    },
    once_in, small_number, thread,
};

/// A commit of outbox rows, sometimes with a fence. It has no other parts, so that most refusals are because of the
/// rows.
pub(super) fn commit_with_rows() -> BoxedStrategy<Op> {
    (thread(), once_in(4, small_number()), vec(outbox_row(), 1..4))
        .prop_map(|(thread, fence, outbox)| {
            Op::Commit(CommitOp {
                thread,
                guard: GuardOp::Any,
                key: None,
                fence,
                at: None,
                create: None,
                entries: Vec::new(),
                run: None,
                state: None,
                consume: Vec::new(),
                events: Vec::new(),
                outbox,
            })
        })
        .boxed()
}

pub(super) fn mailbox_ops() -> BoxedStrategy<Op> {
    let dispatch = || 0_u8..8;
    let delay = || once_in(4, select(vec![0_u16, 3, 1_000]));
    let enqueue = (dispatch(), thread(), 0_u8..3, once_in(3, 0_u8..2), delay(), 1_u8..4);
    let claim = (1_u8..4, once_in(4, thread()), once_in(6, dispatch()), select(vec![2_u16, 1_000, 30_000]));
    let which = any::<u8>;
    prop_oneof![
        10 => enqueue.prop_map(|(dispatch, thread, priority, key, delay, max_attempts)| MailboxOp::Enqueue {
            dispatch, thread, priority, key, delay, max_attempts,
        }),
        8 => claim.prop_map(|(limit, thread, dispatch, lease)| MailboxOp::Claim { limit, thread, dispatch, lease }),
        8 => (which(), settlement()).prop_map(|(which, settlement)| MailboxOp::Settle { which, settlement }),
        4 => (which(), 0_u8..3, once_in(3, Just(())), once_in(2, settlement())).prop_map(
            |(which, state_value, expects_absent, settlement)| MailboxOp::CommitUnderClaim {
                which, state_value, expects_absent: expects_absent.is_some(), settlement,
            }
        ),
        2 => (thread(), once_in(3, 0_u8..2), once_in(3, Just(()))).prop_map(
            |(thread, key, take_over)| MailboxOp::Interrupt { thread, key, take_over: take_over.is_some() }
        ),
        4 => (which(), select(vec![0_u16, 2, 1_000])).prop_map(|(which, lease)| MailboxOp::Extend { which, lease }),
        1 => (which(), 0_u8..2).prop_map(|(which, instance)| MailboxOp::Start { which, instance }),
        1 => dispatch().prop_map(|dispatch| MailboxOp::Cancel { dispatch }),
        1 => (0_u8..3).prop_map(|limit| MailboxOp::Reclaim { limit }),
        2 => (prop_oneof![Just(0_u16), 0_u16..2000], 1_u8..4, any::<bool>())
            .prop_map(|(older_millis, limit, dry_run)| MailboxOp::Purge { older_millis, limit, dry_run }),
        1 => dispatch().prop_map(|dispatch| MailboxOp::Requeue { dispatch }),
        2 => (thread(), dispatch()).prop_map(|(thread, dispatch)| MailboxOp::ReadCounts { thread, dispatch }),
    ]
    .prop_map(Op::Mailbox)
    .boxed()
}

fn settlement() -> impl Strategy<Value = SettleOp> {
    let after = || select(vec![0_u16, 3, 1_000]);
    prop_oneof![
        3 => small_number().prop_map(SettleOp::Ack),
        4 => after().prop_map(SettleOp::Retry),
        1 => after().prop_map(SettleOp::Snooze),
        2 => Just(SettleOp::Release),
        1 => Just(SettleOp::DeadLetter),
        1 => Just(SettleOp::Cancel),
    ]
}

pub(super) fn outbox_ops() -> BoxedStrategy<Op> {
    let lease = || prop_oneof![8 => 1_u16..2000, 1 => Just(0)];
    let limit = || prop_oneof![12 => 1_u8..4, 1 => Just(0)];
    prop_oneof![
        8 => (0_u8..2, once_in(3, 0_u8..2), limit(), lease())
            .prop_map(|(lane, target, limit, lease)| OutboxOp::Claim { lane, target, limit, lease }),
        8 => (claimed_row_index(), 0_u8..6, 0_u16..1500).prop_map(|(which, settlement_kind, millis)| OutboxOp::Settle { which, settlement_kind, millis }),
        2 => (claimed_row_index(), lease()).prop_map(|(which, lease)| OutboxOp::Extend { which, lease }),
        3 => (once_in(2, claimed_row_index()), once_in(2, 0_u8..2), limit())
            .prop_map(|(which, lane, limit)| OutboxOp::Requeue { which, lane, limit }),
        2 => (0_u16..1500, limit(), any::<bool>())
            .prop_map(|(older_millis, limit, dry_run)| OutboxOp::Purge { older_millis, limit, dry_run }),
        1 => outbox_filter().prop_map(OutboxOp::Count),
    ]
    .prop_map(Op::Outbox)
    .boxed()
}

/// The index of a claimed row. The newest row has the index 0.
fn claimed_row_index() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0_u8), 2 => 0_u8..3, 1 => any::<u8>()]
}

pub(super) fn outbox_row() -> impl Strategy<Value = RowOp> {
    let lane_and_target = (0_u8..2, prop_oneof![4 => Just(0_u8), 1 => Just(1)]);
    let keys = (once_in(4, 0_u8..3), once_in(2, 0_u8..2));
    let max_attempts = prop_oneof![12 => 1_u8..4, 1 => Just(0)];
    (lane_and_target, small_number(), keys, once_in(4, 0_u16..1500), max_attempts).prop_map(
        |((lane, target), payload, (key, order_key), delay_millis, max_attempts)| RowOp {
            lane,
            target,
            payload,
            key,
            order_key,
            delay_millis,
            max_attempts,
        },
    )
}

pub(super) fn outbox_filter() -> impl Strategy<Value = OutboxFilterOp> {
    (once_in(2, 0_u8..2), once_in(3, 0_u8..2), once_in(2, vec(select(FILTER_STATUSES), 0..3)))
        .prop_map(|(lane, target, statuses)| OutboxFilterOp { lane, target, statuses })
}
