//! The agent: what is published of it, and its runs.

use std::sync::Arc;

use agentstore::{
    AgentId, Commit, CommitCoordinator, DefinitionRef, DefinitionVersion, Expect, Json, Manifest, ManifestChoice,
    Message, NewEntry, NewVersion, Publication, PublicationId, PublishAll, RegistryStore, RollbackPublication, Run,
    RunChange, RunId, RunOutcome, RunStatus, Stores, TenantId, ThreadId, VersionRef, pin_changes, unpin_changes,
};
use anyhow::{Context, Result};

use crate::settings::Settings;

/// The id of the agent.
const AGENT: &str = "assistant";

pub(crate) struct Agent {
    registry: Arc<dyn RegistryStore>,
    commits: Arc<dyn CommitCoordinator>,
    definition: DefinitionRef,
}

impl Agent {
    pub(crate) fn new(stores: &Stores, tenant: &TenantId) -> Result<Self> {
        let definition = DefinitionRef::new("agent".parse()?, AGENT.parse()?)?;
        Ok(Self { registry: stores.registry(tenant)?, commits: stores.commits(tenant)?, definition })
    }

    /// Publishes instructions. Runs that start from now on use them.
    pub(crate) async fn publish(&self, id: PublicationId, instructions: String) -> Result<String> {
        let version = NewVersion::new(self.definition.clone(), Json::of(&instructions)?);
        let publication = self.registry.publish_all(PublishAll::new(id).version(version)).await?;
        Ok(text_of(&publication))
    }

    /// Publishes the contents of an earlier snapshot again. Nothing that was published is changed.
    pub(crate) async fn roll_back(&self, snapshot: u64, id: PublicationId) -> Result<String> {
        let request = RollbackPublication::new(snapshot, PublishAll::new(id));
        Ok(text_of(&self.registry.rollback_publication(request).await?))
    }

    /// Starts a run. One commit writes the question, the run with the publication that it uses, and the pins of its
    /// versions. If a purge is about to remove one of these, the commit is refused with `Conflict`.
    pub(crate) async fn start(&self, id: RunId, question: String) -> Result<String> {
        let latest = self.registry.load_manifest(&ManifestChoice::Latest).await?;
        let manifest = latest.context("nothing is published")?;
        let mut run = RunChange::new(id.clone(), RunStatus::Running).with_agent(AgentId::new(AGENT)?);
        run.manifest = Some(manifest.publication.content.id.to_string());
        let commit = Commit::new(thread_of(&id)?)
            .expecting(Expect::Absent)
            .entry(NewEntry::new(Message::user(question)))
            .with_run(run)
            .with_documents(pin_changes(&id, names_of(&manifest))?);
        let _receipt = self.commits.commit(commit).await?;
        self.used_version(&id, &manifest).map(|version| format!("{id} uses {}", version.name))
    }

    /// Tells what a run uses: the instructions that it pinned, and the present settings.
    pub(crate) async fn show(&self, id: RunId, settings: &Settings) -> Result<String> {
        let manifest = self.manifest_of(&self.run(&id).await?).await?;
        let version = self.used_version(&id, &manifest)?;
        Ok(format!("{id} uses {}: {}, with{}", version.name, version.content.value, settings.text()))
    }

    /// Ends a run with an answer. A real server would ask a model here.
    pub(crate) async fn finish(&self, id: RunId, settings: &Settings) -> Result<String> {
        let run = self.run(&id).await?;
        let manifest = self.manifest_of(&run).await?;
        let answer = self.show(id.clone(), settings).await?;
        let thread = self.commits.threads().load_thread(&run.thread).await?.context("the thread was deleted")?;
        let commit = Commit::new(run.thread)
            .expecting(Expect::Version(thread.version))
            .entry(NewEntry::new(Message::assistant(answer.clone())))
            .with_run(RunChange::new(id.clone(), RunStatus::done(RunOutcome::NaturalEnd)))
            .with_documents(unpin_changes(&id, names_of(&manifest))?);
        let _receipt = self.commits.commit(commit).await?;
        Ok(answer)
    }

    async fn run(&self, id: &RunId) -> Result<Run> {
        self.commits.threads().load_run(id).await?.with_context(|| format!("there is no run {id}"))
    }

    async fn manifest_of(&self, run: &Run) -> Result<Manifest> {
        let id = run.manifest.as_ref().context("the run has no manifest")?;
        let choice = ManifestChoice::Publication(PublicationId::new(id)?);
        self.registry.load_manifest(&choice).await?.context("the publication of the run does not exist")
    }

    fn used_version<'a>(&self, id: &RunId, manifest: &'a Manifest) -> Result<&'a DefinitionVersion> {
        manifest.version_of(&self.definition).with_context(|| format!("{id} has a manifest without the agent"))
    }
}

/// Each run has a thread of its own.
fn thread_of(run: &RunId) -> Result<ThreadId> {
    Ok(ThreadId::new(run.as_str())?)
}

fn names_of(manifest: &Manifest) -> impl Iterator<Item = &VersionRef> {
    manifest.versions.iter().map(|version| &version.name)
}

fn text_of(publication: &Publication) -> String {
    let names: Vec<_> = publication.content.entries.iter().map(|entry| entry.name().to_string()).collect();
    format!("snapshot {} is {}: {}", publication.snapshot, publication.content.id, names.join(", "))
}
