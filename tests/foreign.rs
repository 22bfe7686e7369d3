//! What else runs on the machine while `shice record` records.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::process::{Child, Command, Stdio};

use common::{Bench, text};
use polars::prelude::{DataType, col};
use shice::aggregate::metric::Metric;
use shice::aggregate::summarise;
use shice::trace::run::CoverageState;
use shice::trace::tables::Foreign;

/// Ends a program however the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A loop of a program of this name, which nobody of the run has started.
fn burn(bench: &Bench, name: &str) -> Ended {
    bench.copy_program("sh", name);
    let mut command = Command::new(bench.path(name));
    command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
    Ended(command.spawn().unwrap())
}

/// User and system time in seconds, by proc(5).
fn cpu_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<f64> = stat.rsplit_once(')').unwrap().1.split(' ').skip(12).flat_map(str::parse).collect();
    (fields[0] + fields[1]) / 100.0
}

#[test]
fn a_program_beside_the_run_is_named_with_its_cpu_time_and_the_run_itself_is_not() {
    let bench = Bench::new();
    let burner = burn(&bench, "burner");
    let before = cpu_seconds(burner.0.id());
    let output = bench.record("cp \"$(command -v sleep)\" ./inside; ./inside 2.5");
    let most = cpu_seconds(burner.0.id()) - before;
    assert!(output.status.success(), "{}", text(&output.stderr));

    let run = bench.only_run();
    let frame = run.scan::<Foreign>().unwrap().unwrap();
    let frame = frame.select([col("name"), col("cpu_ns").cast(DataType::Float64)]).collect().unwrap();
    let (names, cpu) = (frame.column("name").unwrap().str().unwrap(), frame.column("cpu_ns").unwrap().f64().unwrap());
    let of = |wanted: &str| -> Vec<f64> {
        let rows = names.iter().zip(cpu.iter()).filter(|(name, _)| *name == Some(wanted));
        rows.filter_map(|(_, cpu)| cpu).map(|ns| ns / 1e9).collect()
    };
    let burnt = of("burner").into_iter().fold(0.0, f64::max);
    // The reference is what the kernel tells of the program from before the recording to after it.
    assert!(burnt > 0.2 && burnt <= most + 0.02, "{burnt} s of {most} s");
    // (Recorders of other tests that run beside this one are foreign, and so `shice` can be there.)
    assert!(of("inside").is_empty());
    let coverage = run.record.coverage.iter().find(|entry| entry.metric == "foreign").unwrap();
    assert_eq!(coverage.state, CoverageState::Measured, "{coverage:?}");

    let summary = summarise(&bench.trace().environments[0]).unwrap();
    let program = summary.cases[0].foreign.iter().find(|program| program.name == "burner").unwrap();
    let seconds = run.record.duration_ns.unwrap() as f64 / 1e9;
    assert!((program.cores - burnt / seconds).abs() < 1e-6, "{program:?}");
}

#[test]
fn a_busy_neighbour_is_a_caution_in_both_languages() {
    let bench = Bench::new();
    let cores = std::thread::available_parallelism().unwrap().get();
    let burners: Vec<Ended> = (0..cores.div_ceil(4)).map(|_| burn(&bench, "neighbour")).collect();
    bench.record("sleep 2.5");
    drop(burners);
    let summary = summarise(&bench.trace().environments[0]).unwrap();
    let run = &summary.cases[0].runs[0];
    assert!(run.foreign.iter().any(|program| program.name == "neighbour"), "{:?}", run.foreign);
    // Where the recorder sees less of the machine's time than the neighbours get (a small quota), there is no caution.
    if run.values.get(&Metric::ForeignCpu).is_some_and(|share| *share >= 0.05) {
        assert!(bench.shice(&["render"]).status.success());
        // On a machine that is busy with other things the neighbours need not be the heaviest.
        let heaviest = format!("`{}`", run.foreign[0].name);
        for (language, words) in [("en", "There was other load"), ("zh", "有其他负载")] {
            let report = fs::read_to_string(bench.path(&format!("site/e/{language}.md"))).unwrap();
            assert!(report.contains(words) && report.contains(&heaviest), "{report}");
        }
    }
}
