//! Command lines of container clients: which are a `run`, and what they ask for.

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

/// A call of a client, taken apart up to its subcommand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    /// `docker`, `podman` or `nerdctl`.
    pub(super) client: &'static str,
    /// All words before the subcommand: what calls the client, with its options.
    pub(super) base: &'a [String],
    /// The client's options before the subcommand, with their values.
    pub(super) options: Vec<(&'a str, Option<&'a str>)>,
    /// The subcommand; `run` for `container run` too.
    pub(super) verb: &'a str,
    /// What follows the subcommand.
    pub(super) rest: &'a [String],
}

/// What a `run` asks for, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunWords<'a> {
    pub(super) detached: bool,
    pub(super) cidfile: Option<&'a str>,
    pub(super) image: Option<&'a str>,
}

/// Takes a command line apart; `None` where it calls no client, or no subcommand of one.
pub(super) fn call(command: &[String]) -> Option<Call<'_>> {
    let program_at = after_sudo(command);
    let client = super::is_client(command.get(program_at)?)?;
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

impl<'a> Call<'a> {
    /// What follows `run`, up to the image.
    pub(super) fn run_words(&self) -> RunWords<'a> {
        let mut run = RunWords::default();
        let mut words = self.rest.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if word == "--" {
                run.image = words.next();
                break;
            }
            let Some(option) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                run.image = Some(word);
                break;
            };
            if option.starts_with('-') {
                long_option(word, &mut words, &mut run);
            } else {
                short_options(option, &mut words, &mut run);
            }
        }
        run
    }
}

fn long_option<'a>(word: &'a str, words: &mut impl Iterator<Item = &'a str>, run: &mut RunWords<'a>) {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None if RUN_SWITCHES.contains(&word) => (word, None),
        None => (word, words.next()),
    };
    match name {
        "--detach" => run.detached = !matches!(value, Some("false" | "0" | "f" | "F" | "FALSE" | "False")),
        "--cidfile" => run.cidfile = value,
        _ => {}
    }
}

/// `-dit`, `-v/a:/b`, `-e NAME`: switches, then perhaps one option whose value is the rest or the next word.
fn short_options<'a>(cluster: &str, words: &mut impl Iterator<Item = &'a str>, run: &mut RunWords<'a>) {
    for (at, option) in cluster.char_indices() {
        if !RUN_SHORT_SWITCHES.contains(&option) {
            if at + option.len_utf8() == cluster.len() {
                words.next();
            }
            return;
        }
        run.detached |= option == 'd' && !cluster[at + 1..].starts_with("=false");
        if cluster[at + 1..].starts_with('=') {
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

    #[test]
    fn the_image_ends_the_options_of_run() {
        let table: [(&str, RunWords<'_>); 9] = [
            ("img sh -d", RunWords { image: Some("img"), ..RunWords::default() }),
            ("-d img", RunWords { detached: true, image: Some("img"), ..RunWords::default() }),
            ("--rm -dit --gpus all img", RunWords { detached: true, image: Some("img"), ..RunWords::default() }),
            ("--detach=false img", RunWords { image: Some("img"), ..RunWords::default() }),
            ("--detach img", RunWords { detached: true, image: Some("img"), ..RunWords::default() }),
            ("-e -d img", RunWords { image: Some("img"), ..RunWords::default() }),
            ("-itv /a:/d img", RunWords { image: Some("img"), ..RunWords::default() }),
            (
                "-v/a:/d --cidfile my.id -m 1g img python -d",
                RunWords { cidfile: Some("my.id"), image: Some("img"), ..RunWords::default() },
            ),
            (
                "--cidfile=my.id --shm-size=1g -- img",
                RunWords { cidfile: Some("my.id"), image: Some("img"), ..RunWords::default() },
            ),
        ];
        for (text, expected) in table {
            let words = words(&format!("docker run {text}"));
            assert_eq!(call(&words).unwrap().run_words(), expected, "{text}");
        }
    }
}
