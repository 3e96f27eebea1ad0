//! Tests that generated histories are valid for every API, and that every loss is reported (SE-2, SE-7).

use std::{collections::BTreeMap, sync::LazyLock};

use conformance_tests::TestLength;
use jsonschema::Validator;
use proptest::{collection::vec, option, prelude::*, sample::select};
use providers::{CompileOptions, Provider, Target, compile};
use store_core::{
    Block, BlockKind, Context, ContextMessage, EntryId, Json, Media, MediaSource, Message, Opaque, Origin, Provenance,
    Role, Thinking, ToolResult, ToolUse,
};

use crate::{
    accounting::unreported_losses,
    captures::{APIS, schema},
    rules,
};

const MODELS: [(&str, &str); 5] = [
    ("anthropic", "claude-sonnet-4-5"),
    ("openai-chat", "gpt-5-nano"),
    ("openai-responses", "gpt-5-nano"),
    ("google", "gemini-2.5-flash"),
    ("google", "gemini-3-flash-preview"),
];

fn target(model_index: usize) -> Target {
    let (provider, model) = MODELS[model_index];
    Target::new(provider.parse().unwrap(), model)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{1,8}( [a-z]{1,8}){0,3}",
        1 => select(vec!["", " ", "a\u{0}b", "\u{2028}", "tail \n", "{\"a\":[1,\"x\"]}", "\u{1f600}\"\\"]).prop_map(str::to_owned),
    ]
}

fn json() -> impl Strategy<Value = Json> {
    select(vec![
        "{}",
        r#"{"city":"Oslo","n":1.50}"#,
        r#"{"a":{"b":[1e2,null,"x"]}}"#,
        "[]",
        r#""plain text""#,
        "null",
        "12345678901234567890",
    ])
    .prop_map(|raw| Json::parse(raw).unwrap())
}

fn origin() -> impl Strategy<Value = Origin> {
    (0..MODELS.len()).prop_map(|at| target(at).origin())
}

fn media() -> impl Strategy<Value = Media> {
    let types = ["image/png", "image/tiff", "application/pdf", "text/plain", "audio/wav", "video/mp4"];
    let source = prop_oneof![
        Just(MediaSource::Base64("aGVsbG8=".to_owned())),
        Just(MediaSource::Url("https://example.com/file".to_owned())),
        Just(MediaSource::Url("gs://bucket/file".to_owned())),
        Just(MediaSource::Blob("00ff".to_owned())),
    ];
    (option::of(select(types.to_vec())), source, option::of("[a-z]{1,8}")).prop_map(|(media_type, source, title)| {
        let mut media = Media::new(media_type.map(str::to_owned), source);
        media.title = title;
        media
    })
}

/// Opaque data of a text from each API of `MODELS`, in the form of this crate or of another tool.
fn opaque() -> impl Strategy<Value = Opaque> {
    const DATA: [&[&str]; 5] = [
        &[
            r#"{"part":{"set":{"/cache_control":{"type":"ephemeral"}}}}"#,
            r#"{"part":{"set":{"/citations":null}},"continues":true}"#,
            r#"{"message":{"marks":["separate"]}}"#,
            r#""signature of another tool""#,
        ],
        &[r#"{"message":{"set":{"/name":"ann"}}}"#, r#"{"message":{"marks":["list"]}}"#],
        &[r#"{"part":{"set":{"/prompt_cache_breakpoint":{"mode":"explicit"}}}}"#, r#""signature of another tool""#],
        &[r#"{"part":{"set":{"/thoughtSignature":"c2lnbmF0dXJl"}}}"#, r#""c2lnbmF0dXJl""#],
        &[r#"{"part":{"set":{"/thoughtSignature":"c2lnbmF0dXJl"}}}"#, r#"{"message":{"marks":["separate"]}}"#],
    ];
    (0..MODELS.len()).prop_flat_map(|at| {
        select(DATA[at]).prop_map(move |data| Opaque::new(target(at).origin(), Json::parse(data).unwrap()))
    })
}

/// Content of messages or of results. `apis` are the indexes in `MODELS` of the APIs whose opaque blocks can be there.
fn content(apis: &'static [usize]) -> impl Strategy<Value = BlockKind> {
    let raw = [
        r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"weather"}}"#,
        r#"{"type":"file","file":{"file_id":"file-1"}}"#,
        r#"{"type":"input_file","file_id":"file-1"}"#,
        r#"{"executableCode":{"language":"PYTHON","code":"print(1)"}}"#,
        r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}"#,
    ];
    prop_oneof![
        6 => text().prop_map(BlockKind::Text),
        1 => media().prop_map(BlockKind::Image),
        1 => media().prop_map(BlockKind::Document),
        1 => media().prop_map(BlockKind::Audio),
        1 => media().prop_map(BlockKind::Video),
        1 => Just(BlockKind::Unknown { kind: "hologram".to_owned(), data: Json::parse(r#"{"depth":7}"#).unwrap() }),
        1 => select(apis).prop_map(move |at| {
            BlockKind::Opaque(Opaque::new(target(at).origin(), Json::parse(raw[at]).unwrap()))
        }),
    ]
}

fn block(kind: impl Strategy<Value = BlockKind>) -> impl Strategy<Value = Block> {
    (kind, option::weighted(0.2, opaque())).prop_map(|(kind, opaque)| {
        let mut block = Block::new(kind);
        if matches!(block.kind, BlockKind::Text(_)) {
            block.opaque = opaque;
        }
        block
    })
}

fn thinking() -> impl Strategy<Value = BlockKind> {
    (text(), option::of("sig-[a-z]{6}"), option::of(origin()), prop::bool::weighted(0.2)).prop_map(
        |(text, signature, origin, redacted)| {
            let mut thinking = Thinking::new(if redacted { String::new() } else { text });
            thinking.signature = if redacted { Some("encrypted".to_owned()) } else { signature };
            (thinking.origin, thinking.redacted) = (origin, redacted);
            BlockKind::Thinking(thinking)
        },
    )
}

fn call() -> impl Strategy<Value = ToolUse> {
    let id = prop_oneof!["call_[a-z]{4}", "Shell:[0-9]", "fc_[a-z|]{60,80}", "\\{ü\\}"];
    let raw = option::weighted(0.3, select(vec!["{\"city\": \"Oslo\"}", "{broken", ""]));
    (id, "[a-z]{3,8}", json(), raw).prop_map(|(id, name, input, raw)| {
        let mut call = ToolUse::new(id, name, input);
        if let Some(raw) = raw {
            call.input = Json::parse(raw).or_else(|_| Json::parse("{}")).unwrap();
            call.raw = Some(raw.to_owned());
        }
        call
    })
}

/// An assistant message, and the results of its calls.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let calls = vec((call(), vec(block(content(&[2])), 0..3), option::of(any::<bool>()), option::of(json())), 0..4);
    let parts = (vec(block(prop_oneof![3 => content(&[0, 3, 4]), 1 => thinking()]), 0..4), calls);
    let details = (option::of(origin()), prop::bool::weighted(0.1), any::<bool>());
    (parts, details).prop_map(|((mut blocks, calls), (origin, has_failed, is_split))| {
        let mut results: Vec<Block> = Vec::new();
        let mut ids = Vec::new();
        for (call, output, is_error, details) in calls {
            if ids.contains(&call.id) {
                continue;
            }
            ids.push(call.id.clone());
            let mut result = ToolResult::new(&call.id, output);
            (result.is_error, result.details) = (is_error, details);
            blocks.push(Block::new(BlockKind::ToolUse(call)));
            results.push(Block::new(BlockKind::ToolResult(result)));
        }
        results.reverse();
        let mut message = Message::new(Role::Assistant, blocks);
        message.stop = has_failed.then(|| "error".to_owned());
        let mut provenance = Provenance::default();
        provenance.origin = origin;
        message.provenance = Some(provenance);
        let mut messages = vec![message];
        if is_split {
            messages.extend(results.into_iter().map(|result| Message::new(Role::Tool, vec![result])));
        } else if !results.is_empty() {
            messages.push(Message::new(Role::Tool, results));
        }
        messages
    })
}

/// A history that ends with a message of the user.
fn history() -> impl Strategy<Value = Vec<Message>> {
    let user = vec(block(content(&[1, 2])), 1..3).prop_map(|blocks| vec![Message::new(Role::User, blocks)]);
    let system = vec(block(text().prop_map(BlockKind::Text)), 1..3);
    let system = system.prop_map(|blocks| vec![Message::new(Role::System, blocks)]);
    let turns = vec(prop_oneof![3 => user, 1 => system, 4 => turn()], 0..6);
    turns.prop_map(|turns| {
        let messages = turns.into_iter().flatten().filter(|message| !message.blocks.is_empty());
        // A request ends with a message that the model did not make.
        messages.chain([Message::user("Go on.")]).collect()
    })
}

/// The number of histories that are generated.
fn history_count() -> u32 {
    TestLength::pick_by_env(2_000, 100_000, 1_000_000)
}

/// The schemas of the APIs by their names in this crate. There are none if there are no captures.
static SCHEMAS: LazyLock<BTreeMap<&str, Validator>> =
    LazyLock::new(|| APIS.iter().filter_map(|(capture_name, name, _)| Some((*name, schema(capture_name)?))).collect());

proptest! {
    #![proptest_config(ProptestConfig {
        cases: history_count(), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn generated_histories_are_valid_and_every_loss_is_reported(
        messages in history(), at in 0..MODELS.len(), thinking_as_text in any::<bool>(),
    ) {
        let mut context = Context::default();
        for (at, message) in messages.iter().enumerate() {
            store_core::log::check_message(message).unwrap();
            let id = EntryId::new(at.to_string()).unwrap();
            context.messages.push(ContextMessage::new(id, false, message.clone()));
        }
        let target = target(at);
        let mut options = CompileOptions::default();
        options.thinking_as_text = thinking_as_text;
        let compiled = match compile(&context, &target, &options) {
            Ok(compiled) => compiled,
            Err(error) => {
                prop_assert!(error.to_string().contains("no message that can be sent"), "{error}");
                return Ok(());
            }
        };
        let unreported = unreported_losses(&messages, &compiled);
        prop_assert!(unreported.is_empty(), "{target:?}\n{}\n{unreported:#?}", compiled.body.as_str());
        let body = serde_json::from_str(compiled.body.as_str()).unwrap();
        let mut broken = rules::broken_rules(target.provider.name(), &body);
        if let Some(schema) = SCHEMAS.get(target.provider.name()) {
            broken.extend(schema.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())));
        }
        prop_assert!(broken.is_empty(), "{broken:#?}\n{}", compiled.body.as_str());
        prop_assert!(Provider::all().any(|provider| provider == target.provider));
    }
}
