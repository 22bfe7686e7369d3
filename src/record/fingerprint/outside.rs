//! What of the container that a run is in can be known from outside, through one of its processes.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use serde_json::Value;

use super::loaded::LONGEST_TEXT;
use super::{Keys, bytes_of, container, variables};

/// Where a system tells its name, os-release(5); the first goes before the second.
const RELEASES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// A process's surroundings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// System, shared memory, and what the image says that it is made of. What may not be looked at is absent.
    pub keys: Keys,
    pub root: Root,
}

/// The root folder of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Root {
    /// Another one than this program's.
    Own,
    OfThisProgram,
    /// It may not be looked at, or the process has ended.
    #[default]
    Hidden,
}

/// Looks at the surroundings of a process in `proc` (`/proc`, or a folder that looks like it).
pub fn view(proc: &Path, pid: i32) -> View {
    let folder = proc.join(pid.to_string());
    let root = open_root(&folder.join("root"));
    let mut keys = Keys::new();
    let mut put = |key: &str, value: Option<Value>| value.map(|value| keys.insert(key.to_owned(), value));
    put("os", RELEASES.iter().find_map(|path| name(&text(root.as_ref()?, path)?)).map(Value::from));
    let shm = root.as_ref().and_then(|root| open_below(root, "/dev/shm", OFlag::O_RDONLY | OFlag::O_DIRECTORY));
    let shm = shm.and_then(|folder| bytes_of(&nix::sys::statvfs::fstatvfs(&folder).ok()?));
    put("shm_bytes", shm.map(|(size, _)| Value::from(size)));
    let environment = variables::parse(&fs::read(folder.join("environ")).unwrap_or_default());
    let variable = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    for (key, value) in container::made_of(variable) {
        put(key, Some(Value::from(value)));
    }
    View { keys, root: root.map_or(Root::Hidden, |root| kind_of(&root)) }
}

fn open_root(path: &Path) -> Option<File> {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).ok().map(File::from)
}

fn kind_of(root: &File) -> Root {
    let place = |folder: fs::Metadata| (folder.dev(), folder.ino());
    match (root.metadata().map(place), fs::metadata("/").map(place)) {
        (Ok(its), Ok(ours)) if its == ours => Root::OfThisProgram,
        (Ok(_), Ok(_)) => Root::Own,
        _ => Root::Hidden,
    }
}

/// Opens a path as a process with that root folder would: no link leads out of it. Kernels before 5.6 cannot.
fn open_below(root: &File, path: &str, flags: OFlag) -> Option<File> {
    let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).resolve(resolve);
    openat2(root, path, how).ok().map(File::from)
}

/// The text of a plain file; a pipe could keep a reader waiting.
fn text(root: &File, path: &str) -> Option<String> {
    let file = open_below(root, path, OFlag::O_RDONLY)?;
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut text = String::new();
    file.take(LONGEST_TEXT).read_to_string(&mut text).ok()?;
    Some(text)
}

/// `Linux (Ubuntu 24.04)`, as the machine's own system is named.
fn name(release: &str) -> Option<String> {
    let field = |key: &str| {
        let value = container::field_of(release, key)?;
        // It may stand in single quotes too.
        Some(value.trim_matches('\'').to_owned()).filter(|value| !value.is_empty())
    };
    let (name, version) = (field("NAME")?, field("VERSION_ID"));
    Some(format!("Linux ({name}{})", version.map(|version| format!(" {version}")).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_looked_at_through_its_own_root_folder() {
        let proc = tempfile::tempdir().unwrap();
        let root = proc.path().join("7/root");
        for folder in ["etc", "usr/lib", "dev/shm"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(proc.path().join("7/environ"), "HOME=/root\0PYTORCH_VERSION=2.8.0\0CUDA_VERSION=\0").unwrap();
        // Links that lead to this machine's files where they are followed as they stand: one to another, that one out of
        // the root folder.
        std::os::unix::fs::symlink("/etc/release", root.join("etc/os-release")).unwrap();
        std::os::unix::fs::symlink("../../../../usr/lib/os-release", root.join("etc/release")).unwrap();
        fs::write(root.join("usr/lib/os-release"), "NAME=\"Made Up\"\nVERSION_ID='7'\nPRETTY_NAME=\"x\"\n").unwrap();
        let seen = view(proc.path(), 7);
        assert_eq!(seen.root, Root::Own);
        let expected = Keys::from([
            ("os".to_owned(), Value::from("Linux (Made Up 7)")),
            ("shm_bytes".to_owned(), Value::from(super::super::space(proc.path()).unwrap().0)),
            ("image_pytorch".to_owned(), Value::from("2.8.0")),
        ]);
        assert_eq!(seen.keys, expected);
    }

    #[test]
    fn what_may_not_be_looked_at_is_absent_and_a_pipe_is_not_waited_for() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(view(proc.path(), 7), View::default());
        let etc = proc.path().join("8/root/etc");
        fs::create_dir_all(&etc).unwrap();
        nix::unistd::mkfifo(&etc.join("os-release"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(view(proc.path(), 8).keys, Keys::new());
        let own = view(Path::new("/proc"), nix::unistd::Pid::this().as_raw());
        assert_eq!(own.root, Root::OfThisProgram);
    }
}
