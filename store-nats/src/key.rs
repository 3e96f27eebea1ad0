//! Names on the server: subjects, and ids as tokens of subjects (NA-2, NA-9).
//!
//! The token of an id that consists only of `A-Z a-z 0-9 _ -` is a `t` and the unchanged id. The token of any other id
//! is a `b` and the id in base64. So no two ids share a token, no id spans more than one token, and an operator can
//! read most ids.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use store_core::{ClaimNumber, DispatchId, LiveTarget, TenantId, ThreadId};

/// The largest length, in bytes, of an id that is written unchanged. Even if all ids of a subject are in base64, the
/// subject stays below 2 KiB.
const LONGEST_PLAIN: usize = 256;

/// Returns an id as one token.
pub(crate) fn token(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match id.len() <= LONGEST_PLAIN && id.bytes().all(is_plain) {
        true => format!("t{id}"),
        false => format!("b{}", BASE64.encode(id)),
    }
}

/// Returns the id of a token.
pub(crate) fn id(token: &str) -> Option<String> {
    match token.split_at_checked(1)? {
        ("t", plain) => Some(plain.to_owned()),
        ("b", encoded) => String::from_utf8(BASE64.decode(encoded).ok()?).ok(),
        _ => None,
    }
}

/// The kinds of messages in the log, by subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// The data that all processes with this store open share.
    Meta,
    /// The time set by tests.
    Clock,
    /// A message without content. It only extends the log.
    Touch,
    /// Whether a tenant exists, and its incarnation.
    Tenant(TenantId),
    /// The decisions about the mailbox of a thread.
    Thread(TenantId, u64, ThreadId),
    /// The thread that may enqueue a dispatch with this id.
    Id(TenantId, u64, DispatchId),
}

/// The subjects of a store.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Returns the name of the stream of all decisions.
    pub(crate) fn log_stream(&self) -> String {
        self.prefix.clone()
    }

    /// Returns the name of the stream of large payloads and results.
    pub(crate) fn data_stream(&self) -> String {
        format!("{}-data", self.prefix)
    }

    /// Returns the name of the stream used for baseline measurements.
    pub(crate) fn bare_stream(&self) -> String {
        format!("{}-bare", self.prefix)
    }

    pub(crate) fn all_log_subjects(&self) -> String {
        format!("{}.log.>", self.prefix)
    }

    pub(crate) fn all_data_subjects(&self) -> String {
        format!("{}.data.>", self.prefix)
    }

    pub(crate) fn subject(&self, key: &Key) -> String {
        let prefix = &self.prefix;
        match key {
            Key::Meta => format!("{prefix}.log.meta"),
            Key::Clock => format!("{prefix}.log.clock"),
            Key::Touch => format!("{prefix}.log.touch"),
            Key::Tenant(tenant) => format!("{prefix}.log.tenant.{}", token(tenant.as_str())),
            Key::Thread(tenant, incarnation, thread) => {
                format!("{prefix}.log.thread.{}.{incarnation}.{}", token(tenant.as_str()), token(thread.as_str()))
            }
            Key::Id(tenant, incarnation, id) => {
                format!("{prefix}.log.id.{}.{incarnation}.{}", token(tenant.as_str()), token(id.as_str()))
            }
        }
    }

    /// Returns the key of a subject of the log, or `None` if no release with this format writes messages on this
    /// subject.
    pub(crate) fn key_of(&self, subject: &str) -> Option<Key> {
        let rest = subject.strip_prefix(&self.prefix)?.strip_prefix(".log.")?;
        let mut tokens = rest.split('.');
        let kind = tokens.next()?;
        let key = match kind {
            "meta" => Key::Meta,
            "clock" => Key::Clock,
            "touch" => Key::Touch,
            "tenant" => Key::Tenant(id(tokens.next()?)?.parse().ok()?),
            "thread" | "id" => {
                let tenant = id(tokens.next()?)?.parse().ok()?;
                let incarnation = tokens.next()?.parse().ok()?;
                let name = id(tokens.next()?)?;
                match kind {
                    "thread" => Key::Thread(tenant, incarnation, name.parse().ok()?),
                    _ => Key::Id(tenant, incarnation, name.parse().ok()?),
                }
            }
            _ => return None,
        };
        tokens.next().is_none().then_some(key)
    }

    /// Returns patterns for the subjects of all messages in the log about one incarnation of a tenant.
    pub(crate) fn tenant_subjects(&self, tenant: &TenantId, incarnation: u64) -> [String; 2] {
        let tenant = token(tenant.as_str());
        ["thread", "id"].map(|kind| format!("{}.log.{kind}.{tenant}.{incarnation}.>", self.prefix))
    }

    /// Returns a pattern for the subjects of all payloads and results of one incarnation of a tenant.
    pub(crate) fn tenant_data_subjects(&self, tenant: &TenantId, incarnation: u64) -> String {
        format!("{}.data.{}.{incarnation}.>", self.prefix, token(tenant.as_str()))
    }

    /// Returns the subject of one payload or result.
    pub(crate) fn data_subject(&self, tenant: &TenantId, incarnation: u64, name: &str) -> String {
        format!("{}.data.{}.{incarnation}.{name}", self.prefix, token(tenant.as_str()))
    }

    /// Returns the subject on which the receiver of a target gets messages of this kind.
    pub(crate) fn live_subject(&self, kind: &str, tenant: &TenantId, target: &LiveTarget) -> String {
        let LiveTarget { thread, run, dispatch, claim: ClaimNumber { incarnation, counter }, .. } = target;
        let [tenant, thread, run, dispatch] =
            [tenant.as_str(), thread.as_str(), run.as_str(), dispatch.as_str()].map(token);
        format!("{}.live.{kind}.{tenant}.{thread}.{run}.{dispatch}.{incarnation}-{counter}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use store_core::{ClaimNumber, LiveTarget, TenantId};

    use super::{Key, Keys, id, token};

    const IDS: &[&str] =
        &["a", "A", "t", "b", "tYQ", "YQ", "a.b", "*", ">", "$", "é", "e\u{301}", " a", "a/b", "-_", "…"];

    #[test]
    fn each_id_becomes_one_unique_subject_token() {
        let longest = "é".repeat(128);
        let ids: Vec<&str> = IDS.iter().copied().chain([longest.as_str()]).collect();
        for one in &ids {
            let written = token(one);
            assert!(written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{written}");
            assert_eq!(id(&written).as_deref(), Some(*one));
            assert_eq!(ids.iter().filter(|other| token(other) == written).count(), 1, "{one}");
        }
    }

    #[test]
    fn subjects_are_read_back() {
        let keys = Keys::new("agents");
        let tenant: TenantId = "a.b".parse().unwrap();
        for key in [
            Key::Meta,
            Key::Clock,
            Key::Touch,
            Key::Tenant(tenant.clone()),
            Key::Thread(tenant.clone(), 7, "c d".parse().unwrap()),
            Key::Id(tenant, 7, "*".parse().unwrap()),
        ] {
            assert_eq!(keys.key_of(&keys.subject(&key)), Some(key));
        }
        for other in ["agents.log.thread.ta.7", "agents.log.meta.x", "other.log.meta", "agents.data.x", "agents.log"] {
            assert_eq!(keys.key_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_longest_subject_fits_a_line_of_the_protocol() {
        let longest = "\u{e9}".repeat(128);
        let target = LiveTarget::new(
            longest.parse().unwrap(),
            longest.parse().unwrap(),
            longest.parse().unwrap(),
            ClaimNumber { incarnation: u64::MAX, counter: u64::MAX },
        );
        let subject = Keys::new(&"p".repeat(32)).live_subject("command", &longest.parse().unwrap(), &target);
        assert!(subject.len() < 2_048, "{}", subject.len());
    }
}
