//! `cargo xtask test` checks everything, and stops at the first step that fails. `cargo xtask faults` runs the long
//! form of the tests of faults, histories and schedules. `cargo xtask matrix` writes the page about the backends.

mod times;

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use test_servers::{
    NATS_CLUSTER_URL_VARIABLE, NATS_URL_VARIABLE, Nats, POOLER_URL_VARIABLE, POSTGRES_URL_VARIABLE, PgBouncer, Postgres,
};

use self::times::Times;
use crate::{features, tidy};

/// The options of `cargo xtask test`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The packages to test; empty for all.
    pub(crate) packages: Vec<String>,
    /// Whether to run the tests at the length `full`, and further tests of the same promises.
    pub(crate) is_full: bool,
    /// Whether to write the times into docs/testing.md.
    pub(crate) writes_times: bool,
}

impl Options {
    /// Returns the arguments that tell cargo which packages to use.
    fn package_arguments(&self) -> Vec<&str> {
        if self.packages.is_empty() {
            return vec!["--workspace"];
        }
        self.packages.iter().flat_map(|package| ["--package", package]).collect()
    }
}

/// Runs the steps in the workspace at `root`, and prints how long they took.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let mut times = Times::begin();
    let package_arguments = options.package_arguments();
    cargo(root, "format", &["fmt", "--all", "--check"])?;
    times.end_step("format");
    cargo(
        root,
        "lints",
        &[&["clippy", "--quiet", "--all-targets"], &package_arguments[..], &["--", "--deny", "warnings"]].concat(),
    )?;
    times.end_step("lints");
    if options.packages.is_empty() {
        println!("\n== tidy");
        tidy::run(root)?;
        times.end_step("tidy");
        features::run(root, options.is_full)?;
        times.end_step("features");
        check_queue_benchmarks(root)?;
        times.end_step("benchmarks of other queues");
    }
    compile_tests(root, &package_arguments)?;
    times.end_step("compiling the tests");
    run_tests(root, &package_arguments, options.is_full)?;
    times.end_step("tests");
    times.read_test_report(root, options.is_full)?;
    if options.is_full && options.packages.is_empty() {
        run_schedules(root, &["--quiet"], None)?;
        times.end_step("schedules");
        test_on_newest_postgres(root)?;
        times.end_step("the suite on the newest PostgreSQL");
    }
    run_doc_tests(root, &options.packages)?;
    times.end_step("doc tests");
    println!("\n{times}");
    if options.writes_times {
        times.write_to_page(root, options.is_full)?;
    }
    println!("== all steps passed");
    Ok(())
}

/// The environment variable with the length of the tests that repeat something: `quick`, `full` or `long`.
const LENGTH_VARIABLE: &str = "AGENTSTORE_TEST_LENGTH";

/// The settings of PostgreSQL servers that no test kills. Such a server need not sync. It does not use the JIT
/// compiler, because each session would have to load the compiler.
const TEST_SERVER_SETTINGS: [&str; 2] = ["fsync=off", "jit=off"];

/// Parts of the names of the tests of faults, crashes and histories. The last one is the test of random
/// histories; it has the same name in every backend.
const FAULT_TEST_FILTERS: [&str; 11] = [
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
    "the_store_agrees_with_the_model",
];

/// Runs the long form of the tests of faults, one at a time, and shows what each of them prints.
pub(crate) fn run_faults(root: &Path) -> Result<()> {
    let command =
        ["test", "--release", "--workspace", "--tests", "--no-fail-fast", "--", "--nocapture", "--test-threads=1"];
    with_servers(|urls| {
        cargo_with(
            root,
            "faults",
            &[&command[..], &FAULT_TEST_FILTERS].concat(),
            urls.chain([(LENGTH_VARIABLE, "long".to_owned())]),
        )
    })?;
    run_schedules(root, &["--release", "--", "--nocapture", "--test-threads=1"], Some("long"))?;
    println!("\n== all fault tests passed");
    Ok(())
}

/// Writes docs/backends.md, the page about what the backends can do.
pub(crate) fn write_matrix(root: &Path) -> Result<()> {
    let command = ["test", "--package", "cli", "--test", "it", "--quiet", "--", "matrix::"];
    cargo_with(root, "matrix", &command, [("AGENTSTORE_WRITE_MATRIX", "1".to_owned())])
}

/// Checks that the benchmarks of other queues compile. They have their own lock file, which must agree with their
/// manifest.
fn check_queue_benchmarks(root: &Path) -> Result<()> {
    let check =
        ["check", "--quiet", "--locked", "--manifest-path", "benches/queues/Cargo.toml", "--target-dir", "target"];
    cargo(root, "benchmarks of other queues", &check)
}

fn compile_tests(root: &Path, package_arguments: &[&str]) -> Result<()> {
    if !has_nextest(root) {
        let build = [&["test", "--no-run", "--quiet", "--lib", "--bins", "--tests"], package_arguments].concat();
        return cargo(root, "compiling the tests", &build);
    }
    cargo(root, "compiling the tests", &[&["nextest", "run", "--no-run", "--cargo-quiet"], package_arguments].concat())
}

fn run_tests(root: &Path, package_arguments: &[&str], is_full: bool) -> Result<()> {
    let profile = if is_full { "full" } else { "default" };
    // Most tests spend about half of their time waiting for a server, a disk or a lease.
    let test_threads = (2 * thread::available_parallelism().map_or(1, usize::from)).to_string();
    let command = if has_nextest(root) {
        let arguments = ["nextest", "run", "--no-fail-fast", "--no-tests", "pass", "--status-level", "slow"];
        let arguments = [&arguments[..], &["--profile", profile, "--test-threads", &test_threads]].concat();
        [&arguments[..], package_arguments].concat()
    } else {
        let skip = if is_full { [].as_slice() } else { &["--", "--skip", "pooled::"] };
        let arguments = ["test", "--lib", "--bins", "--tests", "--no-fail-fast", "--quiet"];
        [&arguments[..], package_arguments, skip].concat()
    };
    let length = if is_full { "full" } else { "quick" };
    with_servers(|urls| cargo_with(root, "tests", &command, urls.chain([(LENGTH_VARIABLE, length.to_owned())])))
}

fn run_doc_tests(root: &Path, packages: &[String]) -> Result<()> {
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

/// Returns whether a package has a library that can have doc tests. Without one, cargo refuses to run doc tests.
fn has_library(root: &Path, package: &str) -> Result<bool> {
    let metadata = ["metadata", "--no-deps", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(metadata).current_dir(root).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let found = packages.into_iter().find(|found| found.get("name").is_some_and(|name| name == package));
    let found = found.with_context(|| format!("no package of the workspace is called `{package}`"))?;
    let mut targets = found.get("targets").and_then(Value::as_array).into_iter().flatten();
    Ok(targets.any(|target| target.get("doctest").is_some_and(|it| it == true)))
}

/// Runs the tests of the memory store with shuttle, which repeats them under many schedules of their tasks. Shuttle
/// needs another build of the store and its dependencies. That build has a folder of its own, so that it does not
/// replace the usual build.
fn run_schedules(root: &Path, arguments: &[&str], length: Option<&str>) -> Result<()> {
    let command = ["test", "--package", "store-memory", "--test", "schedules", "--target-dir", "target/schedules"];
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let flags = ("RUSTFLAGS", format!("{flags} --cfg shuttle").trim_start().to_owned());
    let length = length.map(|length| (LENGTH_VARIABLE, length.to_owned()));
    cargo_with(root, "schedules", &[&command[..], arguments].concat(), length.into_iter().chain([flags]))
}

/// Runs the conformance suite and other tests of `store-postgres` again on the newest PostgreSQL, unless an environment
/// variable names a server.
fn test_on_newest_postgres(root: &Path) -> Result<()> {
    if env::var_os(POSTGRES_URL_VARIABLE).is_some() {
        return Ok(());
    }
    let server = Postgres::start_newest(&TEST_SERVER_SETTINGS)?;
    let command = [
        "test",
        "--package",
        "store-postgres",
        "--tests",
        "--quiet",
        "--",
        "conformance::",
        "caller::",
        "notifications::",
    ];
    let test_result =
        cargo_with(root, "tests on the newest PostgreSQL", &command, [(POSTGRES_URL_VARIABLE, server.url())]);
    server.stop().and(test_result)
}

/// Starts PostgreSQL, a pooler, NATS and a NATS cluster, except those that environment variables name. Calls `run` with
/// the variables for the started servers, and then stops these servers.
fn with_servers(run: impl FnOnce(&mut dyn Iterator<Item = (&'static str, String)>) -> Result<()>) -> Result<()> {
    let [is_server_given, is_pooler_given] =
        [POSTGRES_URL_VARIABLE, POOLER_URL_VARIABLE].map(|name| env::var_os(name).is_some());
    if is_server_given != is_pooler_given {
        bail!("only one of {POSTGRES_URL_VARIABLE} and {POOLER_URL_VARIABLE} is set: set both, for the same server");
    }
    let server = if is_server_given { None } else { Some(Postgres::start(&TEST_SERVER_SETTINGS)?) };
    let pooler = server.as_ref().map(PgBouncer::start).transpose()?;
    let urls = server.as_ref().zip(pooler.as_ref());
    let urls = urls.map(|(server, pooler)| {
        [(POSTGRES_URL_VARIABLE, server.url()), (POOLER_URL_VARIABLE, pooler.url().to_owned())]
    });
    let is_missing = |name: &str| env::var_os(name).is_none();
    let nats = is_missing(NATS_URL_VARIABLE).then(|| Nats::start("")).transpose()?;
    let cluster = is_missing(NATS_CLUSTER_URL_VARIABLE).then(|| Nats::start_cluster("")).transpose()?;
    let nats_url = nats.as_ref().map(|nats| (NATS_URL_VARIABLE, nats.url()));
    let cluster_url = cluster.as_ref().map(|servers| (NATS_CLUSTER_URL_VARIABLE, Nats::url_of(servers)));
    let run_result = run(&mut urls.into_iter().flatten().chain(nats_url).chain(cluster_url));
    drop(pooler);
    let stop_result = nats.into_iter().chain(cluster.into_iter().flatten()).try_for_each(Nats::stop);
    server.map_or(Ok(()), Postgres::stop).and(stop_result).and(run_result)
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
