//! Fills a trace: starts a command several times over, and samples the machine and the command's process tree.
//!
//! ```text
//! plan ── session ── run ── watch ── probe/*
//!             │       │       └ clock, signals, steps
//!             │       └ child, output, journal (in `trace`)
//!             └ finisher
//! ```

pub mod cgroup;
pub mod checks;
pub mod child;
pub mod clock;
pub mod container;
pub mod cost;
pub mod ended;
pub mod fingerprint;
pub mod finisher;
pub mod mask;
pub mod oom;
pub mod output;
pub mod plan;
pub mod probe;
pub mod progress;
pub mod run;
pub mod session;
pub mod signals;
pub mod source;
pub mod steps;
pub mod stop;
pub mod threads;
pub mod watch;
