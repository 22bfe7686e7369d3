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
            let mut python = Command::new(std::env::var("PYTHON").unwrap_or("python3".to_owned()));
            python.current_dir(root).env("PYTHONPATH", root.join("target/python")).args(["-c", block]);
            let output = python.output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{readme}: {}", String::from_utf8_lossy(&output.stderr));
            for folder in std::fs::read_dir(root.join("traces")).unwrap() {
                let name = folder.unwrap().file_name().into_string().unwrap();
                let Some(slug) = name.strip_prefix("environment=") else { continue };
                assert!(printed.contains(slug), "{readme}: {slug} is not in\n{printed}");
            }
        }
    }
}

#[test]
fn the_description_of_a_trace_names_every_table() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/trace.md")).unwrap();
    for shape in shice::trace::tables::SHAPES {
        assert!(text.contains(&format!("\n| `{}` | ", shape.name)), "{} is not described", shape.name);
    }
}

#[test]
fn links_of_readme_and_docs_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    for file in ["README.md", "README.zh.md"].into_iter().map(|name| root.join(name)).chain(docs) {
        let text = std::fs::read_to_string(&file).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let outside = target.is_empty() || target.starts_with("https://");
            assert!(outside || file.with_file_name(target).exists(), "{}: {target}", file.display());
        }
    }
}
