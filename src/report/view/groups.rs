//! Tables of metrics, divided by what they tell of.

use anyhow::Result;
use serde::Serialize;

use crate::aggregate::metric::Metric;
use crate::report::context::Context;

/// The first metric of each group, in the order of [`Metric::ALL`], and the group's phrase `group.<name>`.
const GROUPS: [(Metric, &str); 5] = [
    (Metric::Duration, "time"),
    (Metric::CpuTime, "cpu"),
    (Metric::MemorySumOfPeaks, "memory"),
    (Metric::Processes, "activity"),
    (Metric::GpuUtilisation, "gpu"),
];

/// Rows that belong together.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Group<T> {
    title: String,
    rows: Vec<T>,
}

/// Divides what is in the order of [`Metric::ALL`]; groups without rows are left out.
pub(super) fn of<I, T>(
    context: &Context<'_>,
    items: &[I],
    metric: impl Fn(&I) -> Metric,
    row: impl Fn(&I) -> Result<T>,
) -> Result<Vec<Group<T>>> {
    let divided = items.chunk_by(|a, b| name(metric(a)) == name(metric(b)));
    let group = |items: &[I]| -> Result<Group<T>> {
        let name = items.first().map_or("", |first| name(metric(first)));
        let title = context.words.get(&format!("group.{name}"))?.to_owned();
        Ok(Group { title, rows: items.iter().map(&row).collect::<Result<_>>()? })
    };
    divided.map(group).collect()
}

fn name(metric: Metric) -> &'static str {
    GROUPS.iter().rev().find(|(first, _)| *first <= metric).map_or("", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_in_the_group_that_its_name_says() {
        for metric in Metric::ALL {
            let key = metric.key();
            let expected = match name(*metric) {
                "gpu" => key.starts_with("gpu_"),
                "memory" => {
                    ["memory", "virtual", "swap"].iter().any(|part| key.contains(part)) && !key.starts_with("gpu")
                }
                "cpu" => {
                    ["cpu", "io_wait", "io_pressure", "steal", "foreign", "cores"].iter().any(|part| key.contains(part))
                }
                "time" => ["time", "duration", "throughput", "rate", "data_wait", "step"]
                    .iter()
                    .any(|part| key.contains(part)),
                _ => ["processes", "threads", "open_files", "disk"].iter().any(|part| key.contains(part)),
            };
            assert!(expected, "{key} is in the group {:?}", name(*metric));
        }
    }
}
