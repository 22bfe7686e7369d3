//! Recording what a container client starts, with a stand-in for `docker` whose daemon is outside the recorder's tree: in
//! real control groups where this user may make some, and in a folder that looks like them everywhere. Needs Python.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test may end so")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use common::{Bench, column, is_alive, tells_in_one_line, text, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use polars::prelude::{col, lit};
use shice::aggregate::metric::Metric;
use shice::trace::Run;
use shice::trace::run::{Coverage, CoverageState, GroupScope, Outcome};
use shice::trace::tables::{Cgroup, Foreign, Process, ProcessSample};

const MIB: f64 = (1 << 20) as f64;
/// Burns one second of CPU time with 100 MiB, and tells by its own clock what it used.
const BURN: &str = "import time\nblock = bytearray(b'x') * (100 << 20)\nwhile time.process_time() < 1: pass\ntime.sleep(0.5)\n\
                    open('own.txt', 'w').write(str(time.process_time()))";

/// A bench with a daemon.
struct Yard {
    bench: Bench,
    daemon: Child,
    folder: bool,
}

impl Yard {
    /// `None` where `mode` is `real` and no group may be made.
    fn new(mode: &str) -> Option<Self> {
        let bench = Bench::new();
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/docker");
        fs::create_dir_all(bench.path("bin")).unwrap();
        fs::create_dir_all(bench.path("groups/system.slice")).unwrap();
        std::os::unix::fs::symlink(scripts.join("client.py"), bench.path("bin/docker")).unwrap();
        let mut command = Command::new("python3");
        command.arg(scripts.join("daemon.py")).arg(bench.path("socket")).arg(mode).arg(bench.path("groups"));
        let mut daemon =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python (python3) is needed");
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let yard = Self { bench, daemon, folder: mode == "folder" };
        (line.trim() == "ready").then_some(yard)
    }

    fn folder() -> Self {
        Self::new("folder").unwrap()
    }

    /// Both kinds, as far as there are.
    fn all() -> Vec<Self> {
        let real = Self::new("real");
        if real.is_none() {
            eprintln!("not tested here: no control group can be made");
        }
        real.into_iter().chain([Self::folder()]).collect()
    }

    /// A program that finds the stand-in first.
    fn prepare(&self, mut command: Command) -> Command {
        let path = format!("{}:{}", self.bench.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).env("STAND_IN_SOCKET", self.bench.path("socket"));
        command.env_remove("DOCKER_HOST").env_remove("DOCKER_CONTEXT");
        if self.folder {
            command.env("SHICE_CGROUP_ROOT", self.bench.path("groups"));
        }
        command
    }

    fn command(&self, words: &[&str]) -> Command {
        let begin = ["record", "--env", "e", "--workload", "w"];
        self.prepare(self.bench.command(&[&begin[..], words].concat()))
    }

    fn record(&self, words: &[&str]) -> Output {
        self.command(&[&["--repeats", "1", "--"], words].concat()).output().unwrap()
    }

    /// Starts a container that burns CPU, beside any recorder; returns its client.
    fn start(&self, name: &str, script: &str) -> Child {
        let mut command = Command::new("docker");
        command.args(["run", "--name", name, "img", "sh", "-c", &format!("echo $$ > {name}.pid; {script}")]);
        let client = self.prepare(command).current_dir(self.bench.path("")).spawn().unwrap();
        self.pid(name);
        client
    }

    /// Waits for the pid of a container's first process.
    fn pid(&self, name: &str) -> i32 {
        let path = self.bench.path(&format!("{name}.pid"));
        wait_until("the container runs", || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // Its standard input ends, and it ends its containers.
        drop(self.daemon.stdin.take());
        let _ = self.daemon.wait();
    }
}

fn ledger<'a>(run: &'a Run, metric: &str) -> &'a Coverage {
    run.record.coverage.iter().find(|entry| entry.metric == metric).unwrap()
}

fn names(run: &Run, role: &str) -> Vec<String> {
    let rows = run.scan::<Process>().unwrap().unwrap();
    let rows = rows.filter(col("role").eq(lit(role))).select([col("name")]).collect().unwrap();
    rows.column("name").unwrap().str().unwrap().iter().flatten().map(str::to_owned).collect()
}

fn values(yard: &Yard) -> std::collections::BTreeMap<Metric, f64> {
    let environment = yard.bench.trace().environments.remove(0);
    shice::aggregate::summarise(&environment).unwrap().cases[0].runs[0].values.clone()
}

#[test]
fn cpu_time_and_memory_of_a_container_are_the_runs_and_not_those_of_its_client() {
    for yard in Yard::all() {
        fs::write(yard.bench.path("burn.py"), BURN).unwrap();
        let words = ["--repeats", "1", "--", "docker", "run", "--rm", "img", "python3", "burn.py"];
        let mut command = yard.command(&words);
        // Three times the container's memory, and half of its CPU time.
        let output = command.env("STAND_IN_CLIENT_MIB", "300").env("STAND_IN_CLIENT_SECONDS", "0.5").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let own: f64 = fs::read_to_string(yard.bench.path("own.txt")).unwrap().parse().unwrap();
        let run = yard.bench.only_run();
        let record = &run.record;
        assert_eq!(record.cgroup.cpu, Some(GroupScope::Container), "{:?}", record.events);
        let told = record.events.iter().any(|event| event.starts_with("SHICE_CGROUP_ROOT is set"));
        assert_eq!(told, yard.folder, "{:?}", record.events);
        // Its end takes CPU time too, which it cannot see of itself.
        let cpu = record.cpu.cgroup_ns.unwrap() as f64 / 1e9;
        assert!(cpu >= own * 0.98 && cpu < own + 0.45, "{cpu} against {own}");
        let best = record.cpu.best_ns().unwrap() as f64 / 1e9;
        assert!((best - cpu).abs() < 0.05, "{best} against {cpu}");
        assert_eq!(record.cpu.rusage_ns(), None, "the client's is not the run's");
        let values = values(&yard);
        for metric in [Metric::MemorySumOfPeaks, Metric::MemoryGroupPeak] {
            // Python itself takes less than 30 MiB.
            let Some(peak) = values.get(&metric).map(|bytes| bytes / MIB) else { continue };
            assert!((100.0..160.0).contains(&peak), "{metric:?}: {peak} MiB");
        }
        assert!(values.contains_key(&Metric::MemorySumOfPeaks) && values[&Metric::Processes] == 1.0, "{values:?}");
        assert!(names(&run, "container").iter().any(|name| name.starts_with("python3")));
        assert!(!names(&run, "client").is_empty());
        assert_eq!(record.command, ["docker", "run", "--rm", "img", "python3", "burn.py"]);
        assert_eq!(record.container.as_ref().unwrap().client, "docker");
        assert!(!run.dir.join("container-id.txt").exists());
        assert_eq!(ledger(&run, "process.role").state, CoverageState::Measured);
        assert_eq!(record.fingerprint["container_image"], "img");
        assert_eq!(record.fingerprint["container_image_digest"], "sha256:digest-img");
        assert_eq!(record.fingerprint["container_image_id"], "sha256:id-img");
        assert_eq!(record.fingerprint["container_image_bytes"], 12345);
        if yard.folder {
            assert_eq!((record.limits.cpu_cores, record.limits.memory_bytes), (Some(0.5), Some(1 << 30)));
        }
        // Another run of the same environment is no other machine because the image is known by now.
        let again =
            yard.command(&["--append", "--repeats", "1", "--", "docker", "run", "--rm", "img", "python3", "burn.py"]);
        assert!({ again }.output().unwrap().status.success());
    }
}

#[test]
fn the_exit_code_and_the_users_own_id_file_are_kept() {
    let yard = Yard::folder();
    let output = yard.record(&["docker", "run", "--cidfile", "my.id", "img", "sh", "-c", "sleep 0.5; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let run = yard.bench.only_run();
    assert_eq!(run.record.outcome, Outcome::Failed { exit_code: 7 });
    assert!(run.record.cpu.cgroup_ns.is_some(), "{:?}", run.record.events);
    assert_eq!(fs::read_to_string(yard.bench.path("my.id")).unwrap().len(), 64);
}

#[test]
fn what_cannot_be_followed_is_refused_before_anything_is_written() {
    let yard = Yard::folder();
    let mut remote = yard.command(&["--", "docker", "run", "img"]);
    remote.env("DOCKER_HOST", "tcp://far:2375");
    for (mut command, expected) in [
        (yard.command(&["--", "docker", "run", "-d", "img"]), "leave -d out"),
        (yard.command(&["--", "docker", "exec", "c", "true"]), "--container NAME"),
        (yard.command(&["--", "docker", "--context", "far", "run", "img"]), "another machine here (--context far)"),
        (remote, "shice record"),
        (yard.command(&["--container", "nobody"]), "no running container"),
        (yard.command(&["--container", "nobody", "--repeats", "1"]), "recorded once"),
    ] {
        tells_in_one_line(&command.output().unwrap(), 125, expected);
    }
    assert!(!yard.bench.path("traces").exists());
}

#[test]
fn a_container_that_is_not_found_leaves_null_and_says_so() {
    let yard = Yard::folder();
    let mut command = yard.command(&["--repeats", "1", "--", "docker", "run", "img", "sleep", "0.5"]);
    let output = command.env("STAND_IN_NO_ID", "1").env("STAND_IN_CLIENT_MIB", "50").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = yard.bench.only_run();
    assert_eq!(run.record.cpu, Default::default());
    assert_eq!(ledger(&run, "process.role").state, CoverageState::Lost);
    assert_eq!(ledger(&run, "cgroup.cpu").state, CoverageState::Lost);
    assert!(run.record.events.iter().any(|event| event.contains("told no id")), "{:?}", run.record.events);
    let values = values(&yard);
    for metric in [Metric::CpuTime, Metric::CpuUsage, Metric::MemorySumOfPeaks, Metric::Processes] {
        assert_eq!(values.get(&metric), None, "{metric:?}");
    }
    for key in ["os", "shm_bytes", "cpu_limit_cores", "memory_limit_bytes"] {
        assert!(!run.record.fingerprint.contains_key(key), "{key} is not the container's");
    }
    assert!(run.record.fingerprint.contains_key("kernel"));
    assert_eq!(ledger(&run, "run.container").state, CoverageState::Lost);
}

#[test]
fn stopping_a_run_ends_its_container_also_one_that_ignores_sigterm() {
    for (script, again) in [("exec sleep 60", false), ("trap '' TERM; while :; do sleep 0.1; done", true)] {
        let yard = Yard::folder();
        let script = format!("echo $$ > c.pid; {script}");
        let words = ["--repeats", "1", "--", "docker", "run", "img", "sh", "-c", &script];
        let mut recorder = yard.command(&words).stderr(Stdio::null()).spawn().unwrap();
        let pid = yard.pid("c");
        let send = || kill(Pid::from_raw(i32::try_from(recorder.id()).unwrap()), Signal::SIGINT).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        send();
        if again {
            std::thread::sleep(std::time::Duration::from_millis(500));
            send();
        }
        assert_eq!(recorder.wait().unwrap().code(), Some(130));
        wait_until("the container has ended", || !is_alive(pid));
        assert_eq!(yard.bench.only_run().record.outcome, Outcome::Interrupted);
    }
}

#[test]
fn a_container_that_outlives_its_client_is_ended_and_named() {
    let yard = Yard::folder();
    let words = ["--repeats", "1", "--", "docker", "run", "img", "sh", "-c", "echo $$ > c.pid; exec sleep 60"];
    let recorder = yard.command(&words).stderr(Stdio::piped()).spawn().unwrap();
    let pid = yard.pid("c");
    std::thread::sleep(std::time::Duration::from_millis(700));
    let client = fs::read_to_string(format!("/proc/{0}/task/{0}/children", recorder.id())).unwrap();
    kill(Pid::from_raw(client.split(' ').next().unwrap().parse().unwrap()), Signal::SIGKILL).unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
    assert!(!is_alive(pid));
    assert_eq!(yard.bench.only_run().record.survivors, ["sleep"]);
}

#[test]
fn a_container_that_lacked_memory_is_told_apart() {
    let yard = Yard::folder();
    let mut command = yard.command(&["--repeats", "1", "--", "docker", "run", "img", "sleep", "60"]);
    let output = command.env("STAND_IN_OOM", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
    let record = yard.bench.only_run().record;
    assert_eq!(record.outcome, Outcome::OutOfMemory { signal: Some(9), exit_code: None }, "{:?}", record.events);
}

#[test]
fn a_running_container_is_watched_for_a_time_and_goes_on() {
    for yard in Yard::all() {
        let mut client = yard.start("mine", "exec python3 -c 'while True: pass'");
        let pid = yard.pid("mine");
        let before = std::time::Instant::now();
        let output = yard.command(&["--container", "mine", "--duration", "1500ms"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(is_alive(pid), "it is not the run's to end");
        let run = yard.bench.only_run();
        let record = &run.record;
        assert_eq!(record.outcome, Outcome::Finished);
        assert_eq!(record.command, ["--container", "mine", "--duration", "1s 500ms"]);
        let seconds = record.duration_ns.unwrap() as f64 / 1e9;
        assert!(seconds >= 1.5 && seconds < before.elapsed().as_secs_f64(), "{seconds}");
        let cpu = record.cpu.cgroup_ns.unwrap() as f64 / 1e9;
        // One thread cannot use more, and what was used before does not count.
        assert!(cpu > 0.2 && cpu <= seconds + 0.1, "{cpu} in {seconds}");
        assert_eq!(column::<Cgroup>(&run, "cpu_ns")[0], 0.0);
        assert!(record.survivors.is_empty());
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        client.wait().unwrap();
    }
}

#[test]
fn what_a_running_container_used_before_does_not_count_and_its_processes_are_not_foreign() {
    let yard = Yard::folder();
    // Python asks for its memory page by page or in huge pages: some hundreds of faults at least, and as many switches.
    let script = "block = bytearray(b'x') * (64 << 20)\nfor _ in range(2000): time.sleep(0.0001)\n\
                  open('ready', 'w').close()\ntime.sleep(600)";
    let python = format!("exec python3 -c \"import time\n{script}\"");
    let mut client = yard.start("mine", &format!("for n in $(seq 60); do sleep 600 & done; {python}"));
    let pid = yard.pid("mine");
    wait_until("it has used much", || yard.bench.path("ready").exists());
    let output = yard.command(&["--container", "mine", "--duration", "1500ms"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = yard.bench.only_run();
    let keys = &run.record.fingerprint;
    assert_eq!((&keys["cpu_limit_cores"], &keys["memory_limit_bytes"]), (&0.5.into(), &(1 << 30).into()));
    // The stand-in's containers have this machine's files.
    assert!(keys["os"].as_str().unwrap().starts_with("Linux (") && keys.contains_key("shm_bytes"), "{keys:?}");
    assert_eq!(ledger(&run, "run.container").state, CoverageState::Measured);
    // It sleeps all the time. The first process is the one that waits beside it.
    let samples = run.scan::<ProcessSample>().unwrap().unwrap().filter(col("process").gt(lit(0)));
    let samples = samples.select([col("minor_faults").max(), col("context_switches").max()]).collect().unwrap();
    for counter in ["minor_faults", "context_switches"] {
        let most = samples.column(counter).unwrap().i64().unwrap().get(0).unwrap();
        assert!(most < 300, "{counter}: {most}");
    }
    // Nobody else starts or ends as many at once: all 62 would count in the first row and not in the last.
    let others = run.scan::<Foreign>().unwrap().unwrap().filter(col("foreign").eq(lit(0))).collect().unwrap();
    let others: Vec<i64> = others.column("processes").unwrap().i64().unwrap().iter().flatten().collect();
    assert!(others[0] < others[others.len() - 1] + 40, "{others:?}");
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    client.wait().unwrap();
}

#[test]
fn a_killed_recording_of_a_container_is_finished_without_a_file_left_over() {
    let yard = Yard::folder();
    let words = ["--repeats", "1", "--", "docker", "run", "img", "sh", "-c", "echo $$ > c.pid; exec sleep 60"];
    let mut recorder = yard.command(&words).stderr(Stdio::null()).spawn().unwrap();
    let pid = yard.pid("c");
    let node = yard.bench.path("traces/environment=e/case=w/run=1/node=0");
    wait_until("its id is known", || node.join("container-id.txt").exists());
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    fs::write(node.join("not-executed.txt"), "127 cannot execute").unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert!(yard.bench.shice(&["list"]).status.success());
    let names = fs::read_dir(&node).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unknown: Vec<String> = names.filter(|name| name != "run.json" && !name.ends_with(".parquet")).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let record = yard.bench.only_run().record;
    assert!(record.container.is_some() && !record.fingerprint.contains_key("os"), "the machine's is not its own");
    let verdict = yard.bench.shice(&["verify"]);
    assert!(verdict.status.success(), "{}{}", text(&verdict.stdout), text(&verdict.stderr));
}

#[test]
fn ctrl_c_is_a_good_end_of_watching_and_so_is_the_containers_own() {
    let yard = Yard::folder();
    let mut client = yard.start("mine", "exec sleep 60");
    let pid = yard.pid("mine");
    let watch = ["--container", "mine"];
    let mut recorder = yard.command(&watch).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it records", || yard.bench.path("traces/environment=e/case=w/run=1/node=0/journal.jsonl").exists());
    std::thread::sleep(std::time::Duration::from_millis(500));
    kill(Pid::from_raw(i32::try_from(recorder.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    assert_eq!(yard.bench.only_run().record.outcome, Outcome::Finished);
    assert!(is_alive(pid));
    let mut recorder = yard.command(&["--container", "mine", "--append"]).stderr(Stdio::null()).spawn().unwrap();
    wait_until("it records", || yard.bench.path("traces/environment=e/case=w/run=2/node=0/journal.jsonl").exists());
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    client.wait().unwrap();
}

#[test]
fn a_command_in_a_running_container_is_measured_by_the_containers_group() {
    let Some(yard) = Yard::new("real") else { return eprintln!("not tested here: no control group can be made") };
    let mut client = yard.start("mine", "exec sleep 60");
    let pid = yard.pid("mine");
    fs::write(yard.bench.path("burn.py"), BURN).unwrap();
    let burn = yard.bench.path("burn.py").display().to_string();
    let script = format!("cd {} && exec python3 {burn}", yard.bench.path("").display());
    let output = yard.command(&["--container", "mine", "--", "docker", "exec", "mine", "sh", "-c", &script]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let record = yard.bench.only_run().record;
    let cpu = record.cpu.cgroup_ns.unwrap() as f64 / 1e9;
    assert!((0.98..1.5).contains(&cpu), "{cpu}");
    assert_eq!(record.container.unwrap().attached.as_deref(), Some("mine"));
    assert!(is_alive(pid));
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    client.wait().unwrap();
}

#[test]
fn an_id_that_several_containers_begin_with_is_refused() {
    let yard = Yard::folder();
    for end in ["a", "b"] {
        let group = yard.bench.path("groups").join(format!("docker/{}{}", "1".repeat(63), end));
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cgroup.procs"), "1\n").unwrap();
    }
    let output = yard.command(&["--container", "1111"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("2 running containers"), "{}", text(&output.stderr));
}

#[test]
fn an_environment_keeps_its_image_and_its_containers_description() {
    let yard = Yard::folder();
    assert!(yard.record(&["docker", "run", "img", "sleep", "1.5"]).status.success());
    let run = yard.bench.only_run();
    let whole = yard.bench.shice(&["verify"]);
    assert!(whole.status.success(), "{}", text(&whole.stdout));
    let told = |key: &str| run.record.fingerprint[key].clone();
    assert_eq!(told("memory_limit_bytes").as_i64(), run.record.limits.memory_bytes);
    assert_eq!(told("cpu_limit_cores").as_f64(), run.record.limits.cpu_cores);
    let other = ["record", "--env", "e", "--workload", "other", "--repeats", "1", "--", "docker", "run"];
    let mut command = yard.prepare(yard.bench.command(&[&other[..], &["img", "true"]].concat()));
    assert!(command.status().unwrap().success(), "another case in the same image");
    let runs = yard.bench.trace().environments.remove(0).runs;
    let short = runs.iter().find(|run| run.record.workload == "other").unwrap();
    assert_eq!(short.record.limits.memory_bytes, None, "it ended too soon");
    let third = [&other[..4], &["third"], &other[5..], &["img:2", "true"]].concat();
    let refused = yard.prepare(yard.bench.command(&third)).output().unwrap();
    tells_in_one_line(&refused, 125, "was recorded in another image (img, now img:2)");
    let bare = [&other[..4], &["fourth"], &other[5..8], &["true"]].concat();
    let refused = yard.prepare(yard.bench.command(&bare)).output().unwrap();
    tells_in_one_line(
        &refused,
        125,
        "was recorded in a container that was followed, and this is without one; use another --env",
    );
    let mixed = [&bare[..5], &["--append"], &bare[5..]].concat();
    assert!(yard.prepare(yard.bench.command(&mixed)).status().unwrap().success(), "whoever asks for it may mix them");
}

#[test]
fn an_environment_outside_of_containers_stays_so() {
    let yard = Yard::folder();
    assert!(yard.record(&["true"]).status.success());
    let words = ["record", "--env", "e", "--workload", "other", "--repeats", "1", "--", "docker", "run", "img", "true"];
    let refused = yard.prepare(yard.bench.command(&words)).output().unwrap();
    tells_in_one_line(
        &refused,
        125,
        "was recorded without following a container, and this is with one; use another --env",
    );
}
