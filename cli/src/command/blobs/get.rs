//! `blobs get`: writes the bytes of a blob to a file or to standard output.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
};

use agentstore::{BlobHash, OpenedBlob};
use futures_util::StreamExt;
use indicatif::HumanBytes;
use serde_json::json;

use super::Ending;
use crate::{
    failure::{Failure, Result},
    output::Output,
    session::Session,
};

/// Write the bytes of a blob to a file or to standard output
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentstore blobs get 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 --out copy.png\n  \
    agentstore blobs get 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 | sha256sum\n\n\
    Every byte is compared with its checksum before it is written. If one differs, the command fails, and a file that \
    it was writing is removed.")]
pub(super) struct Args {
    /// The hash of the blob
    hash: BlobHash,
    /// The file to write, which must not exist; standard output if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let opened = session.blobs()?.open_blob(&args.hash, 0..u64::MAX).await?;
    let Some(path) = args.out else {
        if out.is_json() {
            return Err(Failure::Usage("`--json` needs `--out`: the bytes go to standard output".to_owned()));
        }
        copy(opened, out.writer(), "standard output").await?;
        return Ok(Ending::Success);
    };
    let failed = |error| Failure::io(format!("`{}` cannot be written", path.display()), error);
    let bytes = opened.bytes;
    let file = File::create_new(&path).map_err(failed)?;
    let mut writer = BufWriter::new(file);
    let copied = match copy(opened, &mut writer, &path.display().to_string()).await {
        Ok(()) => writer.flush().map_err(failed),
        Err(failure) => Err(failure),
    };
    if let Err(failure) = copied {
        // The failure counts. A part of a file without a warning would be worse than none.
        let _removed = std::fs::remove_file(&path);
        return Err(failure);
    }
    if out.is_json() {
        out.print_document(&json!({ "hash": args.hash, "bytes": bytes, "file": path }))?;
    } else {
        out.print_line(format!("{} written to `{}`", HumanBytes(bytes), path.display()))?;
    }
    Ok(Ending::Success)
}

async fn copy(mut opened: OpenedBlob, to: &mut (dyn Write + Send), name: &str) -> Result<()> {
    while let Some(part) = opened.stream.next().await {
        to.write_all(&part?).map_err(|error| Failure::io(format!("`{name}` cannot be written"), error))?;
    }
    Ok(())
}
