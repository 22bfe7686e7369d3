//! shice (实测): records what a PyTorch environment really uses, several times over, and writes a bilingual report.
//!
//! Data flows one way: `record` fills a [`trace`], [`aggregate`] sums it up, [`report`] words and draws it,
//! [`site`] lays it out as pages.

pub mod aggregate;
pub mod commands;
pub mod console;
pub mod files;
pub mod record;
pub mod report;
pub mod site;
pub mod trace;
