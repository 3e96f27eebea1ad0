//! The positions of threads in the lists of the mailbox. The SQL functions that make due dispatches available and the
//! rule of core must compute the same positions (MB-22).

use conformance_tests::{Random, seed_from_env};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use store_core::{
    Limits, Timestamp,
    codec::Codec,
    mailbox::{CurrentClaim, QueuePosition, QueueSummary, StoredMailboxThread, ThreadPositions, thread_positions},
};

use crate::fixture::{SchemaGuard, server_url};

const CASES: usize = 200;
/// The number of times at which the positions of each case are compared. A later comparison may be at an earlier time.
const TIMES: usize = 5;

fn time(millis: usize) -> Timestamp {
    Timestamp::from_millis(millis as u64).unwrap()
}

/// Summarises the queue of a thread as it is at `now`, according to the documentation of [`QueueSummary`].
fn queue_summary(queue: &[QueuePosition], now: Timestamp) -> QueueSummary {
    let (available, later): (Vec<QueuePosition>, Vec<QueuePosition>) =
        queue.iter().partition(|position| position.due <= now);
    QueueSummary {
        first_priority: available.iter().map(|position| position.priority).min(),
        earliest_due: available.iter().map(|position| position.due).min(),
        next_due: later.iter().map(|position| position.due).min(),
    }
}

struct TestDatabase {
    test_schema: SchemaGuard,
    connection: PgConnection,
}

impl TestDatabase {
    async fn run(&mut self, sql: String) -> Vec<sqlx::postgres::PgRow> {
        let sql = sql.replace("$schema$", self.test_schema.config().schema());
        sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut self.connection).await.unwrap()
    }

    /// Stores a mailbox with its queued dispatches, and with the same number of dispatches of another epoch.
    async fn insert_mailbox(&mut self, thread: &str, mailbox: &StoredMailboxThread, queue: &[QueuePosition]) {
        let lease = mailbox.running.as_ref().map_or("NULL".to_owned(), |it| it.lease_until.as_millis().to_string());
        self.run(format!(
            "INSERT INTO $schema$.mailbox (tenant, thread, revision, epoch, free_since, lease_until, record)
                VALUES ('t', '{thread}', 1, {}, {}, {lease}, '')",
            mailbox.epoch,
            mailbox.free_since.as_millis()
        ))
        .await;
        for position in queue {
            for epoch in [position.epoch, position.epoch + 1] {
                self.run(format!(
                    "INSERT INTO $schema$.queued VALUES ('t', '{thread}', {epoch}, false, {}, {}, {}, 0, '{thread}-{epoch}-{}')",
                    position.priority,
                    position.number,
                    position.due.as_millis(),
                    position.number
                ))
                .await;
            }
        }
    }

    /// Lets the SQL function `turn` make the due dispatches of a thread available, and returns the positions that it
    /// computes for the thread.
    async fn load_positions(&mut self, thread: &str, now: Timestamp) -> ThreadPositions {
        self.run(format!("SELECT $schema$.turn('t', ARRAY['{thread}'], {})", now.as_millis())).await;
        let rows = self
            .run(format!(
                "SELECT ready_priority, ready_since, due_at, lease_until FROM $schema$.mailbox WHERE thread = '{thread}'"
            ))
            .await;
        let read_time =
            |column: usize| rows[0].get::<Option<i64>, _>(column).map(|millis| time(usize::try_from(millis).unwrap()));
        let priority = rows[0].get::<Option<i16>, _>(0).map(|it| u8::try_from(it).unwrap());
        let mut found = ThreadPositions::default();
        (found.ready, found.due, found.lease) = (priority.zip(read_time(1)), read_time(2), read_time(3));
        assert_eq!(priority.is_some(), read_time(1).is_some());
        found
    }
}

#[tokio::test]
async fn the_server_and_core_put_threads_at_the_same_positions() {
    let test_schema = SchemaGuard::new(Limits::default()).await.unwrap();
    let mut database = TestDatabase { test_schema, connection: PgConnection::connect(&server_url()).await.unwrap() };
    let mut random = Random::new(seed_from_env("AGENTSTORE_MODEL_SEED"));
    for case in 0..CASES {
        let thread = format!("t-{case}");
        let mut mailbox = StoredMailboxThread::default();
        (mailbox.epoch, mailbox.free_since) = (random.below(3) as u64, time(random.below(100)));
        if random.once_in(3) {
            let lease = random.below(100);
            mailbox.running =
                Some(CurrentClaim::read(&format!(r#"{{"dispatch":"d","lease_until":{lease}}}"#)).unwrap());
        }
        let length = random.below(6) as u64;
        let random_position = |number| QueuePosition {
            epoch: mailbox.epoch,
            priority: u8::try_from(random.below(4)).unwrap(),
            number,
            due: time(random.below(100)),
        };
        let queue: Vec<QueuePosition> = (0..length).map(random_position).collect();
        database.insert_mailbox(&thread, &mailbox, &queue).await;
        for _ in 0..TIMES {
            let now = time(random.below(100));
            let expected = thread_positions(&mailbox, queue_summary(&queue, now));
            assert_eq!(database.load_positions(&thread, now).await, expected, "{mailbox:?} {queue:?} at {now:?}");
        }
    }
}
