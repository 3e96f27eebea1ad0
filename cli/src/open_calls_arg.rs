//! The option that says what becomes of calls without a result.

use agentstore::OpenCalls;
use clap::{Args, ValueEnum};

/// The option for calls without a result.
#[derive(Debug, Clone, Args)]
pub(crate) struct OpenCallsArgs {
    /// What to do with tool calls that have no result
    #[arg(long, value_name = "WHAT", default_value = "answer")]
    open_calls: OpenCallsArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OpenCallsArg {
    /// Add an error as the result
    Answer,
    /// Leave the call without a result
    Keep,
    /// Leave out the call
    Drop,
}

impl OpenCallsArgs {
    pub(crate) const fn open_calls(&self) -> OpenCalls {
        match self.open_calls {
            OpenCallsArg::Answer => OpenCalls::Answer,
            OpenCallsArg::Keep => OpenCalls::Keep,
            OpenCallsArg::Drop => OpenCalls::Drop,
        }
    }
}
