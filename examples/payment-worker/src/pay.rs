//! The handler: it charges the card of an order once, and finishes the order.

use agentstore::{
    Done, Effect, EffectEnd, EffectIntent, EffectStatus, Failure, IdSource, Json, Message, NewEntry, Resolution,
    RunChange, RunOutcome, RunStatus, Settlement, UuidSource, Work,
};

use crate::{Charge, FoundCharge, Order, Payments};

/// The kind of the effects of this worker.
const PAYMENT: &str = "payment";

/// Charges the card of an order, unless an earlier attempt has, and finishes the order.
///
/// # Errors
/// Any error of the store or of the payment server: then the dispatch is tried again. If it is in doubt whether the
/// card was charged, and the payment server cannot say, the dispatch becomes a dead letter.
pub async fn pay(work: Work, payments: Payments) -> Result<Done, Failure> {
    let order = order_of(&work)?;
    if let Some(doubt) = work.effects_in_doubt().first() {
        // The reconciler could not end the doubt, so a person has to: `agentstore effects resolve`.
        return Err(Failure::permanent(format!("effect {} is in doubt", doubt.name)));
    }
    let intent = EffectIntent::new(PAYMENT.parse()?, Json::of(&order)?);
    let act = async |effect: Effect| {
        Ok(match payments.charge(effect.idempotency_key.as_str(), &order).await? {
            Charge::Made(receipt) => EffectEnd::Done(Json::of(&receipt)?),
            Charge::Declined(reason) => EffectEnd::Failed(Json::of(&reason)?),
            Charge::NotSent(_) => EffectEnd::Retry,
        })
    };
    let payment = work.perform("charge".parse()?, intent, act).await?;
    let outcome: String = payment.outcome.unwrap_or_else(Json::null).to()?;
    finish(&work, payment.status == EffectStatus::Done, &outcome).await
}

/// Asks the payment server whether a charge was made. None if it cannot say.
///
/// # Errors
/// Any error of the request: then the attempt fails before its handler is called.
pub async fn reconcile(effect: Effect, payments: Payments) -> Result<Option<Resolution>, Failure> {
    Ok(match payments.find(effect.idempotency_key.as_str()).await? {
        FoundCharge::Made(receipt) => Some(Resolution::Done(Json::of(&receipt)?)),
        // The request may still be on its way. That does no harm, because this server makes one charge for each key.
        FoundCharge::Absent => Some(Resolution::Retry),
        FoundCharge::NotTold => None,
    })
}

/// Does the same as [`pay`] without effects, to show what they are for: after a kill or a lost answer, the card is
/// charged again.
///
/// # Errors
/// Any error of the store or of the payment server.
pub async fn pay_without_effects(work: Work, payments: Payments) -> Result<Done, Failure> {
    let order = order_of(&work)?;
    match payments.charge(&UuidSource.next_id(), &order).await? {
        Charge::Made(receipt) => finish(&work, true, &receipt).await,
        Charge::Declined(reason) => finish(&work, false, &reason).await,
        Charge::NotSent(error) => Err(error.into()),
    }
}

fn order_of(work: &Work) -> Result<Order, Failure> {
    let payload = work.dispatch().payload.as_ref().ok_or_else(|| Failure::permanent("there is no order"))?;
    Ok(payload.to()?)
}

/// In one step: the answer, the end of the run, and the end of the dispatch.
async fn finish(work: &Work, is_paid: bool, text: &str) -> Result<Done, Failure> {
    let (answer, outcome) = if is_paid {
        (format!("Paid: {text}."), RunOutcome::NaturalEnd)
    } else {
        (format!("Not paid: {text}."), RunOutcome::Failed { error: text.to_owned() })
    };
    let commit = work
        .new_commit()
        .with_key(work.key("answer")?)
        .entry(NewEntry::new(Message::assistant(answer)))
        .with_run(RunChange::new(work.dispatch().run.clone(), RunStatus::done(outcome)))
        .settling(Settlement::Ack { result: None });
    let _receipt = work.commits()?.commit(commit).await?;
    Ok(Done::Committed)
}
