//! The settings of all servers, kept as config. Each server follows the changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agentstore::{
    DocumentExpect, ErrorKind, Json, SegmentId,
    layers::config::{ConfigName, ConfigRecord, ConfigStore, ConfigStoreExt, ConfigUpdate},
};
use anyhow::Result;
use futures_util::StreamExt;
use tokio::sync::watch::{self, Receiver, Sender};

/// The namespace of the config records.
const NAMESPACE: &str = "settings";

/// How long a server waits before it follows the changes again after an error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The present settings, by their keys.
type Values = BTreeMap<SegmentId, Json>;

pub(crate) struct Settings {
    config: Arc<dyn ConfigStore>,
    values: Receiver<Values>,
}

impl Settings {
    /// Returns the settings once they are loaded. A task changes them as soon as any process does, until the store is
    /// closed.
    pub(crate) async fn follow(config: Arc<dyn ConfigStore>) -> Result<Self> {
        let (sender, mut values) = watch::channel(Values::new());
        tokio::spawn(follow_changes(Arc::clone(&config), sender));
        values.changed().await?;
        Ok(Self { config, values })
    }

    pub(crate) async fn set(&self, key: SegmentId, value: Json) -> Result<String> {
        let name = ConfigName::new(NAMESPACE, &key)?;
        let record = self.config.put_config(name, value, DocumentExpect::Any).await?;
        Ok(format!("{key} has revision {}", record.revision))
    }

    /// Returns the settings as text.
    pub(crate) fn text(&self) -> String {
        text_of(&self.values.borrow())
    }
}

async fn follow_changes(config: Arc<dyn ConfigStore>, values: Sender<Values>) {
    // An error ends a watch. A new one begins with what is present by then, so no change is missed.
    while let Err(error) = watch_until_error(&*config, &values).await {
        if error.kind() == ErrorKind::Closed {
            return;
        }
        println!("the settings cannot be followed: {error}");
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn watch_until_error(config: &dyn ConfigStore, values: &Sender<Values>) -> agentstore::Result<()> {
    let mut updates = config.watch_config(&SegmentId::new(NAMESPACE)?).await?;
    while let Some(update) = updates.next().await {
        let update = update?;
        values.send_modify(|values| apply(update, values));
        println!("settings:{}", text_of(&values.borrow()));
    }
    Ok(())
}

fn apply(update: ConfigUpdate, values: &mut Values) {
    let key_and_value = |record: ConfigRecord| (record.name.id, record.content.value);
    match update {
        ConfigUpdate::Present(records) => *values = records.into_iter().map(key_and_value).collect(),
        ConfigUpdate::Changed(_, Some(record)) => values.extend([key_and_value(record)]),
        ConfigUpdate::Changed(entry, None) => drop(values.remove(&entry.name.id)),
    }
}

fn text_of(values: &Values) -> String {
    values.iter().map(|(key, value)| format!(" {key}={value}")).collect()
}
