//! The export. A thread that has not changed since its import is written byte for byte as it was imported. Any thread
//! can be written as Agent Core JSONL.

mod agent_core;
mod loss;
mod unchanged;

use std::io::Write;

use serde::Serialize;
use sha2::{Digest, Sha256};
use store_core::{EntryQuery, MAX_PAGE, PageRequest, ThreadId, ThreadRunStore};

pub use self::loss::Loss;
use crate::{
    agent_core::AgentCore,
    error::{Error, Result},
    lines::LineFormat,
    options::FormatName,
    pi::Pi,
    provenance::Provenance,
};

/// What an export did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exported {
    /// The thread.
    pub thread: ThreadId,
    /// The format.
    pub format: &'static str,
    /// Lines that were written.
    pub lines: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Whether the written bytes are those that the thread was imported from.
    pub exact: bool,
    /// What the format could not represent.
    pub losses: Vec<Loss>,
}

/// Writes a thread as a file of this format.
///
/// A thread that was imported from this format and has not changed since then is written as the bytes that were
/// imported. Any other thread can be written as [`FormatName::AgentCore`], and the result lists what was lost.
///
/// # Errors
/// [`Error::NotExportable`] if the thread cannot be written in this format; [`Error::Store`] if the thread does not
/// exist or the store fails; [`Error::Io`] if `out` cannot be written.
pub async fn export(
    threads: &dyn ThreadRunStore,
    thread: &ThreadId,
    format: FormatName,
    out: &mut (dyn Write + Send),
) -> Result<Exported> {
    let Some(record) = threads.load_thread(thread).await? else {
        return Err(store_core::Error::not_found("thread", thread).into());
    };
    let mut out = HashedOutput { inner: out, lines: 0, bytes: 0, hash: Sha256::new() };
    let provenance = unchanged_provenance(threads, thread, format.name()).await?;
    let exact = provenance.is_some();
    let refused = |reason| Error::NotExportable { thread: thread.as_str().to_owned(), format: format.name(), reason };
    let mut losses = Vec::new();
    let agent_core = AgentCore::default();
    match (format, provenance) {
        (FormatName::AgentCore, Some(provenance)) => {
            unchanged::write(threads, thread, (&agent_core, &provenance), &mut out).await?
        }
        (FormatName::AgentCore, None) => losses = agent_core::write(threads, &record, &mut out).await?,
        (FormatName::PiV1 | FormatName::PiV2 | FormatName::PiV3, Some(provenance)) => {
            unchanged::write(threads, thread, (&Pi::new(format), &provenance), &mut out).await?;
        }
        (FormatName::KimiCli, _) => {
            return Err(refused(
                "its folders can be imported but not written; any thread can be written as agent-core",
            ));
        }
        (FormatName::PiV1 | FormatName::PiV2 | FormatName::PiV3, None) => {
            return Err(refused(
                "a thread can be written in this format only if it was imported from it and has not changed since; \
                 any thread can be written as agent-core",
            ));
        }
    }
    out.inner.flush().map_err(Error::io("the output".as_ref()))?;
    Ok(Exported { thread: thread.clone(), format: format.name(), lines: out.lines, bytes: out.bytes, exact, losses })
}

/// The newest provenance of a thread, or `None` if an entry of the thread was not imported from this format.
async fn unchanged_provenance(
    threads: &dyn ThreadRunStore,
    thread: &ThreadId,
    format: &str,
) -> Result<Option<Provenance>> {
    let mut provenance = None;
    let mut query = all_entries_query();
    loop {
        let page = threads.list_entries(thread, query.clone()).await?;
        for entry in &page.items {
            if entry.origin.as_ref().is_none_or(|origin| origin.format != format) {
                return Ok(None);
            }
            provenance = Provenance::read(entry).or(provenance);
        }
        let Some(next) = page.next else { return Ok(provenance) };
        query.page = query.page.after(next);
    }
}

fn all_entries_query() -> EntryQuery {
    EntryQuery::all().with_page(PageRequest::first(MAX_PAGE))
}

/// The output, with the number and the hash of the written bytes.
struct HashedOutput<'a> {
    inner: &'a mut (dyn Write + Send),
    lines: u64,
    bytes: u64,
    hash: Sha256,
}

impl HashedOutput<'_> {
    fn write_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.inner.write_all(bytes).map_err(Error::io("the output".as_ref()))?;
        self.bytes += u64::try_from(bytes.len()).unwrap_or_default();
        self.hash.update(bytes);
        Ok(())
    }

    fn write_line(&mut self, bytes: &[u8], end: &[u8]) -> Result<()> {
        self.write_raw(bytes)?;
        self.write_raw(end)?;
        self.lines += 1;
        Ok(())
    }
}

/// A format, and the provenance of a thread that was imported from this format.
type FormatAndProvenance<'a, F> = (&'a F, &'a Provenance);

/// The line of an entry in the format that it was imported from: its raw bytes if they were kept, else its encoded
/// body.
fn line_of<F: LineFormat>(format: &F, entry: &store_core::Entry) -> Option<Vec<u8>> {
    if let Some(raw) = entry.origin.as_ref().and_then(|origin| origin.raw.as_ref()) {
        return Some(raw.to_vec());
    }
    format.encode(&crate::lines::EncodableEntry::of(entry)).map(String::into_bytes)
}
