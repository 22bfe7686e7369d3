//! The trace: what is recorded of one environment, and how it lies on disk.
//!
//! This module is the contract between the recorder and everything that reads. It imports nothing of ours.
//!
//! ```text
//! traces/environment=<slug>/environment.json     derived
//!                          /runs.parquet         derived, a row a run
//!                          /case=<slug>/run=<n>/node=<k>/run.json, host.parquet, process.parquet, …
//! ```
//!
//! While a run is recorded all tables share one `journal.jsonl`; [`finish`] turns it into Parquet afterwards.

pub mod check;
pub mod client;
pub mod environment;
pub mod fingerprint;
pub mod finish;
pub mod journal;
pub mod layout;
pub mod lock;
pub mod open;
pub mod parquet;
mod place;
pub mod plausible;
pub mod replace;
pub mod run;
pub mod step_source;
pub mod sums;
pub mod table;
pub mod tables;
pub mod unharmed;
pub mod verify;
pub mod version;

pub use journal::Journal;
pub use open::{Damaged, Environment, Run, Trace};
pub use run::RunRecord;
pub use step_source::StepSource;
pub use table::{Column, Kind, Shape, Table};
pub use tables::Row;
