//! Child processes of the tests of faults. Each runs this test binary, and its environment names its task.

use std::{fmt::Display, path::Path, sync::Arc, time::Duration};

use store_core::{Interrupt, MailboxStore, NewDispatch, Store};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox, Synchronous};
use test_servers::{Process, send_line, wait_for_parent};

use super::helpers::{ack, claim_request, enqueue, mailbox, new_dispatch, open, settle, stores, thread};

const TASK_VARIABLE: &str = "AGENTSTORE_TEST_CHILD";
const FILE_VARIABLE: &str = "AGENTSTORE_TEST_FILE";
const NAME_VARIABLE: &str = "AGENTSTORE_TEST_NAME";
const NUMBER_VARIABLE: &str = "AGENTSTORE_TEST_NUMBER";

/// The number of concurrent tasks in a child that writes or works.
const TASKS: usize = 8;

/// Starts a child. `wrapper` is put in front of the child's command, for example `strace`. `name` and `number` are
/// parameters of the task. The function of each task says what they mean, unless it ignores them.
pub(super) fn start_child_under(
    wrapper: &[&str],
    task: &str,
    file: &Path,
    name: impl Display,
    number: usize,
) -> Process {
    let environment = [
        (TASK_VARIABLE, task),
        (FILE_VARIABLE, file.to_str().unwrap()),
        (NAME_VARIABLE, &name.to_string()),
        (NUMBER_VARIABLE, &number.to_string()),
    ];
    Process::begin(wrapper, "faults::child_process::a_child_process_performs_its_task", &environment)
}

pub(super) fn start_child(task: &str, file: &Path, name: impl Display, number: usize) -> Process {
    start_child_under(&[], task, file, name, number)
}

/// Performs the task that the environment variable names. This is not a test: in a normal run of the tests the variable
/// is not set, and nothing is done.
#[test]
fn a_child_process_performs_its_task() {
    let Ok(task) = std::env::var(TASK_VARIABLE) else { return };
    let [file, name, number] = [FILE_VARIABLE, NAME_VARIABLE, NUMBER_VARIABLE].map(|name| std::env::var(name).unwrap());
    let (file, number) = (Path::new(&file), number.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match task.as_str() {
            "write" => write(open(file).await, &name, number).await,
            "write unsafely" => write(open_unsafely(file).await, &name, number).await,
            "write until it fails" => write_until_it_fails(file, &name).await,
            "interrupt" => interrupt(file, number).await,
            "work" => work_until_none_left(file).await,
            "enqueue with contended keys" => enqueue_with_contended_keys(file, &name, number).await,
            "hold" => claim_and_hold(file, &name).await,
            "wait" => wait_and_work(file).await,
            "sync" => sync(file, number).await,
            "checkpoint" => checkpoint(file),
            _ => unreachable!("unknown task `{task}`"),
        }
    });
}

async fn open_unsafely(file: &Path) -> SqliteMailbox {
    let mut config = SqliteConfig::new(file);
    (config.synchronous, config.allow_unsafe) = (Synchronous::Normal, true);
    SqliteMailbox::open(config).await.unwrap()
}

/// Enqueues, claims and acknowledges a dispatch. Prints each change that the store acknowledged.
async fn enqueue_and_ack(mailbox: &dyn MailboxStore, id: &str) -> store_core::Result<()> {
    mailbox.enqueue(vec![new_dispatch(id, id)]).await?.remove(0)?;
    send_line(format_args!("put {id}"));
    let claimed = mailbox.claim(claim_request().of_dispatch(id.parse().unwrap())).await?.claimed.remove(0);
    mailbox.settle(vec![(claimed.claim(), ack(id))]).await?.remove(0)?;
    send_line(format_args!("ack {id}"));
    Ok(())
}

/// Enqueues and acknowledges `number` dispatches, whose ids begin with `name`, in each of several concurrent tasks.
/// Then waits for the parent, which may kill the process earlier.
async fn write(store: SqliteMailbox, name: &str, number: usize) {
    let mailbox = mailbox(&store);
    send_line("open");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (mailbox, name) = (Arc::clone(&mailbox), name.to_owned());
            tokio::spawn(async move {
                for at in 0..number {
                    if let Err(error) = enqueue_and_ack(&*mailbox, &format!("{name}-{task}-{at}")).await {
                        send_line(format_args!("error {}", error.kind().name()));
                        return;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    wait_for_parent();
    store.close().await.unwrap();
}

/// Enqueues `number` dispatches without syncs, then syncs once, and waits for the parent.
async fn sync(file: &Path, number: usize) {
    let store = open_unsafely(file).await;
    enqueue_many(&store, "s", number).await;
    store.sync().await.unwrap();
    send_line("synced");
    wait_for_parent();
}

/// Writes until a call fails, and tries to write once more. Then opens the mailbox again and writes to it.
async fn write_until_it_fails(file: &Path, name: &str) {
    let store = match SqliteMailbox::open(SqliteConfig::new(file)).await {
        Ok(store) => store,
        Err(error) => return send_line(format_args!("refused {}", error.kind().name())),
    };
    let queue = mailbox(&store);
    for at in 0..1_000 {
        let Err(error) = enqueue_and_ack(&*queue, &format!("{name}-a-{at}")).await else { continue };
        send_line(format_args!("first {}", error.kind().name()));
        let second_answer = queue.enqueue(vec![new_dispatch("again", &format!("{name}-again"))]).await;
        send_line(format_args!("then {}", second_answer.map_or_else(|error| error.kind().name(), |_| "ok")));
        // Reads still work.
        queue.load_dispatch(&format!("{name}-a-0").parse().unwrap()).await.unwrap();
        break;
    }
    store.close().await.unwrap();
    let store = open(file).await;
    let queue = mailbox(&store);
    enqueue_and_ack(&*queue, &format!("{name}-b")).await.unwrap();
    store.close().await.unwrap();
    send_line("wrote after reopening");
}

/// Interrupts one thread `number` times.
async fn interrupt(file: &Path, number: usize) {
    let store = open(file).await;
    send_line("open");
    wait_for_parent();
    for _ in 0..number {
        let request = Interrupt::new(thread("t"));
        match mailbox(&store).interrupt(request).await {
            Ok(interrupted) => send_line(format_args!("epoch {}", interrupted.epoch)),
            Err(error) => send_line(format_args!("error {error:?}")),
        }
    }
    store.close().await.unwrap();
}

/// Claims and settles until no dispatch can be claimed.
async fn work_until_none_left(file: &Path) {
    let store = open(file).await;
    send_line("open");
    wait_for_parent();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let mailbox = mailbox(&store);
            tokio::spawn(async move {
                while let Some(claimed) = mailbox.claim(claim_request()).await.unwrap().claimed.pop() {
                    send_line(format_args!("got {}", claimed.dispatch.id));
                    settle(&*mailbox, &claimed, ack(claimed.dispatch.id.as_str())).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await.unwrap();
}

/// Enqueues `number` dispatches, each with a different dedupe key, while other processes use the same keys.
async fn enqueue_with_contended_keys(file: &Path, name: &str, number: usize) {
    let store = open(file).await;
    send_line("open");
    wait_for_parent();
    for at in 0..number {
        let new = NewDispatch::new(thread("t"), "r".parse().unwrap()).with_id(format!("{name}-{at}").parse().unwrap());
        let new = new.with_dedupe_key(format!("k-{at}").parse().unwrap());
        match mailbox(&store).enqueue(vec![new]).await.unwrap().remove(0) {
            Ok(_) => send_line(format_args!("accepted {at}")),
            Err(error) => send_line(format_args!("{} {at}", error.kind().name())),
        }
    }
    store.close().await.unwrap();
}

/// Claims the dispatch `id`, which is the `name` of the task, with a short lease. Settles the dispatch when the parent
/// lets the process continue.
async fn claim_and_hold(file: &Path, id: &str) {
    let store = open(file).await;
    let mut request = claim_request().of_dispatch(id.parse().unwrap());
    request.lease = Duration::from_millis(100);
    let claimed = mailbox(&store).claim(request).await.unwrap().claimed.remove(0);
    send_line("held");
    wait_for_parent();
    let answer = mailbox(&store).settle(vec![(claimed.claim(), ack(id))]).await.unwrap().remove(0);
    send_line(answer.map_or_else(|error| error.kind().name().to_owned(), |settled| format!("{:?}", settled.status)));
}

/// Waits for work and claims it, until the process is killed.
async fn wait_and_work(file: &Path) {
    let store = open(file).await;
    let wake_ups = stores(&store).wake_ups.unwrap();
    send_line("open");
    loop {
        wake_ups.wait(Duration::from_secs(60)).await.unwrap();
        while let Some(claimed) = mailbox(&store).claim(claim_request()).await.unwrap().claimed.pop() {
            send_line(format_args!("got {}", claimed.dispatch.id));
            settle(&*mailbox(&store), &claimed, ack(claimed.dispatch.id.as_str())).await;
        }
    }
}

/// Checkpoints the WAL again and again, in every mode.
fn checkpoint(file: &Path) {
    let conn = rusqlite::Connection::open(file).unwrap();
    conn.busy_timeout(Duration::from_millis(50)).unwrap();
    send_line("open");
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"].into_iter().cycle() {
        let _busy = conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Enqueues `number` dispatches whose ids begin with `name`.
pub(super) async fn enqueue_many(store: &SqliteMailbox, name: &str, number: usize) {
    for at in 0..number {
        enqueue(&*mailbox(store), new_dispatch(format!("{name}-{}", at % 50), &format!("{name}-{at}"))).await;
    }
}
