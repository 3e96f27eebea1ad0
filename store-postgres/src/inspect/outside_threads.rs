//! Checks of the data of a tenant outside of its threads: events, the mailbox, and rows without an owner.

use sqlx::postgres::PgArguments;
use store_core::{
    Result, TenantId,
    inspect::{Finding, FindingKind},
};

use crate::{
    columns::{read_i64, text},
    db::add,
    tenant::Tenant,
};

/// Returns the problems that were found.
pub(super) async fn inspect(tenant: &Tenant, name: &TenantId) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut find = |kind, place: String, detail: String| {
        let mut finding = Finding::new(kind, place, detail);
        finding.tenant = Some(name.clone());
        findings.push(finding);
    };
    let with = || {
        let mut with = PgArguments::default();
        add(&mut with, name.as_str()).map(|()| with)
    };
    for row in tenant.db().any().read(|sql| &sql.uneven_scopes, with()?).await? {
        let (kind, id) = (text(&row, 0)?, text(&row, 1)?);
        let detail =
            format!("it has {} events, but its sequence numbers say {}", read_i64(&row, 2)?, read_i64(&row, 3)?);
        find(FindingKind::SequenceGap, format!("events of {kind} `{id}`"), detail);
    }
    for row in tenant.db().any().read(|sql| &sql.lost_claims, with()?).await? {
        let (thread, dispatch) = (text(&row, 0)?, text(&row, 1)?);
        let detail = format!("dispatch `{dispatch}` is recorded as running, but is not claimed");
        find(FindingKind::DanglingReference, format!("mailbox of thread `{thread}`"), detail);
    }
    for row in tenant.db().any().read(|sql| &sql.lost_rows, with()?).await? {
        let (what, count) = (text(&row, 0)?, read_i64(&row, 1)?);
        find(FindingKind::DanglingReference, what, format!("there are {count}"));
    }
    Ok(findings)
}
