//! `cargo xtask test`: what must hold, step by step, stopping at the first that does not. `cargo xtask faults`: the
//! faults, histories and schedules at length. `cargo xtask matrix`: the page of the backends.

mod times;

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use test_servers::{NATS_CLUSTER_URL, NATS_URL, Nats, POOLER_URL, PgBouncer, Postgres, URL};

use self::times::Times;
use crate::{features, tidy};

/// What `cargo xtask test` is asked for.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The packages to test, or none for all.
    pub(crate) packages: Vec<String>,
    /// Whether to repeat what shows the same again.
    pub(crate) is_full: bool,
    /// Whether to write down where the time went.
    pub(crate) records: bool,
}

impl Options {
    /// Which packages cargo is to look at.
    fn scope(&self) -> Vec<&str> {
        if self.packages.is_empty() {
            return vec!["--workspace"];
        }
        self.packages.iter().flat_map(|package| ["--package", package]).collect()
    }
}

/// Runs the steps in the workspace at `root`, and says where the time went.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let mut times = Times::begin();
    let scope = options.scope();
    cargo(root, "format", &["fmt", "--all", "--check"])?;
    times.step("format");
    cargo(
        root,
        "lints",
        &[&["clippy", "--quiet", "--all-targets"], &scope[..], &["--", "--deny", "warnings"]].concat(),
    )?;
    times.step("lints");
    if options.packages.is_empty() {
        println!("\n== tidy");
        tidy::run(root)?;
        times.step("tidy");
        features::run(root, options.is_full)?;
        times.step("features");
        benchmarks(root)?;
        times.step("benchmarks of other queues");
    }
    compile(root, &scope)?;
    times.step("compiling the tests");
    tests(root, &scope, options.is_full)?;
    times.step("tests");
    times.tests(root, options.is_full)?;
    if options.is_full && options.packages.is_empty() {
        schedules(root, &["--quiet"], None)?;
        times.step("schedules");
        on_the_newest(root)?;
        times.step("the suite on the newest PostgreSQL");
    }
    doc_tests(root, &options.packages)?;
    times.step("doc tests");
    println!("\n{times}");
    if options.records {
        times.record(root, options.is_full)?;
    }
    println!("== all steps passed");
    Ok(())
}

/// Says how long tests go on that repeat something.
const LENGTH: &str = "AGENTSTORE_TEST_LENGTH";

/// Settings of servers that no test kills: without syncs, and without a compiler whose start each session pays for.
const OF_TESTS: [&str; 2] = ["fsync=off", "jit=off"];

/// Where faults, crashes and histories are tested; random histories are the same ones on every backend.
const FAULTS: [&str; 11] = [
    "faults::",
    "histories::",
    "crashes::",
    "full_disk::",
    "processes::",
    "bit_flips::",
    "bounds::",
    "random_texts::",
    "relaxed::",
    "soak::",
    "it_agrees_with_the_model",
];

/// Runs what goes wrong at length, one test after the other, and shows what each found.
pub(crate) fn faults(root: &Path) -> Result<()> {
    let run =
        ["test", "--release", "--workspace", "--tests", "--no-fail-fast", "--", "--nocapture", "--test-threads=1"];
    with_servers(|urls| {
        cargo_with(root, "faults", &[&run[..], &FAULTS].concat(), urls.chain([(LENGTH, "long".to_owned())]))
    })?;
    schedules(root, &["--release", "--", "--nocapture", "--test-threads=1"], Some("long"))?;
    println!("\n== all faults passed");
    Ok(())
}

/// Makes the page of what the backends give.
pub(crate) fn matrix(root: &Path) -> Result<()> {
    let run = ["test", "--package", "cli", "--test", "it", "--quiet", "--", "matrix::"];
    cargo_with(root, "matrix", &run, [("AGENTSTORE_WRITE_MATRIX", "1".to_owned())])
}

/// The benchmarks beside other queues have a lock file of their own: it must fit their manifest.
fn benchmarks(root: &Path) -> Result<()> {
    let check =
        ["check", "--quiet", "--locked", "--manifest-path", "benches/queues/Cargo.toml", "--target-dir", "target"];
    cargo(root, "benchmarks of other queues", &check)
}

fn compile(root: &Path, scope: &[&str]) -> Result<()> {
    if !has_nextest(root) {
        let build = [&["test", "--no-run", "--quiet", "--lib", "--bins", "--tests"], scope].concat();
        return cargo(root, "compiling the tests", &build);
    }
    cargo(root, "compiling the tests", &[&["nextest", "run", "--no-run", "--cargo-quiet"], scope].concat())
}

fn tests(root: &Path, scope: &[&str], is_full: bool) -> Result<()> {
    let profile = if is_full { "full" } else { "default" };
    // Most tests wait for a server, a disk or a lease about as long as they compute.
    let at_once = (2 * thread::available_parallelism().map_or(1, usize::from)).to_string();
    let run = if has_nextest(root) {
        let how = ["nextest", "run", "--no-fail-fast", "--no-tests", "pass", "--status-level", "slow"];
        let how = [&how[..], &["--profile", profile, "--test-threads", &at_once]].concat();
        [&how[..], scope].concat()
    } else {
        let skip = if is_full { [].as_slice() } else { &["--", "--skip", "pooled::"] };
        let how = ["test", "--lib", "--bins", "--tests", "--no-fail-fast", "--quiet"];
        [&how[..], scope, skip].concat()
    };
    let length = if is_full { "full" } else { "quick" };
    with_servers(|urls| cargo_with(root, "tests", &run, urls.chain([(LENGTH, length.to_owned())])))
}

fn doc_tests(root: &Path, packages: &[String]) -> Result<()> {
    if packages.is_empty() {
        return cargo(root, "doc tests", &["test", "--workspace", "--doc", "--quiet"]);
    }
    for package in packages {
        if has_library(root, package)? {
            cargo(root, "doc tests", &["test", "--package", package, "--doc", "--quiet"])?;
        }
    }
    Ok(())
}

/// Whether a package has a library: cargo refuses doc tests of one that has none.
fn has_library(root: &Path, package: &str) -> Result<bool> {
    let metadata = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(metadata).current_dir(root).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo describes the workspace")?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let found = packages.into_iter().find(|found| found.get("name").is_some_and(|name| name == package));
    let found = found.with_context(|| format!("no package of the workspace is called `{package}`"))?;
    let mut targets = found.get("targets").and_then(Value::as_array).into_iter().flatten();
    Ok(targets.any(|target| target.get("doctest").is_some_and(|it| it == true)))
}

/// Runs the store in memory under a schedule checker. That is another build of all that it is made of: it goes to a
/// folder of its own, so that the usual one stays as it is.
fn schedules(root: &Path, how: &[&str], length: Option<&str>) -> Result<()> {
    let run = ["test", "--package", "store-memory", "--test", "schedules", "--target-dir", "target/schedules"];
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let flags = ("RUSTFLAGS", format!("{flags} --cfg shuttle").trim_start().to_owned());
    let length = length.map(|length| (LENGTH, length.to_owned()));
    cargo_with(root, "schedules", &[&run[..], how].concat(), length.into_iter().chain([flags]))
}

/// Runs what the suite and others ask of PostgreSQL on its newest version as well, unless the environment names a
/// server.
fn on_the_newest(root: &Path) -> Result<()> {
    if env::var_os(URL).is_some() {
        return Ok(());
    }
    let server = Postgres::start_newest(&OF_TESTS)?;
    let run =
        ["test", "--package", "store-postgres", "--tests", "--quiet", "--", "conformance::", "caller::", "news::"];
    let passed = cargo_with(root, "tests on the newest PostgreSQL", &run, [(URL, server.url())]);
    server.stop().and(passed)
}

/// Runs tests with a PostgreSQL, a pooler, a NATS and a cluster of it of their own, unless the environment names some.
fn with_servers(run: impl FnOnce(&mut dyn Iterator<Item = (&'static str, String)>) -> Result<()>) -> Result<()> {
    let named = [URL, POOLER_URL].map(|name| env::var_os(name).is_some());
    if named[0] != named[1] {
        bail!("of {URL} and {POOLER_URL} only one is set: they are to lead to one server");
    }
    let server = if named[0] { None } else { Some(Postgres::start(&OF_TESTS)?) };
    let pooler = server.as_ref().map(PgBouncer::start).transpose()?;
    let urls = server.as_ref().zip(pooler.as_ref());
    let urls = urls.map(|(server, pooler)| [(URL, server.url()), (POOLER_URL, pooler.url().to_owned())]);
    let is_missing = |name: &str| env::var_os(name).is_none();
    let nats = is_missing(NATS_URL).then(|| Nats::start("")).transpose()?;
    let cluster = is_missing(NATS_CLUSTER_URL).then(|| Nats::start_cluster("")).transpose()?;
    let nats_url = nats.as_ref().map(|nats| (NATS_URL, nats.url()));
    let cluster_url = cluster.as_ref().map(|servers| (NATS_CLUSTER_URL, Nats::url_of(servers)));
    let passed = run(&mut urls.into_iter().flatten().chain(nats_url).chain(cluster_url));
    drop(pooler);
    let stopped = nats.into_iter().chain(cluster.into_iter().flatten()).try_for_each(Nats::stop);
    server.map_or(Ok(()), Postgres::stop).and(stopped).and(passed)
}

pub(crate) fn cargo(root: &Path, step: &str, args: &[&str]) -> Result<()> {
    cargo_with(root, step, args, [])
}

pub(crate) fn cargo_with(
    root: &Path,
    step: &str,
    args: &[&str],
    environment: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<()> {
    println!("\n== {step}: cargo {}", args.join(" "));
    let status = Command::new(env!("CARGO"))
        .args(args)
        .envs(environment)
        .current_dir(root)
        .status()
        .with_context(|| format!("`cargo {}` cannot be started", args.join(" ")))?;
    if !status.success() {
        bail!("the step `{step}` failed");
    }
    Ok(())
}

fn has_nextest(root: &Path) -> bool {
    let status = Command::new(env!("CARGO"))
        .args(["nextest", "--version"])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
