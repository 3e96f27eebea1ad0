//! Contexts with a budget: what is left out if a context is too large.

use std::sync::Arc;

use store_core::{Budget, Context, ContextRequest, Message, NewEntry, Role};

use super::short_form::{message_text, short_form};
use crate::{
    check::{Failure, Verdict, expect, expect_eq},
    given::Given,
    log::{
        entry_drafts::{
            assistant_entry, compaction, entry, tool_calls_entry, tool_results_entry, user_entries, user_entry,
        },
        writer::ThreadWriter,
    },
};

/// Loads the context of the head with this budget.
async fn load_context_within(writer: &ThreadWriter<'_>, budget: Budget) -> Result<Context, Failure> {
    Ok(writer.load_context(ContextRequest::head().within(budget)).await?.context)
}

/// Returns the ids of the entries that were left out, separated by spaces.
fn left_out_ids(context: &Context) -> String {
    crate::log::writer::join(context.left_out.iter().map(|entry| entry.as_str()))
}

/// A budget in tokens. The counter counts one token for each byte of the text of a message.
fn token_budget(max: u64) -> Budget {
    Budget::Tokens { max, counter: Arc::new(|message: &Message| message_text(message).len() as u64) }
}

fn system_entry(name: &str) -> NewEntry {
    entry(name, Message::new(Role::System, vec![store_core::Block::text(name)]))
}

/// A context that is too large leaves out whole turns, the oldest first. A turn begins with user messages and ends
/// before the next ones, so that a call is left out together with its result. System messages stay. The entries that
/// were left out are listed.
pub(crate) async fn the_oldest_turns_are_left_out_first(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(
        given,
        "t",
        [system_entry("s"), user_entry("a"), assistant_entry("b"), user_entry("c")],
    )
    .await?;
    writer
        .expect_accepted([
            tool_calls_entry("d", &["1"]),
            tool_results_entry("e", &["1"]),
            assistant_entry("f"),
            user_entry("g"),
            assistant_entry("h"),
        ])
        .await?;
    for (max_messages, expected, left_out) in [
        (9, "s a b c d!1 ?1=e f g h", ""),
        (100, "s a b c d!1 ?1=e f g h", ""),
        (8, "s c d!1 ?1=e f g h", "a b"),
        (7, "s c d!1 ?1=e f g h", "a b"),
        (6, "s g h", "a b c d e f"),
        (3, "s g h", "a b c d e f"),
    ] {
        let context = load_context_within(&writer, Budget::Messages(max_messages)).await?;
        let found = (short_form(&context), left_out_ids(&context));
        expect_eq(found, (expected.to_owned(), left_out.to_owned())).map_err(|failure| failure.about(max_messages))?;
    }
    // The counter counts one token for each letter, one for the line break in the message `d`, and none for results.
    let context = load_context_within(&writer, token_budget(7)).await?;
    expect_eq((short_form(&context).as_str(), left_out_ids(&context).as_str()), ("s c d!1 ?1=e f g h", "a b"))?;
    expect_eq(writer.head_context().await?.context.left_out, vec![])
}

/// The last summary is kept, even if all messages before the last turn are left out.
pub(crate) async fn the_last_summary_is_always_kept(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    writer
        .expect_accepted([assistant_entry("c"), compaction("s", "a", "c"), user_entry("d"), assistant_entry("e")])
        .await?;
    writer.expect_accepted([user_entry("f"), assistant_entry("g")]).await?;
    expect_eq(short_form(&writer.head_context().await?.context), "[s] d e f g")?;
    let context = load_context_within(&writer, Budget::Messages(3)).await?;
    expect_eq((short_form(&context).as_str(), left_out_ids(&context).as_str()), ("[s] f g", "d e"))
}

/// However small the budget is, the context has no result without its call and no call without its result. The log does
/// not change.
pub(crate) async fn no_budget_separates_a_call_from_its_result(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [system_entry("s"), user_entry("a")]).await?;
    writer
        .expect_accepted([
            tool_calls_entry("b", &["1", "2"]),
            tool_results_entry("c", &["1", "2"]),
            tool_calls_entry("d", &["3"]),
        ])
        .await?;
    writer
        .expect_accepted([
            tool_results_entry("e", &["3"]),
            user_entry("f"),
            tool_calls_entry("g", &["4"]),
            tool_results_entry("h", &["4"]),
        ])
        .await?;
    let log = given.read_log(&writer.thread).await?;
    let message_count = writer.head_context().await?.context.messages.len();
    for messages in 0..=10 {
        let context = load_context_within(&writer, Budget::Messages(messages)).await?;
        let short_form = short_form(&context);
        for call in ["1", "2", "3", "4"] {
            let (has_call, has_result) =
                (short_form.contains(&format!("!{call}")), short_form.contains(&format!("?{call}=")));
            expect_eq(has_call, has_result).map_err(|failure| failure.about(format!("{messages}: {short_form}")))?;
        }
        expect(short_form.starts_with('s'), format!("the system message is missing: {short_form}"))?;
        expect_eq(context.messages.len() + context.left_out.len(), message_count)?;
    }
    expect_eq(given.read_log(&writer.thread).await?, log)
}
