//! Jupyter servers that others can reach, and whether they ask for a token or password. Command lines and
//! configurations are read for that alone; nothing of them is kept.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// State of a listening socket in /proc/net/tcp.
const LISTENING: &str = "0A";
/// Only so much of a command line is looked at.
const WORDS: usize = 64;
/// What is read of a configuration at most.
const CONFIG_BYTES: u64 = 256 << 10;

/// What was found of Jupyter servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jupyter {
    /// Ports that can be reached from other machines, and whether a token or password is asked for there.
    pub servers: Vec<(u16, bool)>,
    /// There is a server whose sockets this user may not see.
    pub unseen: bool,
}

impl Jupyter {
    /// Looks through the processes below `proc`.
    pub fn look(proc: &Path) -> Self {
        let mut found = Self::default();
        let servers: Vec<(PathBuf, Vec<String>)> = processes(proc).filter(|(_, words)| is_server(words)).collect();
        if servers.is_empty() {
            return found;
        }
        let sockets = exposed(proc);
        for (process, words) in servers {
            match ports(&process, &sockets) {
                Some(ports) if ports.is_empty() => {}
                Some(ports) => {
                    let guarded = is_guarded(&Settings::of(&process, &words));
                    found.servers.extend(ports.into_iter().map(|port| (port, guarded)));
                }
                None => found.unseen = true,
            }
        }
        found.servers.sort_unstable();
        found.servers.dedup();
        found
    }
}

/// Folders of all processes, with their command lines.
fn processes(proc: &Path) -> impl Iterator<Item = (PathBuf, Vec<String>)> {
    fs::read_dir(proc).into_iter().flatten().flatten().filter_map(|entry| {
        let numbered = entry.file_name().to_str()?.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = fs::read(entry.path().join("cmdline")).ok().filter(|_| numbered)?;
        Some((entry.path(), words(&bytes)))
    })
}

/// The words of a file in which each ends with a zero byte.
fn words(bytes: &[u8]) -> Vec<String> {
    let words = bytes.split(|byte| *byte == 0).take(WORDS);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).filter(|word| !word.is_empty()).collect()
}

/// `jupyter-lab`, `python /usr/bin/jupyter-notebook`, `python -m jupyterlab`; no kernels, whose arguments are files.
fn is_server(words: &[String]) -> bool {
    let program = |word: &String| {
        let name = word.rsplit('/').next().unwrap_or_default();
        matches!(
            name,
            "jupyter"
                | "jupyter-lab"
                | "jupyter-notebook"
                | "jupyter-server"
                | "jupyterhub-singleuser"
                | "jupyter-labhub"
        )
    };
    let module = |pair: &[String]| {
        pair[0] == "-m" && matches!(pair[1].as_str(), "jupyterlab" | "notebook" | "jupyter" | "jupyter_server")
    };
    words.iter().take(2).any(program) || words.windows(2).take(3).any(module)
}

/// Listening sockets that are not bound to this machine alone: inode and port.
fn exposed(proc: &Path) -> HashMap<u64, u16> {
    let tables = ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(proc.join(name)).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(socket).collect()
}

/// One line of /proc/net/tcp: `0: 00000000:22B8 00000000:0000 0A … inode`; addresses are in the machine's byte order.
fn socket(line: &str) -> Option<(u64, u16)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    let is_v4_loopback = |word: &str| u32::from_str_radix(word, 16).is_ok_and(|word| word.to_ne_bytes()[0] == 127);
    let own = match address.len() {
        8 => is_v4_loopback(address),
        // ::1, and 127.x.x.x mapped.
        _ => {
            address == "00000000000000000000000001000000"
                || address.starts_with("0000000000000000FFFF0000") && is_v4_loopback(address.get(24..)?)
        }
    };
    let listening = *fields.get(3)? == LISTENING;
    (listening && !own).then_some((fields.get(9)?.parse().ok()?, u16::from_str_radix(port, 16).ok()?))
}

/// Exposed ports of a process; `None` where its descriptors may not be seen.
fn ports(process: &Path, sockets: &HashMap<u64, u16>) -> Option<Vec<u16>> {
    let inode = |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
    let descriptors = fs::read_dir(process.join("fd")).ok()?.flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    Some(links.filter_map(inode).filter_map(|inode| sockets.get(&inode).copied()).collect())
}

/// Token and password as a server was told them; absent where it was told nothing.
#[derive(Debug, Default, PartialEq)]
struct Settings {
    token: Option<String>,
    password: Option<String>,
}

impl Settings {
    /// The command line goes before the configuration, and that before the environment.
    fn of(process: &Path, command: &[String]) -> Self {
        let environment = words(&fs::read(process.join("environ")).unwrap_or_default());
        let variable = |name: &str| {
            environment.iter().find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
        };
        let configured = configurations(process, variable("HOME").as_deref());
        let told = |kind| option(command, kind).or_else(|| configured.iter().find_map(|text| setting(text, kind)));
        Self {
            token: told("token").or_else(|| variable("JUPYTER_TOKEN")),
            password: told("password").or_else(|| told("hashed_password")),
        }
    }
}

/// A server that was told nothing makes a token of its own. It is open only where the token is empty and no password
/// stands in its place.
fn is_guarded(settings: &Settings) -> bool {
    settings.token.as_deref() != Some("") || settings.password.as_deref().is_some_and(|password| !password.is_empty())
}

/// The value of `--ServerApp.token=…` or `--IdentityProvider.token …`.
fn option(words: &[String], kind: &str) -> Option<String> {
    words.iter().enumerate().find_map(|(at, word)| {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (word.as_str(), words.get(at + 1).cloned().unwrap_or_default()),
        };
        let named = name.starts_with("--") && name.rsplit_once('.').is_some_and(|(_, last)| last == kind);
        named.then(|| unquoted(&value))
    })
}

/// Configurations of the server, those of its user first.
fn configurations(process: &Path, home: Option<&str>) -> Vec<String> {
    let root = process.join("root");
    let below = |folder: &str| root.join(folder.trim_start_matches('/'));
    let folders = [
        home.map(|home| below(home).join(".jupyter")),
        Some(below("/usr/local/etc/jupyter")),
        Some(below("/etc/jupyter")),
    ];
    let names = ["jupyter_server_config", "jupyter_lab_config", "jupyter_notebook_config"];
    let files = folders.into_iter().flatten().flat_map(|folder| {
        names.iter().flat_map(move |name| ["json", "py"].map(|ending| folder.join(format!("{name}.{ending}"))))
    });
    files
        .filter(|file| file.metadata().is_ok_and(|file| file.len() <= CONFIG_BYTES))
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect()
}

/// The value of a setting in a configuration, which is JSON or Python.
fn setting(text: &str, kind: &str) -> Option<String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(classes)) => classes.values().find_map(|class| Some(class.get(kind)?.as_str()?.to_owned())),
        _ => setting_in_lines(text, kind),
    }
}

/// The value of `c.ServerApp.token = "…"` in Python, or of `"token": "…"` in JSON that is not quite right.
fn setting_in_lines(text: &str, kind: &str) -> Option<String> {
    text.lines().map(str::trim).filter(|line| !line.starts_with('#')).find_map(|line| {
        let (name, value) = line.split_once('=').or_else(|| line.split_once(':'))?;
        let name = unquoted(name.trim().trim_start_matches('{').trim());
        let named =
            name == kind || name.starts_with("c.") && name.rsplit_once('.').is_some_and(|(_, last)| last == kind);
        named.then(|| unquoted(value))
    })
}

fn unquoted(text: &str) -> String {
    text.trim().trim_end_matches([',', '}']).trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn servers_are_told_from_kernels_and_editors() {
        for text in [
            "/usr/bin/python3 /usr/local/bin/jupyter-lab --ip=0.0.0.0",
            "jupyter notebook",
            "python -m jupyterlab --port 8888",
            "python -u -m notebook",
        ] {
            assert!(is_server(&command(text)), "{text}");
        }
        for text in ["python -m ipykernel_launcher -f /root/.local/share/jupyter/runtime/k.json", "vim jupyter.py", ""]
        {
            assert!(!is_server(&command(text)), "{text}");
        }
    }

    #[test]
    fn only_listening_sockets_that_others_can_reach_count() {
        let rest = "00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000 100 0 0 10 0";
        let line = |address: &str, state: &str| format!("   0: {address} 00000000:0000 {state} {rest}");
        for (address, state, expected) in [
            ("00000000:22B8", "0A", Some((12345, 8888))),
            ("0500000A:22B8", "0A", Some((12345, 8888))),
            ("0100007F:22B8", "0A", None),
            ("00000000:22B8", "01", None),
            ("00000000000000000000000000000000:22B8", "0A", Some((12345, 8888))),
            ("00000000000000000000000001000000:22B8", "0A", None),
            ("0000000000000000FFFF00000100007F:22B8", "0A", None),
        ] {
            assert_eq!(socket(&line(address, state)), expected, "{address} {state}");
        }
        assert_eq!(socket("garbage"), None);
    }

    #[test]
    fn a_server_is_open_only_where_the_token_is_empty_and_there_is_no_password() {
        for (text, guarded) in [
            ("jupyter-lab --ip=0.0.0.0", true),
            ("jupyter-lab --ServerApp.token=", false),
            ("jupyter-lab --NotebookApp.token=''", false),
            ("jupyter-lab --IdentityProvider.token=abc", true),
            ("jupyter-lab --ServerApp.token= --ServerApp.password=argon2:x", true),
            ("jupyter-lab --ServerApp.token= --ServerApp.password=", false),
        ] {
            let settings = Settings::of(Path::new("/no/such/process"), &command(text));
            assert_eq!(is_guarded(&settings), guarded, "{text}");
        }
    }

    #[test]
    fn configurations_in_python_and_json_are_understood() {
        for (text, expected) in [
            ("# c.ServerApp.token = 'x'\nc.ServerApp.token = ''\n", Some("")),
            ("c.NotebookApp.token=\"abc\"", Some("abc")),
            ("{\n  \"ServerApp\": {\n    \"token\": \"\",\n    \"port\": 8888\n  }\n}", Some("")),
            ("{\"ServerApp\": {\"token\": \"\", \"port\": 8888}}", Some("")),
            ("{\"ServerApp\": {\"port\": 8888}, \"IdentityProvider\": {\"token\": \"a, b\"}}", Some("a, b")),
            ("{\"ServerApp\": {\"port\": 8888}}", None),
            ("c.ServerApp.token_length = 5", None),
        ] {
            assert_eq!(setting(text, "token").as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_server_without_a_token_is_found_by_its_socket() {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("42");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::create_dir_all(proc.path().join("net")).unwrap();
        fs::write(process.join("cmdline"), "/usr/bin/python3\0/usr/bin/jupyter-lab\0--ServerApp.token=\0").unwrap();
        std::os::unix::fs::symlink("socket:[777]", process.join("fd/5")).unwrap();
        let line =
            "   0: 00000000:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777 1 0 100 0 0 10 0";
        fs::write(proc.path().join("net/tcp"), format!("header\n{line}\n")).unwrap();
        let found = Jupyter::look(proc.path());
        assert_eq!(found, Jupyter { servers: vec![(8888, false)], unseen: false });
    }
}
