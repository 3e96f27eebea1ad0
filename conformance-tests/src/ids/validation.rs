//! The rules for ids, times and JSON values. They are checked when an id, a time or a value is created.

use store_core::{
    AgentId, CausationId, CommitKey, CorrelationId, DedupeKey, DispatchId, EntryId, ErrorKind, EventId, EventKey,
    EventKind, IdSource, InstanceId, InterruptKey, Json, LaneId, MAX_ID_BYTES, OrderKey, OutboxId, OutboxTarget,
    ResourceId, Result, RunId, TenantId, ThreadId, Timestamp, UuidSource, WorkerId, WriterId, codec::Codec,
};

use super::corpus::unusual_valid_ids;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, message_entry},
};

/// Creates an id of one type from a text, once with its constructor and once from JSON. Returns the name of the type
/// and both results.
type MakeId = fn(&str) -> (&'static str, Result<String>, std::result::Result<String, serde_json::Error>);

macro_rules! id_types {
    ($($id:ident),*) => { [$(|text| {
        let read = serde_json::from_value::<$id>(serde_json::Value::from(text));
        ($id::TYPE_NAME, $id::new(text).map(|id| id.to_string()), read.map(|id| id.as_str().to_owned()))
    }),*] };
}

const ID_TYPES: [MakeId; 22] = id_types!(
    TenantId,
    ThreadId,
    EntryId,
    RunId,
    AgentId,
    ResourceId,
    DispatchId,
    CommitKey,
    EventId,
    EventKind,
    EventKey,
    WriterId,
    CausationId,
    CorrelationId,
    WorkerId,
    DedupeKey,
    OutboxId,
    LaneId,
    OutboxTarget,
    OrderKey,
    InstanceId,
    InterruptKey
);

/// A text is no valid id if it is empty or blank, is longer than 256 bytes, or contains a control character. To create
/// an id from such a text fails with `Invalid`, and to read the id from JSON fails, too. The error names the type of
/// the id. Every other text is a valid id of every type.
pub(super) async fn ids_are_validated_when_created(_given: &Given) -> Verdict {
    let mut invalid_texts: Vec<String> = ["", " ", " \u{2003}\u{a0} ", "\u{3000}"].map(str::to_owned).to_vec();
    invalid_texts.extend([MAX_ID_BYTES + 1, 4096].map(|bytes| "x".repeat(bytes)));
    invalid_texts.push("é".repeat(129));
    invalid_texts
        .extend((0..=0x1f_u32).chain(0x7f..=0x9f).filter_map(char::from_u32).map(|control| format!("a{control}b")));
    for make_id in ID_TYPES {
        for text in &invalid_texts {
            let (type_name, created, read) = make_id(text);
            let error = expect_kind(created, ErrorKind::Invalid)?;
            expect(
                error.to_string().starts_with(&format!("invalid {type_name} id: "))
                    || error.to_string().contains(type_name),
                error.to_string(),
            )?;
            expect(read.is_err_and(|error| error.to_string().contains(type_name)), format!("{text:?} is accepted"))?;
        }
        for text in unusual_valid_ids() {
            let (type_name, created, read) = make_id(&text);
            expect_eq(created?, text.as_str()).map_err(|failure| failure.about(type_name))?;
            expect_eq(read.map_err(|error| Failure::new(error.to_string()))?, text)?;
        }
    }
    Ok(())
}

/// A generated id is a UUIDv7 in lower case, and generated ids sort in the order in which they were generated.
/// Entries and dispatches get such ids if the caller gives none.
pub(super) async fn generated_ids_sort_in_order(given: &Given) -> Verdict {
    let generated_ids: Vec<_> = (0..10_000).map(|_| UuidSource.next_id()).collect();
    expect(generated_ids.is_sorted_by(|a, b| a < b), "generated ids are not in order")?;
    let (stores, mut entries, mut dispatches) = (given.stores()?, Vec::new(), Vec::new());
    if let Some(commits) = &stores.commits {
        let commit = store_core::Commit::new(id("t")).with_key(id("k")).entries((0..50).map(|_| message_entry("x")));
        entries.extend(commits.commit(commit).await?.entry_ids.iter().map(ToString::to_string));
    }
    if let Some(mailbox) = &stores.mailbox {
        let work = store_core::NewDispatch::new(id("t"), id("r"));
        for answer in mailbox.enqueue(vec![work; 50]).await? {
            dispatches.push(answer?.id.to_string());
        }
    }
    for text in generated_ids.iter().take(100).chain(&entries).chain(&dispatches) {
        let shape: String = text.chars().map(|c| if c.is_ascii_hexdigit() { 'x' } else { c }).collect();
        expect_eq(shape.as_str(), "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")?;
        expect(text.as_bytes()[14] == b'7' && b"89ab".contains(&text.as_bytes()[19]), format!("not a UUIDv7: {text}"))?;
        expect_eq(&text.to_lowercase(), text)?;
    }
    expect(entries.is_sorted_by(|a, b| a < b), format!("the ids of entries are not in order: {entries:?}"))?;
    expect(dispatches.is_sorted_by(|a, b| a < b), format!("the ids of dispatches are not in order: {dispatches:?}"))
}

/// Ids are written as plain JSON strings, and times as whole milliseconds. A time before the epoch, after the
/// year 9999 or in any other form is refused.
pub(super) async fn ids_and_times_are_plain_json(_given: &Given) -> Verdict {
    let to_json = |value: &ThreadId| serde_json::to_string(value).map_err(|error| Failure::new(error.to_string()));
    expect_eq(to_json(&id("a\"é"))?, "\"a\\\"é\"")?;
    for millis in [0, 1, 1_763_700_000_123, 253_402_300_799_999] {
        let time = Timestamp::from_millis(millis)?;
        expect_eq(serde_json::to_string(&time).unwrap_or_default(), millis.to_string())?;
        expect_eq(serde_json::from_str::<Timestamp>(&millis.to_string()).ok(), Some(time))?;
        expect_eq((time.encode(), Timestamp::read(&millis.to_string()).ok()), (millis.to_string(), Some(time)))?;
    }
    for millis in [253_402_300_800_000, u64::MAX] {
        expect_kind(Timestamp::from_millis(millis), ErrorKind::Invalid)?;
        expect(serde_json::from_str::<Timestamp>(&millis.to_string()).is_err(), "a time after the year 9999 is read")?;
    }
    for text in ["-1", "1.0", "1e3", "\"1\"", "null", "99999999999999999999"] {
        let read = (serde_json::from_str::<Timestamp>(text).is_ok(), Timestamp::read(text).is_ok());
        expect_eq(read, (false, false)).map_err(|failure| failure.about(text))?;
    }
    Ok(())
}

/// The syntax and the depth of a JSON value are checked when it is created. White space outside strings is removed,
/// and nothing else is changed.
pub(super) async fn json_values_are_validated_when_created(_given: &Given) -> Verdict {
    for text in ["", "{", "nul", "[1,]", "1 2", "01", "NaN", "'a'", "\"\n\"", "{\"a\"}", "+1", "\u{feff}1"] {
        expect_kind(Json::parse(text), ErrorKind::Invalid).map_err(|failure| failure.about(text))?;
    }
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        expect_eq(Json::parse(&nested(128))?.as_str(), nested(128).as_str())?;
        for depth in [129, 10_000, 1_000_000] {
            expect_kind(Json::parse(&nested(depth)), ErrorKind::LimitExceeded)?;
        }
    }
    for (text, kept) in [
        (" { \"b\" : 1.0 ,\r\n\t\"a\" : [ 1e2 , -0.0 ] , \"b\" : \" x \" } ", r#"{"b":1.0,"a":[1e2,-0.0],"b":" x "}"#),
        ("\"\\u0041\\/\\ud83e\\udd80\"", "\"\\u0041\\/\\ud83e\\udd80\""),
        ("12345678901234567890.123456789012345678901", "12345678901234567890.123456789012345678901"),
    ] {
        expect_eq(Json::parse(text)?.as_str(), kept)?;
    }
    Ok(())
}
