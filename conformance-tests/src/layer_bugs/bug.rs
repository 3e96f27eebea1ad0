//! The planted bugs of layers: what each of them changes, and which case must find it.

use super::{run_bugs::run_bugs, settings_bugs::settings_bugs};
use crate::model::bugs;

settings_bugs! {
    run_bugs bugs
    /// A planted bug: a deliberate mistake in a layer.
    LayerBug:
}
