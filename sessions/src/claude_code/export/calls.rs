//! Calls as Anthropic's API accepts them.

use sha2::{Digest, Sha256};
use store_core::ToolUse;

use crate::{json::Object, source::hex};

/// The greatest length of the id of a call.
const MAX_ID_LENGTH: usize = 64;

/// The id of a call and its results. The API accepts letters, digits, `_` and `-`. Any other id is replaced, and the
/// same id always gets the same replacement.
pub(super) fn accepted_call_id(id: &str) -> String {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !id.is_empty() && id.len() <= MAX_ID_LENGTH && id.chars().all(is_accepted) {
        return id.to_owned();
    }
    let clean: String = id.chars().map(|c| if is_accepted(c) { c } else { '_' }).take(40).collect();
    let hash = hex(&Sha256::digest(id.as_bytes()));
    format!("{clean}_{}", hash.get(..12).unwrap_or(&hash))
}

/// The arguments of a call as the API accepts them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    /// A JSON object.
    pub(super) json: String,
    /// Whether `json` differs from the arguments in the call.
    pub(super) is_replaced: bool,
}

/// Returns the arguments of a call. An object is unchanged. Any other JSON value is put into an object. Text that is
/// not JSON is replaced by an empty object.
pub(super) fn accepted_arguments(call: &ToolUse) -> Arguments {
    let raw = call.raw.as_deref().filter(|raw| !raw.is_empty()).unwrap_or(call.input.as_str());
    let unchanged = |json: &str| Arguments { json: json.to_owned(), is_replaced: false };
    match store_core::Json::parse(raw) {
        Ok(json) if Object::parse(json.as_str()).is_some() => unchanged(json.as_str()),
        Ok(json) => Arguments { json: format!("{{\"value\":{}}}", json.as_str()), is_replaced: true },
        Err(_) => Arguments { json: "{}".to_owned(), is_replaced: true },
    }
}

#[cfg(test)]
mod tests {
    use store_core::{Json, ToolUse};

    use super::{accepted_arguments, accepted_call_id};

    #[test]
    fn an_id_is_replaced_only_if_the_api_does_not_accept_it() {
        assert_eq!(accepted_call_id("toolu_01-A"), "toolu_01-A");
        let long = "x".repeat(65);
        for id in ["Shell:0", "call|item", "", "é", long.as_str()] {
            let accepted = accepted_call_id(id);
            assert_eq!(accepted_call_id(&accepted), accepted, "{id}");
            assert_eq!(accepted_call_id(id), accepted, "{id}");
        }
        assert_ne!(accepted_call_id("a:b"), accepted_call_id("a|b"));
    }

    #[test]
    fn arguments_become_an_object() {
        let check = |raw: Option<&str>, input: &str, json: &str, is_replaced: bool| {
            let mut call = ToolUse::new("a", "b", Json::parse(input).unwrap());
            call.raw = raw.map(str::to_owned);
            let found = accepted_arguments(&call);
            assert_eq!((found.json.as_str(), found.is_replaced), (json, is_replaced), "{raw:?} {input}");
        };
        check(None, r#"{"a":1.0}"#, r#"{"a":1.0}"#, false);
        check(Some(r#"{"a":1.0}"#), "{}", r#"{"a":1.0}"#, false);
        check(Some(""), "{}", "{}", false);
        check(None, "[1]", r#"{"value":[1]}"#, true);
        check(Some("{broken"), "{}", "{}", true);
    }
}
