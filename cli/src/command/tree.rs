//! `tree`: draws the branches of a thread.

use agentstore::{BranchPoint, EntryId, EntryQuery, Leaf, Snapshot, ThreadId, Version};
use serde::Serialize;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    pages,
    session::Session,
    text::{self, terminal_safe, with_noun},
    tree::Tree,
};

/// Draw the branches of a thread, with the head, labels and checkpoints
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore tree t-42\n  agentstore tree t-42 --all\n\n\
    Long sequences of entries are folded, and side entries are left out. Wherever a command takes an entry, `@N` names \
    the entry with the sequence number N. With --json the document has the leaves, the branch points and the \
    snapshots; `agentstore show --json` prints all entries.\n\n\
    Exit codes: 0 drawn, 1 the thread cannot be read, 2 invalid command line.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// Draw every entry: fold nothing, and draw each side entry (`·`) below the entry that it belongs to
    #[arg(long)]
    all: bool,
}

/// The branches as JSON.
#[derive(Serialize)]
struct BranchesDocument {
    thread: ThreadId,
    #[serde(flatten)]
    version: Version,
    head: Option<EntryId>,
    leaves: Vec<Leaf>,
    branch_points: Vec<BranchPoint>,
    snapshots: Vec<Snapshot>,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    let threads = session.threads()?;
    if out.is_json() {
        let leaves = pages::load_all(async |page| threads.list_leaves(&args.thread, page).await).await?;
        let branch_points = pages::load_all(async |page| threads.list_branch_points(&args.thread, page).await).await?;
        let snapshots = pages::load_all(async |page| threads.list_snapshots(&args.thread, page).await).await?;
        let branches = BranchesDocument {
            thread: thread.id,
            version: thread.version,
            head: thread.head,
            leaves,
            branch_points,
            snapshots,
        };
        out.print_document(&branches)?;
        return Ok(Ending::Success);
    }
    // Entries that were committed after the head was read are left out.
    let tree = load_tree(session, &thread.id, Some(thread.version.number())).await?;
    out.start_pager()?;
    let title = thread.title.as_deref().map_or_else(String::new, |title| format!("  {}", text::one_line(title, 60)));
    out.print_line(format!("{}{title}", out.style(terminal_safe(thread.id.as_str())).bold()))?;
    let side_entries = match tree.side_entries() {
        0 => String::new(),
        side_entries => format!(", {}", with_noun(side_entries, "side entry")),
    };
    let totals = format!("{}{side_entries}, {}", thread.version, with_noun(u64::from(thread.leaves), "leaf"));
    out.print_line(out.style(totals).dim())?;
    let drawn = tree.draw(thread.head.as_ref(), args.all, out);
    for line in drawn.lines {
        out.print_line(line)?;
    }
    if drawn.left_out > 0 {
        let left_out = with_noun(drawn.left_out, "entry");
        out.print_line(out.style(format!("{left_out} not shown: --all shows every entry")).dim())?;
    }
    if thread.head.is_none() {
        out.print_line("no head: the next entry begins a new path")?;
    }
    Ok(Ending::Success)
}

/// Returns the tree of a thread's log, up to the sequence number `to_seq` if it is given.
pub(super) async fn load_tree(session: &Session, thread: &ThreadId, to_seq: Option<u64>) -> Result<Tree> {
    let threads = session.threads()?;
    let mut query = EntryQuery::all();
    query.to_seq = to_seq;
    let mut tree = Tree::default();
    pages::for_each(
        async |page| threads.list_entries(thread, query.clone().with_page(page)).await,
        |entry| {
            tree.push(&entry);
            Ok(true)
        },
    )
    .await?;
    Ok(tree)
}
