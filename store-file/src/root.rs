//! The root log: facts about several threads, each one record with one sync (FI-16).

use store_core::Result;

use crate::{
    error,
    facts::Facts,
    line::Fact,
    log::{AppendError, LogWriter, Position, Recovered, Recovery, check_version, recover},
    vfs::{FilePath, Open, Vfs},
};

const NAME: &str = "root.log";
const HEADER: &str = r#"{"log":"root","v":1}"#;

/// The root log, open for appending. A read-only opening has none.
#[derive(Debug)]
pub(crate) struct RootLog(Option<LogWriter>);

impl RootLog {
    /// Opens the root log, or makes it, and hands each fact behind `from` to `each`.
    ///
    /// # Errors
    /// `Corrupt` for damage before its end; else as the system says.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        known: Recovery,
        mut each: impl FnMut(Fact) -> Result<()>,
    ) -> Result<(Self, Option<Recovered>)> {
        let path = FilePath::new(NAME)?;
        let fail = |source| error::io(&path, source);
        match vfs.open(&path, Open::Read) {
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                if known.from.is_some() {
                    return Err(error::corrupt(format!("{path}: the log is missing"), None).with_source(source));
                }
                return if known.read_only { Ok((Self(None), None)) } else { Self::create(vfs, &path) };
            }
            Err(source) => return Err(fail(source)),
            Ok(_) => {}
        }
        let recovered = recover(vfs, &path, known, |group| {
            check_version(&path, group.commit.1)?;
            for (span, line) in &group.lines {
                let place = || error::corrupt(&path, Some(span.offset));
                let text = std::str::from_utf8(line).map_err(|e| place().with_source(e))?;
                each(Fact::decode(text).map_err(|e| place().with_source(e))?)?;
            }
            Ok(())
        })?;
        if known.read_only {
            return Ok((Self(None), Some(recovered)));
        }
        if known.from.is_none() && recovered.header.is_none() {
            // It was being made: it never held a fact that was acknowledged.
            vfs.unlink(&path).map_err(fail)?;
            return Self::create(vfs, &path);
        }
        let file = vfs.open(&path, Open::Write).map_err(fail)?;
        Ok((Self(Some(LogWriter::resume(file, path.clone(), recovered.end))), Some(recovered)))
    }

    /// All facts, from the first on. Nothing is written.
    ///
    /// # Errors
    /// As [`RootLog::open`].
    pub(crate) fn facts(vfs: &dyn Vfs) -> Result<Facts> {
        let mut facts = Facts::default();
        let known = Recovery { read_only: true, ..Recovery::default() };
        Self::open(vfs, known, |fact| {
            facts.take(fact);
            Ok(())
        })?;
        Ok(facts)
    }

    fn create(vfs: &dyn Vfs, path: &FilePath) -> Result<(Self, Option<Recovered>)> {
        let mut writer = LogWriter::create(vfs, path, HEADER).map_err(|failed| match failed {
            AppendError::Refused(source) | AppendError::Full(source) | AppendError::Failed(source) => {
                error::io(path, source)
            }
        })?;
        writer.sync(vfs).map_err(|source| error::io(path, source))?;
        Ok((Self(Some(writer)), None))
    }

    /// Writes a fact, and syncs it whatever the durability of the store: facts about several threads are never lost in
    /// part.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub(crate) fn append(&mut self, vfs: &dyn Vfs, fact: &str) -> std::result::Result<Position, AppendError> {
        let failed = |error: store_core::Error| AppendError::Failed(std::io::Error::other(error));
        let writer = self.0.as_mut().ok_or_else(|| failed(store_core::Error::closed()))?;
        let mut batch = writer.batch();
        batch.push(&[fact], "{}").map_err(failed)?;
        writer.append(&batch)?;
        writer.sync(vfs).map_err(AppendError::Failed)?;
        Ok(writer.position())
    }

    /// Where it ends.
    pub(crate) fn position(&self) -> Option<Position> {
        self.0.as_ref().map(LogWriter::position)
    }

    /// Its name.
    pub(crate) fn path() -> Result<FilePath> {
        FilePath::new(NAME)
    }
}
