//! Pages as a browser shows them and a validator reads them: real sites, opened from disk in a headless Chromium.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Bench, text};

/// What npm has installed; none where the browser tests are left out, which `make test` has said.
#[allow(clippy::print_stderr, reason = "whoever runs the tests has to know")]
fn installed() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/browser/node_modules");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is not there; run tools/browser/prepare", folder.display());
    eprintln!("LEFT OUT: {} is not there; run tools/browser/prepare", folder.display());
    None
}

fn render(bench: &Bench, more: &[&str]) {
    let output = bench.shice(&[["render"].as_slice(), more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The committed traces as a site, and as pages that stand alone.
fn committed() -> Bench {
    let bench = Bench::new();
    bench.copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("traces"), "traces");
    render(&bench, &["--out", "site"]);
    render(&bench, &["--out", "alone", "--single-file"]);
    bench
}

/// Runs that failed, under names that try to act, with their traces in the site.
fn hostile() -> Bench {
    let bench = Bench::new();
    let name = "=1+1 <script>alert(1)</script> | `x` [a](javascript:alert(1)) \u{202e} 一二三四五六七八九十一二三四五六七八九十";
    let script = "echo '</style><img src=x onerror=alert(1)>' >&2; sleep 1.2; exit 3";
    let long = "averylongwordwithoutanyplacetobreakit".repeat(6);
    let settings = ["--set", "note=<b>|`*_~", "--set", &format!("long={long}")];
    let run = ["--repeats", "1", "--", "sh", "-c", script, "]]></script>\n$(x)", &long];
    let output =
        bench.shice(&[&["record", "--env", name, "--workload", "<w> \"'&"], settings.as_slice(), &run].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    render(&bench, &["--out", "site", "--with-traces"]);
    bench
}

fn succeeds(what: &str, output: &Output) {
    let printed = text(&output.stdout);
    // One fault is often on every page in every view.
    let first: Vec<&str> = printed.lines().take(20).chain(printed.lines().last()).collect();
    assert!(output.status.success(), "{what}:\n{}\n{}", first.join("\n"), text(&output.stderr));
}

#[test]
#[ignore = "needs chromium, node and java: run `make test`"]
fn pages_are_whole_on_phone_and_desktop_in_light_and_dark_and_valid() {
    let Some(installed) = installed() else { return };
    let (committed, hostile) = (committed(), hostile());
    let folders = [committed.path("site"), committed.path("alone"), hostile.path("site")];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/open.mjs");
    let mut browser = Command::new("node");
    browser.arg(script).arg(installed.join("axe-core/axe.min.js")).args(&folders);
    succeeds("the browser", &browser.output().expect("node starts"));
    let pages = ["site", "alone"].into_iter().flat_map(|name| committed.files(name)).chain(hostile.files("site"));
    let mut checker = Command::new("java");
    checker.args(["-Xss16m", "-jar"]).arg(installed.join("vnu-jar/build/dist/vnu.jar"));
    checker.args(["--also-check-css", "--stdout", "--format", "text"]);
    checker.args(pages.filter(|path| path.extension().is_some_and(|ending| ending == "html")));
    succeeds("the validator", &checker.output().expect("java starts"));
}
