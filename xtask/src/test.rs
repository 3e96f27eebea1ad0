//! `cargo xtask test`: everything that must hold, step by step, stopping at the first that does not. `cargo xtask
//! faults`: the faults, histories and schedules in full length. `cargo xtask matrix`: the page of the backends.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use test_servers::{NATS_CLUSTER_URL, NATS_URL, Nats, POOLER_URL, PgBouncer, Postgres, URL};

use crate::{features, tidy};

/// Runs all steps in the workspace at `root`.
pub(crate) fn run(root: &Path) -> Result<()> {
    cargo(root, "format", &["fmt", "--all", "--check"])?;
    cargo(root, "lints", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"])?;
    println!("\n== tidy");
    tidy::run(root)?;
    features::run(root)?;
    tests(root)?;
    schedules(root, &["--quiet"], None)?;
    on_the_newest(root)?;
    cargo(root, "doc tests", &["test", "--workspace", "--doc", "--quiet"])?;
    println!("\n== all steps passed");
    Ok(())
}

/// Makes the tests of faults and histories longer.
const FULL: [(&str, &str); 2] = [("AGENTSTORE_FULL_FAULTS", "1"), ("AGENTSTORE_MODEL_CASES", "1000")];

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

/// Runs what goes wrong in full length, one test after the other, and shows what each found.
pub(crate) fn faults(root: &Path) -> Result<()> {
    let run =
        ["test", "--release", "--workspace", "--tests", "--no-fail-fast", "--", "--nocapture", "--test-threads=1"];
    with_servers(|urls| {
        cargo_with(
            root,
            "faults",
            &[&run[..], &FAULTS].concat(),
            urls.chain(FULL.map(|(name, value)| (name, value.to_owned()))),
        )
    })?;
    schedules(root, &["--release", "--", "--nocapture", "--test-threads=1"], Some(FULL))?;
    println!("\n== all faults passed");
    Ok(())
}

/// Makes the page of what the backends give.
pub(crate) fn matrix(root: &Path) -> Result<()> {
    let run = ["test", "--package", "cli", "--test", "it", "--quiet", "--", "matrix::"];
    cargo_with(root, "matrix", &run, [("AGENTSTORE_WRITE_MATRIX", "1".to_owned())])
}

fn tests(root: &Path) -> Result<()> {
    let run = if has_nextest(root) {
        ["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "slow"].as_slice()
    } else {
        ["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast", "--quiet"].as_slice()
    };
    with_servers(|urls| cargo_with(root, "tests", run, urls))
}

/// Runs the store in memory under a schedule checker. That is another build of all that it is made of: it goes to a
/// folder of its own, so that the usual one stays as it is.
fn schedules(root: &Path, how: &[&str], longer: Option<[(&'static str, &str); 2]>) -> Result<()> {
    let run = ["test", "--package", "store-memory", "--test", "schedules", "--target-dir", "target/schedules"];
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let flags = ("RUSTFLAGS", format!("{flags} --cfg shuttle").trim_start().to_owned());
    let longer = longer.into_iter().flatten().map(|(name, value)| (name, value.to_owned()));
    cargo_with(root, "schedules", &[&run[..], how].concat(), longer.chain([flags]))
}

/// Runs what the suite and others ask of PostgreSQL on its newest version as well, unless the environment names a
/// server.
fn on_the_newest(root: &Path) -> Result<()> {
    if env::var_os(URL).is_some() {
        return Ok(());
    }
    let server = Postgres::start_newest(&["fsync=off"])?;
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
    let server = if named[0] { None } else { Some(Postgres::start(&["fsync=off"])?) };
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
