//! What the workload's processes have really loaded: libraries with their versions, Python with its packages, and the
//! environment variables that matter. Looked at a few times while they run, on a thread of its own.
//!
//! ```text
//! /proc/PID/maps ── library (versions), python (environment) ── mirror
//! ```

mod library;
mod mirror;
mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use self::library::Versions;
use self::python::Python;
use super::variables;
use crate::record::checks::{self, Container};
use crate::record::mask::Mask;
use crate::record::probe::process::TreeNow;
use crate::record::source::has_vanished;
use crate::trace::run::{Coverage, CoverageState, RunRecord, SOFTWARE};

/// When to look, after the run's start: imports take their time, and CUDA's libraries come with the first kernels.
const LOOK_AT: [Duration; 6] = [
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(120),
];
/// How long to wait for the first processes to be known.
const AGAIN: Duration = Duration::from_millis(100);
/// Processes that are looked at each time; more are workers that have loaded the same.
const MOST_PROCESSES: usize = 64;
/// Packages that are kept of a run.
const MOST_PACKAGES: usize = 2000;
/// Files that describe an environment are shorter.
pub(super) const LONGEST_TEXT: u64 = 1 << 20;

/// A process as it is looked at. Paths are as it sees them, below its own root folder.
#[derive(Clone, Debug)]
struct Process {
    /// The way to its root folder: in a container not that of this program.
    root: PathBuf,
    exe: PathBuf,
    cwd: Option<PathBuf>,
    /// The first word of its command line, and no more of it.
    first_word: String,
    environment: Vec<(String, String)>,
    mapped: BTreeSet<PathBuf>,
}

impl Process {
    fn look(proc: &Path, pid: i32) -> std::io::Result<Self> {
        let folder = proc.join(pid.to_string());
        let maps = fs::read(folder.join("maps"))?;
        let command = fs::read(folder.join("cmdline")).unwrap_or_default();
        let first = command.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Self {
            root: root(proc, &folder),
            exe: fs::read_link(folder.join("exe")).map(|exe| undeleted(&exe)).unwrap_or_default(),
            cwd: fs::read_link(folder.join("cwd")).ok(),
            first_word: String::from_utf8_lossy(first).into_owned(),
            environment: variables::parse(&fs::read(folder.join("environ")).unwrap_or_default()),
            mapped: mapped(&String::from_utf8_lossy(&maps)),
        })
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }
}

/// The way to a process's root folder. Where that may not be followed, a process of the same mounts has this one's.
fn root(proc: &Path, folder: &Path) -> PathBuf {
    let mounts = |folder: &Path| fs::read_link(folder.join("ns/mnt")).ok();
    let same = mounts(folder).is_some_and(|own| mounts(&proc.join("self")).is_some_and(|ours| own == ours));
    let is_whole = fs::read_link(folder.join("root")).is_ok_and(|root| root == Path::new("/"));
    if same && is_whole { PathBuf::from("/") } else { folder.join("root") }
}

/// An absolute path of a process below the way to its root folder.
pub(super) fn below_root(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// The text of a file of the workload's environment; none of what is no plain file, which could keep a reader waiting,
/// or too long to be what was looked for.
pub(super) fn text(path: &Path) -> Option<String> {
    path.metadata().ok().filter(|file| file.is_file() && file.len() <= LONGEST_TEXT)?;
    fs::read_to_string(path).ok()
}

/// Files that are mapped: in /proc/PID/maps all that follows the first slash of a line.
fn mapped(maps: &str) -> BTreeSet<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    paths.map(undeleted).collect()
}

/// A file that was replaced since is marked so.
fn undeleted(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    PathBuf::from(text.strip_suffix(" (deleted)").unwrap_or(&text))
}

/// What has been found so far.
pub struct Loaded<'a> {
    proc: PathBuf,
    mask: &'a Mask,
    versions: Versions,
    /// Files that were looked at, each with the root folder it was seen from.
    files: BTreeSet<(PathBuf, PathBuf)>,
    /// Processes whose environment was read: one that becomes another program is looked at again.
    known: BTreeSet<(i32, PathBuf)>,
    /// Folders of Python packages that were read.
    sites: BTreeSet<PathBuf>,
    looks: usize,
    /// Size and free space of /dev/shm as a process with another root folder or other mounts sees it: that of its
    /// container. Absent where all processes are where this program is.
    shm_bytes: Option<(i64, i64)>,
    refused: Option<std::io::Error>,
    libraries: BTreeMap<String, Option<String>>,
    software: BTreeMap<&'static str, BTreeSet<String>>,
    /// Components that are loaded, though nobody knows in which version.
    nameless: BTreeSet<&'static str>,
    packages: BTreeMap<String, String>,
    variables: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> Loaded<'a> {
    pub fn new(proc: &Path, mask: &'a Mask) -> Self {
        Self {
            proc: proc.to_owned(),
            mask,
            versions: Versions::default(),
            files: BTreeSet::new(),
            known: BTreeSet::new(),
            sites: BTreeSet::new(),
            looks: 0,
            shm_bytes: None,
            refused: None,
            libraries: BTreeMap::new(),
            software: BTreeMap::new(),
            nameless: BTreeSet::new(),
            packages: BTreeMap::new(),
            variables: BTreeMap::new(),
        }
    }

    /// Looks at the processes in `tree` at its times, until `stop` (which waits as long as it is given) says so.
    pub fn watch(mut self, tree: &Mutex<TreeNow>, stop: impl Fn(Duration) -> bool) -> Self {
        let begun = Instant::now();
        for at in LOOK_AT {
            if stop(at.saturating_sub(begun.elapsed())) {
                break;
            }
            let pids = || tree.lock().map(|tree| tree.pids.clone()).unwrap_or_default();
            while pids().is_empty() {
                if stop(AGAIN) {
                    return self;
                }
            }
            self.look(&pids());
        }
        self
    }

    fn look(&mut self, pids: &[i32]) {
        for pid in pids.iter().take(MOST_PROCESSES) {
            match Process::look(&self.proc, *pid) {
                Ok(process) => self.take(*pid, &process),
                // Ended since the last walk.
                Err(error) if has_vanished(&error) => {}
                Err(error) => self.refused = Some(error),
            }
        }
    }

    fn take(&mut self, pid: i32, process: &Process) {
        // A kernel thread, or a process that has just ended, has nothing mapped.
        if process.mapped.is_empty() {
            return;
        }
        self.looks += 1;
        if self.shm_bytes.is_none() && process.root != Path::new("/") {
            self.shm_bytes = super::space(&below_root(&process.root, Path::new("/dev/shm")));
        }
        for path in &process.mapped {
            if self.files.insert((process.root.clone(), path.clone())) {
                self.take_library(process, path);
                if let Some(site) = python::site_of(&process.root, path) {
                    self.take_site(process, &site, true);
                }
            }
        }
        // The environment stays what it was, and so does the interpreter, as long as the program is the same.
        if self.known.insert((pid, process.exe.clone())) {
            for (name, value) in variables::of(process.environment.iter().cloned(), self.mask) {
                self.variables.entry(name).or_default().insert(value);
            }
            if let Some(python) = Python::of(process) {
                self.take_python(process, &python);
            }
        }
    }

    fn take_library(&mut self, process: &Process, path: &Path) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| library::matters(name)) else {
            return;
        };
        let version = self.versions.of(&process.root, path).map(|version| self.version(&version));
        let component = library::component(name);
        if component == Some(library::OPENMP) {
            self.put(library::OPENMP, library::family(name));
        } else if let Some(component) = component {
            match &version {
                Some(version) => self.put(component, version),
                None => drop(self.nameless.insert(component)),
            }
        }
        if component == Some("torch")
            && let Some(cuda) = library::torch_cuda(&process.root, path)
        {
            self.put("torch_cuda", &self.version(&cuda));
        }
        let known = self.libraries.entry(name.to_owned()).or_default();
        *known = known.take().or(version);
    }

    fn take_python(&mut self, process: &Process, python: &Python) {
        self.put("python", &self.version(&python.version));
        for site in &python.sites {
            self.take_site(process, site, false);
        }
        let variable = |name: &str| process.variable(name);
        if let Some(host) = mirror::package_index(&process.root, Some(&python.prefix), variable) {
            self.put("package_index", &self.mask.text(&host));
        }
        if below_root(&process.root, &python.prefix).join("conda-meta").is_dir() {
            let channels = mirror::channels(&process.root, &python.prefix, variable("HOME").as_deref());
            if !channels.is_empty() {
                self.put("conda_channels", &self.mask.text(&channels.join(", ")));
            }
        }
    }

    /// What lies where modules were loaded from counts more than what lies in the environment's own folders.
    fn take_site(&mut self, process: &Process, site: &Path, loaded_from: bool) {
        let folder = below_root(&process.root, site);
        if !self.sites.insert(folder.clone()) {
            return;
        }
        for (name, version) in self.versions.packages(&folder).clone() {
            let name = self.mask.text(&name.replace('_', "-"));
            if self.packages.len() < MOST_PACKAGES && (loaded_from || !self.packages.contains_key(&name)) {
                self.packages.insert(name, self.version(&version));
            }
        }
    }

    /// A version, masked. Four numbers would be taken for an address without the word before them.
    fn version(&self, version: &str) -> String {
        const WORD: &str = "version ";
        self.mask.text(&format!("{WORD}{version}")).trim_start_matches(WORD).to_owned()
    }

    fn put(&mut self, key: &'static str, value: &str) {
        self.software.entry(key).or_default().insert(value.to_owned());
    }

    /// Enters all of it into the run's record, which has to know its limits already.
    pub fn write(self, record: &mut RunRecord) {
        record.coverage.push(self.coverage());
        let joined = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(", ");
        let nameless = self.nameless.iter().map(|key| ((*key).to_owned(), None));
        let named = self.software.iter().map(|(key, values)| ((*key).to_owned(), Some(joined(values))));
        record.software = nameless.chain(named).collect();
        record.libraries = self.libraries;
        record.packages = self.packages;
        record.variables = self.variables.iter().map(|(name, values)| (name.clone(), joined(values))).collect();
        if self.known.is_empty() && record.container.is_none() {
            // The command inherits what this program was started with.
            let inherited = std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
            record.variables = variables::of(inherited, self.mask);
        }
        if let Some(shm_bytes) = self.shm_bytes {
            let threads = record.variables.get("OMP_NUM_THREADS").and_then(|number| number.parse().ok());
            let seen = Container { shm_bytes, limits: record.limits, threads };
            record.checks = checks::of_container(&record.checks, &seen);
        }
        if let Some(Some(runtime)) = record.software.get("cuda_runtime") {
            checks::settle_runtime(&mut record.checks, runtime);
        }
    }

    fn coverage(&self) -> Coverage {
        let (state, reason) = match &self.refused {
            Some(error) if self.looks == 0 => (crate::record::source::state_of(error), error.to_string()),
            Some(error) => (CoverageState::Measured, format!("some processes could not be looked at: {error}")),
            None if self.looks == 0 => (CoverageState::Lost, "the run ended before the first look".to_owned()),
            None => (CoverageState::Measured, String::new()),
        };
        line(state, reason)
    }

    /// The ledger's line where there was no looking at all.
    pub fn lost(reason: &str) -> Coverage {
        line(CoverageState::Lost, reason.to_owned())
    }
}

fn line(state: CoverageState, reason: String) -> Coverage {
    Coverage { metric: SOFTWARE.to_owned(), state, source: "/proc/PID/maps".to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::run::Outcome;

    /// A folder with these files.
    pub(super) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn mapped_files_are_told_from_what_is_not_a_file() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libcudart.so.13.0.88\n\
                    7f01-7f02 rw-p 00000000 00:00 0 \n7f02-7f03 r--p 00000000 08:01 13 /opt/a b/libgomp.so.1 (deleted)\n\
                    7f03-7f04 r-xp 00000000 00:00 0 [vdso]\n";
        let expected = ["/opt/a b/libgomp.so.1", "/usr/lib/libcudart.so.13.0.88"].map(PathBuf::from);
        assert_eq!(mapped(maps).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_run_that_could_not_be_looked_at_says_so_and_has_what_it_inherited() {
        let mask = Mask::default();
        let mut record = RunRecord::for_tests(Outcome::Finished);
        let mut loaded = Loaded::new(Path::new("/no/such/proc"), &mask);
        loaded.look(&[1, 2, 3]);
        loaded.write(&mut record);
        let line = record.coverage.iter().find(|line| line.metric == SOFTWARE).unwrap();
        assert_eq!(line.state, CoverageState::Lost);
        assert!(record.libraries.is_empty() && record.software.is_empty());
    }

    #[test]
    fn a_process_with_a_root_folder_of_its_own_is_looked_at_from_there() {
        let (proc, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, proc.path().join(name)).unwrap();
        for folder in ["self/ns", "42/ns"] {
            fs::create_dir_all(proc.path().join(folder)).unwrap();
        }
        fs::create_dir_all(root.path().join("dev/shm")).unwrap();
        fs::create_dir_all(root.path().join("opt/libtorch/lib")).unwrap();
        fs::write(root.path().join("opt/libtorch/build-version"), "2.8.0\n").unwrap();
        link(Path::new("mnt:[1]"), "self/ns/mnt");
        link(Path::new("mnt:[2]"), "42/ns/mnt");
        link(root.path(), "42/root");
        let maps = "7f00-7f01 r-xp 00000000 08:01 12 /opt/libtorch/lib/libtorch_cpu.so\n";
        fs::write(proc.path().join("42/maps"), maps).unwrap();
        fs::write(proc.path().join("42/environ"), "OMP_NUM_THREADS=3\0").unwrap();
        let (mask, mut record) = (Mask::default(), RunRecord::for_tests(Outcome::Finished));
        let mut loaded = Loaded::new(proc.path(), &mask);
        loaded.look(&[42]);
        loaded.write(&mut record);
        assert_eq!(record.software["torch"].as_deref(), Some("2.8.0"));
        assert_eq!(record.variables["OMP_NUM_THREADS"], "3");
        let names: Vec<&str> = record.checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["shm", "memory_limit", "cpu_limit"]);
    }
}
