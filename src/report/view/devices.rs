//! The same work on the GPU and on the CPU, in words.

use anyhow::Result;
use serde::Serialize;

use super::levels::Table;
use super::ratio::{self, Times};
use crate::aggregate::compare::Ratio;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::CaseSummary;
use crate::report::across::Standing;
use crate::report::across::devices::{self, Pair};
use crate::report::context::Context;
use crate::report::escape;
use crate::report::format::ABSENT;

/// A case against the same on the other device.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Against {
    /// The other case.
    other: String,
    sentence: String,
    /// Metric by metric; only on the CPU's side, so that it stands once.
    table: Option<Table>,
}

/// Variables of the phrases `devices.*`.
#[derive(Serialize)]
struct Words {
    ratio: Times,
    /// Of the steady state; absent where no rate was measured.
    steady: Option<Times>,
    /// Settings that differ besides the device; empty where none does.
    differing: String,
}

/// All comparisons of a case with the other device.
pub(super) fn of_case(context: &Context<'_>, case: &CaseSummary) -> Result<Vec<Against>> {
    let mut all = Vec::new();
    let on_cpu = !case.uses_gpu();
    for pair in devices::pairs_of(context.summary, case) {
        let table = if on_cpu { Some(table(context, &pair)?) } else { None };
        let other = escape::text(&context.case_title(if on_cpu { pair.gpu } else { pair.cpu })?);
        all.extend(sentence(context, &pair)?.map(|sentence| Against { other, sentence, table }));
    }
    Ok(all)
}

/// How many times as long the CPU took, or the GPU where that is the other way round.
pub(super) fn sentence(context: &Context<'_>, pair: &Pair<'_>) -> Result<Option<String>> {
    let Some(whole) = pair.whole() else { return Ok(None) };
    let standing = Standing::of(whole);
    let turned = |speed: Ratio| if standing == Standing::Slower { speed.inverse() } else { speed };
    let steady = pair.steady().map(|(_, speed)| Times::of(context, &turned(*speed)));
    let differing = pair.differing.iter().map(|(key, on_gpu, on_cpu)| {
        #[derive(Serialize)]
        struct Differing {
            key: String,
            gpu: String,
            cpu: String,
        }
        let [key, gpu, cpu] = [*key, *on_gpu, *on_cpu].map(escape::code_cell);
        context.words.fill("devices.differing", &Differing { key, gpu, cpu })
    });
    let words = Words {
        ratio: Times::of(context, &turned(*whole))?,
        steady: steady.transpose()?,
        differing: differing.collect::<Result<Vec<_>>>()?.join(context.words.get("semicolon")?),
    };
    context.words.fill(&format!("devices.{}", standing.key()), &words).map(Some)
}

fn table(context: &Context<'_>, pair: &Pair<'_>) -> Result<Table> {
    const KEYS: [&str; 5] = ["devices.metric", "devices.gpu", "devices.cpu", "devices.ratio", "devices.interval"];
    let header = KEYS.iter().map(|key| context.words.get(key).map(str::to_owned)).collect::<Result<_>>()?;
    let cell = |case: &CaseSummary, metric: Metric| {
        case.metric(metric).map_or_else(|| Ok(ABSENT.to_owned()), |figure| context.mean_and_range(figure))
    };
    let row = |(metric, speed): &(Metric, Ratio)| {
        Ok(vec![
            context.label(*metric)?,
            cell(pair.gpu, *metric)?,
            cell(pair.cpu, *metric)?,
            ratio::times(speed),
            ratio::interval(speed).unwrap_or_else(|| ABSENT.to_owned()),
        ])
    };
    Ok(Table { header, rows: pair.speeds.iter().map(row).collect::<Result<_>>()? })
}
