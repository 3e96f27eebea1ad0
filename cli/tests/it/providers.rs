//! Threads for models of several providers: append, context, check and convert (SE-2 to SE-4, SE-8).

use serde_json::{Value, json};

use crate::helpers::{TestStore, value_at};

const CLAUDE: [&str; 4] = ["--provider", "anthropic", "--model", "claude-sonnet-4-5"];
const GPT: [&str; 4] = ["--provider", "openai-responses", "--model", "gpt-5-nano"];

fn with_target<'a>(args: &[&'a str], target: [&'a str; 4]) -> Vec<&'a str> {
    [args, &target].concat()
}

fn request_body(store: &TestStore, target: [&str; 4]) -> Value {
    let response = store.run(&with_target(&["context", "t"], target));
    assert_eq!(response.code, 0, "{response:?}");
    serde_json::from_str(&response.out).unwrap()
}

/// The content of an answer with signed thinking.
fn signed_content() -> Value {
    json!([{"type": "thinking", "thinking": "Easy.", "signature": "EqQB"}, {"type": "text", "text": "Paris."}])
}

/// Returns a store with a question in the thread `t`, and the answer of an Anthropic model.
fn store_with_answer() -> TestStore {
    let store = TestStore::new();
    store.run(&["append", "t", "--message", "Capital of France?"]).expect_success();
    let reply =
        json!({"id": "msg_1", "role": "assistant", "content": signed_content(), "stop_reason": "end_turn"}).to_string();
    store.run_with_input(&with_target(&["append", "t"], CLAUDE), &reply).expect_success();
    store
}

#[test]
fn a_thread_switches_to_another_provider_and_back() {
    let store = store_with_answer();
    store.run(&["append", "t", "--message", "And of Italy?"]).expect_success();
    let to_gpt = store.run(&with_target(&["context", "t"], GPT));
    assert_eq!(
        (to_gpt.code, to_gpt.out.contains("EqQB"), to_gpt.err.contains("1 loss;")),
        (0, false, true),
        "{to_gpt:?}"
    );
    let reply = json!({"id": "resp_1", "output": [
        {"type": "message", "id": "msg_2", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Rome.", "annotations": []}]}
    ]});
    store.run_with_input(&with_target(&["append", "t"], GPT), &reply.to_string()).expect_success();
    store.run(&["append", "t", "--message", "Thanks."]).expect_success();
    let claude_body = request_body(&store, CLAUDE);
    assert_eq!(value_at(&claude_body, "/messages/1/content"), &signed_content());
    assert_eq!(value_at(&claude_body, "/messages/3/content/0/text"), "Rome.");
    assert_eq!(value_at(&request_body(&store, GPT), "/input/3"), value_at(&reply, "/output/0"));
}

#[test]
fn settings_are_part_of_the_body() {
    let store = store_with_answer();
    let settings = r#"{"max_tokens":64,"tools":[]}"#;
    let args = with_target(&["context", "t", "--request-settings", settings], CLAUDE);
    let body: Value = serde_json::from_str(&store.run(&args).expect_success().out).unwrap();
    assert_eq!((value_at(&body, "/max_tokens"), value_at(&body, "/model")), (&json!(64), &json!("claude-sonnet-4-5")));
    for command in ["check", "convert"] {
        store.run(&[command, "t"]).expect_failure(2, &["--provider <API>"]);
    }
    let refused = store.run(&["context", "t", "--provider", "acme", "--model", "m"]);
    assert!(refused.code == 2 && refused.err.contains("openai-responses"), "{refused:?}");
}

/// If the input is an error of the API in place of a reply, the command shows the text of the error.
#[test]
fn an_error_of_the_api_is_not_a_message() {
    let store = store_with_answer();
    let context_before = store.json(&["context", "t"]);
    for error in [
        json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}),
        json!({"error": {"code": 400, "message": "invalid x-api-key", "status": "INVALID_ARGUMENT"}}),
    ] {
        let response = store.run_with_input(&with_target(&["append", "t"], CLAUDE), &error.to_string());
        response.expect_failure(2, &["the API answered with an error: invalid x-api-key"]);
    }
    assert_eq!(store.json(&["context", "t"]), context_before);
}

#[test]
fn a_check_lists_what_would_be_lost() {
    let store = store_with_answer();
    let refused = store.run(&with_target(&["check", "t"], GPT));
    assert!(refused.code == 1 && refused.out.contains("thinking") && refused.out.contains("1 loss"), "{refused:?}");
    assert!(store.run(&with_target(&["check", "t"], CLAUDE)).expect_success().out.contains("nothing is lost"));
}

/// Details of a result, which no model gets, do not make a check fail.
#[test]
fn a_check_ends_with_0_if_the_history_is_sent_unchanged() {
    let store = store_with_call();
    let result = json!({"role": "tool", "blocks": [
        {"tool_result": {"tool_use_id": "c1", "blocks": [{"text": "4 C"}], "details": {"ms": 12}}}]});
    store.run_with_input(&["append", "t"], &result.to_string()).expect_success();
    let checked = store.run(&with_target(&["check", "t"], CLAUDE)).expect_success();
    assert_eq!(checked.out, "nothing is lost; the details of 1 tool result are for people only\n");
    let report = store.json(&with_target(&["check", "t"], CLAUDE));
    assert_eq!(
        (value_at(&report, "/compatible"), value_at(&report, "/losses/0/kind")),
        (&json!(true), &json!("details"))
    );
    // If the body has the whole history, nothing is printed to standard error.
    store.run(&with_target(&["context", "t"], CLAUDE)).expect_success();
}

#[test]
fn a_conversion_makes_a_new_thread() {
    let store = store_with_answer();
    let converted = store.json(&with_target(&["convert", "t", "--to", "new"], GPT));
    assert_eq!((value_at(&converted, "/thread"), value_at(&converted, "/messages")), (&json!("new"), &json!(2)));
    assert_eq!(value_at(&converted, "/losses/0/kind"), "thinking");
    assert!(store.run(&with_target(&["check", "new"], GPT)).expect_success().out.contains("nothing is lost"));
}

/// Returns a store whose thread `t` ends with a call.
fn store_with_call() -> TestStore {
    let store = TestStore::new();
    store.run(&["append", "t", "--message", "Weather in Oslo?"]).expect_success();
    let call = json!({"role": "assistant", "blocks": [{"tool_use": {"id": "c1", "name": "weather", "input": {}}}]});
    store.run_with_input(&["append", "t"], &call.to_string()).expect_success();
    store
}

#[test]
fn a_check_treats_open_calls_as_the_request_will() {
    let store = store_with_call();
    let answered = store.run(&with_target(&["check", "t"], CLAUDE));
    assert!(answered.code == 1 && answered.out.contains("no result was recorded"), "{answered:?}");
    let dropped = store.run(&with_target(&["check", "t", "--open-calls", "drop"], CLAUDE)).expect_success();
    assert!(dropped.out.contains("nothing is lost"), "{dropped:?}");
}

#[test]
fn a_body_that_the_api_refuses_is_printed_with_a_warning() {
    let store = store_with_call();
    let result =
        json!({"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "c1", "blocks": [{"text": "4 C"}]}}]});
    store.run_with_input(&["append", "t"], &result.to_string()).expect_success();
    let settings = r#"{"thinking":{"type":"enabled","budget_tokens":1024}}"#;
    let printed = store.run(&with_target(&["context", "t", "--request-settings", settings], CLAUDE));
    assert!(printed.code == 0 && printed.out.contains("\"messages\""), "{printed:?}");
    assert!(printed.err.starts_with("refused: with thinking switched on"), "{printed:?}");
    let checked = store.run(&with_target(&["check", "t", "--request-settings", settings], CLAUDE));
    assert!(checked.code == 1 && checked.out.contains("refused: with thinking switched on"), "{checked:?}");
}
