//! Which model answers, and with which settings.

use agentstore::Json;
use anyhow::{Context, Result};
use providers::{CompileOptions, Provider, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{api::Endpoint, tool};

/// The model that answers. It is stored in the state of the thread, so that the chat continues with it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Model {
    provider: String,
    pub(crate) name: String,
    /// Fields of each request that the user chose.
    #[serde(default)]
    settings: Map<String, Value>,
}

impl Model {
    /// # Errors
    /// The settings are not a JSON object.
    pub(crate) fn new(provider: Provider, name: String, settings: Option<Json>) -> Result<Self> {
        let settings = settings.map(|settings| settings.to()).transpose().context("the settings are not an object")?;
        Ok(Self { provider: provider.name().to_owned(), name, settings: settings.unwrap_or_default() })
    }

    /// # Errors
    /// A stored name of a provider is not known.
    pub(crate) fn target(&self) -> Result<Target> {
        Ok(Target::new(self.provider.parse()?, &self.name))
    }

    /// Returns the fields of a request besides the history: those for streaming, the tool, and the settings of the
    /// user.
    pub(crate) fn options(&self) -> Result<CompileOptions> {
        let mut settings: Map<String, Value> = serde_json::from_str(Endpoint::of(&self.provider)?.settings)?;
        settings.insert("tools".to_owned(), tool::declaration(&self.provider));
        settings.extend(self.settings.clone());
        let mut options = CompileOptions::default();
        options.settings = Some(Json::of(&settings)?);
        Ok(options)
    }
}
