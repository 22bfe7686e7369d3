//! The output of a command: passed through as on a terminal, read for steps, kept where the user asks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use common::{Bench, column, tells_in_one_line, text, wait_until};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Pid, ttyname};
use shice::trace::run::{CoverageState, Outcome, StepReading};
use shice::trace::tables::Step;

/// A terminal of 97 columns and 40 rows that changes no byte, and what arrives on it.
struct Terminal {
    slave: OwnedFd,
    path: PathBuf,
    screen: JoinHandle<Vec<u8>>,
}

impl Terminal {
    fn new() -> Self {
        let size = Winsize { ws_row: 40, ws_col: 97, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let mut modes = tcgetattr(&pty.slave).unwrap();
        cfmakeraw(&mut modes);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &modes).unwrap();
        let path = ttyname(&pty.slave).unwrap();
        let mut master = File::from(pty.master);
        let screen = std::thread::spawn(move || {
            let (mut screen, mut chunk) = (Vec::new(), [0; 65_536]);
            // A terminal that nobody writes to any more fails to be read.
            while let Ok(count @ 1..) = master.read(&mut chunk) {
                screen.extend_from_slice(&chunk[..count]);
            }
            screen
        });
        Self { slave: pty.slave, path, screen }
    }

    fn stream(&self) -> Stdio {
        self.slave.try_clone().unwrap().into()
    }

    fn screen(self) -> Vec<u8> {
        drop(self.slave);
        self.screen.join().unwrap()
    }
}

const TO_RECORD: [&str; 8] = ["record", "--env", "e", "--workload", "w", "--repeats", "1", "--"];

fn python(bench: &Bench, script: &str) -> Command {
    fs::write(bench.path("script.py"), script).unwrap();
    bench.command(&[TO_RECORD.as_slice(), &["python3", "script.py"]].concat())
}

/// Tells of each stream whether it is a terminal, and of which size.
const TELL: &str = "import os\n\
    def of(n): return [os.get_terminal_size(n).columns, os.get_terminal_size(n).lines] if os.isatty(n) else None\n\
    open('told', 'w').write(str([of(n) for n in range(3)]))\n";

#[test]
fn output_that_nobody_can_take_is_told_once_and_the_run_goes_on() {
    let bench = Bench::new();
    let script = "for n in 1 2 3; do echo $n; sleep 0.2; done; echo done > done.txt";
    let mut command =
        bench.command(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--keep-output", "--"]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.args(["sh", "-c", script]).stdout(full).output().unwrap();
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert_eq!(fs::read_to_string(bench.path("done.txt")).unwrap(), "done\n");
    let expected = "the command's output could not all be written to standard output (No space left on device";
    assert_eq!(told.matches(expected).count(), 1, "{told}");
    let run = bench.only_run();
    assert_eq!(
        run.record.events.iter().filter(|event| event.starts_with(expected)).count(),
        1,
        "{:?}",
        run.record.events
    );
    assert_eq!(fs::read_to_string(run.dir.join("output.log")).unwrap(), "1\n2\n3\n");
}

#[test]
fn a_reader_of_the_output_that_goes_away_is_nothing_to_tell() {
    let bench = Bench::new();
    let line =
        "\"$0\" record --env e --workload w --repeats 1 -- sh -c 'echo 1; sleep 0.5; echo 2; sleep 0.2' | head -n 1";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_shice")]).current_dir(bench.path(""));
    assert_eq!(text(&shell.output().unwrap().stdout), "1\n");
    assert_eq!(bench.only_run().record.events, Vec::<String>::new());
}

#[test]
fn each_stream_of_the_command_is_a_terminal_where_ours_is_one_and_of_its_size() {
    for (stdout, stderr, right) in [
        (true, false, "[None, [97, 40], None]"),
        (false, true, "[None, None, [97, 40]]"),
        (true, true, "[None, [97, 40], [97, 40]]"),
        (false, false, "[None, None, None]"),
    ] {
        let (bench, terminal) = (Bench::new(), Terminal::new());
        let stream = |is_terminal: bool| if is_terminal { terminal.stream() } else { Stdio::null() };
        let status = python(&bench, TELL).stdout(stream(stdout)).stderr(stream(stderr)).status().unwrap();
        assert!(status.success());
        assert_eq!(fs::read_to_string(bench.path("told")).unwrap(), right);
        terminal.screen();
    }
}

/// All bytes, in an order in which most of them are no text, and more of them than a terminal holds.
const BYTES: &str = "import sys\nfor n in range(4000): sys.stdout.buffer.write(bytes(range(256)))\n";

#[test]
fn bytes_pass_through_a_terminal_and_a_pipe_unchanged() {
    let right: Vec<u8> = (0..4000).flat_map(|_| 0..=255).collect();
    let (bench, terminal) = (Bench::new(), Terminal::new());
    let status = python(&bench, BYTES).stdout(terminal.stream()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    assert!(terminal.screen() == right, "through a terminal");
    let bench = Bench::new();
    assert!(python(&bench, BYTES).output().unwrap().stdout == right, "through a pipe");
}

#[test]
fn the_live_line_is_never_drawn_into_a_bar_of_the_command() {
    let script =
        "import sys, time\nfor n in range(4): sys.stderr.write(f'\\rmine {n}'); sys.stderr.flush(); time.sleep(0.4)\n";
    let (bench, terminal) = (Bench::new(), Terminal::new());
    let status = python(&bench, script).stdout(Stdio::null()).stderr(terminal.stream()).status().unwrap();
    assert!(status.success());
    let screen = text(&terminal.screen());
    assert!(screen.contains("\rmine 0\rmine 1\rmine 2\rmine 3\n"), "{screen:?}");
}

#[test]
fn the_commands_terminal_follows_the_size_of_ours() {
    let script = "import os, signal, time\nseen = []\nsignal.signal(signal.SIGWINCH, lambda *_: seen.append(1))\n\
                  open('ready', 'w')\nuntil = time.time() + 20\n\
                  while time.time() < until and not (seen and os.get_terminal_size(1).columns == 60): time.sleep(0.02)\n\
                  open('told', 'w').write(f'{os.get_terminal_size(1).columns} {len(seen) > 0}')\n";
    let (bench, terminal) = (Bench::new(), Terminal::new());
    let mut recorder = python(&bench, script).stdout(terminal.stream()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the command runs", || bench.path("ready").exists());
    assert!(Command::new("stty").arg("-F").arg(&terminal.path).args(["cols", "60"]).status().unwrap().success());
    // The kernel tells the terminal's own session, in which this test does not put the recorder.
    kill(Pid::from_raw(recorder.id() as i32), Signal::SIGWINCH).unwrap();
    assert!(recorder.wait().unwrap().success());
    assert_eq!(fs::read_to_string(bench.path("told")).unwrap(), "60 True");
}

#[test]
fn somebody_outside_who_holds_the_commands_terminal_does_not_hold_us_up() {
    let script = "import os, time\nopen('tty.part', 'w').write(os.ttyname(1)); os.rename('tty.part', 'tty')\n\
                  until = time.time() + 20\nwhile time.time() < until and not os.path.exists('held'): time.sleep(0.02)\n";
    let (bench, terminal) = (Bench::new(), Terminal::new());
    let mut recorder = python(&bench, script).stdout(terminal.stream()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the command runs", || bench.path("tty").exists());
    let held = File::options().write(true).open(fs::read_to_string(bench.path("tty")).unwrap()).unwrap();
    fs::write(bench.path("held"), "").unwrap();
    wait_until("the recorder ends", || recorder.try_wait().unwrap().is_some());
    assert_eq!(bench.only_run().record.outcome, Outcome::Finished);
    drop(held);
}

#[test]
fn a_command_that_closes_all_its_descriptors_is_watched_to_its_end() {
    for on_terminal in [false, true] {
        let (bench, terminal) = (Bench::new(), Terminal::new());
        let stream = || if on_terminal { terminal.stream() } else { Stdio::null() };
        let script = "import os, time\nos.closerange(0, 256)\ntime.sleep(0.6)\nos._exit(3)\n";
        let status = python(&bench, script).stdout(stream()).stderr(stream()).status().unwrap();
        assert_eq!(status.code(), Some(3));
        let run = bench.only_run();
        assert!(run.record.duration_ns.unwrap() >= 600_000_000, "{:?}", run.record.duration_ns);
    }
}

#[test]
fn a_flood_of_output_passes_whole_and_the_recorder_stays_small() {
    let bench = Bench::new();
    // Every line of it looks like progress.
    let script = "yes 'Epoch [1/2], Step [100/600], Loss: 0.5, and as much again to fill it' | head -c 120000000";
    let output = bench.record(script);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 120_000_000));
    let peak = bench.only_run().record.recorder.memory_peak_bytes.unwrap();
    assert!(peak < 48 << 20, "the recorder took {peak} bytes");
}

/// A loop of 30 steps of 50 ms, drawn every third step as tqdm would, and a validation after it.
const BAR: &str = "import sys, time\n\
    def draw(what, n, total): sys.stderr.write(f'\\r{what}{100 * n // total:3d}%|{\"#\" * n}| {n}/{total} [00:00<00:01, 50.0it/s]'); sys.stderr.flush()\n\
    draw('', 0, 30)\n\
    for n in range(1, 31):\n  time.sleep(0.05)\n  if n % 3 == 0: draw('', n, 30)\n\
    for n in range(101): draw('Validating: ', n, 100)\n\
    sys.stderr.write('\\n')\n";

fn values(bench: &Bench) -> std::collections::BTreeMap<shice::aggregate::metric::Metric, f64> {
    let summary = shice::aggregate::summarise(&bench.trace().environments[0]).unwrap();
    summary.cases[0].runs[0].values.clone()
}

#[test]
fn steps_are_read_from_a_bar_and_the_report_says_where_they_come_from() {
    use shice::aggregate::metric::Metric;
    let bench = Bench::new();
    assert!(python(&bench, BAR).env_remove("PYTHONUNBUFFERED").output().unwrap().status.success());
    let run = bench.only_run();
    let steps = column::<Step>(&run, "step");
    // 0, 3, … 30 of the loop, some of them left out where the machine is so busy that they are read together; and of the
    // validation, which is drawn without pause, some.
    let end = steps.iter().position(|step| *step == 30.0).unwrap();
    assert!(steps[0] == 0.0 && end >= 4 && steps[..end].iter().all(|step| step % 3.0 == 0.0), "{steps:?}");
    assert!(steps[..=end].is_sorted());
    assert!(column::<Step>(&run, "steps_total").contains(&30.0));
    let coverage = run.record.coverage.iter().find(|coverage| coverage.metric == "step").unwrap();
    assert_eq!((coverage.state, coverage.source.as_str()), (CoverageState::Measured, "output (tqdm)"));
    assert!(coverage.reason.contains("times are those of printing"));
    assert_eq!(run.record.set_variables.get("PYTHONUNBUFFERED").map(String::as_str), Some("1"));
    assert_eq!(run.record.step_reading, Some(StepReading::Auto));

    // A step takes 50 ms, and on a machine that is busy with other things it may seem to take anything near it. That of
    // the validation would take less than 1 ms.
    let values = values(&bench);
    let (time, rate) = (values[&Metric::ShownStepTime], values[&Metric::ShownStepRate]);
    assert!((0.005..5.0).contains(&time) && (0.2..200.0).contains(&rate), "{time} {rate}");
    assert!(!values.contains_key(&Metric::StepTime) && !values.contains_key(&Metric::Throughput));
    assert!(bench.shice(&["render", "traces", "--out", "site"]).status.success());
    let report = |name: &str| fs::read_to_string(bench.path("site/e").join(name)).unwrap();
    assert!(report("en.md").contains("read from its output (tqdm progress bars)"), "{}", report("en.md"));
    assert!(report("zh.md").contains("读自其输出（tqdm 进度条）"));
    assert!(report("en.md").contains("PYTHONUNBUFFERED=1 python3 script.py"));
}

#[test]
fn a_pattern_of_the_users_own_gives_samples_a_second() {
    use shice::aggregate::metric::Metric;
    let bench = Bench::new();
    let script = "for n in 1 2 3 4 5 6 7 8; do echo \"it $n of 8, seen $((n * 64))\"; sleep 0.1; done";
    let pattern = r"it (?P<step>\d+) of (?P<total>\d+), seen (?P<samples>\d+)";
    let mut arguments = vec!["record", "--step-pattern", pattern];
    arguments.extend(&TO_RECORD[1..]);
    arguments.extend(["sh", "-c", script]);
    assert!(bench.shice(&arguments).status.success());
    let run = bench.only_run();
    let samples = column::<Step>(&run, "samples_done");
    assert!(samples.starts_with(&[64.0]) && samples.ends_with(&[512.0]), "{samples:?}");
    assert_eq!(run.record.step_reading, Some(StepReading::Pattern { pattern: pattern.to_owned() }));
    // 64 samples a step, however long a step took.
    let values = values(&bench);
    let (rate, samples) = (values[&Metric::ShownStepRate], values[&Metric::ShownThroughput]);
    assert!((samples / rate - 64.0).abs() < 1e-6, "{samples} {rate}");
}

#[test]
fn a_pattern_that_cannot_be_used_is_one_clear_line_and_writes_nothing() {
    for (pattern, expected) in [("(?P<step>", "is no regular expression"), (r"(?P<stepp>\d)", "known are step, total")]
    {
        let bench = Bench::new();
        let mut arguments = vec!["record", "--step-pattern", pattern];
        arguments.extend(&TO_RECORD[1..]);
        arguments.push("true");
        tells_in_one_line(&bench.shice(&arguments), 125, expected);
        assert!(!bench.path("traces").exists());
    }
}

#[test]
fn reading_steps_can_be_switched_off_and_what_the_user_set_stays() {
    let bench = Bench::new();
    let script = "echo \"${PYTHONUNBUFFERED-unset}\"; for n in 1 2 3 4; do echo \"Epoch $n/4\"; sleep 0.05; done";
    let mut arguments = vec!["record", "--steps", "off"];
    arguments.extend(&TO_RECORD[1..]);
    arguments.extend(["sh", "-c", script]);
    let output = bench.command(&arguments).env_remove("PYTHONUNBUFFERED").output().unwrap();
    assert!(text(&output.stdout).starts_with("unset\n"));
    let run = bench.only_run();
    assert!(run.scan::<Step>().unwrap().is_none() && run.record.set_variables.is_empty());
    assert_eq!(run.record.step_reading, Some(StepReading::Off));

    let bench = Bench::new();
    let mut command = bench.command(&[TO_RECORD.as_slice(), &["sh", "-c", script]].concat());
    let output = command.env("PYTHONUNBUFFERED", "mine").output().unwrap();
    assert!(text(&output.stdout).starts_with("mine\n"));
    let run = bench.only_run();
    assert!(run.record.set_variables.is_empty());
    assert_eq!(column::<Step>(&run, "epoch"), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn the_whole_output_is_kept_where_the_user_asks_and_only_there() {
    let script = "echo one; sleep 0.2; echo password=planted >&2; sleep 0.2; printf 'two\\377'";
    for keep in [true, false] {
        let bench = Bench::new();
        let mut arguments = vec!["record"];
        arguments.extend(keep.then_some("--keep-output"));
        arguments.extend(&TO_RECORD[1..]);
        arguments.extend(["sh", "-c", script]);
        assert!(bench.shice(&arguments).status.success());
        let kept = fs::read(bench.only_run().dir.join("output.log")).ok();
        assert_eq!(kept, keep.then(|| b"one\npassword=planted\ntwo\xff".to_vec()));
    }
}
