//! `shice verify` on real recordings, and how `list` and `render` get on with what it finds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Bench, tells_in_one_line, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Records two cases of environment `e`, each twice.
fn recorded() -> Bench {
    let bench = Bench::new();
    for workload in ["v", "w"] {
        let arguments =
            ["record", "--env", "e", "--workload", workload, "--repeats", "2", "--", "sh", "-c", "sleep 0.3"];
        let output = bench.shice(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    bench
}

fn run(bench: &Bench, case: &str, run: u32) -> PathBuf {
    bench.path(&format!("traces/environment=e/case={case}/run={run}/node=0"))
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0xff;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_recording_is_whole() {
    let bench = recorded();
    let before = bench.contents("traces");
    let output = bench.shice(&["verify"]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.starts_with("4 runs, ") && told.ends_with(" rows: whole\n") && told.lines().count() == 1, "{told}");
    assert_eq!(bench.contents("traces"), before);
}

#[test]
fn the_committed_traces_are_whole() {
    let bench = Bench::new();
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let output = bench.shice(&["verify", &traces.display().to_string()]);
    assert!(output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn everything_that_is_wrong_is_named_in_a_line_of_its_own() {
    let bench = recorded();
    flip(&run(&bench, "v", 1).join("host.parquet"), 1000);
    fs::write(run(&bench, "v", 2).join("run.json"), "{").unwrap();
    fs::remove_file(run(&bench, "w", 1).join("process.parquet")).unwrap();
    fs::write(run(&bench, "w", 2).join(".reserve"), "x").unwrap();
    let before = bench.contents("traces");
    let output = bench.shice(&["verify", "traces/environment=e"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for expected in [
        "case=v/run=1/node=0/host.parquet is damaged",
        "case=v/run=2/node=0/run.json is damaged or no JSON",
        "case=w/run=1/node=0/process.parquet: the file is missing",
        "case=w/run=2/node=0/.reserve: it was left behind",
    ] {
        assert_eq!(told.lines().filter(|line| line.contains(expected)).count(), 1, "{expected} in\n{told}");
    }
    assert!(told.lines().last().unwrap().ends_with(" problems"), "{told}");
    assert_eq!(bench.contents("traces"), before);
}

#[test]
fn a_killed_recorder_leaves_a_run_that_verify_names_and_list_makes_whole() {
    let bench = Bench::new();
    let mut recorder =
        bench.command(&["record", "--env", "e", "--workload", "w", "--", "sleep", "60"]).spawn().unwrap();
    let journal = run(&bench, "w", 1).join("journal.jsonl");
    wait_until("samples are in the journal", || journal.metadata().is_ok_and(|file| file.len() > 5000));
    let output = bench.shice(&["verify"]);
    assert!(output.status.success() && text(&output.stdout).contains("1 run being recorded left out"));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let output = bench.shice(&["verify"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("`shice list` finishes it"), "{}", text(&output.stdout));
    assert!(journal.exists());
    assert!(bench.shice(&["list"]).status.success());
    let output = bench.shice(&["verify"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    // The workload outlives its recorder; this test must not leave it behind.
    let pid = common::column::<shice::trace::tables::Process>(&bench.only_run(), "pid")[0] as i32;
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[test]
fn damaged_runs_are_marked_by_list_and_left_out_by_render_with_a_line() {
    let bench = recorded();
    flip(&run(&bench, "v", 1).join("host.parquet"), 1000);
    fs::write(run(&bench, "w", 2).join("run.json"), "{").unwrap();
    let environment = bench.path("traces/environment=broken/case=w/run=1/node=0");
    fs::create_dir_all(&environment).unwrap();
    fs::write(environment.join("run.json"), "[]").unwrap();

    let output = bench.shice(&["list"]);
    let listed = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(listed.contains("  v: 2 finished") && listed.contains("  w: 1 finished"), "{listed}");
    let damaged: Vec<&str> = listed.lines().filter(|line| line.trim_start().starts_with("damaged: ")).collect();
    assert!(damaged.len() == 2 && damaged.iter().any(|line| line.contains("case=w/run=2/node=0/run.json")), "{listed}");

    let output = bench.shice(&["render"]);
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    let left_out: Vec<&str> = told.lines().filter(|line| line.starts_with("left out: ")).collect();
    assert_eq!(left_out.len(), 3, "{told}");
    for expected in ["traces/environment=e/case=v/run=1/node=0/host.parquet", "run=2/node=0/run.json", "=broken/"] {
        assert_eq!(left_out.iter().filter(|line| line.contains(expected)).count(), 1, "{expected} in\n{told}");
    }
    for (language, caution) in [("en", "runs that could not be read are in none"), ("zh", "以下运行的数据无法读取")]
    {
        let report = fs::read_to_string(bench.path(&format!("site/e/{language}.md"))).unwrap();
        assert!(report.contains(caution) && report.contains("`case=v/run=1/node=0`"), "{report}");
        assert!(report.contains("`case=w/run=2/node=0`"), "{report}");
        assert!(!report.contains(&bench.path("").display().to_string()), "a path of this machine is in {report}");
    }
}

#[test]
fn where_nothing_can_be_read_there_is_one_line_and_no_site() {
    let bench = recorded();
    for (case, number) in [("v", 1), ("v", 2), ("w", 1), ("w", 2)] {
        fs::write(run(&bench, case, number).join("run.json"), "{").unwrap();
    }
    for command in ["list", "render"] {
        let output = bench.shice(&[command]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.lines().count() == 1 && message.contains("(and 3 more; `shice verify` names all)"),
            "{message}"
        );
    }
    assert!(!bench.path("site").exists());
    // Nor is anything added to what cannot be read.
    let output = bench.shice(&["record", "--env", "e", "--workload", "x", "--repeats", "1", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("nothing can be added to"), "{}", text(&output.stderr));
}

#[test]
fn figures_that_cannot_be_are_refused_by_name() {
    let bench = Bench::new();
    bench.record("true");
    let path = bench.only_run().dir.join("run.json");
    let whole = fs::read_to_string(&path).unwrap();
    let duration = whole.lines().find(|line| line.contains("\"duration_ns\"")).unwrap();
    let cores = whole.lines().find(|line| line.contains("\"cores_online\"") && line.starts_with("    ")).unwrap();
    for (from, to, expected) in [
        (duration, "\"duration_ns\": -1,", "duration_ns is -1"),
        (cores, "\"cores_online\": 0,", "limits.cores_online is 0"),
        (duration, "\"duration_ns\": NaN,", "damaged or no JSON"),
    ] {
        fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        for command in ["list", "render", "verify"] {
            let output = bench.shice(&[command]);
            let told = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(told.contains("run.json") && told.contains(expected), "{command}: {told}");
        }
    }
}

#[test]
fn a_folder_with_a_page_of_somebody_elses_is_refused() {
    let bench = Bench::new();
    bench.record("true");
    fs::create_dir(bench.path("public")).unwrap();
    fs::write(bench.path("public/index.html"), "<title>My homepage</title>").unwrap();
    let output = bench.shice(&["render", "traces", "--out", "public"]);
    tells_in_one_line(&output, 2, "public/index.html is no page of shice's");
    assert_eq!(bench.files("public").len(), 1);
    // A site of ours is written again.
    for _ in 0..2 {
        let output = bench.shice(&["render", "traces", "--out", "site"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}
