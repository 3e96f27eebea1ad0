//! Tests of conversions of a thread into a new thread for another provider (SE-4), and of contexts that two models
//! share (SE-3, SE-8).

use std::sync::Arc;

use providers::{
    CONVERTED_FROM, CompileOptions, ConvertOptions, LOSSES_KIND, Target, check, compile, convert, normalize,
};
use serde_json::{Value, json};
use store_core::{
    BlockKind, Body, Commit, CommitCoordinator, Context, ContextMessage, ContextRequest, EntryId, EntryQuery,
    ErrorKind, Guard, Json, Message, NewEntry, Store, TenantId, ThreadFields, ThreadId,
};
use store_memory::{MemoryConfig, MemoryStore};

fn target(provider: &str, model: &str) -> Target {
    Target::new(provider.parse().unwrap(), model)
}

fn claude() -> Target {
    target("anthropic", "claude-sonnet-4-5")
}

fn thread_id(text: &str) -> ThreadId {
    ThreadId::new(text).unwrap()
}

fn read(target: &Target, body: &Value) -> Vec<Message> {
    normalize(target, &Json::of(body).unwrap()).unwrap().messages
}

fn signed_reply() -> Value {
    json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "I need the weather.", "signature": "EqQB"},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    ]})
}

fn request() -> Value {
    json!({"system": "Be brief.", "messages": [
        {"role": "user", "content": "Weather in Oslo?"}, signed_reply(),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "4 C"}]}
    ]})
}

fn context(messages: &[Message]) -> Context {
    let mut context = Context::default();
    for (at, message) in messages.iter().enumerate() {
        let entry = EntryId::new(at.to_string()).unwrap();
        context.messages.push(ContextMessage::new(entry, false, message.clone()));
    }
    context
}

async fn append(commits: &dyn CommitCoordinator, thread: &str, messages: Vec<Message>) {
    let loaded = commits.threads().load_thread(&thread_id(thread)).await.unwrap().unwrap();
    let entries = messages.into_iter().map(NewEntry::new);
    let _receipt = commits.commit(Guard::from(&loaded).commit().entries(entries)).await.unwrap();
}

async fn thread_of_claude() -> Arc<dyn CommitCoordinator> {
    let store = MemoryStore::open(MemoryConfig::default()).unwrap();
    let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
    let _receipt = commits.commit(Commit::new(thread_id("t")).creating(ThreadFields::default())).await.unwrap();
    let mut request = request();
    request["messages"][1] = json!({"role": "assistant", "content": signed_reply()["content"].clone()});
    append(&*commits, "t", read(&claude(), &request)).await;
    commits
}

async fn body_and_loss_count(commits: &dyn CommitCoordinator, thread: &str, target: &Target) -> (Value, usize) {
    let loaded = commits.threads().load_context(&thread_id(thread), ContextRequest::head()).await.unwrap();
    let compiled = compile(&loaded.context, target, &CompileOptions::default()).unwrap();
    (serde_json::from_str(compiled.body.as_str()).unwrap(), compiled.losses.len())
}

#[tokio::test]
async fn a_thread_switches_to_another_provider_and_back() {
    let commits = thread_of_claude().await;
    let gpt = target("openai-responses", "gpt-5-nano");
    let (to_gpt, losses) = body_and_loss_count(&*commits, "t", &gpt).await;
    assert!(losses > 0 && !to_gpt.to_string().contains("EqQB"), "{to_gpt}");
    let reply = json!({"id": "resp_1", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "4 degrees.", "annotations": []}]}
    ]});
    append(&*commits, "t", read(&gpt, &reply)).await;
    append(&*commits, "t", vec![Message::user("And tomorrow?")]).await;
    let (again, _) = body_and_loss_count(&*commits, "t", &gpt).await;
    assert_eq!(again["input"].as_array().unwrap()[3..5], reply["output"].as_array().unwrap()[..], "{again}");
    let (back, _) = body_and_loss_count(&*commits, "t", &claude()).await;
    assert_eq!(back["system"], "Be brief.");
    assert_eq!(back["messages"][1]["content"], signed_reply()["content"]);
    assert_eq!(back["messages"][3]["content"], json!([{"type": "text", "text": "4 degrees."}]));
}

#[tokio::test]
async fn a_conversion_makes_a_new_thread_and_lists_its_losses() {
    let commits = thread_of_claude().await;
    let before = commits.threads().load_thread(&thread_id("t")).await.unwrap().unwrap();
    let google = target("google", "gemini-2.5-flash");
    let options = ConvertOptions::default();
    let converted = convert(&*commits, &thread_id("t"), thread_id("new"), &google, &options).await.unwrap();
    let kinds: Vec<_> = converted.losses.iter().map(|loss| loss.kind.name()).collect();
    assert!(kinds.contains(&"thinking") && kinds.contains(&"tool_id"), "{kinds:?}");
    assert_eq!(commits.threads().load_thread(&thread_id("t")).await.unwrap().unwrap(), before);
    let new = commits.threads().load_thread(&thread_id("new")).await.unwrap().unwrap();
    let from: Value = serde_json::from_str(new.metadata[CONVERTED_FROM].as_str()).unwrap();
    assert_eq!((&from["thread"], &from["provider"]), (&json!("t"), &json!("google")));
    let entries = commits.threads().list_entries(&thread_id("new"), EntryQuery::default()).await.unwrap().items;
    let losses = entries.iter().find_map(|entry| match &*entry.body {
        Body::Custom(custom) if custom.kind == LOSSES_KIND => Some(custom.data.clone()),
        _ => None,
    });
    assert_eq!(losses.unwrap(), Json::of(&converted.losses).unwrap());
    let (converted_body, losses) = body_and_loss_count(&*commits, "new", &google).await;
    assert_eq!(converted_body["contents"], body_and_loss_count(&*commits, "t", &google).await.0["contents"]);
    assert_eq!(losses, 0);
    let repeated = convert(&*commits, &thread_id("t"), thread_id("new"), &google, &options).await.unwrap();
    assert_eq!(repeated, converted);
    let refusal = convert(&*commits, &thread_id("t"), thread_id("t"), &google, &options).await.unwrap_err();
    assert!(matches!(refusal.kind(), ErrorKind::AlreadyExists | ErrorKind::Conflict), "{refusal}");
}

#[tokio::test]
async fn the_report_lists_the_losses_of_the_compilation() {
    let commits = thread_of_claude().await;
    let loaded = commits.threads().load_context(&thread_id("t"), ContextRequest::head()).await.unwrap();
    let options = CompileOptions::default();
    for (target, compatible) in [(claude(), true), (target("openai-chat", "gpt-5-nano"), false)] {
        let report = check(&loaded.context, &target, &options).unwrap();
        assert_eq!(report.losses, compile(&loaded.context, &target, &options).unwrap().losses);
        assert_eq!(report.compatible, compatible, "{report:?}");
    }
}

/// Details of a result are listed, and the history that is sent is the same without them (SE-3).
#[test]
fn details_of_results_do_not_make_a_target_incompatible() {
    let mut messages = read(&claude(), &request());
    let options = CompileOptions::default();
    let body = |messages: &[Message]| compile(&context(messages), &claude(), &options).unwrap().body;
    let before = body(&messages);
    for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
        if let BlockKind::ToolResult(result) = &mut block.kind {
            result.details = Some(Json::parse("{\"lines\":4}").unwrap());
        }
    }
    let report = check(&context(&messages), &claude(), &options).unwrap();
    let kinds: Vec<_> = report.losses.iter().map(|loss| (loss.kind.name(), loss.kind.is_for_people_only())).collect();
    assert_eq!((report.compatible, kinds), (true, vec![("details", true)]));
    assert_eq!(body(&messages), before);
}

/// If thinking is switched on, a turn has to begin with thinking when the request answers its calls.
#[test]
fn thinking_comes_first_in_a_turn_that_is_continued() {
    let mut options = CompileOptions::default();
    options.settings = Some(Json::parse(r#"{"thinking":{"type":"enabled","budget_tokens":1024}}"#).unwrap());
    let mut messages = read(&claude(), &request());
    let warnings = |messages: &[Message], options: &CompileOptions| {
        check(&context(messages), &claude(), options).unwrap().warnings
    };
    assert_eq!(warnings(&messages, &options), [""; 0]);
    // The turn of another model has no thinking.
    let gpt = target("openai-chat", "gpt-5-nano");
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]});
    let foreign = json!({"messages": [{"role": "user", "content": "Weather?"}, call,
        {"role": "tool", "tool_call_id": "call_1", "content": "4 C"}]});
    let foreign = read(&gpt, &foreign);
    assert!(warnings(&foreign, &options)[0].contains("begin with thinking"));
    assert_eq!(warnings(&foreign, &CompileOptions::default()), [""; 0]);
    // A message without opaque data of the provider is merged with the message of the assistant before it. The thinking
    // is then moved to the beginning.
    let turn = messages.iter().position(|message| message.role == store_core::Role::Assistant).unwrap();
    messages[turn].blocks.iter_mut().for_each(|block| block.opaque = None);
    messages.insert(turn, Message::assistant("Let me see."));
    let compiled = compile(&context(&messages), &claude(), &options).unwrap();
    let body: Value = serde_json::from_str(compiled.body.as_str()).unwrap();
    let kinds: Vec<_> = body["messages"][1]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert!(compiled.losses.iter().any(|loss| loss.reason.contains("begins with thinking")), "{:?}", compiled.losses);
    assert_eq!(warnings(&messages, &options), [""; 0]);
}
