//! Parameters that libpq knows and the driver does not know. A parameter is accepted if the driver can do what the
//! parameter asks for. Otherwise the parameter is refused, and the error names it.

use std::time::Duration;

use store_core::Result;

use super::invalid;

/// What a parameter asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParameterRequest {
    /// Something that the driver does in any case.
    Nothing,
    /// A limit on the time for connecting.
    ConnectTimeout(Duration),
    /// Settings of the session.
    Settings(Vec<(String, String)>),
    /// A server with this property.
    ServerRequirement(ServerRequirement),
}

/// The property of the server that each new connection is checked for, as in `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ServerRequirement {
    #[default]
    Any,
    /// The server is not a standby.
    Primary,
    /// The server is not a standby, and its sessions can write.
    ReadWrite,
}

/// Returns what `key=value` asks for, or `None` if libpq does not know the key.
pub(super) fn parse_parameter(key: &str, value: &str) -> Option<Result<ParameterRequest>> {
    let request = match (key, value) {
        ("connect_timeout", _) => parse_connect_timeout(value),
        ("options", _) => parse_settings(value),
        // These values leave the choice to the client and the server.
        ("channel_binding" | "gssencmode", "disable" | "prefer")
        | ("sslnegotiation", "postgres")
        | ("target_session_attrs", "any")
        | ("load_balance_hosts", "disable")
        | ("keepalives" | "sslcompression" | "requiressl", "0") => Ok(ParameterRequest::Nothing),
        ("client_encoding", _) if matches!(value.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "auto") => {
            Ok(ParameterRequest::Nothing)
        }
        ("target_session_attrs", "primary") => Ok(ParameterRequest::ServerRequirement(ServerRequirement::Primary)),
        ("target_session_attrs", "read-write") => Ok(ParameterRequest::ServerRequirement(ServerRequirement::ReadWrite)),
        ("sslrootcert", "system") => {
            refusal(key, "the driver uses its own certificate authorities: leave it out, or name a file")
        }
        ("channel_binding", _) => {
            refusal(key, "the driver has no channel binding: leave it out, and use `sslmode=verify-full`")
        }
        ("gssencmode", _) => refusal(key, "the driver has no GSSAPI: use `disable`, or leave it out"),
        ("target_session_attrs", _) => refusal(key, "a store needs a server that accepts writes: use `read-write`"),
        ("keepalives" | "keepalives_idle" | "keepalives_interval" | "keepalives_count" | "tcp_user_timeout", _) => {
            refusal(key, "the driver sends no keepalives, since each call has a deadline: leave it out")
        }
        ("sslnegotiation", _) => refusal(key, "the driver always asks the server for TLS first: use `postgres`"),
        (
            "client_encoding"
            | "fallback_application_name"
            | "gssdelegation"
            | "gsslib"
            | "hostaddr"
            | "krbsrvname"
            | "load_balance_hosts"
            | "passfile"
            | "replication"
            | "require_auth"
            | "requirepeer"
            | "requiressl"
            | "service"
            | "servicefile"
            | "ssl_max_protocol_version"
            | "ssl_min_protocol_version"
            | "sslcertmode"
            | "sslcompression"
            | "sslcrl"
            | "sslcrldir"
            | "sslpassword"
            | "sslsni",
            _,
        ) => refusal(key, "the driver does not support this parameter or this value: leave it out"),
        _ => return None,
    };
    Some(request)
}

fn refusal(key: &str, why: &str) -> Result<ParameterRequest> {
    Err(invalid(&format!("`{key}`: {why}")))
}

/// Reads a number of whole seconds. In libpq, 0 means no limit. It is refused, because a call could then wait forever.
fn parse_connect_timeout(value: &str) -> Result<ParameterRequest> {
    match value.parse() {
        Ok(seconds @ 1..=3_600) => Ok(ParameterRequest::ConnectTimeout(Duration::from_secs(seconds))),
        _ => refusal("connect_timeout", "it must be a number of seconds from 1 to 3600"),
    }
}

/// Reads settings of the form `-c name=value`, `-cname=value` or `--name=value`, separated by spaces. A backslash
/// escapes a space.
fn parse_settings(value: &str) -> Result<ParameterRequest> {
    let mut words = split_words(value).into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") if word == "-c" => words.next(),
            found => found.map(str::to_owned),
        };
        let setting = setting.as_deref().and_then(|setting| setting.split_once('='));
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        let Some((name, value)) = setting.filter(|(name, _)| !name.is_empty() && is_name(name)) else {
            return refusal("options", "it must consist of `-c name=value`");
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(ParameterRequest::Settings(settings))
}

fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut chars) = (Vec::new(), String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            c if c.is_ascii_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ParameterRequest, ServerRequirement, parse_parameter};

    #[test]
    fn libpq_parameters_are_applied_or_refused_by_name() {
        let settings = |pairs: &[(&str, &str)]| {
            ParameterRequest::Settings(
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            )
        };
        // A parameter that is refused has no request: `Nothing` only fills the place.
        for (key, value, expected) in [
            ("connect_timeout", "10", ParameterRequest::ConnectTimeout(Duration::from_secs(10))),
            ("options", "-c statement_timeout=5s", settings(&[("statement_timeout", "5s")])),
            ("options", "-cgeqo=off --work-mem=4MB", settings(&[("geqo", "off"), ("work_mem", "4MB")])),
            ("options", r"-c\ no", ParameterRequest::Nothing),
            ("options", "", settings(&[])),
            ("channel_binding", "prefer", ParameterRequest::Nothing),
            ("channel_binding", "require", ParameterRequest::Nothing),
            ("gssencmode", "disable", ParameterRequest::Nothing),
            ("gssencmode", "require", ParameterRequest::Nothing),
            ("target_session_attrs", "any", ParameterRequest::Nothing),
            ("target_session_attrs", "primary", ParameterRequest::ServerRequirement(ServerRequirement::Primary)),
            ("target_session_attrs", "read-write", ParameterRequest::ServerRequirement(ServerRequirement::ReadWrite)),
            ("sslrootcert", "system", ParameterRequest::Nothing),
            ("target_session_attrs", "standby", ParameterRequest::Nothing),
            ("keepalives", "0", ParameterRequest::Nothing),
            ("keepalives", "1", ParameterRequest::Nothing),
            ("keepalives_idle", "30", ParameterRequest::Nothing),
            ("connect_timeout", "0", ParameterRequest::Nothing),
            ("client_encoding", "UTF8", ParameterRequest::Nothing),
            ("client_encoding", "LATIN1", ParameterRequest::Nothing),
            ("service", "x", ParameterRequest::Nothing),
        ] {
            let is_refused =
                matches!(value, r"-c\ no" | "require" | "standby" | "1" | "30" | "LATIN1" | "x" | "system")
                    || (key, value) == ("connect_timeout", "0");
            match parse_parameter(key, value).unwrap() {
                Ok(found) => assert!(!is_refused && found == expected, "{key}={value}: {found:?}"),
                Err(error) => assert!(is_refused && error.to_string().contains(&format!("`{key}`")), "{error}"),
            }
        }
        assert!(parse_parameter("schema", "x").is_none() && parse_parameter("sslrootcert", "/ca.pem").is_none());
    }
}
