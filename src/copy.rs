//! Copies of whole stores: every tenant, one after another (VF-2).

use serde::Serialize;
use store_core::{
    ErrorKind, PageRequest, Progress, Result, TenantId,
    records::{CopyMark, CopyOptions, CopyReport, TenantDigest, compare_tenants, copy_tenant, digest_tenant},
};

use crate::Stores;

/// Tenants of a page.
const PAGE: u32 = 256;

/// What was copied of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CopiedTenant {
    /// The tenant.
    pub tenant: TenantId,
    /// What the copy did, and whether both stores have the same records.
    #[serde(flatten)]
    pub report: CopyReport,
}

/// What a copy does with the records of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyStep {
    /// They are copied, and compared at the end.
    Copy,
    /// They are compared only.
    Compare,
}

/// Copies a tenant, or all tenants if none is named, from one store to another, and compares both.
///
/// What each of `options` does, what is kept, and how an interrupted copy continues is described at
/// [`copy_tenant`](store_core::records::copy_tenant). Each tenant is copied to the tenant of the same name. The first
/// error ends the copy; the same call continues it. A tenant that has all records already, from an earlier call, is
/// compared only.
///
/// # Errors
/// Those of [`copy_tenant`](store_core::records::copy_tenant); any error of listing tenants.
///
/// # Example
///
#[cfg_attr(feature = "memory", doc = "```")]
#[cfg_attr(not(feature = "memory"), doc = "```ignore")]
/// use agentstore::{CopyStep, IgnoreProgress, copy_stores, records::CopyOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentstore::Result<()> {
/// let (from, to) = (agentstore::open("memory:").await?, agentstore::open("memory:").await?);
/// let options = CopyOptions::new("the old store");
/// let copied = copy_stores((&from, &to), None, CopyStep::Copy, &options, &IgnoreProgress).await?;
/// assert!(copied.iter().all(|tenant| tenant.report.difference_count == 0));
/// # Ok(())
/// # }
/// ```
pub async fn copy_stores(
    (from, to): (&Stores, &Stores),
    tenant: Option<&TenantId>,
    step: CopyStep,
    options: &CopyOptions,
    progress: &dyn Progress,
) -> Result<Vec<CopiedTenant>> {
    let mut copied = Vec::new();
    for tenant in tenants_of(from, tenant).await? {
        let (source, target) = (from.store().tenant(&tenant)?, to.store().tenant(&tenant)?);
        let report = match step {
            CopyStep::Compare => compare_tenants(&source, &target, options, progress).await?,
            CopyStep::Copy => match copy_tenant(&source, &target, options, progress).await {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && !options.dry_run => {
                    let report = compare_tenants(&source, &target, options, progress).await?;
                    if report.difference_count > 0 {
                        return Err(error);
                    }
                    report
                }
                copied => copied?,
            },
        };
        let is_stopped = report.stopped;
        copied.push(CopiedTenant { tenant, report });
        if is_stopped {
            break;
        }
    }
    Ok(copied)
}

/// Returns the digest of a tenant, or of each tenant if none is named: equal for equal data, whatever stores keep it
/// (VF-3).
///
/// # Errors
/// Those of [`digest_tenant`](store_core::records::digest_tenant); any error of listing tenants.
pub async fn digest_stores(
    stores: &Stores,
    tenant: Option<&TenantId>,
    progress: &dyn Progress,
) -> Result<Vec<(TenantId, TenantDigest)>> {
    let mut digests = Vec::new();
    for tenant in tenants_of(stores, tenant).await? {
        let digest = digest_tenant(&stores.store().tenant(&tenant)?, progress).await?;
        digests.push((tenant, digest));
    }
    Ok(digests)
}

impl Stores {
    /// Returns the mark of a copy to this tenant that has not ended, if there is one: which store is copied, and how
    /// many records are here. Until it ends, the tenant is not complete and must not be written to (VF-2).
    ///
    /// A store without documents, such as one that keeps mailboxes only, has no marks.
    ///
    /// # Errors
    /// `Closed`; any error of reading.
    ///
    /// # Example
    ///
    #[cfg_attr(feature = "memory", doc = "```")]
    #[cfg_attr(not(feature = "memory"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> agentstore::Result<()> {
    /// let stores = agentstore::open("memory:").await?;
    /// assert_eq!(stores.unfinished_copy(&agentstore::TenantId::default_tenant()).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn unfinished_copy(&self, tenant: &TenantId) -> Result<Option<CopyMark>> {
        match self.store().tenant(tenant)?.documents {
            Some(documents) => CopyMark::load(&*documents).await,
            None => Ok(None),
        }
    }

    /// Returns the marks of all tenants that have one.
    ///
    /// # Errors
    /// As [`unfinished_copy`](Self::unfinished_copy).
    pub async fn unfinished_copies(&self) -> Result<Vec<(TenantId, CopyMark)>> {
        let mut found = Vec::new();
        for tenant in tenants_of(self, None).await? {
            if let Some(mark) = self.unfinished_copy(&tenant).await? {
                found.push((tenant, mark));
            }
        }
        Ok(found)
    }
}

async fn tenants_of(stores: &Stores, tenant: Option<&TenantId>) -> Result<Vec<TenantId>> {
    if let Some(tenant) = tenant {
        return Ok(vec![tenant.clone()]);
    }
    let (mut tenants, mut page) = (Vec::new(), PageRequest::first(PAGE));
    loop {
        let found = stores.store().list_tenants(page).await?;
        tenants.extend(found.items);
        match found.next {
            Some(next) => page = PageRequest::first(PAGE).after(next),
            None => return Ok(tenants),
        }
    }
}
