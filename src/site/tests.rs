//! Whole sites, from summaries made by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::aggregate::summary::EnvironmentSummary;
use crate::report::language::Language;
use crate::report::{Beside, data, fixture, write_environment, write_with_links};

/// A site of several environments.
fn environments() -> Vec<Environment> {
    [fixture::with_gpu(), fixture::hostile(), fixture::both_devices()].iter().map(environment).collect()
}

fn environment(summary: &EnvironmentSummary) -> Environment {
    let raw = raw(summary);
    let beside = Beside { runs: RUNS, document: DOCUMENT, raw: Some(raw.address().to_owned()) };
    let reports = Language::ALL.map(|language| write_with_links(summary, language, &beside).unwrap());
    Environment { reports: reports.into(), data: data::of_environment(summary).unwrap(), raw: Some(raw) }
}

/// Raw traces that lie beside the site.
fn raw(summary: &EnvironmentSummary) -> Raw {
    let folder = tempfile::tempdir().unwrap();
    let of_run = |case: &str, run: u32| format!("case={case}/run={run}/node=0/host.parquet").into();
    let runs = summary.cases.iter().flat_map(|case| case.runs.iter().map(|run| of_run(&case.slug, run.run)));
    let files: Vec<PathBuf> = std::iter::once("environment.json".into()).chain(runs).collect();
    Raw::beside(&folder.path().join("site"), &folder.path().join("traces/environment=e"), &files).unwrap()
}

fn html(environment: &Environment, report: &Report) -> String {
    let place = Place::Site { address: None, raw: environment.raw.as_ref() };
    page::page(report, &environment.data, place).unwrap()
}

fn all_files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_site_is_written_twice_to_the_same_bytes() {
    let out = tempfile::tempdir().unwrap();
    let environments = environments();
    write(out.path(), &environments, None).unwrap();
    let first = all_files(out.path());
    write(out.path(), &environments, None).unwrap();
    assert_eq!(first, all_files(out.path()));
    let slug = &environments[0].data.slug;
    for file in [
        "index.html",
        "feed.xml",
        &format!("{slug}/runs.csv"),
        &format!("{slug}/report.json"),
        &format!("{slug}/data.zh.html"),
        &format!("{slug}/zh.html"),
        &format!("{slug}/en.html"),
        &format!("{slug}/zh.md"),
        &format!("{slug}/en.md"),
    ] {
        assert!(first.contains_key(&out.path().join(file)), "{file}");
    }
}

#[test]
fn every_picture_and_link_of_the_markdown_is_there() {
    let out = tempfile::tempdir().unwrap();
    write(out.path(), &environments(), None).unwrap();
    for report in environments().iter().flat_map(|environment| &environment.reports) {
        for target in report
            .markdown
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .filter(|target| target.ends_with(".png") || target.ends_with(".csv"))
        {
            assert!(out.path().join(&report.slug).join(target).is_file(), "{target}");
        }
    }
}

#[test]
fn every_link_within_a_page_leads_somewhere() {
    let environments = environments();
    for (environment, report) in environments.iter().flat_map(|one| one.reports.iter().map(move |report| (one, report)))
    {
        let html = html(environment, report);
        for id in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            // Nothing is percent-encoded: ids of charts are ASCII, the others we write ourselves.
            assert_eq!(html.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
        }
    }
}

#[test]
fn hostile_names_are_inert_in_html() {
    let environment = environment(&fixture::hostile());
    let raw = environment.raw.as_ref().unwrap();
    let shared = index::index(std::slice::from_ref(&environment)).unwrap();
    for report in &environment.reports {
        let files = data_page::page(&environment, raw, report, None).unwrap();
        let html = html(&environment, report) + &shared + &files;
        for harm in ["<script", "<img", "href=\"javascript", "\u{202E}"] {
            assert!(!html.contains(harm), "{harm}");
        }
    }
}

#[test]
fn a_page_asks_for_nothing_from_elsewhere() {
    let environments = environments();
    for (environment, report) in environments.iter().flat_map(|one| one.reports.iter().map(move |report| (one, report)))
    {
        let html = html(environment, report);
        for request in ["src=\"http", "href=\"http", "url(", "@import", "<script"] {
            assert!(!html.contains(request), "{request}");
        }
    }
}

#[test]
fn only_charts_that_are_no_longer_drawn_are_removed() {
    let out = tempfile::tempdir().unwrap();
    let report = write_environment(&fixture::cpu_only(), Language::English).unwrap();
    let charts = out.path().join(&report.slug).join(CHARTS);
    fs::create_dir_all(&charts).unwrap();
    for name in ["old.en.png", "old.zh.png", "old.csv", "notes.txt"] {
        fs::write(charts.join(name), "x").unwrap();
    }
    let data = data::of_environment(&fixture::cpu_only()).unwrap();
    write(out.path(), &[Environment { reports: vec![report], data, raw: None }], None).unwrap();
    assert!(!charts.join("old.en.png").exists() && !charts.join("old.csv").exists());
    assert!(charts.join("old.zh.png").exists() && charts.join("notes.txt").exists());
}

#[test]
fn an_output_that_is_a_file_is_named() {
    let out = tempfile::NamedTempFile::new().unwrap();
    let error = format!("{:#}", write(out.path(), &environments(), None).unwrap_err());
    assert!(error.contains(&out.path().display().to_string()), "{error}");
}

#[test]
fn a_page_of_somebody_elses_is_not_replaced_and_nothing_is_written() {
    let environments = environments();
    for page in [INDEX.to_owned(), FEED.to_owned(), format!("{}/en.html", environments[0].data.slug)] {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join(&page);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "<!DOCTYPE html><title>My homepage</title>").unwrap();
        let before = all_files(out.path());
        let error = write(out.path(), &environments, None).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()) && error.contains("another --out"), "{error}");
        assert_eq!(before, all_files(out.path()));
    }
}

#[test]
fn the_numbers_of_charts_are_in_a_page_that_stands_alone_and_beside_one_that_does_not() {
    let summary = fixture::cpu_only();
    let report = write_environment(&summary, Language::English).unwrap();
    let data = data::of_environment(&summary).unwrap();
    let site = page::page(&report, &data, page::Place::Site { address: None, raw: None }).unwrap();
    let alone = page::page(&report, &data, page::Place::Alone).unwrap();
    assert!(site.contains("href=\"charts/levels.csv\" download=\"levels.csv\">"));
    assert!(
        !alone.contains("href=\"charts/") && alone.contains("href=\"data:text/csv;charset=utf-8,case%2Cfinished_runs")
    );
}
