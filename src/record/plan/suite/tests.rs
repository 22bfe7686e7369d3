use super::*;
use crate::record::plan::cases::cases;

fn read_text(text: &str) -> Result<Wish> {
    parse(&Source { file: "suite.toml".to_owned(), text })
}

const WHOLE: &str = r#"
repeats = 3
interval = "50ms"

[[case]]
workload = "train"
command = ["sh", "-c", "echo {batch-size} {{}} {workers}", "--seed={seed}"]
[case.settings]
seed = 1
[case.sweep]
workers = [0, 2]
batch-size = [16, 32]
lr = [1e-4]

[[case]]
workload = "idle"

[[environment]]
name = "image-a"
prefix = ["env", "WHICH=a"]

[[environment]]
name = "image-b"
"#;

#[test]
fn a_whole_suite_is_read_in_the_order_in_which_it_is_written() {
    let wish = read_text(WHOLE).unwrap();
    assert_eq!((wish.repeats, wish.interval), (Some(3), Some(std::time::Duration::from_millis(50))));
    let cases = cases(&wish.cases[..1], &wish.environments[0]).unwrap();
    let names: Vec<String> = cases.iter().map(|case| case.name()).collect();
    assert_eq!(
        names,
        [
            "train batch-size=16 lr=1e-4 seed=1 workers=0",
            "train batch-size=32 lr=1e-4 seed=1 workers=0",
            "train batch-size=16 lr=1e-4 seed=1 workers=2",
            "train batch-size=32 lr=1e-4 seed=1 workers=2",
        ]
    );
    assert_eq!(cases[1].command, ["env", "WHICH=a", "sh", "-c", "echo 32 {} 0", "--seed=1"]);
    assert!(wish.cases[1].command.is_none() && wish.environments[1].prefix.is_empty());
}

/// A case that is right, to which something wrong is added.
const CASE: &str = "[[case]]\nworkload = \"w\"\ncommand = [\"sh\"]\n";

#[test]
fn whatever_is_wrong_is_told_with_file_line_and_key() {
    let wrong = [
        "",
        "repeats = \"5\"",
        "repeats = 0",
        "repeats = -1",
        "interval = 100",
        "interval = \"fast\"",
        "interval = \"1ms\"",
        "reapeats = 5\n",
        "x = 5\n",
        "[case]\nworkload = \"w\"",
        "case = [1]",
        "[[case]]\ncommand = [\"sh\"]",
        "[[case]]\nworkload = \"resnet\"",
        "[[case]]\nworkload = 5",
        "[[case]]\nworkload = \"w\"\ncommand = \"python train.py\"",
        "[[case]]\nworkload = \"w\"\ncommand = []",
        "[[case]]\nworkload = \"w\"\ncommand = [\n  \"sh\",\n  5,\n]",
        &format!("{CASE}wrokload = \"w\""),
        &format!("{CASE}[case.setting]\nseed = 1"),
        &format!("{CASE}settings = 5"),
        &format!("{CASE}[case.settings]\nbatch_size = 1"),
        &format!("{CASE}[case.settings]\nseed = [1]"),
        &format!("{CASE}[case.settings]\nseed = \"\""),
        &format!("{CASE}[case.settings]\nseed = 1\nseed = 2"),
        &format!("{CASE}[case.settings]\nlr = nan"),
        &format!("{CASE}[case.sweep]\nlr = [1_0.5, -inf]"),
        &format!("{CASE}[case.settings]\nlr = 1e999"),
        &format!("{CASE}[case.sweep]\nseed = 1"),
        &format!("{CASE}[[environment]]\nprefix = [\"env\"]"),
        &format!("{CASE}[[environment]]\nname = \" \""),
        &format!("{CASE}[[environment]]\nname = \"a\"\n[[environment]]\nname = \"a\""),
        &format!("{CASE}[[environment]]\nname = \"a\"\nprefx = [\"env\"]"),
        &format!("{CASE}[[environments]]\nname = \"a\""),
        "[[case\n",
        "repeats 5",
    ];
    let told = wrong.map(|text| format!("{}\n    -> {:#}\n", text.escape_debug(), read_text(text).unwrap_err()));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn whatever_cannot_be_planned_is_told_with_file_line_and_key() {
    let wrong = [
        format!("{CASE}[case.settings]\nseed = 1\n[case.sweep]\nseed = [1, 2]"),
        format!("{CASE}[case.sweep]\nseed = []"),
        format!("{CASE}[case.sweep]\nseed = [1, 1]"),
        format!("{CASE}[case.sweep]\nseed = [1, 2]"),
        format!("{CASE}[case.settings]\nhf-token = \"x\""),
        format!("{CASE}[case.settings]\nurl = \"https://me:planted@host\""),
        format!("{CASE}\n{CASE}"),
        format!("{CASE}[case.settings]\nquick = true"),
        "[[case]]\nworkload = \"idle\"\n[case.settings]\nquick = false".to_owned(),
        "[[case]]\nworkload = \"idle\"\ncommand = [\"sh\"]".to_owned(),
        "[[case]]\nworkload = \"a=b\"\ncommand = [\"sh\"]".to_owned(),
        "[[case]]\nworkload = \"w\"\ncommand = [\n  \"sh\",\n  \"{wokers}\",\n]\n[case.settings]\nworkers = 1"
            .to_owned(),
        "[[case]]\nworkload = \"w\"\ncommand = [\"sh\", \"{workers}\"]".to_owned(),
        "[[case]]\nworkload = \"w\"\ncommand = [\"sh\", \"f() { echo; }\"]".to_owned(),
    ];
    let told = wrong.map(|text| {
        let wish = read_text(&text).unwrap();
        let environment = EnvironmentWish { name: "e".to_owned(), prefix: Vec::new(), origin: String::new() };
        format!("{}\n    -> {:#}\n", text.escape_debug(), cases(&wish.cases, &environment).unwrap_err())
    });
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_suite_with_a_byte_order_mark_and_windows_line_ends_is_read() {
    let text = format!("\u{feff}{}", WHOLE.replace('\n', "\r\n"));
    assert_eq!(read_text(&text).unwrap().cases.len(), 2);
}
