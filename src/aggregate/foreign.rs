//! What else ran: programs that are neither of the run nor the recorder.

use std::collections::BTreeMap;

use anyhow::Result;
use polars::prelude::*;

use super::figures::Figures;
use super::metric::Metric;
use super::summary::ForeignProgram;
use crate::trace::RunRecord;

/// Programs that a summary names at most.
const MOST: usize = 8;

/// Sums up the `foreign` table: the greatest number of processes as a metric, and what each program used.
///
/// # Errors
/// The table cannot be read.
pub(super) fn programs(table: LazyFrame, record: &RunRecord, figures: &mut Figures) -> Result<()> {
    // A row for each process is left, however long the run was.
    let greatest = |name: &str| col(name).max();
    let columns = [col("name").drop_nulls().first(), greatest("cpu_ns"), greatest("processes")];
    let frame = table.clone().group_by([col("foreign")]).agg(columns).collect()?;
    let integers = |name: &str| -> PolarsResult<Int64Chunked> { Ok(frame.column(name)?.i64()?.clone()) };
    let (numbers, cpu, processes) = (integers("foreign")?, integers("cpu_ns")?, integers("processes")?);
    let names = frame.column("name")?.str()?;
    let duration_ns = record.duration_ns.filter(|duration| *duration > 0);
    let mut found: BTreeMap<String, ForeignProgram> = BTreeMap::new();
    for row in 0..frame.height() {
        let Some(name) = names.get(row) else {
            // The row of all together has no name.
            if numbers.get(row) == Some(0) {
                figures.set(Metric::ForeignProcesses, processes.get(row).map(|processes| processes as f64));
            }
            continue;
        };
        // Several processes of one name are one program here.
        let program = found.entry(name.to_owned()).or_insert_with(|| ForeignProgram::new(name));
        let cores = cpu.get(row).zip(duration_ns).map(|(cpu, duration)| cpu as f64 / duration as f64);
        program.cores += cores.unwrap_or(0.0);
    }
    for (name, bytes) in memory(table)? {
        if let Some(program) = found.get_mut(&name) {
            program.memory_bytes = bytes as f64;
        }
    }
    figures.foreign = heaviest(found.into_values().collect());
    Ok(())
}

/// The most memory that processes of one name held together at one look: those that did not live at the same time never
/// held both their peaks.
fn memory(table: LazyFrame) -> Result<Vec<(String, i64)>> {
    // A process that becomes another program stays under its first name, as with its CPU time.
    let named = table.with_column(col("name").drop_nulls().first().over([col("foreign")])?);
    let at_each_look = named.filter(col("name").is_not_null()).group_by([col("name"), col("t_ns")]);
    let together = at_each_look.agg([col("rss_bytes").sum()]);
    let frame = together.group_by([col("name")]).agg([col("rss_bytes").max()]).collect()?;
    let (names, bytes) = (frame.column("name")?.str()?.clone(), frame.column("rss_bytes")?.i64()?.clone());
    Ok(names.iter().zip(bytes.iter()).filter_map(|(name, bytes)| Some((name?.to_owned(), bytes?))).collect())
}

/// Over the runs of a case: mean CPU use, greatest memory. A run in which a program was not told of counts as none of it.
pub(super) fn over_runs<'a>(runs: impl Iterator<Item = &'a [ForeignProgram]>) -> Vec<ForeignProgram> {
    let mut found: BTreeMap<&str, ForeignProgram> = BTreeMap::new();
    let mut number = 0;
    for programs in runs {
        number += 1;
        for program in programs {
            let sum = found.entry(&program.name).or_insert_with(|| ForeignProgram::new(&program.name));
            sum.cores += program.cores;
            sum.memory_bytes = sum.memory_bytes.max(program.memory_bytes);
        }
    }
    let mean = |program: ForeignProgram| ForeignProgram { cores: program.cores / f64::from(number), ..program };
    heaviest(found.into_values().map(mean).collect())
}

/// First those that used the most CPU time, among equals those that held the most memory.
fn heaviest(mut programs: Vec<ForeignProgram>) -> Vec<ForeignProgram> {
    programs.sort_by(|a, b| {
        b.cores.total_cmp(&a.cores).then(b.memory_bytes.total_cmp(&a.memory_bytes)).then(a.name.cmp(&b.name))
    });
    programs.truncate(MOST);
    programs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::testing::{SECOND, frame, record};
    use crate::trace::tables::Foreign;

    fn row(t_ns: i64, foreign: i64, name: &str, cpu_ns: i64, rss_bytes: i64) -> Foreign {
        Foreign {
            t_ns,
            foreign,
            name: Some(name.to_owned()),
            cpu_ns: Some(cpu_ns),
            rss_bytes: Some(rss_bytes),
            processes: Some(1),
        }
    }

    fn all(t_ns: i64, processes: i64) -> Foreign {
        Foreign { t_ns, processes: Some(processes), ..Foreign::default() }
    }

    #[test]
    fn processes_of_one_name_are_one_program_and_the_heaviest_comes_first() {
        let rows = [
            all(0, 90),
            row(0, 2, "chrome", 0, 500),
            row(5, 2, "chrome", 2 * SECOND, 400),
            row(5, 3, "chrome", SECOND, 100),
            row(5, 4, "gcc", 5 * SECOND, 10),
            all(9, 80),
        ];
        let mut figures = Figures::default();
        programs(frame(rows), &record(), &mut figures).unwrap();
        assert_eq!(figures.values[&Metric::ForeignProcesses], 90.0);
        // By hand: of 10 s, 5 s are half a core; 2 s and 1 s are three tenths.
        let told: Vec<_> =
            figures.foreign.iter().map(|program| (program.name.as_str(), program.memory_bytes)).collect();
        // At 0 s chrome held 500 bytes, at 5 s 400 and 100.
        assert_eq!(told, [("gcc", 10.0), ("chrome", 500.0)]);
        assert!((figures.foreign[0].cores - 0.5).abs() < 1e-9 && (figures.foreign[1].cores - 0.3).abs() < 1e-9);
    }

    #[test]
    fn processes_that_did_not_live_together_never_held_their_memory_together() {
        let rows = [
            row(0, 2, "cc1", 0, 300),
            row(0, 3, "cc1", 0, 200),
            row(5, 4, "cc1", 0, 450),
            row(9, 5, "cc1", 0, 400),
            row(9, 4, "collect2", 0, 110),
        ];
        let mut figures = Figures::default();
        programs(frame(rows), &record(), &mut figures).unwrap();
        // By hand: 300 + 200 at 0 s, 450 at 5 s, 400 at 9 s with 110 of what was cc1 before.
        assert_eq!((figures.foreign.len(), figures.foreign[0].memory_bytes), (1, 510.0));
    }

    #[test]
    fn over_runs_cpu_is_the_mean_of_all_runs_and_memory_the_greatest() {
        let program = |name: &str, cores, memory_bytes| ForeignProgram { name: name.into(), cores, memory_bytes };
        let runs = [vec![program("a", 0.6, 5.0)], vec![], vec![program("a", 0.3, 9.0), program("b", 0.0, 1.0)]];
        let means = over_runs(runs.iter().map(Vec::as_slice));
        assert_eq!(means.len(), 2);
        assert!((means[0].cores - 0.3).abs() < 1e-9 && means[0].memory_bytes == 9.0, "{means:?}");
        assert!(over_runs(std::iter::empty()).is_empty());
    }
}
