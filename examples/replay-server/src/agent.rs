//! The agent: it starts runs, and answers them word by word. A real one would ask a model.

use std::{sync::Arc, time::Duration};

use agentstore::{
    AppendReplay, Commit, CommitCoordinator, CommitKey, Direction, Done, Failure, MailboxStore, Message, NewDispatch,
    NewEntry, PageRequest, ReplayQuery, ReplayStore, Result, Run, RunChange, RunId, RunOutcome, RunStatus, Settlement,
    Stores, TenantId, ThreadId, Work,
};

use crate::wire::{self, DONE};

pub(crate) struct Agent {
    commits: Arc<dyn CommitCoordinator>,
    mailbox: Arc<dyn MailboxStore>,
    pub(crate) replay: Arc<dyn ReplayStore>,
    word_delay: Duration,
}

impl Agent {
    pub(crate) fn new(stores: &Stores, tenant: &TenantId, word_delay: Duration) -> Result<Self> {
        let (commits, mailbox) = (stores.commits(tenant)?, stores.mailbox(tenant)?);
        Ok(Self { commits, mailbox, replay: stores.replay(tenant)?, word_delay })
    }

    pub(crate) async fn run(&self, id: &RunId) -> Result<Option<Run>> {
        self.commits.threads().load_run(id).await
    }

    /// Starts a run with a question. It may be started again with the same question, for example after a lost answer.
    pub(crate) async fn start(&self, id: &RunId, question: String) -> Result<()> {
        // Each run has a thread of its own.
        let thread = ThreadId::new(id.as_str())?;
        let commit = Commit::new(thread.clone())
            .with_key(CommitKey::new("question")?)
            .entry(NewEntry::new(Message::user(question.clone())))
            .with_run(RunChange::new(id.clone(), RunStatus::Running).with_agent("words".parse()?));
        let _receipt = self.commits.commit(commit).await?;
        // The id makes it the same dispatch, however often the run is started.
        let dispatch = NewDispatch::new(thread, id.clone())
            .with_id(id.as_str().parse()?)
            .with_payload(agentstore::Json::of(&question)?);
        self.mailbox.enqueue(vec![dispatch]).await?.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(())
    }

    /// Answers the question of a dispatch. Each word is in the replay log before a client gets it. What an earlier
    /// attempt has written is not written again.
    pub(crate) async fn answer(&self, work: Work) -> Result<Done, Failure> {
        let (run, thread) = (work.dispatch().run.clone(), work.dispatch().thread.clone());
        let stream = wire::stream_of(&run)?;
        let last = ReplayQuery::new(stream.clone()).with_direction(Direction::Backward);
        let last = self.replay.list_replay(last.with_page(PageRequest::first(1))).await?.items.pop();
        let written = last.map_or(0, |record| record.sequence);
        let question = work.dispatch().payload.as_ref().ok_or_else(|| Failure::permanent("there is no question"))?;
        let question: String = question.to()?;
        let words = answer_to(&question);
        for (number, word) in (1..).zip(&words).filter(|(number, _)| *number > written) {
            if work.cancellation().is_cancelled() {
                return Ok(Done::Release);
            }
            tokio::time::sleep(self.word_delay).await;
            let append = AppendReplay::new(stream.clone(), [wire::event(&run, number, "word", word)?]);
            self.replay.append_replay(append.fenced(thread.clone(), work.fence())).await?;
        }
        // One step: the answer, the end of the run, its last event, and the end of the dispatch.
        let end = wire::event(&run, words.len() as u64 + 1, DONE, "")?;
        let commit = work
            .new_commit()
            .with_key(work.key("answer")?)
            .entry(NewEntry::new(Message::assistant(words.join(" "))))
            .with_run(RunChange::new(run, RunStatus::done(RunOutcome::NaturalEnd)))
            .settling(Settlement::Ack { result: None });
        let commit = self.replay.plan_replay(&stream, &[end]).await?.add_to(commit);
        let _receipt = work.commits()?.commit(commit).await?;
        Ok(Done::Committed)
    }
}

fn answer_to(question: &str) -> Vec<String> {
    let text =
        format!("You asked: {question} I have to think about that. Here is what I know: nothing. Ask again later.");
    text.split_whitespace().map(str::to_owned).collect()
}
