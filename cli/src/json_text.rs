//! JSON values as lines of text for people, and the lines in which two values differ.

use agentstore::Json;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::{failure::Result, output::Output, text::terminal_safe};

/// The number of equal lines that are shown before and after a difference.
const LINES_AROUND: usize = 2;

/// Returns a value on several lines. Numbers and texts keep their spelling.
///
/// A text with line ends continues on the next line after each `\n`, so that long texts can be read and compared. Such
/// lines are no JSON any more.
pub(crate) fn lines(value: &Json) -> Vec<String> {
    let mut out = String::new();
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let begin_line = |out: &mut String, depth| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    let mut chars = value.as_str().chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            out.push(c);
            let ends_line = escaped && c == 'n' && chars.peek() != Some(&'"');
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            if ends_line {
                begin_line(&mut out, depth + 1);
            }
            continue;
        }
        match c {
            '{' | '[' if matches!(chars.peek(), Some('}' | ']')) => {
                out.push(c);
                out.extend(chars.next());
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
                begin_line(&mut out, depth);
            }
            '}' | ']' => {
                depth -= 1;
                begin_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                begin_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = c == '"';
                out.push(c);
            }
        }
    }
    out.lines().map(terminal_safe).collect()
}

/// Prints a value on several lines.
pub(crate) fn print(value: &Json, out: &mut Output) -> Result<()> {
    lines(value).iter().try_for_each(|line| out.print_line(line))
}

/// Prints the lines in which two values differ, and some lines around them. A missing value has no lines.
pub(crate) fn print_difference(before: Option<&Json>, after: Option<&Json>, out: &mut Output) -> Result<()> {
    for (mark, line) in difference(before, after) {
        let line = out.style(format!("  {mark} {line}").trim_end().to_owned());
        out.print_line(match mark {
            '-' => line.red(),
            '+' => line.green(),
            _ => line.dim(),
        })?;
    }
    Ok(())
}

/// Returns the lines in which two values differ, each with `-` if only the first value has it, `+` if only the second
/// has it, and a space if both have it.
fn difference(before: Option<&Json>, after: Option<&Json>) -> Vec<(char, String)> {
    let [before, after] = [before, after].map(|value| value.map(lines).unwrap_or_default());
    let operations = capture_diff_slices(Algorithm::Myers, &before, &after);
    let mut found = Vec::new();
    for group in group_diff_ops(operations, LINES_AROUND) {
        if !found.is_empty() {
            found.push((' ', "⋯".to_owned()));
        }
        for operation in group {
            let is_common = matches!(operation, DiffOp::Equal { .. });
            let old_lines = before.get(operation.old_range()).unwrap_or_default();
            let new_lines = if is_common { &[][..] } else { after.get(operation.new_range()).unwrap_or_default() };
            found.extend(old_lines.iter().map(|line| (if is_common { ' ' } else { '-' }, line.clone())));
            found.extend(new_lines.iter().map(|line| ('+', line.clone())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use agentstore::Json;

    use super::{difference, lines};

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn a_value_is_spread_over_lines_and_keeps_its_spelling() {
        let check = |value: &str, expected: &str| assert_eq!(lines(&json(value)).join("\n"), expected);
        check("1.0", "1.0");
        check("[]", "[]");
        check(r#"{"a":{},"b":[1e2,"x,{"]}"#, "{\n  \"a\": {},\n  \"b\": [\n    1e2,\n    \"x,{\"\n  ]\n}");
        check(r#"{"a":"\"b\\","c":"\\n"}"#, "{\n  \"a\": \"\\\"b\\\\\",\n  \"c\": \"\\\\n\"\n}");
        check(r#"{"p":"one\ntwo\n"}"#, "{\n  \"p\": \"one\\n\n    two\\n\"\n}");
        check("\"a\u{9b}b\"", "\"a\u{fffd}b\"");
    }

    #[test]
    fn a_difference_has_the_changed_lines_and_two_around_them() {
        let check = |before: Option<&str>, after: Option<&str>, expected: &str| {
            let (before, after) = (before.map(json), after.map(json));
            let found = difference(before.as_ref(), after.as_ref());
            let found: Vec<_> = found.into_iter().map(|(mark, line)| format!("{mark}{}", line.trim())).collect();
            assert_eq!(found.join("|"), expected);
        };
        check(Some("1"), Some("1"), "");
        check(None, Some("[1]"), "+[|+1|+]");
        check(Some("1"), None, "-1");
        check(Some("[1,2,3,4]"), Some("[1,2,3,5]"), " 2,| 3,|-4|+5| ]");
        check(Some("[1,2,3,4,5,6,7,8,9]"), Some("[0,2,3,4,5,6,7,8,0]"), " [|-1,|+0,| 2,| 3,| ⋯| 7,| 8,|-9|+0| ]");
        check(Some(r#"{"p":"a\nb\nc"}"#), Some(r#"{"p":"a\nB\nc"}"#), r#" {| "p": "a\n|-b\n|+B\n| c"| }"#);
    }
}
