//! Steps with pending input. Each runs on the store and on the model.

use store_core::{AppendPending, Delivery, EntryId, Message, PendingUpdate, Reorder, ThreadId};

use super::{
    names::named,
    ops::Op,
    pair::{Outcome, Pair, agree},
};

impl Pair {
    /// Runs a step that changes a queue.
    pub(super) async fn input(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Append { thread, inputs } => {
                let id: ThreadId = named("t", *thread);
                let mut request_context = self.request_context(*thread, None);
                let inputs: Vec<_> = inputs.iter().map(|input| request_context.input(input)).collect();
                let request = AppendPending::new(id.clone(), inputs);
                let real = self.real.pending.append_pending(request.clone()).await;
                self.follow_queue(&id, real.as_ref().is_ok_and(|appended| !appended.deduplicated)).await?;
                agree(&real, &self.twin.pending.append_pending(request).await)
            }
            Op::ChangeInput { thread, place, behind, text, boundary } => {
                let input = self.request_context(*thread, None).pending(*place, behind.unwrap_or(0));
                let mut update = PendingUpdate::new(named("t", *thread), input.id);
                update.expect_revision = behind.map(|_| input.revision);
                update.message = text.map(|text| Message::user(format!("text {text}")));
                update.delivery = boundary.map(Delivery::at);
                let real = self.real.pending.update_pending(update.clone()).await;
                self.follow(real.as_ref().ok().map(|input| input.updated_at));
                agree(&real, &self.twin.pending.update_pending(update).await)
            }
            Op::Retract { thread, place } => {
                let (id, input) = (named("t", *thread), self.request_context(*thread, None).pending(*place, 0).id);
                let real = self.real.pending.retract_pending(&id, &input).await;
                agree(&real, &self.twin.pending.retract_pending(&id, &input).await)
            }
            Op::Reorder { thread, turn, behind, wrong } => {
                let id: ThreadId = named("t", *thread);
                let mut order: Vec<EntryId> = self.model.queue(&id).into_iter().map(|input| input.id).collect();
                let turn = usize::from(*turn) % order.len().max(1);
                order.rotate_left(turn);
                match (wrong, order.last().cloned()) {
                    (Some(true), Some(last)) => order.push(last),
                    (Some(false), _) => drop(order.pop()),
                    _ => {}
                }
                let revision = self.twin.pending.load_queue(&id).await?.revision;
                let request = Reorder::new(id, revision.saturating_sub(u64::from(*behind)), order);
                let real = self.real.pending.reorder_pending(request.clone()).await;
                agree(&real, &self.twin.pending.reorder_pending(request).await)
            }
            _ => Ok(()),
        }
    }

    /// Sets the model's time to that of the last input, after inputs were appended.
    async fn follow_queue(&self, thread: &ThreadId, appended: bool) -> Outcome {
        if appended {
            let last = self.real.pending.load_queue(thread).await?.inputs.pop();
            self.follow(last.map(|input| input.created_at));
        }
        Ok(())
    }

    pub(super) async fn queue(&self, thread: &ThreadId) -> Outcome {
        agree(&self.real.pending.load_queue(thread).await, &self.twin.pending.load_queue(thread).await)
    }
}
