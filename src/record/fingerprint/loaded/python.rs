//! The Python environment of a process: the interpreter's version and the folders of its packages.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::Process;
use super::below_root;
use super::library::conda_version;

/// Names of the folders that packages are installed in.
const SITES: [&str; 2] = ["site-packages", "dist-packages"];
/// A package installed elsewhere (`pip install --target`) lies no further up from its modules.
const UP: usize = 5;
/// Where Debian keeps what is installed.
const DPKG: &str = "/var/lib/dpkg/status";

/// One Python environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Python {
    /// `3.11.7`, or `3.11` where nothing tells more.
    pub(super) version: String,
    /// `sys.prefix`, as the process sees it.
    pub(super) prefix: PathBuf,
    /// Its own folders of packages, as the process sees them; the first counts where a package is in several.
    pub(super) sites: Vec<PathBuf>,
}

impl Python {
    /// That of a process; `None` where it is no Python.
    pub(super) fn of(process: &Process) -> Option<Self> {
        let minor = minor(process)?;
        let prefix = prefix(process, &minor)?;
        Some(Self {
            version: version(process, &prefix, &minor).unwrap_or_else(|| minor.clone()),
            sites: sites(process, &prefix, &minor),
            prefix,
        })
    }
}

/// `3.11`: by the interpreter's file or library.
fn minor(process: &Process) -> Option<String> {
    let name = process.exe.file_name()?.to_str()?;
    let library = process.mapped.iter().filter_map(|path| path.file_name()?.to_str()?.strip_prefix("libpython"));
    let candidates = name.strip_prefix("python").into_iter().chain(library);
    let found = candidates.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut parts = rest[..end].split('.');
        let (major, minor) = (parts.next()?, parts.next()?);
        (!major.is_empty() && !minor.is_empty()).then(|| format!("{major}.{minor}"))
    });
    found.into_iter().next()
}

/// The folder above the `bin` that the process was started from; a virtual environment's `python` is a link.
fn prefix(process: &Process, minor: &str) -> Option<PathBuf> {
    let of_program = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let is_prefix = |prefix: &PathBuf| {
        below_root(&process.root, prefix).join("pyvenv.cfg").is_file()
            || below_root(&process.root, prefix).join(format!("lib/python{minor}")).is_dir()
    };
    let started = started_as(process).filter(|program| is_python(program));
    let candidates = [started.as_deref().and_then(of_program), of_program(&process.exe)];
    candidates.iter().flatten().find(|prefix| is_prefix(prefix)).or(candidates.iter().flatten().next_back()).cloned()
}

fn is_python(program: &Path) -> bool {
    program.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python"))
}

/// The program's path by its first word, looked for as the shell does.
fn started_as(process: &Process) -> Option<PathBuf> {
    let word = Path::new(&process.first_word);
    if word.is_absolute() {
        return Some(word.to_owned());
    }
    if word.components().count() > 1 {
        return Some(process.cwd.as_ref()?.join(word));
    }
    let path = process.variable("PATH")?;
    // Links may lead anywhere: that there is one is enough.
    path.split(':')
        .map(|folder| Path::new(folder).join(word))
        .find(|program| below_root(&process.root, program).symlink_metadata().is_ok())
}

/// The whole version, by whoever tells it: the virtual environment, the headers, conda, Debian.
fn version(process: &Process, prefix: &Path, minor: &str) -> Option<String> {
    let root = &process.root;
    let base = process.exe.parent().and_then(Path::parent).unwrap_or(prefix);
    let of_environment = || configured(root, prefix, "version").or_else(|| configured(root, prefix, "version_info"));
    let of_headers = || {
        let header = below_root(root, base).join(format!("include/python{minor}/patchlevel.h"));
        let text = super::text(&header)?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("#define PY_VERSION "))?;
        Some(line.trim().trim_matches('"').to_owned())
    };
    let of_conda = || conda_version(&below_root(root, base).join("conda-meta"), "python");
    let of_debian = || debian(root, &format!("python{minor}-minimal")).filter(|_| base == Path::new("/usr"));
    let found = of_headers().or_else(of_environment).or_else(of_conda).or_else(of_debian)?;
    // `3.11.7.final.0` of virtualenv.
    let parts: Vec<&str> = found.split('.').take(3).collect();
    let version = parts.join(".");
    version.starts_with(minor).then_some(version)
}

/// A line of `pyvenv.cfg`.
fn configured(root: &Path, prefix: &Path, key: &str) -> Option<String> {
    let text = super::text(&below_root(root, prefix).join("pyvenv.cfg"))?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.into_iter().find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

/// The version of an installed package of Debian, without Debian's own part: `3.11.2` of `3.11.2-6+deb12u6`.
fn debian(root: &Path, package: &str) -> Option<String> {
    let path = below_root(root, Path::new(DPKG));
    let file = path.is_file().then(|| File::open(path).ok()).flatten()?;
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.find(|line| line.strip_prefix("Package: ") == Some(package))?;
    let version =
        lines.take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix("Version: ").map(str::to_owned))?;
    let version = version.split_once(':').map_or(version.as_str(), |(_, rest)| rest);
    Some(version.split(['-', '+', '~']).next()?.to_owned())
}

/// The environment's own folders of packages.
fn sites(process: &Process, prefix: &Path, minor: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut own = vec![prefix.to_owned()];
    if configured(&process.root, prefix, "include-system-site-packages").is_some_and(|value| value == "true") {
        own.extend(process.exe.parent().and_then(Path::parent).map(Path::to_owned));
    }
    for prefix in own {
        found.push(prefix.join(format!("lib/python{minor}/site-packages")));
        if prefix == Path::new("/usr") {
            found.push(PathBuf::from(format!("/usr/local/lib/python{minor}/dist-packages")));
            found.push(PathBuf::from("/usr/lib/python3/dist-packages"));
        }
    }
    found
}

/// The folder of packages that a mapped file belongs to.
pub(super) fn site_of(root: &Path, path: &Path) -> Option<PathBuf> {
    let named =
        |folder: &&Path| folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| SITES.contains(&name));
    if let Some(site) = path.ancestors().find(named) {
        return Some(site.to_owned());
    }
    let name = path.file_name()?.to_str()?;
    let is_module = name.contains(".cpython-3") || name.contains(".abi3.so");
    let is_standard = path.components().any(|part| part.as_os_str() == "lib-dynload");
    if !is_module || is_standard {
        return None;
    }
    let describes = |folder: &&Path| {
        let entries = fs::read_dir(below_root(root, folder)).into_iter().flatten().flatten();
        entries.take(1000).any(|entry| entry.file_name().to_str().is_some_and(|name| name.ends_with(".dist-info")))
    };
    path.ancestors().skip(1).take(UP).find(describes).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fingerprint::loaded::tests::tree;

    /// A process with Python 3.11 of `/usr`, started by this word.
    fn process(root: &Path, first_word: &str, mapped: &[&str]) -> Process {
        Process {
            root: root.to_owned(),
            exe: PathBuf::from("/usr/bin/python3.11"),
            cwd: Some(PathBuf::from("/work")),
            first_word: first_word.to_owned(),
            environment: vec![("PATH".to_owned(), "/opt/venv/bin:/usr/bin".to_owned())],
            mapped: mapped.iter().map(PathBuf::from).collect(),
        }
    }

    #[test]
    fn a_virtual_environment_is_found_by_the_word_that_started_it() {
        let root = tree(&[
            ("opt/venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.7\n"),
            ("opt/venv/bin/python", ""),
            ("work/env/pyvenv.cfg", "version_info = 3.11.4.final.0\n"),
        ]);
        for (word, prefix, version) in [
            ("python", "/opt/venv", "3.11.7"),
            ("/opt/venv/bin/python", "/opt/venv", "3.11.7"),
            ("env/bin/python3", "/work/env", "3.11.4"),
            ("python9", "/usr", "3.11"),
        ] {
            let python = Python::of(&process(root.path(), word, &[])).unwrap();
            assert_eq!((python.prefix.to_str().unwrap(), python.version.as_str()), (prefix, version), "{word}");
            assert_eq!(python.sites[0], Path::new(prefix).join("lib/python3.11/site-packages"));
        }
    }

    #[test]
    fn the_systems_python_is_told_by_its_headers_or_by_debian() {
        let status = "Package: python3\nVersion: 3.11.2-1\n\nPackage: python3.11-minimal\nStatus: ok\nVersion: 3.11.2-6+deb12u6\n\n";
        let root = tree(&[("var/lib/dpkg/status", status), ("usr/lib/python3.11/os.py", "")]);
        let of = |root: &Path| Python::of(&process(root, "/usr/bin/python3", &[])).unwrap();
        assert_eq!(of(root.path()).version, "3.11.2");
        assert!(of(root.path()).sites.contains(&PathBuf::from("/usr/lib/python3/dist-packages")));
        let header = tree(&[(
            "usr/include/python3.11/patchlevel.h",
            "#define PY_MAJOR_VERSION 3\n#define PY_VERSION      \t\"3.11.9\"\n",
        )]);
        assert_eq!(of(header.path()).version, "3.11.9");
    }

    #[test]
    fn packages_lie_where_modules_were_loaded_from() {
        let root = tree(&[("data/target/numpy-2.0.0.dist-info/METADATA", "")]);
        for (path, site) in [
            (
                "/home/x/.local/lib/python3.11/site-packages/yaml/_yaml.cpython-311-x86_64-linux-gnu.so",
                Some("/home/x/.local/lib/python3.11/site-packages"),
            ),
            ("/data/target/numpy/core/_multiarray.cpython-311-x86_64-linux-gnu.so", Some("/data/target")),
            ("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", None),
            ("/usr/lib/libc.so.6", None),
        ] {
            assert_eq!(site_of(root.path(), Path::new(path)), site.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn other_programs_are_no_python() {
        let shell = Process { exe: PathBuf::from("/usr/bin/bash"), ..process(Path::new("/"), "bash", &[]) };
        assert_eq!(Python::of(&shell), None);
    }
}
