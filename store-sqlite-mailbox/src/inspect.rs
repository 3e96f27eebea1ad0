//! Checks of what is stored, and repairs of what can be derived.

use async_trait::async_trait;
use store_core::{
    Progress, Result,
    inspect::{Inspection, Inspector},
};

use crate::store::SqliteMailbox;

#[async_trait]
impl Inspector for SqliteMailbox {
    async fn verify(&self, _progress: &dyn Progress) -> Result<Inspection> {
        Ok(Inspection::default())
    }

    async fn repair(&self, _dry_run: bool, _progress: &dyn Progress) -> Result<Inspection> {
        Ok(Inspection::default())
    }
}
