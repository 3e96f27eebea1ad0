//! What is lost of a thread as a whole.

use store_core::{ContextRequest, MAX_PAGE, PageRequest, Run, RunFilter, RunQuery, Thread, ThreadId};

use super::{
    ExportSource, Loss, Losses, WrittenSession,
    loss::{NO_FIELD, losses_of_child},
};
use crate::{activity, error::Result, parents::parent_of};

/// Notes the parts of a thread that no format can represent: its child threads that were not written, its runs and its
/// state.
pub(super) async fn note_thread(source: &ExportSource<'_>, written: &mut WrittenSession) -> Result<()> {
    note_children(source, &written.children, &mut written.losses).await?;
    note_data_of_thread(source, written.agent_of_imported_runs, &mut written.losses).await?;
    for child in &written.children {
        let Some(thread) = source.threads.load_thread(child).await? else { continue };
        let mut losses = Vec::new();
        note_data_of_thread(&ExportSource { thread: &thread, ..*source }, written.agent_of_imported_runs, &mut losses)
            .await?;
        written.losses.extend(losses_of_child(child, losses));
    }
    Ok(())
}

/// Notes the runs, the state and the other fields of one thread. The runs of the agent `imported_agent` that an import
/// made are in the written files, so they are not noted.
async fn note_data_of_thread(
    source: &ExportSource<'_>,
    imported_agent: Option<&str>,
    list: &mut Vec<Loss>,
) -> Result<()> {
    note_runs(source, imported_agent, list).await?;
    let thread = source.thread;
    let mut losses = Losses::of_thread(list);
    if thread.state_revision > 0 {
        let found = source.threads.load_context(&thread.id, ContextRequest::head()).await?;
        for key in found.state.keys() {
            losses.add_no_field_for(json_pointer("/state", key), "state");
        }
    }
    if thread.resource_id.is_some() {
        losses.add_no_field_for("/resource_id", "resource");
    }
    if !thread.extra.is_empty() {
        losses.add_no_field_for("", "unknown_field");
    }
    Ok(())
}

/// Notes the descendants of the thread that are not in the written session.
async fn note_children(source: &ExportSource<'_>, written: &[ThreadId], list: &mut Vec<Loss>) -> Result<()> {
    let mut parents = vec![source.thread.id.clone()];
    while let Some(parent) = parents.pop() {
        for child in source.children_of(&parent).await? {
            if !written.contains(&child) {
                let (kind, reason) = ("child_thread", "it is not a part of the written session");
                list.push(Loss {
                    thread: Some(child.clone()),
                    entry: None,
                    path: String::new(),
                    kind,
                    reason,
                    action: "dropped",
                });
            }
            parents.push(child);
        }
    }
    Ok(())
}

async fn note_runs(source: &ExportSource<'_>, imported_agent: Option<&str>, list: &mut Vec<Loss>) -> Result<()> {
    if source.thread.latest_run.is_none() {
        return Ok(());
    }
    let mut filter = RunFilter::default();
    filter.thread = Some(source.thread.id.clone());
    let mut query = RunQuery::new(filter);
    query.page = PageRequest::first(MAX_PAGE);
    loop {
        let page = source.threads.list_runs(query.clone()).await?;
        let is_written = |run: &Run| imported_agent.is_some_and(|agent| activity::is_imported(run, agent));
        for run in page.items.iter().filter(|run| !is_written(run)) {
            let path = json_pointer("/runs", run.id.as_str());
            Losses::of_thread(list).add(path, ("run", "the format has no runs", "dropped"));
        }
        let Some(next) = page.next else { return Ok(()) };
        query.page = query.page.after(next);
    }
}

/// Notes the metadata of a thread, apart from the keys that its files contain.
pub(crate) fn note_metadata(thread: &Thread, is_in_files: impl Fn(&str) -> bool, list: &mut Vec<Loss>) {
    for key in thread.metadata.keys().filter(|key| !is_in_files(key)) {
        Losses::of_thread(list).add(json_pointer("/metadata", key), ("metadata", NO_FIELD, "dropped"));
    }
}

/// Notes the parent of a thread, if it has one. `reason` says why the format cannot name it.
pub(crate) fn note_parent(thread: &Thread, reason: &'static str, list: &mut Vec<Loss>) {
    if parent_of(thread).is_some() {
        Losses::of_thread(list).add("/parent_thread_id", ("parent", reason, "dropped"));
    }
}

/// A JSON pointer to a key of an object.
pub(crate) fn json_pointer(object: &str, key: &str) -> String {
    format!("{object}/{}", key.replace('~', "~0").replace('/', "~1"))
}
