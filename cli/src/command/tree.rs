//! `tree`: draws the branches of a thread.

use agentstore::{BranchPoint, EntryId, EntryQuery, Leaf, Snapshot, ThreadId, Version};
use serde::Serialize;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    pages,
    session::Session,
    text::{self, count, safe},
    tree::Tree,
};

/// Draw the branches of a thread, with the head, labels and checkpoints
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore tree t-42\n\n\
    Long sequences of entries are folded. Wherever a command takes an entry, `@N` names the entry with the \
    sequence number N.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
}

/// The branches as JSON.
#[derive(Serialize)]
struct Branches {
    thread: ThreadId,
    #[serde(flatten)]
    version: Version,
    head: Option<EntryId>,
    leaves: Vec<Leaf>,
    branch_points: Vec<BranchPoint>,
    snapshots: Vec<Snapshot>,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.thread(&args.thread).await?;
    let threads = session.threads()?;
    if out.json() {
        let leaves = pages::all(async |page| threads.list_leaves(&args.thread, page).await).await?;
        let branch_points = pages::all(async |page| threads.list_branch_points(&args.thread, page).await).await?;
        let snapshots = pages::all(async |page| threads.list_snapshots(&args.thread, page).await).await?;
        let branches = Branches {
            thread: thread.id,
            version: thread.version,
            head: thread.head,
            leaves,
            branch_points,
            snapshots,
        };
        out.document(&branches)?;
        return Ok(Ending::Success);
    }
    // Entries that were committed after the head was read are left out.
    let tree = load(session, &thread.id, Some(thread.version.number())).await?;
    out.page()?;
    let title = thread.title.as_deref().map_or_else(String::new, |title| format!("  {}", text::one_line(title, 60)));
    out.line(format!("{}{title}", out.style(safe(thread.id.as_str())).bold()))?;
    let side_entries = match tree.side_entries() {
        0 => String::new(),
        side_entries => format!(", {}", count(side_entries, "side entry")),
    };
    let sums = format!("{}{side_entries}, {}", thread.version, count(u64::from(thread.leaves), "leaf"));
    out.line(out.style(sums).dim())?;
    for line in tree.draw(thread.head.as_ref(), out) {
        out.line(line)?;
    }
    if thread.head.is_none() {
        out.line("no head: the next entry begins a new path")?;
    }
    Ok(Ending::Success)
}

/// Returns the tree of a thread's log, up to the sequence number `to_seq` if it is given.
pub(super) async fn load(session: &Session, thread: &ThreadId, to_seq: Option<u64>) -> Result<Tree> {
    let threads = session.threads()?;
    let mut query = EntryQuery::all();
    query.to_seq = to_seq;
    let mut tree = Tree::default();
    pages::each(
        async |page| threads.list_entries(thread, query.clone().with_page(page)).await,
        |entry| {
            tree.push(&entry);
            Ok(true)
        },
    )
    .await?;
    Ok(tree)
}
