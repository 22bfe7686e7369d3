//! `shice render`: from real recordings, whole and damaged, to pages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use common::{Bench, tells_in_one_line, text, wait_until};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Every file below a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_committed_site_is_what_the_committed_traces_render_to_byte_for_byte() {
    let bench = Bench::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Beside the site, as in the repository: pages lead to the raw traces there.
    bench.copy_folder(&root.join("traces"), "traces");
    let output = bench.shice(&["render", "traces", "--out", "site"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (fresh, committed) = (contents(&bench.path("site")), contents(&root.join("site")));
    assert_eq!(fresh.keys().collect::<Vec<_>>(), committed.keys().collect::<Vec<_>>());
    for (name, bytes) in &fresh {
        assert!(bytes == &committed[name], "site/{name} differs; `make site` renders it anew");
    }
}

#[test]
fn a_recording_becomes_pages_and_markdown_in_both_languages() {
    let bench = Bench::new();
    bench.shice(&["record", "--env", "My Box", "--workload", "w", "--repeats", "2", "--", "sh", "-c", "sleep 2.3"]);
    let output = bench.shice(&["render", "traces", "--out", "report"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = contents(&bench.path("report"));
    assert!(files.contains_key("index.html"));
    for ending in ["zh.html", "en.html", "zh.md", "en.md"] {
        let (name, bytes) = files.iter().find(|(name, _)| name.ends_with(ending)).unwrap();
        assert!(text(bytes).contains("My Box"), "{name} does not name the environment");
    }
    assert!(files.iter().any(|(name, bytes)| name.ends_with(".png") && bytes.starts_with(b"\x89PNG")));
}

#[test]
fn a_cut_recording_becomes_a_report_that_marks_it_incomplete() {
    let bench = Bench::new();
    let mut recorder = bench.command(&["record", "--env", "e", "--workload", "w", "--", "sleep", "4"]).spawn().unwrap();
    wait_until("the run is being recorded", || {
        bench.path("traces/environment=e/case=w/run=1/node=0/journal.jsonl").exists()
    });
    std::thread::sleep(std::time::Duration::from_millis(2500));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let output = bench.shice(&["render"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(bench.path("site/e").join(name)).unwrap();
    assert!(read("en.md").contains("incomplete"));
    assert!(read("zh.md").contains("不完整"));
}

#[test]
fn a_truncated_parquet_file_is_named_and_nothing_is_written() {
    let bench = Bench::new();
    bench.record("true");
    let path = bench.only_run().dir.join("host.parquet");
    let bytes = fs::read(&path).unwrap();
    for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).unwrap();
        tells_in_one_line(&bench.shice(&["render"]), 2, "host.parquet");
        assert!(!bench.path("site").exists());
    }
}

#[test]
fn hostile_names_stay_inert_in_markdown_and_html() {
    let bench = Bench::new();
    let name = "<script>alert(1)</script> | `x` \u{202e}";
    let output = bench.shice(&[
        "record",
        "--env",
        name,
        "--workload",
        "<img onerror>",
        "--repeats",
        "1",
        "--",
        "sh",
        "-c",
        "true # <script>",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = bench.shice(&["render"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut markdown = 0;
    for (name, bytes) in contents(&bench.path("site")) {
        if name.ends_with(".html") {
            let page = text(&bytes);
            assert!(!page.contains("<script") && !page.contains("<img onerror"), "{name}");
        }
        if name.ends_with(".md") {
            let page = text(&bytes);
            assert!(!page.contains('\u{202e}'), "{name}");
            // Within code signs stand as they are; what counts is how a reader of Markdown takes them.
            let mut shown = String::new();
            for event in Parser::new_ext(&page, Options::ENABLE_TABLES) {
                match event {
                    Event::Html(html) | Event::InlineHtml(html) => {
                        let html = html.to_lowercase();
                        assert!(!html.contains("script") && !html.contains("onerror"), "{name}: {html}");
                    }
                    Event::Text(text) | Event::Code(text) => shown.push_str(&text),
                    _ => {}
                }
            }
            markdown += 1;
            assert!(shown.contains("<script>alert(1)</script> | `x`"), "{name}");
            assert!(shown.contains("<img onerror>"), "{name}");
        }
    }
    assert!(markdown >= 2, "{markdown} files of Markdown");
}

/// The anchors that GitHub gives the headings: lower case, hyphens for spaces, and of all else only letters and digits.
fn headings(page: &str) -> BTreeSet<String> {
    let mut text: Option<String> = None;
    let mut anchors = BTreeSet::new();
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => text = Some(String::new()),
            Event::Text(words) | Event::Code(words) => text.iter_mut().for_each(|text| text.push_str(&words)),
            Event::End(TagEnd::Heading(_)) => {
                let text = text.take().unwrap_or_default().to_lowercase().replace(' ', "-");
                anchors.insert(text.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect());
            }
            _ => {}
        }
    }
    anchors
}

#[test]
fn the_markdown_of_the_committed_report_has_no_raw_html_and_leads_to_what_there_is() {
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("site");
    let files = contents(&site);
    let mut pictures = 0;
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".md")) {
        let page = text(bytes);
        for event in
            Parser::new_ext(&page, Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_FOOTNOTES)
        {
            match event {
                Event::Html(html) | Event::InlineHtml(html) => panic!("{name} has the raw HTML {html}"),
                Event::TaskListMarker(_) | Event::FootnoteReference(_) => {
                    panic!("{name} has marks of GitHub's by accident")
                }
                Event::Start(Tag::Image { dest_url, .. }) => {
                    assert!(dest_url.ends_with(".png") && !dest_url.contains(':'), "{name}: {dest_url}");
                    assert!(site.join(name).with_file_name(dest_url.as_ref()).is_file(), "{name}: {dest_url}");
                    pictures += 1;
                }
                Event::Start(Tag::Link { dest_url, .. }) if dest_url.starts_with('#') => {
                    assert!(headings(&page).contains(&dest_url[1..]), "{name}: {dest_url}");
                }
                Event::Start(Tag::Link { dest_url, .. }) => {
                    assert!(site.join(name).with_file_name(dest_url.as_ref()).exists(), "{name}: {dest_url}");
                }
                _ => {}
            }
        }
    }
    assert!(pictures >= 2, "{pictures}");
}

#[test]
fn a_folder_without_traces_is_one_clear_line() {
    let bench = Bench::new();
    let output = bench.shice(&["render", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nowhere is no folder"), "{}", text(&output.stderr));
}

#[test]
fn a_character_that_charts_cannot_show_is_told_with_its_case() {
    let bench = Bench::new();
    bench.shice(&["record", "--env", "e", "--workload", "训练🔥", "--repeats", "1", "--", "sh", "-c", "sleep 2.3"]);
    let output = bench.shice(&["render", "traces", "--out", "report"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("charts of the case \"训练🔥\" show □ in place of 🔥 (U+1F525)"), "{told}");
    assert!(!told.contains("训 (U+"), "{told}");
}
