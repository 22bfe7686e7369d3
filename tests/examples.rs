//! The training loops in Python that ship as examples.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Bench, column, text};
use shice::trace::tables::Step;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

#[test]
fn the_module_that_tells_steps_is_understood_by_the_recorder() {
    let bench = Bench::new();
    let script = "import time\nfrom shice_steps import Steps, timed\nsteps = Steps()\nsteps.setting('workers', 2)\n\
                  steps.phase('train')\ndef batches():\n    for _ in range(3):\n        time.sleep(0.05)\n        yield [1, 2]\n\
                  for step, (batch, waited) in enumerate(timed(batches())):\n    \
                  steps.step(step, samples=len(batch), data_wait_ns=waited)\nsteps.phase('end')\n";
    fs::write(bench.path("train.py"), script).unwrap();
    let mut command =
        bench.command(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", "python3", "train.py"]);
    let output = command.env("PYTHONPATH", examples()).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run = bench.only_run();
    assert_eq!(run.record.effective["workers"], "2");
    assert_eq!(column::<Step>(&run, "samples"), [2.0, 2.0, 2.0]);
    // Each batch slept for 50 ms.
    assert!(column::<Step>(&run, "data_wait_ns").iter().all(|wait| *wait >= 50e6));
}

#[test]
fn every_example_is_python_and_says_nothing_without_a_recorder() {
    let compile = "import ast, pathlib, sys\nfor path in pathlib.Path(sys.argv[1]).glob('*.py'):\n    ast.parse(path.read_text(), path.name)\n    print(path.name)";
    let output = Command::new("python3").args(["-c", compile]).arg(examples()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut names: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    names.sort();
    let expected = ["llama2_finetune.py", "resnet50_cifar10.py", "shice_steps.py", "small_cnn.py", "training.py"];
    assert_eq!(names, expected);
    let silent = "from shice_steps import Steps\nSteps().step(0, samples=1, data_wait_ns=0)";
    let mut command = Command::new("python3");
    command.args(["-c", silent]).env("PYTHONPATH", examples()).env("PYTHONDONTWRITEBYTECODE", "1");
    assert!(command.env_remove("SHICE_STEPS").output().unwrap().status.success());
}

#[test]
fn steps_alone_go_on_over_the_data_and_epochs_alone_end_with_it_whatever_a_step_holds() {
    // PyTorch itself is not needed for this, nor there.
    let script = "import sys, types\n\
                  for name in ('torch', 'torch.utils', 'torch.utils.data'):\n    sys.modules[name] = types.ModuleType(name)\n\
                  sys.modules['torch.utils.data'].DataLoader = None\n\
                  import training\n\
                  class Loader(str):\n    dataset = 'abc'\n\
                  def planned(*given, **own):\n    \
                      arguments = training.options('', 1, 0, **own).parse_args(given)\n    \
                      return [(epoch, samples, len(list(batches)))\n        \
                              for epoch, samples, batches in training.planned(arguments, Loader('abc'))]\n\
                  def steps(*given, **own):\n    return [epoch for epoch, _, _ in planned(*given, **own)]\n\
                  print(steps('--steps', '4'), len(steps()), len(steps('--epochs', '2')),\n      \
                        len(steps('--epochs', '1', '--steps', '5')), len(steps(steps=10)), len(steps('--epochs', '1', steps=10)))\n\
                  print(planned('--accumulate', '2', '--steps', '3'))";
    let mut command = Command::new("python3");
    command.args(["-c", script]).env("PYTHONPATH", examples()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    // The last step of an epoch has what is left.
    let expected = "[0, 0, 0, 1] 15 6 3 10 3\n[(0, 2, 2), (0, 1, 1), (1, 2, 2)]";
    assert_eq!(text(&output.stdout).trim(), expected, "{}", text(&output.stderr));
}
