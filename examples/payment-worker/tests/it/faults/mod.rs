//! A worker is killed, and its handler is dropped. `AGENTSTORE_TEST_LENGTH=long` makes these tests longer.

mod dropped;
mod kills;
