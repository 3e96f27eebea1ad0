//! Contexts with a budget: what is left out if a context is too large.

use std::sync::Arc;

use store_core::{Budget, Context, ContextRequest, Message, NewEntry, Role};

use super::sketch::{sketch, words};
use crate::{
    check::{Failure, Verdict, expect, expect_eq},
    given::Given,
    log::{
        draft::{answering, assistant, calling, compaction, entry, user, users},
        writer::Writer,
    },
};

/// Loads the context of the head with this budget.
async fn within(writer: &Writer<'_>, budget: Budget) -> Result<Context, Failure> {
    Ok(writer.context_by(ContextRequest::head().within(budget)).await?.context)
}

/// Returns the ids of the entries that were left out, separated by blanks.
fn left_out(context: &Context) -> String {
    crate::log::writer::join(context.left_out.iter().map(|entry| entry.as_str()))
}

/// A budget in tokens. The counter counts one token for each byte of the text of a message.
fn letters(max: u64) -> Budget {
    Budget::Tokens { max, counter: Arc::new(|message: &Message| words(message).len() as u64) }
}

fn system(name: &str) -> NewEntry {
    entry(name, Message::new(Role::System, vec![store_core::Block::text(name)]))
}

/// A context that is too large leaves out whole turns, the oldest first. A turn begins with user messages and ends
/// before the next ones, so that a call is left out together with its result. System messages stay. The entries that
/// were left out are listed.
pub(crate) async fn the_oldest_turns_are_left_out_first(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [system("s"), user("a"), assistant("b"), user("c")]).await?;
    writer.accept([calling("d", &["1"]), answering("e", &["1"]), assistant("f"), user("g"), assistant("h")]).await?;
    for (messages, wanted, gone) in [
        (9, "s a b c d!1 ?1=e f g h", ""),
        (100, "s a b c d!1 ?1=e f g h", ""),
        (8, "s c d!1 ?1=e f g h", "a b"),
        (7, "s c d!1 ?1=e f g h", "a b"),
        (6, "s g h", "a b c d e f"),
        (3, "s g h", "a b c d e f"),
    ] {
        let context = within(&writer, Budget::Messages(messages)).await?;
        let found = (sketch(&context), left_out(&context));
        expect_eq(found, (wanted.to_owned(), gone.to_owned())).map_err(|failure| failure.about(messages))?;
    }
    // The counter counts one token for each letter, one for the line break in the message `d`, and none for results.
    let context = within(&writer, letters(7)).await?;
    expect_eq((sketch(&context).as_str(), left_out(&context).as_str()), ("s c d!1 ?1=e f g h", "a b"))?;
    expect_eq(writer.context().await?.context.left_out, vec![])
}

/// The last summary is kept, whatever else is left out.
pub(crate) async fn the_last_summary_is_always_kept(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", users(&["a", "b"])).await?;
    writer.accept([assistant("c"), compaction("s", "a", "c"), user("d"), assistant("e")]).await?;
    writer.accept([user("f"), assistant("g")]).await?;
    expect_eq(sketch(&writer.context().await?.context), "[s] d e f g")?;
    let context = within(&writer, Budget::Messages(3)).await?;
    expect_eq((sketch(&context).as_str(), left_out(&context).as_str()), ("[s] f g", "d e"))
}

/// However small the budget is, the context has no result without its call and no call without its result. The log does
/// not change.
pub(crate) async fn no_budget_separates_a_call_from_its_result(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", [system("s"), user("a")]).await?;
    writer.accept([calling("b", &["1", "2"]), answering("c", &["1", "2"]), calling("d", &["3"])]).await?;
    writer.accept([answering("e", &["3"]), user("f"), calling("g", &["4"]), answering("h", &["4"])]).await?;
    let log = given.log(&writer.thread).await?;
    let whole = writer.context().await?.context.messages.len();
    for messages in 0..=10 {
        let context = within(&writer, Budget::Messages(messages)).await?;
        let sketch = sketch(&context);
        for call in ["1", "2", "3", "4"] {
            let (asked, answered) = (sketch.contains(&format!("!{call}")), sketch.contains(&format!("?{call}=")));
            expect_eq(asked, answered).map_err(|failure| failure.about(format!("{messages}: {sketch}")))?;
        }
        expect(sketch.starts_with('s'), format!("the system message is missing: {sketch}"))?;
        expect_eq(context.messages.len() + context.left_out.len(), whole)?;
    }
    expect_eq(given.log(&writer.thread).await?, log)
}
