//! What a trace must not tell: secrets, names of user and machine, addresses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may end so")]

mod common;

use std::fs;

use common::{Bench, all_text, text};

/// A token as a well-known service gives them out; any part of it would be too much.
const TOKEN: &str = "hf_PLANTEDplantedPLANTED0123456789";
const USER: &str = "carolplanted";

/// Everything that a trace tells, names of its folders and files included.
fn everything(bench: &Bench) -> String {
    bench.files("traces").iter().map(|path| format!("{}\n{}\n", path.display(), all_text(path))).collect()
}

/// Records a program that gives away all it can, as a user with a home below the bench's folder; it fails.
fn record(bench: &Bench, more: &[&str]) {
    let home = bench.path("home").join(USER);
    let secret_folder = home.join(TOKEN);
    fs::create_dir_all(&secret_folder).unwrap();
    // The kernel keeps 15 bytes of each program's name.
    for name in [TOKEN, "carolplanted-x"] {
        bench.copy_program("sleep", &format!("home/{USER}/{TOKEN}/{name}"));
    }
    let script = r#"
import json, os, subprocess, sys, time
folder, host = sys.argv[1], os.uname().nodename
steps = open(os.environ["SHICE_STEPS"], "a")
tell = lambda **line: print(json.dumps({"t_ns": time.monotonic_ns(), **line}), file=steps, flush=True)
tell(kind="phase", phase=f"train with {os.environ['HF_TOKEN']}")
tell(kind="setting", name="hub_token", value=os.environ["HF_TOKEN"])
tell(kind="setting", name="data", value=folder)
print("argument", *sys.argv[2:])
print("variable", os.environ["HF_TOKEN"], "in", folder, "of", os.environ["USER"], "on", host)
print("from 10.98.76.54 [fd00:9876::54]:1 at 0a:98:76:54:32:10", file=sys.stderr)
for name in os.listdir(folder):
    subprocess.run([os.path.join(folder, name), "0.3"])
subprocess.run(["sh", "-c", "exec -a " + os.environ["HF_TOKEN"] + " sleep 0.3"], executable="/bin/bash" if os.path.exists("/bin/bash") else None)
left = subprocess.Popen([os.path.join(folder, "carolplanted-x"), "30"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sys.exit(1)
"#;
    fs::write(bench.path("tell.py"), script).unwrap();
    let (folder, token) = (secret_folder.display().to_string(), format!("--token={TOKEN}"));
    let mut arguments = vec!["record", "--env", "e", "--workload", "w", "--repeats", "1"];
    arguments.extend(more);
    arguments.extend(["--", "python3", "tell.py", &folder, &token, "--master", "10.98.76.54"]);
    let mut command = bench.command(&arguments);
    let output = command.env("HOME", &home).env("USER", USER).env("HF_TOKEN", TOKEN).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn a_trace_tells_no_token_no_names_and_no_addresses() {
    let bench = Bench::new();
    record(&bench, &[]);
    let run = bench.only_run();
    assert!(
        run.record.output_tail.iter().any(|line| line.starts_with("variable *** in ~/")),
        "{:?}",
        run.record.output_tail
    );
    assert!(!run.record.keeps_identity && run.record.effective["hub_token"] == "***");
    assert_eq!(run.record.survivors.len(), 1, "{:?}", run.record.survivors);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let told = everything(&bench);
    // Else nothing is looked at.
    assert!(told.contains("python3") && told.contains("train with ***"), "{told}");
    for secret in ["PLANTED", USER, "carolpl", "10.98.76", "fd00:9876", "0a:98:76", "home/"] {
        let at = told.find(secret).map(|at| told[at.saturating_sub(200)..(at + 100).min(told.len())].to_owned());
        assert_eq!(at, None, "{secret} is in the trace");
    }
    if host.len() > 3 && !["localhost", "user", "home", "root"].contains(&host.as_str()) {
        assert!(!told.contains(&host), "the host's name is in the trace");
    }
}

#[test]
fn names_and_addresses_are_kept_where_that_is_asked_for_and_the_trace_says_so_but_no_token_is() {
    let bench = Bench::new();
    record(&bench, &["--keep-identity"]);
    let run = bench.only_run();
    assert!(run.record.keeps_identity);
    let told = everything(&bench);
    for kept in [USER, "10.98.76.54", "fd00:9876::54", "0a:98:76:54:32:10"] {
        assert!(told.contains(kept), "{kept} is not in {:?}", run.record.output_tail);
    }
    assert!(!told.contains("PLANTED"), "{told}");
}

#[test]
fn a_secret_is_refused_as_a_setting_and_in_names_and_is_not_repeated() {
    let bench = Bench::new();
    for arguments in [
        vec!["record", "--env", "e", "--workload", "w", "--set", "hf-token=planted", "--", "true"],
        vec!["record", "--env", "e", "--workload", "w", "--set", "url=https://me:planted@host", "--", "true"],
        vec!["record", "--env", TOKEN, "--workload", "w", "--", "true"],
        vec!["record", "--env", "e", "--workload", TOKEN, "--", "true"],
    ] {
        let output = bench.shice(&arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(message.contains("looks like a secret") && !message.to_lowercase().contains("planted"), "{message}");
    }
    assert!(!bench.path("traces").exists());
}

#[test]
fn a_setting_that_tells_of_user_or_machine_is_refused_with_what_was_found_what_it_would_look_like_and_ways_out() {
    let bench = Bench::new();
    let home = bench.path("home").join(USER);
    let in_home = format!("data={}/images", home.display());
    let named = format!("data=of-{USER}");
    for (setting, found, masked) in [
        (in_home.as_str(), "holds a home folder", "\"~/images\""),
        ("data=/mnt/nfs/home/bob/images", "holds the name of a user or a machine", "\"/mnt/nfs/home/<user>/images\""),
        (&named, "holds the name of a user or a machine", "\"of-<user>\""),
        ("data=10.98.76.54:/images", "holds the address of a machine", "\"<ip>:/images\""),
    ] {
        let arguments = ["record", "--env", "e", "--workload", "w", "--repeats", "1", "--set", setting, "--", "true"];
        let output = bench.command(&arguments).env("HOME", &home).env("USER", USER).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{message}");
        for part in ["the value of the setting \"data\"", found, masked, "environment variable", "--keep-identity"] {
            assert!(message.contains(part), "{part} is not in {message}");
        }
    }
}

#[test]
fn a_setting_is_taken_whose_value_is_a_word_of_the_field_though_the_user_or_the_home_is_called_so() {
    let bench = Bench::new();
    for (home, user, setting) in [
        ("/home/adam", "adam", "optimizer=adam"),
        ("/workspace/resnet50", "root", "model=resnet50"),
        ("/data", "root", "data=/dataset/x"),
        ("/home/rain", "rain", "mode=training"),
    ] {
        let arguments = ["record", "--env", "e", "--workload", "w", "--dry-run", "--set", setting, "--", "true"];
        let output = bench.command(&arguments).env("HOME", home).env("USER", user).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{setting}: {}", text(&output.stderr));
    }
}

#[test]
fn an_address_in_a_setting_is_recorded_where_addresses_are_kept() {
    let bench = Bench::new();
    let mut arguments = vec!["record", "--env", "e", "--workload", "w", "--repeats", "1", "--set", "peer=10.98.76.54"];
    arguments.extend(["--keep-identity", "--", "true"]);
    let output = bench.shice(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(bench.only_run().record.settings["peer"], "10.98.76.54");
}
