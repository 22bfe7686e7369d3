//! What a setting was worth: cases that differ in nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::{IDLE, excludes_one, speed};
use crate::aggregate::compare::Ratio;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, EnvironmentSummary};
use crate::trace::run::Outcome;

/// Settings that say what is done, where it is done, or nothing that one could choose: no value of theirs is the better one.
const NO_CHOICE: [&str; 12] = [
    "data",
    "device",
    "epochs",
    "model",
    "quick",
    "seconds",
    "seed",
    "sequence-length",
    "steps",
    "text",
    "tokenizer",
    "weights",
];

/// A gain below this is not worth a setting: runs of one case on a quiet machine differ by about as much.
pub(crate) const WORTHWHILE: f64 = 1.03;

/// What tells how fast a case is: the first that all cases have.
const SPEEDS: [Metric; 3] = [Metric::Throughput, Metric::ShownThroughput, Metric::Duration];

/// A value of the setting, and the case that had it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link<'a> {
    pub(crate) value: &'a str,
    /// It was not asked for: the workload chose it.
    pub(crate) is_default: bool,
    pub(crate) case: &'a CaseSummary,
}

impl Link<'_> {
    /// No run finished, and at least one ran out of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        is_out_of_memory(self.case)
    }
}

/// No run finished, and at least one ran out of memory: that is the result of the case.
pub(crate) fn is_out_of_memory(case: &CaseSummary) -> bool {
    let met = |outcome| matches!(outcome, Outcome::OutOfMemory { .. });
    case.finished() == 0 && case.runs.iter().any(|run| met(run.outcome))
}

/// Cases that differ in one setting only.
#[derive(Clone, Debug)]
pub(crate) struct Sweep<'a> {
    pub(crate) workload: &'a str,
    pub(crate) key: &'a str,
    /// What they have in common.
    pub(crate) others: BTreeMap<String, String>,
    /// From the least value to the greatest, where they are numbers; else in the order of recording. At least two.
    pub(crate) links: Vec<Link<'a>>,
    /// Absent where fewer than two values have a speed.
    pub(crate) verdict: Option<Verdict<'a>>,
    /// Of other sweeps of the same setting, beside other values of the other settings: how many have a fastest value, and
    /// of these, how many the same one.
    pub(crate) elsewhere: usize,
    pub(crate) agreeing: usize,
}

/// Which value is the fastest, and by how much.
#[derive(Clone, Debug)]
pub(crate) struct Verdict<'a> {
    pub(crate) metric: Metric,
    pub(crate) best: Link<'a>,
    pub(crate) next: Link<'a>,
    pub(crate) worst: Link<'a>,
    /// How many times as fast the best is.
    pub(crate) over_next: Ratio,
    pub(crate) over_worst: Ratio,
    /// Values that cannot be told from the best, or that are hardly slower; without the best.
    pub(crate) ties: Vec<Link<'a>>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One value is faster than all others.
    Clear,
    /// Some are faster than others, but no single one is the fastest.
    Close,
    /// No value is worthwhile more than another.
    Noise,
    /// Too few runs for an interval.
    Few,
}

impl Kind {
    /// Ending of the phrases for it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Close => "close",
            Self::Noise => "noise",
            Self::Few => "few",
        }
    }
}

/// The setting that a key means: people write `num_workers` for what the shipped workloads call `workers`.
pub(crate) fn meaning(key: &str) -> String {
    let key = key.replace('_', "-").to_lowercase();
    let (before, alone) = key.split_once('-').unwrap_or(("", &key));
    if ["num", "n"].contains(&before) { alone.to_owned() } else { key }
}

impl<'a> Sweep<'a> {
    /// The value that the measurements favour: the fastest, or the least of those that cannot be told from it. None with
    /// too few runs.
    pub(crate) fn favoured(&self) -> Option<Link<'a>> {
        let verdict = self.verdict.as_ref().filter(|verdict| verdict.kind != Kind::Few)?;
        let is_good = |link: &&Link<'_>| {
            let same = |other: &Link<'_>| other.case.slug == link.case.slug;
            same(&verdict.best) || verdict.ties.iter().any(same)
        };
        self.links.iter().find(is_good).copied()
    }

    /// The greatest value that finished, and the least that ran out of memory, where numbers tell which is which.
    pub(crate) fn limit(&self) -> Option<(Link<'a>, Link<'a>)> {
        let breaking = self.links.iter().position(Link::is_out_of_memory)?;
        let (fitting, broken) = self.links.split_at(breaking);
        let numbers = self.links.iter().all(|link| link.value.parse::<f64>().is_ok());
        let last = fitting.last().filter(|link| numbers && link.case.finished() > 0)?;
        Some((*last, *broken.first()?))
    }

    pub(crate) fn device(&self) -> Option<&str> {
        self.others.get("device").map(String::as_str)
    }

    /// Whether its cases ran on a GPU.
    pub(crate) fn is_on_gpu(&self) -> bool {
        self.links.iter().any(|link| link.case.uses_gpu())
    }
}

/// One sweep a workload, device and setting: of several beside different other settings the one that holds the fastest
/// case, as a reader wants the best of all.
pub(crate) fn sweeps(summary: &EnvironmentSummary) -> Vec<Sweep<'_>> {
    let mut chosen: Vec<Sweep<'_>> = Vec::new();
    for sweep in all(summary) {
        let quick = |sweep: &Sweep<'_>| sweep.others.get("quick").cloned();
        let alike = chosen.iter_mut().find(|other| {
            (other.workload, other.key, other.device()) == (sweep.workload, sweep.key, sweep.device())
                && quick(other) == quick(&sweep)
        });
        match alike {
            None => chosen.push(sweep),
            Some(other) if is_faster(&sweep, other) => *other = sweep,
            Some(_) => {}
        }
    }
    let everything = all(summary);
    for sweep in &mut chosen {
        count_agreement(sweep, &everything);
    }
    chosen
}

fn is_faster(sweep: &Sweep<'_>, than: &Sweep<'_>) -> bool {
    match (&sweep.verdict, &than.verdict) {
        (Some(sweep), Some(than)) if sweep.metric == than.metric => {
            speed(sweep.metric, sweep.best.case, than.best.case).is_some_and(|ratio| ratio.ratio > 1.0)
        }
        (sweep, than) => sweep.is_some() && than.is_none(),
    }
}

fn count_agreement(sweep: &mut Sweep<'_>, everything: &[Sweep<'_>]) {
    let Some(best) = sweep.verdict.as_ref().map(|verdict| verdict.best.value) else { return };
    let of_same = everything.iter().filter(|other| {
        (other.workload, other.key, other.device()) == (sweep.workload, sweep.key, sweep.device())
            && other.others.get("quick") == sweep.others.get("quick")
            && other.others != sweep.others
    });
    let verdicts: Vec<&Verdict<'_>> = of_same.filter_map(|other| other.verdict.as_ref()).collect();
    let agrees =
        |verdict: &&&Verdict<'_>| verdict.best.value == best || verdict.ties.iter().any(|tie| tie.value == best);
    (sweep.elsewhere, sweep.agreeing) = (verdicts.len(), verdicts.iter().filter(agrees).count());
}

/// Every sweep, in the order of recording.
fn all(summary: &EnvironmentSummary) -> Vec<Sweep<'_>> {
    let cases: Vec<&CaseSummary> = summary.cases.iter().filter(|case| case.workload != IDLE).collect();
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for first in &cases {
        let workload = first.workload.as_str();
        let of_workload: Vec<_> = cases.iter().copied().filter(|case| case.workload == workload).collect();
        let keys: BTreeSet<&str> =
            of_workload.iter().flat_map(|case| case.settings.keys()).map(String::as_str).collect();
        for key in keys.into_iter().filter(|key| !NO_CHOICE.contains(&meaning(key).as_str())) {
            let others = without(first, key);
            if seen.insert((workload, key, others.clone())) {
                let alike = of_workload.iter().copied().filter(|case| without(case, key) == others);
                let links = links(key, alike);
                found.extend(sweep(workload, key, others.clone(), links));
            }
        }
    }
    found
}

fn without(case: &CaseSummary, key: &str) -> BTreeMap<String, String> {
    let mut settings = case.settings.clone();
    settings.remove(key);
    settings
}

/// Cases that finished, or ran out of memory, with their values.
fn links<'a>(key: &'a str, cases: impl Iterator<Item = &'a CaseSummary>) -> Vec<Link<'a>> {
    let link = |case: &'a CaseSummary| {
        let asked = case.settings.get(key);
        let value = asked.or(case.effective.get(&key.replace('-', "_")))?;
        let has_result = case.finished() > 0 || is_out_of_memory(case);
        has_result.then_some(Link { value, is_default: asked.is_none(), case })
    };
    let mut links: Vec<Link<'a>> = cases.filter_map(link).collect();
    let number = |link: &Link<'_>| link.value.parse::<f64>().ok();
    if links.iter().all(|link| number(link).is_some()) {
        links.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    links
}

fn sweep<'a>(
    workload: &'a str,
    key: &'a str,
    others: BTreeMap<String, String>,
    links: Vec<Link<'a>>,
) -> Option<Sweep<'a>> {
    let values: BTreeSet<&str> = links.iter().map(|link| link.value).collect();
    if values.len() < 2 || links.iter().all(|link| link.case.finished() == 0) {
        return None;
    }
    let verdict = verdict(&links);
    Some(Sweep { workload, key, others, links, verdict, elsewhere: 0, agreeing: 0 })
}

fn verdict<'a>(links: &[Link<'a>]) -> Option<Verdict<'a>> {
    let finished: Vec<Link<'a>> = links.iter().copied().filter(|link| link.case.finished() > 0).collect();
    let everywhere = |metric: &&Metric| finished.iter().all(|link| link.case.metric(**metric).is_some());
    let metric = *SPEEDS.iter().find(everywhere)?;
    let first = finished.first()?;
    let mut ranked: Vec<(f64, Link<'a>)> = Vec::new();
    for link in &finished {
        ranked.push((speed(metric, link.case, first.case)?.ratio, *link));
    }
    // Stable: of equals the first stays first.
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let [(_, best), (_, next), ..] = ranked.as_slice() else { return None };
    let (_, worst) = ranked.last()?;
    let over = |link: &Link<'a>| speed(metric, best.case, link.case);
    let ties =
        ranked.iter().skip(1).map(|(_, link)| *link).filter(|link| over(link).is_some_and(|ratio| is_tie(&ratio)));
    let ties: Vec<Link<'a>> = ties.collect();
    let kind = match ties.len() {
        _ if ranked.iter().skip(1).any(|(_, link)| over(link).is_none_or(|ratio| ratio.ci95().is_none())) => Kind::Few,
        0 => Kind::Clear,
        tied if tied + 1 == ranked.len() => Kind::Noise,
        _ => Kind::Close,
    };
    let (over_next, over_worst) = (over(next)?, over(worst)?);
    Some(Verdict { metric, best: *best, next: *next, worst: *worst, over_next, over_worst, ties, kind })
}

/// Whether what is compared cannot be told apart, or differs too little to matter.
fn is_tie(best_over_other: &Ratio) -> bool {
    best_over_other.ratio < WORTHWHILE || best_over_other.ci95().is_some_and(|interval| !excludes_one(interval))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn of<'s>(sweeps: &'s [Sweep<'s>], key: &str, device: &str) -> &'s Sweep<'s> {
        sweeps.iter().find(|sweep| sweep.key == key && sweep.device() == Some(device)).unwrap()
    }

    fn values<'s>(sweep: &'s Sweep<'s>) -> Vec<&'s str> {
        sweep.links.iter().map(|link| link.value).collect()
    }

    #[test]
    fn cases_that_differ_in_one_setting_form_a_sweep_and_defaults_belong_to_it() {
        let summary = fixture::both_devices();
        let sweeps = sweeps(&summary);
        let keys: BTreeSet<_> = sweeps.iter().map(|sweep| (sweep.device().unwrap(), sweep.key)).collect();
        let right = [("cpu", "threads"), ("cuda:0", "batch-size"), ("cuda:0", "precision"), ("cuda:0", "workers")];
        assert_eq!(keys, right.into());
        let batch = of(&sweeps, "batch-size", "cuda:0");
        assert_eq!(values(batch), ["32", "64", "128", "256", "512"]);
        assert_eq!(batch.links.iter().position(|link| link.is_default), Some(1));
        let (fits, breaks) = batch.limit().unwrap();
        assert_eq!((fits.value, breaks.value), ("256", "512"));
    }

    #[test]
    fn the_fastest_value_is_told_apart_from_noise() {
        let summary = fixture::both_devices();
        let sweeps = sweeps(&summary);
        let verdict = |key: &str, device: &str| {
            let sweep = of(&sweeps, key, device);
            let verdict = sweep.verdict.as_ref().unwrap();
            (verdict.kind, verdict.best.value, sweep.favoured().unwrap().value)
        };
        // 1210 and 1190 samples a second are less than 3 % apart; the smaller batch needs less memory.
        assert_eq!(verdict("batch-size", "cuda:0"), (Kind::Close, "256", "128"));
        assert_eq!(verdict("workers", "cuda:0"), (Kind::Noise, "4", "0"));
        assert_eq!(verdict("precision", "cuda:0"), (Kind::Clear, "bf16", "bf16"));
        assert_eq!(verdict("threads", "cpu").1, "8");
    }

    #[test]
    fn settings_are_known_by_other_spellings_too() {
        for (key, setting) in
            [("num_workers", "workers"), ("batch_size", "batch-size"), ("lr", "lr"), ("N_threads", "threads")]
        {
            assert_eq!(meaning(key), setting);
        }
    }

    #[test]
    fn few_runs_favour_nothing() {
        let mut summary = fixture::both_devices();
        summary.cases.iter_mut().for_each(|case| case.runs.truncate(2));
        let sweeps = sweeps(&summary);
        let workers = of(&sweeps, "workers", "cuda:0");
        assert_eq!(workers.verdict.as_ref().unwrap().kind, Kind::Few);
        assert!(workers.favoured().is_none());
    }

    #[test]
    fn of_many_combinations_the_one_with_the_fastest_case_stands_and_the_others_are_counted() {
        let mut summary = fixture::both_devices();
        let mut more = Vec::new();
        for case in summary.cases.iter().filter(|case| case.settings.contains_key("batch-size")) {
            let mut twin = case.clone();
            twin.settings.insert("workers".to_owned(), "4".to_owned());
            twin.slug += "-4";
            twin.runs.iter_mut().for_each(|run| {
                run.values.entry(Metric::Throughput).and_modify(|rate| *rate *= 1.5);
            });
            more.push(twin);
        }
        summary.cases.extend(more);
        let sweeps = sweeps(&summary);
        let batch = of(&sweeps, "batch-size", "cuda:0");
        assert_eq!(batch.others.get("workers").map(String::as_str), Some("4"));
        assert_eq!((batch.elsewhere, batch.agreeing), (1, 1));
    }

    #[test]
    fn what_is_trained_is_no_setting_to_choose() {
        let mut summary = fixture::both_devices();
        for (case, epochs) in summary.cases.iter_mut().zip(1..) {
            case.settings.insert("epochs".to_owned(), epochs.to_string());
        }
        assert!(sweeps(&summary).is_empty());
    }
}
