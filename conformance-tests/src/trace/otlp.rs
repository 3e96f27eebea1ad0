//! OTLP/JSON through a store.

use store_core::{read_otlp, write_otlp};

use super::{
    OTLP_SCENARIOS,
    helpers::{create_threads, load, put_new},
};
use crate::{Failure, Given, Verdict, check::expect_eq};

/// Scenarios of the conventions are read without losses, put, loaded and written as equal JSON. All but a list of spans
/// without order is compared: the spans of each scenario are ordered by their starts.
pub(super) async fn scenarios_of_the_conventions_come_back_equal(given: &Given) -> Verdict {
    let parse = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).map_err(|error| Failure::new(format!("no JSON: {error}")))
    };
    create_threads(given, &["t"]).await?;
    for (scenario, text) in OTLP_SCENARIOS {
        let import = read_otlp(text)?;
        expect_eq((scenario, &import.losses), (scenario, &Vec::new()))?;
        expect_eq((scenario, parse(&write_otlp(&import.spans))?), (scenario, parse(text)?))?;
        let name = format!("t/{scenario}");
        put_new(given, &name, import.spans).await?;
        let trace = load(given, &name).await?;
        expect_eq((scenario, parse(&write_otlp(&trace.spans))?), (scenario, parse(text)?))?;
    }
    Ok(())
}
