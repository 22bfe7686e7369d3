//! Trace -> summaries: polars expressions and statistics, no text.

pub mod summary;
