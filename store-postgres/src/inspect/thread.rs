//! Checks of one thread: its records and the data derived from them. Derived data can be rebuilt.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    Body, BodyKind, Entry, Error, Json, Result, Run, RunId, ThreadId, Timestamp,
    commit::ThreadState,
    inspect::{Finding, FindingKind, RepairStatus, ThreadCheckResult, ThreadRecords, check_thread},
    length,
    log::{EntryMarks, MarkSource, Node, assigned_name},
    thread::StoredThread,
};

use crate::{
    cache::{self, CachedThreadRow, decode},
    columns::{read_i64, read_name, read_optional, read_text, read_u64, read_value},
    db::{Connection, add, unsigned},
    error::corrupt,
    tenant::Tenant,
    write::{Batch, WriteResult},
};

/// The number of entries that are read at once.
const CHUNK: i64 = 1_000;

/// The columns of a thread's row that repeat parts of its record.
#[derive(Debug, PartialEq, Eq)]
struct ThreadColumns {
    head: Option<u64>,
    /// When the thread was created and updated, and the time of the last decision about it.
    times: [Option<u64>; 3],
    resource: Option<String>,
    parent: Option<String>,
    has_open_runs: bool,
    has_pending: bool,
}

impl ThreadColumns {
    fn of(stored: &StoredThread) -> Self {
        let thread = &stored.thread;
        let time = |at: Timestamp| Some(at.as_millis());
        Self {
            head: stored.head_seq,
            times: [time(thread.created_at), time(thread.updated_at), time(stored.last_time)],
            resource: thread.resource_id.as_ref().map(ToString::to_string),
            parent: thread.parent_thread_id.as_ref().map(ToString::to_string),
            has_open_runs: !thread.open_runs.is_empty(),
            has_pending: stored.queue.count > 0,
        }
    }

    fn read(row: &PgRow, from: usize) -> Result<Self> {
        let read_u64 = |at| read_optional::<i64>(row, from + at)?.map(unsigned).transpose();
        Ok(Self {
            head: read_u64(0)?,
            times: [read_u64(1)?, read_u64(2)?, read_u64(3)?],
            resource: read_optional(row, from + 4)?,
            parent: read_optional(row, from + 5)?,
            has_open_runs: read_value(row, from + 6)?,
            has_pending: read_value(row, from + 7)?,
        })
    }
}

/// The name of each checkpoint, with the entry that gave the name, by the sequence number of the checkpoint.
type CheckpointNames = BTreeMap<u64, (String, u64)>;

/// Everything that is stored about a thread.
struct ThreadContents {
    row: CachedThreadRow,
    columns: ThreadColumns,
    has_parent: bool,
    entries: Vec<Result<(Arc<Entry>, Node)>>,
    marks: BTreeMap<u64, EntryMarks>,
    /// Entries whose next entry in the log is their child and not a side entry.
    parents_of_next: BTreeSet<u64>,
    /// The leaves except the head.
    leaves: BTreeSet<u64>,
    names: CheckpointNames,
    runs: BTreeMap<RunId, Arc<Run>>,
    state: ThreadState,
    inputs: u64,
}

impl MarkSource for ThreadContents {
    fn marks(&self, seq: u64) -> Result<EntryMarks> {
        let implied = || {
            let mut marks = EntryMarks::default();
            marks.children = u32::from(self.parents_of_next.contains(&seq));
            marks
        };
        Ok(self.marks.get(&seq).cloned().unwrap_or_else(implied))
    }
}

/// Checks a thread, and rebuilds the data derived from its log if `repairs` is set. Returns `None` if the thread does
/// not exist.
pub(super) async fn inspect(tenant: &Tenant, id: &ThreadId, repairs: bool) -> Result<Option<ThreadCheckResult>> {
    let mut connection = tenant.db().begin_snapshot().await?;
    let contents = load_contents(&mut connection, tenant, id).await?;
    connection.commit().await?;
    let Some(contents) = contents else { return Ok(None) };
    let mut checked = check_contents(&contents)?;
    let can_be_rebuilt = |finding: &Finding| finding.repair == RepairStatus::CanBeRebuilt;
    if repairs && !checked.findings.is_empty() && checked.findings.iter().all(can_be_rebuilt) {
        rebuild(tenant, id, &contents, &checked).await?;
        tenant.remove_cached(id);
        checked.findings.iter_mut().for_each(|finding| finding.repair = RepairStatus::Rebuilt);
    }
    Ok(Some(checked))
}

async fn load_contents(
    connection: &mut Connection<'_>,
    tenant: &Tenant,
    id: &ThreadId,
) -> Result<Option<ThreadContents>> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, id.as_str())?;
    let rows = connection.read(|sql| &sql.inspect_thread, arguments).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let log = read_i64(row, 1)?;
    let stored =
        cache::decode_thread_row(read_i64(row, 0)?, Some(log), Some(&read_text(row, 2)?), Some(&read_text(row, 3)?))?;
    let arguments = || {
        let mut arguments = PgArguments::default();
        add(&mut arguments, log).map(|()| arguments)
    };
    let mut contents = ThreadContents {
        columns: ThreadColumns::read(row, 4)?,
        has_parent: read_value(row, 12)?,
        inputs: read_u64(row, 13)?,
        row: stored,
        entries: load_entries(connection, log).await?,
        marks: BTreeMap::new(),
        parents_of_next: BTreeSet::new(),
        leaves: BTreeSet::new(),
        names: CheckpointNames::new(),
        runs: BTreeMap::new(),
        state: ThreadState::new(),
    };
    let nodes = contents.entries.iter().flatten().map(|(_, node)| node);
    contents.parents_of_next =
        nodes.filter(|node| !node.side).filter_map(|node| node.parent.filter(|at| at + 1 == node.seq)).collect();
    for row in connection.read(|sql| &sql.inspect_marks, arguments()?).await? {
        contents.marks.insert(read_u64(&row, 0)?, decode::<EntryMarks>("marks", &read_text(&row, 1)?)?);
    }
    for row in connection.read(|sql| &sql.inspect_leaves, arguments()?).await? {
        contents.leaves.insert(read_u64(&row, 0)?);
    }
    for row in connection.read(|sql| &sql.inspect_names, arguments()?).await? {
        contents.names.insert(read_u64(&row, 0)?, (read_name(&row, 1)?, read_u64(&row, 2)?));
    }
    for row in connection.read(|sql| &sql.inspect_runs, arguments()?).await? {
        let run = decode::<Run>("run", &read_text(&row, 0)?)?;
        contents.runs.insert(run.id.clone(), Arc::new(run));
    }
    for row in connection.read(|sql| &sql.load_state, arguments()?).await? {
        let value =
            Json::parse(&read_text(&row, 1)?).map_err(|e| corrupt("a value of a thread's state").with_source(e))?;
        contents.state.insert(read_name(&row, 0)?, value);
    }
    Ok(Some(contents))
}

async fn load_entries(connection: &mut Connection<'_>, log: i64) -> Result<Vec<Result<(Arc<Entry>, Node)>>> {
    let (mut entries, mut after) = (Vec::new(), 0_i64);
    loop {
        let mut arguments = PgArguments::default();
        add(&mut arguments, log)?;
        add(&mut arguments, after)?;
        add(&mut arguments, CHUNK)?;
        let rows = connection.read(|sql| &sql.inspect_entries, arguments).await?;
        let Some(last) = rows.last() else { return Ok(entries) };
        after = read_i64(last, 0)?;
        let read = |row: &PgRow| {
            let (node, entry) =
                (decode::<Node>("node", &read_text(row, 1)?)?, decode::<Entry>("entry", &read_text(row, 2)?)?);
            Ok((Arc::new(entry), node))
        };
        entries.extend(rows.iter().map(read));
    }
}

fn check_contents(contents: &ThreadContents) -> Result<ThreadCheckResult> {
    let stored = contents.row.thread.as_ref().ok_or_else(|| corrupt("a thread"))?;
    let records = ThreadRecords {
        thread: stored,
        has_parent: contents.has_parent,
        marks: contents,
        runs: &contents.runs,
        state: &contents.state,
        inputs: contents.inputs,
    };
    let entries = contents.entries.iter().map(|entry| match entry {
        Ok((entry, node)) => Ok((Arc::clone(entry), node.clone())),
        Err(error) => Err(corrupt(error)),
    });
    let mut checked = check_thread(records, entries);
    let is_complete = contents.entries.iter().all(Result::is_ok);
    // If an entry cannot be read, it is not known what the lists should contain.
    let comparisons = [
        ("columns of the thread", contents.columns == ThreadColumns::of(stored)),
        ("list of leaves", !is_complete || contents.leaves == expected_leaves(contents, &checked)),
        ("names of checkpoints", !is_complete || contents.names == expected_names(contents)),
    ];
    for (location, _) in comparisons.into_iter().filter(|(_, is_consistent)| !is_consistent) {
        let detail = "it does not agree with the thread";
        checked.findings.push(Finding::new(FindingKind::StaleIndex, location, detail));
    }
    Ok(checked)
}

/// Returns the leaves except the head.
fn expected_leaves(contents: &ThreadContents, checked: &ThreadCheckResult) -> BTreeSet<u64> {
    let nodes = contents.entries.iter().flatten().map(|(_, node)| node);
    let is_leaf = |node: &&Node| checked.marks.get(&node.seq).is_none_or(|marks| marks.children == 0);
    let leaves = nodes.filter(|node| !node.side).filter(is_leaf).map(|node| node.seq);
    leaves.filter(|seq| checked.thread.head_seq != Some(*seq)).collect()
}

fn expected_names(contents: &ThreadContents) -> CheckpointNames {
    let mut names = CheckpointNames::new();
    for (entry, node) in contents.entries.iter().flatten() {
        let target = match &*entry.body {
            Body::Checkpoint(_) => Some(node.seq),
            Body::Label(_) => node.target.filter(|target| is_checkpoint(contents, *target)),
            _ => None,
        };
        let Some(target) = target else { continue };
        match assigned_name(entry) {
            Some(name) => drop(names.insert(target, (name.to_owned(), node.seq))),
            None if entry.kind() == BodyKind::Label => drop(names.remove(&target)),
            None => {}
        }
    }
    names
}

fn is_checkpoint(contents: &ThreadContents, seq: u64) -> bool {
    let at = usize::try_from(seq).ok().and_then(|seq| seq.checked_sub(1));
    let entry = at.and_then(|at| contents.entries.get(at)).and_then(|entry| entry.as_ref().ok());
    entry.is_some_and(|(_, node)| node.checkpoint == Some(seq))
}

/// Replaces the stored derived data with data computed from the log.
async fn rebuild(tenant: &Tenant, id: &ThreadId, contents: &ThreadContents, checked: &ThreadCheckResult) -> Result<()> {
    let mut batch = Batch::default();
    let after = (Some(checked.thread.clone()), contents.row.id_record.clone());
    let thread_number = batch.add_thread(id, &contents.row, after);
    for seq in 1..=length(contents.entries.len()) {
        let expected = checked.marks.get(&seq).cloned().unwrap_or_default();
        if contents.marks(seq)? != expected {
            batch.repair_mark(thread_number, seq, &expected)?;
        }
    }
    let leaves = expected_leaves(contents, checked);
    for seq in leaves.symmetric_difference(&contents.leaves) {
        batch.repair_leaf(thread_number, *seq, leaves.contains(seq))?;
    }
    let names = expected_names(contents);
    let named_checkpoints: BTreeSet<u64> = names.keys().chain(contents.names.keys()).copied().collect();
    for seq in named_checkpoints.into_iter().filter(|seq| names.get(seq) != contents.names.get(seq)) {
        batch.repair_name(thread_number, seq, names.get(&seq))?;
    }
    let decision_time = tenant.db().clock.decision_time()?;
    // The repair has a transaction of its own. If the call is dropped, the writes of other calls are not affected.
    let mut connection = tenant.db().begin_transaction().await?;
    match Arc::new(batch).write(&mut connection, tenant, decision_time).await.map_err(|failed| failed.error)? {
        WriteResult::Done(_) => connection.commit().await,
        _ => Err(Error::unavailable("another call wrote to the thread during the repair")),
    }
}
