//! Enqueues, and the ids that their callers give. A dispatch is enqueued in one message about its thread, and an id is
//! used once in the whole tenant: so whoever enqueues under an id of his own says first, on the subject of the id, for
//! which thread. The thread's decision is made at a place of the log where that still holds.
//!
//! If the thread that an id stands for has no such dispatch, another thread may take the id over. Whoever did not
//! enqueue yet must not do so any more: behind the taking over, a message that says nothing is written about his thread,
//! so that what he decided before is not accepted, and what he decides later he decides knowing of it.

use std::collections::HashSet;

use futures_util::{StreamExt, stream};
use store_core::{
    DispatchId, Enqueued, Error, NewDispatch, Result, ThreadId,
    codec::Codec,
    commit::Setting,
    length,
    mailbox::{self},
};
use tokio::time::Instant;

use super::grouped;
use crate::{
    codec::IdRecord,
    decide::{create, fence},
    key::Key,
    tenant::Tenant,
    view::{Desk, OfTenant},
};

/// How many ids are written for at once.
const TOGETHER: usize = 32;

/// What is to be done before a dispatch can be enqueued under an id.
enum Next {
    /// Nothing.
    Nothing,
    /// To say for which thread it is, behind this message.
    Say(IdRecord, u64),
    /// To keep the thread that had it from enqueueing under it any more.
    Fence(ThreadId),
}

fn next(life: &OfTenant, (id, thread): (&DispatchId, &ThreadId), fenced: &HashSet<(DispatchId, u64)>) -> Next {
    if life.mailbox.row(id).is_some() {
        // Whether it is the same is for the rule to say.
        return Next::Nothing;
    }
    let for_thread = |from| IdRecord { thread: thread.clone(), from };
    match life.ids.get(id) {
        None => Next::Say(for_thread(None), 0),
        Some((IdRecord { from: Some(from), .. }, at)) if !fenced.contains(&(id.clone(), *at)) => {
            Next::Fence(from.clone())
        }
        Some((IdRecord { thread: of, from: Some(_) }, at)) => {
            Next::Say(IdRecord { thread: of.clone(), from: None }, *at)
        }
        Some((IdRecord { thread: of, from: None }, _)) if of == thread => Next::Nothing,
        Some((IdRecord { thread: of, from: None }, at)) => Next::Say(for_thread(Some(of.clone())), *at),
    }
}

pub(super) async fn enqueue(tenant: &Tenant, dispatches: &[NewDispatch]) -> Result<Vec<Result<Enqueued>>> {
    let rule = |view: &Desk<'_>, new: &NewDispatch, setting: Setting<'_>| mailbox::enqueue(view, new, setting);
    let mut given: HashSet<&DispatchId> = HashSet::new();
    let is_twice = dispatches.iter().filter_map(|new| new.id.as_ref()).any(|id| !given.insert(id));
    if !is_twice {
        prepare(tenant, dispatches).await?;
        return Ok(grouped(tenant, dispatches, |new| Some(new.thread.clone()), rule).await);
    }
    // The first one counts.
    let mut answers = Vec::new();
    for new in dispatches.chunks(1) {
        prepare(tenant, new).await?;
        answers.extend(grouped(tenant, new, |new| Some(new.thread.clone()), rule).await);
    }
    Ok(answers)
}

/// Makes the ids that callers gave those of their threads.
async fn prepare(tenant: &Tenant, dispatches: &[NewDispatch]) -> Result<()> {
    let limits = &tenant.common.config.limits;
    // What is refused anyway needs none.
    let fits = |new: &&NewDispatch| {
        new.payload.as_ref().is_none_or(|payload| length(payload.as_str().len()) <= limits.record_bytes)
    };
    let wanted = dispatches.iter().filter(|new| new.max_attempts > 0).filter(fits);
    let wanted: Vec<_> = wanted.filter_map(|new| Some((new.id.clone()?, new.thread.clone()))).collect();
    let (mut fenced, begun) = (HashSet::new(), Instant::now());
    while !wanted.is_empty() {
        tenant.log().look().await?;
        let steps = steps(tenant, &wanted, &fenced)?;
        let Some((incarnation, steps)) = steps else {
            create(tenant).await?;
            continue;
        };
        if steps.is_empty() {
            break;
        }
        if begun.elapsed() > tenant.common.config.deadline {
            return Err(Error::unavailable("others take the same ids, again and again"));
        }
        let made = stream::iter(steps).map(|step| make(tenant, incarnation, step)).buffer_unordered(TOGETHER);
        for made in made.collect::<Vec<_>>().await {
            fenced.extend(made?);
        }
    }
    Ok(())
}

type Taken = (DispatchId, u64);

/// A step, with the id that it is about and the last messages that it is behind.
struct Step {
    id: DispatchId,
    next: Next,
    /// The message about the id, and the last about the thread that is fenced.
    behind: (u64, u64),
}

fn steps(
    tenant: &Tenant,
    wanted: &[(DispatchId, ThreadId)],
    fenced: &HashSet<Taken>,
) -> Result<Option<(u64, Vec<Step>)>> {
    let view = tenant.log().view();
    let Some(life) = tenant.life(&view)? else { return Ok(None) };
    let step = |(id, thread): &(DispatchId, ThreadId)| {
        let next = next(life, (id, thread), fenced);
        let of_thread = match &next {
            Next::Nothing => return None,
            Next::Say(..) => 0,
            Next::Fence(thread) => life.mailbox.last_message(thread),
        };
        let of_id = life.ids.get(id).map_or(0, |(_, at)| *at);
        Some(Step { id: id.clone(), next, behind: (of_id, of_thread) })
    };
    Ok(Some((life.record.incarnation, wanted.iter().filter_map(step).collect())))
}

/// Makes a step. Whether it was made, or somebody else was before, shows in the log. Gives what was fenced.
async fn make(tenant: &Tenant, incarnation: u64, step: Step) -> Result<Option<Taken>> {
    let not_applied = |e: Error| Error::unavailable("the id of a dispatch could not be written").with_source(e);
    match step.next {
        Next::Nothing => Ok(None),
        Next::Say(record, last) => {
            let key = Key::Id(tenant.name.clone(), incarnation, step.id);
            tenant.log().write(&key, last, record.encode()).await.map_err(not_applied)?;
            Ok(None)
        }
        Next::Fence(thread) => {
            let key = Key::Thread(tenant.name.clone(), incarnation, thread);
            let (of_id, of_thread) = step.behind;
            let written = fence(tenant, &key, of_thread).await.map_err(not_applied)?;
            let is_done = matches!(written, crate::connection::Written::Accepted);
            Ok(is_done.then_some((step.id, of_id)))
        }
    }
}
