//! The digest of a commit's content. It shows whether a commit with a repeated key has the same content (CM-10 to
//! CM-12).
//!
//! The content is everything that the caller gave, except `key`, `expect` and `fence`. The digest begins with the
//! version of its format, so that a later release knows how to compute it (CM-11).

use super::{Commit, StateChange, StateOp};
use crate::{
    codec::{Codec, ObjectWriter, sha256_hex},
    document::changes_digest,
    event::{self, AppendEvents},
    json::Json,
    log::{NewBody, NewEntry, ParentRef, RewindTo},
    mailbox,
    outbox::NewOutboxRow,
    pending::InputRef,
    run::RunChange,
    thread::ThreadFields,
};

const CURRENT_VERSION: &str = "1";

/// Returns the digest in the current version.
pub(super) fn current_digest(commit: &Commit) -> String {
    format!("{CURRENT_VERSION}:{}", version_1_hash(commit))
}

/// Returns whether `digest`, of any version, is the digest of `commit`.
pub(super) fn matches(commit: &Commit, digest: &str) -> bool {
    match digest.split_once(':') {
        Some((CURRENT_VERSION, hash)) => hash == version_1_hash(commit),
        _ => false,
    }
}

/// Returns the hash of a version 1 digest: the SHA-256 of a JSON document.
///
/// The document has the whole content of the commit, each part exactly once. Maps are ordered by key.
fn version_1_hash(commit: &Commit) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::open(&mut text);
    object.field("thread", &commit.thread).maybe("at", commit.at.as_ref());
    if let Some(create) = &commit.create {
        write_thread_fields(object.key("create"), create);
    }
    write_list(object.key("entries"), &commit.entries, write_entry);
    if !commit.consume.is_empty() {
        write_list(object.key("consume"), &commit.consume, write_input);
    }
    if !commit.documents.is_empty() {
        object.field("documents", &changes_digest(&commit.documents));
    }
    if let Some(append) = &commit.events {
        write_events(object.key("events"), append);
    }
    if let Some(settlement) = &commit.settle {
        object.field("settle", &mailbox::settlement_digest(settlement));
    }
    if !commit.outbox.is_empty() {
        write_list(object.key("outbox"), &commit.outbox, write_outbox_row);
    }
    if let Some(change) = &commit.run {
        write_run(object.key("run"), change);
    }
    if let Some(change) = &commit.state {
        write_state(object.key("state"), change);
    }
    object.close();
    sha256_hex(&text)
}

fn write_list<T>(out: &mut String, items: &[T], write: impl Fn(&mut String, &T)) {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

fn write_thread_fields(out: &mut String, fields: &ThreadFields) {
    let mut object = ObjectWriter::open(out);
    object
        .maybe("resource_id", fields.resource_id.as_ref())
        .maybe("parent_thread_id", fields.parent_thread_id.as_ref())
        .maybe("title", fields.title.as_ref())
        .field("metadata", &fields.metadata);
    object.close();
}

fn write_entry(out: &mut String, entry: &NewEntry) {
    let mut object = ObjectWriter::open(out);
    object.maybe("id", entry.id.as_ref());
    match &entry.parent {
        ParentRef::Head => {}
        ParentRef::Root => object.key("root").push_str("true"),
        ParentRef::Entry(parent) => {
            object.field("parent", parent);
        }
    }
    object
        .maybe("side", entry.side.as_ref())
        .maybe("timestamp", entry.timestamp.as_ref())
        .maybe("run", entry.run.as_ref())
        .maybe("step", entry.step.as_ref())
        .maybe("origin", entry.origin.as_ref());
    write_body(object.key("body"), &entry.body);
    object.close();
}

fn write_events(out: &mut String, events: &AppendEvents) {
    let mut object = ObjectWriter::open(out);
    object.maybe("writer", events.writer.as_ref()).maybe("key", events.key.as_ref());
    object.field("drafts", &event::drafts_digest(events));
    object.close();
}

fn write_input(out: &mut String, input: &InputRef) {
    let mut object = ObjectWriter::open(out);
    object.field("id", &input.id).field("revision", &input.revision);
    object.close();
}

fn write_body(out: &mut String, body: &NewBody) {
    let mut object = ObjectWriter::open(out);
    match body {
        NewBody::Message(message) => drop(object.field("message", message)),
        NewBody::Compaction(compaction) => drop(object.field("compaction", compaction)),
        NewBody::Checkpoint { number, label } => {
            let mut inner = ObjectWriter::open(object.key("checkpoint"));
            inner.maybe("number", number.as_ref()).maybe("label", label.as_ref());
            inner.close();
        }
        NewBody::Usage(usage) => drop(object.field("usage", usage)),
        NewBody::Label(label) => drop(object.field("label", label)),
        NewBody::Rewind(to) => write_rewind(object.key("rewind"), to),
        NewBody::Custom(custom) => drop(object.field("custom", custom)),
        NewBody::Decision(decision) => drop(object.field("decision", decision)),
        NewBody::Unknown { kind, data } => {
            let mut inner = ObjectWriter::open(object.key("unknown"));
            inner.field("kind", kind).field("data", data);
            inner.close();
        }
    }
    object.close();
}

fn write_rewind(out: &mut String, to: &RewindTo) {
    let mut object = ObjectWriter::open(out);
    match to {
        RewindTo::Start => object.key("start").push_str("true"),
        RewindTo::Entry(id) => drop(object.field("entry", id)),
        RewindTo::Checkpoint(number) => drop(object.field("checkpoint", number)),
        RewindTo::Label(name) => drop(object.field("label", name)),
        RewindTo::Snapshot(name) => drop(object.field("snapshot", name)),
    }
    object.close();
}

fn write_outbox_row(out: &mut String, row: &NewOutboxRow) {
    let mut object = ObjectWriter::open(out);
    object
        .field("lane", &row.lane)
        .field("target", &row.target)
        .field("payload", &row.payload)
        .maybe("dedupe_key", row.dedupe_key.as_ref())
        .maybe("order_key", row.order_key.as_ref())
        .maybe("available_at", row.available_at.as_ref())
        .field("max_attempts", &row.max_attempts);
    object.close();
}

fn write_run(out: &mut String, run: &RunChange) {
    let mut object = ObjectWriter::open(out);
    object
        .field("id", &run.id)
        .maybe("agent", run.agent.as_ref())
        .maybe("parent_run", run.parent_run.as_ref())
        .maybe("request", run.request.as_ref())
        .maybe("manifest", run.manifest.as_ref())
        .maybe("dispatch", run.dispatch.as_ref())
        .field("status", &run.status)
        .field("input", &run.input)
        .field("output", &run.output)
        .maybe("steps", run.steps.as_ref())
        .maybe("usage", run.usage.as_ref());
    let mut state = ObjectWriter::open(object.key("state"));
    for (key, value) in &run.state {
        write_optional(state.key(key), value.as_ref());
    }
    state.close();
    object.close();
}

/// Writes a value as a list with one element, and a missing value as an empty list, so that a removed key and a key set
/// to `null` differ.
fn write_optional(out: &mut String, value: Option<&Json>) {
    value.into_iter().cloned().collect::<Vec<_>>().write(out);
}

fn write_state(out: &mut String, change: &StateChange) {
    let mut object = ObjectWriter::open(out);
    object.maybe("expect_revision", change.expect_revision.as_ref()).field("clear", &change.clear);
    let mut changes: Vec<_> = change.changes.iter().collect();
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    let mut keys = ObjectWriter::open(object.key("changes"));
    for (key, op) in changes {
        let mut inner = ObjectWriter::open(keys.key(key));
        match op {
            StateOp::Set(value) => drop(inner.field("set", value)),
            StateOp::Remove => inner.key("remove").push_str("true"),
            StateOp::Add(by) => drop(inner.field("add", by)),
            StateOp::Append(items) => drop(inner.field("append", items)),
            StateOp::Max(other) => drop(inner.field("max", other)),
            StateOp::Merge(object) => drop(inner.field("merge", object)),
        }
        inner.close();
    }
    keys.close();
    object.close();
}

#[cfg(test)]
mod tests {
    use super::{current_digest, matches};
    use std::collections::BTreeSet;

    use crate::{
        Commit, EntryId, Expect, Json, Message, NewEntry, ResourceId, RewindTo, RunChange, RunId, RunStatus,
        StateChange, ThreadFields, ThreadId, Version,
    };

    fn sample_commit() -> Commit {
        Commit::new(ThreadId::new("t").unwrap()).entry(NewEntry::new(Message::user("hi")))
    }

    #[test]
    fn the_guard_is_not_part_of_the_digest() {
        let guarded = sample_commit().expecting(Expect::Version(Version::new(1, 1, 0)));
        assert!(matches(&guarded, &current_digest(&sample_commit())));
    }

    #[test]
    fn commits_with_different_content_have_different_digests() {
        let null = Json::null();
        let commits = [
            sample_commit().entry(NewEntry::new(Message::user("hi"))),
            Commit::new(ThreadId::new("u").unwrap()).entry(NewEntry::new(Message::user("hi"))),
            Commit::new(ThreadId::new("t").unwrap()).entry(NewEntry::new(Message::assistant("hi"))),
            Commit::new(ThreadId::new("t").unwrap()).entry(NewEntry::new(Message::user("hi")).with_side(false)),
            sample_commit().with_state(StateChange::new().set("k", null.clone())),
            sample_commit().with_state(StateChange::new().remove("k")),
            sample_commit().at(crate::Timestamp::MIN),
        ];
        let mut digests: Vec<_> =
            commits.iter().map(current_digest).chain([current_digest(&sample_commit())]).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), commits.len() + 1);
    }

    #[test]
    fn the_order_of_state_keys_is_not_part_of_the_digest() {
        let null = Json::null;
        let ab = sample_commit().with_state(StateChange::new().set("a", null()).set("b", null()));
        let ba = sample_commit().with_state(StateChange::new().set("b", null()).set("a", null()));
        assert_eq!(current_digest(&ab), current_digest(&ba));
    }

    #[test]
    fn digests_of_the_first_version_do_not_change() {
        assert_eq!(
            current_digest(&sample_commit()),
            "1:48c078623088b847d9fd637c5f9445a6dda151ea9384963d3782d298088fe124"
        );
    }

    #[test]
    fn rewinds_run_changes_and_thread_fields_are_part_of_the_digest() {
        let rewind = |to: RewindTo| sample_commit().entry(NewEntry::new(to));
        let running = || RunChange::new(RunId::new("r").unwrap(), RunStatus::Running);
        let with_run = |change: &dyn Fn(&mut RunChange)| {
            let mut run = running();
            change(&mut run);
            Commit { run: Some(run), ..sample_commit() }
        };
        let with_thread = |change: &dyn Fn(&mut ThreadFields)| {
            let mut fields = ThreadFields::default();
            change(&mut fields);
            Commit { create: Some(fields), ..sample_commit() }
        };
        let commits = [
            rewind(RewindTo::Start),
            rewind(RewindTo::Entry(EntryId::new("x").unwrap())),
            rewind(RewindTo::Checkpoint(1)),
            rewind(RewindTo::Label("x".to_owned())),
            rewind(RewindTo::Snapshot("x".to_owned())),
            with_run(&|_| {}),
            with_run(&|run| drop(run.state.insert("k".to_owned(), None))),
            with_run(&|run| drop(run.state.insert("k".to_owned(), Some(Json::null())))),
            with_thread(&|_| {}),
            with_thread(&|fields| fields.title = Some("x".to_owned())),
            with_thread(&|fields| fields.resource_id = ResourceId::new("x").ok()),
            with_thread(&|fields| fields.parent_thread_id = ThreadId::new("x").ok()),
        ];
        let digests: BTreeSet<_> = commits.iter().map(current_digest).collect();
        assert_eq!(digests.len(), commits.len());
    }

    #[test]
    fn the_digest_of_several_entries_does_not_change() {
        let commit = sample_commit().entry(NewEntry::new(Message::user("hi")));
        assert_eq!(current_digest(&commit), "1:7f8ac56b71ae6ec6a821a1282bc8d1713a755d9715aeb794acbbdb602546be11");
    }
}
