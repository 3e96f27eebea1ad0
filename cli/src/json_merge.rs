//! Joins JSON objects as text, so that the spelling of numbers and the order of keys are preserved.

use serde::Serialize;
use serde_json::value::RawValue;

/// Returns one JSON object with the fields of both objects.
pub(crate) fn merge_objects(first: &impl Serialize, second: &impl Serialize) -> serde_json::Result<Box<RawValue>> {
    let (first, second) = (serde_json::to_string(first)?, serde_json::to_string(second)?);
    let text = match (first.strip_suffix('}'), second.strip_prefix('{')) {
        (Some("{"), _) => second,
        (Some(open), Some(rest)) if rest != "}" => format!("{open},{rest}"),
        _ => first,
    };
    RawValue::from_string(text)
}

#[cfg(test)]
mod tests {
    use super::merge_objects;
    use serde_json::value::RawValue;

    #[test]
    fn objects_are_joined_byte_for_byte() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        for (first, second, both) in [
            (r#"{"b":1.0,"a":{}}"#, r#"{"c":[1e2]}"#, r#"{"b":1.0,"a":{},"c":[1e2]}"#),
            (r#"{}"#, r#"{"c":1}"#, r#"{"c":1}"#),
            (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
        ] {
            assert_eq!(merge_objects(&raw(first), &raw(second)).unwrap().get(), both);
        }
    }
}
