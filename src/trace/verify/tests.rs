use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::files;
use crate::trace::environment::write_derived;
use crate::trace::finish::write_record;
use crate::trace::layout::{case_dir, environment_dir, node_dir};
use crate::trace::open::open_environment;
use crate::trace::parquet::Sink;
use crate::trace::run::{Coverage, CoverageState};
use crate::trace::table::Table;
use crate::trace::tables::{Cgroup, Core, Host, Memory, ProcessSample, Step};

const SECOND: i64 = 1_000_000_000;

/// A trace of one environment with two whole runs of one case.
struct Whole(TempDir);

impl Whole {
    fn new() -> Self {
        let whole = Self(tempfile::tempdir().unwrap());
        for run in [1, 2] {
            let record = RunRecord {
                run,
                sequence: run,
                started_unix_ns: i64::from(run) * 60 * SECOND,
                duration_ns: Some(10 * SECOND),
                coverage: vec![measured("host.cpu"), measured("core"), measured("process_sample.io")],
                ..RunRecord::for_tests(Outcome::Finished)
            };
            let dir = whole.run(run);
            fs::create_dir_all(&dir).unwrap();
            write_record(&dir, &record).unwrap();
            whole.store(run, (0..=10).map(|t| Host { cpu_user_ns: Some(t), ..host(t) }));
            whole.store(run, (0..=10).flat_map(|t| [core(t, 0, t), core(t, 1, 2 * t)]));
            whole.store(run, [ProcessSample { t_ns: 1, process: 0, read_bytes: Some(1), ..ProcessSample::default() }]);
        }
        whole.derive();
        whole
    }

    fn environment(&self) -> PathBuf {
        environment_dir(self.0.path(), "test")
    }

    fn run(&self, run: u32) -> PathBuf {
        node_dir(&case_dir(&self.environment(), "own device=cpu"), run)
    }

    /// Writes a table anew.
    fn store<T: Table>(&self, run: u32, rows: impl IntoIterator<Item = T>) {
        let mut sink = Sink::new(&self.run(run));
        rows.into_iter().for_each(|row| sink.push(row).unwrap());
        sink.close().unwrap();
    }

    fn edit(&self, run: u32, change: impl FnOnce(&mut RunRecord)) {
        let mut record = RunRecord::read(&self.run(run).join(RUN_FILE)).unwrap();
        change(&mut record);
        write_record(&self.run(run), &record).unwrap();
    }

    fn derive(&self) {
        write_derived(&open_environment(&self.environment()).unwrap().environment.unwrap()).unwrap();
    }

    fn verdict(&self) -> Verdict {
        verify(self.0.path()).unwrap()
    }

    /// What is wrong must be one thing, told in one line that has all of `expected`.
    fn assert_wrong(&self, expected: &[&str]) {
        let problems = self.verdict().problems;
        assert_eq!(problems.len(), 1, "{problems:#?} should be one about {expected:?}");
        for part in expected {
            assert!(problems[0].contains(part), "{:?} should have {part:?}", problems[0]);
        }
        assert!(!problems[0].contains('\n') && problems[0].contains("; "), "{:?}", problems[0]);
    }
}

fn measured(metric: &str) -> Coverage {
    let (source, reason) = ("/proc/stat".to_owned(), String::new());
    Coverage { metric: metric.to_owned(), state: CoverageState::Measured, source, reason }
}

fn host(t: i64) -> Host {
    Host { t_ns: t * SECOND, ..Host::default() }
}

fn core(t: i64, core: i64, busy_ns: i64) -> Core {
    Core { t_ns: t * SECOND, core, busy_ns: Some(busy_ns), ..Core::default() }
}

/// Every file with its bytes and the time of its last change.
fn contents(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), (fs::read(&path).unwrap(), path.metadata().unwrap().modified().unwrap()));
        }
    }
    found
}

#[test]
fn a_whole_trace_is_counted_and_not_changed() {
    let whole = Whole::new();
    let before = contents(whole.0.path());
    // By hand: 2 runs of 11 rows of the host, 22 of cores, 1 of a process.
    let right = Verdict { environments: 1, runs: 2, tables: 6, rows: 68, ..Verdict::default() };
    assert_eq!(whole.verdict(), right);
    assert_eq!(verify(&whole.environment()).unwrap(), right);
    assert_eq!(contents(whole.0.path()), before);
}

#[test]
fn a_file_that_was_cut_is_named() {
    let whole = Whole::new();
    let path = whole.run(1).join("host.parquet");
    let bytes = fs::read(&path).unwrap();
    for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        whole.assert_wrong(&["host.parquet", "damaged", "restore it from a copy"]);
    }
}

#[test]
fn a_file_that_changed_in_any_byte_is_named_where_the_record_has_its_sum() {
    let whole = Whole::new();
    whole.edit(1, |record| record.files = sums::of_tables(&whole.run(1)).unwrap());
    assert_eq!(whole.verdict().problems, Vec::<String>::new());
    let path = whole.run(1).join("host.parquet");
    let bytes = fs::read(&path).unwrap();
    for at in (0..bytes.len()).step_by(53) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        fs::write(&path, changed).unwrap();
        whole.assert_wrong(&["host.parquet is damaged: its bytes are not those that were written"]);
    }
    fs::write(&path, &bytes).unwrap();
    whole.store(1, [Memory { t_ns: 1, pss_bytes: Some(1), ..Memory::default() }]);
    whole.assert_wrong(&["memory.parquet", "the run was finished without this file", "remove it"]);
    fs::remove_file(whole.run(1).join("memory.parquet")).unwrap();
    fs::remove_file(whole.run(1).join("process_sample.parquet")).unwrap();
    let problems = whole.verdict().problems;
    assert!(problems[0].contains("process_sample.parquet: the file is missing"), "{problems:?}");
}

#[test]
fn the_file_of_another_table_is_refused_by_name() {
    let whole = Whole::new();
    whole.store(1, [Memory { t_ns: 1, pss_bytes: Some(1), ..Memory::default() }]);
    fs::rename(whole.run(1).join("memory.parquet"), whole.run(1).join("host.parquet")).unwrap();
    whole.assert_wrong(&["host.parquet", "it holds the table \"memory\", not \"host\""]);
}

#[test]
fn a_counter_that_falls_is_told_for_the_core_that_it_is_of() {
    let whole = Whole::new();
    // Core 1 counts faster than core 0, so that the column alone falls with every row.
    whole.store(1, (0..=10).flat_map(|t| [core(t, 0, t), core(t, 1, if t == 7 { 3 } else { 2 * t })]));
    whole.assert_wrong(&["core.parquet", "the counter \"busy_ns\" falls 1 time(s), first at t_ns = 7000000000"]);
}

#[test]
fn cpu_time_that_no_core_could_give_is_told_of_every_table_that_counts_it() {
    // Two cores, of which each can give a second a second.
    let sample = |cpu_ns| ProcessSample { t_ns: 5 * SECOND, cpu_ns: Some(cpu_ns), ..ProcessSample::default() };
    let group = |cpu_ns| Cgroup { t_ns: 5 * SECOND, cpu_ns: Some(cpu_ns), ..Cgroup::default() };
    let told = |column: &str| format!("{column:?} is more than the cores could give in the time in 1 row(s)");
    let whole = Whole::new();
    whole.store(1, [sample(10 * SECOND), ProcessSample { read_bytes: Some(1), ..sample(10 * SECOND) }]);
    whole.store(1, [group(10 * SECOND)]);
    whole.store(1, [core(5, 0, 5 * SECOND)]);
    whole.store(1, [Host { cpu_user_ns: Some(10 * SECOND), ..host(5) }]);
    assert_eq!(whole.verdict().problems, Vec::<String>::new());
    whole.store(1, [core(5, 0, 6 * SECOND)]);
    whole.assert_wrong(&["core.parquet", &told("busy_ns")]);
    let whole = Whole::new();
    whole.store(1, [group(i64::MAX)]);
    whole.assert_wrong(&["cgroup.parquet", &told("cpu_ns")]);
    let whole = Whole::new();
    whole.store(1, [ProcessSample { read_bytes: Some(1), ..sample(11 * SECOND) }]);
    whole.assert_wrong(&["process_sample.parquet", &told("cpu_ns")]);
    let whole = Whole::new();
    whole.store(1, [Host { cpu_user_ns: Some(11 * SECOND), ..host(5) }]);
    whole.assert_wrong(&["host.parquet", &told("cpu_user_ns")]);
}

#[test]
fn times_that_go_back_or_lie_outside_of_the_run_are_told() {
    let whole = Whole::new();
    let back = (0..=10).map(|t| Host { cpu_user_ns: Some(t), ..host(if t == 5 { 3 } else { t }) });
    whole.store(1, back);
    whole.assert_wrong(&["host.parquet", "t_ns goes back 1 time(s), first to 3000000000"]);
    whole.store(1, [0, 1, 60, 61].map(|t| Host { cpu_user_ns: Some(t), ..host(t) }));
    whole.assert_wrong(&["host.parquet", "t_ns lies outside of the run in 2 row(s), first 60000000000"]);
    // Several ranks write their steps as they come.
    let whole = Whole::new();
    whole.store(1, [5, 4].map(|t| Step { t_ns: t, kind: "step".into(), rank: Some(t), ..Step::default() }));
    assert_eq!(whole.verdict().problems, Vec::<String>::new());
}

#[test]
fn the_ledger_must_agree_with_the_tables() {
    let whole = Whole::new();
    fs::remove_file(whole.run(1).join("core.parquet")).unwrap();
    whole.assert_wrong(&["run.json", "\"core\" was measured, but the table \"core\" is missing"]);
    whole.store(1, (0..=10).map(|t| Core { busy_ns: None, ..core(t, 0, 0) }));
    whole.assert_wrong(&["run.json", "\"core\" was measured, but there is no value of it"]);
    let whole = Whole::new();
    whole.edit(2, |record| record.coverage.push(measured("host.memory")));
    whole.assert_wrong(&["run=2", "\"host.memory\" was measured, but there is no value of it"]);
    let whole = Whole::new();
    whole.edit(2, |record| record.coverage[0].state = CoverageState::Denied);
    whole.assert_wrong(&["\"host.cpu\" could not be measured, but there are values of it"]);
    let whole = Whole::new();
    whole.edit(2, |record| record.coverage.push(measured("process_sample.memory")));
    whole.assert_wrong(&["run=2", "\"process_sample.memory\" was measured, but there is no value of it"]);
}

#[test]
fn a_line_of_the_ledger_must_name_something_that_there_is_unless_the_trace_is_of_a_newer_minor() {
    for metric in ["quantum.spin", "quantum", "host.new", "host.cp", "process_sample.disk"] {
        let whole = Whole::new();
        whole.edit(2, |record| record.coverage.push(measured(metric)));
        whole.assert_wrong(&["run=2", &format!("the ledger tells of {metric:?}, which no table has")]);
        whole.edit(2, |record| record.schema_version = "1.99".to_owned());
        assert_eq!(whole.verdict().problems, Vec::<String>::new());
    }
    let whole = Whole::new();
    whole.edit(2, |record| record.coverage.extend(["run.software", "host.t_ns"].map(measured)));
    assert_eq!(whole.verdict().problems, Vec::<String>::new());
}

#[test]
fn totals_that_cannot_be_are_told() {
    let whole = Whole::new();
    // Two cores for 10 s.
    whole.edit(1, |record| record.cpu.clocks_ns = Some(20 * SECOND));
    whole.derive();
    assert_eq!(whole.verdict().problems, Vec::<String>::new());
    whole.edit(1, |record| record.cpu.clocks_ns = Some(21 * SECOND));
    let problems = whole.verdict().problems;
    assert!(problems[0].contains("CPU time (clocks) is 21.000 s, more than all cores could give"), "{problems:?}");
    assert!(problems[1].contains("runs.parquet") && problems[1].contains("\"cpu_ns\""), "{problems:?}");
    let whole = Whole::new();
    whole.edit(1, |record| record.limits.cores_online = 0);
    whole.assert_wrong(&["run.json tells what cannot be (limits.cores_online is 0)"]);
}

#[test]
fn a_folder_that_does_not_fit_its_record_is_told() {
    let whole = Whole::new();
    let case = case_dir(&whole.environment(), "own device=cpu");
    fs::rename(&case, case.with_file_name("case=other")).unwrap();
    let problems = whole.verdict().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("case=other: run.json below it belongs into case=own-device-cpu-"), "{problems:?}");
    let whole = Whole::new();
    let run = whole.run(2);
    fs::rename(run.parent().unwrap(), run.parent().unwrap().with_file_name("run=02")).unwrap();
    whole.assert_wrong(&["run=02", "belongs into run=2", "rename the folder"]);
}

#[test]
fn a_run_that_was_copied_under_another_number_is_told() {
    let whole = Whole::new();
    whole.edit(2, |record| record.sequence = 1);
    whole.assert_wrong(&["run=1 and case=own-device-cpu", "have the same place in one session"]);
    whole.edit(2, |record| (record.sequence, record.started_unix_ns) = (2, 60 * SECOND));
    whole.assert_wrong(&["run=1 and case=own-device-cpu", "started in the same nanosecond"]);
}

#[test]
fn what_is_derived_must_agree_with_the_runs_and_may_be_missing() {
    let whole = Whole::new();
    whole.edit(1, |record| record.workload = "own".to_owned());
    whole.edit(1, |record| record.started_unix_ns += 1);
    whole.assert_wrong(&["runs.parquet", "\"started_unix_ns\"", "remove it"]);
    whole.derive();
    fs::remove_dir_all(whole.run(2).parent().unwrap()).unwrap();
    whole.assert_wrong(&["runs.parquet", "lists 2 run(s), but there are 1"]);
    fs::remove_file(whole.environment().join("runs.parquet")).unwrap();
    assert_eq!(whole.verdict().problems, Vec::<String>::new());
    let json = whole.environment().join("environment.json");
    fs::write(&json, fs::read_to_string(&json).unwrap().replace("\"test\"", "\"Test\"")).unwrap();
    whole.assert_wrong(&["environment.json", "\"name\" is not that of the runs"]);
}

#[test]
fn leftovers_are_told() {
    let whole = Whole::new();
    for name in
        [".host.parquet.part", ".reserve", "steps.jsonl", "container-id.txt", "not-executed.txt", "quantum.parquet"]
    {
        let path = whole.run(1).join(name);
        fs::write(&path, "x").unwrap();
        whole.assert_wrong(&[name, "remove it"]);
        fs::remove_file(path).unwrap();
    }
    fs::write(whole.environment().join(".runs.parquet.part"), "x").unwrap();
    whole.assert_wrong(&[".runs.parquet.part", "remove it"]);
}

#[test]
fn a_cut_run_is_told_and_left_as_it_is_and_one_that_is_recorded_is_no_problem() {
    let whole = Whole::new();
    files::write(&whole.run(2).join(JOURNAL_FILE), b"{}\n").unwrap();
    let before = contents(whole.0.path());
    whole.assert_wrong(&["run=2", "the recorder died before the run was finished; `shice list` finishes it"]);
    assert_eq!(contents(whole.0.path()), before);
    let _lock = Lock::take(&whole.environment()).unwrap();
    let verdict = whole.verdict();
    assert_eq!((verdict.runs, verdict.recording, verdict.problems), (1, 1, Vec::new()));
}

#[test]
fn a_run_that_cannot_be_read_hides_no_other() {
    let whole = Whole::new();
    fs::write(whole.run(1).join(RUN_FILE), "{\"schema_version\": \"1.0\"").unwrap();
    fs::write(whole.run(2).join(".reserve"), "x").unwrap();
    let problems = whole.verdict().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("run=1/node=0/run.json is damaged"), "{problems:?}");
    assert!(problems[1].contains("run=2/node=0/.reserve"), "{problems:?}");
}

#[test]
fn a_folder_without_runs_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(verify(folder.path()).unwrap_err().to_string().contains("holds no recorded run"));
    assert!(verify(&folder.path().join("no")).unwrap_err().to_string().contains("is no folder"));
}
