//! `events`: lists and follows the events of a thread or a run.

use agentstore::{Event, EventFilter, EventKind, EventQuery, RunId, Scope, Subscribe, SubscriptionStart, ThreadId};
use clap::ArgGroup;
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// List the events of a thread or a run, the oldest first, or follow them
#[derive(Debug, clap::Args)]
#[command(
    group(ArgGroup::new("scope").required(true)),
    after_help = "Examples:\n  agentstore events t-42\n  agentstore events t-42 --follow --kind run.started\n  \
        agentstore events --run run-7 --json | jq .events[].kind\n\n\
        With `--follow` the command prints each event on its own line, or as a document with `--json`, until the \
        command is interrupted."
)]
pub(crate) struct Args {
    /// The id of the thread; give either a thread or `--run`
    #[arg(group = "scope")]
    thread: Option<ThreadId>,
    /// The id of the run
    #[arg(long, value_name = "RUN", group = "scope")]
    run: Option<RunId>,
    /// Only events of this kind; can be given more than once
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<EventKind>,
    /// Only public events
    #[arg(long)]
    public: bool,
    /// After the stored events, also print new ones, including those that other processes append
    #[arg(long)]
    follow: bool,
    /// Leave out the stored events and print only new ones
    #[arg(long, requires = "follow")]
    new: bool,
}

impl Args {
    fn filter(&self) -> EventFilter {
        let mut filter = if self.public { EventFilter::public() } else { EventFilter::default() };
        filter.kinds = (!self.kinds.is_empty()).then(|| self.kinds.clone());
        filter
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let filter = args.filter();
    let thread = args.thread.map(Scope::Thread);
    // The parser of the command line requires one of the two.
    let Some(scope) = thread.or(args.run.map(Scope::Run)) else { return Ok(Ending::Success) };
    if args.follow {
        let start = if args.new { SubscriptionStart::Now } else { SubscriptionStart::First };
        return follow(Subscribe::new(scope, start).with_filter(filter), session, out).await;
    }
    let events = session.commits()?.events();
    let query = EventQuery::new(scope.clone()).with_filter(filter);
    let stored_events = pages::load_all(async |page| events.list_events(query.clone().with_page(page)).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "events")?;
        stored_events.iter().try_for_each(|event| list.item(event))?;
        list.end()?;
    } else if stored_events.is_empty() {
        out.print_line(format!("{} has no such events", terminal_safe(&scope.to_string())))?;
    } else {
        print(&stored_events, out)?;
    }
    Ok(Ending::Success)
}

fn print(events: &[Event], out: &mut Output) -> Result<()> {
    let mut table = out.table(&["time", "kind", "run", "visibility", "payload"]);
    for event in events {
        table.add_row([
            text::format_time(event.created_at),
            text::one_line(event.kind.as_str(), 40),
            event.run.as_ref().map(|run| text::one_line(run.as_str(), out.id_width())).unwrap_or_default(),
            event.visibility.name().to_owned(),
            text::one_line(event.payload.as_ref().map_or("", |payload| payload.as_str()), 60),
        ]);
    }
    out.print_table(table)
}

/// Prints each event as it arrives.
async fn follow(request: Subscribe, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut subscription = session.commits()?.events().subscribe(request).await?;
    while let Some(event) = next_event(&mut subscription.events).await {
        let event = event?;
        if out.is_json() {
            out.print_document(&event)?;
        } else {
            out.print_line(event_line(&event))?;
        }
        out.flush()?;
    }
    Ok(Ending::Success)
}

async fn next_event(events: &mut agentstore::EventStream) -> Option<agentstore::Result<Event>> {
    std::future::poll_fn(|context| events.as_mut().poll_next(context)).await
}

fn event_line(event: &Event) -> String {
    let run = event.run.as_ref().map(|run| format!(", run {}", terminal_safe(run.as_str()))).unwrap_or_default();
    let payload = event.payload.as_ref().map(|payload| format!(" {}", text::one_line(payload.as_str(), 200)));
    format!(
        "{} {}{run}{}",
        text::format_time(event.created_at),
        terminal_safe(event.kind.as_str()),
        payload.unwrap_or_default()
    )
}
