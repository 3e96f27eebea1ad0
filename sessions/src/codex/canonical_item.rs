//! Brings items into the form of the API OpenAI Responses. Some versions of Codex wrote some fields in other forms.

use store_core::{Json, codec::ObjectWriter as Writer};

use crate::json::{Object, json_string, parse_json_array, parse_json_string};

/// An item in the form of the API.
#[derive(Debug)]
pub(super) struct CanonicalItem {
    pub(super) json: String,
    /// For a result: whether the tool succeeded, if the item says so.
    pub(super) success: Option<bool>,
}

/// The id of the call that an item makes or answers. In an old `local_shell_call`, it is the id of the item.
pub(super) fn call_id(item: &Object<'_>) -> Option<String> {
    let is_local_shell = item.text("type").as_deref() == Some("local_shell_call");
    let id = item.text("call_id").or_else(|| item.text("id").filter(|_| is_local_shell));
    id.filter(|id| !id.trim().is_empty())
}

/// Returns an item of this type in the form of the API. The error says why it cannot be a message.
pub(super) fn of(item: &Object<'_>, kind: &str) -> Result<CanonicalItem, String> {
    let require_call = || call_id(item).ok_or_else(|| format!("`call_id` of a `{kind}` is missing"));
    match kind {
        "message" => check_message(item)?,
        "function_call" => {
            require_call()?;
            require_name(item)?;
            return Ok(with_field(item, "arguments", &arguments(item)));
        }
        "custom_tool_call" => {
            require_call()?;
            require_name(item)?;
            item.text("input").ok_or("`input` is not a string")?;
        }
        "local_shell_call" => {
            let id = require_call()?;
            item.object("action").ok_or("`action` is not an object")?;
            return Ok(with_field(item, "call_id", &json_string(&id)));
        }
        "tool_search_call" if call_id(item).is_some() => {
            item.raw("arguments").ok_or("`arguments` is missing")?;
        }
        "tool_search_output" if call_id(item).is_some() => {
            item.list("tools").ok_or("`tools` is not a list")?;
        }
        "function_call_output" | "custom_tool_call_output" => {
            require_call()?;
            return output(item);
        }
        _ => {}
    }
    Ok(CanonicalItem { json: item.without_fields(&[]).as_str().to_owned(), success: None })
}

/// The role of a message item, if it is not one of the known roles.
pub(super) fn unknown_role(item: &Object<'_>) -> Option<String> {
    let is_message = item.text("type").is_none_or(|kind| kind == "message");
    let role = item.text("role").filter(|_| is_message)?;
    (!["user", "assistant", "developer", "system"].contains(&role.as_str())).then_some(role)
}

fn check_message(item: &Object<'_>) -> Result<(), String> {
    item.text("role").ok_or("`role` is not a string")?;
    if let Some(role) = unknown_role(item) {
        return Err(format!("the role `{role}`"));
    }
    let is_content = |raw: &str| parse_json_string(raw).is_some() || parse_json_array(raw).is_some();
    if !item.raw("content").is_some_and(is_content) {
        return Err("`content` is neither text nor a list".to_owned());
    }
    Ok(())
}

fn require_name(item: &Object<'_>) -> Result<(), String> {
    let name = item.text("name").filter(|name| !name.trim().is_empty());
    name.map(|_| ()).ok_or_else(|| "`name` of a call is missing".to_owned())
}

/// The arguments of a call, as text. In some files they are an object.
fn arguments(item: &Object<'_>) -> Json {
    match item.raw("arguments") {
        None | Some("null") => json_string(""),
        Some(raw) => match parse_json_string(raw) {
            Some(text) => json_string(&text),
            None => json_string(raw),
        },
    }
}

/// A result whose output is text or a list of parts.
fn output(item: &Object<'_>) -> Result<CanonicalItem, String> {
    let is_output = |raw: &str| parse_json_string(raw).is_some() || parse_json_array(raw).is_some();
    let raw = item.raw("output").ok_or("`output` is missing")?;
    let fields = Object::parse(raw);
    let (output, success) = match fields {
        None => (raw.to_owned(), None),
        Some(fields) => match fields.raw("content") {
            Some(content) => (content.to_owned(), fields.bool("success")),
            None => (format!("[{raw}]"), None),
        },
    };
    if !is_output(&output) {
        return Err("`output` is neither text nor a list of parts".to_owned());
    }
    let output = Json::parse(&output).map_err(|e| e.to_string())?;
    Ok(CanonicalItem { success, ..with_field(item, "output", &output) })
}

/// The item with another value of a field.
fn with_field(item: &Object<'_>, name: &str, value: &Json) -> CanonicalItem {
    let mut json = String::new();
    let mut object = Writer::open(&mut json);
    for (key, raw) in item.iter().filter(|(key, _)| *key != name) {
        object.key(key).push_str(raw);
    }
    object.field(name, value);
    object.close();
    CanonicalItem { json, success: None }
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::json::Object;

    fn check(raw: &str, json: &str, success: Option<bool>) {
        let item = Object::parse(raw).unwrap();
        let found = of(&item, &item.text("type").unwrap()).unwrap();
        assert_eq!((found.json.as_str(), found.success), (json, success));
    }

    #[test]
    fn every_form_of_a_call_and_of_an_output_is_read() {
        let call =
            |arguments: &str| format!(r#"{{"type":"function_call","call_id":"c","name":"n","arguments":{arguments}}}"#);
        check(&call(r#"{"a":1.0}"#), &call(r#""{\"a\":1.0}""#), None);
        check(&call("null"), &call("\"\""), None);
        check(&call(r#""{""#), &call(r#""{""#), None);
        let result = |output: &str| format!(r#"{{"type":"function_call_output","call_id":"c","output":{output}}}"#);
        check(&result(r#"{"content":"x","success":false}"#), &result("\"x\""), Some(false));
        check(&result(r#"{"type":"input_text","text":"x"}"#), &result(r#"[{"type":"input_text","text":"x"}]"#), None);
        check(&result("[]"), &result("[]"), None);
        let shell = r#"{"type":"local_shell_call","id":"s","action":{"type":"exec"}}"#;
        check(shell, r#"{"type":"local_shell_call","id":"s","action":{"type":"exec"},"call_id":"s"}"#, None);
    }

    #[test]
    fn items_that_cannot_be_messages_are_refused() {
        for raw in [
            r#"{"type":"message","role":"martian","content":"x"}"#,
            r#"{"type":"message","role":"user","content":7}"#,
            r#"{"type":"message","content":"x"}"#,
            r#"{"type":"function_call","call_id":" ","name":"n","arguments":""}"#,
            r#"{"type":"function_call","call_id":"c","arguments":""}"#,
            r#"{"type":"custom_tool_call","call_id":"c","name":"n","input":{}}"#,
            r#"{"type":"function_call_output","call_id":"c","output":7}"#,
            r#"{"type":"function_call_output","output":"x"}"#,
            r#"{"type":"local_shell_call","call_id":"c","action":"ls"}"#,
            r#"{"type":"tool_search_output","call_id":"c"}"#,
        ] {
            let item = Object::parse(raw).unwrap();
            assert!(of(&item, &item.text("type").unwrap()).is_err(), "{raw}");
        }
    }
}
