//! A process that performs effects is killed at any moment (EF-8).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use conformance_tests::{Random, TestLength, seed_from_env};
use store_core::{
    BegunEffect, Commit, CommitCoordinator, Effect, EffectEnd, EffectIntent, EffectLayer, EffectName, EffectQuery,
    EffectStatus, EffectStore, EndEffect, Json, LayerStore, MAX_PAGE, Message, NewEffect, NewEntry, NewThread,
    PageRequest, Resolution, ResolveEffect, Store, TenantId, end_changes,
};
use store_file::{FileConfig, FileStore};
use test_servers::{Process, send_line};

/// Where the process of these tests works, and the number of the first effect that it begins.
const FOLDER: &str = "AGENTSTORE_TEST_FOLDER";
const FIRST: &str = "AGENTSTORE_TEST_FIRST";
/// How many effects a process performs at most.
const MAX_EFFECTS: usize = 400;

/// The store, and the file that stands for the world outside of it: it has the name of each effect that happened.
struct World {
    store: FileStore,
    effects: EffectLayer,
    commits: Arc<dyn CommitCoordinator>,
    happened: PathBuf,
}

impl World {
    async fn open(folder: &Path) -> Self {
        let store = FileStore::open(folder.join("root"), FileConfig::default()).unwrap();
        let stores = store.tenant(&TenantId::default_tenant()).unwrap();
        let threads = stores.threads.clone().unwrap();
        if threads.load_thread(&"t".parse().unwrap()).await.unwrap().is_none() {
            let _thread = threads.create_thread(NewThread::new("t".parse().unwrap())).await.unwrap();
        }
        let effects = EffectLayer::new(LayerStore::new(&stores).unwrap());
        Self { store, effects, commits: stores.commits.unwrap(), happened: folder.join("happened") }
    }

    /// Performs effects from a number on. Every second one ends with a commit.
    async fn perform(&self, first: usize) {
        let mut outside = OpenOptions::new().append(true).create(true).open(&self.happened).unwrap();
        for number in first..first + MAX_EFFECTS {
            let intent = EffectIntent::new("line".parse().unwrap(), Json::of(&number).unwrap());
            let begun = self.effects.begin_effect(NewEffect::new(name(number), intent)).await.unwrap();
            let BegunEffect::Fresh(effect) = begun else { continue };
            outside.write_all(format!("{number}\n").as_bytes()).unwrap();
            let done = EffectEnd::Done(effect.intent.clone());
            if number % 2 == 0 {
                self.effects.end_effect(EndEffect::new(effect.name, effect.attempt, done)).await.unwrap();
            } else {
                let answer = NewEntry::new(Message::assistant(number.to_string()));
                let commit =
                    Commit::new("t".parse().unwrap()).with_key(number.to_string().parse().unwrap()).entry(answer);
                let commit = commit.with_documents(end_changes(&effect, done).unwrap());
                let _receipt = self.commits.commit(commit).await.unwrap();
            }
            send_line(number);
        }
    }

    /// Returns how often each effect happened.
    fn happened(&self) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for line in fs::read_to_string(&self.happened).unwrap_or_default().lines() {
            *counts.entry(line.parse().unwrap()).or_default() += 1;
        }
        counts
    }

    async fn listed(&self, query: EffectQuery) -> Vec<Effect> {
        let (mut found, mut page) = (Vec::new(), PageRequest::first(MAX_PAGE));
        loop {
            let listed = self.effects.list_effects(query.clone().with_page(page.clone())).await.unwrap();
            found.extend(listed.items);
            let Some(next) = listed.next else { return found };
            page = page.after(next);
        }
    }

    /// Checks that no effect happened twice, that each one that happened is done or listed in doubt, and that each one
    /// that the process finished is done. `resolved` are those that the test itself has ended.
    async fn check(&self, finished: &[String], resolved: &BTreeSet<usize>) {
        let happened = self.happened();
        let known: BTreeMap<_, _> = self.listed(EffectQuery::default()).await.into_iter().map(by_number).collect();
        for (number, count) in &happened {
            assert_eq!(*count, 1, "effect {number} happened {count} times");
            let status = known.get(number).map(|effect| effect.status);
            assert!(status.is_some_and(|it| it.is_in_doubt() || it == EffectStatus::Done), "{number}: {status:?}");
        }
        for (number, effect) in known.iter().filter(|(_, effect)| effect.status == EffectStatus::Done) {
            assert!(happened.contains_key(number), "effect {number} is done, but did not happen");
            assert_eq!(effect.outcome, Some(Json::of(number).unwrap()));
        }
        for number in finished {
            assert_eq!(known[&number.parse().unwrap()].status, EffectStatus::Done, "{number}");
        }
        let thread = self.commits.threads().load_thread(&"t".parse().unwrap()).await.unwrap().unwrap();
        let ended = known.iter().filter(|(number, effect)| *number % 2 == 1 && effect.status == EffectStatus::Done);
        let committed = ended.filter(|(number, _)| !resolved.contains(*number)).count();
        assert_eq!(thread.version.number(), committed as u64, "a commit and the end of its effect are one step");
    }

    /// Resolves some of the effects in doubt by what is known outside, and adds those that happened to `resolved`.
    /// Returns how many were in doubt.
    async fn resolve(&self, resolved: &mut BTreeSet<usize>, mut is_resolved: impl FnMut() -> bool) -> usize {
        let (in_doubt, happened) = (self.listed(EffectQuery::default().in_doubt()).await, self.happened());
        for effect in in_doubt.iter().filter(|_| is_resolved()) {
            let resolution = if happened.contains_key(&number_of(effect)) {
                resolved.insert(number_of(effect));
                Resolution::Done(effect.intent.clone())
            } else {
                Resolution::Retry
            };
            let request = ResolveEffect::new(effect.name.clone(), resolution);
            self.effects.resolve_effect(request).await.unwrap();
        }
        in_doubt.len()
    }
}

fn name(number: usize) -> EffectName {
    let id = number.to_string().parse().unwrap();
    EffectName::new("t".parse().unwrap(), "r".parse().unwrap(), id).unwrap()
}

fn number_of(effect: &Effect) -> usize {
    effect.name.id().as_str().parse().unwrap()
}

fn by_number(effect: Effect) -> (usize, Effect) {
    (number_of(&effect), effect)
}

/// The other side of the test below. If it is started by hand, it has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_performs_effects() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let first = std::env::var(FIRST).unwrap().parse().unwrap();
    let world = World::open(Path::new(&folder)).await;
    send_line("open");
    world.perform(first).await;
    world.store.close().await.unwrap();
}

/// Tests EF-8: a process is killed at any moment. No effect happens twice, and each one that may have happened is done
/// or listed in doubt. What is resolved by what is known outside is performed once in the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_performs_no_effect_twice() {
    let (folder, rounds) = (tempfile::tempdir().unwrap(), TestLength::pick_by_env(20, 200, 1_000));
    let mut random = Random::new(seed_from_env("AGENTSTORE_SEED"));
    let (mut first, mut doubts, mut finished, mut resolved) = (0, 0, 0, BTreeSet::new());
    for round in 0..=rounds {
        let task = [(FOLDER, folder.path().to_str().unwrap()), (FIRST, &first.to_string())];
        let mut process = Process::begin(&[], "effects::a_process_performs_effects", &task);
        assert_eq!(process.next_line().as_deref(), Some("open"));
        let said = if round < rounds {
            std::thread::sleep(Duration::from_micros(u64::try_from(random.below(20_000)).unwrap()));
            process.kill()
        } else {
            process.end()
        };
        let world = World::open(folder.path()).await;
        world.check(&said, &resolved).await;
        finished += said.len();
        // Some doubts stay for a while: their effects are not begun again.
        doubts += world.resolve(&mut resolved, || round + 1 >= rounds || random.below(2) == 0).await;
        if round < rounds {
            let open = world.listed(EffectQuery::default()).await;
            let is_open = |effect: &&Effect| !effect.status.is_ended();
            let open = open.iter().filter(is_open).map(number_of).min();
            first = open.unwrap_or_else(|| world.happened().keys().next_back().map_or(0, |last| last + 1));
        }
        world.store.close().await.unwrap();
    }
    println!("{rounds} kills, {finished} effects finished, {doubts} times in doubt, none twice");
    assert!(finished > 0, "nothing was performed");
}
