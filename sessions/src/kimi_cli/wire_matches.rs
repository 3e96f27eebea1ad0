//! Matches the lines of context files with the records of the wire file, to find out when a line was written and
//! whether a tool failed.

use std::collections::{HashMap, HashSet};

use store_core::{Role, Timestamp};

use super::{
    context_line::{ContextLine, ContextLineKind},
    wire::{WireEvent, WireRecord},
};

/// A line of the history: the number of the file and the number of the line, both from 0.
pub(super) type HistoryLine = (usize, usize);

/// What the records of the wire file say about the lines of contexts.
#[derive(Debug, Default)]
pub(super) struct WireMatches {
    /// When lines were written.
    pub(super) times: HashMap<HistoryLine, Timestamp>,
    /// Whether the tool failed, for lines that contain a result.
    pub(super) failures: HashMap<HistoryLine, bool>,
    /// For each record, the line that it matches. A record without a match has the line of the last record before it
    /// that has a match.
    pub(super) record_lines: Vec<Option<HistoryLine>>,
}

impl WireMatches {
    /// Matches `lines` in their order. They are the lines that do not repeat a line of an earlier file.
    pub(super) fn of(lines: &[(HistoryLine, &ContextLine)], records: &[WireRecord]) -> Self {
        let mut matcher = Matcher {
            records,
            turns: turns(lines, records),
            unique_answers: unique_answers(lines, records),
            turn_range: (0, 0),
            matched_records: HashSet::new(),
            line_of_record: HashMap::new(),
            wire_matches: Self::default(),
        };
        for (at, row) in lines {
            matcher.match_line(*at, row);
        }
        let Matcher { line_of_record, mut wire_matches, .. } = matcher;
        let mut last = None;
        for record in 0..records.len() {
            last = line_of_record.get(&record).copied().or(last);
            wire_matches.record_lines.push(last);
        }
        wire_matches
    }
}

/// Finds the matches, from the first line to the last.
struct Matcher<'a> {
    records: &'a [WireRecord],
    /// For the line of a user message: the record with which the turn of this message begins.
    turns: HashMap<HistoryLine, usize>,
    /// For each call id that is answered by exactly one record and exactly one line: the record.
    unique_answers: HashMap<&'a str, usize>,
    /// The first record of the current turn, and the end of the turn. The range is empty while no turn is known.
    turn_range: (usize, usize),
    matched_records: HashSet<usize>,
    /// The line that each record matches.
    line_of_record: HashMap<usize, HistoryLine>,
    wire_matches: WireMatches,
}

impl Matcher<'_> {
    fn match_line(&mut self, at: HistoryLine, row: &ContextLine) {
        let is_turn = |record: &WireRecord| matches!(record.event, WireEvent::Turn(_));
        if let Some(&turn) = self.turns.get(&at) {
            let next_turn = self.records.iter().skip(turn + 1).position(is_turn);
            self.turn_range = (turn, next_turn.map_or(self.records.len(), |next_turn| turn + 1 + next_turn));
            return self.record_match(turn, at);
        }
        match row.kind {
            ContextLineKind::Message(Role::Assistant) => self.match_assistant_line(at, row),
            ContextLineKind::Message(Role::Tool) => self.match_result_line(at, row),
            // A user message without a known turn ends the turn before it.
            ContextLineKind::Message(Role::User) => self.turn_range = (0, 0),
            _ => {}
        }
    }

    fn record_match(&mut self, record: usize, at: HistoryLine) {
        self.matched_records.insert(record);
        self.line_of_record.insert(record, at);
        if let Some(time) = self.records.get(record).and_then(|record| record.time) {
            self.wire_matches.times.insert(at, time);
        }
    }

    /// The first record of the current turn that fits and has no match yet.
    fn find_unmatched_record(&self, fits: impl Fn(&WireEvent) -> bool) -> Option<usize> {
        let (from, to) = self.turn_range;
        let mut records = self.records.iter().enumerate().take(to).skip(from);
        records.find(|(at, record)| !self.matched_records.contains(at) && fits(&record.event)).map(|(at, _)| at)
    }

    fn match_assistant_line(&mut self, at: HistoryLine, row: &ContextLine) {
        if !row.calls.is_empty() {
            let calls: Vec<_> = row
                .calls
                .iter()
                .filter_map(|id| self.find_unmatched_record(|event| *event == WireEvent::Call(id.clone())))
                .collect();
            // All of these calls are part of the line, and so are the parts of their step. The last call completed the
            // line, so the line gets its time.
            let parts = calls.first().map(|call| self.parts_of_step(*call)).unwrap_or_default();
            return parts.into_iter().chain(calls).for_each(|record| self.record_match(record, at));
        }
        let Some(first) = self.find_unmatched_record(|event| *event == WireEvent::Part) else { return };
        self.parts_of_step(first).into_iter().for_each(|part| self.record_match(part, at));
    }

    /// The parts without a match in the step that contains a record.
    fn parts_of_step(&self, record: usize) -> Vec<usize> {
        let (from, to) = self.turn_range;
        let turn = || self.records.iter().enumerate().take(to).skip(from);
        let is_step = |found: &WireRecord| found.event == WireEvent::Step;
        let step = turn().take(record.saturating_sub(from)).rev().find(|(_, found)| is_step(found));
        let start = step.map_or(from, |(at, _)| at + 1);
        let records = turn().skip(start.saturating_sub(from)).take_while(|(_, found)| !is_step(found));
        let parts = records.filter(|(at, found)| found.event == WireEvent::Part && !self.matched_records.contains(at));
        parts.map(|(at, _)| at).collect()
    }

    fn match_result_line(&mut self, at: HistoryLine, row: &ContextLine) {
        let Some(id) = &row.answered_call else { return };
        let is_answer = |event: &WireEvent| matches!(event, WireEvent::Result { id: answered, .. } if answered == id);
        let unique_answers = || self.unique_answers.get(id.as_str()).copied();
        let Some(record) = self.find_unmatched_record(is_answer).or_else(unique_answers) else { return };
        if let Some(WireRecord { event: WireEvent::Result { is_error: Some(is_error), .. }, .. }) =
            self.records.get(record)
        {
            self.wire_matches.failures.insert(at, *is_error);
        }
        self.record_match(record, at);
    }
}

/// For each call id that is answered by exactly one record and exactly one line: the record.
fn unique_answers<'a>(lines: &[(HistoryLine, &ContextLine)], records: &'a [WireRecord]) -> HashMap<&'a str, usize> {
    let mut answers: HashMap<&str, usize> = HashMap::new();
    for id in lines.iter().filter_map(|(_, row)| row.answered_call.as_deref()) {
        *answers.entry(id).or_default() += 1;
    }
    let mut found: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        if let WireEvent::Result { id, .. } = &record.event {
            found.entry(id).or_default().push(at);
        }
    }
    let single = |(id, at): (&'a str, Vec<usize>)| match at.as_slice() {
        [at] if answers.get(id) == Some(&1) => Some((id, *at)),
        _ => None,
    };
    found.into_iter().filter_map(single).collect()
}

/// Finds the turn that each user message begins. First, messages and turns with the same text are paired, in order.
/// The messages and turns between two such pairs are then paired, in order, if there are equally many of both.
fn turns(lines: &[(HistoryLine, &ContextLine)], records: &[WireRecord]) -> HashMap<HistoryLine, usize> {
    let user_lines: Vec<_> = lines.iter().filter(|(_, row)| row.kind == ContextLineKind::Message(Role::User)).collect();
    let turns = records.iter().enumerate().filter_map(|(at, record)| match record.event {
        WireEvent::Turn(text) => Some((at, text)),
        _ => None,
    });
    let turns: Vec<_> = turns.collect();
    let mut pairs = Vec::new();
    let mut from = 0;
    for (at, (_, row)) in user_lines.iter().enumerate() {
        let rest = turns.iter().enumerate().skip(from);
        let same = rest.clone().find(|(_, (_, text))| row.text_hash.is_some() && *text == row.text_hash);
        if let Some((turn, _)) = same {
            pairs.push((at, turn));
            from = turn + 1;
        }
    }
    let mut all = pairs.clone();
    let (mut next_line, mut next_turn) = (0, 0);
    for (at, turn) in pairs.into_iter().chain([(user_lines.len(), turns.len())]) {
        if at - next_line == turn - next_turn {
            all.extend((next_line..at).zip(next_turn..turn));
        }
        (next_line, next_turn) = (at + 1, turn + 1);
    }
    let pair = |(at, turn): (usize, usize)| Some((user_lines.get(at)?.0, turns.get(turn)?.0));
    all.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use store_core::{Role, Timestamp};

    use super::{HistoryLine, WireMatches};
    use crate::kimi_cli::{
        context_line::{ContextLine, ContextLineKind, hash},
        wire::{WireEvent, WireRecord},
    };

    /// Makes a line: `U:text` is a user message, `A` an assistant message, `A:id` one with a call, `T:id` a result.
    fn row(text: &str) -> ContextLine {
        let (role, what) = text.split_once(':').unwrap_or((text, ""));
        let mut row = ContextLine {
            kind: ContextLineKind::Message(Role::Assistant),
            fingerprint: (0, 0),
            content_hash: 0,
            text_hash: None,
            calls: Vec::new(),
            answered_call: None,
        };
        match role {
            "U" => (row.kind, row.text_hash) = (ContextLineKind::Message(Role::User), Some(hash(what))),
            "T" => (row.kind, row.answered_call) = (ContextLineKind::Message(Role::Tool), Some(what.to_owned())),
            _ if what.is_empty() => {}
            _ => row.calls.push(what.to_owned()),
        }
        row
    }

    /// Makes a record: `U:text` is a turn, `S` a step, `P` a part, `C:id` a call, `R:id` a result, `E:id` the result
    /// of a failed call. Its time is `at` milliseconds.
    fn record(at: usize, text: &str) -> WireRecord {
        let (kind, what) = text.split_once(':').unwrap_or((text, ""));
        let result = |is_error| WireEvent::Result { id: what.to_owned(), is_error: Some(is_error) };
        let event = match kind {
            "U" => WireEvent::Turn(Some(hash(what))),
            "S" => WireEvent::Step,
            "P" => WireEvent::Part,
            "C" => WireEvent::Call(what.to_owned()),
            "R" => result(false),
            _ => result(true),
        };
        WireRecord { time: Timestamp::from_millis(at as u64).ok(), event }
    }

    /// Checks the matches. `expected` has for each line the number of the record whose time it gets, or `-` for none,
    /// and then `!` if the tool failed.
    fn check(lines: &[&str], records: &[&str], expected: &str) {
        let rows: Vec<_> = lines.iter().map(|text| row(text)).collect();
        let rows: Vec<(HistoryLine, &ContextLine)> = rows.iter().enumerate().map(|(at, row)| ((0, at), row)).collect();
        let records: Vec<_> = records.iter().enumerate().map(|(at, text)| record(at, text)).collect();
        let wire_matches = WireMatches::of(&rows, &records);
        let found = rows.iter().map(|(at, _)| {
            let time = wire_matches.times.get(at).map_or("-".to_owned(), |time| time.as_millis().to_string());
            format!("{time}{}", if wire_matches.failures.get(at) == Some(&true) { "!" } else { "" })
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{lines:?}");
    }

    #[test]
    fn turns_match_in_order() {
        check(&["U:a", "U:a", "U:b"], &["U:a", "U:a", "U:b"], "0 1 2");
        check(&["U:a", "U:b"], &["U:x", "U:a", "U:b"], "1 2");
        // A message that is not in the wire file gets no time. The times of the other messages are not affected.
        check(&["U:old", "U:a"], &["U:a"], "- 0");
        check(&["U:a", "U:changed", "U:c"], &["U:a", "U:b", "U:c"], "0 1 2");
        check(&["U:a", "U:x", "U:y", "U:c"], &["U:a", "U:b", "U:c"], "0 - - 2");
    }

    #[test]
    fn calls_and_results_match_within_their_turn() {
        let turn = ["U:a", "S", "C:1", "C:2", "E:2", "R:1", "S", "P", "P"];
        check(&["U:a", "A:1", "T:1", "T:2", "A"], &turn, "0 2 5 4! 8");
        // The parts of a step with calls are not those of the next step.
        check(&["U:a", "A:1", "T:1", "A"], &["U:a", "S", "P", "C:1", "R:1", "S", "P"], "0 3 4 6");
        // After a revert, the same call ids are used again.
        let records = ["U:a", "S", "C:1", "E:1", "U:a", "S", "C:1", "R:1"];
        check(&["U:a", "A:1", "T:1", "U:a", "A:1", "T:1"], &records, "0 2 3! 4 6 7");
        check(&["U:a", "A:1", "T:1", "U:b", "A:1", "T:1"], &["U:a", "C:1", "E:1"], "0 1 2! - - -");
        // A result is found without its turn if its call id is unique.
        check(&["U:old", "A:1", "T:1"], &["U:x", "U:y", "C:1", "E:1"], "- - 3!");
    }
}
