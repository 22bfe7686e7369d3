//! Advice by scenario: each line is a rule over measured values, with the concrete setting that they favour.

mod rules;

use super::devices::Pair;
use super::sweeps::{Sweep, is_out_of_memory, meaning};
use crate::aggregate::compare::Ratio;
use crate::aggregate::metric::Unit;
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary, Lack};
use crate::report::findings::{self, Evidence};
use rules::RULES;
pub(super) use rules::greatest;

/// The workload that stands for models that fill a GPU, whatever size of it was run.
const LARGE: &str = "llama2-finetune";

/// What a reader may have in mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Checking that code works, without a GPU.
    Laptop,
    /// Training a model that fits well.
    SingleGpu,
    /// Trying a model that may not.
    Large,
}

impl Scenario {
    pub(crate) const ALL: [Self; 3] = [Self::Laptop, Self::SingleGpu, Self::Large];

    /// Name in phrases.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Laptop => "laptop",
            Self::SingleGpu => "single_gpu",
            Self::Large => "large",
        }
    }

    /// Settings that advice on it would name, were they measured.
    fn wanted(self) -> &'static [&'static str] {
        match self {
            Self::Laptop => &["threads", "workers", "batch-size"],
            Self::SingleGpu => &["batch-size", "workers", "precision"],
            Self::Large => &["batch-size", "accumulate", "offload", "precision"],
        }
    }

    pub(crate) fn of(case: &CaseSummary) -> Self {
        match () {
            () if case.workload == LARGE => Self::Large,
            () if case.uses_gpu() => Self::SingleGpu,
            () => Self::Laptop,
        }
    }
}

/// What rules look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) summary: &'a EnvironmentSummary,
    pub(crate) sweeps: &'a [Sweep<'a>],
    pub(crate) pairs: &'a [Pair<'a>],
}

impl<'a> Ground<'a> {
    /// Cases of a scenario with a result: they finished, or memory did not suffice.
    pub(super) fn cases(&self, scenario: Scenario) -> impl Iterator<Item = &'a CaseSummary> + use<'a> {
        let has_result = |case: &&CaseSummary| case.finished() > 0 || is_out_of_memory(case);
        let cases = self.summary.cases.iter().filter(|case| case.workload != super::IDLE);
        cases.filter(has_result).filter(move |case| Scenario::of(case) == scenario)
    }

    /// Sweeps of a scenario, with their numbers.
    fn sweeps(&self, scenario: Scenario) -> impl Iterator<Item = (usize, &'a Sweep<'a>)> + use<'a> {
        let is_of = move |sweep: &Sweep<'_>| sweep.links.iter().any(|link| Scenario::of(link.case) == scenario);
        self.sweeps.iter().enumerate().filter(move |(_, sweep)| is_of(sweep))
    }

    fn has_swept(&self, scenario: Scenario, key: &str) -> bool {
        self.sweeps(scenario).any(|(_, sweep)| meaning(sweep.key) == key)
    }

    /// The evidence of a finding that a case has earned.
    fn found(&self, case: &CaseSummary, name: &str) -> Option<Evidence> {
        let all = findings::of_case(self.summary, case);
        all.into_iter().find(|finding| finding.rule.name == name).map(|finding| finding.evidence)
    }
}

/// What a phrase is filled with.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// Code, or a value of a setting.
    Code(String),
    /// Several of them.
    List(Vec<String>),
    Text(String),
    Of(Unit, f64),
    Times(Ratio),
    /// By its name.
    Case(&'a CaseSummary),
    Lack(Option<&'a Lack>),
}

/// What a line rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cite<'a> {
    Case(&'a CaseSummary),
    /// By its number among all.
    Sweep(usize),
}

/// A line of advice.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    /// Phrase `advice.<name>`.
    pub(crate) name: &'static str,
    pub(crate) values: Vec<(&'static str, Value<'a>)>,
    pub(crate) cites: Vec<Cite<'a>>,
}

impl<'a> Line<'a> {
    /// One that rests on what stands in many places.
    pub(super) fn plain(name: &'static str, values: Vec<(&'static str, Value<'a>)>) -> Self {
        Self { name, values, cites: Vec::new() }
    }

    pub(super) fn new(name: &'static str, cite: Cite<'a>, values: Vec<(&'static str, Value<'a>)>) -> Self {
        Self { name, values, cites: vec![cite] }
    }

    /// The setting that measurements favour, where it names one: neither what was merely enough, nor what is still to be
    /// tried, nor the limit of memory.
    pub(crate) fn favoured(&self) -> Option<&str> {
        const OTHERS: [&str; 5] = ["laptop.busy", "swept.few", "swept.limit", "workers.enough", "workers.more"];
        self.code().filter(|_| !OTHERS.contains(&self.name))
    }

    /// The concrete setting, where it names one.
    pub(crate) fn code(&self) -> Option<&str> {
        self.values.iter().find_map(|(name, value)| match value {
            Value::Code(code) if *name == "code" => Some(code.as_str()),
            _ => None,
        })
    }
}

/// A rule of advice, in the order in which lines stand.
pub(crate) struct Rule {
    scenarios: &'static [Scenario],
    earned: for<'a> fn(&Ground<'a>, Scenario) -> Vec<Line<'a>>,
}

/// Advice on a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Advice<'a> {
    pub(crate) scenario: Scenario,
    /// Empty where nothing of the scenario was measured.
    pub(crate) lines: Vec<Line<'a>>,
    /// Whether anything of the scenario was measured.
    pub(crate) is_measured: bool,
    /// Settings that were not tried.
    pub(crate) missing: Vec<&'static str>,
}

/// Advice on every scenario.
pub(crate) fn advice<'a>(ground: &Ground<'a>) -> Vec<Advice<'a>> {
    let of = |scenario: Scenario| {
        let rules = RULES.iter().filter(|rule| rule.scenarios.contains(&scenario));
        Advice {
            scenario,
            lines: rules.flat_map(|rule| (rule.earned)(ground, scenario)).collect(),
            is_measured: ground.cases(scenario).next().is_some(),
            missing: scenario.wanted().iter().copied().filter(|key| !ground.has_swept(scenario, key)).collect(),
        }
    };
    Scenario::ALL.into_iter().map(of).collect()
}

/// A value of a setting as one writes it in a training script.
pub(crate) fn code(key: &str, value: &str, on_gpu: bool) -> String {
    let device = if on_gpu { "cuda" } else { "cpu" };
    match (meaning(key).as_str(), value) {
        ("threads", threads) => format!("torch.set_num_threads({threads})"),
        ("workers", workers) => format!("num_workers={workers}"),
        ("batch-size", size) => format!("batch_size={size}"),
        ("precision", "bf16") => format!("torch.autocast(\"{device}\", dtype=torch.bfloat16)"),
        ("precision", "fp16") => format!("torch.autocast(\"{device}\", dtype=torch.float16)"),
        ("precision", "tf32") => "torch.backends.cuda.matmul.allow_tf32 = True".to_owned(),
        (_, value) => format!("{key}={value}"),
    }
}

#[cfg(test)]
mod tests;
