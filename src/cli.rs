//! The command line: definitions and their tests, nothing else.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use shice::record::plan::settings;

/// Measures what a PyTorch environment really uses, and writes a bilingual report that others can check.
#[derive(Debug, Parser)]
#[command(name = "shice", version, about, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  shice record --env laptop --quick idle small-cnn
  shice record --env laptop --workload resnet50 -- python train.py --epochs 1
  shice record --env laptop --workload resnet50 --sweep workers=0,2,4 -- python train.py --workers {workers}
  shice record --suite suite.toml
  shice check
  shice list traces
  shice render traces --out site";

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "one is parsed a process")]
pub(crate) enum Command {
    /// Run workloads several times and save raw traces.
    Record(Box<RecordArgs>),
    /// Turn traces into a bilingual report: HTML, Markdown and charts.
    Render(RenderArgs),
    /// Show what a folder of traces holds.
    List(ListArgs),
    /// Check that traces are whole, and name all that is wrong with them. Changes nothing; exits with 2 if anything is.
    Verify(VerifyArgs),
    /// Say whether this environment is ready for PyTorch, and what to do where it is not.
    Check(CheckArgs),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("work").args(["own_command", "container"]).multiple(true)))]
pub(crate) struct RecordArgs {
    /// Name of the environment: one machine and one software image. Of a suite's environments, the only one to record.
    #[arg(long = "env", value_name = "NAME", required_unless_present = "suite")]
    pub(crate) environment: Option<String>,

    /// A suite of commands, settings and environments: a TOML file (see docs/suite.md), or the name of one that ships:
    /// quick, articles, sweep or sweep-large (see docs/workloads.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workloads", "workload", "device", "settings", "sweeps", "quick"])]
    pub(crate) suite: Option<PathBuf>,

    /// Shipped workloads to record: idle, small-cnn, resnet50-cifar10, llama2-finetune.
    #[arg(value_name = "WORKLOAD", conflicts_with = "workload")]
    pub(crate) workloads: Vec<String>,

    /// Name for a command of your own, which follows after `--`.
    #[arg(long, value_name = "NAME", requires = "work")]
    pub(crate) workload: Option<String>,

    /// The command of your own. It runs unchanged, with an empty standard input.
    #[arg(last = true, value_name = "COMMAND", requires = "workload", id = "own_command")]
    pub(crate) command: Vec<String>,

    /// A container that runs already, by its name or id: the command (such as `docker exec NAME …`) is run and the
    /// container measured; without a command it is watched until it ends.
    #[arg(long, value_name = "NAME", requires = "workload")]
    pub(crate) container: Option<String>,

    /// How long to watch the container at most, such as 60s or 5m; without this, until it ends.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "container",
          conflicts_with = "own_command")]
    pub(crate) duration: Option<Duration>,

    /// Device that the workload is asked to use, and by which the case is filed: auto, cpu or cuda:N for a shipped workload,
    /// which gets it as `--device`; any word for a command of your own, where it is filled in for `{device}`. Several,
    /// separated by commas, are cases of their own. [default: left to the workload]
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub(crate) device: Vec<String>,

    /// A setting: passed to a shipped workload as `--KEY VALUE`, filled in for `{KEY}` in a command of your own, where it
    /// else only labels the case.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<(String, String)>,

    /// A setting that takes several values, each a case of its own; several sweeps are combined.
    #[arg(long = "sweep", value_name = "KEY=V1,V2,…", value_parser = sweep)]
    pub(crate) sweeps: Vec<(String, Vec<String>)>,

    /// Shorten the workloads' data, never the network: minutes on two cores.
    #[arg(long)]
    pub(crate) quick: bool,

    /// How many times each case is run. [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) repeats: Option<u32>,

    /// How long the whole recording may take: repeats are left out first, then cases, from the last on. A run that has
    /// begun is not cut.
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub(crate) minutes: Option<Duration>,

    /// Time between samples of host and processes, such as 100ms or 1s. [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) interval: Option<Duration>,

    /// GPUs to record, separated by commas, each by index, UUID (or its beginning) or PCI address; without this, those
    /// that the command can see. A GPU that sleeps is woken only for this.
    #[arg(long, value_name = "GPU", value_delimiter = ',')]
    pub(crate) gpu: Vec<String>,

    /// Record no GPU, and do not touch the driver.
    #[arg(long, conflicts_with = "gpu")]
    pub(crate) no_gpu: bool,

    /// Folder of traces to write into.
    #[arg(long, value_name = "FOLDER", default_value = "traces")]
    pub(crate) out: PathBuf,

    /// Add runs to cases that are recorded already, also where the machine or the image has changed.
    #[arg(long)]
    pub(crate) append: bool,

    /// Record cases anew that are recorded already; their earlier runs go once a new one has finished, and not before.
    #[arg(long, conflicts_with = "append")]
    pub(crate) replace: bool,

    /// Show which runs would be recorded, in which order and about how long they take, and record nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Keep names of user and machine, home paths and addresses in the trace, which are masked else. Secrets stay masked.
    #[arg(long)]
    pub(crate) keep_identity: bool,

    /// Leave processes running that outlive the command, instead of ending them. They lose their output when the recorder
    /// ends, unless they have one of their own.
    #[arg(long)]
    pub(crate) leave_children: bool,

    /// Stop at the first run that fails, instead of going on with the others.
    #[arg(long)]
    pub(crate) fail_fast: bool,

    /// Whether steps are read from the output of your command, where it does not write them to the file that
    /// SHICE_STEPS names: progress bars of tqdm, Lightning and the Hugging Face Trainer, lines that count epochs,
    /// DeepSpeed's timer. PYTHONUNBUFFERED=1 is set then.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub(crate) steps: Steps,

    /// Read steps from lines that this regular expression fits, and no others. Its named groups say what numbers are:
    /// step, total, epoch, loss, samples (done so far), phase.
    #[arg(long, value_name = "REGEX", conflicts_with = "steps")]
    pub(crate) step_pattern: Option<String>,

    /// Keep the whole output of each run, as it is and with secrets that are in it. Else the last 200 lines of a failed
    /// run are kept, masked.
    #[arg(long)]
    pub(crate) keep_output: bool,
}

/// Whether steps are read from the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Steps {
    Auto,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// Folder of traces, or of one environment.
    #[arg(default_value = "traces")]
    pub(crate) traces: PathBuf,

    /// Folder of the report; with `--format json`, `-` for standard output.
    #[arg(long, value_name = "FOLDER", default_value = "site")]
    pub(crate) out: PathBuf,

    /// Instead of a site, write only each environment's report.json, for other programs (see docs/report-json.md).
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["single_file", "with_traces", "site_url", "open"])]
    pub(crate) format: Option<RenderFormat>,

    /// Write each report as one HTML file that stands alone and can be mailed, one a language.
    #[arg(long, conflicts_with_all = ["with_traces", "site_url"])]
    pub(crate) single_file: bool,

    /// Copy the raw traces into the report. Without this, its pages lead to them where the folders of traces and report lie
    /// side by side.
    #[arg(long)]
    pub(crate) with_traces: bool,

    /// Address at which the report will be in the web, for links that have to be absolute there, such as the feed's.
    #[arg(long, value_name = "URL", value_parser = site_url)]
    pub(crate) site_url: Option<String>,

    /// Open the report in the browser: that of BROWSER where it is set, else the desktop's.
    #[arg(long)]
    pub(crate) open: bool,
}

/// What `render` can write instead of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RenderFormat {
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Folder of traces, or of one environment.
    #[arg(default_value = "traces")]
    pub(crate) traces: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Folder of traces, or of one environment.
    #[arg(default_value = "traces")]
    pub(crate) traces: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print the results as JSON, without words.
    #[arg(long)]
    pub(crate) json: bool,

    /// Language of the words. [default: that of the locale]
    #[arg(long, value_name = "LANGUAGE", conflicts_with = "json")]
    pub(crate) lang: Option<Lang>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    Zh,
    En,
    Both,
}

/// A time limit in minutes; parts of one too.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = text.parse::<f64>().ok().filter(|minutes| *minutes > 0.0);
    let time = minutes.and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok());
    time.ok_or_else(|| "write a number of minutes above 0, such as 30".to_owned())
}

/// The address of a folder in the web, with a slash at its end.
fn site_url(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(|sign| sign.is_ascii_graphic() && !"\"<>\\^`{|}?#".contains(sign));
    let host = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    if !is_plain || host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
        return Err("write the address of a folder, such as https://example.org/reports/".to_owned());
    }
    Ok(format!("{}/", text.trim_end_matches('/')))
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as threads=2")?;
    settings::check_key(key)?;
    settings::check_value(key, value)?;
    Ok((key.to_owned(), value.to_owned()))
}

fn sweep(text: &str) -> Result<(String, Vec<String>), String> {
    let (key, values) = text.split_once('=').ok_or("expected KEY=V1,V2,…, such as threads=1,2,4")?;
    settings::check_key(key)?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    values.iter().try_for_each(|value| settings::check_value(key, value))?;
    Ok((key.to_owned(), values))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_two_hyphens_is_the_users_command() {
        let words = ["shice", "record", "--env", "a", "--workload", "mine", "--", "python", "train.py", "--env", "x"];
        let Command::Record(args) = Cli::parse_from(words).command else { panic!("no record") };
        assert_eq!(args.command, ["python", "train.py", "--env", "x"]);
        assert!(args.workloads.is_empty());
    }

    #[test]
    fn several_devices_and_settings_are_taken_apart() {
        let words = ["shice", "record", "--env", "a", "--device", "cpu,cuda:0", "--set", "threads=2", "small-cnn"];
        let Command::Record(args) = Cli::parse_from(words).command else { panic!("no record") };
        assert_eq!(args.device, ["cpu", "cuda:0"]);
        assert_eq!(args.settings, [("threads".to_owned(), "2".to_owned())]);
        assert_eq!((args.repeats, args.interval), (None, None));
    }

    #[test]
    fn gpus_are_chosen_or_left_out_but_not_both() {
        let words = ["shice", "record", "--env", "a", "--gpu", "0,GPU-1a2b,00000000:65:00.0", "idle"];
        let Command::Record(args) = Cli::parse_from(words).command else { panic!("no record") };
        assert_eq!(args.gpu, ["0", "GPU-1a2b", "00000000:65:00.0"]);
        assert!(Cli::try_parse_from(["shice", "record", "--env", "a", "--gpu", "0", "--no-gpu", "idle"]).is_err());
    }

    #[test]
    fn a_command_without_a_name_and_a_name_without_a_command_are_refused() {
        for words in [
            ["shice", "record", "--env", "a", "--", "true"].as_slice(),
            &["shice", "record", "--env", "a", "--workload", "x"],
        ] {
            assert!(Cli::try_parse_from(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_suite_stands_for_itself() {
        let record = ["shice", "record"];
        let parse = |words: &[&str]| Cli::try_parse_from(record.iter().chain(words));
        assert!(parse(&["--suite", "suite.toml"]).is_ok());
        assert!(parse(&["--suite", "suite.toml", "--env", "a", "--repeats", "2", "--append"]).is_ok());
        for more in [["idle"].as_slice(), &["--set", "a=1"], &["--quick"], &["--workload", "w", "--", "true"]] {
            assert!(parse(&[&["--suite", "suite.toml"], more].concat()).is_err(), "{more:?}");
        }
        assert!(parse(&["idle"]).is_err());
        assert!(parse(&["--env", "a", "idle", "--append", "--replace"]).is_err());
    }

    #[test]
    fn a_step_pattern_is_no_use_where_steps_are_not_read() {
        let words = ["shice", "record", "--env", "a", "--steps", "off", "--step-pattern", "x", "idle"];
        assert!(Cli::try_parse_from(words).is_err());
    }

    #[test]
    fn a_container_is_watched_for_a_time_or_works_on_a_command() {
        let record = ["shice", "record", "--env", "a", "--workload", "serve", "--container", "c"];
        let parse = |more: &[&'static str]| Cli::try_parse_from(record.iter().chain(more));
        assert!(parse(&[]).is_ok() && parse(&["--duration", "60s"]).is_ok() && parse(&["--", "docker"]).is_ok());
        assert!(parse(&["--duration", "60s", "--", "docker"]).is_err());
        assert!(Cli::try_parse_from(["shice", "record", "--env", "a", "--duration", "1s", "idle"]).is_err());
    }

    #[test]
    fn the_address_of_a_site_is_that_of_a_folder() {
        assert_eq!(site_url("https://example.org/a"), Ok("https://example.org/a/".to_owned()));
        assert_eq!(site_url("http://localhost:8000/"), Ok("http://localhost:8000/".to_owned()));
        for text in ["example.org", "https://", "https:///a", "javascript:x", "https://a.b/?x", "https://a.b/\"x"] {
            assert!(site_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_that_stands_alone_has_no_traces_beside_it() {
        let parse =
            |more: &[&'static str]| Cli::try_parse_from(["shice", "render", "--single-file"].iter().chain(more));
        assert!(parse(&["--open"]).is_ok());
        assert!(parse(&["--with-traces"]).is_err() && parse(&["--site-url", "https://a.b"]).is_err());
    }

    #[test]
    fn a_setting_or_sweep_without_a_value_is_refused() {
        for text in ["threads", "=2", "Threads=2", "threads=", "--threads=2"] {
            assert!(setting(text).is_err() && sweep(text).is_err(), "{text}");
        }
        assert!(sweep("threads=1,,2").is_err());
        assert_eq!(sweep("threads=1,2").unwrap().1, ["1", "2"]);
    }
}
