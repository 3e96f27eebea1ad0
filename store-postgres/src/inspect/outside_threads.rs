//! Checks of the data of a tenant outside of its threads: events, the mailbox, and rows without an owner.

use sqlx::postgres::PgArguments;
use store_core::{
    Result, TenantId,
    inspect::{Finding, FindingKind},
};

use crate::{
    columns::{read_i64, read_text},
    db::add,
    tenant::Tenant,
};

/// Checks the events, the mailbox and the rows without an owner. Returns the findings.
pub(super) async fn inspect(tenant: &Tenant, tenant_id: &TenantId) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut add_finding = |kind, location: String, detail: String| {
        let mut finding = Finding::new(kind, location, detail);
        finding.tenant = Some(tenant_id.clone());
        findings.push(finding);
    };
    let arguments = || {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant_id.as_str()).map(|()| arguments)
    };
    for row in tenant.db().any_connection().read(|sql| &sql.scopes_with_wrong_event_count, arguments()?).await? {
        let (kind, id) = (read_text(&row, 0)?, read_text(&row, 1)?);
        let detail =
            format!("it has {} events, but its sequence numbers say {}", read_i64(&row, 2)?, read_i64(&row, 3)?);
        add_finding(FindingKind::SequenceGap, format!("events of {kind} `{id}`"), detail);
    }
    for row in tenant.db().any_connection().read(|sql| &sql.running_but_unclaimed, arguments()?).await? {
        let (thread, dispatch) = (read_text(&row, 0)?, read_text(&row, 1)?);
        let detail = format!("dispatch `{dispatch}` is recorded as running, but is not claimed");
        add_finding(FindingKind::DanglingReference, format!("mailbox of thread `{thread}`"), detail);
    }
    for row in tenant.db().any_connection().read(|sql| &sql.rows_without_owner, arguments()?).await? {
        let (what, count) = (read_text(&row, 0)?, read_i64(&row, 1)?);
        add_finding(FindingKind::DanglingReference, what, format!("there are {count}"));
    }
    Ok(findings)
}
