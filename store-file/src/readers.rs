//! The readers of this process: a purge removes a file when no reader can be reading it any more.

use std::sync::{
    Arc, Mutex,
    mpsc::{Receiver, Sender, channel},
};

use crate::mutex::guard;

/// Readers, by when they began. A new reader never waits for a purge, and a purge waits only for readers that began
/// before it.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    epoch: Mutex<Epoch>,
    /// Held while a purge waits: the next purge waits for the readers of this one, too.
    waiting: Mutex<()>,
}

/// Held while something is read.
#[derive(Debug)]
pub(crate) struct Reading {
    _epoch: Arc<Sender<()>>,
}

/// The readers that began between two purges.
#[derive(Debug)]
struct Epoch {
    held: Arc<Sender<()>>,
    /// Nothing is ever sent: it ends when no reader holds the sender any more.
    ended: Receiver<()>,
}

impl Default for Epoch {
    fn default() -> Self {
        let (held, ended) = channel();
        Self { held: Arc::new(held), ended }
    }
}

impl Readers {
    /// Begins to read.
    pub(crate) fn begin(&self) -> Reading {
        Reading { _epoch: Arc::clone(&guard(&self.epoch).held) }
    }

    /// Waits for all readers that began before.
    pub(crate) fn wait_for_earlier_readers(&self) {
        let _waiting = guard(&self.waiting);
        let Epoch { held, ended } = std::mem::take(&mut *guard(&self.epoch));
        drop(held);
        let _ = ended.recv();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        thread::{sleep, spawn},
        time::Duration,
    };

    use super::Readers;

    #[test]
    fn a_purge_waits_for_readers_that_another_one_waits_for() {
        let readers = Arc::new(Readers::default());
        let before = readers.begin();
        let waiting = [(); 2].map(|()| {
            let readers = Arc::clone(&readers);
            spawn(move || readers.wait_for_earlier_readers())
        });
        sleep(Duration::from_millis(40));
        assert!(waiting.iter().all(|purge| !purge.is_finished()));
        drop(before);
        waiting.into_iter().for_each(|purge| purge.join().unwrap());
    }

    #[test]
    fn a_purge_waits_for_earlier_readers_and_blocks_none() {
        let readers = Arc::new(Readers::default());
        let (before, also_before) = (readers.begin(), readers.begin());
        let waiting = spawn({
            let readers = Arc::clone(&readers);
            move || readers.wait_for_earlier_readers()
        });
        sleep(Duration::from_millis(20));
        let after = readers.begin();
        drop(before);
        sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "a reader that began before still reads");
        drop(also_before);
        waiting.join().unwrap();
        drop(after);
        readers.wait_for_earlier_readers();
    }
}
