//! What the small numbers of operations stand for.

use store_core::{AgentId, EntryId, Error, Json};

use crate::given::id;

/// The thing of this kind with this number.
pub(super) fn named<T: std::str::FromStr<Err = Error>>(kind: &str, number: u8) -> T {
    id(&format!("{kind}{number}"))
}

/// The agent, or another one.
pub(super) fn agent(other: bool) -> AgentId {
    id(if other { "other agent" } else { "agent" })
}

/// A name of a checkpoint.
pub(super) fn label(number: u8) -> String {
    format!("name {number}")
}

/// The entry at this place of a log; the last places are those of entries that do not exist.
pub(super) fn entry_at(log: &[EntryId], place: u8) -> EntryId {
    let found = if place < 248 { log.get(usize::from(place) % log.len().max(1)) } else { None };
    found.cloned().unwrap_or_else(|| id("nowhere"))
}

/// A value: numbers, lists and objects that come back byte for byte or not at all.
pub(super) fn value(number: u8) -> Json {
    const VALUES: [&str; 10] = [
        "7",
        "1.0",
        "-0.0",
        "12345678901234567890",
        "1E2",
        r#"{"b":1,"a":{"x":[]}}"#,
        r#"{"a":2,"c":1.50}"#,
        "[]",
        r#"["x\u0000y"]"#,
        r#""text""#,
    ];
    let text = VALUES.iter().cycle().nth(usize::from(number)).copied().unwrap_or("null");
    Json::parse(text).unwrap_or_else(|_| Json::null())
}

/// A small object.
pub(super) fn object(number: u8) -> Json {
    let fields = ["{}", r#"{"a":1}"#, r#"{"b":1.0,"a":[1]}"#, r#"{"c":null,"b":{"x":1}}"#];
    let text = fields.iter().cycle().nth(usize::from(number)).copied().unwrap_or("{}");
    Json::parse(text).unwrap_or_else(|_| Json::null())
}
