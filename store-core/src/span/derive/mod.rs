//! The spans of a run, derived from what was committed: its record, its entries and their usage.
//!
//! Nothing is invented. What a run or an entry does not say is absent: the model of a request, the time at which a
//! call of a model began, the end of a run that is not done, counts of tokens that no provider reported.

use std::{collections::BTreeMap, sync::Arc};

use super::{AttributeValue, Span, SpanId, SpanKind, SpanLink, SpanSource, TraceId, conventions as names};
use crate::{
    log::{BlockKind, Entry, Message, Origin, Role, TokenCounts, ToolUse},
    run::{Run, RunOutcome, RunStatus},
    time::Timestamp,
};

/// Returns the trace of a run. It follows from the thread, the id and the creation of the run.
#[must_use]
pub fn trace_of(run: &Run) -> TraceId {
    TraceId::of_digest(&identity_of(run))
}

/// Returns the id of the span `invoke_agent` of a run. Spans that a program records about the run can be below it.
#[must_use]
pub fn root_span_of(run: &Run) -> SpanId {
    SpanId::of_digest(&format!("{}\nrun", identity_of(run)))
}

/// Ids contain no line breaks, so different runs have different texts.
fn identity_of(run: &Run) -> String {
    format!("agentstore.run\n{}\n{}\n{}", run.thread, run.id, run.created_at.as_millis())
}

/// Derives the spans of a run from its entries, in the order of the log: one for the run, one for each answer of a
/// model, and one for each tool call. `parent` is the run that started this one, if it is known.
///
/// - `invoke_agent AGENT` has the time of the run, its tokens and its outcome. Only an outcome `failed` is an error.
/// - `chat MODEL` ends when the answer was recorded, and begins when the message before it was recorded: the call
///   was made between these times. Entries that are parts of one answer (CX-17) are one span.
/// - `execute_tool TOOL` has the time from the entry with the call to the entry with its result. A call without a
///   result has no end.
///
/// The cost of the call grows with the number of entries.
#[must_use]
pub fn derive_spans<'a>(run: &Run, parent: Option<&Run>, entries: impl IntoIterator<Item = &'a Entry>) -> Vec<Span> {
    let mut deriver = SpanDeriver::new(run, parent);
    entries.into_iter().for_each(|entry| deriver.add(entry));
    deriver.finish()
}

/// Derives the spans of a run as [`derive_spans`] does, from entries that are read one after another.
#[derive(Debug)]
pub struct SpanDeriver<'a> {
    run: &'a Run,
    parent: Option<&'a Run>,
    source: Arc<SpanSource>,
    /// The spans of answers and calls.
    spans: Vec<Span>,
    /// The time of the last message.
    last_time: Timestamp,
    /// The last answer, if no other message followed: the provider's id of it, and its place in `spans`.
    open_answer: Option<(String, usize)>,
    /// The places in `spans` of the calls that have no result yet.
    open_calls: BTreeMap<String, usize>,
    provider: Known<String>,
}

/// What all answers of a run have in common.
#[derive(Debug, PartialEq, Eq)]
enum Known<T> {
    Nothing,
    One(T),
    Several,
}

impl<T: PartialEq> Known<T> {
    fn add(&mut self, value: T) {
        match self {
            Self::Nothing => *self = Self::One(value),
            Self::One(one) if *one != value => *self = Self::Several,
            Self::One(_) | Self::Several => {}
        }
    }
}

impl<'a> SpanDeriver<'a> {
    /// Begins with a run, and the run that started it, if it is known.
    #[must_use]
    pub fn new(run: &'a Run, parent: Option<&'a Run>) -> Self {
        let scope = format!(r#"{{"name":"{}"}}"#, names::SCOPE_NAME);
        let scope = crate::json::Json::parse(&scope).ok();
        Self {
            run,
            parent,
            source: Arc::new(SpanSource { scope, ..SpanSource::of_conventions() }),
            spans: Vec::new(),
            last_time: start_of(run),
            open_answer: None,
            open_calls: BTreeMap::new(),
            provider: Known::Nothing,
        }
    }

    /// Adds the next entry of the run.
    pub fn add(&mut self, entry: &Entry) {
        let Some(message) = entry.message() else { return };
        match message.role {
            Role::Assistant => self.add_answer(entry, message),
            Role::Tool => self.add_results(entry, message),
            Role::System | Role::User => {}
        }
        self.last_time = entry.timestamp;
        if message.role != Role::Assistant {
            self.open_answer = None;
        }
    }

    /// Returns the spans, in the order of their starts, and then of their ids.
    #[must_use]
    pub fn finish(mut self) -> Vec<Span> {
        let root = self.root();
        self.spans.push(root);
        self.spans.sort_by_key(|span| (span.start_nanos, span.span_id));
        self.spans
    }

    fn span(&self, identity: &str, name: String, start: Timestamp) -> Span {
        let id = SpanId::of_digest(&format!("{}\n{identity}", identity_of(self.run)));
        let span = Span::new(trace_of(self.run), id, name, start).from_source(Arc::clone(&self.source));
        span.below(root_span_of(self.run))
    }

    fn add_answer(&mut self, entry: &Entry, message: &Message) {
        let answer = message.provenance.as_ref().and_then(|provenance| provenance.message_id.clone());
        let place = match &self.open_answer {
            Some((open, place)) if answer.as_ref() == Some(open) => *place,
            _ => {
                self.spans.push(self.answer(entry, message));
                self.spans.len() - 1
            }
        };
        if let Some(span) = self.spans.get_mut(place) {
            *span = extend_answer(span.clone(), entry, message);
        }
        self.open_answer = answer.map(|answer| (answer, place));
        if let Some(origin) = message.origin() {
            self.provider.add(names::provider_name(&origin.provider).to_owned());
        }
        for block in &message.blocks {
            if let BlockKind::ToolUse(call) = &block.kind {
                self.open_calls.insert(call.id.clone(), self.spans.len());
                self.spans.push(self.call(entry, call));
            }
        }
    }

    /// Returns the span of an answer, without what each part of it may add.
    fn answer(&self, entry: &Entry, message: &Message) -> Span {
        let origin = message.origin();
        let api = origin.and_then(|origin| origin.api.as_deref());
        let operation = names::operation_of_api(api);
        let model = origin.and_then(|origin| origin.model.as_deref());
        let name = model.map_or_else(|| operation.to_owned(), |model| format!("{operation} {model}"));
        // A caller may give an entry any time, also one before that of the message before it.
        let start = self.last_time.min(entry.timestamp);
        let span = self.span(&format!("answer\n{}", entry.id), name, start).with_kind(SpanKind::Client);
        let span = span.with(names::OPERATION_NAME, operation).with(names::CONVERSATION_ID, self.run.thread.as_str());
        let id = message.provenance.as_ref().and_then(|provenance| provenance.message_id.as_deref());
        with_origin(with_known(span, names::RESPONSE_ID, id), origin)
    }

    fn call(&self, entry: &Entry, call: &ToolUse) -> Span {
        let identity = format!("call\n{}\n{}", entry.id, call.id);
        let span = self.span(&identity, format!("execute_tool {}", call.name), entry.timestamp);
        let span = span.with(names::OPERATION_NAME, "execute_tool").with(names::TOOL_NAME, call.name.as_str());
        let span = span.with(names::TOOL_CALL_ID, call.id.as_str());
        with_step(span, entry.step).about([entry.id.clone()])
    }

    fn add_results(&mut self, entry: &Entry, message: &Message) {
        for block in &message.blocks {
            let BlockKind::ToolResult(result) = &block.kind else { continue };
            let Some(place) = self.open_calls.remove(&result.tool_use_id) else { continue };
            let Some(span) = self.spans.get_mut(place) else { continue };
            let end = entry.timestamp.max(span.started_at());
            *span = with_entry(span.clone().ending_at(end), entry);
            if result.is_error == Some(true) {
                *span = span.clone().failed(None);
            }
        }
    }

    /// Returns the span of the run itself.
    fn root(&self) -> Span {
        let run = self.run;
        let mut span = self.span("run", format!("invoke_agent {}", run.agent), start_of(run));
        span.parent_span_id = None;
        span = span.with(names::OPERATION_NAME, "invoke_agent").with(names::AGENT_ID, run.agent.as_str());
        span = span.with(names::CONVERSATION_ID, run.thread.as_str()).with(names::RUN_ID, run.id.as_str());
        if let Known::One(provider) = &self.provider {
            span = span.with(names::PROVIDER_NAME, provider.as_str());
        }
        if run.steps > 0 {
            span = span.with(names::RUN_STEPS, u64::from(run.steps));
        }
        span = with_tokens(span, tokens_of(run));
        span.links =
            self.parent.map(|parent| SpanLink::new(trace_of(parent), root_span_of(parent))).into_iter().collect();
        if let Some(end) = run.finished_at {
            span = span.ending_at(end.max(start_of(run)));
        }
        let RunStatus::Done(completion) = &run.status else {
            return span.with(names::RUN_STATUS, run.status.phase().name());
        };
        match &completion.outcome {
            RunOutcome::Failed { error } => span.with(names::RUN_STATUS, "failed").failed(Some(error.clone())),
            outcome => span.with(names::RUN_STATUS, name_of(outcome)),
        }
    }
}

fn start_of(run: &Run) -> Timestamp {
    run.started_at.unwrap_or(run.created_at)
}

/// Returns the tokens of a run: as its worker reported them, or else as its entries did. Zero in all counts means that
/// neither has reported any.
pub(crate) fn tokens_of(run: &Run) -> &TokenCounts {
    if run.usage == TokenCounts::default() { &run.spent } else { &run.usage }
}

const fn name_of(outcome: &RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::NaturalEnd => "natural_end",
        RunOutcome::Stopped { .. } => "stopped",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Blocked => "blocked",
        RunOutcome::Superseded => "superseded",
        RunOutcome::Failed { .. } => "failed",
    }
}

/// Adds what a part of an answer says. The last part that says something about tokens or the end is right for all.
fn extend_answer(mut span: Span, entry: &Entry, message: &Message) -> Span {
    let end = entry.timestamp.max(span.started_at()).max(span.ended_at().unwrap_or_default());
    span = with_entry(span.ending_at(end), entry);
    if let Some(stop) = &message.stop {
        span.attributes.retain(|attribute| attribute.key != names::FINISH_REASONS);
        span = span.with(names::FINISH_REASONS, AttributeValue::from_iter([stop.as_str()]));
    }
    if let Some(usage) = &message.usage {
        span.attributes.retain(|attribute| !attribute.key.starts_with("gen_ai.usage."));
        span = with_tokens(span, &usage.tokens);
    }
    if span.attribute(names::RUN_STEP).is_none() {
        span = with_step(span, entry.step);
    }
    span
}

/// Adds an entry to those that a span refers to.
fn with_entry(mut span: Span, entry: &Entry) -> Span {
    let ids = span.attributes.iter_mut().find(|attribute| attribute.key == names::ENTRY_IDS);
    match ids.map(|attribute| &mut attribute.value) {
        Some(AttributeValue::List(ids)) => ids.push(entry.id.as_str().into()),
        _ => span = span.about([entry.id.clone()]),
    }
    span
}

fn with_known(span: Span, key: &str, value: Option<&str>) -> Span {
    match value {
        Some(value) => span.with(key, value),
        None => span,
    }
}

fn with_step(span: Span, step: Option<u32>) -> Span {
    match step {
        Some(step) => span.with(names::RUN_STEP, u64::from(step)),
        None => span,
    }
}

fn with_origin(span: Span, origin: Option<&Origin>) -> Span {
    let Some(origin) = origin else { return span };
    let span = span.with(names::PROVIDER_NAME, names::provider_name(&origin.provider));
    with_known(span, names::RESPONSE_MODEL, origin.model.as_deref())
}

/// Adds counts of tokens. The conventions count tokens from a cache as input, too.
fn with_tokens(span: Span, tokens: &TokenCounts) -> Span {
    if *tokens == TokenCounts::default() {
        return span;
    }
    let input = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
    let mut span = span.with(names::INPUT_TOKENS, input).with(names::OUTPUT_TOKENS, tokens.output);
    for (key, count) in [
        (names::CACHE_READ_TOKENS, tokens.cache_read),
        (names::CACHE_CREATION_TOKENS, tokens.cache_write),
        (names::REASONING_TOKENS, tokens.reasoning),
    ] {
        if count > 0 {
            span = span.with(key, count);
        }
    }
    span
}

#[cfg(test)]
mod tests;
