//! Checks with readable failures, for the bodies of cases.

use std::{
    fmt::{self, Debug},
    panic::Location,
};

use store_core::{Error, ErrorKind, Outcome};

/// How a case ends.
pub type Verdict = Result<(), Failure>;

/// Why a case fails, and the line at which it failed.
#[derive(Debug, Clone)]
pub struct Failure {
    message: String,
    location: &'static Location<'static>,
}

impl Failure {
    /// A failure with this message. Its location is that of the caller.
    #[track_caller]
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), location: Location::caller() }
    }

    /// Puts `what`, the subject of the failure, in front of the message.
    #[must_use]
    pub fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {}:{})", self.message, self.location.file(), self.location.line())
    }
}

/// Turns an error into a failure, so that a case can use `?` where it expects success.
impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::new(format!("{} where success was expected: {error:?}", error.kind().name()))
    }
}

/// Checks that `actual` equals `expected`.
///
/// # Errors
/// If they differ.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "cases pass literals and values that they just read")]
pub fn expect_eq<T: PartialEq<U> + Debug, U: Debug>(actual: T, expected: U) -> Verdict {
    if actual == expected {
        Ok(())
    } else {
        Err(Failure::new(describe_difference(&format!("{actual:?}"), &format!("{expected:?}"))))
    }
}

/// Describes two values that differ. If they are large, only the part around the first difference is shown.
fn describe_difference(actual: &str, expected: &str) -> String {
    const MAX_SHOWN: usize = 400;
    let common_prefix = actual.chars().zip(expected.chars()).take_while(|(a, b)| a == b).count();
    if actual.len().max(expected.len()) <= MAX_SHOWN {
        return format!("found {actual}, wanted {expected}");
    }
    let show = |text: &str| text.chars().skip(common_prefix.saturating_sub(60)).take(MAX_SHOWN).collect::<String>();
    format!(
        "found {}, wanted {} (shown from shortly before character {common_prefix}, where they differ)",
        show(actual),
        show(expected)
    )
}

/// Checks a condition. If it is false, the failure has this message.
///
/// # Errors
/// If the condition is false.
#[track_caller]
pub fn expect(condition: bool, message: impl Into<String>) -> Verdict {
    if condition { Ok(()) } else { Err(Failure::new(message)) }
}

/// Checks that there is a value, and returns the value. `what` names it in the failure.
///
/// # Errors
/// If there is no value.
#[track_caller]
pub fn expect_some<T>(value: Option<T>, what: &str) -> Result<T, Failure> {
    match value {
        Some(value) => Ok(value),
        None => Err(Failure::new(format!("no {what} where one was expected"))),
    }
}

/// Checks that a call was refused with an error of this kind and with the outcome `NotApplied`. Returns the error.
///
/// # Errors
/// If the call succeeded, or failed in another way.
#[track_caller]
pub fn expect_kind<T: Debug>(result: store_core::Result<T>, kind: ErrorKind) -> Result<Error, Failure> {
    match result {
        Ok(value) => Err(Failure::new(format!("success where `{}` was expected: {value:?}", kind.name()))),
        Err(error) if error.kind() != kind => {
            Err(Failure::new(format!("`{}` where `{}` was expected: {error:?}", error.kind().name(), kind.name())))
        }
        Err(error) if error.outcome() != Outcome::NotApplied => {
            Err(Failure::new(format!("`{}` with an unknown outcome: {error:?}", kind.name())))
        }
        Err(error) => Ok(error),
    }
}

/// Checks that exactly one call succeeded. Returns its value and the errors of the others.
///
/// # Errors
/// If none or several succeeded.
#[track_caller]
pub fn expect_exactly_one<T: Debug>(results: Vec<store_core::Result<T>>) -> Result<(T, Vec<Error>), Failure> {
    let (mut successes, mut errors) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => successes.push(value),
            Err(error) => errors.push(error),
        }
    }
    if successes.len() == 1 {
        let succeeded = successes.swap_remove(0);
        return Ok((succeeded, errors));
    }
    Err(Failure::new(format!(
        "{} successes where exactly one was expected: {successes:?}, errors {errors:?}",
        successes.len()
    )))
}

/// Checks that every error is of this kind and has the outcome `NotApplied`.
///
/// # Errors
/// If an error has another kind, or an unknown outcome.
#[track_caller]
pub fn expect_kinds(errors: Vec<Error>, kind: ErrorKind) -> Verdict {
    for error in errors {
        expect_kind::<()>(Err(error), kind)?;
    }
    Ok(())
}
