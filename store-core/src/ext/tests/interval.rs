//! The interval that a compaction of the older part of a context covers. `VecLog::new` explains the notation of logs.

use super::{VecLog, id, thread};
use crate::{
    LogReaderExt, Message,
    context::{Context, ContextMessage, split_for_compaction},
};

/// Checks the interval for a context with the messages of these entries. The last message is kept.
async fn expect_interval(log: &str, messages: &[&str], expected: Option<(&str, &str)>) {
    let mut context = Context::default();
    let context_messages = messages.iter().map(|entry| ContextMessage::new(id(entry), false, Message::user("x")));
    context.messages = context_messages.collect();
    let split = split_for_compaction(&context, 1);
    let interval = VecLog::new(log).load_compaction_interval(&thread(), &split).await.unwrap();
    let interval = interval.as_ref().map(|interval| (interval.from.as_str(), interval.to.as_str()));
    assert_eq!(interval, expected, "{messages:?} of {log}");
}

#[tokio::test]
async fn an_interval_ends_before_the_kept_messages() {
    expect_interval("- 1 2", &["1", "2", "3"], Some(("1", "2"))).await;
    expect_interval("- 1 2", &["2", "3"], Some(("2", "2"))).await;
    // Entry 3 was merged into entry 1, or contains no message.
    expect_interval("- 1 2 3", &["1", "2", "4"], Some(("1", "3"))).await;
    expect_interval("- 1 2", &["3"], None).await;
    expect_interval("- 1 2", &[], None).await;
}

#[tokio::test]
async fn an_interval_includes_the_intervals_of_earlier_summaries() {
    expect_interval("- 1 2c1-2 3 4", &["3", "4", "5"], Some(("1", "4"))).await;
    expect_interval("- 1 2 3c2-3 4 5", &["4", "5", "6"], Some(("2", "5"))).await;
    expect_interval("- 1c 2 3", &["2", "1", "3", "4"], Some(("1", "3"))).await;
    // The interval of a summary that is kept is not included.
    expect_interval("- 1 2 3c2-3", &["1", "4"], Some(("1", "1"))).await;
    expect_interval("- 1c", &["1", "2"], None).await;
}
