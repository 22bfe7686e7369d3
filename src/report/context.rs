//! What all parts of a report are written with: the summary, the words, and the wholes that percentages refer to.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Beside;
use super::words::Words;
use super::{escape, format};
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CaseSummary, CommonLimits, EnvironmentSummary, MetricSummary};

/// Shared by the builders of one report.
#[derive(Clone, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) summary: &'a EnvironmentSummary,
    pub(crate) words: Words,
    /// What it may lead to.
    pub(crate) beside: Option<&'a Beside>,
}

/// The wholes that labels name.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Wholes {
    /// Cores' worth of CPU time that the run may use; empty where that is not known, or not the same in all runs.
    pub(crate) limit: String,
    /// Cores of the host; likewise.
    pub(crate) online: String,
}

impl Wholes {
    pub(crate) fn of(limits: &CommonLimits) -> Self {
        Self {
            limit: limits.cpu_cores.map(format::plain).unwrap_or_default(),
            online: limits.cores_online.map(|cores| cores.to_string()).unwrap_or_default(),
        }
    }
}

impl Context<'_> {
    /// Name of a metric with the whole that its percentages refer to.
    pub(crate) fn label(&self, metric: Metric) -> Result<String> {
        self.words.fill(&format!("metric.{}", metric.key()), &Wholes::of(&self.summary.limits))
    }

    /// A case as a reader wants it named, as plain text: its workload, and what was asked for in words where there are any.
    pub(crate) fn case_title(&self, case: &CaseSummary) -> Result<String> {
        self.title(&case.workload, &case.settings)
    }

    /// The same of a workload and settings that need not be all of a case's.
    pub(crate) fn title(&self, workload: &str, settings: &BTreeMap<String, String>) -> Result<String> {
        self.title_of(workload, settings.iter())
    }

    /// The same without the settings that are common to all of some cases.
    pub(crate) fn case_title_among(&self, case: &CaseSummary, cases: &[&CaseSummary]) -> Result<String> {
        let common = |key, value| cases.iter().all(|case| case.settings.get(key) == Some(value));
        self.title_of(&case.workload, case.settings.iter().filter(|(key, value)| !common(*key, *value)))
    }

    /// Settings in words, as a list.
    pub(crate) fn settings<'s>(&self, settings: impl Iterator<Item = (&'s String, &'s String)>) -> Result<String> {
        let told = |(key, value): (&String, &String)| match self.words.find(&format!("setting.{key}.{value}")) {
            Some(words) => words.to_owned(),
            None if key == "device" => value.clone(),
            None => format!("{key}={value}"),
        };
        Ok(settings.map(told).collect::<Vec<_>>().join(self.words.get("comma")?))
    }

    /// A workload with some settings, named in the same way.
    pub(crate) fn title_of<'s>(
        &self,
        workload: &str,
        settings: impl Iterator<Item = (&'s String, &'s String)>,
    ) -> Result<String> {
        #[derive(Serialize)]
        struct Title<'a> {
            workload: &'a str,
            settings: String,
        }
        let title = Title { workload, settings: self.settings(settings)? };
        self.words.fill("case_title", &title)
    }

    /// Mean of a metric as text.
    pub(crate) fn mean(&self, figure: &MetricSummary) -> String {
        format::value(figure.metric.unit(), figure.mean)
    }

    /// Mean of a metric with the range of its runs, where they differ.
    pub(crate) fn mean_and_range(&self, figure: &MetricSummary) -> Result<String> {
        #[derive(Serialize)]
        struct Figure {
            mean: String,
            range: String,
        }
        if figure.n < 2 || figure.min == figure.max {
            return Ok(self.mean(figure));
        }
        let (mean, range) = (self.mean(figure), self.range(figure)?);
        // Runs that differ by less than is shown.
        if mean == range { Ok(mean) } else { self.words.fill("mean_and_range", &Figure { mean, range }) }
    }

    /// Least to greatest run; of one run, that there is no spread.
    pub(crate) fn range(&self, figure: &MetricSummary) -> Result<String> {
        if figure.n < 2 {
            return Ok(self.words.get("no_spread")?.to_owned());
        }
        Ok(format::Scale::of(figure.metric.unit(), figure.mean).range(figure.min, figure.max))
    }

    /// A value of the fingerprint, for a table cell.
    pub(crate) fn component(&self, key: &str, value: &Value) -> Result<String> {
        Ok(match value {
            Value::Null => format::ABSENT.to_owned(),
            Value::Bool(yes) => self.words.get(if *yes { "yes" } else { "no" })?.to_owned(),
            Value::Number(number) if key.ends_with("_bytes") => {
                number.as_i64().map_or_else(|| number.to_string(), format::bytes)
            }
            Value::Number(number) if key.ends_with("_mw") => {
                number.as_f64().map_or_else(|| number.to_string(), format::milliwatts)
            }
            Value::Number(number) => number.to_string(),
            Value::String(text) => escape::text(text),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.component(key, item)).collect::<Result<Vec<_>>>()?;
                self.words.list(&items)?
            }
            Value::Object(fields) => self.parts(key, fields)?,
        })
    }

    /// What a component is made of, its name first: `component.<key>.<part>` says how a part is named.
    fn parts(&self, key: &str, fields: &Map<String, Value>) -> Result<String> {
        #[derive(Serialize)]
        struct Part {
            value: String,
        }
        let (name, others): (Vec<_>, Vec<_>) = fields.iter().partition(|(field, _)| *field == "name");
        let mut parts = Vec::new();
        for (field, value) in name.into_iter().chain(others) {
            let key = format!("{key}.{field}");
            let part = Part { value: self.component(&key, value)? };
            parts.push(match self.words.find(&format!("component.{key}")) {
                Some(_) => self.words.fill(&format!("component.{key}"), &part)?,
                None => format!("{} {}", escape::code_cell(field), part.value),
            });
        }
        Ok(parts.join(self.words.get("comma")?))
    }

    /// `key=value` pairs as inline code, for a table cell.
    pub(crate) fn pairs<'p>(&self, pairs: impl IntoIterator<Item = (&'p String, &'p String)>) -> Result<String> {
        let pairs: Vec<String> =
            pairs.into_iter().map(|(key, value)| escape::code_cell(&format!("{key}={value}"))).collect();
        if pairs.is_empty() { Ok(format::ABSENT.to_owned()) } else { self.words.list(&pairs) }
    }
}
