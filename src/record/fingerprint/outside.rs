//! What of the container that a run is in can be known from outside, through one of its processes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::loaded::{below_root, text};
use super::{Keys, container, space, variables};

/// Keys that tell of the container that a run is in, not of its machine; those that begin so do too.
const OF_CONTAINER: [&str; 4] = ["os", "cpu_limit_cores", "memory_limit_bytes", "shm_bytes"];
const BEGINNINGS: [&str; 2] = ["container", "image_"];
/// Where a system tells its name, os-release(5); the first goes before the second.
const RELEASES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// Whether a key of the fingerprint tells of a container rather than of the machine.
pub fn is_of_container(key: &str) -> bool {
    OF_CONTAINER.contains(&key) || BEGINNINGS.iter().any(|beginning| key.starts_with(beginning))
}

/// A process's surroundings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// System, shared memory, and what the image says that it is made of. What may not be looked at is absent.
    pub keys: Keys,
    /// Whether it has another root folder than this program.
    pub own_root: bool,
}

/// Looks at the surroundings of a process in `proc` (`/proc`, or a folder that looks like it).
pub fn view(proc: &Path, pid: i32) -> View {
    let folder = proc.join(pid.to_string());
    let root = folder.join("root");
    let mut keys = Keys::new();
    let mut put = |key: &str, value: Option<Value>| value.map(|value| keys.insert(key.to_owned(), value));
    put("os", RELEASES.iter().find_map(|path| name(&text(&followed(&root, Path::new(path)))?)).map(Value::from));
    put("shm_bytes", space(&followed(&root, Path::new("/dev/shm"))).map(|(size, _)| Value::from(size)));
    let environment = variables::parse(&fs::read(folder.join("environ")).unwrap_or_default());
    let variable = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    for (key, value) in container::made_of(variable) {
        put(key, Some(Value::from(value)));
    }
    let place = |path: &Path| fs::metadata(path).map(|folder| (folder.dev(), folder.ino())).ok();
    // The last dot follows the link that the kernel shows.
    let own_root = place(&root.join(".")).is_some_and(|root| place(Path::new("/")) != Some(root));
    View { keys, own_root }
}

/// A path below another root folder. A link with an absolute target would lead out of it.
fn followed(root: &Path, path: &Path) -> PathBuf {
    let below = below_root(root, path);
    match fs::read_link(&below) {
        Ok(target) if target.is_absolute() => below_root(root, &target),
        _ => below,
    }
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
        // A link that leads to this machine's file where it is followed as it stands.
        std::os::unix::fs::symlink("/usr/lib/os-release", root.join("etc/os-release")).unwrap();
        fs::write(root.join("usr/lib/os-release"), "NAME=\"Made Up\"\nVERSION_ID='7'\nPRETTY_NAME=\"x\"\n").unwrap();
        let seen = view(proc.path(), 7);
        assert!(seen.own_root);
        let expected = Keys::from([
            ("os".to_owned(), Value::from("Linux (Made Up 7)")),
            ("shm_bytes".to_owned(), Value::from(space(proc.path()).unwrap().0)),
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
        assert!(!view(Path::new("/proc"), nix::unistd::Pid::this().as_raw()).own_root);
    }

    #[test]
    fn keys_of_a_container_are_told_from_the_machines() {
        for key in ["os", "container", "container_image_digest", "image_cuda", "cpu_limit_cores", "shm_bytes"] {
            assert!(is_of_container(key), "{key}");
        }
        for key in ["kernel", "cpu_model", "memory_total_bytes", "cores_online", "gpus", "swap_total_bytes"] {
            assert!(!is_of_container(key), "{key}");
        }
    }
}
