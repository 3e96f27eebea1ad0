//! Matches the lines of context files with the records of the wire file, to find out when a line was written and
//! whether a tool failed.

use std::collections::{HashMap, HashSet};

use store_core::{Role, Timestamp};

use super::{
    row::{Kind, Row},
    wire::{Event, Record},
};

/// A line of the history: the number of the file and the number of the line, both from 0.
pub(super) type At = (usize, usize);

/// What the records of the wire file say about the lines of contexts.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// When lines were written.
    pub(super) times: HashMap<At, Timestamp>,
    /// Whether the tool failed, for lines that contain a result.
    pub(super) failures: HashMap<At, bool>,
    /// For each record, the line that it matches. A record without a match has the line of the last record before it
    /// that has a match.
    pub(super) lines: Vec<Option<At>>,
}

impl Clock {
    /// Matches `lines` in their order. They are the lines that do not repeat a line of an earlier file.
    pub(super) fn of(lines: &[(At, &Row)], records: &[Record]) -> Self {
        let mut hand = Hand {
            records,
            turns: turns(lines, records),
            only: only(lines, records),
            range: (0, 0),
            used: HashSet::new(),
            found: HashMap::new(),
            clock: Self::default(),
        };
        for (at, row) in lines {
            hand.line(*at, row);
        }
        let Hand { found, mut clock, .. } = hand;
        let mut last = None;
        for record in 0..records.len() {
            last = found.get(&record).copied().or(last);
            clock.lines.push(last);
        }
        clock
    }
}

/// Finds the matches, from the first line to the last.
struct Hand<'a> {
    records: &'a [Record],
    /// For the line of a user message: the record with which the turn of this message begins.
    turns: HashMap<At, usize>,
    /// For each call id that is answered by exactly one record and exactly one line: the record.
    only: HashMap<&'a str, usize>,
    /// The first record of the current turn, and the end of the turn. The range is empty while no turn is known.
    range: (usize, usize),
    used: HashSet<usize>,
    /// The line that each record matches.
    found: HashMap<usize, At>,
    clock: Clock,
}

impl Hand<'_> {
    fn line(&mut self, at: At, row: &Row) {
        let is_turn = |record: &Record| matches!(record.event, Event::Turn(_));
        if let Some(&turn) = self.turns.get(&at) {
            let behind = self.records.iter().skip(turn + 1).position(is_turn);
            self.range = (turn, behind.map_or(self.records.len(), |behind| turn + 1 + behind));
            return self.note(turn, at);
        }
        match row.kind {
            Kind::Message(Role::Assistant) => self.spoken(at, row),
            Kind::Message(Role::Tool) => self.answered(at, row),
            // A user message without a known turn ends the turn before it.
            Kind::Message(Role::User) => self.range = (0, 0),
            _ => {}
        }
    }

    fn note(&mut self, record: usize, at: At) {
        self.used.insert(record);
        self.found.insert(record, at);
        if let Some(time) = self.records.get(record).and_then(|record| record.time) {
            self.clock.times.insert(at, time);
        }
    }

    /// The first record of the current turn that fits and has no match yet.
    fn search(&self, fits: impl Fn(&Event) -> bool) -> Option<usize> {
        let (from, to) = self.range;
        let mut records = self.records.iter().enumerate().take(to).skip(from);
        records.find(|(at, record)| !self.used.contains(at) && fits(&record.event)).map(|(at, _)| at)
    }

    fn spoken(&mut self, at: At, row: &Row) {
        if !row.calls.is_empty() {
            let calls: Vec<_> =
                row.calls.iter().filter_map(|id| self.search(|event| *event == Event::Call(id.clone()))).collect();
            // All of these calls are part of the line. The last call completed the line, so the line gets its time.
            return calls.into_iter().for_each(|call| self.note(call, at));
        }
        let Some(first) = self.search(|event| *event == Event::Part) else { return };
        let step = self.records.iter().enumerate().take(self.range.1).skip(first);
        let parts = step.take_while(|(_, record)| record.event != Event::Step);
        let parts: Vec<_> = parts.filter(|(_, record)| record.event == Event::Part).map(|(record, _)| record).collect();
        parts.into_iter().for_each(|part| self.note(part, at));
    }

    fn answered(&mut self, at: At, row: &Row) {
        let Some(id) = &row.answers else { return };
        let is_answer = |event: &Event| matches!(event, Event::Result { id: answered, .. } if answered == id);
        let only = || self.only.get(id.as_str()).copied();
        let Some(record) = self.search(is_answer).or_else(only) else { return };
        if let Some(Record { event: Event::Result { is_error: Some(is_error), .. }, .. }) = self.records.get(record) {
            self.clock.failures.insert(at, *is_error);
        }
        self.note(record, at);
    }
}

/// For each call id that is answered by exactly one record and exactly one line: the record.
fn only<'a>(lines: &[(At, &Row)], records: &'a [Record]) -> HashMap<&'a str, usize> {
    let mut answers: HashMap<&str, usize> = HashMap::new();
    for id in lines.iter().filter_map(|(_, row)| row.answers.as_deref()) {
        *answers.entry(id).or_default() += 1;
    }
    let mut found: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        if let Event::Result { id, .. } = &record.event {
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
fn turns(lines: &[(At, &Row)], records: &[Record]) -> HashMap<At, usize> {
    let said: Vec<_> = lines.iter().filter(|(_, row)| row.kind == Kind::Message(Role::User)).collect();
    let turns = records.iter().enumerate().filter_map(|(at, record)| match record.event {
        Event::Turn(text) => Some((at, text)),
        _ => None,
    });
    let turns: Vec<_> = turns.collect();
    let mut pairs = Vec::new();
    let mut from = 0;
    for (at, (_, row)) in said.iter().enumerate() {
        let rest = turns.iter().enumerate().skip(from);
        let same = rest.clone().find(|(_, (_, text))| row.said.is_some() && *text == row.said);
        if let Some((turn, _)) = same {
            pairs.push((at, turn));
            from = turn + 1;
        }
    }
    let mut all = pairs.clone();
    let mut start = (0, 0);
    for (at, turn) in pairs.into_iter().chain([(said.len(), turns.len())]) {
        if at - start.0 == turn - start.1 {
            all.extend((start.0..at).zip(start.1..turn));
        }
        start = (at + 1, turn + 1);
    }
    let pair = |(at, turn): (usize, usize)| Some((said.get(at)?.0, turns.get(turn)?.0));
    all.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use store_core::{Role, Timestamp};

    use super::{At, Clock};
    use crate::kimi_cli::{
        row::{Kind, Row, hash},
        wire::{Event, Record},
    };

    /// Makes a line: `U:text` is a user message, `A` an assistant message, `A:id` one with a call, `T:id` a result.
    fn row(text: &str) -> Row {
        let (role, what) = text.split_once(':').unwrap_or((text, ""));
        let mut row = Row {
            kind: Kind::Message(Role::Assistant),
            bytes: (0, 0),
            same: 0,
            said: None,
            calls: Vec::new(),
            answers: None,
        };
        match role {
            "U" => (row.kind, row.said) = (Kind::Message(Role::User), Some(hash(what))),
            "T" => (row.kind, row.answers) = (Kind::Message(Role::Tool), Some(what.to_owned())),
            _ if what.is_empty() => {}
            _ => row.calls.push(what.to_owned()),
        }
        row
    }

    /// Makes a record: `U:text` is a turn, `S` a step, `P` a part, `C:id` a call, `R:id` a result, `E:id` the result
    /// of a failed call. Its time is `at` milliseconds.
    fn record(at: usize, text: &str) -> Record {
        let (kind, what) = text.split_once(':').unwrap_or((text, ""));
        let result = |is_error| Event::Result { id: what.to_owned(), is_error: Some(is_error) };
        let event = match kind {
            "U" => Event::Turn(Some(hash(what))),
            "S" => Event::Step,
            "P" => Event::Part,
            "C" => Event::Call(what.to_owned()),
            "R" => result(false),
            _ => result(true),
        };
        Record { time: Timestamp::from_millis(at as u64).ok(), event }
    }

    /// Checks the matches. `expected` has for each line the number of the record whose time it gets, or `-` for none,
    /// and then `!` if the tool failed.
    fn check(lines: &[&str], records: &[&str], expected: &str) {
        let rows: Vec<_> = lines.iter().map(|text| row(text)).collect();
        let rows: Vec<(At, &Row)> = rows.iter().enumerate().map(|(at, row)| ((0, at), row)).collect();
        let records: Vec<_> = records.iter().enumerate().map(|(at, text)| record(at, text)).collect();
        let clock = Clock::of(&rows, &records);
        let found = rows.iter().map(|(at, _)| {
            let time = clock.times.get(at).map_or("-".to_owned(), |time| time.as_millis().to_string());
            format!("{time}{}", if clock.failures.get(at) == Some(&true) { "!" } else { "" })
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
        // After a revert, the same call ids are used again.
        let records = ["U:a", "S", "C:1", "E:1", "U:a", "S", "C:1", "R:1"];
        check(&["U:a", "A:1", "T:1", "U:a", "A:1", "T:1"], &records, "0 2 3! 4 6 7");
        check(&["U:a", "A:1", "T:1", "U:b", "A:1", "T:1"], &["U:a", "C:1", "E:1"], "0 1 2! - - -");
        // A result is found without its turn if its call id is unique.
        check(&["U:old", "A:1", "T:1"], &["U:x", "U:y", "C:1", "E:1"], "- - 3!");
    }
}
