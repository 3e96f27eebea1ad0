//! Matches the lines of context files with the records of the wire file, to find out when a line was written and
//! whether a tool failed.

use store_core::Role;

use super::{
    context_line::{ContextLineKind, ContextLines},
    history::History,
    wire::{WireEvent, WireRecords},
};
use crate::compact::{BitSet, to_u32};

/// A line of the history: the number of the file and the number of the line, both from 0.
pub(super) type HistoryLine = (usize, usize);

/// A [`HistoryLine`] in less memory.
type SmallLine = (u32, u32);

/// Which lines of contexts and which records of the wire file belong together.
#[derive(Debug, Default)]
pub(super) struct WireMatches {
    /// The record of each line that has one, in the order of the lines.
    lines: Vec<(SmallLine, u32)>,
    /// The line of each record that has one, in the order of the records.
    records: Vec<(u32, SmallLine)>,
}

impl WireMatches {
    /// The record that says when a line was written and, for the result of a call, whether the tool failed.
    pub(super) fn record_of_line(&self, at: HistoryLine) -> Option<usize> {
        let at = self.lines.binary_search_by_key(&small_line(at), |(line, _)| *line).ok()?;
        usize::try_from(self.lines.get(at)?.1).ok()
    }

    /// The line that a record matches. If the record has no match, it is the line of the last earlier record with a
    /// match.
    pub(super) fn line_of_record(&self, record: usize) -> Option<HistoryLine> {
        let record = to_u32(record);
        let up_to = self.records.partition_point(|(at, _)| *at <= record);
        let (file, line_index) = self.records.get(up_to.checked_sub(1)?)?.1;
        Some((usize::try_from(file).ok()?, usize::try_from(line_index).ok()?))
    }
}

/// Matches the lines that do not repeat a line of an earlier file, in their order.
pub(super) fn match_lines(history: &History, contexts: &[&ContextLines], records: &WireRecords) -> WireMatches {
    let lines = NewLines { history, contexts };
    let mut answered_calls: Vec<_> =
        lines.all().filter_map(|(_, context_lines, line_index)| context_lines.answered_call(line_index)).collect();
    answered_calls.sort_unstable();
    let mut matcher = Matcher {
        records,
        turns: match_turns(&lines, records),
        calls: RecordsOfCalls::of(records, |event| match event {
            WireEvent::Call(call) => Some(call),
            _ => None,
        }),
        answers: RecordsOfCalls::of(records, |event| match event {
            WireEvent::Result { call, .. } => Some(call),
            _ => None,
        }),
        answered_calls,
        turn_range: (0, 0),
        next_part: 0,
        matched_records: BitSet::default(),
        wire_matches: WireMatches::default(),
    };
    for (at, context_lines, line_index) in lines.all() {
        matcher.match_line(at, context_lines, line_index);
    }
    let mut wire_matches = matcher.wire_matches;
    wire_matches.records.sort_unstable();
    wire_matches
}

fn small_line((file, line_index): HistoryLine) -> SmallLine {
    (to_u32(file), to_u32(line_index))
}

/// The lines of all contexts that repeat no earlier line.
struct NewLines<'a> {
    history: &'a History,
    contexts: &'a [&'a ContextLines],
}

impl<'a> NewLines<'a> {
    fn all(&self) -> impl Iterator<Item = (SmallLine, &'a ContextLines, usize)> {
        self.contexts.iter().enumerate().flat_map(|(file, context_lines)| {
            self.history
                .new_lines(file)
                .map(move |line_index| (small_line((file, line_index)), *context_lines, line_index))
        })
    }
}

/// The records of one kind that are about calls, as pairs of a call and a record, sorted.
struct RecordsOfCalls(Vec<(u32, u32)>);

impl RecordsOfCalls {
    fn of(records: &WireRecords, call_of: fn(WireEvent) -> Option<u32>) -> Self {
        let mut calls_and_records = Vec::new();
        for (record, event) in records.events().iter().enumerate() {
            call_of(*event).into_iter().for_each(|call| calls_and_records.push((call, to_u32(record))));
        }
        calls_and_records.sort_unstable();
        Self(calls_and_records)
    }

    /// The records about a call from the record `from` on, in order.
    fn of_call(&self, call: u32, from: usize) -> impl Iterator<Item = usize> {
        let first = self.0.partition_point(|known| *known < (call, to_u32(from)));
        let records = self.0.iter().skip(first).take_while(move |(known, _)| *known == call);
        records.filter_map(|(_, record)| usize::try_from(*record).ok())
    }
}

/// A turn, which began with a user message.
struct Turn {
    line: SmallLine,
    /// The record with which it begins.
    first_record: usize,
    /// The record with which the next turn begins, or the number of records.
    end: usize,
}

/// Finds the matches, from the first line to the last.
struct Matcher<'a> {
    records: &'a WireRecords,
    /// The turns of the user messages, in the order of the lines.
    turns: Vec<Turn>,
    /// The records that say that a tool is called.
    calls: RecordsOfCalls,
    /// The records that contain the result of a call.
    answers: RecordsOfCalls,
    /// The calls that lines answer, sorted.
    answered_calls: Vec<u32>,
    /// The first record of the current turn, and the end of the turn. The range is empty while no turn is known.
    turn_range: (usize, usize),
    /// All parts of the current turn before this record have a match.
    next_part: usize,
    matched_records: BitSet,
    wire_matches: WireMatches,
}

impl Matcher<'_> {
    fn match_line(&mut self, at: SmallLine, context_lines: &ContextLines, line_index: usize) {
        if let Ok(found) = self.turns.binary_search_by_key(&at, |turn| turn.line)
            && let Some(Turn { first_record, end, .. }) = self.turns.get(found)
        {
            self.turn_range = (*first_record, *end);
            self.next_part = *first_record;
            return self.add_match(*first_record, at);
        }
        match context_lines.get(line_index).map(|line| line.kind) {
            Some(ContextLineKind::Message(Role::Assistant)) => {
                self.match_assistant_line(at, context_lines.calls(line_index))
            }
            Some(ContextLineKind::Message(Role::Tool)) => {
                self.match_result_line(at, context_lines.answered_call(line_index))
            }
            // A user message without a known turn ends the current turn.
            Some(ContextLineKind::Message(Role::User)) => self.turn_range = (0, 0),
            _ => {}
        }
    }

    fn add_match(&mut self, record: usize, at: SmallLine) {
        self.matched_records.insert(record);
        self.wire_matches.records.push((to_u32(record), at));
        let lines = &mut self.wire_matches.lines;
        match lines.last_mut().filter(|(line, _)| *line == at) {
            None => lines.push((at, to_u32(record))),
            // Of several records, the last one that has a time counts.
            Some((_, last)) if self.records.time(record).is_some() => *last = to_u32(record),
            Some(_) => {}
        }
    }

    /// The first record about a call in the current turn that has no match yet.
    fn find_unmatched_record(&self, records: &RecordsOfCalls, call: u32) -> Option<usize> {
        let (from, to) = self.turn_range;
        let mut records = records.of_call(call, from).take_while(|record| *record < to);
        records.find(|record| !self.matched_records.contains(*record))
    }

    fn match_assistant_line(&mut self, at: SmallLine, calls: impl Iterator<Item = u32>) {
        let mut calls = calls.peekable();
        if calls.peek().is_some() {
            let calls: Vec<_> = calls.filter_map(|call| self.find_unmatched_record(&self.calls, call)).collect();
            // All of these calls are part of the line, and so are the parts of their step. The last call completed the
            // line, so the line gets its time.
            let parts = calls.first().map(|call| self.parts_of_step(*call)).unwrap_or_default();
            return parts.into_iter().chain(calls).for_each(|record| self.add_match(record, at));
        }
        self.next_part = (self.next_part..self.turn_range.1)
            .find(|record| self.is_unmatched_part(*record))
            .unwrap_or(self.turn_range.1);
        if self.next_part < self.turn_range.1 {
            self.parts_of_step(self.next_part).into_iter().for_each(|part| self.add_match(part, at));
        }
    }

    fn is_unmatched_part(&self, record: usize) -> bool {
        self.records.events().get(record) == Some(&WireEvent::Part) && !self.matched_records.contains(record)
    }

    /// The parts without a match in the step that contains a record.
    fn parts_of_step(&self, record: usize) -> Vec<usize> {
        let (from, to) = self.turn_range;
        let is_step = |record: &usize| self.records.events().get(*record) == Some(&WireEvent::Step);
        let start = (from..record).rev().find(is_step).map_or(from, |step| step + 1);
        let records = (start..to).take_while(|record| !is_step(record));
        records.filter(|record| self.is_unmatched_part(*record)).collect()
    }

    fn match_result_line(&mut self, at: SmallLine, call: Option<u32>) {
        let Some(call) = call else { return };
        let record = self.find_unmatched_record(&self.answers, call).or_else(|| self.find_unique_answer(call));
        if let Some(record) = record {
            self.add_match(record, at);
        }
    }

    /// The record that answers a call, if there is exactly one and exactly one line answers the call.
    fn find_unique_answer(&self, call: u32) -> Option<usize> {
        let first = self.answered_calls.partition_point(|answered| *answered < call);
        let is_answered_again = self.answered_calls.get(first + 1) == Some(&call);
        let mut records = self.answers.of_call(call, 0);
        let record = records.next()?;
        (!is_answered_again && records.next().is_none()).then_some(record)
    }
}

/// Finds the turn that each user message begins. First, messages and turns with the same text are paired, in order.
/// The messages and turns between two such pairs are then paired, in order, if there are equally many of both.
fn match_turns(lines: &NewLines<'_>, records: &WireRecords) -> Vec<Turn> {
    let is_user = |context_lines: &ContextLines, line_index| {
        context_lines.get(line_index).is_some_and(|line| line.kind == ContextLineKind::Message(Role::User))
    };
    let messages: Vec<_> =
        lines.all().filter(|(_, context_lines, line_index)| is_user(context_lines, *line_index)).collect();
    let turns: Vec<_> = records.turns().collect();
    let texts = turns.iter().enumerate().filter_map(|(turn, (_, text))| Some(((*text)?, turn)));
    let mut texts: Vec<_> = texts.collect();
    texts.sort_unstable();
    let mut pairs = Vec::new();
    let mut first_free = 0;
    for (message, (_, context_lines, line_index)) in messages.iter().enumerate() {
        let Some(text) = context_lines.text_hash(*line_index) else { continue };
        let found = texts.get(texts.partition_point(|known| *known < (text, first_free)));
        if let Some((_, turn)) = found.filter(|(known, _)| *known == text) {
            pairs.push((message, *turn));
            first_free = turn + 1;
        }
    }
    let mut turn_pairs = pairs.clone();
    let (mut next_message, mut next_turn) = (0, 0);
    for (message, turn) in pairs.into_iter().chain([(messages.len(), turns.len())]) {
        if message - next_message == turn - next_turn {
            turn_pairs.extend((next_message..message).zip(next_turn..turn));
        }
        (next_message, next_turn) = (message + 1, turn + 1);
    }
    turn_pairs.sort_unstable();
    let turn = |(message, turn): (usize, usize)| {
        let end = turns.get(turn + 1).map_or(records.events().len(), |(next, _)| *next);
        Some(Turn { line: messages.get(message)?.0, first_record: turns.get(turn)?.0, end })
    };
    turn_pairs.into_iter().filter_map(turn).collect()
}

#[cfg(test)]
mod tests {
    use store_core::{Role, Timestamp};

    use super::match_lines;
    use crate::{
        compact::TextTable,
        kimi_cli::{
            context_line::{ContextLine, ContextLineKind, ContextLines, hash},
            history::History,
            wire::{WireEvent, WireRecords},
        },
    };

    /// Adds a line: `U:text` is a user message, `A` an assistant message, `A:id` one with a call, `T:id` a result.
    fn add_line(context_lines: &mut ContextLines, call_ids: &mut TextTable, text: &str) {
        let (role, argument) = text.split_once(':').unwrap_or((text, ""));
        let role = match role {
            "U" => Role::User,
            "T" => Role::Tool,
            _ => Role::Assistant,
        };
        match role {
            Role::User => context_lines.push_text_hash(hash(argument)),
            Role::Tool => context_lines.push_answer(call_ids.add(argument).unwrap().0),
            _ if argument.is_empty() => {}
            _ => context_lines.push_call(call_ids.add(argument).unwrap().0),
        }
        context_lines.push(ContextLine { kind: ContextLineKind::Message(role), fingerprint: 0, content_hash: 0 });
    }

    /// Adds a record: `U:text` is a turn, `S` a step, `P` a part, `C:id` a call, `R:id` a result, `E:id` the result
    /// of a failed call. Its time is `at` milliseconds.
    fn add_record(records: &mut WireRecords, call_ids: &mut TextTable, at: usize, text: &str) {
        let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
        let time = Timestamp::from_millis(at as u64).ok();
        let mut call = || call_ids.add(argument).unwrap().0;
        let event = match kind {
            "U" => return records.push_turn(time, Some(hash(argument))),
            "S" => WireEvent::Step,
            "P" => WireEvent::Part,
            "C" => WireEvent::Call(call()),
            "R" => WireEvent::Result { call: call(), is_error: Some(false) },
            _ => WireEvent::Result { call: call(), is_error: Some(true) },
        };
        records.push(time, event);
    }

    /// Checks the matches. `expected` has for each line the number of the record whose time it gets, or `-` for none,
    /// and then `!` if the tool failed.
    fn check(lines: &[&str], records: &[&str], expected: &str) {
        let (mut context_lines, mut wire, mut call_ids) =
            (ContextLines::new(true), WireRecords::default(), TextTable::default());
        lines.iter().for_each(|text| add_line(&mut context_lines, &mut call_ids, text));
        records.iter().enumerate().for_each(|(at, text)| add_record(&mut wire, &mut call_ids, at, text));
        let history = History::of(&[&context_lines], &|_| false);
        let wire_matches = match_lines(&history, &[&context_lines], &wire);
        let found = (0..lines.len()).map(|line_index| {
            let record = wire_matches.record_of_line((0, line_index));
            let time = record.map_or("-".to_owned(), |record| wire.time(record).unwrap().as_millis().to_string());
            format!("{time}{}", if record.and_then(|record| wire.is_error(record)) == Some(true) { "!" } else { "" })
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
