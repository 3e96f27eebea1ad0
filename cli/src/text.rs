//! Records as text for people: short, on one line, safe to print on a terminal.

use agentstore::{Block, BlockKind, Body, Entry, Message, RewindTo, Timestamp, TokenCounts};

/// Returns a time as `2025-11-21 08:46:03Z`.
pub(crate) fn format_time(at: Timestamp) -> String {
    format_timestamp(at, "%Y-%m-%d %H:%M:%SZ")
}

/// Returns a time as `2025-11-21 08:46Z`, for tables with little space.
pub(crate) fn format_minute(at: Timestamp) -> String {
    format_timestamp(at, "%Y-%m-%d %H:%MZ")
}

fn format_timestamp(at: Timestamp, format: &str) -> String {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => time.strftime(format).to_string(),
        Err(_) => at.to_string(),
    }
}

/// Returns a number with its noun in the singular or the plural: `1 thread`, `2 threads`.
pub(crate) fn with_noun(number: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if number == 1 => noun.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with("ch") || noun.ends_with("ss") => format!("{noun}es"),
        None if noun.ends_with("leaf") => noun.replace("leaf", "leaves"),
        None => format!("{noun}s"),
    };
    format!("{number} {plural}")
}

/// Returns a number of seconds in its two largest units, as `2d 3h`, `5m 7s` or `0s`.
pub(crate) fn format_duration(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let mut remaining = seconds;
    let mut parts = Vec::new();
    for (unit, size) in units {
        if remaining >= size {
            parts.push(format!("{}{unit}", remaining / size));
            remaining %= size;
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Returns token counts as `1200 in, 80 out, 5000 from cache`.
pub(crate) fn format_tokens(counts: &TokenCounts) -> String {
    let parts = [
        (counts.input, "in"),
        (counts.output, "out"),
        (counts.cache_read, "from cache"),
        (counts.cache_write, "to cache"),
    ];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// Returns the text without control characters, which could move the cursor of a terminal or change its title. Line
/// ends and tabs stay.
pub(crate) fn terminal_safe(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Returns the text on one line of at most `width` columns.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        // Further words would be cut off anyway, and a text may be huge.
        if words.len() > 4 * width {
            break;
        }
    }
    console::truncate_str(&terminal_safe(&words), width, "…").into_owned()
}

/// Returns the role of a message, or the kind of another body.
pub(crate) fn role_or_kind(entry: &Entry) -> &'static str {
    entry.message().map_or_else(|| entry.kind().name(), |message| message.role.name())
}

/// Returns the content of an entry as text of any length; [`one_line`] shortens it.
pub(crate) fn content_text(entry: &Entry) -> String {
    match &*entry.body {
        Body::Message(message) => message_text(message),
        Body::Compaction(compaction) => {
            let text = blocks_text(&compaction.summary);
            match &compaction.covers {
                Some(covers) => format!("replaces {} to {}: {text}", covers.from, covers.to),
                None => text,
            }
        }
        Body::Checkpoint(checkpoint) => match &checkpoint.label {
            Some(label) => format!("number {} `{label}`", checkpoint.number),
            None => format!("number {}", checkpoint.number),
        },
        Body::Usage(usage) => usage.spent.as_ref().map(format_tokens).unwrap_or_default(),
        Body::Label(label) => match &label.text {
            Some(text) => format!("`{text}` for {}", label.target),
            None => format!("removed from {}", label.target),
        },
        Body::Rewind(rewind) => match &rewind.to {
            Some(to) => format!("to {to}"),
            None => "to the start".to_owned(),
        },
        Body::Custom(custom) => format!("{} {}", custom.kind, custom.data.as_str()),
        Body::Decision(decision) => format!("{} ticket {} of run {}", decision.action, decision.ticket, decision.run),
        Body::Unknown { kind, data } => format!("{kind} {}", data.as_str()),
        _ => String::new(),
    }
}

/// Returns the target of a rewind in words.
pub(crate) fn rewind_target_text(to: &RewindTo) -> String {
    match to {
        RewindTo::Start => "the start".to_owned(),
        RewindTo::Entry(entry) => format!("entry {entry}"),
        RewindTo::Checkpoint(number) => format!("before checkpoint {number}"),
        // Both variants name a checkpoint. That of `Label` is on the path of the head. That of `Snapshot` can be on any
        // branch.
        RewindTo::Label(name) | RewindTo::Snapshot(name) => format!("before checkpoint `{name}`"),
    }
}

/// Returns the text of a message with its tool calls and results.
pub(crate) fn message_text(message: &Message) -> String {
    blocks_text(&message.blocks)
}

fn blocks_text(blocks: &[Block]) -> String {
    blocks.iter().map(block_text).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

fn block_text(block: &Block) -> String {
    match &block.kind {
        BlockKind::Text(text) => text.clone(),
        BlockKind::Thinking(thinking) if thinking.text.is_empty() => "(thinking, without text)".to_owned(),
        BlockKind::Thinking(thinking) => format!("(thinking) {}", thinking.text),
        BlockKind::Image(media) | BlockKind::Document(media) | BlockKind::Audio(media) | BlockKind::Video(media) => {
            format!("(media: {})", media.media_type.as_deref().unwrap_or("of an unknown type"))
        }
        BlockKind::ToolUse(call) => format!("→ {} {}", call.name, call.input.as_str()),
        BlockKind::ToolResult(result) => {
            let mark = if result.is_error == Some(true) { "← (failed) " } else { "← " };
            format!("{mark}{}", blocks_text(&result.blocks))
        }
        BlockKind::Opaque(opaque) => format!("(for {} only)", opaque.origin.provider),
        BlockKind::Unknown { kind, .. } => format!("({kind})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{format_duration, format_time, one_line, terminal_safe, with_noun};
    use agentstore::Timestamp;

    #[test]
    fn times_are_shown_as_dates_in_utc() {
        assert_eq!(format_time(Timestamp::from_millis(1_763_700_000_123).unwrap()), "2025-11-21 04:40:00Z");
        assert_eq!(format_time(Timestamp::MIN), "1970-01-01 00:00:00Z");
    }

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!(
            [with_noun(0, "entry"), with_noun(1, "entry"), with_noun(2, "leaf")],
            ["0 entries", "1 entry", "2 leaves"]
        );
        assert_eq!([with_noun(1, "dispatch"), with_noun(2, "dispatch")], ["1 dispatch", "2 dispatches"]);
    }

    #[test]
    fn elapsed_times_are_rounded_down() {
        assert_eq!([0, 59, 61, 3_600, 200_000].map(format_duration), ["0s", "59s", "1m 1s", "1h", "2d 7h"]);
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        assert_eq!(terminal_safe("a\x1b[31mb\x07\n"), "a\u{fffd}[31mb\u{fffd}\n");
        assert_eq!(one_line("one\n two\tthree", 9), "one two …");
        assert_eq!(one_line("日本語です", 5), "日本…");
    }
}
