//! Commands for long threads: compact, step and compare (CX-16, CX-20 to CX-22).

use std::fs;

use serde_json::{Value, json};

use crate::helpers::{TestStore, value_at};

/// Returns a store whose thread `t` has a call that failed.
fn store_with_failed_call() -> TestStore {
    let store = TestStore::new();
    store.append("t", "read the file");
    let call = json!({"role": "assistant", "blocks": [{"tool_use": {"id": "c-1", "name": "read", "input": {}}}]});
    let result = json!({"role": "tool", "blocks": [
        {"tool_result": {"tool_use_id": "c-1", "blocks": [{"text": "no such file"}], "is_error": true}}
    ]});
    for message in [call, result, json!({"role": "assistant", "blocks": [{"text": "It does not exist."}]})] {
        store.run_with_input(&["append", "t"], &message.to_string()).expect_success();
    }
    store.append("t", "thanks");
    store
}

fn context_texts(store: &TestStore, thread: &str) -> Vec<Value> {
    let context = store.json(&["context", thread]);
    let messages = value_at(&context, "/messages").as_array().unwrap();
    messages.iter().map(|message| message.pointer("/message/blocks/0/text").cloned().unwrap_or_default()).collect()
}

fn output_lines(store: &TestStore, args: &[&str]) -> Vec<String> {
    store.run(args).expect_success().out.lines().map(str::to_owned).collect()
}

/// Tests CX-20: a command summarises the messages that it reads from standard input.
#[test]
fn a_command_summarises_the_older_messages() {
    let store = store_with_failed_call();
    let file = store.sibling_path("input");
    let exec = format!("cat > {}; echo; echo \"of $AGENTSTORE_THREAD_ID\"", file.display());
    let compacted = store.json(&["compact", "t", "--force", "--exec", &exec]);
    assert_eq!(
        (value_at(&compacted, "/outcome"), value_at(&compacted, "/summarized")),
        (&json!("compacted"), &json!(3))
    );
    assert_eq!(value_at(&compacted, "/receipt/version"), &json!(6));
    assert!(value_at(&compacted, "/tokens_after").as_u64() < value_at(&compacted, "/tokens").as_u64(), "{compacted}");
    let input = fs::read_to_string(file).unwrap();
    assert!(
        input.starts_with("## user\nread the file\n## assistant\n[call `c-1` of `read`: {}]\n## tool\n"),
        "{input}"
    );
    assert!(input.contains("no such file") && input.trim_end().ends_with("nothing else."), "{input}");
    let context = store.json(&["context", "t"]);
    assert_eq!(value_at(&context, "/messages/0/message/blocks/1/text"), "of t");
    assert_eq!(context_texts(&store, "t")[1..], [json!("It does not exist."), json!("thanks")]);
    // Only the summary is before the messages that stay.
    let again = store.json(&["compact", "t", "--force", "--exec", "false"]);
    assert_eq!(value_at(&again, "/outcome"), "nothing_to_compact");
    let text = store.run(&["compact", "t", "--force", "--exec", "false"]).expect_success().out;
    assert!(text.starts_with("nothing to do: nothing but system messages and an earlier summary"), "{text}");
}

#[test]
fn a_command_can_read_the_messages_as_documents() {
    let store = store_with_failed_call();
    let file = store.sibling_path("input");
    let exec = format!("cat > {}; echo short", file.display());
    let out =
        store.run(&["compact", "t", "--force", "--input", "json", "--keep", "1", "--exec", &exec]).expect_success();
    assert!(out.out.starts_with("summarised 4 messages of thread t: "), "{out:?}");
    let input = fs::read_to_string(file).unwrap();
    let documents: Vec<Value> = input.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let roles: Vec<_> = documents.iter().map(|document| value_at(document, "/message/role").clone()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
}

#[test]
fn a_thread_is_compacted_only_when_it_is_due_and_a_dry_run_changes_nothing() {
    let store = store_with_failed_call();
    let compact = |args: &[&str]| store.json(&[&["compact", "t", "--exec", "echo short"], args].concat());
    let not_due = compact(&["--window", "200000"]);
    assert_eq!((value_at(&not_due, "/outcome"), value_at(&not_due, "/thread")), (&json!("not_due"), &json!("t")));
    let tokens = value_at(&not_due, "/tokens").as_u64().unwrap();
    let text = store.run(&["compact", "t", "--exec", "false", "--window", "200000"]).expect_success().out;
    assert_eq!(text, format!("nothing to do: {tokens} tokens and 50000 reserved are less than 200000\n"));
    let (window, reserve) = ((tokens + 10).to_string(), 10.to_string());
    let due = ["--window", &window, "--reserve", &reserve];
    let planned = store.json(&[&["compact", "t", "--dry-run"], &due[..]].concat());
    assert_eq!((value_at(&planned, "/outcome"), value_at(&planned, "/summarized")), (&json!("planned"), &json!(3)));
    assert_eq!(value_at(&planned, "/messages/0/message/blocks/0/text"), "read the file");
    // The messages to summarise have fewer tokens than the whole context.
    let summarized_tokens = value_at(&planned, "/summarized_tokens").as_u64().unwrap();
    assert!(0 < summarized_tokens && summarized_tokens < tokens, "{planned}");
    let shown = store.run(&["compact", "t", "--dry-run", "--force"]).expect_success().out;
    assert!(
        shown.starts_with(&format!("the context has about {tokens} tokens\n3 messages of about {summarized_tokens} "))
            && shown.contains("2 messages of about "),
        "{shown}"
    );
    assert_eq!(context_texts(&store, "t").len(), 5);
    assert_eq!(value_at(&compact(&due), "/outcome"), "compacted");
    assert_eq!(context_texts(&store, "t").len(), 3);
}

/// Tests CX-21: a command that fails or prints nothing changes nothing.
#[test]
fn a_failed_command_changes_nothing() {
    let store = store_with_failed_call();
    let context_before = store.json(&["context", "t"]);
    for (exec, reason) in [
        ("echo half; echo 'no model' >&2; exit 3", "the command ended with exit code 3: no model"),
        ("kill -9 $$", "the command was killed by signal 9"),
        ("true", "the command printed nothing"),
        ("printf ' \\n'", "the command printed nothing"),
        ("printf '\\377'", "the command printed something else than UTF-8 text"),
        ("head -c 1048577 /dev/zero | tr '\\0' x", "the command printed 1048577 bytes"),
        ("/not/there", "exit code 127"),
    ] {
        let args = ["compact", "t", "--force", "--exec", exec];
        store.run(&args).expect_failure(1, &["there is no summary, so nothing was changed", reason]);
        let error = store.run(&[&args[..], &["--json"]].concat()).error();
        assert_eq!(value_at(&error, "/outcome"), "not_applied", "{error}");
    }
    assert_eq!(store.json(&["context", "t"]), context_before);
}

#[test]
fn a_compaction_needs_a_condition_and_a_command() {
    let store = store_with_failed_call();
    for (args, expected_text) in [
        (&["compact", "t", "--exec", "true"][..], "--window"),
        (&["compact", "t", "--force"], "--exec"),
        (&["compact", "t", "--force", "--window", "5", "--exec", "true"], "cannot be used with"),
        (&["compact", "t", "--window", "50000", "--exec", "true"], "must be smaller than `--window`"),
        (&["compact", "t", "--force", "--reserve", "5", "--exec", "true"], "cannot be used with"),
        (&["compact", "t", "--force", "--keep", "0", "--exec", "true"], "--keep"),
    ] {
        store.run(args).expect_failure(2, &[expected_text]);
    }
    store.run(&["compact", "u", "--force", "--exec", "true"]).expect_failure(1, &["thread `u` does not exist"]);
}

#[test]
fn each_step_shows_what_it_changes_in_the_context() {
    let store = store_with_failed_call();
    let steps = store.run(&["step", "t", "--json"]).expect_success().documents();
    let numbers_of_step = |step: &Value| {
        let length = |field: &str| value_at(step, field).as_array().unwrap().len();
        (
            value_at(step, "/entry/seq").as_u64().unwrap(),
            value_at(step, "/context_messages").clone(),
            length("/removed"),
            length("/added"),
        )
    };
    assert_eq!(
        steps.iter().map(numbers_of_step).collect::<Vec<_>>(),
        // For each step: the number of the entry, the messages of the context, and how many were removed and added. A
        // call is first answered by an error that is not in the log, and then by its result.
        [(1, json!(1), 0, 1), (2, json!(3), 0, 2), (3, json!(3), 1, 1), (4, json!(4), 0, 1), (5, json!(5), 0, 1)]
    );
    let failed: Vec<_> = steps.iter().filter_map(|step| step.get("failed")).collect();
    assert_eq!(failed, [&json!("the result of call c-1")]);
    assert_eq!((value_at(&steps[2], "/step"), value_at(&steps[2], "/of")), (&json!(3), &json!(5)));
    let with_context = store.run(&["step", "t", "--at", "@3", "--context", "--json"]).expect_success().documents();
    assert_eq!(value_at(&with_context[2], "/context").as_array().unwrap().len(), 3);
    let text = output_lines(&store, &["step", "t", "--at", "@3"]);
    let third_step: Vec<_> = text.iter().skip_while(|line| !line.starts_with("step 3 of 3  @3 tool")).skip(1).collect();
    assert_eq!(
        third_step[..5],
        [
            "  failed: the result of call c-1",
            "  the context has 3 messages:",
            "  ⋯ 2 messages the same",
            "  - ~tool      ← (failed) no result was recorded",
            "  +  tool      ← (failed) no such file",
        ]
    );
    assert!(text.iter().all(|line| line.chars().count() <= 100), "{text:?}");
}

#[test]
fn a_path_can_be_continued_in_a_new_thread() {
    let store = store_with_failed_call();
    let copy = store.json(&["step", "t", "--at", "@3", "--fork", "u"]);
    assert_eq!((value_at(&copy, "/thread"), value_at(&copy, "/entries")), (&json!("u"), &json!(3)));
    store.append("u", "look elsewhere");
    assert_eq!(context_texts(&store, "u").len(), 4);
    assert_eq!(context_texts(&store, "t").len(), 5);
    let out = store.run(&["step", "t", "--fork"]).expect_success().out;
    assert!(out.contains("has a copy of 5 entries"), "{out}");
    assert_eq!(value_at(&store.json(&["threads"]), "/threads").as_array().unwrap().len(), 3);
    store.run(&["step", "t", "--at", "@1", "--fork", "u"]).expect_failure(1, &["thread `u` already exists"]);
    store.json(&["rewind", "t", "--start"]);
    assert_eq!(output_lines(&store, &["step", "t"]), ["nothing to show: the path has no entries"]);
    assert_eq!(store.run(&["step", "t", "--json"]).expect_success().out, "");
    store.run(&["step", "t", "--fork"]).expect_failure(2, &["name an entry with `--at`"]);
}

/// Tests CX-16: two contexts can be compared, whether they are of one thread or of two threads.
#[test]
fn two_contexts_are_compared() {
    let store = store_with_failed_call();
    store.json(&["fork", "t", "--at", "@4", "--message", "try the other one"]);
    store.json(&["step", "t", "--at", "@4", "--fork", "u@1"]);
    store.append("u@1", "thanks");
    let compared = store.json(&["compare", "t@5", "@6"]);
    assert_eq!(parts(&compared), ["both 4", "a 1", "b 1"]);
    let fourth = store.run(&["step", "t", "--at", "@4", "--json"]).expect_success().documents().remove(3);
    assert_eq!(value_at(&compared, "/shared_entry"), value_at(&fourth, "/entry/id"));
    assert_eq!(value_at(&compared, "/parts/2/messages/0/message/blocks/0/text"), "try the other one");
    // A thread whose id contains an `@`, and equal messages in different entries.
    let threads = store.json(&["compare", "t@5", "u@1"]);
    assert_eq!((parts(&threads), value_at(&threads, "/b/thread")), (vec!["both 5".to_owned()], &json!("u@1")));
    assert_eq!(value_at(&threads, "/shared_entry"), &Value::Null);
    assert_eq!(value_at(&store.json(&["compare", "u@1@2", "u@1"]), "/a/messages"), &json!(3));
    let text = store.run(&["compare", "t@5", "@6"]).expect_success().out;
    for part in
        ["a  thread t, entry ", "  ⋯ 4 messages the same", "  -  user      thanks", "  +  user      try the other one"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let same = store.run(&["compare", "t", "t"]).expect_success().out;
    assert!(same.contains("the contexts are the same"), "{same}");
    store.run(&["compare", "t", "t@99"]).expect_failure(1, &["entry `@99` does not exist"]);
    store.run(&["compare", "t", "v"]).expect_failure(1, &["thread `v` does not exist"]);
    store.json(&["compact", "t", "--force", "--exec", "echo short"]);
    let compacted = store.json(&["compare", "t@6", "t"]);
    assert_eq!(parts(&compacted), ["a 3", "b 1", "both 2"]);
}

/// Returns the parts of a comparison: which context has them, and the number of messages.
fn parts(compared: &Value) -> Vec<String> {
    let parts = value_at(compared, "/parts").as_array().unwrap();
    let text = |part: &Value| {
        format!("{} {}", value_at(part, "/in").as_str().unwrap(), value_at(part, "/messages").as_array().unwrap().len())
    };
    parts.iter().map(text).collect()
}

#[test]
fn common_messages_between_two_differences_are_found() {
    let store = TestStore::new();
    for (thread, texts) in [("a", ["one", "two", "three", "four"]), ("b", ["1", "two", "three", "4"])] {
        for text in texts {
            store.append(thread, text);
        }
    }
    assert_eq!(parts(&store.json(&["compare", "a", "b"])), ["a 1", "b 1", "both 2", "a 1", "b 1"]);
    let comparison_lines = output_lines(&store, &["compare", "a", "b"]);
    assert_eq!(
        comparison_lines[3..],
        [
            "  -  user      one",
            "  +  user      1",
            "  ⋯ 2 messages the same",
            "  -  user      four",
            "  +  user      4",
        ]
    );
    assert_eq!(
        output_lines(&store, &["compare", "a", "b", "--all"])[5..7],
        ["     user      two", "     user      three"]
    );
}
