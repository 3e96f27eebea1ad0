//! Arguments that name a dataset, or one of its versions.

use std::str::FromStr;

use agentstore::{
    Dataset, DatasetId, DatasetStore, DatasetVersion, DatasetVersionRef, Error,
    layers::{escape_part, unescape_part},
};

use crate::failure::Result;

/// A dataset, or one of its versions: `NAME` or `NAME@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::command) struct DatasetArg {
    pub(in crate::command) dataset: DatasetId,
    pub(in crate::command) version: Option<u64>,
}

impl FromStr for DatasetArg {
    type Err = Error;

    fn from_str(text: &str) -> agentstore::Result<Self> {
        if text.contains('@') {
            let name: DatasetVersionRef = text.parse()?;
            return Ok(Self { dataset: name.dataset, version: Some(name.version) });
        }
        Ok(Self { dataset: parse_dataset(text)?, version: None })
    }
}

impl DatasetArg {
    /// Loads the version, which must exist; the current one if the argument names none.
    pub(in crate::command) async fn load(&self, datasets: &dyn DatasetStore) -> Result<DatasetVersion> {
        let name = match self.version {
            Some(version) => DatasetVersionRef::new(self.dataset.clone(), version),
            None => load_dataset(&self.dataset, datasets).await?.current(),
        };
        let found = datasets.load_dataset_version(&name).await?;
        Ok(found.ok_or_else(|| Error::not_found("dataset version", name.to_string()))?)
    }
}

async fn load_dataset(dataset: &DatasetId, datasets: &dyn DatasetStore) -> Result<Dataset> {
    let found = datasets.load_dataset(dataset).await?;
    Ok(found.ok_or_else(|| Error::not_found("dataset", escape_part(dataset.as_str())))?)
}

/// Reads the name of a dataset as commands print it.
pub(in crate::command) fn parse_dataset(text: &str) -> agentstore::Result<DatasetId> {
    if text.contains('@') {
        return Err(Error::invalid("dataset", "it cannot be a version; write `%40` for `@` in a name"));
    }
    unescape_part(text)?.parse()
}

#[cfg(test)]
mod tests {
    use super::{DatasetArg, parse_dataset};

    #[test]
    fn an_argument_names_a_dataset_or_a_version() {
        let check = |text: &str, dataset: &str, version: Option<u64>| {
            let expected = DatasetArg { dataset: dataset.parse().unwrap(), version };
            assert_eq!(text.parse::<DatasetArg>().unwrap(), expected, "{text}");
        };
        check("sums", "sums", None);
        check("sums@3", "sums", Some(3));
        check("a%2Fb%40c@3", "a/b@c", Some(3));
        check("a/b", "a/b", None);
        for text in ["", "@3", "sums@", "sums@x", "50%"] {
            assert!(text.parse::<DatasetArg>().is_err(), "{text}");
        }
        assert!(parse_dataset("sums@3").is_err());
    }
}
