//! The APIs of providers, and the interface between them and the shared code.

use std::{fmt, str::FromStr};

use store_core::{Error, Origin, Result};

use crate::{
    anthropic::Anthropic,
    compile::Compiler,
    google::Google,
    models::{self, Feature},
    normalize::Reader,
    openai_chat::OpenAiChat,
    openai_responses::OpenAiResponses,
    value::{Object, Value},
};

/// An API of a provider that this crate reads and writes.
///
/// ```
/// let provider: providers::Provider = "anthropic".parse()?;
/// assert_eq!(provider.name(), "anthropic");
/// assert!("acme".parse::<providers::Provider>().is_err());
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Provider {
    pub(crate) api: &'static dyn Api,
}

/// All APIs. To add one, write its module and add it here.
static APIS: [&dyn Api; 4] = [&Anthropic, &OpenAiChat, &OpenAiResponses, &Google];

/// What the shared code needs to know about an API.
pub(crate) trait Api: Sync {
    /// The name by which users of this crate and of the command-line tool choose the API, such as `anthropic`.
    fn name(&self) -> &'static str;

    /// The name of the provider in the origin of a block.
    fn vendor(&self) -> &'static str;

    /// The names of the API in the origin of a block. The first is the one that this crate writes. `None` stands for an
    /// origin that does not name the API.
    fn api_names(&self) -> &'static [Option<&'static str>];

    /// JSON pointers to the fields of a block, in the provider's own form, that only the model that made them accepts.
    fn fields_bound_to_model(&self) -> &'static [&'static str];

    /// The fields of a request that hold the history.
    fn history_fields(&self) -> &'static [&'static str];

    /// Whether a block that only the provider understands is still valid without the fields that are bound to its
    /// model.
    fn keeps_blocks_without_fields_bound_to_model(&self) -> bool {
        false
    }

    /// Reads the messages of a request or of a reply.
    fn read(&self, body: &Object, reader: &mut Reader) -> Result<()>;

    /// Builds a reply from the events of its stream.
    fn join(&self, events: &[Value]) -> Result<Object>;

    /// Writes a request with the messages of a context.
    fn write(&self, compiler: &mut Compiler<'_>) -> Result<Object>;

    /// Returns a warning for each part of a body that the API is known to refuse and that this crate does not change.
    fn warnings(&self, _body: &Object, _target: &Target) -> Vec<String> {
        Vec::new()
    }

    /// Reads opaque data that another tool wrote in its own format, and adds it to `native`. Returns whether the format
    /// is known.
    fn read_foreign_data(&self, _data: &Value, _native: &mut crate::native::Native) -> bool {
        false
    }
}

impl Provider {
    /// Returns all providers.
    pub fn all() -> impl Iterator<Item = Self> {
        APIS.into_iter().map(|api| Self { api })
    }

    /// Returns the name of the API, such as `anthropic`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.api.name()
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Provider {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Provider {}

impl FromStr for Provider {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::all().find(|provider| provider.name() == name).ok_or_else(|| {
            let known_names = Self::all().map(Self::name).collect::<Vec<_>>().join(", ");
            Error::invalid("provider", format!("`{name}` is unknown; the known ones are {known_names}"))
        })
    }
}

/// The model that a body is for, or comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// The API.
    pub provider: Provider,
    /// The name of the model, as the API expects it.
    pub model: String,
    /// The platform that serves the model, if it is not the provider's own, for example `vertex` or `bedrock`.
    ///
    /// Signatures of one platform are not sent to another.
    pub platform: Option<String>,
}

impl Target {
    /// Creates the target for a model on the provider's own platform.
    #[must_use]
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self { provider, model: model.into(), platform: None }
    }

    /// Sets the platform.
    #[must_use]
    pub fn on(mut self, platform: impl Into<String>) -> Self {
        self.platform = Some(platform.into());
        self
    }

    /// Returns the target whose model made the blocks with this origin. Returns `None` if this crate does not know the
    /// API, or if the origin names no model.
    ///
    /// ```
    /// let target = providers::Target::new("openai-responses".parse()?, "gpt-5");
    /// assert_eq!(providers::Target::of_origin(&target.origin()), Some(target));
    /// # Ok::<(), store_core::Error>(())
    /// ```
    #[must_use]
    pub fn of_origin(origin: &Origin) -> Option<Self> {
        let of_provider = |provider: &Provider| {
            let platform = origin.endpoint.clone();
            let target = Self { provider: *provider, model: origin.model.clone()?, platform };
            target.has_api_and_platform_of(origin).then_some(target)
        };
        Provider::all().find_map(|provider| of_provider(&provider))
    }

    /// Returns the origin of the blocks that the model makes.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let mut origin = Origin::new(self.provider.api.vendor()).with_model(&self.model);
        origin.api = self.provider.api.api_names().iter().flatten().next().map(|&name| name.to_owned());
        origin.endpoint.clone_from(&self.platform);
        origin
    }

    /// Returns whether `origin` names the API and the platform of this target. The model may differ.
    pub(crate) fn has_api_and_platform_of(&self, origin: &Origin) -> bool {
        origin.provider == self.provider.api.vendor()
            && self.provider.api.api_names().contains(&origin.api.as_deref())
            && origin.endpoint == self.platform
    }

    /// Returns whether `origin` is this target: the same model, on the same API and platform.
    pub(crate) fn is_origin(&self, origin: &Origin) -> bool {
        let model = origin.model.as_deref().map(models::base_name);
        self.has_api_and_platform_of(origin) && model == Some(models::base_name(&self.model))
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        models::has_feature(self.provider.name(), &self.model, feature)
    }
}
