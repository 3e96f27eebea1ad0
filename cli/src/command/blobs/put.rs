//! `blobs put`: stores the bytes of a file or of standard input.

use std::{
    fs::File,
    io::{Read, stdin},
    path::{Path, PathBuf},
};

use indicatif::HumanBytes;

use super::Ending;
use crate::{
    failure::{Failure, Result},
    output::Output,
    read_stream::stream_of,
    session::Session,
};

/// Store the bytes of a file, and print their hash
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore blobs put diagram.png\n  \
    pg_dump app | agentstore blobs put -\n  \
    agentstore blobs put diagram.png --json | jq -r .hash\n\n\
    Bytes that are stored already are not stored again.")]
pub(super) struct Args {
    /// The file; `-` for standard input
    file: PathBuf,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let reader: Box<dyn Read + Send> = if args.file == Path::new("-") {
        Box::new(stdin())
    } else {
        let failed = |error| Failure::io(format!("`{}` cannot be read", args.file.display()), error);
        Box::new(File::open(&args.file).map_err(failed)?)
    };
    let blob = session.blobs()?.put_blob(stream_of(reader)).await?;
    if out.is_json() {
        out.print_document(&blob)?;
    } else {
        out.print_line(format!("{}  {}", blob.hash, HumanBytes(blob.bytes)))?;
    }
    Ok(Ending::Success)
}
