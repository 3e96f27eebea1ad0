//! The differences between the models of one API in what they accept.
//!
//! Every rule names its source. If several rules fit a model, the rule with the longest beginning of the name applies.
//! If no rule fits, the model does not have the feature.

/// A property in which the models of one API differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// System messages inside the conversation.
    SystemInside,
    /// A last message of the assistant, which the model continues.
    Prefill,
    /// The first call of each step of the current turn needs a signature.
    SignedCalls,
    /// Media in the results of tools.
    MediaInResults,
}

struct FeatureRule {
    api: &'static str,
    /// The beginning of the model's name.
    model: &'static str,
    feature: Feature,
    /// Whether the models have the feature.
    value: bool,
    /// Where the rule comes from.
    #[cfg_attr(not(test), allow(dead_code, reason = "read by people and by the test that each rule has one"))]
    source: &'static str,
}

const FEATURE_RULES: &[FeatureRule] = &[
    FeatureRule {
        api: "anthropic",
        model: "claude-opus-4-8",
        feature: Feature::SystemInside,
        value: true,
        source: "accepted by the API; claude-sonnet-4-5 answers `role 'system' is not supported on this model`",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-2",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-3",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-opus-4",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-sonnet-4",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-haiku-4",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-opus-4-",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/cortexkit/magic-context/issues/511",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-sonnet-4-",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/cortexkit/magic-context/issues/511",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-haiku-4-",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/cortexkit/magic-context/issues/511",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-opus-4-0",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-opus-4-1",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-opus-4-5",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-sonnet-4-0",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-sonnet-4-5",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "anthropic",
        model: "claude-haiku-4-5",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    FeatureRule {
        api: "google",
        model: "",
        feature: Feature::SignedCalls,
        value: true,
        source: "https://ai.google.dev/gemini-api/docs/thought-signatures",
    },
    FeatureRule {
        api: "google",
        model: "",
        feature: Feature::MediaInResults,
        value: true,
        source: "https://ai.google.dev/gemini-api/docs/function-calling#multimodal",
    },
    FeatureRule {
        api: "google",
        model: "gemini-1",
        feature: Feature::SignedCalls,
        value: false,
        source: "https://ai.google.dev/gemini-api/docs/thought-signatures",
    },
    FeatureRule {
        api: "google",
        model: "gemini-1",
        feature: Feature::MediaInResults,
        value: false,
        source: "https://ai.google.dev/gemini-api/docs/function-calling#multimodal",
    },
    FeatureRule {
        api: "google",
        model: "gemini-2",
        feature: Feature::SignedCalls,
        value: false,
        source: "https://ai.google.dev/gemini-api/docs/thought-signatures",
    },
    FeatureRule {
        api: "google",
        model: "gemini-2",
        feature: Feature::MediaInResults,
        value: false,
        source: "https://ai.google.dev/gemini-api/docs/function-calling#multimodal",
    },
];

/// Returns whether a model of an API has a feature.
pub(crate) fn has_feature(api: &str, model: &str, feature: Feature) -> bool {
    let model = base_name(model);
    let fits = |rule: &&FeatureRule| rule.api == api && rule.feature == feature && begins_with_name(model, rule.model);
    FEATURE_RULES.iter().filter(fits).max_by_key(|rule| rule.model.len()).is_some_and(|rule| rule.value)
}

/// Returns whether the name of a model begins with another one. `claude-opus-4-10` does not begin with
/// `claude-opus-4-1`.
fn begins_with_name(model: &str, beginning: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let ends_with_digit = is_digit(beginning.as_bytes().last());
    model.strip_prefix(beginning).is_some_and(|rest| !(ends_with_digit && is_digit(rest.as_bytes().first())))
}

/// Returns the name of a model without the parts that platforms and releases add, so that all names of a model are
/// equal.
///
/// `claude-sonnet-4-5-20250929`, `claude-sonnet-4-5@20250929` and `us.anthropic.claude-sonnet-4-5-20250929-v1:0` are
/// `claude-sonnet-4-5`; `gpt-5-nano-2025-08-07` is `gpt-5-nano`; `models/gemini-2.5-pro` is `gemini-2.5-pro`.
pub(crate) fn base_name(model: &str) -> &str {
    let is_number = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.split_once("anthropic.").map_or(name, |(_, name)| name);
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    let is_version =
        |tail: &str| tail.strip_prefix('v').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.rsplit_once('-').filter(|(_, tail)| is_version(tail)).map_or(name, |(name, _)| name);
    let is_release = |tail: &str| is_number(tail, 8) || tail == "latest";
    let name = name.rsplit_once(['-', '@']).filter(|(_, tail)| is_release(tail)).map_or(name, |(name, _)| name);
    let mut parts = name.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(rest))
            if is_number(day, 2) && is_number(month, 2) && is_number(year, 4) =>
        {
            rest
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{FEATURE_RULES, Feature, base_name, has_feature};

    #[test]
    fn the_longest_beginning_of_the_name_decides() {
        assert!(has_feature("anthropic", "claude-sonnet-4-5-20250929", Feature::Prefill));
        for model in ["claude-opus-4-20250514", "claude-opus-4-1", "claude-haiku-4-5"] {
            assert!(has_feature("anthropic", model, Feature::Prefill), "{model}");
        }
        // None of the later ones has it, those included that did not exist when the rules were written.
        for model in ["claude-opus-4-6", "claude-opus-4-9", "claude-sonnet-4-7-20260301", "claude-opus-4-10"] {
            assert!(!has_feature("anthropic", model, Feature::Prefill), "{model}");
        }
        assert!(!has_feature("google", "gemini-2.5-flash", Feature::SignedCalls));
        for model in ["gemini-3.5-flash", "gemini-4-pro", "models/gemini-3-pro"] {
            assert!(has_feature("google", model, Feature::SignedCalls), "{model}");
        }
        assert!(!has_feature("anthropic", "claude-sonnet-5", Feature::Prefill));
    }

    #[test]
    fn every_rule_names_its_source() {
        assert!(FEATURE_RULES.iter().all(|rule| !rule.source.is_empty()));
    }

    #[test]
    fn a_base_name_lacks_what_platforms_and_releases_add() {
        for (model, name) in [
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("gpt-5-nano-2025-08-07", "gpt-5-nano"),
            ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
            ("gemini-2.5-flash", "gemini-2.5-flash"),
            ("models/gemini-2.5-flash", "gemini-2.5-flash"),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
            ("claude-opus-4-8", "claude-opus-4-8"),
        ] {
            assert_eq!(base_name(model), name);
        }
    }
}
