//! Texts of every size in every kind of record: a text up to the limit is kept completely, and a longer one is refused.

use store_core::{
    AppendEvents, AppendPending, BlockKind, Commit, ContextRequest, Detail, DocumentChange, DocumentKey,
    DocumentStoreExt, Entry, ErrorKind, EventQuery, Expect, Json, KeySegment, Limits, Message, NewDispatch, NewEvent,
    NewInput, NewOutboxRow, NewThread, OutboxFilter, OutboxQuery, PendingBody, Result, Scope, StateChange,
    TenantStores, ThreadFields, WriteDocuments,
};

use crate::{
    Contract, Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, message_entry},
};

/// The kinds of records that can hold a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Metadata,
    Message,
    State,
    Input,
    Event,
    Dispatch,
    /// A row of the outbox.
    Row,
    Document,
}

/// A call that writes a text.
#[derive(Debug, Clone)]
pub(crate) enum WriteCall {
    Thread(NewThread),
    Commit(Box<Commit>),
    Inputs(AppendPending),
    Events(AppendEvents),
    Dispatch(NewDispatch),
    Documents(WriteDocuments),
}

impl WriteCall {
    /// Makes the call. The outer error says that the store lacks the contract, and the inner result is the answer of
    /// the store.
    pub(crate) async fn send(self, stores: &TenantStores) -> std::result::Result<Result<()>, Failure> {
        let missing_contract = || Failure::new("the store does not have the contract");
        Ok(match self {
            Self::Thread(request) => {
                stores.threads.as_ref().ok_or_else(missing_contract)?.create_thread(request).await.map(drop)
            }
            Self::Commit(commit) => {
                stores.commits.as_ref().ok_or_else(missing_contract)?.commit(*commit).await.map(drop)
            }
            Self::Inputs(request) => {
                stores.pending.as_ref().ok_or_else(missing_contract)?.append_pending(request).await.map(drop)
            }
            Self::Events(request) => {
                stores.events.as_ref().ok_or_else(missing_contract)?.append_events(request).await.map(drop)
            }
            Self::Documents(request) => {
                stores.documents.as_ref().ok_or_else(missing_contract)?.write_documents(request).await.map(drop)
            }
            Self::Dispatch(request) => {
                match stores.mailbox.as_ref().ok_or_else(missing_contract)?.enqueue(vec![request]).await {
                    Ok(mut answers) => answers.remove(0).map(drop),
                    Err(error) => Err(error),
                }
            }
        })
    }
}

/// The text of the first block of a message.
fn first_text(message: &Message) -> Option<String> {
    match &message.blocks.first()?.kind {
        BlockKind::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn document_key(name: &str, segment: u64) -> DocumentKey {
    DocumentKey::new(id("sizes"), [KeySegment::Id(id(name)), KeySegment::Number(segment)]).expect("a valid key")
}

impl RecordKind {
    /// The kinds of records that a contract writes.
    pub(crate) const fn of_contract(contract: Contract) -> &'static [Self] {
        match contract {
            Contract::ThreadRunStore => &[Self::Metadata],
            Contract::CommitCoordinator => &[Self::Message, Self::State],
            Contract::PendingStore => &[Self::Input],
            Contract::EventStore => &[Self::Event],
            Contract::MailboxStore | Contract::LiveChannel => &[Self::Dispatch],
            Contract::OutboxStore => &[Self::Row],
            Contract::DocumentStore | Contract::ObjectStore => &[Self::Document],
        }
    }

    /// How many bytes a record of this kind may have.
    pub(crate) fn limit(self, limits: &Limits) -> u64 {
        match self {
            Self::Metadata => limits.metadata_bytes,
            Self::State => limits.record_bytes.min(limits.state_bytes),
            Self::Message | Self::Input | Self::Event | Self::Dispatch | Self::Row | Self::Document => {
                limits.record_bytes
            }
        }
    }

    /// A call that writes `text` under `name`. If the call takes several records, it writes a small one first.
    pub(crate) fn write_call(self, name: &str, text: &str) -> Result<WriteCall> {
        let commit = Commit::new(id(name)).expecting(Expect::Absent).entry(message_entry("small"));
        let event = || NewEvent::new(id("kind"), [Scope::Thread(id(name))]);
        let input = |text: &str| NewInput::message(Message::user(text));
        Ok(match self {
            Self::Metadata => {
                let mut fields = ThreadFields::default();
                fields.metadata.insert("k".to_owned(), Json::of(text)?);
                WriteCall::Thread(NewThread::new(id(name)).with_fields(fields))
            }
            Self::Message => WriteCall::Commit(Box::new(commit.entry(message_entry(text).with_id(id("large"))))),
            Self::State => WriteCall::Commit(Box::new(commit.with_state(StateChange::new().set("k", Json::of(text)?)))),
            Self::Row => {
                let small_row = NewOutboxRow::new(id(name), id("target"), Json::null());
                let large_row = NewOutboxRow::new(id(name), id("target"), Json::of(text)?);
                WriteCall::Commit(Box::new(commit.with_outbox([small_row, large_row])))
            }
            Self::Input => WriteCall::Inputs(AppendPending::new(id(name), [input("small"), input(text)])),
            Self::Event => WriteCall::Events(AppendEvents::new([event(), event().with_payload(Json::of(text)?)])),
            Self::Dispatch => {
                let dispatch = NewDispatch::new(id(name), id("run")).with_id(id(name));
                WriteCall::Dispatch(dispatch.with_payload(Json::of(text)?))
            }
            Self::Document => {
                let put = |segment, value| DocumentChange::put(document_key(name, segment), value);
                WriteCall::Documents(WriteDocuments::new([put(1, Json::null()), put(2, Json::of(text)?)]))
            }
        })
    }

    /// Loads the text under `name`. Returns `None` if nothing was written under that name.
    async fn load_text(self, stores: &TenantStores, name: &str) -> std::result::Result<Option<String>, Failure> {
        let parse_text = |json: &Json| json.to::<String>();
        if let Some(mailbox) = stores.mailbox.as_ref().filter(|_| self == Self::Dispatch) {
            let payload = mailbox.load_dispatch(&id(name)).await?.and_then(|dispatch| dispatch.payload);
            return Ok(payload.as_ref().map(parse_text).transpose()?);
        }
        if let Some(events) = stores.events.as_ref().filter(|_| self == Self::Event) {
            let stored_events = events.list_events(EventQuery::new(Scope::Thread(id(name)))).await?.items;
            return match &stored_events[..] {
                [] => Ok(None),
                [_, large_event] => Ok(large_event.payload.as_ref().map(parse_text).transpose()?),
                _ => Err(Failure::new(format!("found {} events instead of two", stored_events.len()))),
            };
        }
        if let Some(documents) = stores.documents.as_ref().filter(|_| self == Self::Document) {
            let found = documents.load_document(&document_key(name, 2).into()).await?;
            return Ok(found.map(|found| parse_text(&found.value)).transpose()?);
        }
        let threads = expect_some(stores.threads.as_ref(), "threads")?;
        let Some(thread) = threads.load_thread(&id(name)).await? else { return Ok(None) };
        let value = match self {
            Self::Metadata => return Ok(thread.metadata.get("k").map(parse_text).transpose()?),
            Self::Message => {
                let entry = expect_some(threads.load_entry(&id(name), &id("large")).await?, "entry")?;
                return Ok(Entry::message(&entry).and_then(first_text));
            }
            Self::State => threads.load_context(&id(name), ContextRequest::head()).await?.state.remove("k"),
            Self::Row => {
                let query = OutboxQuery::new(OutboxFilter::default().of_lane(id(name)));
                let outbox = expect_some(stores.outbox.as_ref(), "outbox")?;
                outbox.list_outbox(query).await?.items.pop().map(|row| row.payload)
            }
            _ => {
                let pending = expect_some(stores.pending.as_ref(), "pending input")?;
                let last_input = pending.load_queue(&id(name)).await?.inputs.pop();
                let Some(PendingBody::Message(message)) = last_input.map(|input| input.body) else { return Ok(None) };
                return Ok(first_text(&message));
            }
        };
        expect_some(value.as_ref().map(parse_text).transpose()?, "value").map(Some)
    }

    /// Writes texts of 0 bytes, 1 byte and 64 KiB, and texts that make the record one byte smaller than its limit,
    /// exactly as large, and one byte larger. Checks that only the last one is refused and that all others are kept.
    pub(crate) async fn expect_all_sizes(self, stores: &TenantStores, limits: &Limits) -> Verdict {
        let limit = self.limit(limits);
        let text = |bytes: u64| "x".repeat(usize::try_from(bytes).unwrap_or(usize::MAX));
        // The length of the text that makes the record exactly as large as the limit. A refusal says how large the
        // record is, and so how many bytes it has besides the text.
        let mut max_text_bytes = limit;
        while let Err(error) =
            self.write_call(&format!("{self:?} of most bytes"), &text(max_text_bytes))?.send(stores).await?
        {
            let Detail::LimitExceeded { max, actual, .. } = *error.detail() else { return Err(error.into()) };
            expect_eq((max, actual > max), (limit, true))?;
            max_text_bytes = limit.saturating_sub(actual - max_text_bytes);
        }
        for (index, bytes) in
            [0, 1, 64 << 10, max_text_bytes - 1, max_text_bytes, max_text_bytes + 1].into_iter().enumerate()
        {
            let (name, written_text) = (format!("{self:?} {index}"), text(bytes));
            let send_result = self.write_call(&name, &written_text)?.send(stores).await?;
            let loaded_text = self.load_text(stores, &name).await?;
            if bytes > max_text_bytes {
                expect_kind(send_result, ErrorKind::LimitExceeded)?;
                expect(loaded_text.is_none(), format!("{bytes} bytes were refused, but something was written"))?;
            } else {
                send_result?;
                let length = loaded_text.as_ref().map(String::len);
                expect(
                    loaded_text == Some(written_text),
                    format!("{bytes} bytes came back as {length:?} bytes, or changed"),
                )?;
            }
        }
        Ok(())
    }
}

/// Texts of 0 bytes, 1 byte and 64 KiB are read back unchanged. So are texts whose record is exactly as large as the
/// limit or one byte smaller. If the record would be one byte larger than the limit, the call is refused with
/// `LimitExceeded` and writes nothing.
pub(super) async fn texts_up_to_the_limit_are_kept(given: &Given) -> Verdict {
    let small_store = given.open_another_store_with_limits(|limits| limits.record_bytes = 80 << 10).await?;
    for kind in RecordKind::of_contract(given.contract()) {
        let result = kind.expect_all_sizes(&small_store.stores()?, small_store.limits()).await;
        result.map_err(|failure| failure.about(format!("{kind:?}")))?;
    }
    Ok(())
}
