//! Converts a thread into a new thread whose messages another provider accepts.

use serde::Serialize;
use store_core::{
    Commit, CommitCoordinator, CommitKey, ContextRequest, Custom, EntryId, Expect, Json, Message, NewEntry, Provenance,
    Result, ThreadFields, ThreadId,
};

use crate::{
    compile::{CompileOptions, compile},
    loss::Loss,
    normalize::normalize,
    provider::Target,
};

/// The key of the metadata in which the new thread names the thread that it was made from.
pub const CONVERTED_FROM: &str = "converted_from";
/// The kind of the side entry with the losses of a conversion.
pub const LOSSES_KIND: &str = "providers.losses";

/// The maximum number of entries in one commit. A conversion that is called again continues at the first commit that is
/// missing.
const MAX_ENTRIES_PER_COMMIT: usize = 500;

/// What [`convert`] converts, and how.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Which context of the source is converted.
    pub request: ContextRequest,
    /// How the context is compiled.
    pub compile: CompileOptions,
}

/// The result of [`convert`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Converted {
    /// The new thread.
    pub thread: ThreadId,
    /// The entry of the source whose context was converted.
    pub at: Option<EntryId>,
    /// The number of messages of the new thread.
    pub messages: u64,
    /// The parts of the source that the new thread lacks, or has in another form.
    pub losses: Vec<Loss>,
}

/// Makes a new thread from the context of `source`, with messages that `target` accepts unchanged (SE-4).
///
/// The metadata of the new thread names the source, the entry and the model, and a side entry lists the losses. The
/// source does not change. A call that was interrupted continues if it is repeated with the same arguments.
///
/// There is no need to convert a thread in order to use another model: [`compile`] does the same for each request, and
/// the stored messages stay complete.
///
/// # Errors
/// `NotFound` if the source or the entry does not exist; `AlreadyExists` if the new thread exists and was not made by
/// the same call; the errors of [`compile`] and of the store.
pub async fn convert(
    commits: &dyn CommitCoordinator,
    source: &ThreadId,
    new: ThreadId,
    target: &Target,
    options: &ConvertOptions,
) -> Result<Converted> {
    let loaded = commits.threads().load_context(source, options.request.clone()).await?;
    let compiled = compile(&loaded.context, target, &options.compile)?;
    let messages = normalize(target, &compiled.body)?.messages;
    let at = loaded.at;
    let source_record = serde_json::json!({
        "thread": source, "entry": at, "provider": target.provider.name(), "model": target.model,
    });
    let mut fields = ThreadFields::default();
    fields.title.clone_from(&loaded.thread.title);
    fields.metadata.insert(CONVERTED_FROM.to_owned(), Json::of(&source_record)?);
    let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
    let mut entries: Vec<NewEntry> =
        messages.into_iter().map(|message| NewEntry::new(with_format(message, target))).collect();
    if !compiled.losses.is_empty() {
        entries.push(NewEntry::new(Custom::new(LOSSES_KIND, Json::of(&compiled.losses)?)).with_side(true));
    }
    let mut fields_of_first_commit = Some(fields);
    for (at, entries) in chunks(entries).into_iter().enumerate() {
        let mut commit = Commit::new(new.clone()).with_key(CommitKey::new(format!("convert:{at}"))?).entries(entries);
        if let Some(fields) = fields_of_first_commit.take() {
            commit = commit.expecting(Expect::Absent).creating(fields);
        }
        let _receipt = commits.commit(commit).await?;
    }
    Ok(Converted { thread: new, at, messages: count, losses: compiled.losses })
}

/// Replaces the provenance of a message. The message was not made by the target, so the new provenance has the format
/// of the target, but no origin.
fn with_format(mut message: Message, target: &Target) -> Message {
    let mut provenance = Provenance::default();
    provenance.format = Some(target.provider.name().to_owned());
    message.provenance = Some(provenance);
    message
}

/// Splits the entries into one list for each commit. There is at least one commit, because the first commit creates the
/// thread.
fn chunks(entries: Vec<NewEntry>) -> Vec<Vec<NewEntry>> {
    let mut chunks = vec![Vec::new()];
    for entry in entries {
        match chunks.last_mut().filter(|last| last.len() < MAX_ENTRIES_PER_COMMIT) {
            Some(last) => last.push(entry),
            None => chunks.push(vec![entry]),
        }
    }
    chunks
}
