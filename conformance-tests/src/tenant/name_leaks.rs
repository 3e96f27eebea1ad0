//! Errors and cursors do not contain the name of a tenant.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use store_core::{Direction, Error, PageRequest};

use crate::{
    Failure, Given, Verdict, check::expect, errors::create_records_and_make_refused_calls, record_list::record_lists,
};

const SECRET_TENANT: &str = "health-office-7f3e";

/// Every text of an error: its message, its debug text, its JSON form, and the texts of the errors that caused it.
pub(crate) fn all_error_texts(error: &Error) -> Vec<String> {
    let mut texts = vec![error.to_string(), format!("{error:?}"), serde_json::to_string(error).unwrap_or_default()];
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        texts.extend([inner.to_string(), format!("{inner:?}")]);
        source = inner.source();
    }
    texts
}

/// Errors never contain the name of the tenant, nor an id of another tenant.
pub(super) async fn errors_never_name_a_tenant(given: &Given) -> Verdict {
    let records = crate::record_list::first_record_list(given.contract());
    records.write(&given.tenant("other")?, "foreign-record-11c9").await?;
    for (call, error) in create_records_and_make_refused_calls(given.contract(), &given.tenant(SECRET_TENANT)?).await? {
        for text in all_error_texts(&error) {
            expect(!text.contains(SECRET_TENANT) && !text.contains("foreign-record"), format!("{call}: {text}"))?;
        }
    }
    Ok(())
}

/// The text of a cursor never contains the name of the tenant, and neither do the bytes that it encodes.
pub(super) async fn cursors_never_name_a_tenant(given: &Given) -> Verdict {
    for records in record_lists(given.contract()) {
        let stores = given.tenant(SECRET_TENANT)?;
        records.write_all(&stores, &["a", "b", "c"].map(|id| format!("{} {id}", records.name()))).await?;
        let page = records.list(&stores, Direction::Forward, PageRequest::first(1)).await?;
        let cursor = page.next.ok_or_else(|| Failure::new("the page has no cursor").about(records.name()))?;
        let bytes = BASE64.decode(cursor.as_str()).unwrap_or_default();
        let decoded = String::from_utf8_lossy(&bytes);
        expect(
            !cursor.as_str().contains(SECRET_TENANT) && !decoded.contains(SECRET_TENANT),
            format!("{}: {decoded}", records.name()),
        )?;
    }
    Ok(())
}
