//! How a decision is made and written: a rule of core decides from what the log says of a thread, and one message says
//! what it changed, if the thread is still as it was. Otherwise the decision is made again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use store_core::{
    Claims, Dispatch, DispatchClaim, Enqueued, Error, ErrorKind, Interrupted, Json, Outcome, Reclaimed, Result,
    Settled, ThreadId, Timestamp, codec::Codec, commit::Setting, length, mailbox::MailboxChange,
};
use tokio::time::Instant;

use crate::{
    codec::{Apart, Datum, Deed, TenantRecord},
    connection::{AGAIN, Written},
    key::{Key, token},
    log::{Log, Own},
    tenant::Tenant,
    view::{Desk, Mailbox, OfTenant},
};

/// Payloads and results beyond this stand in messages of their own: each change of a dispatch writes it anew.
const LARGE: usize = 2_048;
/// About how many bytes of decisions are written together.
const TOGETHER: usize = 128 << 10;

/// What a decision answers with.
pub(crate) trait Answer: Send + Sync {
    /// The dispatch that is shown, whose payload may stand elsewhere.
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        None
    }

    /// Whether it is given without what cannot be read of the dispatch.
    const IS_LENIENT: bool = false;
}

impl Answer for Enqueued {}
impl Answer for DispatchClaim {}
impl Answer for Settled {}
impl Answer for Interrupted {}
impl Answer for Reclaimed {}
impl Answer for bool {}

impl Answer for Dispatch {
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        Some(self)
    }
}

/// A dispatch that was cancelled, which also what cannot be read any more can be (MB-55).
pub(crate) struct Cancelled(pub(crate) Dispatch);

impl Answer for Cancelled {
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        Some(&mut self.0)
    }

    const IS_LENIENT: bool = true;
}

/// Of one thread.
impl Answer for Claims {
    fn dispatch(&mut self) -> Option<&mut Dispatch> {
        self.claimed.first_mut().map(|claimed| &mut claimed.dispatch)
    }
}

impl Apart {
    /// Puts the parts back into a dispatch.
    pub(crate) async fn fill(self, tenant: &Tenant, dispatch: &mut Dispatch) -> Result<()> {
        if let Some(datum) = self.payload.filter(|_| dispatch.payload.is_none()) {
            dispatch.payload = Some(load(tenant, datum).await?);
        }
        if let Some(datum) = self.result.filter(|_| dispatch.result.is_none()) {
            dispatch.result = Some(load(tenant, datum).await?);
        }
        Ok(())
    }
}

async fn load(tenant: &Tenant, datum: Datum) -> Result<Json> {
    let connection = &tenant.log().connection;
    let damaged = || Error::corrupt(format!("payload {} of a dispatch", datum.sequence));
    let text = connection.load(&connection.keys.data(), datum.sequence).await?.ok_or_else(damaged)?;
    Json::read(&text).map_err(|e| damaged().with_source(e))
}

/// What was written apart for a call: a decision that is made again does not write it again.
#[derive(Default)]
struct Parts(Vec<(Json, Datum)>);

/// How far a call got.
enum Step<T> {
    /// These are the next answers.
    Answers(Vec<Result<T>>),
    /// Somebody else decided about the thread.
    Conflict,
}

/// What must be done and hold before decisions about items are made.
pub(crate) trait Prepare<I>: Send + Sync {
    /// Done each time before: it looks how far the log is, at least.
    fn before<'a>(&'a self, tenant: &'a Tenant, items: &'a [I]) -> BoxFuture<'a, Result<()>>;

    /// Whether what was done still holds at the place of the log where the decision is made.
    fn holds(&self, life: Option<&OfTenant>, item: &I, tenant: &Tenant) -> bool;
}

/// Nothing but looking how far the log is.
pub(crate) struct Look;

impl<I: Sync> Prepare<I> for Look {
    fn before<'a>(&'a self, tenant: &'a Tenant, _: &'a [I]) -> BoxFuture<'a, Result<()>> {
        tenant.log().look().boxed()
    }

    fn holds(&self, _: Option<&OfTenant>, _: &I, _: &Tenant) -> bool {
        true
    }
}

/// A call: decisions about one thread, each for an item, in their order.
pub(crate) struct Call<'a, I, R, P = Look> {
    pub(crate) tenant: &'a Tenant,
    /// None if nothing is known of what the items name.
    pub(crate) thread: Option<&'a ThreadId>,
    pub(crate) items: &'a [I],
    pub(crate) rule: R,
    pub(crate) prepare: &'a P,
}

impl<I: Sync, R, P: Prepare<I>> Call<'_, I, R, P> {
    /// Makes the decisions. Each item has an answer of its own; what cannot be written leaves the others as they are.
    pub(crate) async fn decide<T: Answer>(&self) -> Vec<Result<T>>
    where
        R: Fn(&Desk<'_>, &I, Setting<'_>) -> Result<MailboxChange<T>> + Send + Sync,
    {
        let mut answers = Vec::with_capacity(self.items.len());
        let mut apart = Parts::default();
        let lock = self.thread.map(|thread| self.tenant.deciding(thread));
        let _alone = match &lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        let begun = Instant::now();
        while answers.len() < self.items.len() {
            let rest = self.items.get(answers.len()..).unwrap_or_default();
            let step = match self.prepare.before(self.tenant, rest).await {
                Ok(()) => self.step(rest, &mut apart).await,
                Err(error) => Err(error),
            };
            let failed = match step {
                Ok(Step::Answers(some)) => {
                    answers.extend(some);
                    continue;
                }
                Ok(Step::Conflict) if begun.elapsed() < self.tenant.common.config.deadline => continue,
                Ok(Step::Conflict) => Error::unavailable("others wrote at the same time, again and again"),
                Err(error) => error,
            };
            for _ in 1..rest.len() {
                answers.push(Err(Error::new(failed.detail().clone())));
            }
            answers.push(Err(failed));
        }
        answers
    }

    /// The same for a claim: it goes elsewhere when somebody else decides about the thread. None then.
    pub(crate) async fn decide_once<T: Answer>(&self) -> Result<Option<T>>
    where
        R: Fn(&Desk<'_>, &I, Setting<'_>) -> Result<MailboxChange<T>> + Send + Sync,
    {
        match self.step(self.items, &mut Parts::default()).await? {
            Step::Answers(answers) => answers.into_iter().next().transpose(),
            Step::Conflict => Ok(None),
        }
    }

    /// Decides about as many items as go together, and writes what that changes.
    async fn step<T: Answer>(&self, items: &[I], apart: &mut Parts) -> Result<Step<T>>
    where
        R: Fn(&Desk<'_>, &I, Setting<'_>) -> Result<MailboxChange<T>> + Send + Sync,
    {
        let (tenant, log) = (self.tenant, self.tenant.log());
        let mut own = log.await_own();
        let now = log.now()?;
        self.turn(now)?;
        let decided = {
            let view = log.view();
            let nothing = Mailbox::default();
            let life = tenant.life(&view)?;
            let mailbox = life.map_or(&nothing, |life| &life.mailbox);
            let config = &tenant.common.config;
            let holds = |item: &&I| self.prepare.holds(life, item, tenant);
            let ready: Vec<&I> = items.iter().take_while(holds).collect();
            if ready.is_empty() {
                return Ok(Step::Conflict);
            }
            self.on(mailbox, &ready, Setting::new(now, &config.limits, &*config.ids), &own.name)
                .map(|decided| (decided, life.map(|life| self.place(life))))
        };
        let ((mut answers, parts, deed), place) = decided?;
        let Some(deed) = deed else {
            self.fill(&mut answers, &parts).await?;
            return Ok(Step::Answers(answers));
        };
        let Some((key, last)) = place.flatten() else {
            create(tenant).await?;
            return Ok(Step::Conflict);
        };
        let deed = split(tenant, deed, apart, &key).await?;
        self.fill(&mut answers, &parts).await?;
        match put_in_log(log, &mut own, (&key, last), deed).await? {
            true => Ok(Step::Answers(answers)),
            false => Ok(Step::Conflict),
        }
    }

    /// Makes available what of the thread is due.
    fn turn(&self, now: Timestamp) -> Result<()> {
        let (tenant, log) = (self.tenant, self.tenant.log());
        let incarnation = tenant.life(&log.view())?.map(|life| life.record.incarnation);
        if let (Some(incarnation), Some(thread)) = (incarnation, self.thread)
            && let Some(life) = log.view_mut().life_mut(&tenant.name, incarnation)
        {
            life.mailbox.map.turn(thread, now);
        }
        Ok(())
    }

    /// Where decisions about the thread are written, and the last message there.
    fn place(&self, life: &OfTenant) -> Option<(Key, u64)> {
        let thread = self.thread?;
        let key = Key::Thread(self.tenant.name.clone(), life.record.incarnation, thread.clone());
        Some((key, life.mailbox.last_message(thread)))
    }

    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn on<T: Answer>(
        &self,
        mailbox: &Mailbox,
        items: &[&I],
        setting: Setting<'_>,
        by: &str,
    ) -> Result<(Vec<Result<T>>, Vec<Apart>, Option<Deed>)>
    where
        R: Fn(&Desk<'_>, &I, Setting<'_>) -> Result<MailboxChange<T>>,
    {
        let mut desk = Desk::new(mailbox);
        let (mut answers, mut parts) = (Vec::new(), Vec::new());
        for item in items {
            let mut answer = desk.change(|view| (self.rule)(view, item, setting));
            let shown = answer.as_mut().ok().and_then(Answer::dispatch);
            parts.push(shown.map(|dispatch| mailbox.apart(&dispatch.id)).unwrap_or_default());
            answers.push(answer);
            if desk.bytes() > TOGETHER {
                break;
            }
        }
        Ok((answers, parts, desk.into_deed(by)))
    }

    async fn fill<T: Answer>(&self, answers: &mut [Result<T>], parts: &[Apart]) -> Result<()>
    where
        R: Send + Sync,
    {
        for (answer, apart) in answers.iter_mut().zip(parts) {
            if let Some(dispatch) = answer.as_mut().ok().and_then(Answer::dispatch) {
                match apart.fill(self.tenant, dispatch).await {
                    Err(error) if T::IS_LENIENT && error.kind() == ErrorKind::Corrupt => {}
                    filled => filled?,
                }
            }
        }
        Ok(())
    }
}

/// Writes what is large in messages of its own. Without the decision nobody sees it.
async fn split(tenant: &Tenant, mut deed: Deed, apart: &mut Parts, key: &Key) -> Result<Deed> {
    for row in &mut deed.rows {
        let stored = &mut row.stored;
        let payload = stored.body.payload.as_ref().filter(|payload| payload.as_str().len() > LARGE);
        if let Some(payload) = payload {
            row.apart.payload = Some(put(tenant, payload, apart, key).await?);
            Arc::make_mut(&mut stored.body).payload = None;
        }
        let result = stored.state.result.as_ref().filter(|result| result.as_str().len() > LARGE);
        if let Some(result) = result {
            row.apart.result = Some(put(tenant, result, apart, key).await?);
            stored.state.result = None;
        }
    }
    Ok(deed)
}

async fn put(tenant: &Tenant, json: &Json, apart: &mut Parts, key: &Key) -> Result<Datum> {
    if let Some((_, datum)) = apart.0.iter().find(|(written, _)| written == json) {
        return Ok(*datum);
    }
    let Key::Thread(name, incarnation, _) = key else { return Err(Error::closed()) };
    let (connection, ids) = (&tenant.log().connection, &tenant.common.config.ids);
    let begun = Instant::now();
    loop {
        let subject = connection.keys.datum(name, *incarnation, &token(&ids.next_id()));
        match connection.write(subject, json.as_str().to_owned()).await {
            Ok(sequence) => {
                let datum = Datum { sequence, bytes: length(json.as_str().len()) };
                apart.0.push((json.clone(), datum));
                return Ok(datum);
            }
            // What nobody knows of has no effect: it is written once more.
            Err(error) if error.outcome() == Outcome::Unknown => {
                if begun.elapsed() > tenant.common.config.deadline {
                    return Err(Error::unavailable("a payload could not be written").with_source(error));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes the tenant, if it is not there. Whoever comes first makes it.
pub(crate) async fn create(tenant: &Tenant) -> Result<()> {
    let log = tenant.log();
    let now = log.now()?;
    let (last, record) = {
        let view = log.view();
        if view.tenant(&tenant.name).is_some() {
            return Ok(());
        }
        let before = view.tenants.get(&tenant.name);
        // Above that of any mailbox before it, also of a store before this one (MB-25).
        let next = before.map_or(0, |before| before.record.incarnation.saturating_add(1));
        let incarnation = now.as_millis().max(next);
        (before.map_or(0, |before| before.sequence), TenantRecord { incarnation, is_deleted: false })
    };
    match log.write(&Key::Tenant(tenant.name.clone()), last, record.encode()).await {
        // Whether it was made shows in the log. An empty one is none.
        Err(error) if error.outcome() != Outcome::Unknown => Err(error),
        _ => Ok(()),
    }
}

/// Writes a decision. It has an effect if it is read in the log as one that came in time.
pub(crate) async fn put_in_log(log: &Arc<Log>, own: &mut Own<'_>, at: (&Key, u64), deed: Deed) -> Result<bool> {
    let (key, last) = at;
    let unknown = match log.write_in_time(key, last, deed.encode()).await {
        Ok(Written::Conflict | Written::Busy) => return Ok(false),
        Ok(Written::Accepted(sequence)) => match own.wait(sequence).await {
            Some(counts) => return Ok(counts),
            None => Error::commit_unknown(None),
        },
        Err(error) if error.outcome() == Outcome::Unknown => error,
        Err(error) => return Err(error),
    };
    resolve(log, own, at).await.ok_or(unknown)
}

/// Says nothing about a thread, but behind its last message: whoever decided before that writes nothing any more.
pub(crate) async fn fence(log: &Log, key: &Key, last: u64) -> Result<Written> {
    let own = log.await_own();
    let deed = Deed { by: own.name.clone(), ..Deed::default() };
    log.write(key, last, deed.encode()).await
}

/// What became of a decision whose answer did not come; none if that cannot be found out in time.
async fn resolve(log: &Arc<Log>, own: &mut Own<'_>, (key, last): (&Key, u64)) -> Option<bool> {
    let begun = Instant::now();
    while begun.elapsed() < log.deadline {
        if log.look().await.is_ok()
            && let Some(counts) = own.counts()
        {
            return Some(counts);
        }
        // Behind a later message on the subject it cannot be written any more. One that is on its way may be itself.
        if let Ok(Written::Accepted(_) | Written::Conflict) = fence(log, key, last).await
            && let Ok(end) = log.touch().await
            && log.reach(end).await.is_ok()
        {
            // All that was there was read, whichever leader says how far that is.
            return Some(own.counts().unwrap_or_default());
        }
        tokio::time::sleep(AGAIN).await;
    }
    None
}
