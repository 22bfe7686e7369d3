//! Runs the real program in a folder of its own.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use shice::trace::{Run, Trace};
use tempfile::TempDir;

/// A temporary folder in which `shice` is run.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program with arguments, not yet started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shice"));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn shice(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Records a shell script once, as workload `w` of environment `e`.
    pub(crate) fn record(&self, script: &str) -> Output {
        self.shice(&["record", "--env", "e", "--workload", "w", "--repeats", "1", "--", "sh", "-c", script])
    }

    pub(crate) fn trace(&self) -> Trace {
        Trace::open(&self.path("traces")).unwrap()
    }

    /// The only run of the only environment.
    pub(crate) fn only_run(&self) -> Run {
        let mut trace = self.trace();
        assert_eq!((trace.environments.len(), trace.environments[0].runs.len()), (1, 1));
        trace.environments.remove(0).runs.remove(0)
    }

    /// Copies a program under another name. Another process does it: a file that this one had open for writing could not
    /// be executed while a child of another test's thread still held it.
    pub(crate) fn copy_program(&self, program: &str, name: &str) {
        let copy = format!("cp \"$(readlink -f \"$(command -v {program})\")\" \"$1\"");
        let status = Command::new("sh").args(["-c", &copy, "sh"]).arg(self.path(name)).status().unwrap();
        assert!(status.success(), "{program} could not be copied");
    }

    /// Copies a folder with all that is in it.
    pub(crate) fn copy_folder(&self, folder: &Path, name: &str) {
        let status = Command::new("cp").arg("-r").arg(folder).arg(self.path(name)).status().unwrap();
        assert!(status.success(), "{} could not be copied", folder.display());
    }

    /// Every file below a folder.
    pub(crate) fn files(&self, name: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path(name)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }

    /// What every file below a folder holds.
    pub(crate) fn contents(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        self.files(name).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Changes the only run's record on disk.
    pub(crate) fn edit_record(&self, change: impl FnOnce(&mut serde_json::Value)) {
        let path = self.only_run().dir.join("run.json");
        let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(&path, value.to_string()).unwrap();
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compiles a file below tests/ into a shared library.
pub(crate) fn compile_library(source: &str, more: &[&str], library: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall"]).args(more).arg("-o").arg(library).arg(source);
    assert!(compiler.status().expect("a C compiler (cc) is needed").success());
}

/// All text of a file of a trace; columns of Parquet are compressed, so they are decoded.
pub(crate) fn all_text(path: &Path) -> String {
    use polars::prelude::{DataType, ParquetReader, SerReader};
    let bytes = fs::read(path).unwrap();
    let mut found = text(&bytes);
    if path.extension().is_some_and(|ending| ending == "parquet") {
        let frame = ParquetReader::new(fs::File::open(path).unwrap()).finish().unwrap();
        for column in frame.columns().iter().filter(|column| *column.dtype() == DataType::String) {
            column.str().unwrap().iter().flatten().for_each(|value| found += &format!("\n{value}"));
        }
    }
    found
}

/// What went wrong is told in one line that holds `expected`, and the exit code is this.
pub(crate) fn tells_in_one_line(output: &Output, code: i32, expected: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
}

/// The interpreter itself: `python3` can be a script that looks for it.
pub(crate) fn python() -> String {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    text(&asked.unwrap().stdout).trim().to_owned()
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process runs, zombies not counted.
pub(crate) fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|text| text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}

/// Folders of control groups that a recorder made for its runs and that are still there.
pub(crate) fn own_groups(recorder: u32) -> Vec<PathBuf> {
    let prefix = format!("shice-{recorder}-");
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(folder) = folders.pop() {
        // Others' groups come and go meanwhile.
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
        {
            let is_own = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
            if is_own { found.push(path) } else { folders.push(path) }
        }
    }
    found
}

/// A whole column of a table as numbers, nulls left out.
pub(crate) fn column<T: shice::trace::Table>(run: &Run, name: &str) -> Vec<f64> {
    use polars::prelude::{DataType, col};
    let frame = run.scan::<T>().unwrap().expect("the table is there");
    let frame = frame.select([col(name).cast(DataType::Float64)]).collect().unwrap();
    frame.column(name).unwrap().f64().unwrap().iter().flatten().collect()
}
