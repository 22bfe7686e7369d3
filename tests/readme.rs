//! The README's own lines read the committed traces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

use std::path::Path;
use std::process::Command;

/// The fenced Python blocks of a text that read traces.
fn reading_blocks(text: &str) -> Vec<&str> {
    let blocks = text.split("```python\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains("traces/")).collect()
}

#[test]
#[ignore = "needs Python's polars and duckdb in target/python: run `make test`"]
fn the_lines_for_polars_and_duckdb_read_the_committed_traces_in_both_languages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for readme in ["README.md", "README.zh.md"] {
        let text = std::fs::read_to_string(root.join(readme)).unwrap();
        let blocks = reading_blocks(&text);
        assert_eq!(blocks.len(), 2, "{readme}");
        for block in blocks {
            let printed = printed(block);
            for folder in std::fs::read_dir(root.join("traces")).unwrap() {
                let name = folder.unwrap().file_name().into_string().unwrap();
                let Some(slug) = name.strip_prefix("environment=") else { continue };
                assert!(printed.contains(slug), "{readme}: {slug} is not in\n{printed}");
            }
        }
    }
}

/// What a block of Python prints where the committed traces lie.
fn printed(block: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new(std::env::var("PYTHON").unwrap_or("python3".to_owned()));
    python.current_dir(root).env("PYTHONPATH", root.join("target/python")).args(["-c", block]);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{block}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs Python's polars and duckdb in target/python: run `make test`"]
fn the_lines_of_the_committed_reports_compute_the_figure_that_they_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("site");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut computed = 0;
    for (folder, (name, unit)) in
        folders.flat_map(|folder| [("en.md", " bytes"), ("zh.md", " 字节")].map(|file| (folder.clone(), file)))
    {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        for block in reading_blocks(&text) {
            let before = &text[..text.find(block).unwrap()];
            let (sentence, _) = before.rsplit_once(unit).unwrap();
            let figure = sentence.rsplit(' ').next().unwrap().replace(',', "");
            let printed = printed(block);
            assert!(printed.contains(&figure), "{name}: {figure} is not in\n{printed}");
            computed += 1;
        }
    }
    assert!(computed >= 2, "{computed}");
}

#[test]
fn the_description_of_a_trace_names_every_table() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/trace.md")).unwrap();
    for shape in shice::trace::tables::SHAPES {
        assert!(text.contains(&format!("\n| `{}` | ", shape.name)), "{} is not described", shape.name);
    }
}

/// The anchors of a text's headings as GitHub makes them: lower case, spaces become hyphens, punctuation goes.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
        let anchor = kept.collect::<String>().replace(' ', "-");
        let again = found.iter().filter(|other| **other == anchor).count();
        found.push(if again == 0 { anchor } else { format!("{anchor}-{again}") });
    }
    found
}

#[test]
fn anchors_are_those_that_github_makes() {
    let text = "# A `b` & C\n## 环境是否就绪？\n```sh\n# no heading\n```\n## run.json\n## run.json\n#none\n";
    assert_eq!(anchors(text), ["a-b--c", "环境是否就绪", "runjson", "runjson-1"]);
}

#[test]
fn links_of_readme_and_docs_lead_to_files_and_headings_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut with_anchor = 0;
    for file in ["README.md", "README.zh.md"].into_iter().map(|name| root.join(name)).chain(docs) {
        let text = std::fs::read_to_string(&file).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("https://") {
                continue;
            }
            let (target, anchor) = link.split_once('#').map_or((link, None), |(target, anchor)| (target, Some(anchor)));
            let target = if target.is_empty() { file.clone() } else { file.with_file_name(target) };
            assert!(target.exists(), "{}: {link}", file.display());
            if let Some(anchor) = anchor {
                let known = anchors(&std::fs::read_to_string(target).unwrap());
                assert!(
                    known.iter().any(|heading| heading == anchor),
                    "{}: {link} is none of {known:?}",
                    file.display()
                );
                with_anchor += 1;
            }
        }
    }
    assert!(with_anchor > 0);
}
