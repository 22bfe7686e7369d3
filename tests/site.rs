//! `shice render`: what a site holds besides its reports, from recordings of hostile names, with the real program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;
use std::path::Path;

use common::{Bench, tells_in_one_line, text};
use serde_json::Value;

const NAME: &str = "=HYPERLINK(\"x\") <script>alert(1)</script> | `x` \u{202e}";
const WORKLOAD: &str = "@w <img onerror>, \"q\"";

/// Records runs under names that try to act wherever they are shown.
fn hostile() -> Bench {
    let bench = Bench::new();
    let script = "echo '</style><script>' ; exit 3";
    let record = ["record", "--env", NAME, "--workload", WORKLOAD, "--set", "note=]]><b>", "--repeats", "2"];
    let output = bench.shice(&[record.as_slice(), &["--", "sh", "-c", script, "<script>\n\u{202e}"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    bench
}

fn render(bench: &Bench, more: &[&str]) {
    let output = bench.shice(&[["render"].as_slice(), more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The only environment's folder in the site.
fn report(bench: &Bench) -> std::path::PathBuf {
    let mut entries = fs::read_dir(bench.path("site")).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.is_dir()).unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn hostile_names_are_inert_in_csv_json_and_feed() {
    let bench = hostile();
    render(&bench, &[]);
    let table = read(&report(&bench).join("runs.csv"));
    let lines: Vec<&str> = table.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 3, "{table}");
    for line in &lines[1..] {
        assert!(line.starts_with("\"'=HYPERLINK(\"\"x\"\")"), "{line}");
        assert!(line.contains(",\"'@w <img onerror>, \"\"q\"\" note="), "{line}");
        assert!(line.contains(",failed,3,,20"), "{line}");
    }
    let document = read(&report(&bench).join("report.json"));
    let value: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(value["environments"][0]["name"], NAME, "the exact name");
    assert_eq!(value["environments"][0]["cases"][0]["command"][3], "<script>\n\u{202e}");
    let feed = read(&bench.path("site/feed.xml"));
    assert!(!feed.contains("<script") && !feed.contains("<img"), "{feed}");
    for file in [&table, &document, &feed] {
        assert!(!file.contains('\u{202e}'), "{file}");
    }
}

#[test]
fn a_page_leads_to_the_raw_traces_beside_the_site_and_nowhere_else() {
    let bench = hostile();
    render(&bench, &[]);
    let page = read(&report(&bench).join("data.en.html"));
    let links: Vec<&str> = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let decoded =
        links.iter().filter(|link| link.starts_with("..&#x2f;..&#x2f;traces")).map(|link| link.replace("&#x2f;", "/"));
    let files: Vec<_> = decoded.map(|link| report(&bench).join(link)).collect();
    assert!(files.len() > 8 && files.iter().all(|file| file.is_file()), "{files:?}");
    // From another place the way would tell where things lie.
    render(&bench, &["--out", "elsewhere/site"]);
    let folder = bench.files("elsewhere");
    assert!(!folder.iter().any(|path| path.ends_with("data.en.html")), "{folder:?}");
    for path in folder.iter().filter(|path| path.extension().is_none_or(|ending| ending != "png")) {
        assert!(!read(path).contains("traces/environment="), "{}", path.display());
    }
}

#[test]
fn traces_that_are_copied_are_the_same_and_can_be_rendered_again() {
    let bench = hostile();
    render(&bench, &["--with-traces"]);
    let copy = report(&bench).join("traces");
    let output = bench.shice(&["verify", copy.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let page = read(&report(&bench).join("data.zh.html"));
    assert!(page.contains("href=\"traces&#x2f;environment="), "{page}");
    // Again, and then over what is in no trace.
    render(&bench, &["--with-traces"]);
    let folder = fs::read_dir(&copy).unwrap().next().unwrap().unwrap().path();
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    tells_in_one_line(&bench.shice(&["render", "--with-traces"]), 2, "notes.txt");
    assert_eq!(read(&folder.join("notes.txt")), "mine");
}

#[test]
fn kept_output_is_in_no_copy() {
    let bench = Bench::new();
    let record = ["record", "--env", "e", "--workload", "w", "--repeats", "1", "--keep-output", "--", "echo", "secret"];
    assert!(bench.shice(&record).status.success());
    assert!(bench.files("traces").iter().any(|path| path.ends_with("output.log")));
    render(&bench, &["--with-traces"]);
    assert!(!bench.files("site").iter().any(|path| path.ends_with("output.log")));
}

#[test]
fn a_single_file_leads_to_no_other() {
    let bench = hostile();
    render(&bench, &["--single-file", "--out", "mail"]);
    let files = bench.files("mail");
    assert_eq!(files.len(), 2, "{files:?}");
    for page in files.iter().map(|path| read(path)) {
        let addresses = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for address in addresses {
            assert!(address.starts_with('#') || address.starts_with("data:"), "{address}");
        }
        assert!(!page.contains("src=") && page.contains("href=\"data:text/csv;charset=utf-8,environment%2Ccase"));
    }
}

#[test]
fn the_document_goes_to_standard_output_or_to_a_file_and_is_the_same() {
    let bench = Bench::new();
    bench.record("true");
    let output = bench.shice(&["render", "--format", "json", "--out", "-"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["schema_version"], "1.1");
    render(&bench, &["--format", "json", "--out", "data"]);
    assert_eq!(bench.files("data"), [bench.path("data/e/report.json")]);
    assert_eq!(fs::read(bench.path("data/e/report.json")).unwrap(), output.stdout);
    tells_in_one_line(&bench.shice(&["render", "--out", "-"]), 2, "--format json");
    assert!(!bench.path("-").exists());
}

#[test]
fn links_for_machines_are_absolute_where_the_site_has_an_address() {
    let bench = Bench::new();
    bench.record("true");
    render(&bench, &["--site-url", "https://example.org/reports"]);
    let feed = read(&bench.path("site/feed.xml")).replace("&#x2f;", "/");
    assert!(
        feed.contains(
            "<link rel=\"self\" type=\"application/atom+xml\" href=\"https://example.org/reports/feed.xml\"/>"
        )
    );
    assert!(feed.contains("href=\"https://example.org/reports/e/en.html\""), "{feed}");
    let page = read(&bench.path("site/e/zh.html")).replace("&#x2f;", "/");
    assert!(page.contains("hreflang=\"x-default\" href=\"https://example.org/reports/e/en.html\""), "{page}");
}

#[test]
fn times_of_the_feed_are_those_of_runs() {
    let bench = Bench::new();
    bench.record("true");
    bench.edit_record(|record| record["started_unix_ns"] = 951_827_696_000_000_000_i64.into());
    render(&bench, &[]);
    let feed = read(&bench.path("site/feed.xml"));
    assert_eq!(feed.matches("<updated>2000-02-29T12:34:56Z</updated>").count(), 3, "{feed}");
}

#[test]
fn the_index_is_opened_in_the_browser_that_is_named() {
    let bench = Bench::new();
    bench.record("true");
    let open = |browser: &str| {
        let mut command = bench.command(&["render", "--open", "--out", "my site"]);
        command.env("BROWSER", browser).output().unwrap()
    };
    let output = open("nothing-of-that-name:touch -d @0 asked:sh -c \"true\"");
    assert_eq!(output.status.code(), Some(2), "the browser's own failure is told");
    let script = bench.path("browser");
    fs::write(&script, "#!/bin/sh\nprintf %s \"$1\" > asked\n").unwrap();
    let status = std::process::Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    assert!(status.success());
    let output = open("nothing-of-that-name:./browser");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let asked = read(&bench.path("asked"));
    assert!(asked.starts_with("file:///") && asked.ends_with("/my%20site/index.html"), "{asked}");
    let output = open("nothing-of-that-name");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("there is no nothing-of-that-name") && message.contains("file:///"), "{message}");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let bench = Bench::new();
    bench.record("true");
    fs::write(bench.path("file"), "").unwrap();
    for more in [
        ["--out", "file/site"].as_slice(),
        &["--out", "file/site", "--single-file"],
        &["--out", "file/site", "--format", "json"],
    ] {
        tells_in_one_line(&bench.shice(&[["render"].as_slice(), more].concat()), 2, "file/site");
    }
}
