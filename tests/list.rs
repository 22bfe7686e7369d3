//! `shice list` and the opening of folders that are no good trace.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;

use common::{Bench, text};

#[test]
fn cases_and_how_their_runs_ended_are_listed() {
    let bench = Bench::new();
    for append in [None, Some("--append")] {
        let script = "test -e first && exit 1; touch first";
        let words = ["record", "--env", "e", "--workload", "w", "--repeats", "1"].into_iter().chain(append);
        bench.shice(&words.chain(["--", "sh", "-c", script]).collect::<Vec<_>>());
    }
    let output = bench.shice(&["list"]);
    let listed = text(&output.stdout);
    assert!(listed.starts_with("e  (traces/environment=e)\n  w: 1 failed, 1 finished, "), "{listed}");
}

#[test]
fn folders_that_hold_no_trace_are_named_with_what_to_do() {
    let bench = Bench::new();
    fs::create_dir(bench.path("empty")).unwrap();
    for (folder, expected) in [("missing", "missing is no folder"), ("empty", "empty holds no recorded run")] {
        let output = bench.shice(&["list", folder]);
        assert_eq!(output.status.code(), Some(2));
        let message = text(&output.stderr);
        assert!(message.contains(expected) && message.contains("shice record"), "{message}");
    }
}

#[test]
fn a_trace_of_a_newer_major_is_refused_naming_both_versions_and_the_file() {
    let bench = Bench::new();
    bench.record("true");
    bench.edit_record(|record| record["schema_version"] = "2.3".into());
    let output = bench.shice(&["list"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("2.3") && message.contains("1.0") && message.contains("run.json"), "{message}");
}
