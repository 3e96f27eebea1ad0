//! The test of EF-8, which every backend runs with processes of its own: a process that performs effects is killed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use store_core::{
    BegunEffect, Commit, CommitCoordinator, Effect, EffectEnd, EffectIntent, EffectLayer, EffectName, EffectQuery,
    EffectStatus, EffectStore, EndEffect, LayerStore, MAX_PAGE, Message, NewEffect, NewEntry, NewThread, PageRequest,
    Resolution, ResolveEffect, Store, TenantId, end_changes,
};

use crate::{
    Failure, Random, Verdict,
    check::{expect, expect_eq, expect_some},
    given::{id, read_all_pages},
    log::entry_drafts::json,
    seed_from_env,
};

/// How many effects a process performs at most.
const MAX_EFFECTS: usize = 400;
/// A process is killed before it has sent this number of lines. It sends three lines for each effect.
const MAX_LINES: usize = 90;

/// What one process of the test does.
#[derive(Debug, Clone, Copy)]
pub struct EffectProcess {
    /// The number of the first effect that it performs.
    pub first: usize,
    /// It is killed after it has sent this number of lines. None for the last process, which ends by itself.
    pub kill_after: Option<usize>,
}

/// A store, and the file that stands for the world outside of it: it has the number of each effect that happened.
struct World {
    effects: EffectLayer,
    commits: Arc<dyn CommitCoordinator>,
    happened: PathBuf,
}

/// Performs effects from a number on. Every second one ends with a commit. `send` sends a line before and after each
/// effect, and after its end is stored. A process that the test kills calls this.
///
/// # Errors
/// Any error of the store; an error of the file `happened`.
pub async fn perform_effects(store: &dyn Store, happened: &Path, first: usize, send: fn(String)) -> Verdict {
    let world = World::open(store, happened).await?;
    for number in first..first + MAX_EFFECTS {
        let intent = EffectIntent::new(id("line"), json(&number.to_string()));
        let begun = world.effects.begin_effect(NewEffect::new(name(number), intent)).await?;
        let BegunEffect::Fresh(effect) = begun else { continue };
        send(format!("begun {number}"));
        world.act(number)?;
        send(format!("happened {number}"));
        world.end(number, effect).await?;
        send(format!("ended {number}"));
    }
    Ok(())
}

/// Tests EF-8: runs processes that perform effects, and kills all but the last. No effect happens twice, and each one
/// that may have happened is done or listed in doubt. What is resolved by what is known outside is performed once in
/// the end.
///
/// `open` opens the store. `run` runs a process that calls [`perform_effects`], and returns all lines that it sent.
///
/// # Errors
/// What is wrong; any error of the store.
pub async fn check_killed_effects<F: Future<Output = Arc<dyn Store>> + Send>(
    kills: usize,
    happened: &Path,
    open: impl Fn() -> F + Send + Sync,
    run: impl Fn(EffectProcess) -> Vec<String> + Send + Sync,
) -> Verdict {
    let mut random = Random::new(seed_from_env("AGENTSTORE_SEED"));
    let (mut first, mut doubts, mut ended, mut resolved) = (0, 0, 0, BTreeSet::new());
    for round in 0..=kills {
        let is_last = round == kills;
        let kill_after = (!is_last).then(|| random.below(MAX_LINES));
        let lines = run(EffectProcess { first, kill_after });
        let reported: Vec<usize> = lines.iter().filter_map(|line| line.strip_prefix("ended ")?.parse().ok()).collect();
        let store = open().await;
        let world = World::open(&*store, happened).await?;
        world.check(&reported, &resolved).await?;
        ended += reported.len();
        // Some doubts stay for a while: their effects are not begun again.
        doubts += world.resolve(&mut resolved, || round + 1 >= kills || random.below(2) == 0).await?;
        first = world.first_open().await?;
        store.close().await?;
    }
    let _ignored =
        writeln!(std::io::stdout(), "{kills} kills, {ended} effects ended, {doubts} times in doubt, none twice");
    expect(ended > 0, "nothing was performed")
}

impl World {
    async fn open(store: &dyn Store, happened: &Path) -> Result<Self, Failure> {
        let stores = store.tenant(&TenantId::default_tenant())?;
        let commits = expect_some(stores.commits.clone(), "a coordinator")?;
        if commits.threads().load_thread(&id("t")).await?.is_none() {
            let _thread = commits.threads().create_thread(NewThread::new(id("t"))).await?;
        }
        Ok(Self { effects: EffectLayer::new(LayerStore::new(&stores)?), commits, happened: happened.to_owned() })
    }

    /// Lets an effect happen.
    fn act(&self, number: usize) -> Verdict {
        let file = OpenOptions::new().append(true).create(true).open(&self.happened);
        let written = file.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
        written.map_err(|error| Failure::new(error.to_string()))
    }

    /// Stores that an effect has happened.
    async fn end(&self, number: usize, effect: Effect) -> Verdict {
        let done = EffectEnd::Done(effect.intent.clone());
        if number.is_multiple_of(2) {
            let _ended = self.effects.end_effect(EndEffect::new(effect.name, effect.attempt, done)).await?;
        } else {
            let answer = NewEntry::new(Message::assistant(number.to_string()));
            let commit = Commit::new(id("t")).with_key(id(&number.to_string())).entry(answer);
            let _receipt = self.commits.commit(commit.with_documents(end_changes(&effect, done)?)).await?;
        }
        Ok(())
    }

    /// How often each effect happened.
    fn happened(&self) -> Result<BTreeMap<usize, usize>, Failure> {
        let mut counts = BTreeMap::new();
        for line in fs::read_to_string(&self.happened).unwrap_or_default().lines() {
            *counts.entry(number_in(line)?).or_default() += 1;
        }
        Ok(counts)
    }

    /// The effects of a query, with their numbers.
    async fn listed(&self, query: EffectQuery) -> Result<BTreeMap<usize, Effect>, Failure> {
        let first = PageRequest::first(MAX_PAGE);
        let listed = read_all_pages(first, |page| self.effects.list_effects(query.clone().with_page(page))).await?;
        listed.into_iter().map(|effect| Ok((number_in(effect.name.id().as_str())?, effect))).collect()
    }

    /// Checks that no effect happened twice, that each one that happened is done or listed in doubt, and that each one
    /// whose end a process has reported is done. `resolved` are those that the test itself has ended.
    async fn check(&self, reported: &[usize], resolved: &BTreeSet<usize>) -> Verdict {
        let (happened, known) = (self.happened()?, self.listed(EffectQuery::default()).await?);
        for (number, count) in &happened {
            expect(*count == 1, format!("effect {number} happened {count} times"))?;
            let status = known.get(number).map(|effect| effect.status);
            let is_known = status.is_some_and(|it| it.is_in_doubt() || it == EffectStatus::Done);
            expect(is_known, format!("effect {number} happened, and is {status:?}"))?;
        }
        let is_done = |effect: &Effect| effect.status == EffectStatus::Done;
        for (number, effect) in known.iter().filter(|(_, effect)| is_done(effect)) {
            expect(happened.contains_key(number), format!("effect {number} is done, but did not happen"))?;
            expect_eq(effect.outcome.as_ref(), Some(&json(&number.to_string())))?;
        }
        for number in reported {
            expect(known.get(number).is_some_and(is_done), format!("effect {number} was reported, and is not done"))?;
        }
        let thread = expect_some(self.commits.threads().load_thread(&id("t")).await?, "the thread")?;
        let is_committed = |number: &usize| !number.is_multiple_of(2) && !resolved.contains(number);
        let committed = known.iter().filter(|(number, effect)| is_committed(number) && is_done(effect)).count();
        // A commit and the end of its effect are one step.
        expect_eq(thread.version.number(), committed as u64)
    }

    /// Resolves some of the effects in doubt by what is known outside, and adds those that happened to `resolved`.
    /// Returns how many were in doubt.
    async fn resolve(
        &self,
        resolved: &mut BTreeSet<usize>,
        mut is_resolved: impl FnMut() -> bool + Send,
    ) -> Result<usize, Failure> {
        let (in_doubt, happened) = (self.listed(EffectQuery::default().in_doubt()).await?, self.happened()?);
        for (number, effect) in in_doubt.iter().filter(|_| is_resolved()) {
            let resolution = if happened.contains_key(number) {
                resolved.insert(*number);
                Resolution::Done(effect.intent.clone())
            } else {
                Resolution::Retry
            };
            let _resolved = self.effects.resolve_effect(ResolveEffect::new(effect.name.clone(), resolution)).await?;
        }
        Ok(in_doubt.len())
    }

    /// The number of the first effect that has not ended; that of the next one if all have.
    async fn first_open(&self) -> Result<usize, Failure> {
        let known = self.listed(EffectQuery::default()).await?;
        let open = known.iter().find(|(_, effect)| !effect.status.is_ended()).map(|(number, _)| *number);
        Ok(open.unwrap_or_else(|| known.keys().next_back().map_or(0, |last| last + 1)))
    }
}

fn name(number: usize) -> EffectName {
    EffectName::new(id("t"), id("r"), id(&number.to_string())).expect("a short id")
}

fn number_in(text: &str) -> Result<usize, Failure> {
    text.parse().map_err(|_| Failure::new(format!("{text:?} is no number")))
}
