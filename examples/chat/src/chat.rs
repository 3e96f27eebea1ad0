//! The conversation: its commits, and how it continues after a crash.
//!
//! Each step of an answer first loads the stored thread, and ends with one commit. While an answer is received, stream
//! checkpoints keep what came so far. If the answer breaks off, the commit that ends its run writes that to the log. So
//! no step needs to know whether the program crashed before it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentstore::{
    AgentId, Block, BlockKind, Commit, CommitCoordinator, CommitCoordinatorExt, CommitKey, Context, ContextRequest,
    Direction, EntryQuery, Guard, IdSource, Json, Message, NewEntry, NewThread, PageRequest, ParentRef, PartialAnswer,
    RewindTo, Role, RunChange, RunId, RunOutcome, RunStatus, StateChange, Stores, StreamSink, TenantId, ThreadContext,
    ThreadId, ThreadRunStore, ToolUse, UuidSource,
};
use anyhow::{Context as _, Result, bail, ensure};
use providers::{check, compile, normalize};
use tokio::sync::mpsc;
use ureq::Agent;

use crate::{
    api, event,
    model::Model,
    received,
    terminal::{print_line, print_piece},
    tool,
};

/// The name of the agent. Each answer is one of its runs.
const AGENT: &str = "chat";
/// The key of the state under which the model is stored.
const MODEL_KEY: &str = "chat_model";
/// The maximum number of steps of an answer. A step asks the model, or executes the tools that the model called.
const MAX_STEPS: u32 = 20;
/// The stop reasons of the APIs for an answer that ended normally.
const NATURAL_STOPS: [&str; 6] = ["end_turn", "tool_use", "stop", "tool_calls", "completed", "STOP"];

/// The number of received events that may wait until they are stored and shown.
const WAITING_EVENTS: usize = 64;

pub(crate) struct Chat {
    stores: Stores,
    /// The least time between two stream checkpoints.
    checkpoint_interval: Duration,
    commits: Arc<dyn CommitCoordinator>,
    threads: Arc<dyn ThreadRunStore>,
    thread: ThreadId,
    client: Agent,
    model: Option<Model>,
    /// Whether an answer was interrupted and has not been continued yet.
    is_interrupted: bool,
}

impl Chat {
    /// Opens a conversation, or begins one. If the program was killed during an answer, the run of that answer ends as
    /// interrupted, and what was received of the answer is written to the log.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) async fn open(stores: Stores, thread: ThreadId, checkpoint_interval: Duration) -> Result<Self> {
        let commits = stores.commits(&TenantId::default_tenant())?;
        let threads = commits.threads();
        if threads.load_thread(&thread).await?.is_none() {
            threads.create_thread(NewThread::new(thread.clone())).await?;
        }
        let (client, model, is_interrupted) = (api::client(), None, false);
        let mut chat = Self { stores, checkpoint_interval, commits, threads, thread, client, model, is_interrupted };
        let thread_context = chat.load().await?;
        chat.model = thread_context.state.get(MODEL_KEY).map(Json::to).transpose()?;
        for run in thread_context.open_runs.iter().filter(|run| run.agent.as_str() == AGENT) {
            let outcome = RunOutcome::Stopped { code: "interrupted".to_owned(), detail: None };
            // The guard refuses this commit if another program has continued the answer since the thread was read.
            let commit = Guard::from(&thread_context.thread).with_key(key(&run.id, "interrupted")?).commit();
            chat.end_run(commit, &run.id, outcome).await?;
            chat.is_interrupted = true;
        }
        Ok(chat)
    }

    /// Continues an answer that was interrupted, after what was received of it.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask).
    pub(crate) async fn go_on(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_interrupted) {
            return Ok(());
        }
        print_line("The last answer was interrupted. It goes on:")?;
        self.retry().await
    }

    pub(crate) fn threads(&self) -> &dyn ThreadRunStore {
        &*self.threads
    }

    pub(crate) const fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// Prints which model answers, and which parts of the conversation it does not get.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) async fn print_status(&self) -> Result<()> {
        let context = self.load().await?.context;
        if lacks_answer(&context) && !self.is_interrupted {
            print_line("The last question has no answer yet. /retry asks it again.")?;
        }
        let Some(model) = &self.model else {
            return Ok(print_line("Choose a model: /provider API MODEL")?);
        };
        let (target, messages) = (model.target()?, context.messages.len());
        print_line(&format!("{} of {}, {messages} messages. /help lists the commands.", model.name, target.provider))?;
        if messages > 0 {
            let report = check(&context, &target, &model.options()?)?;
            let mut losses = BTreeMap::new();
            for loss in report.losses {
                *losses.entry(loss.kind.name()).or_insert(0) += 1;
            }
            let losses: Vec<_> = losses.into_iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            if !losses.is_empty() {
                print_line(&format!("not sent unchanged: {}", losses.join(", ")))?;
            }
            for warning in report.warnings {
                print_line(&format!("warning: {warning}"))?;
            }
        }
        Ok(())
    }

    /// Continues with another model. The stored messages and their signatures stay unchanged.
    ///
    /// # Errors
    /// Any error of the store.
    pub(crate) async fn set_model(&mut self, model: Model) -> Result<()> {
        let state = StateChange::new().set(MODEL_KEY, Json::of(&model)?);
        self.commit(Commit::new(self.thread.clone()).with_state(state)).await?;
        self.model = Some(model);
        Ok(())
    }

    /// Asks a question below the head.
    ///
    /// # Errors
    /// Any error of the store or of the API. After an error of the API the question stays.
    pub(crate) async fn ask(&self, text: String) -> Result<()> {
        self.ask_below(ParentRef::Head, text).await
    }

    /// Asks another question in place of the last one. The last question stays, on a branch of its own.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask). There is no question yet.
    pub(crate) async fn ask_instead(&self, text: String) -> Result<()> {
        let thread_context = self.load().await?;
        let mut query = EntryQuery::path_of(thread_context.at.context("there is no question yet")?);
        query.role = Some(Role::User);
        query = query.with_direction(Direction::Backward).with_page(PageRequest::first(1));
        let questions = self.threads.list_entries(&self.thread, query).await?;
        let last = questions.items.first().context("there is no question yet")?;
        let parent = last.parent.clone().map_or(ParentRef::Root, ParentRef::Entry);
        self.ask_below(parent, text).await
    }

    async fn ask_below(&self, parent: ParentRef, text: String) -> Result<()> {
        let (thread_context, run) = (self.load().await?, new_run()?);
        let question = NewEntry::new(Message::user(text)).with_parent(parent).with_run(run.clone(), None);
        self.answer(Guard::from(&thread_context.thread), vec![question], run).await
    }

    /// Asks the model again for the answer that is missing at the head.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask). No answer is missing.
    pub(crate) async fn retry(&self) -> Result<()> {
        let thread_context = self.load().await?;
        ensure!(lacks_answer(&thread_context.context), "no answer is missing; ask something");
        self.answer(Guard::from(&thread_context.thread), Vec::new(), new_run()?).await
    }

    /// Moves the head to the entry with this sequence number. The next question begins a branch there.
    ///
    /// # Errors
    /// There is no such entry, or it is on no branch; any error of the store.
    pub(crate) async fn rewind(&self, seq: u64) -> Result<()> {
        let thread = self.load().await?.thread;
        let to = if seq == 0 {
            RewindTo::Start
        } else {
            let mut query = EntryQuery::all();
            (query.from_seq, query.to_seq) = (Some(seq), Some(seq));
            let entries = self.threads.list_entries(&self.thread, query).await?;
            RewindTo::Entry(entries.items.first().with_context(|| format!("there is no entry {seq}"))?.id.clone())
        };
        let _receipt = self.commits.rewind(Guard::from(&thread), to).await?;
        Ok(())
    }

    /// Begins a run with one commit, and takes its steps. `question` is empty if the question is already in the log. If
    /// a step fails, the run ends as failed. The commits of the earlier steps stay.
    async fn answer(&self, guard: Guard, question: Vec<NewEntry>, run: RunId) -> Result<()> {
        ensure!(self.model.is_some(), "choose a model: /provider API MODEL");
        let run_begin = RunChange::new(run.clone(), RunStatus::Running).with_agent(AgentId::new(AGENT)?);
        let first_commit = guard.with_key(key(&run, "begin")?).commit().entries(question).with_run(run_begin);
        self.commit(first_commit).await?;
        let Err(error) = self.take_steps(&run).await else { return Ok(()) };
        let outcome = RunOutcome::Failed { error: format!("{error:#}") };
        let last_commit = Commit::new(self.thread.clone()).with_key(key(&run, "failed")?);
        match self.end_run(last_commit, &run, outcome).await {
            Ok(()) => Err(error),
            Err(commit_error) => Err(error.context(format!("the answer could not be ended: {commit_error:#}"))),
        }
    }

    /// Ends a run whose answer broke off. The same commit writes what was received of the answer, and thereby removes
    /// its checkpoint (SC-4).
    async fn end_run(&self, commit: Commit, run: &RunId, outcome: RunOutcome) -> Result<()> {
        let checkpoints = self.stores.stream_checkpoints(&TenantId::default_tenant())?;
        let checkpoint = checkpoints.load_stream_checkpoint(&self.thread, run).await?;
        let messages = checkpoint.map(|checkpoint| received::messages(checkpoint.answer)).unwrap_or_default();
        let entries = messages.into_iter().map(|message| NewEntry::new(message).with_run(run.clone(), None));
        self.commit(commit.entries(entries).with_run(RunChange::new(run.clone(), RunStatus::done(outcome)))).await
    }

    async fn take_steps(&self, run: &RunId) -> Result<()> {
        for step in 1..=MAX_STEPS {
            let thread_context = self.load().await?;
            let calls = open_calls(&thread_context.context);
            let (messages, sink) = if calls.is_empty() {
                let (messages, sink) = self.ask_model(&thread_context, run, step).await?;
                (messages, Some(sink))
            } else {
                (vec![run_tools(&calls)?], None)
            };
            let is_last_step = calls.is_empty() && messages.iter().all(|message| calls_of(message).next().is_none());
            let status = if is_last_step { RunStatus::done(RunOutcome::NaturalEnd) } else { RunStatus::Running };
            let mut change = RunChange::new(run.clone(), status);
            change.steps = Some(step);
            let entries = messages.into_iter().map(|message| NewEntry::new(message).with_run(run.clone(), Some(step)));
            // The guard is the version that the model saw. If another program has written to the thread since, the
            // commit is refused.
            let commit = Guard::from(&thread_context.thread).with_key(key(run, &format!("step-{step}"))?).commit();
            let commit = commit.entries(entries).with_run(change);
            // The answer is in the log now, so its checkpoint goes (SC-3).
            let commit = if let Some(sink) = sink { sink.add_removal_to(commit)? } else { commit };
            self.commit(commit).await?;
            if is_last_step {
                return Ok(());
            }
        }
        bail!("the answer took more than {MAX_STEPS} steps")
    }

    /// Sends the context to the model, and shows the answer while it is streamed. What was received is offered to the
    /// sink first, so that nothing is shown that a crash could take back, except for the last interval.
    async fn ask_model(
        &self,
        thread_context: &ThreadContext,
        run: &RunId,
        step: u32,
    ) -> Result<(Vec<Message>, StreamSink)> {
        let model = self.model.as_ref().context("choose a model: /provider API MODEL")?;
        let target = model.target()?;
        let body = compile(&thread_context.context, &target, &model.options()?)?.body;
        let (tenant, thread) = (TenantId::default_tenant(), self.thread.clone());
        let sink = self.stores.stream_sink(&tenant, thread, run.clone(), u64::from(step)).await?;
        let mut sink = sink.with_interval(self.checkpoint_interval);
        let mut answer = PartialAnswer::new(u64::from(step)).by_model(model.name.clone());
        let (sender, mut events) = mpsc::channel(WAITING_EVENTS);
        let (client, request_target) = (self.client.clone(), target.clone());
        // The client blocks, so it must not run on an OS thread of the runtime.
        let request = tokio::task::spawn_blocking(move || {
            api::stream(&client, &request_target, &body, |event| Ok(sender.blocking_send(event)?))
        });
        let provider = target.provider.name();
        while let Some(event) = events.recv().await {
            if received::add(&mut answer, provider, &event) {
                sink.offer(&answer).await;
            }
            print_piece(&event::text(provider, &event))?;
        }
        let events = match request.await? {
            Ok(events) => events,
            Err(error) => {
                // What came since the last checkpoint is kept, too.
                sink.put(&answer).await;
                return Err(error);
            }
        };
        let messages = normalize(&target, &events)?.messages;
        for stop in messages.iter().filter_map(|message| message.stop.as_deref()) {
            if !NATURAL_STOPS.contains(&stop) {
                print_line(&format!("(the model stopped: {stop})"))?;
            }
        }
        Ok((messages, sink))
    }

    async fn load(&self) -> Result<ThreadContext> {
        Ok(self.threads.load_context(&self.thread, ContextRequest::head()).await?)
    }

    /// Commits. If it is unknown whether a commit took effect, or if the store does not answer for a moment, the commit
    /// is repeated: its key ensures that it takes effect once (CM-17).
    async fn commit(&self, commit: Commit) -> Result<()> {
        for pause in [100, 1_000] {
            match self.commits.commit(commit.clone()).await {
                Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(pause)).await,
                Err(error) => return Err(error.into()),
                Ok(_receipt) => return Ok(()),
            }
        }
        let _receipt = self.commits.commit(commit).await?;
        Ok(())
    }
}

fn new_run() -> Result<RunId> {
    Ok(RunId::new(UuidSource.next_id())?)
}

fn key(run: &RunId, part: &str) -> Result<CommitKey> {
    Ok(CommitKey::new(format!("{run}/{part}"))?)
}

fn calls_of(message: &Message) -> impl Iterator<Item = &ToolUse> {
    message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::ToolUse(call) => Some(call),
        _ => None,
    })
}

/// Returns whether the next message has to come from the model.
fn lacks_answer(context: &Context) -> bool {
    context.messages.last().is_some_and(|last| matches!(last.message.role, Role::User | Role::Tool))
}

/// Returns the calls at the end of a context that have no result yet. The context has a synthetic result for each of
/// them (CX-7).
fn open_calls(context: &Context) -> Vec<ToolUse> {
    let Some(result) = context.messages.last().filter(|last| last.synthetic && last.message.role == Role::Tool) else {
        return Vec::new();
    };
    let is_open = |call: &&ToolUse| {
        let answers = |block: &Block| matches!(&block.kind, BlockKind::ToolResult(it) if it.tool_use_id == call.id);
        result.message.blocks.iter().any(answers)
    };
    let calling_message = context.messages.iter().rfind(|message| !message.synthetic && message.entry == result.entry);
    calling_message.into_iter().flat_map(|calling| calls_of(&calling.message)).filter(is_open).cloned().collect()
}

/// Runs calls, and returns the message with their results.
fn run_tools(calls: &[ToolUse]) -> Result<Message> {
    let mut blocks = Vec::new();
    for call in calls {
        let result = tool::run(call);
        print_line(&format!("[{}({}): {}]", call.name, call.input, tool::text(&result)))?;
        blocks.push(Block::new(BlockKind::ToolResult(result)));
    }
    Ok(Message::new(Role::Tool, blocks))
}
