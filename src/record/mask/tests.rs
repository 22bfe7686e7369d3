use super::*;

fn mask() -> Mask {
    Mask::of("/home/alice", "alice", "lab-gpu-7")
}

#[test]
fn values_of_secret_options_are_masked_in_every_spelling() {
    for (words, expected) in [
        (vec!["--hf-token", "abc", "--epochs", "3"], vec!["--hf-token", "***", "--epochs", "3"]),
        (vec!["--password=my pass word", "x"], vec!["--password=***", "x"]),
        (vec!["--password", "my \"pass\" word", "x"], vec!["--password", "***", "x"]),
        (vec!["API_KEY=y", "train.py", "--token"], vec!["API_KEY=***", "train.py", "--token"]),
        (vec!["API_KEY=", "train.py"], vec!["API_KEY=", "train.py"]),
        (vec!["--opt=api_key=X", "y"], vec!["--opt=api_key=***", "y"]),
        (vec!["-H", "Authorization: Bearer X Y", "u"], vec!["-H", "Authorization: Bearer ***", "u"]),
        (vec!["-H", "Authorization:", "Bearer", "X", "u"], vec!["-H", "Authorization:", "Bearer", "***", "u"]),
        (vec!["-u", "me:PW", "https://a:b@c/d"], vec!["-u", "***", "https://***@c/d"]),
        (vec!["sh", "-c", "x --hf-token X --lr 1"], vec!["sh", "-c", "x --hf-token *** --lr 1"]),
        (vec!["sh", "-c", "HF_TOKEN=X x --lr 1"], vec!["sh", "-c", "HF_TOKEN=*** x --lr 1"]),
        (vec!["--tokens", "512", "--tokenizer", "gpt2"], vec!["--tokens", "512", "--tokenizer", "gpt2"]),
        (vec!["--max-tokens", "10", "author=A", ""], vec!["--max-tokens", "10", "author=A", ""]),
        (vec!["--use-auth-token", "--epochs", "3"], vec!["--use-auth-token", "--epochs", "3"]),
    ] {
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        assert_eq!(mask().command(&words), expected);
    }
}

#[test]
fn secrets_in_text_are_masked_whatever_stands_around_them() {
    for (text, expected) in [
        ("password: X", "password: ***"),
        ("password = 'a b' next", "password = '***' next"),
        (r#"{"password": "a\"b", "user": "me"}"#, r#"{"password": "***", "user": "me"}"#),
        (r#"{\"password\": \"X\", \"n\": 1}"#, r#"{\"password\": \"***\", \"n\": 1}"#),
        ("auth=('me', 'PW'), n=1", "auth=***, n=1"),
        ("os.environ[\"HF_TOKEN\"] = \"X\"; go()", "os.environ[\"HF_TOKEN\"] = \"***\"; go()"),
        ("setdefault('HF_TOKEN', 'X')", "setdefault('HF_TOKEN', '***')"),
        ("Command '['python', '--hf-token', 'X']' failed", "Command '['python', '--hf-token', '***']' failed"),
        ("token: str = \"X\"", "token: ***\""),
        ("password=b'X' password=\"\"\"Y\"\"\" end", "password=b'***' password=\"\"\"***\"\"\" end"),
        ("--password 'it'\"'\"'s' end", "--password '*** end"),
        ("--token \\\n  X end", "--token \\\n  *** end"),
        ("<password>X</password>", "<password>***"),
        ("curl -H 'Authorization: Basic X' u", "curl -H 'Authorization: ***' u"),
        ("Authorization: Digest a=\"b\", c=\"d\"", "Authorization: Digest ***"),
        ("sent Bearer X now", "sent Bearer *** now"),
        ("sent Basic bWU6cHc= now", "sent Basic *** now"),
        ("x\\npassword=X", "x\\npassword=***"),
        ("git clone https://me:PW@host/x and ssh://git@host", "git clone https://***@host/x and ssh://***@host"),
        ("postgres://me:p/w@host:5432/x", "postgres://***@host:5432/x"),
        (
            "login hf_abcdefghijklmnopqrst done, url=https://x/?k=ghp_0123456789abcdefXYZ&b=1",
            "login *** done, url=https://x/?k=***&b=1",
        ),
        ("密码 password：X token=密 end", "密码 password：X token=*** end"),
    ] {
        assert_eq!(mask().text(text), expected, "of {text}");
    }
}

#[test]
fn words_that_only_look_like_secrets_stay() {
    for text in [
        "sk-learn and scikit, sk-learn-contrib-package, disk-usage-monitor-2",
        "hf_model_checkpoint and hf_transfer",
        "token=None, use_auth_token=False, password: null",
        "Basic configuration, Bearer token missing, bearer authentication",
        "tokens: 512 tokens/s=3 max_token=8 tokenizer: gpt2 author: A",
        "pip install git+https://github.com/x/y@main http://host:8080/a@b http://[::1]:80/",
        "docker run -u 1000:1000 image; python -u train.py",
        "key: value, the password was wrong",
    ] {
        assert_eq!(mask().text(text), text);
    }
}

#[test]
fn addresses_are_masked_and_versions_and_times_are_not() {
    for (text, expected) in [
        ("at 10.0.0.5:29500, 192.168.1.7.", "at <ip>:29500, <ip>."),
        ("--master_addr=10.0.0.5 tcp://8.8.8.8/24", "--master_addr=<ip> tcp://<ip>/24"),
        ("[fe80::1%eth0] 2001:db8::7: refused", "[<ip>%eth0] <ip>: refused"),
        ("::ffff:10.0.0.5 addr:fe80::1/64", "<ip> addr:<ip>/64"),
        ("ether aa:bb:cc:dd:ee:0f and AA-BB-CC-DD-EE-0F", "ether <mac> and <mac>"),
        ("\\n10.0.0.5 地址10.0.0.5", "\\n<ip> 地址<ip>"),
    ] {
        assert_eq!(mask().text(text), expected, "of {text}");
    }
    for text in [
        "torch 2.11.0, cuda 13.0.96, v9.1.0.70, libcudnn.so.9.1.0.70, cublas==12.1.3.1, version: 1.2.3.4, 1.2.3.4.5",
        "12:30:45 2026-12-01 17:30:45.123 26-12-01-17-30-45 0000:65:00.0",
        "127.0.0.1 0.0.0.0 ::1 :: x[1::2] c10::add at::add std::fe 300.1.1.1",
        "deadbeef-dead-beef-dead-beefdeadbeef",
    ] {
        assert_eq!(mask().text(text), text);
    }
}

#[test]
fn names_of_processes_are_masked_though_the_kernel_cuts_them() {
    for (name, expected) in [
        ("hf_ABCDEFGHIJKL", "***"),
        ("sk-proj-AB12cd3", "***"),
        ("alice-train", "<user>-train"),
        ("alice-on-lab-gp", "<user>-on-<host>"),
        ("python-lab-gpu-7", "python-<host>"),
        ("lab-gp", "lab-gp"),
        ("python3.12", "python3.12"),
        ("sk-learn-worker", "sk-learn-worker"),
        ("hf_transfer", "hf_transfer"),
    ] {
        assert_eq!(mask().process_name(name), expected);
    }
}

#[test]
fn home_user_and_host_do_not_reach_the_trace() {
    assert_eq!(mask().text("/home/alice/data on lab-gpu-7 by alice"), "~/data on <host> by <user>");
}

#[test]
fn settings_are_masked_by_their_names_and_by_what_they_hold() {
    let masked = Mask::of("/home/alice", "bo", "lab-gpu-7").values(
        &[
            ("hf_token", "X Y"),
            ("data", "/home/alice/d"),
            ("master", "10.0.0.5"),
            ("api_key", "None"),
            ("owner", "bo"),
            ("mode", "bo"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    );
    let masked: Vec<_> = masked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("api_key", "None"),
        ("data", "~/d"),
        ("hf_token", "***"),
        ("master", "<ip>"),
        ("mode", "bo"),
        ("owner", "<user>"),
    ];
    assert_eq!(masked, expected);
}

#[test]
fn the_name_of_a_process_is_kept_as_it_is_where_names_are() {
    assert_eq!(Mask::of_secrets().process_name("alice-on-lab-gp"), "alice-on-lab-gp");
}

#[test]
fn a_cut_letter_does_not_hide_the_beginning_of_a_name() {
    let mask = Mask::of("/home/王小明", "王小明", "g1");
    assert_eq!(mask.process_name("python-x-王小\u{fffd}"), "python-x-<user>");
}

#[test]
fn what_is_found_in_the_value_of_a_setting_is_told_by_its_kind() {
    let mask = Mask::of("/home/ann", "ann", "lab-gpu-7");
    for (name, value, expected) in [
        ("data", "/home/ann/x", Some(Found::Home)),
        ("data", "/nfs/home/bob/x", Some(Found::Name)),
        ("run", "on-lab-gpu-7", Some(Found::Name)),
        ("owner", "ann", Some(Found::Name)),
        ("master", "10.0.0.5", Some(Found::Address)),
        ("url", "https://me:pw@host", Some(Found::Secret)),
        ("optimizer", "ann", None),
        ("data", "~/x", None),
    ] {
        assert_eq!(mask.found(name, value), expected, "{name}={value}");
    }
    for (name, value, expected) in [("data", "/home/ann/x", None), ("url", "https://me:pw@host", Some(Found::Secret))] {
        assert_eq!(Mask::of_secrets().found(name, value), expected, "{name}={value}");
    }
}

#[test]
fn text_of_any_form_is_masked_without_harm_and_words_stay_as_many() {
    let pieces = [
        "token",
        "--hf-token",
        "=",
        ":",
        " ",
        "\"",
        "'",
        "\\",
        "\n",
        "X",
        "密",
        "(",
        "]",
        "://",
        "@",
        "Bearer",
        ",",
        "-u",
        "é",
        "/home/",
        "/",
        "alice",
        "bo",
        "%2F",
        "user",
        "m",
        "[3",
        "C:\\Users\\",
        "10.0.0.5",
        "aa:bb:cc:dd:ee:0f",
        "::",
        "hf_",
        "<",
        ">",
        "b",
        "0",
        "",
    ];
    let mut state = 1_u64;
    let mut word = || -> String {
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            pieces[usize::try_from(state >> 33).unwrap() % pieces.len()]
        };
        (0..6).map(next).collect()
    };
    for _ in 0..20_000 {
        let words = [word(), word(), word()];
        assert_eq!(mask().command(&words).len(), 3, "of {words:?}");
    }
}
