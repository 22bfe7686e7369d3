//! Whole sites, from summaries made by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::report::language::Language;
use crate::report::{fixture, write_environment};

fn reports() -> Vec<Report> {
    let summaries = [fixture::with_gpu(), fixture::hostile()];
    summaries
        .iter()
        .flat_map(|summary| Language::ALL.map(|language| write_environment(summary, language).unwrap()))
        .collect()
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
    let reports = reports();
    write(out.path(), &reports).unwrap();
    let first = all_files(out.path());
    write(out.path(), &reports).unwrap();
    assert_eq!(first, all_files(out.path()));
    let slug = &reports[0].slug;
    for file in [
        "index.html",
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
    write(out.path(), &reports()).unwrap();
    for report in reports() {
        for target in report
            .markdown
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .filter(|target| target.ends_with(".png"))
        {
            assert!(out.path().join(&report.slug).join(target).is_file(), "{target}");
        }
    }
}

#[test]
fn every_link_within_a_page_leads_somewhere() {
    for report in reports() {
        let html = page::page(&report, &[&report]).unwrap();
        for id in html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            // pulldown-cmark percent-encodes none of ours: ids of charts are ASCII, the others we write ourselves.
            assert_eq!(html.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
        }
    }
}

#[test]
fn hostile_names_are_inert_in_html() {
    let summary = fixture::hostile();
    for language in Language::ALL {
        let report = write_environment(&summary, language).unwrap();
        let html = page::page(&report, &[&report]).unwrap() + &page::index(std::slice::from_ref(&report)).unwrap();
        for harm in ["<script", "<img", "href=\"javascript", "\u{202E}"] {
            assert!(!html.contains(harm), "{harm}");
        }
    }
}

#[test]
fn a_page_asks_for_nothing_from_elsewhere() {
    for report in reports() {
        let html = page::page(&report, &[&report]).unwrap();
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
    for name in ["old.en.png", "old.zh.png", "notes.txt"] {
        fs::write(charts.join(name), "x").unwrap();
    }
    write(out.path(), &[report]).unwrap();
    assert!(!charts.join("old.en.png").exists());
    assert!(charts.join("old.zh.png").exists() && charts.join("notes.txt").exists());
}

#[test]
fn an_output_that_is_a_file_is_named() {
    let out = tempfile::NamedTempFile::new().unwrap();
    let error = format!("{:#}", write(out.path(), &reports()).unwrap_err());
    assert!(error.contains(&out.path().display().to_string()), "{error}");
}

#[test]
fn a_page_of_somebody_elses_is_not_replaced_and_nothing_is_written() {
    let reports = reports();
    for page in [INDEX.to_owned(), format!("{}/en.html", reports[0].slug)] {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join(&page);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "<!DOCTYPE html><title>My homepage</title>").unwrap();
        let before = all_files(out.path());
        let error = write(out.path(), &reports).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()) && error.contains("another --out"), "{error}");
        assert_eq!(before, all_files(out.path()));
    }
}
