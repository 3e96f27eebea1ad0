//! Measures how long the steps and the groups of tests of a run take.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// The lines of the page between which the times of a run are written.
const BEGIN_MARKER: &str = "<!-- times: begin -->";
const END_MARKER: &str = "<!-- times: end -->";
/// Groups of tests that took less than this are shown in one line.
const SMALL_GROUP: Duration = Duration::from_secs(3);

/// The times of the steps and of the tests of a run.
#[derive(Debug)]
pub(super) struct Times {
    last_end: Instant,
    steps: Vec<(&'static str, Duration)>,
    groups: BTreeMap<(String, String), Group>,
}

/// The tests of one module of a crate.
#[derive(Debug, Default)]
struct Group {
    test_count: usize,
    total_time: Duration,
    slowest_time: Duration,
}

impl Times {
    #[expect(clippy::disallowed_methods, reason = "a run is measured in real time")]
    pub(super) fn begin() -> Self {
        Self { last_end: Instant::now(), steps: Vec::new(), groups: BTreeMap::new() }
    }

    /// Records the end of a step, which began when the previous step ended.
    #[expect(clippy::disallowed_methods, reason = "a run is measured in real time")]
    pub(super) fn end_step(&mut self, name: &'static str) {
        let now = Instant::now();
        let duration = now.duration_since(self.last_end);
        println!("   ({name}: {:.0} s)", duration.as_secs_f64());
        self.steps.push((name, duration));
        self.last_end = now;
    }

    /// Reads the report of nextest about the tests. Without a report, the table of tests is left out.
    pub(super) fn read_test_report(&mut self, root: &Path, is_full: bool) -> Result<()> {
        let path = root.join("target/nextest").join(if is_full { "full" } else { "default" }).join("junit.xml");
        let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
        let report =
            roxmltree::Document::parse(&text).with_context(|| format!("{} is not a report", path.display()))?;
        for case in report.descendants().filter(|node| node.has_tag_name("testcase")) {
            let attribute = |name| case.attribute(name).unwrap_or_default();
            let package = attribute("classname").split("::").next().unwrap_or_default().to_owned();
            let module = group_name(attribute("name")).to_owned();
            let duration = Duration::from_secs_f64(attribute("time").parse().unwrap_or(0.0));
            let group = self.groups.entry((package, module)).or_default();
            group.test_count += 1;
            group.total_time += duration;
            group.slowest_time = group.slowest_time.max(duration);
        }
        Ok(())
    }

    /// Writes the tables into docs/testing.md.
    pub(super) fn write_to_page(&self, root: &Path, is_full: bool) -> Result<()> {
        let path = root.join("docs/testing.md");
        let page = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        let (before, rest) =
            page.split_once(BEGIN_MARKER).with_context(|| format!("{} has no `{BEGIN_MARKER}`", path.display()))?;
        let (_, after) =
            rest.split_once(END_MARKER).with_context(|| format!("{} has no `{END_MARKER}`", path.display()))?;
        let command = if is_full { "cargo xtask test --full" } else { "cargo xtask test" };
        let page = format!(
            "{before}{BEGIN_MARKER}\n`{command}` on {}.\n\n{self}{END_MARKER}{after}",
            crate::bench::describe_machine()
        );
        fs::write(&path, page).with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Returns the group of a test: the first part of its path, and also the second if the first is `conformance` or
/// `tests`.
fn group_name(name: &str) -> &str {
    let parts = if name.starts_with("conformance::") || name.starts_with("tests::") { 2 } else { 1 };
    let mut ends = name.match_indices("::").map(|(at, _)| at);
    ends.nth(parts - 1).or_else(|| name.rfind("::")).and_then(|end| name.get(..end)).unwrap_or("(root)")
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| Step | Seconds |\n|---|---:|")?;
        for (name, duration) in &self.steps {
            writeln!(f, "| {name} | {:.0} |", duration.as_secs_f64())?;
        }
        let total: Duration = self.steps.iter().map(|(_, duration)| *duration).sum();
        writeln!(f, "| all | {:.0} |", total.as_secs_f64())?;
        if self.groups.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n| Crate | Tests of | Tests | Seconds of tests | Slowest |\n|---|---|---:|---:|---:|")?;
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.total_time));
        let (large, small): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|(_, group)| group.total_time >= SMALL_GROUP);
        let row = |f: &mut fmt::Formatter<'_>, package: &str, module: &str, group: &Group| {
            let Group { test_count, total_time, slowest_time } = group;
            let (total, slowest) = (total_time.as_secs_f64(), slowest_time.as_secs_f64());
            writeln!(f, "| {package} | {module} | {test_count} | {total:.0} | {slowest:.1} |")
        };
        for ((package, module), group) in &large {
            row(f, package, &format!("`{module}`"), group)?;
        }
        let others = small.into_iter().map(|(_, group)| group);
        row(f, "others", "groups that took less than 3 s", &Group::sum(others))?;
        row(f, "all", "", &Group::sum(self.groups.values()))
    }
}

impl Group {
    fn sum<'a>(groups: impl Iterator<Item = &'a Self>) -> Self {
        groups.fold(Self::default(), |sum, group| Self {
            test_count: sum.test_count + group.test_count,
            total_time: sum.total_time + group.total_time,
            slowest_time: sum.slowest_time.max(group.slowest_time),
        })
    }
}
