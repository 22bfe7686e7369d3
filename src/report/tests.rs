//! Whole reports, from summaries made by hand.

use super::fixture;
use super::*;
use crate::aggregate::metric::Metric;
use crate::aggregate::summary::{CoreUsage, Course, MetricSummary, Point, Quantity};
use crate::trace::StepSource;
use crate::trace::run::StepReading;

fn markdown(summary: &EnvironmentSummary, language: Language) -> String {
    write_environment(summary, language).unwrap().markdown
}

#[test]
fn a_chinese_report_of_a_machine_without_gpu() {
    insta::assert_snapshot!(markdown(&fixture::cpu_only(), Language::Chinese));
}

#[test]
fn an_english_report_of_a_machine_without_gpu() {
    insta::assert_snapshot!(markdown(&fixture::cpu_only(), Language::English));
}

#[test]
fn a_chinese_report_of_one_run_on_a_gpu() {
    insta::assert_snapshot!(markdown(&fixture::with_gpu(), Language::Chinese));
}

#[test]
fn an_english_report_of_one_run_on_a_gpu() {
    insta::assert_snapshot!(markdown(&fixture::with_gpu(), Language::English));
}

#[test]
fn an_environment_without_any_case_is_a_report_all_the_same() {
    let mut summary = fixture::cpu_only();
    summary.cases.clear();
    for language in Language::ALL {
        assert!(!markdown(&summary, language).is_empty());
    }
}

#[test]
fn one_run_has_no_spread_and_never_a_plus_minus_zero() {
    let english = markdown(&fixture::with_gpu(), Language::English);
    assert!(english.contains("n = 1, no spread") && !english.contains('±'), "{english}");
}

#[test]
fn hostile_names_stay_text_in_markdown() {
    for language in Language::ALL {
        let markdown = markdown(&fixture::hostile(), language);
        assert!(!markdown.contains('\u{202E}'));
        let title = markdown.lines().next().unwrap();
        assert!(title.contains(r"\<script\>") && title.contains(r"\| \`x\`") && title.contains(r"\[a\]"), "{title}");
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let table: Vec<&str> = markdown
            .lines()
            .skip_while(|line| !line.starts_with("| ---"))
            .take_while(|line| line.starts_with('|'))
            .collect();
        assert!(table.len() > 5 && table.iter().all(|row| cells(row) == 3), "{table:#?}");
    }
}

#[test]
fn figures_read_from_the_output_say_so_wherever_they_stand() {
    let mut summary = fixture::cpu_only();
    let case = &mut summary.cases[1];
    case.metrics.retain(|figure| figure.metric != Metric::Throughput);
    let shown = [Metric::ShownStepTime, Metric::ShownStepRate, Metric::ReportedThroughput];
    case.metrics.extend(shown.map(|metric| MetricSummary { metric, n: 3, mean: 8.0, min: 7.0, max: 9.0, ci95: None }));
    case.runs.iter_mut().for_each(|run| {
        run.step_source = Some(StepSource::Tqdm);
        run.reported_by = Some(StepSource::Trainer);
        run.values.insert(Metric::ShownStepRate, 8.0);
    });
    case.command = vec!["python".to_owned(), "train.py".to_owned()];
    case.set_variables.insert("PYTHONUNBUFFERED".to_owned(), "1".to_owned());
    case.step_reading = Some(StepReading::Pattern { pattern: r"it (?P<step>\d+)".to_owned() });
    for (language, right) in [
        (
            Language::English,
            [
                "step throughput as its output shows it 8.00/s",
                "| Throughput as its output shows it (steps) | 8.00/s",
                "read from its output (tqdm progress bars)",
                "comes from the Hugging Face Trainer’s log; the recorder did not measure it",
                "--step-pattern 'it (?P<step>\\d+)'",
                "PYTHONUNBUFFERED=1 python train.py",
            ],
        ),
        (
            Language::Chinese,
            [
                "步数吞吐量（读自输出）8.00/s",
                "| 吞吐量（步，读自输出） | 8.00/s",
                "读自其输出（tqdm 进度条）",
                "来自 Hugging Face Trainer 的日志，并非由记录程序测得",
                "--step-pattern 'it (?P<step>\\d+)'",
                "PYTHONUNBUFFERED=1 python train.py",
            ],
        ),
    ] {
        let markdown = markdown(&summary, language);
        for part in right {
            assert!(markdown.contains(part), "{part}: {markdown}");
        }
    }
}

#[test]
fn the_same_summary_gives_the_same_bytes() {
    let [first, second] = [(), ()].map(|()| write_environment(&fixture::cpu_only(), Language::Chinese).unwrap());
    assert_eq!(first.markdown, second.markdown);
    for (a, b) in first.charts.iter().zip(&second.charts) {
        assert_eq!(a.inline(), b.inline());
        assert_eq!(a.png().unwrap(), b.png().unwrap());
    }
}

#[test]
fn charts_of_constant_single_and_unusable_values_end() {
    let mut summary = fixture::cpu_only();
    let unusable = Point { t_s: 1.5, mean: f64::NAN, min: f64::NEG_INFINITY, max: f64::INFINITY };
    let far = Point { t_s: 1e300, mean: 1e300, min: -1e300, max: 1e300 };
    let constant = fixture::course(Quantity::RunCpu, 30, 3, |_| 0.0, 0.0);
    let single = fixture::course(Quantity::MemoryRss, 1, 1, |_| 1.0, 0.0);
    let all_unusable = Course { points: vec![unusable; 5], quantity: Quantity::GpuMemory(0), runs: 1, point_s: 1 };
    let mut mixed = fixture::course(Quantity::MemoryPss, 5, 2, |t| t, 1.0);
    mixed.points.extend([unusable, far]);
    mixed.points.reverse();
    summary.cases[1].courses = vec![constant, single, all_unusable, mixed];
    summary.cases[1].cores = vec![CoreUsage { core: 0, mean: f64::NAN, min: 0.0, max: 0.0 }];
    summary.cases[0].cores.clear();
    (summary.cases[1].core_heat, summary.cases[1].step_times) = (None, None);
    let report = write_environment(&summary, Language::English).unwrap();
    let ids: Vec<&str> =
        report.charts.iter().map(|chart| chart.id.as_str()).filter(|id| id.starts_with("small-cnn")).collect();
    assert_eq!(ids.len(), 3, "one course has a single point, one none that is usable: {ids:?}");
    for chart in &report.charts {
        chart.png().unwrap();
    }
}

#[test]
fn a_long_course_keeps_its_peak_and_stays_small() {
    let mut summary = fixture::cpu_only();
    let mut long = fixture::course(Quantity::RunCpu, 86_400, 1, |_| 0.1, 0.0);
    long.points[40_000].mean = 0.9;
    summary.cases[1].courses = vec![long];
    let report = write_environment(&summary, Language::English).unwrap();
    let chart =
        report.charts.iter().find(|chart| chart.id.ends_with("-cpu") && chart.id.starts_with("small-cnn")).unwrap();
    assert!(
        chart.inline().len() < 60_000 && chart.inline().contains("highest point of the mean 90.0%"),
        "{}",
        chart.inline().len()
    );
}

#[test]
fn a_chinese_report_of_both_devices_and_of_settings_that_were_tried() {
    insta::assert_snapshot!(markdown(&fixture::both_devices(), Language::Chinese));
}

#[test]
fn an_english_report_of_both_devices_and_of_settings_that_were_tried() {
    insta::assert_snapshot!(markdown(&fixture::both_devices(), Language::English));
}

#[test]
fn what_concerns_all_runs_is_a_problem_and_never_none() {
    for (language, none, problem) in
        [(Language::English, "No problem was found", "- ⚠ **"), (Language::Chinese, "没有发现问题", "- ⚠ **")]
    {
        let mut summary = fixture::cpu_only();
        summary.cases.retain(|case| case.workload == "idle");
        assert!(markdown(&summary, language).contains(none));
        summary.fingerprints = 2;
        let mixed = markdown(&summary, language);
        assert!(!mixed.contains(none) && mixed.contains(problem), "{mixed}");
    }
}
