//! Traces that somebody's hand, a full disk or a careless copy has changed: what `list`, `render` and `verify` tell of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, text};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// Environment `e` with three runs of the case `w`.
fn three_runs() -> Bench {
    let bench = Bench::new();
    let arguments = ["record", "--env", "e", "--workload", "w", "--repeats", "3", "--", "sh", "-c", "sleep 0.3"];
    let output = bench.shice(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    bench
}

fn run(bench: &Bench, number: u32) -> PathBuf {
    bench.path(&format!("traces/environment=e/case=w/run={number}/node=0"))
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

fn edit(run: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let path = run.join("run.json");
    let mut record = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut record);
    fs::write(path, record.to_string()).unwrap();
}

/// What a command tells, on both streams. One that hangs is ended, and says nothing.
fn told(bench: &Bench, command: &str) -> String {
    let mut timed = Command::new("timeout");
    timed.args(["60", env!("CARGO_BIN_EXE_shice"), command]).current_dir(bench.path(""));
    let output = timed.output().unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

/// Each command tells of one thing, in a line that has all of `expected`.
fn all_tell(bench: &Bench, expected: &[&str]) {
    for command in ["list", "render", "verify"] {
        let told = told(bench, command);
        let lines = told.lines().filter(|line| expected.iter().all(|part| line.contains(part)));
        assert_eq!(lines.count(), 1, "{command} should tell {expected:?}:\n{told}");
    }
}

fn report(bench: &Bench, language: &str) -> String {
    fs::read_to_string(bench.path(&format!("site/e/{language}.md"))).unwrap()
}

#[test]
fn what_is_no_file_is_told_of_its_run_and_hangs_nothing() {
    let bench = three_runs();
    let whole = bench.path("whole");
    copy(&bench.path("traces"), &whole);
    let put = |path: &Path, kind: &str| {
        fs::remove_file(path).unwrap();
        match kind {
            "a named pipe" => mkfifo(path, Mode::S_IRWXU).unwrap(),
            "a folder" => fs::create_dir(path).unwrap(),
            // The socket stays when nobody listens any more.
            "a socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
            _ => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        }
    };
    for kind in ["a named pipe", "a folder", "a socket", "a device"] {
        for name in ["run.json", "host.parquet"] {
            // The path of a socket may not be long.
            let path = run(&bench, 2).join(name);
            put(&path, kind);
            all_tell(&bench, &["run=2", name, &format!("it is {kind} where a file belongs")]);
            assert!(report(&bench, "en").contains("run=2/node=0"));
            fs::remove_dir_all(bench.path("traces")).unwrap();
            copy(&whole, &bench.path("traces"));
        }
    }
    for name in ["environment.json", "runs.parquet"] {
        put(&bench.path("traces/environment=e").join(name), "a named pipe");
        assert!(told(&bench, "verify").contains(&format!("{name}: it cannot be read: it is a named pipe")));
        assert!(told(&bench, "list").contains("w: 3 finished"));
    }
    // A site is not written over what cannot be known to be one.
    fs::remove_dir_all(bench.path("site")).unwrap();
    fs::create_dir(bench.path("site")).unwrap();
    mkfifo(&bench.path("site/index.html"), Mode::S_IRWXU).unwrap();
    assert!(told(&bench, "render").contains("index.html is no page of shice's"));
}

#[test]
fn a_lock_or_a_journal_that_is_no_file_hangs_nobody() {
    let bench = three_runs();
    mkfifo(&run(&bench, 2).join("journal.jsonl"), Mode::S_IRWXU).unwrap();
    for command in ["list", "render"] {
        let told = told(&bench, command);
        assert!(
            told.contains("run=2") && told.contains("it is a named pipe where a file belongs"),
            "{command}: {told}"
        );
    }
    fs::remove_file(bench.path("traces/environment=e/.lock")).unwrap();
    mkfifo(&bench.path("traces/environment=e/.lock"), Mode::S_IRWXU).unwrap();
    for command in ["list", "render", "verify"] {
        assert!(!told(&bench, command).is_empty(), "{command}");
    }
}

#[test]
fn the_folder_of_a_run_without_its_record_is_told_and_left_out() {
    let bench = three_runs();
    fs::remove_file(run(&bench, 2).join("run.json")).unwrap();
    all_tell(&bench, &["run=2/node=0: the folder of a run holds no run.json"]);
    assert!(told(&bench, "list").contains("w: 2 finished"));
    assert!(report(&bench, "en").contains("`case=w/run=2/node=0`"));
    // Nor is anything added to what cannot be read.
    let again = ["record", "--env", "e", "--workload", "x", "--repeats", "1", "--", "true"];
    assert!(text(&bench.shice(&again).stderr).contains("nothing can be added to"));
    // What a recorder left that was killed before it recorded anything is told too, and keeps nobody from going on.
    fs::remove_dir_all(run(&bench, 2).parent().unwrap()).unwrap();
    fs::create_dir_all(run(&bench, 4)).unwrap();
    fs::write(run(&bench, 4).join("journal.jsonl"), "").unwrap();
    fs::create_dir_all(run(&bench, 5).parent().unwrap()).unwrap();
    assert!(told(&bench, "list").contains("run=4/node=0: the folder of a run holds no run.json, nor anything"));
    assert!(told(&bench, "list").contains("run=5: the folder of a run holds no run.json, nor anything"));
    let output = bench.shice(&again);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_copied_run_does_not_count_twice() {
    let bench = three_runs();
    let (first, fourth) = (run(&bench, 1), run(&bench, 4));
    fs::create_dir(fourth.parent().unwrap()).unwrap();
    copy(&first, &fourth);
    all_tell(&bench, &["run=4: run.json below it belongs into run=1", "remove it where it is a copy"]);
    assert!(told(&bench, "list").contains("w: 3 finished"));
    // Under its new number it still has the place of the first in its session.
    edit(&fourth, |record| record["run"] = 4.into());
    all_tell(&bench, &["case=w/run=1 and case=w/run=4 have the same place in one session", "remove it"]);
    edit(&fourth, |record| record["sequence"] = 4.into());
    all_tell(&bench, &["case=w/run=1 and case=w/run=4 started in the same nanosecond", "remove it"]);
    assert!(told(&bench, "list").contains("w: 3 finished"));
    assert!(report(&bench, "en").contains("`case=w/run=4/node=0`"));
    // A run of another environment, or of another case.
    edit(&fourth, |record| {
        (record["started_unix_ns"], record["environment"]) = (5.into(), "f".into());
    });
    all_tell(&bench, &["environment=e: run.json below it belongs into environment=f"]);
    edit(&fourth, |record| (record["environment"], record["workload"]) = ("e".into(), "v".into()));
    all_tell(&bench, &["case=w: run.json below it belongs into case=v"]);
}

#[test]
fn tables_that_are_missing_or_cut_are_told_without_being_decoded() {
    let bench = three_runs();
    fs::remove_file(run(&bench, 1).join("host.parquet")).unwrap();
    let cut = run(&bench, 2).join("process.parquet");
    let bytes = fs::read(&cut).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let listed = told(&bench, "list");
    assert!(listed.contains("run=1/node=0/host.parquet: the file is missing"), "{listed}");
    all_tell(&bench, &["run=2/node=0/process.parquet is damaged: it has ", " bytes where "]);
    let told = told(&bench, "render");
    assert!(told.contains("the table host of the run in traces/environment=e/case=w/run=1/node=0"), "{told}");
    for (language, sentence) in [("en", "Missing from the trace"), ("zh", "记录中缺少数据表")] {
        assert!(report(&bench, language).contains(sentence), "{language}");
    }
    // A trace of an older program has no lengths.
    for number in [1, 2] {
        edit(&run(&bench, number), |record| drop(record.as_object_mut().unwrap().remove("files")));
    }
    let listed = self::told(&bench, "list");
    assert!(listed.contains("run=1/node=0/host.parquet: the file is missing"), "{listed}");
    assert!(listed.contains("run=2/node=0/process.parquet is damaged"), "{listed}");
}

#[test]
fn figures_that_cannot_be_are_told_and_not_printed() {
    let bench = three_runs();
    edit(&run(&bench, 1), |record| record["duration_ns"] = 0.into());
    edit(&run(&bench, 2), |record| record["cpu"]["cgroup_ns"] = i64::MAX.into());
    all_tell(&bench, &["run=1", "duration_ns is 0"]);
    all_tell(&bench, &["run=2", "cpu.cgroup_ns is 9223372036854775807"]);
    // Below what any run could use, but more than this one could.
    edit(&run(&bench, 2), |record| record["cpu"]["cgroup_ns"] = 1_000_000_000_000_000_i64.into());
    all_tell(&bench, &["run=2", "CPU time (control group) is 1000000.000 s, more than all cores could give"]);
    let report = report(&bench, "en");
    assert!(report.contains("`case=w/run=1/node=0`") && report.contains("`case=w/run=2/node=0`"), "{report}");
    assert!(!report.contains("000000.0 %") && !report.contains("1000000 s"), "{report}");
}
