//! Writes `state.json`, which contains the title of a session.

use store_core::codec::{Codec, ObjectWriter as Writer};

use crate::{
    json::{Object, json_string},
    kimi_cli::state,
    lenient,
};

/// The settings of a new session after its version and before its title.
const FIRST_SETTINGS: &[(&str, &str)] =
    &[("approval", r#"{"yolo":false,"afk":false,"auto_approve_actions":[]}"#), ("additional_dirs", "[]")];

/// The settings of a new session after its title.
const LAST_SETTINGS: &[(&str, &str)] = &[
    ("title_generate_attempts", "0"),
    ("plan_mode", "false"),
    ("plan_session_id", "null"),
    ("plan_slug", "null"),
    ("wire_mtime", "null"),
    ("archived", "false"),
    ("archived_at", "null"),
    ("auto_archive_exempt", "false"),
    ("todos", "[]"),
];

/// The title in the bytes of a state.
pub(super) fn title_of(bytes: &[u8]) -> Option<String> {
    state::title(&Object::parse(&lenient::read(bytes).text)?)
}

/// The state with another title. If there is no earlier state, or it is not a JSON object, the result has the settings
/// of a new session.
pub(super) fn with_title(earlier: Option<&[u8]>, title: Option<&str>) -> String {
    let earlier = earlier.map(lenient::read);
    let object = earlier.as_ref().and_then(|earlier| Object::parse(&earlier.text));
    let title = title.map_or_else(store_core::Json::null, json_string);
    let mut out = String::new();
    let mut state = Writer::open(&mut out);
    match object {
        Some(object) => {
            for (name, raw) in object.iter().filter(|(name, _)| *name != "custom_title") {
                state.key(name).push_str(raw);
            }
            state.field("custom_title", &title);
        }
        None => {
            1_u64.write(state.key("version"));
            for (name, raw) in FIRST_SETTINGS {
                state.key(name).push_str(raw);
            }
            state.field("custom_title", &title).field("title_generated", &(title.as_str() != "null"));
            for (name, raw) in LAST_SETTINGS {
                state.key(name).push_str(raw);
            }
        }
    }
    state.close();
    out
}

#[cfg(test)]
mod tests {
    use super::{title_of, with_title};

    #[test]
    fn a_new_title_does_not_change_the_settings() {
        let earlier = br#"{"version":1, "custom_title":"a", "archived":true}"#;
        let changed = with_title(Some(earlier), Some("b"));
        assert_eq!(changed, r#"{"version":1,"archived":true,"custom_title":"b"}"#);
        assert_eq!(title_of(with_title(Some(earlier), None).as_bytes()), None);
        assert_eq!(title_of(earlier).as_deref(), Some("a"));
    }

    #[test]
    fn a_new_state_has_every_setting_of_a_new_session() {
        for earlier in [None, Some(&b"["[..])] {
            let state = with_title(earlier, Some("t"));
            let value: serde_json::Value = serde_json::from_str(&state).unwrap();
            assert_eq!((&value["version"], &value["custom_title"]), (&1.into(), &"t".into()));
            assert_eq!(value["approval"]["auto_approve_actions"], serde_json::json!([]));
        }
    }
}
