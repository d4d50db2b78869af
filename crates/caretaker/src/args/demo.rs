//! The flags of `caretaker demo`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Let the server run on when the story has been told, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
}
