//! Names that tell nobody, and names of people that are words of the field as well.

/// Names that everybody has: accounts that images and services give out, folders that serve as homes, words of the field.
const NOBODY: &[&str] = &[
    "account",
    "adamw",
    "admin",
    "administrator",
    "ai",
    "app",
    "application",
    "apps",
    "azureuser",
    "build",
    "builder",
    "cluster",
    "code",
    "common",
    "conda",
    "container",
    "cpu",
    "cuda",
    "data",
    "dataset",
    "datasets",
    "debian",
    "default",
    "demo",
    "desktop",
    "dev",
    "developer",
    "dl",
    "docker",
    "domain",
    "ec2-user",
    "experiment",
    "experiments",
    "fedora",
    "gpu",
    "gpus",
    "guest",
    "home",
    "host",
    "hostname",
    "inference",
    "job",
    "jobs",
    "jovyan",
    "jupyter",
    "kaggle",
    "laptop",
    "learning",
    "linux",
    "llm",
    "local",
    "localdomain",
    "localhost",
    "localhost.localdomain",
    "login",
    "mac",
    "machine",
    "main",
    "mambauser",
    "master",
    "ml",
    "mnt",
    "model",
    "models",
    "nfs",
    "nobody",
    "node",
    "none",
    "notebook",
    "notebooks",
    "nvidia",
    "opt",
    "output",
    "outputs",
    "pc",
    "process",
    "project",
    "projects",
    "public",
    "python",
    "pytorch",
    "root",
    "runner",
    "runs",
    "scratch",
    "server",
    "service",
    "sgd",
    "shared",
    "slurm",
    "srv",
    "storage",
    "student",
    "system",
    "task",
    "tensor",
    "tensorflow",
    "test",
    "tester",
    "tmp",
    "torch",
    "train",
    "trainer",
    "training",
    "transformers",
    "ubuntu",
    "unknown",
    "user",
    "username",
    "users",
    "usr",
    "vagrant",
    "var",
    "vm",
    "vscode",
    "work",
    "worker",
    "workers",
    "workspace",
];
/// Domains that clouds and clusters give to everybody.
const DOMAINS: &[&str] = &["cluster.local", "compute.internal", "ec2.internal", "svc.cluster.local"];
/// Below a country, these stand for all who are of one kind: `edu.cn` is no lab's domain.
const KINDS: &[&str] = &["ac", "co", "com", "edu", "go", "gov", "ne", "net", "or", "org"];
/// Names of people that are words of the field, or of any log: optimisers, models, chips.
const WORDS: &[&str] = &[
    "adam", "albert", "ampere", "bert", "clara", "claude", "dora", "elmo", "ernie", "falcon", "gemma", "grace",
    "hopper", "julia", "kepler", "lion", "llama", "lora", "mark", "maxwell", "page", "pascal", "roberta", "tesla",
    "titan", "turing", "volta", "will", "yolo",
];
/// A name that is shorter is a word of any text.
const SHORTEST_WORD: usize = 4;
/// Fewer digits are a number of any text.
const SHORTEST_NUMBER: usize = 6;

/// Whether everybody may have this name.
pub(super) fn tells_nobody(name: &str) -> bool {
    is_one_of(name, NOBODY)
}

/// Whether a domain of this name has hosts of everybody.
pub(super) fn is_of_everybody(domain: &str) -> bool {
    let of_country = |(kind, country): (&str, &str)| country.len() == 2 && is_one_of(kind, KINDS);
    !domain.contains('.') || is_one_of(domain, DOMAINS) || domain.split_once('.').is_some_and(of_country)
}

/// Whether a name may well stand in a text and mean something else.
pub(super) fn is_ambiguous(name: &str) -> bool {
    let shortest = if name.bytes().all(|byte| byte.is_ascii_digit()) { SHORTEST_NUMBER } else { SHORTEST_WORD };
    name.len() < shortest || is_one_of(name, WORDS)
}

fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|other| name.eq_ignore_ascii_case(other))
}
