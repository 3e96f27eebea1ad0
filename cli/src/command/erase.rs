//! `erase`: removes a thread, or everything of a resource, with all that speaks of it.

use std::sync::Arc;

use agentstore::{EraseResource, EraseThread, Erased, ErasureStore, IgnoreProgress, NewAudit, ResourceId, ThreadId};

use super::Ending;
use crate::{
    change_args::AuditArgs,
    failure::Result,
    output::Output,
    prompt,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Erase a thread, or everything of a resource, with all that speaks of it
///
/// Entries, runs, state, pending input, events, outbox rows, documents, dispatches, effects, stream checkpoints, replay
/// records and the values of audit records are removed, of the thread and of its descendants. With `--resource`, that
/// is done for all threads of the resource, and the profile of the user with that id is removed. Then the store lets go
/// of the bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore erase --resource user-7 --dry-run\n  \
    agentstore erase --resource user-7 --yes\n  agentstore erase --thread t-42 --actor admin:kim\n\n\
    Child threads that belong to another resource stay. Stop the workers and relays of the threads first. The command \
    can be repeated: it continues what was interrupted. The erasure is recorded in the audit log, without content. \
    Backups, and what a database server keeps besides its tables, are not reached.\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    /// Erase all threads of this resource, and the profile of the user with this id
    #[arg(long, value_name = "ID", required_unless_present = "thread", conflicts_with = "thread")]
    resource: Option<ResourceId>,
    /// Erase this thread
    #[arg(long, value_name = "ID")]
    thread: Option<ThreadId>,
    /// Only count what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    audit: AuditArgs,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        if self.dry_run { Access::Read } else { Access::Write }
    }
}

/// What is erased.
enum Target {
    Thread(ThreadId),
    Resource(ResourceId),
}

impl Target {
    fn text(&self) -> String {
        match self {
            Self::Thread(id) => format!("thread {}", terminal_safe(id.as_str())),
            Self::Resource(id) => format!("resource {}", terminal_safe(id.as_str())),
        }
    }

    async fn erase(&self, erasure: &Arc<dyn ErasureStore>, audit: NewAudit, dry_run: bool) -> Result<Erased> {
        Ok(match self {
            Self::Thread(id) => {
                let mut request = EraseThread::new(id.clone(), audit);
                request.dry_run = dry_run;
                erasure.erase_thread(request, &IgnoreProgress).await?
            }
            Self::Resource(id) => {
                let mut request = EraseResource::new(id.clone(), audit);
                request.dry_run = dry_run;
                erasure.erase_resource(request, &IgnoreProgress).await?
            }
        })
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let target = match (args.resource, args.thread) {
        (Some(resource), _) => Target::Resource(resource),
        (None, Some(thread)) => Target::Thread(thread),
        (None, None) => return Ok(Ending::Problem),
    };
    let (audit, erasure) = (args.audit.into_audit()?, session.stores().erasure(session.tenant())?);
    let found = target.erase(&erasure, audit.clone(), true).await?;
    if args.dry_run {
        return print("would be erased", &found, out);
    }
    if !args.yes && !out.is_json() {
        print("would be erased", &found, out)?;
        out.flush()?;
    }
    prompt::confirm(args.yes, &format!("Erase {} for good?", target.text()))?;
    let erased = target.erase(&erasure, audit, false).await?;
    session.stores().reclaim_space(&IgnoreProgress).await?;
    print("erased", &erased, out)
}

fn print(what: &str, erased: &Erased, out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(erased)?;
        return Ok(Ending::Success);
    }
    for thread in &erased.threads {
        out.print_line(format!("thread {} {what}", terminal_safe(thread.as_str())))?;
    }
    for thread in &erased.detached {
        out.print_line(format!("thread {} stays, without its parent", terminal_safe(thread.as_str())))?;
    }
    for (count, noun) in [
        (erased.entries, "entry"),
        (erased.runs, "run"),
        (erased.dispatches, "dispatch"),
        (erased.outbox_rows, "outbox row"),
        (erased.events, "event"),
        (erased.replay_records, "replay record"),
        (erased.documents, "layer document"),
        (erased.blobs, "blob"),
        (erased.profile_values, "profile value"),
        (erased.audit_records, "audit value"),
    ] {
        if count > 0 {
            out.print_line(format!("{} {what}", with_noun(count, noun)))?;
        }
    }
    if *erased == Erased::default() {
        out.print_line(format!("nothing {what}"))?;
    }
    Ok(Ending::Success)
}
