//! Command lines of container clients, as a run's `command` may be one: which are a `run`, and what they ask for.

use std::slice::Iter;

/// Programs that start containers through a daemon or a monitor, and share their command line.
pub const CLIENTS: [&str; 3] = ["docker", "podman", "nerdctl"];

/// Options before the subcommand that take a value, of all clients.
const GLOBAL_VALUES: [&str; 35] = [
    "--address",
    "--cgroup-manager",
    "--cni-netconfpath",
    "--cni-path",
    "--config",
    "--conmon",
    "--connection",
    "--context",
    "--data-root",
    "--events-backend",
    "--hooks-dir",
    "--host",
    "--hosts-dir",
    "--identity",
    "--imagestore",
    "--log-level",
    "--module",
    "--namespace",
    "--network-cmd-path",
    "--network-config-dir",
    "--out",
    "--root",
    "--runroot",
    "--runtime",
    "--runtime-flag",
    "--snapshotter",
    "--ssh",
    "--storage-driver",
    "--storage-opt",
    "--tlscacert",
    "--tlscert",
    "--tlskey",
    "--tmpdir",
    "--url",
    "--volumepath",
];
const GLOBAL_SHORT_VALUES: [char; 5] = ['a', 'c', 'l', 'n', 'H'];

/// Options of `run` that take no value; all others do.
const RUN_SWITCHES: [&str; 26] = [
    "--detach",
    "--disable-content-trust",
    "--env-host",
    "--help",
    "--http-proxy",
    "--init",
    "--interactive",
    "--no-healthcheck",
    "--no-hostname",
    "--no-hosts",
    "--oom-kill-disable",
    "--passwd",
    "--privileged",
    "--publish-all",
    "--quiet",
    "--read-only",
    "--read-only-tmpfs",
    "--replace",
    "--rm",
    "--rmi",
    "--rootfs",
    "--sig-proxy",
    "--tls-verify",
    "--tty",
    "--unsetenv-all",
    "--use-api-socket",
];
const RUN_SHORT_SWITCHES: [char; 5] = ['d', 'i', 'q', 't', 'P'];
/// The long names of one-letter options of `run`.
const RUN_SHORT_NAMES: [(char, &str); 15] = [
    ('a', "--attach"),
    ('c', "--cpu-shares"),
    ('d', "--detach"),
    ('e', "--env"),
    ('h', "--hostname"),
    ('i', "--interactive"),
    ('l', "--label"),
    ('m', "--memory"),
    ('p', "--publish"),
    ('q', "--quiet"),
    ('t', "--tty"),
    ('u', "--user"),
    ('v', "--volume"),
    ('w', "--workdir"),
    ('P', "--publish-all"),
];

/// A call of a client, taken apart up to its subcommand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// `docker`, `podman` or `nerdctl`.
    pub client: &'static str,
    /// All words before the subcommand: what calls the client, with its options.
    pub base: &'a [String],
    /// The client's options before the subcommand, with their values.
    pub options: Vec<(&'a str, Option<&'a str>)>,
    /// The subcommand; `run` for `container run` too.
    pub verb: &'a str,
    /// What follows the subcommand.
    pub rest: &'a [String],
}

/// What follows `run`, taken apart up to the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunWords<'a> {
    /// In the order in which they were written.
    pub options: Vec<RunOption<'a>>,
    pub image: Option<&'a str>,
    /// What follows the image: the command within the container, if one is given.
    pub command: &'a [String],
}

/// An option of `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOption<'a> {
    /// Its long name where it has one, else as it was written, with its hyphens.
    pub name: String,
    pub value: Option<&'a str>,
}

/// Takes a command line apart; `None` where it calls no client, or no subcommand of one.
pub fn call(command: &[String]) -> Option<Call<'_>> {
    let program_at = after_sudo(command);
    let client = is_client(command.get(program_at)?)?;
    let mut options = Vec::new();
    let mut at = program_at + 1;
    while let Some(word) = command.get(at).filter(|word| word.starts_with('-')) {
        let takes_value = match word.strip_prefix("--") {
            Some(_) => GLOBAL_VALUES.contains(&word.as_str()),
            None => word.len() == 2 && word.ends_with(GLOBAL_SHORT_VALUES),
        };
        match word.split_once('=') {
            Some((name, value)) => options.push((name, Some(value))),
            None if takes_value => options.push((word, command.get(at + 1).map(String::as_str))),
            None => options.push((word, None)),
        }
        at += if takes_value { 2 } else { 1 };
    }
    let base = command.get(..at)?;
    let mut verb = command.get(at)?;
    if verb == "container" {
        at += 1;
        verb = command.get(at)?;
    }
    Some(Call { client, base, options, verb, rest: command.get(at + 1..)? })
}

/// Where the program stands that `sudo` runs, or 0.
fn after_sudo(command: &[String]) -> usize {
    if command.first().is_none_or(|word| word.rsplit('/').next() != Some("sudo")) {
        return 0;
    }
    let mut at = 1;
    while let Some(word) = command.get(at).filter(|word| word.starts_with('-')) {
        at += if matches!(word.as_str(), "-u" | "--user" | "-g" | "--group") { 2 } else { 1 };
    }
    at
}

/// The client that a word calls, by name or path.
pub fn is_client(word: &str) -> Option<&'static str> {
    let name = word.rsplit('/').next()?;
    CLIENTS.into_iter().find(|client| *client == name)
}

impl<'a> Call<'a> {
    /// What follows `run`, or `exec`, whose container then stands in the image's place.
    pub fn run_words(&self) -> RunWords<'a> {
        let mut run = RunWords::default();
        let mut words = self.rest.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                run.image = words.next().map(String::as_str);
                break;
            }
            let Some(option) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                run.image = Some(word);
                break;
            };
            if option.starts_with('-') {
                run.options.push(long_option(word, &mut words));
            } else {
                short_options(option, &mut words, &mut run.options);
            }
        }
        run.command = words.as_slice();
        run
    }
}

impl<'a> RunWords<'a> {
    /// Whether the client returns at once.
    pub fn is_detached(&self) -> bool {
        let is_no = |value: &str| matches!(value, "false" | "0" | "f" | "F" | "FALSE" | "False");
        self.options.iter().any(|option| option.name == "--detach" && !option.value.is_some_and(is_no))
    }

    /// The value of an option by its long name; the last one counts.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.options.iter().rev().find(|option| option.name == name).and_then(|option| option.value)
    }
}

fn long_option<'a>(word: &'a str, words: &mut Iter<'a, String>) -> RunOption<'a> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None if RUN_SWITCHES.contains(&word) => (word, None),
        None => (word, words.next().map(String::as_str)),
    };
    RunOption { name: name.to_owned(), value }
}

/// `-dit`, `-v/a:/b`, `-e NAME`: switches, then perhaps one option whose value is the rest or the next word.
fn short_options<'a>(cluster: &'a str, words: &mut Iter<'a, String>, options: &mut Vec<RunOption<'a>>) {
    for (at, letter) in cluster.char_indices() {
        let known = RUN_SHORT_NAMES.iter().find(|(short, _)| *short == letter);
        let name = known.map_or_else(|| format!("-{letter}"), |(_, long)| (*long).to_owned());
        let rest = &cluster[at + letter.len_utf8()..];
        let told = rest.strip_prefix('=');
        if !RUN_SHORT_SWITCHES.contains(&letter) {
            let value =
                told.or(Some(rest).filter(|rest| !rest.is_empty())).or_else(|| words.next().map(String::as_str));
            options.push(RunOption { name, value });
            return;
        }
        options.push(RunOption { name, value: told });
        if told.is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_run_is_found_behind_options_paths_and_sudo() {
        for text in [
            "docker run img",
            "/usr/bin/podman run img",
            "nerdctl --namespace k8s.io run img",
            "docker --context other --log-level=debug container run img",
            "docker -c other -D run img",
            "sudo -E docker run img",
            "sudo -u root /usr/bin/docker run img",
        ] {
            let words = words(text);
            let call = call(&words).unwrap();
            assert_eq!((call.verb, call.rest), ("run", ["img".to_owned()].as_slice()), "{text}");
        }
    }

    #[test]
    fn other_programs_and_subcommands_are_no_run() {
        for text in ["python docker run", "docker", "dockerd run", "sudo python run", "docker --context"] {
            assert_eq!(call(&words(text)), None, "{text}");
        }
        assert_eq!(call(&words("docker exec -it c sh")).unwrap().verb, "exec");
        let words = words("docker --host tcp://far:2375 -c x run img");
        let call = call(&words).unwrap();
        assert_eq!(call.options, [("--host", Some("tcp://far:2375")), ("-c", Some("x"))]);
        assert_eq!(call.base.len(), 5);
    }

    /// Names and values of options.
    type Options = &'static [(&'static str, Option<&'static str>)];

    #[test]
    fn the_image_ends_the_options_of_run() {
        let table: [(&str, Options, bool); 9] = [
            ("img sh -d", &[], false),
            ("-d img", &[("--detach", None)], true),
            (
                "--rm -dit --gpus all img",
                &[
                    ("--rm", None),
                    ("--detach", None),
                    ("--interactive", None),
                    ("--tty", None),
                    ("--gpus", Some("all")),
                ],
                true,
            ),
            ("--detach=false img", &[("--detach", Some("false"))], false),
            ("-d=false img", &[("--detach", Some("false"))], false),
            ("-e -d img", &[("--env", Some("-d"))], false),
            ("-itv /a:/d img", &[("--interactive", None), ("--tty", None), ("--volume", Some("/a:/d"))], false),
            (
                "-v/a:/d --cidfile my.id -m 1g img python -d",
                &[("--volume", Some("/a:/d")), ("--cidfile", Some("my.id")), ("--memory", Some("1g"))],
                false,
            ),
            (
                "--cidfile=my.id --shm-size=1g -- img",
                &[("--cidfile", Some("my.id")), ("--shm-size", Some("1g"))],
                false,
            ),
        ];
        for (text, expected, detached) in table {
            let words = words(&format!("docker run {text}"));
            let call = call(&words).unwrap();
            let run = call.run_words();
            let options: Vec<_> = run.options.iter().map(|option| (option.name.as_str(), option.value)).collect();
            assert_eq!((options.as_slice(), run.image), (expected, Some("img")), "{text}");
            assert_eq!(run.is_detached(), detached, "{text}");
            assert_eq!(run.command, text.split_once("img").unwrap().1.split_whitespace().collect::<Vec<_>>(), "{text}");
        }
    }
}
