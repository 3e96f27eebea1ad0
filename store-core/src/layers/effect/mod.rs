//! Effects: what a run does to the world outside of the store, told exactly once that it is new, or listed as in doubt
//! (EF).

mod record;
mod request;
mod retention;
mod rules;
mod store;

pub(in crate::layers) use self::rules::entries_of;
pub use self::{
    record::{BegunEffect, Effect, EffectEnd, EffectName, EffectStatus, MAX_EFFECT_ID_BYTES, Resolution},
    request::{
        EffectIntent, EffectOwner, EffectQuery, EndEffect, NewEffect, PurgeEffects, PurgedEffects, ResolveEffect,
    },
    rules::end_changes,
    store::{EffectLayer, EffectStore},
};
