//! Text, JSON and unknown fields are read back exactly as they were written.

use store_core::{
    Block, BlockKind, Body, Commit, ContextRequest, Custom, Entry, Expect, Json, Message, NewBody, NewEntry, Role,
    RunChange, RunStatus, StateChange, ThreadFields, codec::Codec,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_some},
    given::{id, message_entry},
};

/// Texts that some stores cut, strip, normalize or re-encode.
const UNUSUAL_TEXTS: [&str; 14] = [
    "",
    " ",
    "\u{0}",
    "a\u{0}b",
    "\u{feff}bom",
    "line\u{2028}line\u{2029}",
    "\r\n\t\u{8}\u{c}",
    "\u{7f}\u{85}\u{9f}",
    "é e\u{301}",
    "👩‍👩‍👧 \u{10ffff}",
    "\u{fffe}\u{ffff}\u{fdd0}",
    "\"\\/ \\u0041 \\\" ' `",
    "\u{202e}שלום",
    "null",
];

/// JSON that some stores rewrite: the spelling of numbers, the order of keys, repeated keys, escapes.
const UNUSUAL_JSON_VALUES: [&str; 18] = [
    "null",
    "\"\"",
    "{}",
    "[]",
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1e2",
    "1E+2",
    "100",
    "12345678901234567890123",
    "0.1000000000000000055511151231257827",
    r#"{"b":1,"a":2,"b":3}"#,
    r#"{"":{"":[]}}"#,
    r#""\u0000\ud83e\udd80\u00e9\/""#,
    r#""\ud800""#,
    r#"{"a\u0000":"\u2028"}"#,
];

async fn load_entry(given: &Given, entry: &str) -> Result<std::sync::Arc<Entry>, Failure> {
    expect_some(given.threads()?.load_entry(&id("t"), &id(entry)).await?, "entry")
}

/// Text may be any Unicode and is read back unchanged: in titles, messages, labels, kinds, metadata keys, state keys.
pub(super) async fn any_text_round_trips(given: &Given) -> Verdict {
    for (at, text) in UNUSUAL_TEXTS.into_iter().enumerate() {
        let (thread, text) = (format!("t-{at}"), text.to_owned());
        let mut fields = ThreadFields::default();
        fields.title = Some(text.clone());
        fields.metadata.insert(text.clone(), Json::of(&text)?);
        let bodies: [NewBody; 3] = [
            Message::user(text.clone()).into(),
            NewBody::Checkpoint { number: None, label: Some(text.clone()) },
            Custom::new(text.clone(), Json::of(&text)?).into(),
        ];
        let commit = Commit::new(id(&thread)).expecting(Expect::Absent).creating(fields.clone());
        let state = StateChange::new().set(&text, Json::of(&text)?);
        given.expect_accepted(commit.entries(bodies.map(NewEntry::new)).with_state(state)).await?;
        let found = given.thread(&id(&thread)).await?;
        expect_eq((found.title, found.metadata), (fields.title, fields.metadata.clone()))?;
        let log = given.read_log(&id(&thread)).await?;
        expect_eq(log[0].message(), Some(&Message::user(text.clone())))?;
        let (Body::Checkpoint(checkpoint), Body::Custom(custom)) = (&*log[1].body, &*log[2].body) else {
            return Err(Failure::new(format!("{log:?}")));
        };
        expect_eq((&checkpoint.label, &custom.kind), (&Some(text.clone()), &text))?;
        let context = given.threads()?.load_context(&id(&thread), ContextRequest::head()).await?;
        expect_eq(context.state, fields.metadata)?;
    }
    Ok(())
}

/// A JSON value is read back byte for byte: in metadata, state, custom data, tool input, and the request and state of a
/// run.
pub(super) async fn json_round_trips_byte_for_byte(given: &Given) -> Verdict {
    for (at, text) in UNUSUAL_JSON_VALUES.into_iter().enumerate() {
        let (thread, value) = (format!("t-{at}"), Json::parse(text)?);
        let mut fields = ThreadFields::default();
        fields.metadata.insert("k".to_owned(), value.clone());
        let mut run = RunChange::new(id(&format!("r-{at}")), RunStatus::Running).with_agent(id("agent"));
        run.request = Some(value.clone());
        run.state.insert("k".to_owned(), Some(value.clone()));
        let call = Message::new(Role::Assistant, vec![Block::tool_use("call", "tool", value.clone())]);
        let commit = Commit::new(id(&thread)).expecting(Expect::Absent).creating(fields.clone()).with_run(run);
        let commit = commit.with_state(StateChange::new().set("k", value.clone()));
        let custom = NewEntry::new(Custom::new("kind", value.clone()));
        given.expect_accepted(commit.entry(NewEntry::new(call.clone())).entry(custom)).await?;
        expect_eq(&given.thread(&id(&thread)).await?.metadata, &fields.metadata)?;
        let log = given.read_log(&id(&thread)).await?;
        expect_eq(log[0].message(), Some(&call))?;
        expect_eq(&*log[1].body, &Body::Custom(Custom::new("kind", value.clone())))?;
        let context = given.threads()?.load_context(&id(&thread), ContextRequest::head()).await?;
        expect_eq(context.state, fields.metadata.clone())?;
        let run = expect_some(given.threads()?.load_run(&id(&format!("r-{at}"))).await?, "run")?;
        expect_eq((run.request, run.state), (Some(value), fields.metadata))?;
    }
    Ok(())
}

/// A message that a newer release wrote.
const MESSAGE_OF_NEWER_RELEASE: &str = concat!(
    r#"{"role":"assistant","blocks":[{"text":"hi","later":{"b":1.0,"a":[]}},{"hologram":{"x":1e2}}],"#,
    r#""usage":{"input":3,"spin":0.50},"mood":"\u0041"}"#
);

/// Fields, blocks and kinds that this release does not know are kept, and no read fails because of them.
pub(super) async fn unknown_fields_blocks_and_kinds_are_kept(given: &Given) -> Verdict {
    let newer_message = Message::read(MESSAGE_OF_NEWER_RELEASE).map_err(|error| Failure::new(error.to_string()))?;
    let unknown = NewBody::Unknown { kind: "hologram".to_owned(), data: Json::parse(r#"{"x":1.50,"x":2}"#)? };
    let commit = Commit::new(id("t")).expecting(Expect::Absent);
    let entries = [NewEntry::new(newer_message.clone()).with_id(id("m")), NewEntry::new(unknown).with_id(id("u"))];
    given.expect_accepted(commit.entries(entries).entry(message_entry("after"))).await?;
    let message = load_entry(given, "m").await?;
    expect_eq(message.message().map(Codec::encode), Some(MESSAGE_OF_NEWER_RELEASE.to_owned()))?;
    let Body::Unknown { kind, data } = &*load_entry(given, "u").await?.body else {
        return Err(Failure::new("the body is no longer of an unknown kind"));
    };
    expect_eq((kind.as_str(), data.as_str()), ("hologram", r#"{"x":1.50,"x":2}"#))?;
    expect_eq(given.read_log(&id("t")).await?.len(), 3)?;
    given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    Ok(())
}

/// An unknown body whose kind has the name of a known kind is refused, or is read back as it was written. It never
/// makes a log unreadable.
pub(super) async fn an_unknown_kind_with_a_known_name_keeps_the_log_readable(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["before"]).await?;
    let kinds = ["message", "compaction", "checkpoint", "usage", "label", "rewind", "custom", ""];
    for (kind, data) in kinds.into_iter().flat_map(|kind| ["1", "{}", "null"].map(|data| (kind, data))) {
        let (name, data) = (format!("{kind}-{data}"), Json::parse(data)?);
        let body = NewBody::Unknown { kind: kind.to_owned(), data: data.clone() };
        let commit = Commit::new(id("t")).with_key(id(&name)).entry(NewEntry::new(body).with_id(id(&name)));
        if given.commits()?.commit(commit).await.is_ok() {
            let found = load_entry(given, &name).await.map_err(|failure| failure.about(&name))?;
            expect_eq(&*found.body, &Body::Unknown { kind: kind.to_owned(), data })?;
        }
    }
    given.read_log(&id("t")).await.map(drop)
}

/// An unknown block whose kind has the name of a known kind is refused, or is read back as it was written. The same
/// holds for an opaque block that also carries opaque data of a provider. Such blocks never make a log unreadable.
pub(super) async fn an_unknown_block_with_a_known_name_keeps_the_log_readable(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["before"]).await?;
    let opaque = || store_core::Opaque::new(store_core::Origin::new("provider"), Json::null());
    let unknown = |kind: &str| BlockKind::Unknown { kind: kind.to_owned(), data: Json::null() };
    let kinds = ["text", "thinking", "image", "tool_use", "tool_result", "opaque", ""].map(unknown);
    for (at, kind) in kinds.into_iter().chain([BlockKind::Opaque(opaque()), BlockKind::Text(String::new())]).enumerate()
    {
        for opaque_data in [None, Some(opaque())] {
            let name = format!("{at}-{}", opaque_data.is_some());
            let mut block = Block::new(kind.clone());
            block.opaque = opaque_data;
            let message = Message::new(Role::User, vec![block]);
            let commit = Commit::new(id("t")).with_key(id(&name));
            let entry = NewEntry::new(message.clone()).with_id(id(&name));
            if given.commits()?.commit(commit.entry(entry)).await.is_ok() {
                let found = load_entry(given, &name).await.map_err(|failure| failure.about(&name))?;
                expect_eq(found.message(), Some(&message)).map_err(|failure| failure.about(&name))?;
            }
        }
    }
    given.read_log(&id("t")).await.map(drop)
}
