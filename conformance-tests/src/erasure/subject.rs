//! A thread with a marked text in every kind of record, and a search for that text in what readers see.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD as BASE64};
use store_core::{
    AppendEvents, AppendPending, AppendReplay, AuditAction, AuditLog, AuditQuery, AuditResource, AuditStore,
    BegunEffect, ClaimOutbox, ClaimRequest, Clock, Commit, CommitCoordinator, ContextRequest, Direction,
    DispatchFilter, DispatchQuery, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentScope,
    EffectEnd, EffectIntent, EffectLayer, EffectName, EffectStore, EndEffect, EntryQuery, Error, EventFilter,
    EventQuery, EventStore, Interrupt, Json, KeySegment, LayerStore, MAX_PAGE, MailboxStore, Message, NewAudit,
    NewDispatch, NewEffect, NewEntry, NewEvent, NewInput, NewOutboxRow, NewReplay, NewThread, OutboxFilter,
    OutboxQuery, OutboxSettlement, PageRequest, PartialAnswer, ProfileLayer, ProfileOwner, ProfileStoreExt,
    PutStreamCheckpoint, ReplayLayer, ReplaySource, ReplayStore, ReplayStreamRef, RunChange, RunFilter, RunQuery,
    RunStatus, Scope, SettleOutbox, Settlement, StateChange, StreamCheckpointLayer, StreamCheckpointStore,
    TenantStores, ThreadFilter, ThreadQuery,
    log::{Block, Custom, Label, NewBody, Role},
    run::RunOutcome,
    thread::ThreadFields,
};

/// Something that belongs to a resource, and a text that occurs in everything that is written about it.
#[derive(Debug, Clone)]
pub struct ErasureSubject {
    /// The name of the thread. The name of its run is `NAME-run`, that of its child `NAME-child`.
    pub name: &'static str,
    /// The resource, which is also the user with a profile.
    pub resource: &'static str,
    /// The text. It should occur nowhere else, and be no word: tables of some stores are compressed.
    pub marker: &'static str,
}

type Outcome<T> = Result<T, Error>;

fn id<T: std::str::FromStr<Err = Error>>(text: &str) -> Outcome<T> {
    text.parse()
}

/// The topic that the events of all subjects are in.
const TOPIC: &str = "erasure-topic";
/// The replay stream in which each subject has a record that was made from one of its events.
const SHARED_STREAM: &str = "erasure-shared";

impl ErasureSubject {
    /// A subject.
    #[must_use]
    pub const fn new(name: &'static str, resource: &'static str, marker: &'static str) -> Self {
        Self { name, resource, marker }
    }

    /// Returns the name of the run.
    #[must_use]
    pub fn run(&self) -> String {
        format!("{}-run", self.name)
    }

    /// Returns the text as it is written in records of a kind.
    #[must_use]
    pub fn text(&self, kind: &str) -> String {
        format!("{}-{kind}", self.marker)
    }

    fn json(&self, kind: &str) -> Outcome<Json> {
        Json::parse(&format!(r#"{{"text":"{}"}}"#, self.text(kind)))
    }

    /// Returns the forms in which a store may keep the text: as it is, and in base64 at each of three offsets.
    #[must_use]
    pub fn forms(&self) -> Vec<Vec<u8>> {
        let mut forms = vec![self.marker.as_bytes().to_vec()];
        for skip in 0..3_usize {
            let text = [vec![b'.'; skip], self.marker.as_bytes().to_vec()].concat();
            let encoded = BASE64.encode(text);
            // The characters at both ends depend on what is beside the text.
            let begin = if skip == 0 { 0 } else { skip + 1 };
            forms.push(encoded.as_bytes().get(begin..encoded.len() - 2).unwrap_or_default().to_vec());
        }
        forms
    }

    /// Writes the text into every kind of record. The clock is that of the stores.
    ///
    /// # Errors
    /// Any error of the stores.
    pub async fn plant(&self, stores: &TenantStores, clock: &Arc<dyn Clock>) -> Outcome<()> {
        let commits = stores.commits.clone().ok_or_else(Error::closed)?;
        self.plant_thread(&*commits).await?;
        self.plant_events(stores).await?;
        self.plant_input(stores).await?;
        if let Some(mailbox) = &stores.mailbox {
            self.plant_dispatches(&**mailbox).await?;
        }
        self.plant_outbox(stores).await?;
        self.plant_layers(stores, clock).await
    }

    async fn plant_thread(&self, commits: &dyn CommitCoordinator) -> Outcome<()> {
        let mut fields = ThreadFields::default();
        fields.resource_id = Some(id(self.resource)?);
        fields.title = Some(self.text("title"));
        fields.metadata.insert(self.text("metadata-key"), self.json("metadata")?);
        let threads = commits.threads();
        let _thread = threads.create_thread(NewThread::new(id(self.name)?).with_fields(fields)).await?;
        let mut child = ThreadFields::default();
        child.parent_thread_id = Some(id(self.name)?);
        child.title = Some(self.text("child-title"));
        let _child =
            threads.create_thread(NewThread::new(id(&format!("{}-child", self.name))?).with_fields(child)).await?;
        let call = Block::tool_use("call", "tool", self.json("tool-input")?);
        let result = Block::tool_result("call", vec![Block::text(self.text("tool-result"))]);
        let checkpoint = NewBody::Checkpoint { number: None, label: Some(self.text("snapshot")) };
        let entries = [
            NewEntry::new(Message::user(self.text("user"))).with_id(id("e-1")?),
            NewEntry::new(Message::new(Role::Assistant, vec![Block::text(self.text("assistant")), call])),
            NewEntry::new(Message::new(Role::Tool, vec![result])),
            NewEntry::new(Custom::new("note", self.json("custom")?)),
            NewEntry::new(Label::new(id("e-1")?, Some(self.text("label")))),
            NewEntry::new(checkpoint),
        ];
        let mut run = RunChange::new(id(&self.run())?, RunStatus::Running);
        run.agent = Some(id("agent")?);
        run.request = Some(self.json("run-request")?);
        run.state.insert(self.text("run-state-key"), Some(self.json("run-state")?));
        let event = NewEvent::new(id("turn")?, [self.thread_scope()?, self.run_scope()?, Scope::Topic(id(TOPIC)?)]);
        let row = NewOutboxRow::new(id("lane")?, id("target")?, self.json("row-payload")?);
        let note = DocumentKey::new(id("notes")?, [KeySegment::Id(id(&self.text("document-key"))?)])?;
        let note = note.in_thread(id(self.name)?);
        let commit = Commit::new(id(self.name)?)
            .with_key(id(&self.text("commit-key"))?)
            .entries(entries)
            .with_run(run)
            .with_state(StateChange::new().set(self.text("state-key"), self.json("state")?))
            .with_documents([DocumentChange::put(note, self.json("document")?)])
            .with_outbox([row.with_dedupe_key(id(&self.text("row-key"))?).with_order_key(id(&self.text("order-key"))?)])
            .with_events(AppendEvents::new([event.with_payload(self.json("event-of-commit")?)]));
        let _receipt = commits.commit(commit).await?;
        let failed = RunStatus::done(RunOutcome::Failed { error: self.text("run-error") });
        let _receipt =
            commits.commit(Commit::new(id(self.name)?).with_run(RunChange::new(id(&self.run())?, failed))).await?;
        let child = format!("{}-child", self.name);
        let answer = NewEntry::new(Message::user(self.text("child-entry")));
        let _receipt =
            commits.commit(Commit::new(id(&child)?).with_key(id(&self.text("child-key"))?).entry(answer)).await?;
        Ok(())
    }

    fn thread_scope(&self) -> Outcome<Scope> {
        Ok(Scope::Thread(id(self.name)?))
    }

    fn run_scope(&self) -> Outcome<Scope> {
        Ok(Scope::Run(id(&self.run())?))
    }

    async fn plant_events(&self, stores: &TenantStores) -> Outcome<()> {
        let events = stores.events.clone().ok_or_else(Error::closed)?;
        let mut of_thread = NewEvent::new(id("note")?, [self.thread_scope()?]).with_payload(self.json("event")?);
        of_thread.correlation_id = Some(id(&self.text("correlation"))?);
        of_thread.causation_id = Some(id(&self.text("causation"))?);
        let of_run = NewEvent::new(id("note")?, [self.run_scope()?]).with_payload(self.json("run-event")?);
        let in_topic = NewEvent::new(id("note")?, [self.thread_scope()?, Scope::Topic(id(TOPIC)?)]);
        let drafts = [of_thread, of_run, in_topic.with_payload(self.json("topic-event")?)];
        let append = AppendEvents::new(drafts).with_key(id(&self.text("writer"))?, id(&self.text("event-key"))?);
        events.append_events(append).await.map(drop)
    }

    async fn plant_input(&self, stores: &TenantStores) -> Outcome<()> {
        let pending = stores.pending.clone().ok_or_else(Error::closed)?;
        let input = NewInput::message(Message::user(self.text("input")));
        pending.append_pending(AppendPending::new(id(self.name)?, [input])).await.map(drop)
    }

    /// Enqueues dispatches: one that is a dead letter, one that an interrupt superseded, one that is claimed, and one
    /// that waits.
    ///
    /// # Errors
    /// Any error of the mailbox.
    pub async fn plant_dispatches(&self, mailbox: &dyn MailboxStore) -> Outcome<()> {
        let new = |name: &str| -> Outcome<NewDispatch> {
            let mut new =
                NewDispatch::new(id(self.name)?, id(&self.run())?).with_id(id(&format!("{}-{name}", self.name))?);
            new.payload = Some(self.json("dispatch-payload")?);
            new.dedupe_key = Some(id(&self.text(&format!("dispatch-{name}")))?);
            Ok(new)
        };
        let claim = || -> Outcome<ClaimRequest> {
            Ok(ClaimRequest::new(id("worker")?, Duration::from_secs(600)).of_thread(id(self.name)?))
        };
        mailbox.enqueue(vec![new("dead")?]).await?.into_iter().collect::<Outcome<Vec<_>>>()?;
        let dead = mailbox.claim(claim()?).await?.claimed.pop().ok_or_else(Error::closed)?;
        let error = Settlement::DeadLetter { error: self.text("dispatch-error") };
        mailbox.settle(vec![(dead.claim(), error)]).await?.into_iter().collect::<Outcome<Vec<_>>>()?;
        mailbox.enqueue(vec![new("superseded")?]).await?.into_iter().collect::<Outcome<Vec<_>>>()?;
        let interrupt = Interrupt::new(id(self.name)?).because(self.text("interrupt-reason"));
        mailbox.interrupt(interrupt.with_key(id(&self.text("interrupt-key"))?)).await?;
        let more = vec![new("claimed")?, new("waiting")?];
        mailbox.enqueue(more).await?.into_iter().collect::<Outcome<Vec<_>>>()?;
        mailbox.claim(claim()?).await?.claimed.pop().ok_or_else(Error::closed).map(drop)
    }

    /// Gives the row of the thread an error. A second one stays claimed.
    async fn plant_outbox(&self, stores: &TenantStores) -> Outcome<()> {
        let (outbox, commits) = (stores.outbox.clone(), stores.commits.clone());
        let (outbox, commits) = (outbox.ok_or_else(Error::closed)?, commits.ok_or_else(Error::closed)?);
        let claim = || -> Outcome<ClaimOutbox> { Ok(ClaimOutbox::new(id("lane")?, id("worker")?, 100)) };
        for row in outbox.claim_outbox(claim()?).await?.rows {
            let settlement = if row.row.thread.as_str() == self.name {
                OutboxSettlement::DeadLetter { error: self.text("row-error") }
            } else {
                OutboxSettlement::Release
            };
            let settled = outbox.settle_outbox(vec![SettleOutbox::new(row.row.id, row.token, settlement)]).await?;
            settled.into_iter().collect::<Outcome<Vec<_>>>()?;
        }
        let row = NewOutboxRow::new(id("lane")?, id("target")?, self.json("claimed-row-payload")?);
        let _receipt = commits.commit(Commit::new(id(self.name)?).with_outbox([row])).await?;
        let claimed = outbox.claim_outbox(claim()?).await?.rows;
        if claimed.is_empty() { Err(Error::closed()) } else { Ok(()) }
    }

    async fn plant_layers(&self, stores: &TenantStores, clock: &Arc<dyn Clock>) -> Outcome<()> {
        let layers = LayerStore::new(stores)?;
        let (thread, run) = (id(self.name)?, id(&self.run())?);
        let name = EffectName::new(thread, run, id("pay")?)?;
        let effects = EffectLayer::new(layers.clone());
        let intent =
            EffectIntent::new(id("payment")?, self.json("intent")?).with_key(id(&self.text("idempotency-key"))?);
        let begun = effects.begin_effect(NewEffect::new(name, intent)).await?;
        if let BegunEffect::Fresh(effect) = begun {
            let done = EffectEnd::Done(self.json("outcome")?);
            effects.end_effect(EndEffect::new(effect.name, effect.attempt, done)).await?;
        }
        let open = EffectName::new(id(self.name)?, id(&self.run())?, id("open")?)?;
        let _open = effects
            .begin_effect(NewEffect::new(open, EffectIntent::new(id("payment")?, self.json("open-intent")?)))
            .await?;
        let answer = PartialAnswer::new(1).with_text(self.text("partial-answer"));
        let put = PutStreamCheckpoint::new(id(self.name)?, id(&self.run())?, 1, answer);
        let _outcome = StreamCheckpointLayer::new(stores)?.put_stream_checkpoint(put).await?;
        let profiles = ProfileLayer::new(layers.clone());
        for owner in [ProfileOwner::User(id(self.resource)?), format!("thread:{}", self.name).parse()?] {
            let key = id(&format!("{}-key", self.name))?;
            profiles.put_profile(&owner, key, self.json("profile")?, DocumentExpect::Any).await?;
        }
        let audit = NewAudit::new(id("ada")?).with_action(AuditAction::Update).with_error(self.text("audit-error"));
        let resource = AuditResource::of(["thread", self.name, "title"])?;
        let value = Some(self.json("audit-value")?);
        AuditLog::new(layers.clone()).append_audit(audit.clone(), resource, value.clone(), value.clone()).await?;
        let resource = AuditResource::of(["profile", "user", self.resource, "name"])?;
        AuditLog::new(layers.clone()).append_audit(audit, resource, value.clone(), value).await?;
        self.plant_replay(&layers, clock).await
    }

    async fn plant_replay(&self, layers: &LayerStore, clock: &Arc<dyn Clock>) -> Outcome<()> {
        let replay = ReplayLayer::new(layers.clone(), Arc::clone(clock));
        let query = EventQuery::new(self.thread_scope()?).with_page(PageRequest::first(1));
        let source = layers.events.list_events(query).await?.items.pop().ok_or_else(Error::closed)?;
        for (stream, bytes) in [(self.run(), "replay"), (SHARED_STREAM.to_owned(), "shared-replay")] {
            let stream = ReplayStreamRef::new(id(&stream)?, id("wire")?, id("1")?)?;
            let wire_id = format!("{}-{bytes}", self.name);
            let record = NewReplay::new(id(&wire_id)?, id("text")?, self.text(bytes).into_bytes());
            let record = record.from_source(ReplaySource::new(source.id.clone()));
            replay.append_replay(AppendReplay::new(stream, [record])).await?;
        }
        Ok(())
    }

    /// Returns what readers see of all subjects, as text: every record of every contract.
    ///
    /// # Errors
    /// Any error of the stores.
    pub async fn read_everything(stores: &TenantStores, subjects: &[&Self]) -> Outcome<String> {
        let mut seen = String::new();
        let commits = stores.commits.clone().ok_or_else(Error::closed)?;
        let threads = commits.threads();
        let query = ThreadQuery::new(ThreadFilter::default()).with_page(PageRequest::first(MAX_PAGE));
        for thread in threads.list_threads(query).await?.items {
            let _ = write!(seen, "\n{thread:?}");
            let entries = EntryQuery::default().with_page(PageRequest::first(MAX_PAGE));
            let _ = write!(seen, "\n{:?}", threads.list_entries(&thread.id, entries).await?.items);
            let _ = write!(seen, "\n{:?}", threads.load_context(&thread.id, ContextRequest::default()).await?);
            let mut runs = RunFilter::default();
            runs.thread = Some(thread.id.clone());
            let _ = write!(seen, "\n{:?}", threads.list_runs(RunQuery::new(runs)).await?.items);
            let _ = write!(seen, "\n{:?}", commits.pending().load_queue(&thread.id).await?);
        }
        let events = commits.events();
        let mut scopes = vec![Scope::Topic(id(TOPIC)?)];
        for subject in subjects {
            scopes.extend([subject.thread_scope()?, subject.run_scope()?]);
        }
        for scope in scopes {
            seen.push_str(&read_scope(&*events, scope).await?);
        }
        if let Some(outbox) = &stores.outbox {
            let mut query = OutboxQuery::new(OutboxFilter::default());
            query.page = PageRequest::first(MAX_PAGE);
            let _ = write!(seen, "\n{:?}", outbox.list_outbox(query).await?.items);
        }
        if let Some(mailbox) = &stores.mailbox {
            let mut query = DispatchQuery::new(DispatchFilter::default());
            query.page = PageRequest::first(MAX_PAGE);
            let _ = write!(seen, "\n{:?}", mailbox.list_dispatches(query).await?.items);
        }
        seen.push_str(&read_layers(stores, subjects).await?);
        Ok(seen)
    }
}

async fn read_scope(events: &dyn EventStore, scope: Scope) -> Outcome<String> {
    let query = EventQuery::new(scope).with_page(PageRequest::first(MAX_PAGE)).with_filter(EventFilter::default());
    let mut seen = String::new();
    for event in events.list_events(query.with_direction(Direction::Forward)).await?.items {
        let _ = write!(seen, "\n{event:?}");
    }
    Ok(seen)
}

async fn read_layers(stores: &TenantStores, subjects: &[&ErasureSubject]) -> Outcome<String> {
    let (layers, mut seen) = (LayerStore::new(stores)?, String::new());
    let collections = [
        ("notes", true),
        ("layer.effects", true),
        ("layer.effects.order", false),
        ("layer.stream_checkpoints", true),
        ("layer.stream_checkpoints.index", false),
        ("layer.profiles", false),
        ("layer.replay.records", false),
    ];
    for (collection, is_of_thread) in collections {
        let mut queries = vec![DocumentQuery::new(id(collection)?)];
        if is_of_thread {
            queries.clear();
            for subject in subjects {
                queries.push(DocumentQuery::new(id(collection)?).in_scope(DocumentScope::Thread(id(subject.name)?)));
            }
        }
        for query in queries {
            for document in layers.documents.list_documents(query.with_page(PageRequest::first(MAX_PAGE))).await?.items
            {
                let _ = write!(seen, "\n{document:?}");
            }
        }
    }
    let mut query = AuditQuery::new();
    query.page = PageRequest::first(MAX_PAGE);
    for record in AuditLog::new(layers).list_audit(query).await?.items {
        let _ = write!(seen, "\n{record:?}");
    }
    Ok(seen)
}
