//! `traces show`: prints a trace as a tree.

use agentstore::{Trace, TracePin};
use serde_json::json;

use super::{Ending, TraceNameArgs, draw::draw};
use crate::{
    failure::Result,
    output::Output,
    session::Session,
    text::{self, terminal_safe, with_noun},
};

/// Print the spans of a run as a tree, with times, tokens and errors
///
/// A time of `?` is not known: the run goes on, or a tool call has no result. Times of answers are those between the
/// entries before and after them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore traces show run-7\n  \
    agentstore traces show run-7 --json | jq -r '.spans[].name'")]
pub(super) struct Args {
    #[command(flatten)]
    name: TraceNameArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let trace = args.name.load(&*session.traces()?).await?;
    if out.is_json() {
        let Trace { name, spans, put_spans, pins, .. } = &trace;
        out.print_document(&json!({ "name": name, "put_spans": put_spans, "pins": pins, "spans": spans }))?;
    } else {
        print(&trace, out)?;
    }
    Ok(Ending::Success)
}

fn print(trace: &Trace, out: &mut Output) -> Result<()> {
    let title = format!("{} {}", trace.name.thread, trace.name.run);
    let began = trace.spans.first().map(|span| format!(", began {}", text::format_time(span.started_at())));
    let put = if trace.put_spans == 0 { String::new() } else { format!(", {} of them put", trace.put_spans) };
    let count = with_noun(agentstore::length(trace.spans.len()), "span");
    out.print_line(out.style(terminal_safe(&title)).bold())?;
    out.print_line(format!("  {count}{put}{}", began.unwrap_or_default()))?;
    let mut versions: Vec<_> = trace.spans.iter().filter_map(|span| span.source.schema_url.as_deref()).collect();
    versions.sort_unstable();
    versions.dedup();
    for version in versions {
        out.print_line(format!("  conventions {}", terminal_safe(version)))?;
    }
    for TracePin { holder, pinned_at, .. } in &trace.pins {
        let since = text::format_time(*pinned_at);
        out.print_line(format!("  pinned by {} since {since}", terminal_safe(holder.as_str())))?;
    }
    for line in draw(&trace.spans, out.width()) {
        let details = out.style(&line.details);
        let details = if line.is_error { details.red() } else { details.dim() };
        out.print_line(format!("{}  {details}", line.name))?;
    }
    Ok(())
}
