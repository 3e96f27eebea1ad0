//! Opens a store in memory.

use store_core::Result;

use crate::{OpenOptions, Stores};

#[cfg(feature = "memory")]
pub(crate) fn open(options: &OpenOptions) -> Result<Stores> {
    use std::sync::Arc;

    use store_memory::{MemoryConfig, MemoryStore};

    use crate::{Create, options::unsupported};

    if options.durability.is_some() {
        return Err(unsupported("a durability (`memory:` keeps nothing; set none, or open `file:PATH`)"));
    }
    if options.read_only || options.create == Create::Never {
        return Err(unsupported("opening an existing store (`memory:` always begins empty; open `file:PATH`)"));
    }
    let OpenOptions { clock, ids, limits, .. } = options.clone();
    let config = MemoryConfig::default().with_clock(Arc::clone(&clock)).with_ids(ids).with_limits(&limits);
    Ok(Stores::new(Arc::new(MemoryStore::open(config)?)).with_backend_name("memory").with_clock(clock))
}

#[cfg(not(feature = "memory"))]
pub(crate) fn open(_options: &OpenOptions) -> Result<Stores> {
    Err(crate::options::unsupported("`memory:` (build with the cargo feature `memory`)"))
}
