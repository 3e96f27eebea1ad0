//! Options that name a model: the one that gets a context, or the one that wrote a message.

use agentstore::Json;
use clap::{ArgGroup, Args};
use providers::{CompileOptions, Provider, Target};

use crate::{
    document_arg::{DocumentArg, read_json},
    failure::Result,
};

const SETTINGS_FLAG: &str = "--request-settings";

/// The options that name a model.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// The API of the model: anthropic, openai-chat, openai-responses or google
    #[arg(long, value_name = "API", required = false, requires = "model")]
    provider: Provider,
    /// The name of the model, as the API expects it
    #[arg(long, value_name = "NAME", required = false, requires = "provider")]
    model: String,
    /// The platform that serves the model, if it is not the provider's own, for example `vertex`
    #[arg(long, value_name = "NAME", requires = "provider")]
    platform: Option<String>,
}

/// Makes the options that name a model required. [`ModelArgs`] alone does not require them, because some commands work
/// without a model.
pub(crate) fn required_model() -> ArgGroup {
    ArgGroup::new("required model").required(true).arg("provider")
}

impl ModelArgs {
    pub(crate) fn target(&self) -> Target {
        let target = Target::new(self.provider, &self.model);
        match &self.platform {
            Some(platform) => target.on(platform),
            None => target,
        }
    }
}

/// The options for the body of a request.
#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// If the model does not accept thinking of another model, send it as text instead of leaving it out
    #[arg(long, requires = "provider")]
    thinking_as_text: bool,
    /// Fields of the request that are not part of the history, such as tools and limits: a JSON object
    ///
    /// `@FILE` reads the object from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-", requires = "provider")]
    request_settings: Option<DocumentArg>,
    #[arg(skip)]
    parsed_settings: Option<Json>,
}

impl CompileArgs {
    /// Reads the settings. A command calls this before it opens the store.
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_settings = read_json(self.request_settings.as_ref(), SETTINGS_FLAG)?;
        Ok(())
    }

    pub(crate) fn options(&self) -> CompileOptions {
        let mut options = CompileOptions::default();
        options.thinking_as_text = self.thinking_as_text;
        options.settings.clone_from(&self.parsed_settings);
        options
    }
}
