//! Cases that are copies of recorded runs (TR-2).

use std::sync::Arc;

use super::record::{CaseContent, CaseOrigin, CaseOutcome, RecordedCall};
use crate::{
    codec::{Codec, Extra},
    context::{ContextRequest, OpenCalls},
    error::{Error, Result},
    id::RunId,
    json::Json,
    log::{BlockKind, Direction, Entry, EntryQuery, Message, Role},
    page::{MAX_PAGE, PageRequest},
    run::{Run, RunStatus},
    thread::ThreadRunStore,
};

/// What a case is made from: a run that is done, as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedRun {
    /// The run.
    pub run: Run,
    /// The messages of the context before the first entry of the run.
    pub context: Vec<Message>,
    /// The entries of the run that are on the path of its last one, in the order of the path.
    pub entries: Vec<Arc<Entry>>,
}

impl RecordedRun {
    /// Puts together what was read of a run.
    #[must_use]
    pub const fn new(run: Run, context: Vec<Message>, entries: Vec<Arc<Entry>>) -> Self {
        Self { run, context, entries }
    }

    /// Reads a run and its entries. Entries of the run that were left by a rewind are not among them.
    ///
    /// # Errors
    /// `NotFound` for an unknown run; any error of reading.
    pub async fn load(threads: &dyn ThreadRunStore, run: &RunId) -> Result<Self> {
        let run = threads.load_run(run).await?.ok_or_else(|| Error::not_found("run", run))?;
        let of_run = || EntryQuery { run: Some(run.id.clone()), side: Some(false), ..EntryQuery::all() };
        let (mut last, mut next) = (None, Some(PageRequest::first(1)));
        while let (None, Some(page)) = (&last, next.take()) {
            let query = of_run().with_direction(Direction::Backward).with_page(page);
            let found = threads.list_entries(&run.thread, query).await?;
            last = found.items.into_iter().next();
            next = found.next.map(|cursor| PageRequest::first(1).after(cursor));
        }
        let (mut entries, mut next) = (Vec::new(), last.is_some().then(|| PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let path_of = last.as_ref().map(|last| last.id.clone());
            let query = EntryQuery { path_of, ..of_run() }.with_page(page);
            let found = threads.list_entries(&run.thread, query).await?;
            entries.extend(found.items);
            next = found.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        let context = match entries.first().and_then(|first| first.parent.clone()) {
            Some(parent) => {
                let request = ContextRequest::at(parent).with_open_calls(OpenCalls::Keep);
                let messages = threads.load_context(&run.thread, request).await?.context.messages;
                messages.into_iter().map(|message| message.message).collect()
            }
            None => Vec::new(),
        };
        Ok(Self { run, context, entries })
    }
}

/// Makes a case from a recorded run (TR-2). The case is a copy: it stays as it is when the run is deleted.
///
/// - The input is an array of messages: the context before the run, and the messages of the run in front of the first
///   one of the model.
/// - The tool results are all calls of the model in the run, each with its result.
/// - The outcome is that of the run, with the last message of the model. Nothing is expected yet: what the agent did
///   is not always what it should do.
///
/// # Errors
/// `InvalidTransition` if the run is not done; `Invalid` if it has no entries.
pub fn case_of_run(recorded: &RecordedRun) -> Result<CaseContent> {
    let RecordedRun { run, context, entries } = recorded;
    let RunStatus::Done(completion) = &run.status else {
        return Err(Error::invalid_transition("run", &run.id, run.status.phase().name(), "a case of a dataset"));
    };
    if entries.is_empty() {
        return Err(Error::invalid("run", format!("`{}` has no entries, so no case can be made from it", run.id)));
    }
    let messages: Vec<_> = entries.iter().filter_map(|entry| entry.message()).collect();
    let is_of_model = |message: &&&Message| message.role == Role::Assistant;
    let given = messages.iter().take_while(|message| !is_of_model(message)).copied();
    let input = context.iter().chain(given).cloned().collect::<Vec<_>>();
    let answer = messages.iter().rfind(is_of_model).map(|message| (*message).clone());
    let outcome = CaseOutcome { completion: (**completion).clone(), answer, extra: Extra::default() };
    let origin = CaseOrigin {
        thread: run.thread.clone(),
        run: run.id.clone(),
        entries: entries.iter().map(|entry| entry.id.clone()).collect(),
        manifest: run.manifest.clone(),
        extra: Extra::default(),
    };
    let case = CaseContent::new(Json::parse(&input.encode())?);
    let tool_results = recorded_calls(&messages);
    Ok(CaseContent { tool_results, outcome: Some(outcome), origin: Some(origin), ..case })
}

/// Returns the tool calls of messages in their order, each with the first result after it that names it. Two calls may
/// have the same id, because ids are unique in one message only.
fn recorded_calls(messages: &[&Message]) -> Vec<RecordedCall> {
    let mut calls: Vec<RecordedCall> = Vec::new();
    for block in messages.iter().flat_map(|message| &message.blocks) {
        match &block.kind {
            BlockKind::ToolUse(call) => {
                calls.push(RecordedCall { call: call.clone(), result: None, extra: Extra::default() });
            }
            BlockKind::ToolResult(result) => {
                let is_open = |call: &&mut RecordedCall| call.result.is_none() && call.call.id == result.tool_use_id;
                if let Some(call) = calls.iter_mut().find(is_open) {
                    call.result = Some(result.clone());
                }
            }
            _ => {}
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{RecordedRun, case_of_run};
    use crate::{
        Block, Entry, ErrorKind, Json, Message, Role, Run, RunOutcome, RunStatus,
        codec::{Codec, Extra},
        log::Body,
    };

    fn run(status: RunStatus) -> Run {
        let text = r#"{"id":"r","thread":"t","agent":"a","manifest":"release-7","status":{"running":{}},"created_at":1,
            "updated_at":2}"#;
        let mut run = Run::read(text).unwrap();
        run.status = status;
        run
    }

    fn entry(seq: u64, message: Message) -> Arc<Entry> {
        Arc::new(Entry {
            id: format!("e{seq}").parse().unwrap(),
            seq,
            parent: None,
            side: false,
            timestamp: Default::default(),
            run: Some("r".parse().unwrap()),
            step: None,
            origin: None,
            body: Arc::new(Body::Message(message)),
            extra: Extra::default(),
        })
    }

    fn call(id: &str, input: &str) -> Block {
        Block::tool_use(id, "add", Json::parse(input).unwrap())
    }

    fn result(id: &str, text: &str) -> Block {
        Block::tool_result(id, vec![Block::text(text)])
    }

    /// Makes a case from messages of a run that is done.
    fn case_of(context: &[Message], messages: Vec<Message>) -> crate::CaseContent {
        let entries = messages.into_iter().zip(1..).map(|(message, seq)| entry(seq, message)).collect();
        let run = run(RunStatus::done(RunOutcome::NaturalEnd));
        case_of_run(&RecordedRun::new(run, context.to_vec(), entries)).unwrap()
    }

    #[test]
    fn the_input_is_what_the_model_was_given_first() {
        let (system, user) = (Message::new(Role::System, vec![Block::text("be brief")]), Message::user("2 + 2?"));
        let (answer, more) = (Message::assistant("4"), Message::user("sure?"));
        let check = |context: &[Message], messages: &[Message], input: &[Message], last: Option<&Message>| {
            let case = case_of(context, messages.to_vec());
            assert_eq!(case.input.as_str(), input.to_vec().encode());
            assert_eq!(case.outcome.unwrap().answer.as_ref(), last);
        };
        check(&[], std::slice::from_ref(&answer), &[], Some(&answer));
        check(
            std::slice::from_ref(&system),
            &[user.clone(), answer.clone()],
            &[system.clone(), user.clone()],
            Some(&answer),
        );
        let last = Message::assistant("yes");
        let all = [user.clone(), answer.clone(), more.clone(), last.clone()];
        check(&[system.clone(), answer], &all, &[system, all[1].clone(), user.clone()], Some(&last));
        check(&[], &[user.clone(), more.clone()], &[user, more], None);
    }

    #[test]
    fn calls_are_paired_with_their_results() {
        let assistant = |blocks| Message::new(Role::Assistant, blocks);
        let tool = |blocks| Message::new(Role::Tool, blocks);
        let case = case_of(
            &[assistant(vec![call("old", "0")])],
            vec![
                tool(vec![result("old", "ignored")]),
                assistant(vec![call("a", "1"), Block::text("and"), call("b", "2")]),
                tool(vec![result("b", "two"), result("a", "one")]),
                assistant(vec![call("a", "3"), call("c", "4")]),
                tool(vec![result("a", "three")]),
            ],
        );
        let text = |call: &crate::RecordedCall| {
            let result = call.result.as_ref().map(|result| result.blocks[0].clone());
            (call.call.input.to_string(), result)
        };
        let expected = [("1", Some("one")), ("2", Some("two")), ("3", Some("three")), ("4", None)];
        let expected = expected.map(|(input, result)| (input.to_owned(), result.map(Block::text)));
        assert_eq!(case.tool_results.iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_case_names_the_run_and_reads_back() {
        let case = case_of(&[], vec![Message::user("hi"), Message::assistant("hello")]);
        let origin = case.origin.clone().unwrap();
        let entries: Vec<_> = origin.entries.iter().map(crate::EntryId::as_str).collect();
        assert_eq!((origin.thread.as_str(), origin.run.as_str(), entries), ("t", "r", vec!["e1", "e2"]));
        assert_eq!(origin.manifest.as_deref(), Some("release-7"));
        assert_eq!(case.outcome.as_ref().unwrap().completion.outcome, RunOutcome::NaturalEnd);
        assert_eq!((&case.expectation, &case.metadata), (&None, &None));
        let read = crate::CaseContent::read(&case.encode()).unwrap();
        assert_eq!((&read, read.hash()), (&case, case.hash()));
        assert_ne!(case.hash(), case.clone().expecting(Json::null()).hash());
    }

    #[test]
    fn no_case_is_made_from_a_run_that_is_not_done_or_has_no_entries() {
        let check = |status: RunStatus, entries: Vec<Arc<Entry>>, kind: ErrorKind| {
            let error = case_of_run(&RecordedRun::new(run(status), Vec::new(), entries)).unwrap_err();
            assert_eq!(error.kind(), kind);
        };
        check(RunStatus::Running, vec![entry(1, Message::user("hi"))], ErrorKind::InvalidTransition);
        check(RunStatus::done(RunOutcome::Cancelled), Vec::new(), ErrorKind::Invalid);
    }
}
