//! What models accept, as far as it differs between the models of one API.
//!
//! Every rule names its source. Of several rules for a model, the one with the longest beginning of the name applies.
//! Without a rule, the model does not have the feature.

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

struct Rule {
    api: &'static str,
    /// The beginning of the model's name.
    model: &'static str,
    feature: Feature,
    value: bool,
    /// Where the rule comes from.
    #[cfg_attr(not(test), allow(dead_code, reason = "read by people and by the test that each rule has one"))]
    source: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        api: "anthropic",
        model: "claude-opus-4-8",
        feature: Feature::SystemInside,
        value: true,
        source: "accepted by the API; claude-sonnet-4-5 answers `role 'system' is not supported on this model`",
    },
    Rule {
        api: "anthropic",
        model: "claude-",
        feature: Feature::Prefill,
        value: true,
        source: "https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/prefill-claudes-response",
    },
    Rule {
        api: "anthropic",
        model: "claude-opus-4-6",
        feature: Feature::Prefill,
        value: false,
        source: "https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6",
    },
    Rule {
        api: "anthropic",
        model: "claude-sonnet-4-6",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/Kilo-Org/kilocode/issues/8262",
    },
    Rule {
        api: "anthropic",
        model: "claude-opus-4-7",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/cortexkit/magic-context/issues/511",
    },
    Rule {
        api: "anthropic",
        model: "claude-opus-4-8",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/cortexkit/magic-context/issues/511",
    },
    Rule {
        api: "anthropic",
        model: "claude-opus-5",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/cortexkit/magic-context/issues/511",
    },
    Rule {
        api: "anthropic",
        model: "claude-fable-5",
        feature: Feature::Prefill,
        value: false,
        source: "https://github.com/cortexkit/magic-context/issues/511",
    },
    Rule {
        api: "google",
        model: "gemini-3",
        feature: Feature::SignedCalls,
        value: true,
        source: "https://ai.google.dev/gemini-api/docs/thought-signatures",
    },
    Rule {
        api: "google",
        model: "gemini-3",
        feature: Feature::MediaInResults,
        value: true,
        source: "https://ai.google.dev/gemini-api/docs/function-calling#multimodal",
    },
];

/// Returns whether a model of an API has a feature.
pub(crate) fn has_feature(api: &str, model: &str, feature: Feature) -> bool {
    let fits = |rule: &&Rule| rule.api == api && rule.feature == feature && model.starts_with(rule.model);
    RULES.iter().filter(fits).max_by_key(|rule| rule.model.len()).is_some_and(|rule| rule.value)
}

/// Returns the name of a model without the date of its release: `claude-sonnet-4-5-20250929`,
/// `claude-sonnet-4-5@20250929` and `claude-sonnet-4-5` are the same model, as are `gpt-5-nano-2025-08-07` and
/// `gpt-5-nano`.
pub(crate) fn without_date(model: &str) -> &str {
    let is_number = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((name, date)) =
        model.rsplit_once(['-', '@']).filter(|(_, date)| is_number(date, 8) || *date == "latest")
    {
        let _ = date;
        return name;
    }
    let mut parts = model.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(name))
            if is_number(day, 2) && is_number(month, 2) && is_number(year, 4) =>
        {
            name
        }
        _ => model,
    }
}

#[cfg(test)]
mod tests {
    use super::{Feature, RULES, has_feature, without_date};

    #[test]
    fn the_longest_beginning_of_the_name_decides() {
        assert!(has_feature("anthropic", "claude-sonnet-4-5-20250929", Feature::Prefill));
        assert!(!has_feature("anthropic", "claude-opus-4-6", Feature::Prefill));
        assert!(!has_feature("google", "gemini-2.5-flash", Feature::SignedCalls));
        assert!(has_feature("google", "gemini-3.5-flash", Feature::SignedCalls));
    }

    #[test]
    fn every_rule_names_its_source() {
        assert!(RULES.iter().all(|rule| !rule.source.is_empty()));
    }

    #[test]
    fn the_date_of_a_release_does_not_count() {
        for (model, name) in [
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
            ("gpt-5-nano-2025-08-07", "gpt-5-nano"),
            ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
            ("gemini-2.5-flash", "gemini-2.5-flash"),
            ("claude-opus-4-8", "claude-opus-4-8"),
        ] {
            assert_eq!(without_date(model), name);
        }
    }
}
