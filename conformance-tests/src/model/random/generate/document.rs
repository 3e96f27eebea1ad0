//! Generates steps of documents and topics.

use proptest::{collection::vec, prelude::*, strategy::BoxedStrategy};

use super::{
    super::ops::{ActionOp, ChangeOp, DocumentOp, ExpectOp, KeyOp, Op},
    once_in, small_number, thread,
};

pub(super) fn document_ops() -> BoxedStrategy<Op> {
    let topics = || once_in(3, vec(0_u8..3, 1..3)).prop_map(Option::unwrap_or_default);
    let fence = || once_in(10, (thread(), small_number()));
    let commit = (thread(), once_in(3, small_number()), once_in(8, Just(())), changes(), topics());
    let list = (scope(), prefix(), once_in(4, key()), once_in(4, key()), any::<bool>(), 1_u8..4);
    prop_oneof![
        12 => (changes(), topics(), fence())
            .prop_map(|(changes, topics, fence)| DocumentOp::Write { changes, topics, fence }),
        6 => commit.prop_map(|(thread, key, expects_absent, changes, topics)| DocumentOp::Commit {
            thread, key, expects_absent: expects_absent.is_some(), changes, topics,
        }),
        5 => list.prop_map(|(thread, prefix, from, before, backward, limit)| DocumentOp::List {
            thread, prefix, from, before, backward, limit,
        }),
        1 => (scope(), prefix(), once_in(2, 0_u16..2000), any::<bool>()).prop_map(
            |(thread, prefix, older_millis, dry_run)| DocumentOp::DeletePrefix { thread, prefix, older_millis, dry_run }
        ),
        1 => (0_u8..3, 0_u16..2000, any::<bool>())
            .prop_map(|(topic, older_millis, dry_run)| DocumentOp::TrimTopic { topic, older_millis, dry_run }),
    ]
    .prop_map(Op::Document)
    .boxed()
}

fn scope() -> impl Strategy<Value = Option<u8>> {
    once_in(3, thread())
}

fn prefix() -> impl Strategy<Value = Option<u8>> {
    once_in(2, small_number())
}

fn key() -> impl Strategy<Value = KeyOp> {
    (small_number(), once_in(2, small_number()))
}

fn changes() -> impl Strategy<Value = Vec<ChangeOp>> {
    let action = prop_oneof![
        8 => (0_u8..6).prop_map(ActionOp::Put),
        3 => Just(ActionOp::Delete),
        1 => Just(ActionOp::Check),
    ];
    let expect = prop_oneof![
        10 => Just(ExpectOp::Any),
        2 => Just(ExpectOp::Absent),
        2 => Just(ExpectOp::Present),
        6 => Just(ExpectOp::LastRevision),
        1 => Just(ExpectOp::WrongRevision),
    ];
    let change = (scope(), key(), action, expect)
        .prop_map(|(thread, key, action, expect)| ChangeOp { thread, key, action, expect })
        .boxed();
    prop_oneof![1 => vec(change.clone(), 0..1), 20 => vec(change, 1..4)]
}
