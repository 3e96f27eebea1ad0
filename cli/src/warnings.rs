//! Prints warnings of workers, relays and stores to standard error, each kind at most once every 30 seconds.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Write},
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tracing::{
    Event, Level, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    filter::Targets,
    layer::{Context, Layer, SubscriberExt},
    util::SubscriberInitExt,
};

use crate::{args::GlobalArgs, text::terminal_safe};

/// The shortest time between two warnings of one kind. A worker itself warns of each kind at most once a minute, so all
/// its warnings are printed.
const MIN_INTERVAL: Duration = Duration::from_secs(30);
/// The greatest number of kinds that are remembered.
const MAX_KINDS: usize = 256;
/// The field of an event that names the kind of the error.
const KIND_FIELD: &str = "kind";
/// The beginnings of the targets under which this project logs.
const OUR_TARGETS: [&str; 2] = ["agentstore", "store_"];

/// Installs the subscriber that prints the messages selected by the options and by `RUST_LOG`.
pub(crate) fn install(global: &GlobalArgs) {
    let rust_log = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let requested_targets = rust_log.as_deref().map(Targets::from_str);
    let is_invalid = matches!(requested_targets, Some(Err(_)));
    let (our_level, other_level) = match (global.quiet, global.verbose) {
        (true, _) => (LevelFilter::ERROR, LevelFilter::OFF),
        (_, true) => (LevelFilter::DEBUG, LevelFilter::WARN),
        _ => (LevelFilter::WARN, LevelFilter::OFF),
    };
    let default_targets =
        || Targets::new().with_default(other_level).with_targets(OUR_TARGETS.map(|target| (target, our_level)));
    let targets = match requested_targets {
        Some(Ok(requested_targets)) if !global.quiet && !global.verbose => requested_targets,
        _ => default_targets(),
    };
    let printer = WarningPrinter { json: global.json, last_printed: Mutex::default() };
    // This fails only if a subscriber is already installed, and the command installs no other.
    let _ = tracing_subscriber::registry().with(printer.with_filter(targets)).try_init();
    if is_invalid {
        tracing::warn!(
            "RUST_LOG is invalid and ignored: expected a filter such as `warn` or `agentstore=debug,async_nats=info`"
        );
    }
}

/// Prints events, and remembers when each kind of warning was printed.
struct WarningPrinter {
    json: bool,
    /// The key is the kind of a warning: the place in the code that warns, and the value of [`KIND_FIELD`].
    last_printed: Mutex<HashMap<(Identifier, String), LastPrinted>>,
}

/// When a kind of warning was last printed, and how many have been left out since then.
struct LastPrinted {
    at: Instant,
    left_out: u64,
}

impl<S: Subscriber> Layer<S> for WarningPrinter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (meta, mut fields) = (event.metadata(), EventFields::default());
        event.record(&mut fields);
        let is_warning = *meta.level() <= Level::WARN;
        let left_out =
            if is_warning { self.left_out_if_printed(meta.callsite(), &fields, Instant::now()) } else { Some(0) };
        let Some(left_out) = left_out else { return };
        let level = meta.level().as_str().to_ascii_lowercase();
        let line = if self.json { fields.document(&level, left_out) } else { fields.line(&level, left_out) };
        // A closed standard error must not end the command.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

impl WarningPrinter {
    /// Returns how many warnings of the kind were left out before this one, or `None` if this one is left out, too.
    fn left_out_if_printed(&self, callsite: Identifier, fields: &EventFields, now: Instant) -> Option<u64> {
        let mut last_printed = self.last_printed.lock().unwrap_or_else(PoisonError::into_inner);
        if last_printed.len() >= MAX_KINDS {
            last_printed.clear();
        }
        let kind = fields.others.iter().find(|(name, _)| *name == KIND_FIELD).map(|(_, kind)| kind.clone());
        match last_printed.get_mut(&(callsite.clone(), kind.clone().unwrap_or_default())) {
            Some(last_printed) if now.duration_since(last_printed.at) < MIN_INTERVAL => {
                last_printed.left_out += 1;
                None
            }
            Some(last_printed) => {
                last_printed.at = now;
                Some(std::mem::take(&mut last_printed.left_out))
            }
            None => {
                last_printed.insert((callsite, kind.unwrap_or_default()), LastPrinted { at: now, left_out: 0 });
                Some(0)
            }
        }
    }
}

/// The fields of an event.
#[derive(Default)]
struct EventFields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }
}

impl EventFields {
    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.others.push((name, value)),
        }
    }

    /// Returns the event on one line, such as
    /// `warn: nothing can be claimed: connection lost (kind unavailable, 3 more like this not shown)`.
    fn line(&self, level: &str, left_out: u64) -> String {
        let (mut line, mut details) = (format!("{level}: {}", self.message), Vec::new());
        for (name, value) in &self.others {
            match *name {
                "error" => line.push_str(&format!(": {value}")),
                name => details.push(format!("{name} {value}")),
            }
        }
        if left_out > 0 {
            details.push(format!("{left_out} more like this not shown"));
        }
        if !details.is_empty() {
            line.push_str(&format!(" ({})", details.join(", ")));
        }
        terminal_safe(&line).replace(['\n', '\t'], " ")
    }

    /// Returns the event as a JSON document.
    fn document(&self, level: &str, left_out: u64) -> String {
        let mut document: Map<_, _> =
            self.others.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect();
        document.insert("level".to_owned(), json!(level));
        document.insert("message".to_owned(), json!(self.message));
        if left_out > 0 {
            document.insert("more".to_owned(), json!(left_out));
        }
        Value::Object(document).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Duration};

    use tokio::time::Instant;
    use tracing::Callsite;

    use super::{EventFields, MIN_INTERVAL, WarningPrinter};

    fn fields(kind: &str) -> EventFields {
        let others = vec![("error", "connection\nlost".to_owned()), ("kind", kind.to_owned())];
        EventFields { message: "nothing can be claimed".to_owned(), others }
    }

    #[test]
    fn each_kind_of_warning_is_rate_limited() {
        let printer = WarningPrinter { json: false, last_printed: Mutex::default() };
        let callsite = tracing::callsite! { name: "place", kind: tracing::metadata::Kind::EVENT, fields: message };
        let (now, callsite) = (Instant::now(), callsite.metadata().callsite());
        let left_out = |kind, at| printer.left_out_if_printed(callsite.clone(), &fields(kind), at);
        assert_eq!(left_out("unavailable", now), Some(0));
        assert_eq!((0..9).find_map(|_| left_out("unavailable", now + MIN_INTERVAL - Duration::from_millis(1))), None);
        assert_eq!(left_out("corrupt", now), Some(0));
        assert_eq!(
            (left_out("unavailable", now + MIN_INTERVAL), left_out("unavailable", now + MIN_INTERVAL * 2)),
            (Some(9), Some(0))
        );
    }

    #[test]
    fn a_warning_is_one_line() {
        let line = "warn: nothing can be claimed: connection lost (kind unavailable, 9 more like this not shown)";
        assert_eq!(fields("unavailable").line("warn", 9), line);
        let document =
            r#"{"error":"connection\nlost","kind":"corrupt","level":"warn","message":"nothing can be claimed"}"#;
        assert_eq!(fields("corrupt").document("warn", 0), document);
    }
}
