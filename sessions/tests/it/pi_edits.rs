//! Tests of pi lines that edit an earlier message in the context. Of several edits of a message, the newest one on the
//! path counts. The log keeps the original message.

use sessions::{ImportOptions, IssueCode};
use store_core::{Block, BlockKind};

use crate::{
    helpers::custom_kind,
    pi_cases::{HEADER, Imported, import_lines, message, user},
};

fn line(kind: &str, id: &str, parent: &str, fields: &str) -> String {
    format!(r#"{{"type":"{kind}","id":"{id}","parentId":"{parent}","timestamp":"2026-01-05T10:00:02.000Z",{fields}}}"#)
}

fn edit(id: &str, parent: &str, target: &str, replacement: &str) -> String {
    line("context_edit", id, parent, &format!(r#""targetId":"{target}","replacement":{replacement}"#))
}

/// The texts of the messages in the context.
async fn texts(imported: &Imported) -> Vec<String> {
    let text = |block: &Block| match &block.kind {
        BlockKind::Text(text) => text.clone(),
        BlockKind::ToolResult(result) => match &result.blocks[0].kind {
            BlockKind::Text(text) => format!("={text}"),
            _ => String::new(),
        },
        _ => "?".to_owned(),
    };
    let context = imported.context().await;
    context.messages.iter().map(|found| found.message.blocks.iter().map(text).collect::<Vec<_>>().join("|")).collect()
}

#[tokio::test]
async fn the_newest_edit_of_a_message_on_the_path_counts() {
    let lines = [
        HEADER.to_owned(),
        user("a", "null"),
        user("b", "\"a\""),
        edit("e1", "b", "a", "null"),
        edit("e2", "e1", "b", r#"{"content":"short"}"#),
        edit("e3", "e2", "b", r#"{"content":[{"type":"text","text":"shorter"}]}"#),
        user("c", "\"e3\""),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    assert_eq!(texts(&imported).await, ["shorter", "text of c"]);
    assert_eq!(imported.report.issues, []);
    assert_eq!(imported.entry("a").await.message().unwrap().blocks, [Block::text("text of a")]);
    // On a branch that does not contain the last edit, the edit before it counts.
    let branch = [&lines[..], &[user("d", "\"e2\"")]].concat();
    let imported = import_lines(&branch, &ImportOptions::default()).await;
    assert_eq!(texts(&imported).await, ["short", "text of d"]);
}

#[tokio::test]
async fn the_result_of_a_call_can_be_edited() {
    let call = r#"{"role":"assistant","content":[{"type":"toolCall","id":"t","name":"ls","arguments":{}}],"provider":"p","model":"m"}"#;
    let result = r#"{"role":"toolResult","toolCallId":"t","toolName":"ls","content":[{"type":"text","text":"long"}],"isError":false}"#;
    let lines = [
        HEADER.to_owned(),
        message("a", "null", call),
        message("r", "\"a\"", result),
        edit("e", "r", "r", r#"{"content":"cleared"}"#),
        user("b", "\"e\""),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    assert_eq!(texts(&imported).await, ["?", "=cleared", "text of b"]);
    assert_eq!(imported.context().await.repairs, []);
}

#[tokio::test]
async fn an_edit_of_a_message_that_a_compaction_covers_changes_nothing() {
    for target in ["a", "b"] {
        let lines = [
            HEADER.to_owned(),
            user("a", "null"),
            user("b", "\"a\""),
            user("c", "\"b\""),
            line("compaction", "k", "c", r#""summary":"S","firstKeptEntryId":"c","tokensBefore":1"#),
            edit("e", "k", target, "null"),
            edit("f", "e", "c", r#"{"content":"edited"}"#),
        ];
        let imported = import_lines(&lines, &ImportOptions::default()).await;
        assert_eq!(texts(&imported).await, ["[summary of the earlier conversation]|S", "edited"], "{target}");
    }
}

#[tokio::test]
async fn a_compaction_after_an_edit_keeps_the_edited_message() {
    let start = [HEADER.to_owned(), user("a", "null"), user("b", "\"a\""), edit("e", "b", "b", r#"{"content":"x"}"#)];
    let compaction_that_keeps_from = |first: &str| {
        line("compaction", "k", "e", &format!(r#""summary":"S","firstKeptEntryId":"{first}","tokensBefore":1"#))
    };
    let imported =
        import_lines(&[&start[..], &[compaction_that_keeps_from("b")]].concat(), &ImportOptions::default()).await;
    assert_eq!(texts(&imported).await, ["[summary of the earlier conversation]|S", "x"]);
    // The second compaction keeps everything, so its replacement contains the edited message.
    let keeps_everything = line("compaction", "l", "k", r#""summary":"T","firstKeptEntryId":"a","tokensBefore":1"#);
    let imported = import_lines(
        &[&start[..], &[compaction_that_keeps_from("b"), keeps_everything]].concat(),
        &ImportOptions::default(),
    )
    .await;
    assert_eq!(texts(&imported).await, ["[summary of the earlier conversation]|T", "text of a", "x"]);
}

#[tokio::test]
async fn an_edit_that_names_no_message_of_its_path_is_kept_and_reported() {
    let lines = [
        HEADER.to_owned(),
        user("a", "null"),
        user("b", "\"a\""),
        edit("e1", "a", "b", "null"),
        edit("e2", "e1", "nobody", "null"),
        edit("e3", "e2", "e1", "null"),
        line("context_edit", "e4", "e3", r#""targetId":"a""#),
        edit("e5", "e4", "a", "7"),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    assert_eq!(texts(&imported).await, ["text of a"]);
    assert_eq!(imported.report.count(IssueCode::BadField), 5);
    assert_eq!(custom_kind(&*imported.entry("e1").await), "pi.context_edit");
}
