//! Steps with pending input. Each runs on the store and on the model.

use store_core::{AppendPending, Delivery, EntryId, Message, PendingUpdate, Reorder, ThreadId};

use super::{
    numbered_values::numbered_id,
    ops::{Op, OrderMistake},
    pair::{StepResult, StoreModelPair, expect_same},
};

impl StoreModelPair {
    /// Runs a step that changes a queue.
    pub(super) async fn run_input_step(&mut self, op: &Op) -> StepResult {
        match op {
            Op::AppendInputs { thread, inputs } => {
                let id: ThreadId = numbered_id("t", *thread);
                let mut request_context = self.request_context(*thread, None);
                let inputs: Vec<_> = inputs.iter().map(|input| request_context.input(input)).collect();
                let request = AppendPending::new(id.clone(), inputs);
                let store_answer = self.store.pending.append_pending(request.clone()).await;
                self.set_model_time_from_queue(&id, store_answer.as_ref().is_ok_and(|appended| !appended.deduplicated))
                    .await?;
                expect_same(&store_answer, &self.model.pending.append_pending(request).await)
            }
            Op::ChangeInput { thread, index, behind, text, boundary } => {
                let input = self.request_context(*thread, None).pending_ref(*index, behind.unwrap_or(0));
                let mut update = PendingUpdate::new(numbered_id("t", *thread), input.id);
                update.expect_revision = behind.map(|_| input.revision);
                update.message = text.map(|text| Message::user(format!("text {text}")));
                update.delivery = boundary.map(Delivery::at);
                let store_answer = self.store.pending.update_pending(update.clone()).await;
                self.set_model_time(store_answer.as_ref().ok().map(|input| input.updated_at));
                expect_same(&store_answer, &self.model.pending.update_pending(update).await)
            }
            Op::Retract { thread, index } => {
                let (id, input) =
                    (numbered_id("t", *thread), self.request_context(*thread, None).pending_ref(*index, 0).id);
                let store_answer = self.store.pending.retract_pending(&id, &input).await;
                expect_same(&store_answer, &self.model.pending.retract_pending(&id, &input).await)
            }
            Op::Reorder { thread, rotation, behind, mistake } => {
                let id: ThreadId = numbered_id("t", *thread);
                let mut order: Vec<EntryId> = self.model_store.queue(&id).into_iter().map(|input| input.id).collect();
                let rotation = usize::from(*rotation) % order.len().max(1);
                order.rotate_left(rotation);
                match (mistake, order.last().cloned()) {
                    (Some(OrderMistake::RepeatsInput), Some(last)) => order.push(last),
                    (Some(OrderMistake::OmitsInput), _) => drop(order.pop()),
                    _ => {}
                }
                let revision = self.model.pending.load_queue(&id).await?.revision;
                let request = Reorder::new(id, revision.saturating_sub(u64::from(*behind)), order);
                let store_answer = self.store.pending.reorder_pending(request.clone()).await;
                expect_same(&store_answer, &self.model.pending.reorder_pending(request).await)
            }
            _ => Ok(()),
        }
    }

    /// If inputs were appended, sets the model's time to the time of the last one.
    async fn set_model_time_from_queue(&self, thread: &ThreadId, appended: bool) -> StepResult {
        if appended {
            let last_input = self.store.pending.load_queue(thread).await?.inputs.pop();
            self.set_model_time(last_input.map(|input| input.created_at));
        }
        Ok(())
    }

    pub(super) async fn compare_queues(&self, thread: &ThreadId) -> StepResult {
        expect_same(&self.store.pending.load_queue(thread).await, &self.model.pending.load_queue(thread).await)
    }
}
