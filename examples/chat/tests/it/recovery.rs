//! Kills the program at each kind of point in an answer. It goes on where it stopped (SC-5).

use std::{path::Path, time::Duration};

use crate::{FakeServer, MODELS, Mode, Point, Program, fake::CONTINUE, kill::INTERRUPTED, store};

const QUESTION: &str = "explain 17 25";
const TEXT: &str = "I add 17 and 25.";
const CALL: &str = r#"add{"a":17,"b":25}"#;

/// Asks the question, kills the program once the answer has come up to a point, and starts it again. Returns what it
/// printed when it went on.
async fn kill_at(point: Point, folder: &Path, server: &FakeServer, model: (&str, &str)) -> String {
    server.set_next_modes([Mode::HangAt(point)]);
    let mut program = Program::start_with_model(folder, server, model);
    program.send(QUESTION);
    match point {
        Point::Begin => {
            while server.requests().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Point::Text => program.wait_for("I add "),
        Point::Call => store::wait_for_checkpoint(folder, |answer| answer.call_in_flight.is_some()).await,
        Point::WholeCall => store::wait_for_checkpoint(folder, |answer| !answer.finished_calls.is_empty()).await,
    }
    program.kill();
    assert_eq!(store::messages(folder).await, [format!("user: {QUESTION}")]);
    assert_eq!(store::outcomes(folder).await, ["running"]);
    let program = Program::start(folder, server, &[]);
    let output = program.output_since_command.clone();
    assert!(program.end().success());
    server.expect_no_violations();
    assert_eq!(store::outcomes(folder).await, [INTERRUPTED, "NaturalEnd"]);
    output
}

/// Checks the thread after a kill at a point, for each API. `answer` are the messages between the question and the
/// result of the tool.
async fn check_thread(point: Point, models: &[(&str, &str)], answer: &[&str], requests: usize) {
    for model in models {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        let output = kill_at(point, folder.path(), &server, *model).await;
        let expected_end = "[add({\"a\":17,\"b\":25}): 42]\nThe sum is 42.\n> ";
        assert!(output.ends_with(expected_end), "{model:?}: {output}");
        let question = format!("user: {QUESTION}");
        let end = ["tool: Text(\"42\")", "assistant: The sum is 42."];
        let expected = [&[question.as_str()], answer, &end].concat();
        let messages = store::messages(folder.path()).await;
        let shortened = messages.iter().map(|line| if line.contains(CONTINUE) { "continue" } else { line.as_str() });
        assert_eq!(shortened.collect::<Vec<_>>(), expected, "{model:?}");
        assert_eq!(server.requests().len(), requests, "{model:?}");
    }
}

#[tokio::test]
async fn an_answer_of_which_nothing_was_received_is_asked_for_again() {
    let answer = format!("assistant: {TEXT} {CALL}");
    check_thread(Point::Begin, &MODELS, &[&answer], 3).await;
}

#[tokio::test]
async fn an_answer_that_was_killed_in_its_text_continues_after_that_text() {
    let rest = format!("assistant: 17 and 25. {CALL}");
    check_thread(Point::Text, &MODELS, &["assistant: I add ", "continue", &rest], 3).await;
}

/// Google sends each call in one event, so no call is in flight there.
#[tokio::test]
async fn an_answer_that_was_killed_in_a_call_continues_before_the_call() {
    let [text, call] = [TEXT, CALL].map(|part| format!("assistant: {part}"));
    check_thread(Point::Call, &MODELS[..3], &[&text, "continue", &call], 3).await;
}

#[tokio::test]
async fn calls_that_were_received_in_full_are_executed_without_asking_again() {
    let answer = format!("assistant: {TEXT} {CALL}");
    check_thread(Point::WholeCall, &MODELS, &[&answer], 2).await;
}

#[tokio::test]
async fn a_chat_that_was_killed_twice_in_one_answer_continues_it() {
    for model in MODELS {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        server.set_next_modes([Mode::HangAt(Point::Text), Mode::HangAt(Point::Text)]);
        let mut program = Program::start_with_model(folder.path(), &server, model);
        program.send("one two three four five six");
        program.wait_for("You said: ");
        program.kill();
        let mut program = Program::start_without_waiting(folder.path(), &server);
        program.wait_for("one two ");
        program.kill();
        let mut program = Program::start(folder.path(), &server, &[]);
        assert!(program.output_since_command.ends_with("three four five six\n> "), "{model:?}");
        assert_eq!(program.ask("hello"), "You said: hello\n", "{model:?}");
        assert!(program.end().success());
        server.expect_no_violations();
        let messages = store::messages(folder.path()).await;
        let parts: Vec<_> = messages.iter().filter_map(|line| line.strip_prefix("assistant: ")).collect();
        assert_eq!(parts, ["You said: ", "one two ", "three four five six", "You said: hello"], "{model:?}");
        assert_eq!(store::outcomes(folder.path()).await, [INTERRUPTED, INTERRUPTED, "NaturalEnd", "NaturalEnd"]);
    }
}
