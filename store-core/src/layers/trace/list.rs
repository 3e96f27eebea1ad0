//! The list of traces: runs, and traces of which only spans are known, merged by time.

use serde::{Deserialize, Serialize};

use super::{
    record::{StoredTrace, TraceName, TraceSummary, has_failed},
    request::TraceQuery,
    rules,
    store::TraceLayer,
};
use crate::{
    codec::sha256_hex,
    error::{Error, Result},
    id::RunId,
    log::Direction,
    page::{Cursor, MAX_PAGE, Page, PageRequest},
    run::{Run, RunFilter, RunPhase, RunQuery},
    time::Timestamp,
};

/// How many pages of runs or of entries one page of traces reads at most, if most of them do not match.
const MAX_PAGES_READ: u32 = 20;

/// How far one of the two lists was read: to the trace with a time and a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Reached<N> {
    Begin,
    After(u64, N),
    End,
}

impl<N: Clone> Reached<N> {
    /// Returns the place after which the list continues; the outer none if there is nothing left.
    fn place(&self) -> Option<Option<(u64, N)>> {
        match self {
            Self::Begin => Some(None),
            Self::After(time, name) => Some(Some((*time, name.clone()))),
            Self::End => None,
        }
    }
}

/// What a cursor of the list contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ListCursor {
    /// Binds the cursor to the filters.
    list: String,
    runs: Reached<RunId>,
    spans: Reached<TraceName>,
}

/// A part of one of the two lists.
struct Part<N> {
    /// The traces that match, newest first, with time and name.
    items: Vec<(u64, N, TraceSummary)>,
    /// How far the list was read.
    end: Reached<N>,
}

/// Returns the text that binds a cursor to the filters of a query.
fn binding_of(query: &TraceQuery) -> String {
    let TraceQuery { thread, agent, from, before, errors, page: _ } = query;
    sha256_hex(&format!("list_traces\n{thread:?}\n{agent:?}\n{from:?}\n{before:?}\n{errors}"))
        .chars()
        .take(16)
        .collect()
}

fn decode_cursor(query: &TraceQuery, cursor: &Cursor) -> Result<ListCursor> {
    let cursor: ListCursor =
        serde_json::from_str(cursor.as_str()).map_err(|_| Error::invalid_cursor("it is malformed"))?;
    if cursor.list != binding_of(query) {
        return Err(Error::invalid_cursor("it belongs to another list"));
    }
    Ok(cursor)
}

/// Returns whether a run alone makes its trace match a query. If so, the trace is listed at the place of the run.
fn matches_by_run(query: &TraceQuery, run: &Run) -> bool {
    query.thread.as_ref().is_none_or(|thread| *thread == run.thread)
        && query.agent.as_ref().is_none_or(|agent| *agent == run.agent)
        && query.has_time(run.created_at)
        && (!query.errors || has_failed(run))
}

/// Returns whether what was put for a trace makes it match a query. Its entry in the order has the right time, and
/// thread or agent.
fn matches_by_spans(query: &TraceQuery, trace: &StoredTrace) -> bool {
    let agent = query.agent.as_ref().map(|agent| agent.as_str());
    !trace.removing && agent.is_none_or(|agent| trace.agent.as_deref() == Some(agent))
}

/// Merges the two lists, newest first, up to a limit. It ends early where one of them was not read further. Returns the
/// traces, and how far each list was used.
fn merge<N: Clone + PartialEq, M: Clone + PartialEq>(
    limit: usize,
    begin: (Reached<N>, Reached<M>),
    (left, right): (Part<N>, Part<M>),
) -> (Vec<TraceSummary>, (Reached<N>, Reached<M>)) {
    let mut used = begin;
    let (mut left_items, mut right_items) = (left.items.into_iter().peekable(), right.items.into_iter().peekable());
    let mut merged = Vec::new();
    loop {
        if left_items.peek().is_none() {
            used.0 = left.end.clone();
        }
        if right_items.peek().is_none() {
            used.1 = right.end.clone();
        }
        let is_left = match (left_items.peek(), right_items.peek()) {
            (Some((time, ..)), Some((other, ..))) => time >= other,
            (Some(_), None) if right.end == Reached::End => true,
            (None, Some(_)) if left.end == Reached::End => false,
            _ => return (merged, used),
        };
        if merged.len() == limit {
            return (merged, used);
        }
        if is_left {
            merged.extend(left_items.next().map(|(time, name, summary)| {
                used.0 = Reached::After(time, name);
                summary
            }));
        } else {
            merged.extend(right_items.next().map(|(time, name, summary)| {
                used.1 = Reached::After(time, name);
                summary
            }));
        }
    }
}

impl TraceLayer {
    pub(super) async fn list(&self, query: TraceQuery) -> Result<Page<TraceSummary>> {
        let limit = query.page.checked_limit()?;
        let cursor = query.page.cursor.as_ref().map(|cursor| decode_cursor(&query, cursor)).transpose()?;
        let begin = cursor.map_or((Reached::Begin, Reached::Begin), |cursor| (cursor.runs, cursor.spans));
        let runs = self.list_runs(&query, begin.0.clone(), limit).await?;
        let spans = self.list_spans_only(&query, begin.1.clone(), limit).await?;
        let (items, (runs, spans)) = merge(limit, begin, (runs, spans));
        if runs == Reached::End && spans == Reached::End {
            return Ok(Page { items, next: None });
        }
        let cursor = ListCursor { list: binding_of(&query), runs, spans };
        let text = serde_json::to_string(&cursor)
            .map_err(|e| Error::invalid("cursor", "it cannot be written").with_source(e))?;
        Ok(Page { items, next: Some(Cursor::from_text(text)) })
    }

    /// Reads the runs that match by themselves.
    async fn list_runs(&self, query: &TraceQuery, begin: Reached<RunId>, limit: usize) -> Result<Part<RunId>> {
        let Some(after) = begin.place() else { return Ok(Part { items: Vec::new(), end: begin }) };
        let mut filter = RunFilter { thread: query.thread.clone(), agent: query.agent.clone(), ..RunFilter::default() };
        (filter.created_after, filter.created_before) = (query.from, query.before);
        if let Some((time, _)) = &after {
            // Runs of the same millisecond come again, and are left out below.
            filter.created_before = Some(Timestamp::from_millis(time.saturating_add(1)).unwrap_or(Timestamp::MAX));
        }
        filter.statuses = query.errors.then(|| vec![RunPhase::Done]);
        let mut runs_query = RunQuery { direction: Direction::Backward, ..RunQuery::new(filter) };
        let (mut found, mut end, mut next) = (Vec::new(), begin, Some(page_of(limit)));
        for _ in 0..MAX_PAGES_READ {
            let Some(request) = next.take() else { break };
            runs_query.page = request;
            let page = self.threads.list_runs(runs_query.clone()).await?;
            let place_of = |run: &Run| (run.created_at.as_millis(), run.id.clone());
            for run in page.items.into_iter().filter(|run| after.as_ref().is_none_or(|after| place_of(run) < *after)) {
                end = Reached::After(run.created_at.as_millis(), run.id.clone());
                if matches_by_run(query, &run) {
                    found.push(run);
                }
            }
            next = page.next.map(|cursor| page_of(limit).after(cursor));
            if found.len() > limit {
                break;
            }
        }
        let names: Vec<_> = found.iter().map(TraceName::of).collect();
        let put = if names.is_empty() { Vec::new() } else { self.load_stored(&names).await? };
        let items = found.into_iter().zip(put).map(|(run, put)| {
            let put = put.map(|(_, trace)| trace).filter(|trace| !trace.removing);
            (run.created_at.as_millis(), run.id.clone(), TraceSummary::of_run(&run, put.as_ref()))
        });
        Ok(Part { items: items.collect(), end: if next.is_none() { Reached::End } else { end } })
    }

    /// Reads the traces with spans whose run does not match by itself, or was never committed.
    async fn list_spans_only(
        &self,
        query: &TraceQuery,
        begin: Reached<TraceName>,
        limit: usize,
    ) -> Result<Part<TraceName>> {
        let Some(after) = begin.place() else { return Ok(Part { items: Vec::new(), end: begin }) };
        let entries = rules::entries_for(query, after.as_ref().map(|(time, name)| (*time, name)))?;
        let (mut items, mut end, mut next) = (Vec::new(), begin, Some(page_of(limit)));
        for _ in 0..MAX_PAGES_READ {
            let Some(request) = next.take() else { break };
            let page = self.store.documents.list_documents(entries.clone().with_page(request)).await?;
            for (entry, (name, found)) in page.items.iter().zip(self.load_of_entries(&page.items).await?) {
                let time = rules::time_of_entry(entry);
                end = Reached::After(time, name.clone());
                let Some((_, trace)) = found.filter(|(_, trace)| matches_by_spans(query, trace)) else { continue };
                let summary = match self.load_run(&name).await? {
                    Some(run) if matches_by_run(query, &run) => continue,
                    Some(run) if query.agent.as_ref().is_some_and(|agent| *agent != run.agent) => continue,
                    Some(run) => TraceSummary::of_run(&run, Some(&trace)),
                    None => TraceSummary::of_spans(name.clone(), &trace),
                };
                items.push((time, name, summary));
            }
            next = page.next.map(|cursor| page_of(limit).after(cursor));
            if items.len() > limit {
                break;
            }
        }
        Ok(Part { items, end: if next.is_none() { Reached::End } else { end } })
    }
}

fn page_of(limit: usize) -> PageRequest {
    // One more than the limit, so that a list that ends with the page is known to end.
    PageRequest::first(u32::try_from(limit.saturating_add(1)).unwrap_or(MAX_PAGE).min(MAX_PAGE))
}

#[cfg(test)]
mod tests {
    use super::{ListCursor, Part, Reached, binding_of, decode_cursor, merge};
    use crate::{
        Cursor, ErrorKind, Timestamp,
        layers::trace::{TraceName, TraceQuery, TraceSummary, record::StoredTrace},
    };

    fn name(text: &str) -> TraceName {
        TraceName::new("t".parse().unwrap(), text.parse().unwrap())
    }

    /// A part with traces at these times, each named after its time.
    fn part(times: &[u64], end: Reached<u64>) -> Part<u64> {
        let item =
            |time: &u64| (*time, *time, TraceSummary::of_spans(name(&time.to_string()), &StoredTrace::default()));
        Part { items: times.iter().map(item).collect(), end }
    }

    /// Merges two parts, and returns the names with how far each list was used.
    fn merged(limit: usize, left: Part<u64>, right: Part<u64>) -> (String, Reached<u64>, Reached<u64>) {
        let (items, (left, right)) = merge(limit, (Reached::Begin, Reached::Begin), (left, right));
        (items.iter().map(|item| item.name.run.to_string()).collect::<Vec<_>>().join(" "), left, right)
    }

    #[test]
    fn two_lists_are_merged_newest_first() {
        use Reached::{After, Begin, End};
        for (limit, left, right, expected) in [
            (9, part(&[], End), part(&[], End), ("", End, End)),
            (9, part(&[7, 3], End), part(&[5], End), ("7 5 3", End, End)),
            (2, part(&[7, 3], End), part(&[5], End), ("7 5", After(7, 7), End)),
            (3, part(&[7, 3], End), part(&[5], End), ("7 5 3", End, End)),
            (1, part(&[7, 3], End), part(&[5], End), ("7", After(7, 7), Begin)),
            // After the end of a part, the other list may not go on, because there may be newer ones.
            (9, part(&[7, 3], After(3, 3)), part(&[5, 1], End), ("7 5 3", After(3, 3), After(5, 5))),
            (9, part(&[], After(8, 8)), part(&[5], End), ("", After(8, 8), Begin)),
            (9, part(&[5], End), part(&[5], End), ("5 5", End, End)),
        ] {
            let (names, left, right) = merged(limit, left, right);
            assert_eq!((names.as_str(), left, right), expected);
        }
    }

    #[test]
    fn a_cursor_belongs_to_one_list() {
        let query = TraceQuery::default();
        let list = ListCursor {
            list: binding_of(&query),
            runs: Reached::After(5, "r".parse().unwrap()),
            spans: Reached::After(7, name("r")),
        };
        let cursor = Cursor::from_text(serde_json::to_string(&list).unwrap());
        assert_eq!(decode_cursor(&query, &cursor).unwrap(), list);
        for other in [
            query.clone().with_errors(),
            query.clone().of_thread("t".parse().unwrap()),
            query.clone().of_agent("t".parse().unwrap()),
            query.clone().from(Timestamp::MIN),
            query.clone().before(Timestamp::MIN),
        ] {
            assert_eq!(decode_cursor(&other, &cursor).unwrap_err().kind(), ErrorKind::InvalidCursor);
        }
        for text in ["", "1", "{}", "x"] {
            let error = decode_cursor(&query, &Cursor::from_text(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text}");
        }
    }

    #[test]
    fn a_cursor_of_the_longest_names_is_short_enough() {
        let longest = "x".repeat(crate::MAX_ID_BYTES);
        let name = TraceName::new(longest.parse().unwrap(), longest.parse().unwrap());
        let list = ListCursor {
            list: binding_of(&TraceQuery::default()),
            runs: Reached::After(Timestamp::MAX.as_millis(), longest.parse().unwrap()),
            spans: Reached::After(Timestamp::MAX.as_millis(), name),
        };
        assert!(serde_json::to_string(&list).unwrap().len() <= 1024);
    }
}
