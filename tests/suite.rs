//! `shice record --suite`, `--dry-run` and `--replace`: what is recorded, in which order, and what becomes of what is there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use common::{Bench, tells_in_one_line, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shice::trace::run::Outcome;

const TWO_ENVIRONMENTS: &str = r#"
repeats = 4
[[case]]
workload = "w"
command = ["sh", "-c", "echo $WHICH {n} >> said"]
[case.sweep]
n = [1, 2]
[[environment]]
name = "image-a"
prefix = ["env", "WHICH=a"]
[[environment]]
name = "image-b"
prefix = ["env", "WHICH=b"]
"#;

fn suite(bench: &Bench, toml: &str, flags: &[&str]) -> Output {
    fs::write(bench.path("suite.toml"), toml).unwrap();
    bench.shice(&[&["record", "--suite", "suite.toml"], flags].concat())
}

#[test]
fn two_environments_are_recorded_in_one_session_into_two_traces_so_that_drift_favours_none() {
    let bench = Bench::new();
    let output = suite(&bench, TWO_ENVIRONMENTS, &["--repeats", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(bench.path("said")).unwrap(), "a 1\nb 1\na 2\nb 2\nb 2\na 2\nb 1\na 1\n");
    let trace = bench.trace();
    let names: Vec<&str> = trace.environments.iter().map(|environment| environment.name.as_str()).collect();
    assert_eq!(names, ["image-a", "image-b"]);
    let runs: Vec<_> = trace.environments.iter().flat_map(|environment| &environment.runs).collect();
    let sessions: BTreeSet<i64> = runs.iter().map(|run| run.record.session_unix_ns).collect();
    assert_eq!(sessions.len(), 1);
    let mut sequence: Vec<_> = runs
        .iter()
        .map(|run| {
            let record = &run.record;
            assert_eq!(record.command[..2], ["env", &format!("WHICH={}", &record.environment["image-".len()..])]);
            (record.sequence, record.block, record.environment.as_str(), record.settings["n"].as_str())
        })
        .collect();
    sequence.sort_unstable();
    let expected = [
        (1, 1, "image-a", "1"),
        (2, 1, "image-b", "1"),
        (3, 1, "image-a", "2"),
        (4, 1, "image-b", "2"),
        (5, 2, "image-b", "2"),
        (6, 2, "image-a", "2"),
        (7, 2, "image-b", "1"),
        (8, 2, "image-a", "1"),
    ];
    assert_eq!(sequence, expected);
    for environment in &trace.environments {
        assert_eq!(runs_table(&environment.dir), 4);
    }
    assert!(bench.shice(&["verify"]).status.success());
}

/// How many rows `runs.parquet` has.
fn runs_table(environment: &std::path::Path) -> usize {
    use polars::prelude::{ParquetReader, SerReader};
    ParquetReader::new(fs::File::open(environment.join("runs.parquet")).unwrap()).finish().unwrap().height()
}

#[test]
fn one_environment_of_a_suite_is_chosen_by_name() {
    let bench = Bench::new();
    assert!(suite(&bench, TWO_ENVIRONMENTS, &["--repeats", "1", "--env", "image-b"]).status.success());
    assert_eq!(fs::read_to_string(bench.path("said")).unwrap(), "b 1\nb 2\n");
    let output = suite(&bench, TWO_ENVIRONMENTS, &["--env", "image-c"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(message.contains("did you mean \"image-a\"? (known here: image-a, image-b)"), "{message}");
}

#[test]
fn a_suite_that_is_wrong_is_told_in_one_line_and_starts_nothing() {
    let bench = Bench::new();
    let output = suite(&bench, &TWO_ENVIRONMENTS.replace("prefix", "prefxi"), &[]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        message,
        "shice: suite.toml:10: unknown key \"prefxi\" in [[environment]]; did you mean \"prefix\"? (known here: name, prefix)\n"
    );
    let output = bench.shice(&["record", "--suite", "missing.toml"]);
    assert!(text(&output.stderr).contains("cannot read the suite missing.toml"), "{}", text(&output.stderr));
    let without = TWO_ENVIRONMENTS.split("[[environment]]").next().unwrap();
    let output = suite(&bench, without, &[]);
    assert!(text(&output.stderr).contains("no environment is named"), "{}", text(&output.stderr));
    let output = suite(&bench, &TWO_ENVIRONMENTS.replace("\"env\"", "\"no-such-command-anywhere\""), &[]);
    assert_eq!(output.status.code(), Some(127));
    assert!(!bench.path("traces").exists() && !bench.path("said").exists());
}

#[test]
fn the_example_of_the_documentation_can_be_recorded() {
    let bench = Bench::new();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/suite.md")).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(bench.path("train.py"), "import os, sys\nprint(os.environ['PYTHONPATH'], *sys.argv[1:])").unwrap();
    let output = suite(&bench, example, &[]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(said.lines().count(), 2 * 7 * 2, "{said}");
    assert_eq!(said.matches("/opt/torch-2.8 --batch-size 64 --workers=0\n").count(), 2, "{said}");
    assert_eq!(said.matches("{'accuracy': 0.5}\n").count(), 4, "{said}");
    let others = page.split("```toml\n").skip(2).map(|rest| rest.split("```").next().unwrap());
    for block in others {
        let output = suite(&bench, &format!("{block}\n[[case]]\nworkload = \"idle\""), &["--dry-run"]);
        // docker need not be here.
        assert!(matches!(output.status.code(), Some(0 | 127)), "{}", text(&output.stderr));
    }
}

#[test]
fn a_dry_run_shows_the_order_and_an_estimate_and_touches_nothing() {
    let bench = Bench::new();
    let output = suite(&bench, TWO_ENVIRONMENTS, &["--dry-run", "--repeats", "2"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let runs: Vec<&str> = shown.lines().filter(|line| line.contains(" · ")).map(str::trim).collect();
    assert_eq!(runs[..3], ["1  image-a · w n=1", "2  image-b · w n=1", "3  image-a · w n=2"]);
    assert_eq!(runs[7], "8  image-a · w n=1");
    assert!(shown.contains("\n     $ env WHICH=a sh -c 'echo $WHICH 1 >> said'\n"), "{shown}");
    assert!(shown.ends_with(
        "8 runs: 2 environments × 2 cases × 2 repeats; no estimate, because no run of these cases has finished before; nothing has been recorded\n"
    ), "{shown}");
    assert!(!bench.path("traces").exists() && !bench.path("said").exists());

    suite(&bench, TWO_ENVIRONMENTS, &["--env", "image-a", "--repeats", "1"]);
    let before = bench.files("traces");
    let output = suite(&bench, TWO_ENVIRONMENTS, &["--dry-run", "--append"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("image-a · w n=1  about 0."), "{shown}");
    assert!(shown.contains("about 1s, not counting the 8 run(s) of cases without an earlier one"), "{shown}");
    let refused = suite(&bench, TWO_ENVIRONMENTS, &["--dry-run"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(text(&refused.stderr).contains("is already recorded"), "{}", text(&refused.stderr));
    assert_eq!(bench.files("traces"), before);
}

#[test]
fn a_dry_run_counts_a_run_whose_recorder_died_and_leaves_it_as_it_is() {
    let bench = Bench::new();
    let mut recorder =
        bench.command(&["record", "--env", "e", "--workload", "w", "--", "sleep", "60"]).spawn().unwrap();
    let dir = bench.path("traces/environment=e/case=w/run=1/node=0");
    wait_until("samples are written", || fs::metadata(dir.join("journal.jsonl")).is_ok_and(|file| file.len() > 2000));
    let again = ["record", "--env", "e", "--workload", "w", "--dry-run", "--", "sleep", "60"];
    tells_in_one_line(&bench.shice(&again), 125, "another shice is recording into");
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let before = bench.contents("traces");
    tells_in_one_line(&bench.shice(&again), 125, "is already recorded");
    assert!(bench.contents("traces") == before, "the dry run changed the recording");
    let workload = bench.only_run();
    let pid = common::column::<shice::trace::tables::Process>(&workload, "pid")[0] as i32;
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[test]
fn shipped_workloads_get_their_settings_as_options_and_unknown_ones_are_refused() {
    let bench = Bench::new();
    // Beside a copy of the program, so that this stand-in is found in the place of the real one.
    fs::copy(env!("CARGO_BIN_EXE_shice"), bench.path("shice")).unwrap();
    fs::write(bench.path("shice-workloads"), "#!/bin/sh\necho \"$@\"\n").unwrap();
    fs::set_permissions(bench.path("shice-workloads"), fs::Permissions::from_mode(0o755)).unwrap();
    let record = |words: &[&str]| {
        let mut command = std::process::Command::new(bench.path("shice"));
        command.args(["record", "--repeats", "1"]).args(words).current_dir(bench.path("")).output().unwrap()
    };
    let sweeps = ["--sweep", "batch-size=16,32", "--sweep", "threads=1,2"];
    let output = record(&[&["--env", "e", "--quick", "--device", "cpu"], sweeps.as_slice(), &["small-cnn"]].concat());
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "small-cnn --batch-size 16 --device cpu --threads 1 --quick");
    assert_eq!((lines.len(), lines[3]), (4, "small-cnn --batch-size 32 --device cpu --threads 2 --quick"));

    let suite = "[[case]]\nworkload = \"small-cnn\"\n[case.settings]\ncpus = 1\nbath-size = 16\n\
                 [[environment]]\nname = \"f\"\nprefix = [\"env\", \"CPUS={cpus}\"]";
    fs::write(bench.path("suite.toml"), suite).unwrap();
    let output = record(&["--suite", "suite.toml"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        message.contains("suite.toml:5: settings.bath-size: the workload small-cnn has no setting \"bath-size\"; did you mean \"batch-size\"?"),
        "{message}"
    );
    fs::write(bench.path("suite.toml"), suite.replace("bath", "batch")).unwrap();
    let output = record(&["--suite", "suite.toml", "--dry-run"]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("$ env CPUS=1 shice-workloads small-cnn --batch-size 16\n"),
        "{shown}{}",
        text(&output.stderr)
    );
}

/// Records two runs of a script as `w`; with `--set` as another of its cases.
fn record(bench: &Bench, flags: &[&str], script: &str) -> Output {
    let words = ["record", "--env", "e", "--workload", "w", "--repeats", "2"];
    bench.shice(&[words.as_slice(), flags, &["--", "sh", "-c", script]].concat())
}

/// The last word of each run's command, with its number and how it ended.
fn runs(bench: &Bench) -> Vec<(u32, String, Outcome)> {
    let trace = bench.trace();
    let row = |run: &shice::trace::Run| (run.record.run, run.record.command[2].clone(), run.record.outcome);
    trace.environments[0].runs.iter().map(row).collect()
}

#[test]
fn replacing_keeps_the_earlier_runs_until_a_new_one_has_finished() {
    let bench = Bench::new();
    let earlier = |bench: &Bench| {
        record(bench, &[], "true");
        record(bench, &["--set", "n=2"], "true");
    };
    earlier(&bench);
    // Within the new session a first run fails, and the earlier ones are still there; they go with the second.
    let script = "ls traces/environment=e/case=w >> seen; test -e once || ! touch once";
    let output = record(&bench, &["--replace"], script);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(bench.path("seen")).unwrap(), "run=1\nrun=2\n".repeat(2));
    let found = runs(&bench);
    let failed = Outcome::Failed { exit_code: 1 };
    assert_eq!(found[2..], [(1, script.to_owned(), failed), (2, script.to_owned(), Outcome::Finished)]);
    // Exactly this case, no other.
    assert_eq!(found[..2], [1, 2].map(|run| (run, "true".to_owned(), Outcome::Finished)));
    assert_eq!(runs_table(&bench.path("traces/environment=e")), 4);
    assert!(!bench.path("traces/environment=e/.replacing").exists());
}

#[test]
fn where_no_new_run_finishes_the_earlier_ones_stay_as_they_were() {
    let bench = Bench::new();
    record(&bench, &[], "true");
    let before: Vec<_> = bench.files("traces").iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let output = record(&bench, &["--replace"], "exit 3");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("2 run(s) are not kept") && said.contains("0 run(s) recorded in"), "{said}");
    let after: Vec<_> = bench.files("traces").iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    assert!(before == after, "{:?}", bench.files("traces"));
}

#[test]
fn a_killed_replacement_has_lost_nothing_and_the_next_one_begins_anew() {
    let bench = Bench::new();
    record(&bench, &[], "true");
    let script = "echo $$ > pid; test -e again || exec sleep 60";
    let words = ["record", "--env", "e", "--workload", "w", "--repeats", "1", "--replace", "--", "sh", "-c", script];
    let mut recorder = bench.command(&words).spawn().unwrap();
    let pid = || fs::read_to_string(bench.path("pid")).ok()?.trim().parse().ok();
    wait_until("the workload runs", || pid().is_some());
    let aside = bench.path("traces/environment=e/.replacing");
    assert!(aside.exists());
    kill(Pid::from_raw(i32::try_from(recorder.id()).unwrap()), Signal::SIGKILL).unwrap();
    recorder.wait().unwrap();
    // The workload outlives its recorder; this test must not leave it behind.
    kill(Pid::from_raw(pid().unwrap()), Signal::SIGKILL).unwrap();
    let verified = text(&bench.shice(&["verify"]).stdout);
    assert!(verified.contains("was to replace runs was killed; `shice list`"), "{verified}");
    let listed = bench.shice(&["list"]);
    assert_eq!(text(&listed.stdout).lines().count(), 2, "{}", text(&listed.stdout));
    assert_eq!(runs(&bench), [1, 2].map(|run| (run, "true".to_owned(), Outcome::Finished)));
    assert!(!aside.exists());

    // Once more, met by the next recording instead of a reader.
    fs::remove_file(bench.path("pid")).unwrap();
    let mut recorder = bench.command(&words).spawn().unwrap();
    wait_until("the workload runs", || pid().is_some());
    kill(Pid::from_raw(i32::try_from(recorder.id()).unwrap()), Signal::SIGKILL).unwrap();
    recorder.wait().unwrap();
    kill(Pid::from_raw(pid().unwrap()), Signal::SIGKILL).unwrap();
    fs::write(bench.path("again"), "").unwrap();
    let output = bench.shice(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(runs(&bench), [(1, script.to_owned(), Outcome::Finished)]);
    assert!(!aside.exists());
}

#[test]
fn an_interrupted_replacement_leaves_the_earlier_runs() {
    let bench = Bench::new();
    record(&bench, &[], "true");
    let words = ["record", "--env", "e", "--workload", "w", "--replace", "--", "sh", "-c", "touch runs; exec sleep 60"];
    let mut recorder = bench.command(&words).spawn().unwrap();
    wait_until("the workload runs", || bench.path("runs").exists());
    kill(Pid::from_raw(i32::try_from(recorder.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(130));
    assert_eq!(runs(&bench), [1, 2].map(|run| (run, "true".to_owned(), Outcome::Finished)));
}

#[test]
fn a_machine_that_has_changed_may_be_recorded_anew_only_as_a_whole() {
    let bench = Bench::new();
    bench.record("true");
    bench.edit_record(|record| record["fingerprint"]["cpu_model"] = "Another CPU".into());
    record(&bench, &["--append", "--set", "n=2"], "true");
    let output = record(&bench, &["--replace", "--set", "n=2"], "true");
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("different: cpu_model"), "{}", text(&output.stderr));
    assert!(record(&bench, &["--replace"], "true").status.success());
}

#[test]
fn shipped_suites_are_named_without_a_file_and_leave_out_devices_that_are_not_there() {
    let bench = Bench::new();
    let dry_run = |suite: &str| bench.shice(&["record", "--env", "e", "--suite", suite, "--dry-run"]);
    for (suite, case) in [
        ("quick", "llama2-finetune device=cpu quick=true"),
        ("articles", "small-cnn device=cpu workers=4"),
        ("sweep", "small-cnn batch-size=128 device=cpu quick=true threads=2 workers=2"),
        ("sweep-large", "llama2-finetune accumulate=4 batch-size=8 device=cpu model=tiny offload=false quick=true"),
    ] {
        let output = dry_run(suite);
        assert!(output.status.success(), "{suite}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(case), "{suite}: {}", text(&output.stdout));
    }
    tells_in_one_line(&dry_run("quikc"), 125, "cannot read the suite quikc (shipped are quick, articles");
}

#[test]
fn within_a_time_limit_repeats_are_left_out_as_whole_rounds() {
    let bench = Bench::new();
    let case = |name: &str| format!("[[case]]\nworkload = \"{name}\"\ncommand = [\"sleep\", \"2.5\"]\n");
    fs::write(bench.path("suite.toml"), format!("repeats = 3\n{}{}", case("a"), case("b"))).unwrap();
    // By hand: of 6 s a round takes 5, so that a second one does not fit.
    let output = bench.shice(&["record", "--env", "e", "--suite", "suite.toml", "--minutes", "0.1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(bench.trace().environments[0].runs.len(), 2);
    let told = text(&output.stderr);
    assert!(told.contains("The repeats from 2 on are left out: one of each case takes about 6s"), "{told}");
    let wrong = bench.shice(&["record", "--env", "e", "--suite", "suite.toml", "--minutes", "0"]);
    assert!(text(&wrong.stderr).contains("write a number of minutes above 0"), "{}", text(&wrong.stderr));
}
