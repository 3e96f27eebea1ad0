//! Turns with each provider, and with several in one conversation.

use serde_json::Value;

use crate::{FakeServer, MODELS, Program, store};

fn run_two_turns(model: (&str, &str)) -> (tempfile::TempDir, FakeServer) {
    let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
    let mut program = Program::start_with_model(folder.path(), &server, model);
    assert_eq!(program.ask("add 17 25"), "[add({\"a\":17,\"b\":25}): 42]\nThe sum is 42.\n", "{model:?}");
    assert_eq!(program.ask("add 1 2"), "[add({\"a\":1,\"b\":2}): 3]\nThe sum is 3.\n", "{model:?}");
    assert!(program.end().success());
    server.expect_no_violations();
    (folder, server)
}

/// A call, its result and the answer are separate steps. The server refuses a request in which a result, a signature or
/// an item is missing.
#[tokio::test]
async fn two_turns_with_a_tool_call_are_answered_by_each_provider() {
    for model in MODELS {
        let (folder, server) = run_two_turns(model);
        let call = |a: u32, b: u32| format!("assistant: add{{\"a\":{a},\"b\":{b}}}");
        let expected = [
            "user: add 17 25".to_owned(),
            call(17, 25),
            "tool: Text(\"42\")".to_owned(),
            "assistant: The sum is 42.".to_owned(),
            "user: add 1 2".to_owned(),
            call(1, 2),
            "tool: Text(\"3\")".to_owned(),
            "assistant: The sum is 3.".to_owned(),
        ];
        assert_eq!(store::messages(folder.path()).await, expected, "{model:?}");
        let runs = store::runs(folder.path()).await;
        assert_eq!(store::outcomes(folder.path()).await, ["NaturalEnd", "NaturalEnd"]);
        assert_eq!(runs.iter().map(|run| run.steps).collect::<Vec<_>>(), [3, 3]);
        assert!(runs.iter().all(|run| run.spent.output > 0), "{runs:?}");
        assert_eq!(server.requests().len(), 4);
    }
}

/// The first provider gets back what it signed, and nothing that another provider signed.
#[tokio::test]
async fn the_first_provider_gets_its_signed_blocks_back_after_another_one_answered() {
    for (at, model) in MODELS.into_iter().enumerate() {
        let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
        let mut program = Program::start_with_model(folder.path(), &server, model);
        program.ask("add 17 25");
        let issued_parts: Vec<Value> = server.issued();
        for (provider, name) in MODELS.into_iter().cycle().skip(at + 1).take(3) {
            program.ask(&format!("/provider {provider} {name}"));
            assert!(program.ask("add 1 2").ends_with("The sum is 3.\n"), "{}", program.output_since_command);
        }
        program.ask(&format!("/provider {} {}", model.0, model.1));
        assert!(program.ask("add 3 4").ends_with("The sum is 7.\n"), "{}", program.output_since_command);
        assert!(program.end().success());
        server.expect_no_violations();
        let last = server.requests().pop().unwrap();
        assert_eq!(issued_parts.len(), 2);
        for value in issued_parts.into_iter().filter(|value| !value.is_null()) {
            assert!(contains(&last, &value), "{model:?}: {value} is not in {last}");
        }
        // The model is stored, so the next start needs no options.
        let mut program = Program::start(folder.path(), &server, &[]);
        assert!(program.output_since_command.contains(model.1), "{}", program.output_since_command);
        assert_eq!(program.ask("hello"), "You said: hello\n");
    }
}

/// Returns whether `haystack` is equal to `needle` or contains it. A list is also contained in a longer list that has
/// its elements next to each other.
fn contains(haystack: &Value, needle: &Value) -> bool {
    if haystack == needle {
        return true;
    }
    match haystack {
        Value::Array(items) => {
            let is_part = needle.as_array().is_some_and(|part| items.windows(part.len()).any(|window| window == part));
            is_part || items.iter().any(|item| contains(item, needle))
        }
        Value::Object(fields) => fields.values().any(|value| contains(value, needle)),
        _ => false,
    }
}

#[tokio::test]
async fn settings_and_unknown_commands_are_checked() {
    let (folder, server) = (tempfile::tempdir().unwrap(), FakeServer::start());
    let mut program = Program::start(folder.path(), &server, &[]);
    assert!(program.ask("hello").contains("choose a model"));
    assert!(program.ask("/provider acme m").contains("error: "));
    assert!(program.ask("/provider anthropic").contains("error: "));
    assert!(program.ask("/provider anthropic m 1").contains("the settings are not an object"));
    assert!(program.ask("/rewind x").contains("error: "));
    assert!(program.ask("/nonsense").contains("is not a command"));
    assert!(program.ask("/retry").contains("no answer is missing"));
    assert!(program.ask("/branch x").contains("there is no question yet"));
    assert!(program.ask("/help").contains("/rewind N"));
    program.ask(r#"/provider anthropic claude-sonnet-4-5 {"max_tokens":77,"temperature":0}"#);
    assert_eq!(program.ask("hello"), "You said: hello\n");
    let request = server.requests().pop().unwrap();
    assert_eq!((&request["max_tokens"], &request["temperature"]), (&77.into(), &0.into()));
    assert!(program.end().success());
    assert_eq!(store::messages(folder.path()).await, ["user: hello", "assistant: You said: hello"]);
}
