//! Branches of a conversation.

use crate::{FakeServer, MODELS, Program};

#[tokio::test]
async fn a_conversation_continues_from_any_entry() {
    let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
    let mut program = Program::start_with_model(folder.path(), &server, MODELS[0]);
    program.ask("one");
    program.ask("two");
    assert_eq!(program.ask("/branch another two"), "You said: another two\n");
    let expected = "\
*   1 user       one
*   2 assistant  You said: one
    3 user       two
    4 assistant  You said: two
*   5 user       another two  (after 2)
*   6 assistant  You said: another two
";
    assert_eq!(program.ask("/tree"), expected);

    // The conversation returns to the first branch.
    assert_eq!(program.ask("/rewind 4"), "");
    assert_eq!(program.ask("three"), "You said: three\n");
    assert_eq!(server.last_texts(), ["one", "You said: one", "two", "You said: two", "three"]);

    // The same question gets another answer. It is entry 11, because the entries of the two rewinds have numbers, too.
    program.ask("/rewind 3");
    assert_eq!(program.ask("/retry"), "You said: two\n");
    assert!(
        program.ask("/tree").ends_with("*  11 assistant  You said: two  (after 3)\n"),
        "{}",
        program.output_since_command
    );

    // A branch may begin before the first entry. `/branch` may also replace its first question.
    program.ask("/rewind 0");
    assert_eq!(program.ask("four"), "You said: four\n");
    assert_eq!(server.last_texts(), ["four"]);
    assert!(program.ask("/tree").contains("user       four  (a new beginning)\n"), "{}", program.output_since_command);
    assert_eq!(program.ask("/branch five"), "You said: five\n");
    assert_eq!(server.last_texts(), ["five"]);

    assert!(program.ask("/rewind 99").contains("there is no entry 99"));
    assert!(program.ask("/rewind 7").contains("error: "), "7 is the first rewind");
    assert!(program.end().success());
    server.expect_no_violations();

    // The head is stored, so the branch is still the same.
    let mut program = Program::start(folder.path(), &server, &[]);
    program.ask("six");
    assert_eq!(server.last_texts(), ["five", "You said: five", "six"]);
}

/// A branch begins at a call whose result is on another branch. The model is told that the call has no result.
#[tokio::test]
async fn a_branch_may_begin_at_a_call() {
    for model in MODELS {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        let mut program = Program::start_with_model(folder.path(), &server, model);
        program.ask("add 17 25");
        program.ask("/rewind 2");
        assert_eq!(program.ask("never mind"), "You said: never mind\n", "{model:?}");
        program.ask("/rewind 2");
        assert!(program.ask("/retry").ends_with("42]\nThe sum is 42.\n"), "{model:?}");
        assert!(program.end().success());
        server.expect_no_violations();
    }
}
