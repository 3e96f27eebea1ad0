//! Names on the server: of streams and of subjects (NA-2, NA-9).
//!
//! An id is one token of a subject. If a short id consists only of `A-Z a-z 0-9 _ -`, its token is the letter `t`
//! followed by the id. The token of any other id is the letter `b` followed by the id in base64. So no two ids share a
//! token, no id spans more than one token, and an operator can read most ids.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use store_core::{ClaimNumber, DispatchId, LiveTarget, TenantId, ThreadId};

/// The largest length, in bytes, of an id that is written unchanged. Even if all ids of a subject are in base64, the
/// subject stays below 2 KiB.
const MAX_PLAIN_ID_BYTES: usize = 256;

/// Encodes an id as one token of a subject.
pub(crate) fn id_to_token(id: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    match id.len() <= MAX_PLAIN_ID_BYTES && id.bytes().all(is_plain) {
        true => format!("t{id}"),
        false => format!("b{}", BASE64.encode(id)),
    }
}

/// Decodes the token of an id. Returns `None` for a text that is not such a token.
pub(crate) fn token_to_id(token: &str) -> Option<String> {
    match token.split_at_checked(1)? {
        ("t", plain) => Some(plain.to_owned()),
        ("b", encoded) => String::from_utf8(BASE64.decode(encoded).ok()?).ok(),
        _ => None,
    }
}

/// A subject of the log: what a message of the log is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogSubject {
    /// The data shared by all processes that have the store open.
    Meta,
    /// The time that a test has set.
    Clock,
    /// A message without content. It only extends the log.
    Marker,
    /// Whether a tenant exists, and its incarnation.
    Tenant(TenantId),
    /// The decisions about the mailbox of a thread. The number is the incarnation of the tenant.
    Thread(TenantId, u64, ThreadId),
    /// The thread that may enqueue a dispatch with this id. The number is the incarnation of the tenant.
    ReservedId(TenantId, u64, DispatchId),
}

/// The names of the streams and subjects of a store. All of them begin with the prefix of the store.
#[derive(Debug, Clone)]
pub(crate) struct ServerNames {
    prefix: String,
}

impl ServerNames {
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
    pub(crate) fn baseline_stream(&self) -> String {
        format!("{}-bare", self.prefix)
    }

    /// Returns a pattern for all subjects of the log.
    pub(crate) fn all_log_subjects(&self) -> String {
        format!("{}.log.>", self.prefix)
    }

    /// Returns a pattern for the subjects of all payloads and results.
    pub(crate) fn all_data_subjects(&self) -> String {
        format!("{}.data.>", self.prefix)
    }

    pub(crate) fn subject_text(&self, log_subject: &LogSubject) -> String {
        let prefix = &self.prefix;
        match log_subject {
            LogSubject::Meta => format!("{prefix}.log.meta"),
            LogSubject::Clock => format!("{prefix}.log.clock"),
            LogSubject::Marker => format!("{prefix}.log.touch"),
            LogSubject::Tenant(tenant) => format!("{prefix}.log.tenant.{}", id_to_token(tenant.as_str())),
            LogSubject::Thread(tenant, incarnation, thread) => {
                format!(
                    "{prefix}.log.thread.{}.{incarnation}.{}",
                    id_to_token(tenant.as_str()),
                    id_to_token(thread.as_str())
                )
            }
            LogSubject::ReservedId(tenant, incarnation, id) => {
                format!("{prefix}.log.id.{}.{incarnation}.{}", id_to_token(tenant.as_str()), id_to_token(id.as_str()))
            }
        }
    }

    /// Parses a subject of the log. Returns `None` for a subject on which no release with this format writes messages.
    pub(crate) fn parse_log_subject(&self, subject: &str) -> Option<LogSubject> {
        let tokens_text = subject.strip_prefix(&self.prefix)?.strip_prefix(".log.")?;
        let mut tokens = tokens_text.split('.');
        let kind = tokens.next()?;
        let log_subject = match kind {
            "meta" => LogSubject::Meta,
            "clock" => LogSubject::Clock,
            "touch" => LogSubject::Marker,
            "tenant" => LogSubject::Tenant(token_to_id(tokens.next()?)?.parse().ok()?),
            "thread" | "id" => {
                let tenant = token_to_id(tokens.next()?)?.parse().ok()?;
                let incarnation = tokens.next()?.parse().ok()?;
                let name = token_to_id(tokens.next()?)?;
                match kind {
                    "thread" => LogSubject::Thread(tenant, incarnation, name.parse().ok()?),
                    _ => LogSubject::ReservedId(tenant, incarnation, name.parse().ok()?),
                }
            }
            _ => return None,
        };
        tokens.next().is_none().then_some(log_subject)
    }

    /// Returns patterns for the subjects of all messages in the log about one incarnation of a tenant.
    pub(crate) fn tenant_subjects(&self, tenant: &TenantId, incarnation: u64) -> [String; 2] {
        let tenant = id_to_token(tenant.as_str());
        ["thread", "id"].map(|kind| format!("{}.log.{kind}.{tenant}.{incarnation}.>", self.prefix))
    }

    /// Returns a pattern for the subjects of all payloads and results of one incarnation of a tenant.
    pub(crate) fn tenant_data_subjects(&self, tenant: &TenantId, incarnation: u64) -> String {
        format!("{}.data.{}.{incarnation}.>", self.prefix, id_to_token(tenant.as_str()))
    }

    /// Returns the subject of one payload or result.
    pub(crate) fn data_subject(&self, tenant: &TenantId, incarnation: u64, name: &str) -> String {
        format!("{}.data.{}.{incarnation}.{name}", self.prefix, id_to_token(tenant.as_str()))
    }

    /// Returns the subject on which the receiver of a target gets messages of this kind.
    pub(crate) fn live_subject(&self, kind: &str, tenant: &TenantId, target: &LiveTarget) -> String {
        let LiveTarget { thread, run, dispatch, claim: ClaimNumber { incarnation, counter }, .. } = target;
        let [tenant, thread, run, dispatch] =
            [tenant.as_str(), thread.as_str(), run.as_str(), dispatch.as_str()].map(id_to_token);
        format!("{}.live.{kind}.{tenant}.{thread}.{run}.{dispatch}.{incarnation}-{counter}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use store_core::{ClaimNumber, LiveTarget, TenantId};

    use super::{LogSubject, ServerNames, id_to_token, token_to_id};

    const IDS: &[&str] =
        &["a", "A", "t", "b", "tYQ", "YQ", "a.b", "*", ">", "$", "é", "e\u{301}", " a", "a/b", "-_", "…"];

    #[test]
    fn each_id_becomes_one_unique_subject_token() {
        let longest = "é".repeat(128);
        let ids: Vec<&str> = IDS.iter().copied().chain([longest.as_str()]).collect();
        for id in &ids {
            let token = id_to_token(id);
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{token}");
            assert_eq!(token_to_id(&token).as_deref(), Some(*id));
            assert_eq!(ids.iter().filter(|other_id| id_to_token(other_id) == token).count(), 1, "{id}");
        }
    }

    #[test]
    fn every_subject_can_be_parsed_again() {
        let names = ServerNames::new("agents");
        let tenant: TenantId = "a.b".parse().unwrap();
        for log_subject in [
            LogSubject::Meta,
            LogSubject::Clock,
            LogSubject::Marker,
            LogSubject::Tenant(tenant.clone()),
            LogSubject::Thread(tenant.clone(), 7, "c d".parse().unwrap()),
            LogSubject::ReservedId(tenant, 7, "*".parse().unwrap()),
        ] {
            assert_eq!(names.parse_log_subject(&names.subject_text(&log_subject)), Some(log_subject));
        }
        for subject in ["agents.log.thread.ta.7", "agents.log.meta.x", "other.log.meta", "agents.data.x", "agents.log"]
        {
            assert_eq!(names.parse_log_subject(subject), None, "{subject}");
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
        let subject = ServerNames::new(&"p".repeat(32)).live_subject("command", &longest.parse().unwrap(), &target);
        assert!(subject.len() < 2_048, "{}", subject.len());
    }
}
