//! Finds the complete record in a line that also contains a part of another record, or a run of NUL bytes. Such lines
//! remain when a program or a machine stops while it writes.

use serde::de::IgnoredAny;

use crate::json::Object;

/// Returns the only complete JSON object of a line that is not a JSON object itself. `is_object` checks a part of the
/// line. The result is `None` if the line contains no complete object, or more than one.
pub(crate) fn complete_record<'a>(text: &'a str, is_object: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    let text = text.trim_matches(is_meaningless);
    if is_object(text) {
        return Some(text);
    }
    let first = object_end(text).and_then(|end| text.split_at_checked(end));
    if let Some((record, rest)) = first.filter(|(record, _)| is_object(record)) {
        return (!begins_with_object(rest, is_object)).then_some(record);
    }
    let (before, record) = last_object(text, is_object)?;
    (!begins_with_object(before, is_object) && is_own_record(text, before, record)).then_some(record)
}

/// Whether a character between two parts of a line means nothing.
const fn is_meaningless(c: char) -> bool {
    c.is_ascii_control() || c == ' '
}

/// The index after the object that begins with the first byte. Strings are skipped.
fn object_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then_some(at + 1);
        }
    }
    None
}

/// Whether the first brace of a text begins a complete object.
fn begins_with_object(text: &str, is_object: &dyn Fn(&str) -> bool) -> bool {
    let from_brace = text.find('{').and_then(|at| text.get(at..));
    let object = from_brace.and_then(|text| text.get(..object_end(text)?));
    object.is_some_and(is_object)
}

/// Splits a text before the object with which it ends.
fn last_object<'a>(text: &'a str, is_object: &dyn Fn(&str) -> bool) -> Option<(&'a str, &'a str)> {
    let starts = text.rmatch_indices('{').map(|(at, _)| at).filter(|at| *at > 0);
    let splits = starts.filter_map(|at| text.split_at_checked(at));
    // In an object that is not empty, a key comes after the brace.
    let mut keyed = splits.filter(|(_, tail)| tail.trim_start_matches(['{', ' ']).starts_with('"'));
    keyed.find(|(_, tail)| object_end(tail) == Some(tail.len()) && is_object(tail))
}

/// Whether the object `record` at the end of a line is a record of its own. If the line is one record that is cut off
/// at its end, the last object in it is only a part of that record.
fn is_own_record(text: &str, before: &str, record: &str) -> bool {
    if !before.starts_with('{') {
        return true;
    }
    let spaced: String = text.chars().map(|c| if c.is_ascii_control() { ' ' } else { c }).collect();
    match serde_json::from_str::<IgnoredAny>(&spaced) {
        // The parser accepted the record as a value inside the part before it. It is a record of its own if the part
        // has at least three fields, and the record has all of them.
        Err(error) if error.is_eof() => {
            let keys = leading_keys(before);
            let record = Object::parse(record);
            keys.len() >= 3 && record.is_some_and(|record| keys.iter().all(|key| record.raw(key).is_some()))
        }
        // The parser stopped where the record begins, or after its first quotation mark, which it took for the end of a
        // text in the part before.
        Err(error) => {
            let first_quote = record.find('"').unwrap_or_default();
            let part_end = before.trim_end_matches(is_meaningless).len();
            (part_end..=before.len() + first_quote + 3).contains(&error.column())
        }
        Ok(_) => false,
    }
}

/// The keys of the outermost level of an object that is cut off.
fn leading_keys(text: &str) -> Vec<&str> {
    let (mut depth, mut string_start, mut escaped) = (0_usize, None, false);
    let (mut keys, mut last_string) = (Vec::new(), None);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, string_start) {
            _ if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (b'"', Some(start)) => {
                last_string = text.get(start..at);
                string_start = None;
            }
            (_, Some(_)) => {}
            (b'"', None) => string_start = Some(at + 1),
            (b'{' | b'[', None) => depth += 1,
            (b'}' | b']', None) => depth = depth.saturating_sub(1),
            (b':', None) if depth == 1 => keys.extend(last_string),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::complete_record;
    use crate::json::Object;

    fn check(text: &str, record: Option<&str>) {
        let found = complete_record(text, &|text| Object::parse(text).is_some());
        assert_eq!(found, record, "{text}");
    }

    const RECORD: &str = r#"{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"x {y} z"}}"#;

    #[test]
    fn a_record_after_a_part_of_it_is_found_wherever_the_part_ends() {
        for end in 1..RECORD.len() {
            // Without three complete fields, a part that ends where a value begins cannot be told from a record that
            // contains an object.
            let before = &RECORD[..end];
            let is_unclear = before.ends_with(':') && before.matches(':').count() < 3;
            check(&format!("{before}{RECORD}"), (!is_unclear).then_some(RECORD));
            check(&format!("{before}\0\0\0{RECORD}"), (!is_unclear).then_some(RECORD));
        }
        check(&format!("xt\":\"abc\"}}}}{RECORD}"), Some(RECORD));
    }

    #[test]
    fn a_record_before_a_part_of_another_is_found() {
        for end in 1..RECORD.len() {
            check(&format!("{RECORD}{}", &RECORD[..end]), Some(RECORD));
        }
    }

    #[test]
    fn nul_bytes_around_a_record_are_skipped() {
        check(&format!("\0\0\0{RECORD}"), Some(RECORD));
        check(&format!("\0{RECORD}\0\0"), Some(RECORD));
    }

    #[test]
    fn a_part_alone_and_two_complete_records_are_not_read() {
        for end in 1..RECORD.len() {
            check(&RECORD[..end], None);
        }
        check(&format!("{RECORD}{RECORD}"), None);
        for text in ["", "[1,2]", "42", "{", "[{\"a\":1}]", "{\"a\":}", "\0\0"] {
            check(text, None);
        }
    }
}
