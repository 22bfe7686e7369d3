//! Libraries that matter to PyTorch, and of which version a mapped one is: by its file's name, or by the package that
//! it came in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A kind of library.
struct Kind {
    /// How its file's name begins.
    stem: &'static str,
    /// The component that it stands for, among those that environments are compared by; empty where it is a part of one.
    component: &'static str,
    /// Packages that bring it: of pip without a suffix for the CUDA major (`_cu12`), and of conda.
    pip: &'static str,
    conda: &'static [&'static str],
}

const fn kind(stem: &'static str, component: &'static str, pip: &'static str, conda: &'static [&'static str]) -> Kind {
    Kind { stem, component, pip, conda }
}

/// The first that fits counts.
const KINDS: [Kind; 20] = [
    kind("libtorch_cpu.", "torch", "torch", &["libtorch", "pytorch"]),
    kind("libtorch", "", "torch", &["libtorch", "pytorch"]),
    kind("libc10", "", "torch", &["libtorch", "pytorch"]),
    kind("libcudart", "cuda_runtime", "nvidia_cuda_runtime", &["cuda-cudart", "cudatoolkit"]),
    kind("libcudnn.", "cudnn", "nvidia_cudnn", &["cudnn"]),
    kind("libcublas.", "cublas", "nvidia_cublas", &["libcublas"]),
    kind("libnccl", "nccl", "nvidia_nccl", &["nccl"]),
    kind("libcupti", "", "nvidia_cuda_cupti", &["cuda-cupti"]),
    kind("libmkl_rt", "mkl", "mkl", &["mkl"]),
    kind("libmkl_core", "mkl", "mkl", &["mkl"]),
    kind("libmkl", "", "mkl", &["mkl"]),
    kind("libopenblas", "openblas", "scipy_openblas64", &["libopenblas", "openblas"]),
    kind("libscipy_openblas", "openblas", "scipy_openblas64", &["libopenblas"]),
    kind("libgomp", OPENMP, "", &[]),
    kind("libiomp", OPENMP, "intel_openmp", &[]),
    kind("libomp", OPENMP, "", &[]),
    kind("libdnnl", "onednn", "onednn", &["onednn"]),
    kind("libcuda.", "", "", &[]),
    kind("libnvidia-ml", "", "", &[]),
    kind("libpython", "", "", &[]),
];

/// The OpenMP runtime: what counts is which it is, and that there is one only.
pub(super) const OPENMP: &str = "openmp";
/// Headers of a C++ libtorch that may define its version: of 2.10 and later, and of those before.
const VERSION_HEADERS: [&str; 2] =
    ["include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"];
/// Packages lie no further up from a library of theirs.
const UP: usize = 6;
/// A folder with more entries is not searched to its end.
const ENTRIES: usize = 5000;

fn kind_of(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| name.starts_with(kind.stem)).filter(|_| name.contains(".so"))
}

/// Whether a file is one of these libraries.
pub(super) fn matters(name: &str) -> bool {
    kind_of(name).is_some()
}

/// The component that a file stands for, if any.
pub(super) fn component(name: &str) -> Option<&'static str> {
    kind_of(name).map(|kind| kind.component).filter(|component| !component.is_empty())
}

/// `libgomp` of `libgomp-947d5fa1.so.1.0.0`.
pub(super) fn family(name: &str) -> &str {
    let end = name.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(name.len());
    &name[..end]
}

/// Looks versions up; each folder is listed once.
#[derive(Debug, Default)]
pub(super) struct Versions {
    folders: BTreeMap<PathBuf, BTreeMap<String, String>>,
}

impl Versions {
    /// The version of a library that a process whose root folder is `root` has mapped from `path`; `None` where nothing
    /// tells it.
    pub(super) fn of(&mut self, root: &Path, path: &Path) -> Option<String> {
        let name = path.file_name()?.to_str()?;
        let kind = kind_of(name)?;
        if kind.stem == "libpython" {
            return python_of(name);
        }
        if kind.component == OPENMP {
            // What its name tells is the version of the interface, which has been the same for decades.
            return self.of_package(root, path, kind);
        }
        let named = in_name(name);
        if named.as_ref().is_some_and(|version| version.contains('.')) {
            return named;
        }
        if kind.pip == "torch"
            && let Some(version) = beside_torch(root, path)
        {
            return Some(version);
        }
        // Of `libcudart.so.13` at least the major is known.
        self.of_package(root, path, kind).or(named)
    }

    fn of_package(&mut self, root: &Path, path: &Path, kind: &Kind) -> Option<String> {
        for folder in path.ancestors().skip(1).take(UP) {
            if is_site(folder, path) && !kind.pip.is_empty() {
                let packages = self.packages(&super::below_root(root, folder));
                let found = packages.iter().find(|(name, _)| is_package(name, kind.pip));
                if let Some((_, version)) = found {
                    return Some(version.clone());
                }
            }
            let conda = super::below_root(root, folder).join("conda-meta");
            if !kind.conda.is_empty() && conda.is_dir() {
                return kind.conda.iter().find_map(|name| conda_version(&conda, name));
            }
        }
        None
    }

    /// Names and versions of the packages that are installed in a folder: names as pip compares them.
    pub(super) fn packages(&mut self, folder: &Path) -> &BTreeMap<String, String> {
        self.folders.entry(folder.to_owned()).or_insert_with(|| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES);
            entries.filter_map(|entry| package(entry.file_name().to_str()?)).collect()
        })
    }
}

/// Whether packages may be described in a folder above a library: by its name, or by what of it holds the library.
fn is_site(folder: &Path, library: &Path) -> bool {
    let ends = |path: &Path, names: &[&str]| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name))
    };
    let part = library.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
    ends(folder, &["site-packages", "dist-packages"])
        || part.is_some_and(|part| {
            ends(Path::new(part.as_os_str()), &["torch", "torch.libs", "nvidia", "numpy.libs", "scipy.libs"])
        })
}

/// `nvidia_cudnn_cu12` is `nvidia_cudnn`; `nvidia_cudnn_frontend` is another.
fn is_package(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix("_cu").is_some_and(|major| major.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// `("torch", "2.11.0+cu130")` of `torch-2.11.0+cu130.dist-info`.
pub(super) fn package(entry: &str) -> Option<(String, String)> {
    let whole = entry.strip_suffix(".dist-info").or_else(|| entry.strip_suffix(".egg-info"))?;
    // An egg ends with the version of Python.
    let whole = whole.rsplit_once("-py3").map_or(whole, |(start, _)| start);
    let at = whole
        .match_indices('-')
        .map(|(at, _)| at)
        .find(|at| whole[at + 1..].starts_with(|c: char| c.is_ascii_digit()))?;
    let name = whole[..at].to_ascii_lowercase().replace(['-', '.'], "_");
    (!name.is_empty()).then(|| (name, whole[at + 1..].to_owned()))
}

/// The version of a conda package by its description, `mkl-2024.2.2-ha957f24_16.json`.
pub(super) fn conda_version(meta: &Path, name: &str) -> Option<String> {
    fs::read_dir(meta).ok()?.flatten().take(ENTRIES).find_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        let rest = file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".json")?;
        let (version, _) = rest.split_once('-')?;
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
    })
}

/// What a file's name tells: `13.0.88` of `libcudart.so.13.0.88`, `0.3.23` of `libopenblasp-r0-5c2b7639.3.23.so`.
fn in_name(name: &str) -> Option<String> {
    if let Some((_, version)) = name.split_once(".so.") {
        let is_version =
            version.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        return is_version.then(|| version.to_owned());
    }
    let stem = name.strip_suffix(".so")?;
    let (_, version) = stem.rsplit_once("-r")?;
    // auditwheel puts a hash behind the first part.
    let parts = version.split('.').map(|part| part.split('-').next().unwrap_or_default());
    let version: Vec<&str> =
        parts.take_while(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())).collect();
    (version.len() > 1).then(|| version.join("."))
}

/// `3.11` of `libpython3.11.so.1.0`.
fn python_of(name: &str) -> Option<String> {
    let (version, _) = name.strip_prefix("libpython")?.split_once(".so")?;
    version.contains('.').then(|| version.trim_end_matches(|c: char| c.is_ascii_alphabetic()).to_owned())
}

/// What a libtorch says of itself in the files beside it: `lib/../version.py` of the Python package, the header of
/// a C++ one, or the `build-version` of its archive.
fn beside_torch(root: &Path, library: &Path) -> Option<String> {
    let folder = super::below_root(root, library.parent()?.parent()?);
    let read = |file: &str| super::text(&folder.join(file));
    let python = read("version.py").and_then(|text| assigned(&text, "__version__"));
    let header = || VERSION_HEADERS.iter().find_map(|file| defined(&read(file)?, "TORCH_VERSION"));
    let archive = || read("build-version").map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    python.or_else(header).or_else(archive)
}

/// The CUDA that a Python package of torch was built for, by its `version.py`.
pub(super) fn torch_cuda(root: &Path, library: &Path) -> Option<String> {
    let file = super::below_root(root, library.parent()?.parent()?).join("version.py");
    assigned(&super::text(&file)?, "cuda")
}

/// `13.0` of a line `cuda: Optional[str] = '13.0'`.
fn assigned(text: &str, name: &str) -> Option<String> {
    let line =
        text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', ':', '='])))?;
    quoted(line.split_once('=')?.1, ['\'', '"'])
}

/// The string that `#define NAME` stands for, on its own line or the next.
fn defined(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("#define {name} "))?;
    quoted(rest.split("#define").next()?, ['"', '"'])
}

fn quoted(text: &str, quotes: [char; 2]) -> Option<String> {
    let start = text.find(quotes)? + 1;
    let end = text[start..].find(quotes)?;
    (end > 0).then(|| text[start..start + end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fingerprint::loaded::tests::tree;

    fn version(root: &tempfile::TempDir, path: &str) -> Option<String> {
        Versions::default().of(root.path(), Path::new(path))
    }

    #[test]
    fn names_of_files_tell_versions() {
        let nothing = tree(&[]);
        for (path, expected) in [
            ("/usr/local/cuda/lib64/libcudart.so.13.0.88", Some("13.0.88")),
            ("/usr/lib/x86_64-linux-gnu/libcudnn.so.9.13.0", Some("9.13.0")),
            ("/usr/lib/x86_64-linux-gnu/libnccl.so.2.27.5", Some("2.27.5")),
            ("/x/libopenblas-r0.3.26.so", Some("0.3.26")),
            ("/x/numpy.libs/libopenblas64_p-r0-5c2b7639.3.23.so", Some("0.3.23")),
            ("/x/libcudart.so.13", Some("13")),
            ("/x/libgomp.so.1.0.0", None),
            ("/usr/lib/libpython3.11.so.1.0", Some("3.11")),
            ("/x/libscipy_openblas64_-6bb31eeb.so", None),
            ("/x/libtorch_cpu.so", None),
            ("/lib/libc.so.6", None),
        ] {
            assert_eq!(version(&nothing, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn packages_tell_what_names_do_not() {
        let site = "opt/venv/lib/python3.12/site-packages";
        let dist = |name: &str| format!("{site}/{name}.dist-info/METADATA");
        let files = [
            dist("nvidia_cudnn_cu13-9.15.1.9"),
            dist("nvidia_cudnn_frontend-1.0.0"),
            dist("nvidia_cuda_runtime-13.0.96"),
            dist("nvidia_nccl_cu12-2.28.9"),
            format!("{site}/torch/version.py"),
        ];
        let torch = "__version__ = '2.11.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n";
        let root = tree(&files.each_ref().map(|path| (path.as_str(), torch)));
        for (path, expected) in [
            ("nvidia/cudnn/lib/libcudnn.so.9", Some("9.15.1.9")),
            ("nvidia/cu13/lib/libcudart.so.13", Some("13.0.96")),
            ("nvidia/nccl/lib/libnccl.so.2", Some("2.28.9")),
            ("nvidia/cublas/lib/libcublas.so.13", Some("13")),
            ("torch/lib/libtorch_cpu.so", Some("2.11.0+cu130")),
            ("torch/lib/libc10.so", Some("2.11.0+cu130")),
        ] {
            assert_eq!(version(&root, &format!("/{site}/{path}")).as_deref(), expected, "{path}");
        }
        let library = PathBuf::from(format!("/{site}/torch/lib/libtorch_cpu.so"));
        assert_eq!(torch_cuda(root.path(), &library).as_deref(), Some("13.0"));
    }

    #[test]
    fn a_libtorch_without_python_and_one_of_conda_are_known_too() {
        let root = tree(&[
            ("opt/libtorch/build-version", "2.8.0+cu128\n"),
            (
                "x/torch/include/torch/headeronly/version.h",
                "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION \\\n  \"2.11.0\"\n#define X 1\n",
            ),
            ("opt/conda/conda-meta/mkl-2024.2.2-ha957f24_16.json", "{}"),
            ("opt/conda/conda-meta/mkl-service-2.4.0-py311.json", "{}"),
        ]);
        assert_eq!(version(&root, "/opt/libtorch/lib/libtorch_cpu.so").as_deref(), Some("2.8.0+cu128"));
        assert_eq!(version(&root, "/x/torch/lib/libtorch_cpu.so").as_deref(), Some("2.11.0"));
        assert_eq!(version(&root, "/opt/conda/lib/libmkl_rt.so.2").as_deref(), Some("2024.2.2"));
    }

    #[test]
    fn folders_that_describe_packages_are_read_in_both_forms() {
        let expect = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(package("torch-2.11.0+cu130.dist-info"), expect("torch", "2.11.0+cu130"));
        assert_eq!(package("PyYAML-6.0.2-py3.11.egg-info"), expect("pyyaml", "6.0.2"));
        assert_eq!(package("ruamel.yaml-0.18.6.dist-info"), expect("ruamel_yaml", "0.18.6"));
        for entry in ["torch", "README.txt", "-1.0.dist-info", "torch.dist-info"] {
            assert_eq!(package(entry), None, "{entry}");
        }
    }

    #[test]
    fn only_libraries_that_matter_are_listed() {
        for name in ["libtorch_cpu.so", "libgomp.so.1", "libcudart.so.13", "libgomp-947d5fa1.so.1.0.0"] {
            assert!(matters(name), "{name}");
        }
        for name in ["libc.so.6", "libtorch.txt", "torch", "libcudnn_ops.so.9"] {
            assert!(!matters(name), "{name}");
        }
        assert_eq!((family("libgomp-947d5fa1.so.1.0.0"), component("libgomp.so.1")), ("libgomp", Some(OPENMP)));
    }
}
