//! The spans of a trace as a tree of lines.

use std::collections::{BTreeMap, BTreeSet};

use agentstore::{
    AttributeValue, Span, SpanId,
    span::conventions::{ERROR_TYPE, INPUT_TOKENS, OUTPUT_TOKENS},
};

use crate::text::{format_duration, one_line, terminal_safe};

/// The columns for the times of spans.
const TIME_WIDTH: usize = 9;

/// A line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The name of the span, below its parent.
    pub(super) name: String,
    /// How long it took, its tokens, and its error.
    pub(super) details: String,
    /// Whether the span failed.
    pub(super) is_error: bool,
}

/// Draws spans as a tree in which each span is below its parent, in the order of their starts. The names are cut so
/// that all lines fit a width. A span whose parent is not among the spans is at the top.
pub(super) fn draw(spans: &[Span], width: usize) -> Vec<Line> {
    let ids: BTreeSet<SpanId> = spans.iter().map(|span| span.span_id).collect();
    let mut below: BTreeMap<SpanId, Vec<&Span>> = BTreeMap::new();
    let mut tree = Tree { below: BTreeMap::new(), drawn: BTreeSet::new(), lines: Vec::new() };
    let mut roots = Vec::new();
    for span in spans {
        match span.parent_span_id.filter(|parent| ids.contains(parent)) {
            Some(parent) => below.entry(parent).or_default().push(span),
            None => roots.push(span),
        }
    }
    tree.below = below;
    for root in roots {
        tree.add(root, "", "");
    }
    // Parents that are below each other have no top.
    for span in spans {
        tree.add(span, "", "");
    }
    let longest = tree.lines.iter().map(|(line, _)| line.details.chars().count()).max().unwrap_or_default();
    let for_names = width.saturating_sub(longest + 2).max(20);
    let cut = |(line, indent): (Line, String)| {
        let name = one_line(&line.name, for_names.saturating_sub(indent.chars().count()).max(8));
        let name = format!("{indent}{name}");
        let missing = for_names.saturating_sub(name.chars().count());
        Line { name: format!("{name}{}", " ".repeat(missing)), ..line }
    };
    tree.lines.into_iter().map(cut).collect()
}

struct Tree<'a> {
    below: BTreeMap<SpanId, Vec<&'a Span>>,
    drawn: BTreeSet<SpanId>,
    /// The lines, each with what stands in front of its name.
    lines: Vec<(Line, String)>,
}

impl Tree<'_> {
    fn add(&mut self, span: &Span, first: &str, margin: &str) {
        if !self.drawn.insert(span.span_id) {
            return;
        }
        let nanos = span.end_nanos.map(|end| end.saturating_sub(span.start_nanos));
        let error = if span.is_error() { format!("  {}", error_text(span)) } else { String::new() };
        let details = format!("{:>TIME_WIDTH$}  {}{error}", duration_text(nanos), tokens_of(span));
        let line =
            Line { name: terminal_safe(&span.name), details: details.trim_end().to_owned(), is_error: span.is_error() };
        self.lines.push((line, first.to_owned()));
        let below = self.below.get(&span.span_id).cloned().unwrap_or_default();
        let count = below.len();
        for (at, child) in below.into_iter().enumerate() {
            let is_last = at + 1 == count;
            let (branch, rest) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.add(child, &format!("{margin}{branch}"), &format!("{margin}{rest}"));
        }
    }
}

/// Returns the message of a span that failed, or the class of its error.
fn error_text(span: &Span) -> String {
    const WIDTH: usize = 40;
    let message = span.status.message.as_deref().filter(|message| !message.is_empty());
    let text = message.or_else(|| span.text(ERROR_TYPE)).unwrap_or_default();
    one_line(&format!("error {}", terminal_safe(text)), WIDTH)
}

fn tokens_of(span: &Span) -> String {
    let count = |key| span.attribute(key).and_then(AttributeValue::as_int).and_then(|count| u64::try_from(count).ok());
    tokens_text(count(INPUT_TOKENS), count(OUTPUT_TOKENS))
}

/// Returns counts of tokens as `20 in, 8 out`; an empty text if none is known.
pub(super) fn tokens_text(input: Option<u64>, output: Option<u64>) -> String {
    let parts = [(input, "in"), (output, "out")];
    let parts: Vec<_> = parts.iter().filter_map(|(count, what)| Some(format!("{} {what}", (*count)?))).collect();
    parts.join(", ")
}

/// Returns a length of time as `12ms`, `4.2s` or `5m 7s`; `?` if it is not known.
pub(super) fn duration_text(nanos: Option<u64>) -> String {
    let Some(nanos) = nanos else { return "?".to_owned() };
    let millis = nanos / 1_000_000;
    match millis {
        0..1_000 => format!("{millis}ms"),
        1_000..60_000 => format!("{}.{}s", millis / 1_000, millis % 1_000 / 100),
        _ => format_duration(millis / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use agentstore::{Span, Timestamp, span::conventions};

    use super::{draw, duration_text};

    fn span(number: u64, start: u64, end: Option<u64>, parent: Option<u64>) -> Span {
        let id = |number: u64| format!("{number:016x}").parse().unwrap();
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        let trace = "5b8efff798038103d269b633813fc60c".parse().unwrap();
        let mut span = Span::new(trace, id(number), format!("span {number}"), time(start));
        if let Some(end) = end {
            span = span.ending_at(time(end));
        }
        if let Some(parent) = parent {
            span = span.below(id(parent));
        }
        span
    }

    fn drawn(spans: &[Span], width: usize) -> Vec<String> {
        draw(spans, width).iter().map(|line| format!("{}  {}", line.name, line.details)).collect()
    }

    #[test]
    fn spans_are_drawn_below_their_parents() {
        let tokens = span(2, 10, Some(260), Some(1))
            .with(conventions::INPUT_TOKENS, 20_u64)
            .with(conventions::OUTPUT_TOKENS, 8_u64);
        let failed = span(4, 30, Some(1_530), Some(3)).failed(Some("no answer".to_owned()));
        let spans = [
            span(1, 0, None, None),
            tokens,
            span(3, 20, Some(61_020), Some(1)),
            failed,
            span(5, 40, Some(41), Some(9)),
        ];
        let lines = drawn(&spans, 70);
        assert_eq!(
            lines,
            [
                "span 1                                            ?",
                "├─ span 2                                     250ms  20 in, 8 out",
                "└─ span 3                                     1m 1s",
                "   └─ span 4                                   1.5s    error no answer",
                "span 5                                          1ms",
            ]
        );
        assert_eq!(draw(&spans, 70).iter().filter(|line| line.is_error).count(), 1);
    }

    #[test]
    fn every_line_fits_and_every_span_is_drawn_once() {
        let mut long = span(1, 0, Some(5), None);
        long.name = "x".repeat(500);
        for width in [50, 80, 200] {
            for line in drawn(&[long.clone(), span(2, 1, Some(2), Some(1))], width) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        // Two spans that are below each other.
        let lines = drawn(&[span(1, 0, Some(1), Some(2)), span(2, 0, Some(1), Some(1))], 80);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(drawn(&[], 80).is_empty());
    }

    #[test]
    fn lengths_of_time_are_short() {
        for (millis, expected) in
            [(0, "0ms"), (999, "999ms"), (1_000, "1.0s"), (59_999, "59.9s"), (60_000, "1m"), (3_661_000, "1h 1m")]
        {
            assert_eq!(duration_text(Some(millis * 1_000_000)), expected);
        }
        assert_eq!(duration_text(None), "?");
    }
}
