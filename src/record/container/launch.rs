//! How a command reaches into a container: by a client's `run`, or because the user named a running container.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use super::client::Client;
use super::image;
use crate::record::cgroup::Cgroups;
use crate::record::cgroup::tree::{ROOT_VARIABLE, Tree};
use crate::record::fingerprint::Keys;
use crate::record::probe::kernel::FIRST_PID_NAMESPACE;
use crate::trace::client::{self, Call};

/// Hidden first argument by which this program waits for the end of a control group.
pub const WAITER: &str = "__wait-for-group";
/// A client that talks to a daemon of this machine answers within this time.
const ANSWER: Duration = Duration::from_secs(10);
const INSIDE: &str = "record inside the container instead: … run … shice record …";

/// The container that a case's command works in, and how it is found.
#[derive(Clone, Debug)]
pub struct Launch {
    pub client: Client,
    pub start: Start,
    /// As the command names it; `None` where only the client knows.
    pub image: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Start {
    /// The client makes it; `insert_at` is the place for one more option, where the user has no file for the id.
    Run { insert_at: usize, cidfile: Option<PathBuf> },
    /// It was there before.
    Attached(Box<Attached>),
}

#[derive(Clone, Debug)]
pub struct Attached {
    /// As the user named it.
    pub given: String,
    pub id: String,
    pub groups: Cgroups,
    /// Whether there is no command, and how long to watch at most.
    pub watch: Option<Option<Duration>>,
}

impl Launch {
    /// What the fingerprint tells of its image, as far as it is known before the start.
    pub fn image_keys(&self) -> Keys {
        let id = match &self.start {
            Start::Run { .. } => None,
            Start::Attached(attached) => Some(attached.id.as_str()),
        };
        image::keys(&self.client, self.image.as_deref(), id)
    }

    /// Whether another one names the same image to the same client; an image that only the client knows is like no other.
    pub fn has_image_of(&self, other: &Self) -> bool {
        self.image.is_some() && self.image == other.image && self.client == other.client
    }

    /// The container that a command starts; `None` where it starts none.
    ///
    /// # Errors
    /// It starts one that could not be followed; the sentence says what to do instead.
    pub fn of(command: &[String]) -> Result<Option<Self>> {
        let Some(call) = client::call(command) else { return Ok(None) };
        let client = call.client;
        match call.verb {
            "run" => {}
            "exec" => bail!(
                "{client} exec hands the command over to a container that would read as nearly nothing; name the \
                 container too: shice record --container NAME … -- {client} exec NAME …"
            ),
            verb @ ("start" | "compose") => bail!(
                "what {client} {verb} starts hangs under another process and cannot be followed; use {client} run, attach \
                 to the running container with --container NAME, or {INSIDE}"
            ),
            _ => return Ok(None),
        }
        let run = call.run_words();
        if run.is_detached() {
            bail!(
                "{client} run --detach returns at once, and the container would go unmeasured; leave -d out, or start it \
                 first and watch it with --container NAME"
            );
        }
        refuse_elsewhere(&call)?;
        let insert_at = command.len() - call.rest.len();
        Ok(Some(Self {
            client: Client::new(call.base),
            start: Start::Run { insert_at, cidfile: run.value("--cidfile").map(PathBuf::from) },
            image: run.image.map(str::to_owned),
        }))
    }

    /// A container that runs already, by its name, its id, or a beginning of its id.
    ///
    /// # Errors
    /// There is none, or more than one, or it cannot be followed.
    pub fn attach(given: &str, command: &[String], duration: Option<Duration>) -> Result<Self> {
        let call = client::call(command);
        if let Some(call) = call.as_ref().filter(|call| call.verb == "run") {
            bail!("--container {given}: {} run starts a container of its own; leave --container out", call.client);
        }
        if let Some(call) = &call {
            refuse_elsewhere(call)?;
        }
        let clients = match &call {
            Some(call) => vec![Client::new(call.base)],
            None => client::CLIENTS.iter().map(|name| Client::new(&[(*name).to_owned()])).collect(),
        };
        let tree = Tree::visible(Path::new(crate::record::run::PROC));
        let (id, client) = identify(given, &tree, clients)?;
        let Some(groups) = tree.find(&id) else {
            bail!(
                "--container {given}: its control group is not to be seen here; is it running, and on this machine? Else \
                 {INSIDE}"
            );
        };
        let watch = command.is_empty().then_some(duration);
        let attached = Attached { given: given.to_owned(), id, groups, watch };
        Ok(Self { client, start: Start::Attached(Box::new(attached)), image: None })
    }

    /// Program and words of what is started, where they are not the user's: with a file for the container's id and the
    /// variables that the recorder sets, or the waiter of a container that is only watched.
    pub fn started(
        &self,
        command: &[String],
        own_cidfile: &Path,
        variables: &BTreeMap<String, String>,
    ) -> (Option<PathBuf>, Vec<String>) {
        match &self.start {
            Start::Run { insert_at, cidfile } => {
                let mut words = command.to_vec();
                // Their values are in the client's environment.
                let mut options: Vec<String> =
                    variables.keys().flat_map(|name| ["--env".to_owned(), name.clone()]).collect();
                if cidfile.is_none() {
                    options.extend(["--cidfile".to_owned(), own_cidfile.display().to_string()]);
                }
                words.splice(*insert_at..*insert_at, options);
                (None, words)
            }
            Start::Attached(attached) => match attached.watch {
                Some(duration) => (Some("/proc/self/exe".into()), waiter(&attached.groups, duration)),
                None => (None, command.to_vec()),
            },
        }
    }
}

/// Words that start this program as one that waits for the end of the groups, or of the time.
fn waiter(groups: &Cgroups, limit: Option<Duration>) -> Vec<String> {
    let milliseconds = limit.map_or(u64::MAX, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let dir = groups.dir().map(|dir| dir.display().to_string()).unwrap_or_default();
    ["shice", WAITER, &dir, &milliseconds.to_string()].map(str::to_owned).to_vec()
}

/// Full id of a container, and the client that knows it.
fn identify(given: &str, tree: &Tree, clients: Vec<Client>) -> Result<(String, Client)> {
    let fallback = clients.first().cloned().unwrap_or(Client::new(&[]));
    // The kernel's own list first: it needs no client.
    let looks_like_id = given.len() >= 4 && given.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let ids = if looks_like_id { tree.ids(given) } else { BTreeSet::new() };
    if ids.len() > 1 {
        bail!("--container {given}: {} running containers have ids that begin so; give more of it", ids.len());
    }
    if let Some(id) = ids.into_iter().next() {
        let knows = |client: &Client| client.ask(&["inspect", "--format", "{{.Id}}", &id], ANSWER).is_some();
        let client = clients.into_iter().find(knows).unwrap_or(fallback);
        return Ok((id, client));
    }
    for client in clients {
        let answer = client.ask(&["inspect", "--type", "container", "--format", "{{.Id}}", given], ANSWER);
        if let Some(id) = answer.filter(|id| super::is_id(id)) {
            return Ok((id, client));
        }
    }
    bail!("--container {given}: no running container has this name or id; see which there are with `docker ps`")
}

/// A daemon on another machine, or outside of the container that we are in, starts what we cannot see.
fn refuse_elsewhere(call: &Call<'_>) -> Result<()> {
    let client = call.client;
    if let Some(host) = remote_host(call) {
        bail!(
            "{client} talks to another machine here ({host}), whose containers cannot be measured from this one; {INSIDE}"
        );
    }
    let root = std::env::var_os(ROOT_VARIABLE);
    if root.is_none() && is_in_container(Path::new(crate::record::run::PROC)) {
        bail!(
            "this program itself runs in a container, from which the containers that {client} starts beside it cannot be \
             seen; run shice on the machine itself, or {INSIDE}"
        );
    }
    if Tree::visible(Path::new(crate::record::run::PROC)).is_empty() {
        bail!("no control groups are visible here (/sys/fs/cgroup), so a container cannot be followed; {INSIDE}");
    }
    Ok(())
}

/// Where the client's daemon is, if it is elsewhere.
fn remote_host(call: &Call<'_>) -> Option<String> {
    let is_remote = |host: &str| !host.starts_with("unix://") && !host.starts_with('/') && !host.is_empty();
    let option =
        |names: &[&str]| call.options.iter().rev().find(|(name, _)| names.contains(name)).map(|(_, value)| *value);
    let variable = |name: &str| std::env::var(name).ok().filter(|host| is_remote(host));
    match call.client {
        "podman" => {
            let remote = option(&["--remote", "-r"]).is_some_and(|value| value != Some("false"));
            let named = option(&["--connection", "-c", "--url"]).flatten().filter(|host| is_remote(host));
            named.map(str::to_owned).or(remote.then(|| "--remote".to_owned())).or_else(|| variable("CONTAINER_HOST"))
        }
        "docker" => {
            if let Some(host) = option(&["--host", "-H"]).flatten() {
                return is_remote(host).then(|| host.to_owned());
            }
            let context = option(&["--context", "-c"]).flatten();
            if context.is_none() && std::env::var("DOCKER_HOST").is_ok_and(|host| !host.is_empty()) {
                return variable("DOCKER_HOST");
            }
            // Which machine a context names only the client knows; one that cannot say is taken at its word only where
            // the user named none.
            let ask = ["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"];
            let host = Client::new(call.base).ask(&ask, ANSWER);
            match host {
                Some(host) => is_remote(&host).then_some(host),
                None => context.map(|name| format!("--context {name}")),
            }
        }
        // Its address is a local socket, always.
        _ => None,
    }
}

/// Whether this program is in a container of its own. A pid namespace alone is none: WSL gives one to each system.
fn is_in_container(proc: &Path) -> bool {
    let namespace = std::fs::read_link(proc.join("self/ns/pid")).unwrap_or_default();
    let marked = ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists());
    let orchestrated = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    namespace != Path::new(FIRST_PID_NAMESPACE) && (marked || orchestrated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Launch::of(&words).unwrap_err().to_string()
    }

    #[test]
    fn what_could_not_be_followed_is_refused_with_the_way_out() {
        for (command, expected) in [
            ("docker run -d img", "leave -d out"),
            ("docker exec -it c python train.py", "--container NAME"),
            ("docker compose up", "docker run"),
            ("podman start -a c", "podman run"),
            ("docker --host tcp://far:2375 run img", "another machine here (tcp://far:2375)"),
            ("docker -H=ssh://me@far run img", "ssh://me@far"),
            ("podman --remote run img", "shice record"),
            ("podman --url ssh://far run img", "ssh://far"),
            ("podman --connection box run img", "another machine here (box)"),
        ] {
            let message = refusal(command);
            assert!(message.contains(expected), "{message:?} should contain {expected:?}");
        }
    }

    #[test]
    fn a_command_without_a_container_is_let_through() {
        for text in ["python train.py", "docker build .", "docker ps", "sh -c true"] {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            assert!(Launch::of(&words).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn the_id_file_is_added_behind_run_and_the_users_own_is_respected() {
        let launch = |cidfile: Option<&str>| Launch {
            client: Client::new(&["docker".to_owned()]),
            start: Start::Run { insert_at: 2, cidfile: cidfile.map(PathBuf::from) },
            image: None,
        };
        let command = ["docker", "run", "img", "run"].map(str::to_owned);
        let started = |cidfile, variables| launch(cidfile).started(&command, Path::new("/t/id"), variables).1.join(" ");
        let none = BTreeMap::new();
        assert_eq!(started(None, &none), "docker run --cidfile /t/id img run");
        assert_eq!(started(Some("my.id"), &none), "docker run img run");
        let variables = BTreeMap::from([("PYTHONUNBUFFERED".to_owned(), "1".to_owned())]);
        assert_eq!(started(Some("my.id"), &variables), "docker run --env PYTHONUNBUFFERED img run");
    }
}
