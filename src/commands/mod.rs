//! What each subcommand does, from checked arguments to an exit code.

mod browser;
pub mod check;
pub mod dry_run;
pub mod list;
pub mod record;
pub mod render;
pub mod verify;
