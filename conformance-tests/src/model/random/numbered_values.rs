//! Makes ids, names and JSON values from the small numbers that operations contain.

use store_core::{AgentId, EntryId, Error, Json};

use crate::given::id;

/// Returns the id that consists of this prefix and this number.
pub(super) fn numbered_id<T: std::str::FromStr<Err = Error>>(prefix: &str, number: u8) -> T {
    id(&format!("{prefix}{number}"))
}

/// Returns the usual agent, or another one.
pub(super) fn agent(other: bool) -> AgentId {
    id(if other { "other agent" } else { "agent" })
}

/// Returns the text of a label, or the name of a checkpoint.
pub(super) fn label_text(number: u8) -> String {
    format!("name {number}")
}

/// Returns the id of the entry with this index in a log, modulo the length of the log. An index from 248 on stands for
/// an entry that does not exist.
pub(super) fn entry_id_at(log: &[EntryId], index: u8) -> EntryId {
    let found = if index < 248 { log.get(usize::from(index) % log.len().max(1)) } else { None };
    found.cloned().unwrap_or_else(|| id("nowhere"))
}

/// Returns a JSON value. A store must return its bytes unchanged.
pub(super) fn json_value(number: u8) -> Json {
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

/// Returns a small JSON object.
pub(super) fn json_object(number: u8) -> Json {
    let fields = ["{}", r#"{"a":1}"#, r#"{"b":1.0,"a":[1]}"#, r#"{"c":null,"b":{"x":1}}"#];
    let text = fields.iter().cycle().nth(usize::from(number)).copied().unwrap_or("{}");
    Json::parse(text).unwrap_or_else(|_| Json::null())
}
