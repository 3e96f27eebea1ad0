//! Ids of calls. In a file, the calls of one message may have the same id or none. In a thread, each call of a message
//! has an id of its own. The results for one id answer its calls in the order of the calls.

use std::collections::{HashMap, HashSet};

use super::LineData;
use crate::{
    json::Object,
    tree::{PathOrder, Tree},
};

/// The ids of the calls in a message, as the file contains them. An id that is missing or blank is empty.
pub(super) fn source_call_ids(message: &Object<'_>) -> Vec<String> {
    let call = |raw: &str| {
        let block = Object::parse(raw)?;
        block.text("type").filter(|kind| kind == "toolCall")?;
        Some(normalized(&block.text("id").unwrap_or_default()))
    };
    message.list("content").unwrap_or_default().into_iter().filter_map(call).collect()
}

/// The id of the call that a message answers, as the file contains it.
pub(super) fn source_result_id(message: &Object<'_>) -> Option<String> {
    let is_result = message.text("role").as_deref() == Some("toolResult");
    is_result.then(|| normalized(&message.text("toolCallId").unwrap_or_default()))
}

fn normalized(id: &str) -> String {
    if id.trim().is_empty() { String::new() } else { id.to_owned() }
}

/// The ids that the calls of a message get. A repeated id gets a suffix. An empty id is replaced by one that begins
/// with `message_name`.
pub(super) fn unique_call_ids(source_ids: &[String], message_name: &str) -> Vec<String> {
    let ids_in_file: HashSet<&str> = source_ids.iter().map(String::as_str).collect();
    let mut used_ids = HashSet::new();
    let mut unique = Vec::with_capacity(source_ids.len());
    for (at, source_id) in source_ids.iter().enumerate() {
        let base = if source_id.is_empty() { format!("{message_name}.{at}") } else { source_id.clone() };
        let is_allowed = |id: &String| *id == *source_id || !ids_in_file.contains(id.as_str());
        let mut candidates = std::iter::once(base.clone()).chain((2..).map(|n| format!("{base}#{n}")));
        let id = candidates.find(|id| is_allowed(id) && !used_ids.contains(id)).unwrap_or(base);
        used_ids.insert(id.clone());
        unique.push(id);
    }
    unique
}

/// A text that names the message of a line: the id of the line, or else its number.
pub(super) fn name_of_message(source_id: Option<&str>, line: u64) -> String {
    source_id.filter(|id| !id.trim().is_empty()).map_or_else(|| format!("L{line}"), str::to_owned)
}

/// The message with the calls that a result may answer, and how many earlier results answer these calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    /// The node with the calls.
    message: usize,
    /// The number of earlier results for the same id on the path.
    earlier_results: usize,
}

/// The calls and results with an ambiguous id, by their lines. An id is ambiguous if several calls of one message have
/// it, or if it is missing. Calls and results are kept only from the first message with such calls on.
#[derive(Debug, Default)]
pub(super) struct RepeatedCalls {
    /// The ids that several calls of one message have.
    ids: HashSet<String>,
    /// For each message that has a call with an ambiguous id: the ids of all its calls.
    calls: HashMap<u64, Vec<String>>,
    /// For each result with an ambiguous id: this id.
    results: HashMap<u64, String>,
    /// For each result, the id of its call in the thread.
    answers: HashMap<u64, String>,
}

impl RepeatedCalls {
    /// Notes the calls and the result in a message.
    pub(super) fn note(&mut self, line: u64, message: &Object<'_>) {
        let calls = source_call_ids(message);
        let mut seen = HashSet::new();
        self.ids.extend(calls.iter().filter(|id| !seen.insert(id.as_str())).cloned());
        if calls.iter().any(|id| self.is_repeated(id)) {
            self.calls.insert(line, calls);
        }
        let result = source_result_id(message).filter(|id| self.is_repeated(id));
        self.results.extend(result.map(|id| (line, id)));
    }

    fn is_repeated(&self, id: &str) -> bool {
        id.is_empty() || self.ids.contains(id)
    }

    /// Finds the call that each result answers. `order` has parents before children.
    pub(super) fn resolve(&mut self, tree: &Tree<LineData>, order: &PathOrder) {
        self.answers.clear();
        if self.results.is_empty() {
            return;
        }
        let mut answers = HashMap::new();
        for at in order.iter() {
            let Some(line) = tree.line(at) else { continue };
            let Some(id) = self.results.get(&line) else { continue };
            let Some(answer) = self.answer_on_path(tree, (at, id), &answers) else { continue };
            answers.insert(line, answer);
            self.answers.extend(self.answered_id(tree, id, answer).map(|answered| (line, answered)));
        }
    }

    /// For a result: the id of its call in the thread. If it is absent, it is the same as the id in the file.
    pub(super) fn answered_by(&self, line: u64) -> Option<&str> {
        self.answers.get(&line).map(String::as_str)
    }

    /// The nearest ancestor of a result that has calls with this id, and how many results between the two have the id.
    fn answer_on_path(
        &self,
        tree: &Tree<LineData>,
        (at, id): (usize, &String),
        answers: &HashMap<u64, Answer>,
    ) -> Option<Answer> {
        for ancestor in tree.path(at).skip(1) {
            let line = tree.line(ancestor)?;
            if self.calls.get(&line).is_some_and(|calls| calls.contains(id)) {
                return Some(Answer { message: ancestor, earlier_results: 0 });
            }
            if self.results.get(&line) == Some(id)
                && let Some(answer) = answers.get(&line)
            {
                return Some(Answer { earlier_results: answer.earlier_results + 1, ..*answer });
            }
        }
        None
    }

    /// The id of the call that a result answers. If there are more results than calls, the last call has several
    /// results.
    fn answered_id(&self, tree: &Tree<LineData>, id: &str, answer: Answer) -> Option<String> {
        let line = tree.line(answer.message)?;
        let source_ids = self.calls.get(&line)?;
        let unique = unique_call_ids(source_ids, &name_of_message(tree.source_id(answer.message).as_deref(), line));
        let mut ids_of_calls =
            source_ids.iter().zip(unique).filter(|(source_id, _)| *source_id == id).map(|(_, unique)| unique);
        let count = source_ids.iter().filter(|source_id| *source_id == id).count();
        ids_of_calls.nth(answer.earlier_results.min(count.checked_sub(1)?))
    }
}

/// The calls in those messages of a `retainedTail` that were read so far. For each id in the file: the ids that its
/// calls have in the thread, in reverse order. Calls that were answered are left out, except the last one.
#[derive(Debug, Default)]
pub(super) struct CallsSoFar(HashMap<String, Vec<String>>);

impl CallsSoFar {
    /// Remembers the calls of a message.
    pub(super) fn add(&mut self, source_ids: &[String], message_name: &str) {
        let mut calls: HashMap<String, Vec<String>> = HashMap::new();
        for (source_id, unique) in source_ids.iter().zip(unique_call_ids(source_ids, message_name)) {
            calls.entry(source_id.clone()).or_default().insert(0, unique);
        }
        self.0.extend(calls);
    }

    /// The id of the call that the next result with this id answers.
    pub(super) fn answer(&mut self, source_id: &str) -> Option<String> {
        let open_ids = self.0.get_mut(source_id)?;
        if open_ids.len() > 1 { open_ids.pop() } else { open_ids.last().cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallsSoFar, unique_call_ids};

    fn check(source_ids: &[&str], unique: &[&str]) {
        let source_ids: Vec<_> = source_ids.iter().map(|&id| id.to_owned()).collect();
        assert_eq!(unique_call_ids(&source_ids, "m"), unique);
    }

    #[test]
    fn every_call_of_a_message_gets_an_id_of_its_own() {
        check(&["a", "b"], &["a", "b"]);
        check(&["a", "a", "a"], &["a", "a#2", "a#3"]);
        check(&["a", "a", "a#2", "a#2"], &["a", "a#3", "a#2", "a#2#2"]);
        check(&["", "x", ""], &["m.0", "x", "m.2"]);
        check(&["", "m.0"], &["m.0#2", "m.0"]);
    }

    #[test]
    fn results_answer_calls_with_the_same_id_in_order() {
        let mut calls = CallsSoFar::default();
        calls.add(&["a".to_owned(), "a".to_owned()], "m");
        let answers: Vec<_> = (0..3).map(|_| calls.answer("a").unwrap()).collect();
        assert_eq!(answers, ["a", "a#2", "a#2"]);
        assert_eq!(calls.answer("b"), None);
    }
}
