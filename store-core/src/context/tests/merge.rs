//! Tests of messages of a provider that were logged as several entries (CX-17). `mod.rs` explains the notation.

use super::{expect_context, parse_path};
use crate::{
    context::{ContextPart, ContextRequest, build},
    log::{Body, Entry, TokenCounts},
};

#[test]
fn entries_of_one_message_are_merged_at_the_position_of_the_first() {
    expect_context("a@m one | a@m two", "1:a one two", "2 MessagesMerged");
    expect_context("a@m one | X | -u psst | a@m two", "1:a one two", "4 MessagesMerged");
    expect_context("a@m +x | t x=1 | a@m +y | t y=2", "1:a +x +y | 2:t x=1 | 4:t y=2", "3 MessagesMerged");
    expect_context("a@m +x | a@m +x +y | t x=1 y=2", "1:a +x +y | 3:t x=1 y=2", "2 MessagesMerged");
    expect_context("a@m | a@m one", "1:a one", "2 MessagesMerged");
}

#[test]
fn unrelated_messages_are_not_merged() {
    expect_context("a one | a two", "1:a one | 2:a two", "");
    expect_context("a@m one | a@n two", "1:a one | 2:a two", "");
    expect_context("a@m one | u go | a@m two", "1:a one | 2:u go | 3:a two", "");
    expect_context("a@m one | a@n two | a@m three", "1:a one | 2:a two | 3:a three", "");
    expect_context("u@m one | u@m two", "1:u one | 2:u two", "");
    expect_context("a@m one | C mid | a@m two", "1:a one | 2~u [] mid | 3:a two", "");
    expect_context("R a@m one / a@m two", "1~a one | 1~a two", "");
}

#[test]
fn a_merged_message_has_the_last_usage_and_stop_reason() {
    let with_usage_and_stop = |(part, entry): (ContextPart, std::sync::Arc<Entry>), tokens, stop: Option<&str>| {
        let Body::Message(mut message) = (*entry.body).clone() else { panic!("no message") };
        message.usage = Some(TokenCounts::new(tokens, 0).into());
        message.stop = stop.map(str::to_owned);
        (part, std::sync::Arc::new(Entry { body: Body::Message(message).into(), ..(*entry).clone() }))
    };
    let usage_and_stop = [(1, Some("tool_use")), (5, None)];
    let path = parse_path("a@m one | a@m two")
        .into_iter()
        .zip(usage_and_stop)
        .map(|(part, (tokens, stop))| with_usage_and_stop(part, tokens, stop));
    let context = build(path.collect(), &ContextRequest::head());
    let message = &context.messages[0].message;
    assert_eq!(message.usage, Some(TokenCounts::new(5, 0).into()));
    assert_eq!(message.stop.as_deref(), Some("tool_use"));
}
