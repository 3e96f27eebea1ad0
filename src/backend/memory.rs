//! Opens a store in memory.

use store_core::Result;

use crate::{OpenOptions, Stores};

#[cfg(feature = "memory")]
pub(crate) fn open(options: &OpenOptions) -> Result<Stores> {
    use std::sync::Arc;

    use store_memory::MemoryStore;

    use crate::{Create, options::unsupported};

    if options.durability.is_some() {
        return Err(unsupported("a durability (`memory:` keeps nothing; set none, or open `file:PATH`)"));
    }
    if options.read_only || options.create == Create::Never {
        return Err(unsupported("opening an existing store (`memory:` always begins empty; open `file:PATH`)"));
    }
    let clock = Arc::clone(&options.clock);
    let store = MemoryStore::open(config(options))?;
    Ok(Stores::new(Arc::new(store)).with_backend_name("memory").with_clock(clock))
}

#[cfg(feature = "memory")]
fn config(options: &OpenOptions) -> store_memory::MemoryConfig {
    let OpenOptions { clock, ids, limits, .. } = options.clone();
    store_memory::MemoryConfig::default().with_clock(clock).with_ids(ids).with_limits(&limits)
}

#[cfg(all(feature = "memory", feature = "nats"))]
pub(crate) fn open_behind_buffer(
    options: &OpenOptions,
) -> Result<std::sync::Arc<dyn store_core::buffer::BufferTarget>> {
    Ok(std::sync::Arc::new(store_memory::MemoryStore::open(config(options))?))
}

#[cfg(all(not(feature = "memory"), feature = "nats"))]
pub(crate) fn open_behind_buffer(
    _options: &OpenOptions,
) -> Result<std::sync::Arc<dyn store_core::buffer::BufferTarget>> {
    Err(crate::options::unsupported("`memory:` (build with the cargo feature `memory`)"))
}

#[cfg(not(feature = "memory"))]
pub(crate) fn open(_options: &OpenOptions) -> Result<Stores> {
    Err(crate::options::unsupported("`memory:` (build with the cargo feature `memory`)"))
}
