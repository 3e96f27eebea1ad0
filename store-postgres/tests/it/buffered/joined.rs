//! Deltas that are applied together.

use std::{collections::HashMap, sync::Arc};

use conformance_tests::{Random, TestLength};
use store_core::{
    AgentId, AppendEvents, AppendPending, Commit, CommitKey, EntryId, Error, EventKind, IgnoreProgress, Json, Label,
    LaneId, Limits, Message, NewBody, NewEntry, NewEvent, NewInput, NewOutboxRow, OutboxTarget, ParentRef, Result,
    RewindTo, RunChange, RunId, RunOutcome, RunStatus, Scope, StateChange, Store, TenantId, ThreadId,
    buffer::{BufferTarget, Delta, DeltaBatch, ReadDelta, ThreadDeletion, join_deltas},
    commit::{CommitDecision, CommitView, DecisionContext, NeededKeys, needed_keys, plan},
    inspect::Inspector,
    pending,
    records::{TenantDigest, digest_tenant},
    thread::id_record_after_deletion,
};
use store_postgres::PostgresStore;

use super::id;
use crate::fixture::SchemaGuard;

/// Random writes to a store. Each is decided over what is stored, applied alone, and kept as a delta.
struct Writer {
    random: Random,
    store: PostgresStore,
    deltas: Vec<ReadDelta>,
    /// The entries of each thread.
    entries: HashMap<String, Vec<EntryId>>,
    /// The open run of each thread.
    runs: HashMap<String, RunId>,
    /// How many threads in each of four places were deleted.
    deletions: [usize; 4],
    number: usize,
}

impl Writer {
    /// Writes at random, unless a rule refuses it.
    async fn write(&mut self) -> Result<()> {
        self.number += 1;
        let place = self.random.below(4);
        let thread = format!("t{place}-{}", self.deletions[place]);
        let delta = match self.random.below(30) {
            0 => {
                let deletion = self.deletion(&id(&thread)).await?;
                self.deletions[place] += 1;
                Delta::Deletion(deletion)
            }
            1 | 2 => {
                let input = NewInput::message(Message::user("later"));
                let request = AppendPending::new(id(&thread), [input]);
                let rule = |view: &dyn CommitView, context: DecisionContext<'_>| {
                    Ok(pending::append(view, &request, context)?.plan)
                };
                match self.decide(&request.thread, NeededKeys::default(), rule).await? {
                    Some(plan) => Delta::of_queue(*plan),
                    None => return Ok(()),
                }
            }
            _ => {
                let commit = self.commit(&thread)?;
                let rule = |view: &dyn CommitView, context: DecisionContext<'_>| plan(view, &commit, context);
                match self.decide(&commit.thread, needed_keys(&commit), rule).await? {
                    CommitDecision::Write(plan) => {
                        self.entries.entry(thread).or_default().extend(plan.receipt.entry_ids.clone());
                        Delta::of_commit(*plan)
                    }
                    CommitDecision::Repeat(_) => return Ok(()),
                }
            }
        };
        let sequence = 1 + u64::try_from(self.deltas.len()).unwrap();
        let read = ReadDelta::new(sequence, TenantId::default_tenant(), Arc::new(delta));
        apply(&self.store, vec![read.clone()]).await;
        self.deltas.push(read);
        Ok(())
    }

    async fn decide<T: Send>(
        &self,
        thread: &ThreadId,
        needed: NeededKeys,
        rule: impl Fn(&dyn CommitView, DecisionContext<'_>) -> Result<T> + Send + Sync,
    ) -> Result<T> {
        let mut decided = None;
        let mut decide = |view: &dyn CommitView, context: DecisionContext<'_>| {
            decided = Some(rule(view, context));
            Ok(())
        };
        self.store.decide(&TenantId::default_tenant(), thread, &needed, &mut decide).await?;
        decided.unwrap()
    }

    async fn deletion(&self, thread: &ThreadId) -> Result<ThreadDeletion> {
        let rule = |view: &dyn CommitView, context: DecisionContext<'_>| {
            let stored = view.thread()?.ok_or_else(|| Error::not_found("thread", thread))?;
            let record = id_record_after_deletion(&view.id_record()?, &stored, context.now);
            let mut deletion = ThreadDeletion::new(context.now);
            deletion.deleted.push((thread.clone(), record));
            Ok(deletion)
        };
        self.decide(thread, NeededKeys::default(), rule).await
    }

    fn commit(&mut self, thread: &str) -> Result<Commit> {
        let mut commit = Commit::new(id(thread)).with_key(CommitKey::new(format!("k{}", self.number))?);
        for _ in 0..=self.random.below(3) {
            let known = self.entries.get(thread).filter(|known| !known.is_empty());
            let known = known.and_then(|known| known.get(self.random.below(known.len().max(1))).cloned());
            commit = commit.entry(self.entry(known));
        }
        if self.random.once_in(4) {
            let key = format!("s{}", self.random.below(3));
            let mut change = match self.random.once_in(3) {
                true => StateChange::new().remove(key),
                false => StateChange::new().set(key, Json::parse(&self.number.to_string())?),
            };
            change.clear = self.random.once_in(5);
            commit = commit.with_state(change);
        }
        if self.random.once_in(4) {
            commit = commit.with_run(self.run(thread)?);
        }
        if self.random.once_in(4) {
            let in_topic = self.random.once_in(5);
            let scopes = [if in_topic { Scope::Topic("news".parse()?) } else { Scope::Thread(id(thread)) }];
            commit = commit.with_events(AppendEvents::new([NewEvent::new(EventKind::new("kind")?, scopes)]));
        }
        if self.random.once_in(6) {
            let row = NewOutboxRow::new(LaneId::new("lane")?, OutboxTarget::new("target")?, Json::null());
            let is_ordered = self.random.once_in(3);
            commit = commit.with_outbox([if is_ordered { row.with_order_key("group".parse()?) } else { row }]);
        }
        Ok(commit)
    }

    fn entry(&mut self, known: Option<EntryId>) -> NewEntry {
        let message = || NewEntry::new(Message::user(format!("message {}", self.number)));
        match (self.random.below(12), known) {
            (0, Some(known)) => NewEntry::new(NewBody::Rewind(RewindTo::Entry(known))),
            (1, Some(target)) => {
                NewEntry::new(NewBody::Label(Label::new(target, Some(format!("label {}", self.number)))))
            }
            (2, _) => {
                let label = Some(format!("checkpoint {}", self.number));
                NewEntry::new(NewBody::Checkpoint { number: None, label })
            }
            (3 | 4, Some(known)) => message().below(known),
            (5, _) => message().with_side(true),
            (6, _) => message().with_parent(ParentRef::Root),
            _ => message(),
        }
    }

    /// Begins a run, or changes the one that is open.
    fn run(&mut self, thread: &str) -> Result<RunChange> {
        let Some(run) = self.runs.get(thread).cloned() else {
            let run = RunId::new(format!("r{}", self.number))?;
            self.runs.insert(thread.to_owned(), run.clone());
            return Ok(RunChange::new(run, RunStatus::Running).with_agent(AgentId::new("agent")?));
        };
        let ends = self.random.once_in(2);
        if ends {
            self.runs.remove(thread);
        }
        Ok(RunChange::new(run, if ends { RunStatus::done(RunOutcome::NaturalEnd) } else { RunStatus::Running }))
    }
}

/// Applies deltas together.
async fn apply(store: &PostgresStore, deltas: Vec<ReadDelta>) {
    let expected = store.applied_position().await.unwrap();
    let batch = DeltaBatch::new(expected, deltas.last().unwrap().sequence, deltas);
    let afterwards = batch.position_afterwards();
    assert_eq!(store.apply_deltas(batch).await.unwrap(), afterwards);
}

/// Returns the digest of a store without damage.
async fn digest(store: &PostgresStore) -> TenantDigest {
    assert_eq!(store.verify(&IgnoreProgress).await.unwrap().findings, []);
    let stores = store.tenant(&TenantId::default_tenant()).unwrap();
    digest_tenant(&stores, &IgnoreProgress).await.unwrap()
}

async fn open(schema: &SchemaGuard) -> PostgresStore {
    let mut config = schema.config().clone();
    config.behind_buffer = true;
    let store = PostgresStore::open(config).await.unwrap();
    assert_eq!(store.attach_buffer("buffer", 0).await.unwrap(), 0);
    store
}

/// Tests NB-4.
#[tokio::test(flavor = "multi_thread")]
async fn deltas_applied_together_leave_the_same_records_as_one_after_another() {
    for seed in 1..=TestLength::pick_by_env(2, 10, 500) {
        let schemas = [
            SchemaGuard::for_suite(Limits::default()).await.unwrap(),
            SchemaGuard::for_suite(Limits::default()).await.unwrap(),
        ];
        let (alone, together) = (open(&schemas[0]).await, open(&schemas[1]).await);
        let mut writer = Writer {
            random: Random::new(seed),
            store: alone.clone(),
            deltas: Vec::new(),
            entries: HashMap::new(),
            runs: HashMap::new(),
            deletions: [0; 4],
            number: 0,
        };
        let mut refusals = Vec::new();
        for _ in 0..100 {
            refusals.extend(writer.write().await.err().map(|error| error.to_string()));
        }
        assert!(refusals.len() < 30, "seed {seed}: {refusals:?}");
        let (joined, count) = (join_deltas(&writer.deltas).len(), writer.deltas.len());
        assert!(4 * joined < 3 * count, "seed {seed}: {count} deltas make {joined} steps");
        apply(&together, writer.deltas).await;
        assert_eq!(digest(&alone).await, digest(&together).await, "seed {seed}");
        alone.close().await.unwrap();
        together.close().await.unwrap();
    }
}
