//! Facts about several threads: they go to the root log.

use store_core::{ClaimNumber, Error, Result};

use super::Round;
use crate::{
    journal::LogName,
    line::Fact,
    log::{Position, add_checksum},
    root, table,
    tails::{ROOT, Tail},
};
use store_core::codec::Codec;

impl Round<'_> {
    /// Makes the root log, if there is none.
    pub(crate) fn begin_root(&mut self) -> Result<()> {
        self.root_log()?;
        if let Some(root) = self.tails.get_mut(ROOT) {
            root.make();
            self.staged.put(table::fact("root"), root::encode_position(root.end()));
        }
        Ok(())
    }

    /// The end of the root log.
    fn root_log(&mut self) -> Result<()> {
        if self.tails.get(ROOT).is_some() {
            return Ok(());
        }
        let name = LogName { number: ROOT, path: root::path()? };
        let end = self.staged.get_position("root")?;
        self.tails.insert(match end.filter(|end| *end != Position::default()) {
            Some(end) => Tail::new(name, end),
            None => Tail::made(name, add_checksum(root::HEADER)?),
        });
        Ok(())
    }

    /// Adds a fact about several threads to the root log. The round is durable before it shows.
    pub(crate) fn fact(&mut self, fact: &Fact) -> Result<()> {
        self.is_durable = true;
        let batch = self.next_batch()?;
        self.root_log()?;
        let tail = self.tails.get_mut(ROOT).ok_or_else(Error::closed)?;
        let placed = tail.push(batch, &[fact.encode()], "{}")?;
        self.staged.put(table::fact("root"), root::encode_position(placed.end));
        Ok(())
    }

    /// Remembers the highest claim number of an id that has no thread (CM-32).
    pub(super) fn remember_fence(&mut self, fence: Option<ClaimNumber>) -> Result<()> {
        if self.told.id.fence == fence {
            return Ok(());
        }
        let (tenant, thread, _) = self.key.clone();
        let mut id = self.told.id.clone();
        id.fence = fence;
        self.fact(&Fact::Fence { tenant: tenant.clone(), thread: thread.clone(), fence })?;
        self.staged.put(table::id(&tenant, &thread), id.encode());
        self.before.id = id.clone();
        self.told.id = id;
        Ok(())
    }
}
