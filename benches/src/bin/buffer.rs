//! Measures commits through a write buffer in front of PostgreSQL, beside messages that are only published to the same
//! servers, and the transactions of the inner store (NB-1, NB-4).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::{
    process::{Command, ExitCode},
    sync::Arc,
    time::{Duration, Instant},
};

use agentstore::{
    Commit, CommitCoordinator, CommitKey, IdSource, Message, NewEntry, Store, TenantId, ThreadId, UuidSource,
};
use anyhow::{Context, Result, bail, ensure};
use lexopt::{Arg, Parser, ValueExt};
use store_nats::{BaselinePublisher, BufferConfig, Buffered, NatsConfig, TestPrefix};
use store_postgres::{PostgresConfig, PostgresStore, TestSchema};

const HELP: &str = "\
Commits messages through a write buffer on NATS in front of PostgreSQL: one after another to one thread, 64 a second to
one thread, many threads at once, and 5,000 a second to one thread and to many. The rates are compared with messages
that are only published and acknowledged, in the same number at once. Also prints how soon PostgreSQL had them, and how
many transactions it made meanwhile.

Usage: cargo run --release -p benches --bin buffer -- [OPTIONS]

Options:
  --url URL      the URL of PostgreSQL [default: AGENTSTORE_TEST_POSTGRES_URL]
  --nats URL     the URL of the NATS servers [default: AGENTSTORE_TEST_NATS_URL]
  --seconds N    how long each part runs [default: 5]
  --rounds N     how many times the rates are measured in turn; the median is reported [default: 3]
  --threads N    the threads that are written at once [default: 64]
";

/// The number of commits that a burst offers in a second.
const BURST: u32 = 5_000;
/// The size of the text of a message, in bytes.
const BODY_BYTES: usize = 600;

struct Options {
    url: String,
    nats: String,
    duration: Duration,
    rounds: usize,
    threads: usize,
}

fn main() -> ExitCode {
    match parse_options().and_then(|options| options.map_or(Ok(()), |options| run(&options))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse_options() -> Result<Option<Options>> {
    let variable = |name: &str| std::env::var(name).ok();
    let (mut url, mut nats) = (variable("AGENTSTORE_TEST_POSTGRES_URL"), variable("AGENTSTORE_TEST_NATS_URL"));
    let (mut seconds, mut rounds, mut threads) = (5, 3, 64);
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("url") => url = Some(parser.value()?.parse()?),
            Arg::Long("nats") => nats = Some(parser.value()?.parse()?),
            Arg::Long("seconds") => seconds = parser.value()?.parse()?,
            Arg::Long("rounds") => rounds = parser.value()?.parse()?,
            Arg::Long("threads") => threads = parser.value()?.parse()?,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(None);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    let missing = "no server is given: start one with `cargo xtask servers` and name it";
    let (url, nats) = (url.context(missing)?, nats.context(missing)?);
    ensure!(threads > 0 && rounds > 0, "`--threads` and `--rounds` are at least 1");
    Ok(Some(Options { url, nats, duration: Duration::from_secs(seconds), rounds, threads }))
}

fn run(options: &Options) -> Result<()> {
    let separator = if options.url.contains('?') { '&' } else { '?' };
    let schema = format!("bench_{}", UuidSource.next_id().replace('-', ""));
    let mut inner = PostgresConfig::new(&format!("{}{separator}schema={schema}", options.url))?;
    inner.behind_buffer = true;
    let prefix = format!("bench-{}", UuidSource.next_id());
    let mut servers = NatsConfig::new(&options.nats)?.with_prefix(&prefix)?;
    servers.allow_unsafe = true;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        let store = PostgresStore::open(inner.clone()).await?;
        let buffered = Buffered::open(BufferConfig::new(servers.clone())?, store).await?;
        measure(options, &schema, &buffered, &TestPrefix::from_config(servers.clone())).await
    });
    runtime.block_on(TestPrefix::from_config(servers).remove())?;
    runtime.block_on(TestSchema::from_config(inner).remove())?;
    result
}

async fn measure(
    options: &Options,
    schema: &str,
    buffered: &Buffered<PostgresStore>,
    prefix: &TestPrefix,
) -> Result<()> {
    let publisher = Arc::new(BaselinePublisher::open(prefix).await?);
    let commits = buffered.tenant(&TenantId::default_tenant())?.commits.context("no coordinator")?;
    let mut rates: [Vec<f64>; 6] = Default::default();
    let (mut writes, mut transactions, mut flushes) = (0.0, 0, 0);
    for round in 0..options.rounds {
        let hot = vec![format!("hot-{round}")];
        let many: Vec<_> = (0..options.threads).map(|thread| format!("t-{round}-{thread}")).collect();
        rates[0].push(publish(&publisher, 1, options.duration, Duration::ZERO).await?);
        let (rate, applied) = commit_and_drain(options, buffered, &commits, &hot).await?;
        rates[1].push(rate);
        rates[2].push(applied);
        rates[3].push(publish(&publisher, options.threads, options.duration, Duration::ZERO).await?);
        let before = count_transactions(options, schema)?;
        let (rate, applied) = commit_and_drain(options, buffered, &commits, &many).await?;
        let after = count_transactions(options, schema)?;
        rates[4].push(rate);
        rates[5].push(applied);
        writes += rate * options.duration.as_secs_f64();
        (transactions, flushes) = (transactions + after.0 - before.0, flushes + after.1 - before.1);
    }
    let [bare_one, hot, hot_applied, bare_many, many, many_applied] = rates.map(middle);
    println!(
        "one at a time: {bare_one:.0} messages/s published, {hot:.0} commits/s to one thread: {:.0} %",
        100.0 * hot / bare_one
    );
    println!(
        "{} at a time: {bare_many:.0} messages/s published, {many:.0} commits/s to as many threads: {:.0} %",
        options.threads,
        100.0 * many / bare_many
    );
    println!("until PostgreSQL had them, {hot_applied:.0} commits/s to one thread, {many_applied:.0} to many");
    println!(
        "under this burst {writes:.0} commits took {flushes} transactions that wrote ({:.1} %), {transactions} in all",
        100.0 * flushes as f64 / writes
    );
    let steady = commit(&commits, &["steady".to_owned()], options.duration, Duration::from_micros(15_625)).await?;
    println!("64 commits/s offered to one thread: {steady:.1} acknowledged");
    buffered.drain().await?;
    let interval = Duration::from_secs(1) * u32::try_from(options.threads)? / BURST;
    let many = (0..options.threads).map(|thread| format!("burst-{thread}")).collect();
    for (threads, number) in [(vec!["burst".to_owned(); options.threads], 1), (many, options.threads)] {
        let published = publish(&publisher, options.threads, options.duration, interval).await?;
        let acknowledged = commit(&commits, &threads, options.duration, interval).await?;
        println!(
            "{BURST} a second offered, threads: {number}: {published:.0} messages/s published, {acknowledged:.0} \
             commits/s: {:.0} %",
            100.0 * acknowledged / published
        );
        buffered.drain().await?;
    }
    Ok(())
}

/// Commits to each thread, and waits until PostgreSQL has everything. Returns how many commits a second were
/// acknowledged, and how many were there.
async fn commit_and_drain(
    options: &Options,
    buffered: &Buffered<PostgresStore>,
    commits: &Arc<dyn CommitCoordinator>,
    threads: &[String],
) -> Result<(f64, f64)> {
    let began = Instant::now();
    let rate = commit(commits, threads, options.duration, Duration::ZERO).await?;
    let took = began.elapsed();
    buffered.drain().await?;
    Ok((rate, rate * took.as_secs_f64() / began.elapsed().as_secs_f64()))
}

/// Returns the median.
fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// Publishes from as many tasks at once, one message after another in each, each at the earliest `interval` after the
/// one before began. Returns messages per second.
async fn publish(
    publisher: &Arc<BaselinePublisher>,
    tasks: usize,
    duration: Duration,
    interval: Duration,
) -> Result<f64> {
    let began = Instant::now();
    let tasks = (0..tasks).map(|_| {
        let publisher = Arc::clone(publisher);
        tokio::spawn(async move {
            let (body, mut count) = ("x".repeat(BODY_BYTES), 0_u32);
            while began.elapsed() < duration {
                tokio::time::sleep_until((began + interval * count).into()).await;
                publisher.publish(&body, 1).await?;
                count += 1;
            }
            anyhow::Ok(count)
        })
    });
    rate_of(tasks.collect(), began).await
}

/// Commits from as many tasks as names of threads are given, which may be equal. Each commits to its thread, one commit
/// after another, each at the earliest `interval` after the one before began. Returns commits per second.
async fn commit(
    commits: &Arc<dyn CommitCoordinator>,
    threads: &[String],
    duration: Duration,
    interval: Duration,
) -> Result<f64> {
    let began = Instant::now();
    let tasks = threads.iter().enumerate().map(|(task, thread)| {
        let (commits, thread) = (Arc::clone(commits), ThreadId::new(thread));
        tokio::spawn(async move {
            let (thread, body, mut count) = (thread?, "x".repeat(BODY_BYTES), 0_u32);
            while began.elapsed() < duration {
                tokio::time::sleep_until((began + interval * count).into()).await;
                let commit = Commit::new(thread.clone())
                    .with_key(CommitKey::new(format!("k-{task}-{count}"))?)
                    .entry(NewEntry::new(Message::user(&body)));
                let _receipt = commits.commit(commit).await?;
                count += 1;
            }
            anyhow::Ok(count)
        })
    });
    rate_of(tasks.collect(), began).await
}

async fn rate_of(tasks: Vec<tokio::task::JoinHandle<Result<u32>>>, began: Instant) -> Result<f64> {
    let mut count = 0;
    for task in tasks {
        count += task.await??;
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

/// Returns how many transactions the database has made, and how many of them moved the position of the buffer.
fn count_transactions(options: &Options, schema: &str) -> Result<(i64, i64)> {
    // The server adds up what each connection did about once a second.
    std::thread::sleep(Duration::from_secs(2));
    let query = format!(
        "SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) || ' ' || n_tup_upd \
         FROM pg_stat_user_tables WHERE schemaname = '{schema}' AND relname = 'write_buffer'"
    );
    let output = Command::new("psql").args(["--no-psqlrc", "-At", "--command", &query]).arg(&options.url).output();
    let output = output.context("psql cannot be started")?;
    if !output.status.success() {
        bail!("psql failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let (all, flushes) = text.trim().split_once(' ').context("psql printed something else")?;
    Ok((all.parse()?, flushes.parse()?))
}
