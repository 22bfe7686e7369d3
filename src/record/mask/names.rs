//! Which names say that their value is secret.

/// A name that holds one of these, dashes and underscores left out, is secret.
const ANYWHERE: [&str; 6] = ["password", "passwd", "passphrase", "secret", "credential", "apikey"];
/// A name that ends with one of these words is secret.
const AT_END: [&str; 8] = ["auth", "oauth", "authorization", "cookie", "authtok", "sshpass", "dbpass", "userpass"];
/// Words before `key` that make it a secret: `sort-key` and `cache_key` are none.
const KEYS: [&str; 20] = [
    "access",
    "account",
    "api",
    "auth",
    "aws",
    "client",
    "encryption",
    "hf",
    "license",
    "master",
    "openai",
    "private",
    "service",
    "session",
    "shared",
    "signing",
    "ssh",
    "storage",
    "wandb",
    "anthropic",
];
/// Words before `pass` that make it a password: a forward pass is none.
const PASSES: [&str; 10] = ["db", "ftp", "http", "mail", "mysql", "pg", "proxy", "redis", "smtp", "user"];
/// Words before `token` that make it one of a text, not of a login.
const TEXT_TOKENS: [&str; 26] = [
    "pad", "eos", "bos", "unk", "mask", "sep", "cls", "image", "video", "audio", "special", "stop", "start", "end",
    "per", "next", "new", "first", "last", "max", "min", "num", "each", "extra", "prompt", "forced",
];

/// Whether an option, variable, field or header of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let Some(last) = words.last().map(String::as_str) else { return false };
    let before = words.len().checked_sub(2).map(|index| words[index].as_str());
    let whole = words.concat();
    let of = |list: &[&str]| before.is_some_and(|word| list.contains(&word));
    ANYWHERE.iter().any(|part| whole.contains(part))
        || AT_END.contains(&last)
        || match last {
            "key" => of(&KEYS) || before.is_some() && is_variable(name),
            "pass" => of(&PASSES) || name == "--pass",
            // PWD alone is the working folder.
            "pwd" | "pat" => before.is_some(),
            _ => last.ends_with("token") && !of(&TEXT_TOKENS) || last.ends_with("accesskey"),
        }
}

/// Whether it is spelled as environment variables are.
fn is_variable(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Words of `--hf-token`, `HF_TOKEN`, `hfToken` or `hf.token2`, in small letters; numbers at the end left out.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in name.chars() {
        let begins = !before.is_alphanumeric() || before.is_lowercase() && letter.is_uppercase();
        before = letter;
        if !letter.is_alphanumeric() {
            continue;
        }
        match words.last_mut() {
            Some(word) if !begins => word.extend(letter.to_lowercase()),
            _ => words.push(letter.to_lowercase().collect()),
        }
    }
    while let Some(last) = words.last_mut() {
        last.truncate(last.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        if !last.is_empty() {
            break;
        }
        words.pop();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_told_from_words_that_look_alike() {
        for name in [
            "--token",
            "--hf-token",
            "HF_TOKEN",
            "hfToken",
            "HF_TOKEN_2",
            "authtoken",
            "password",
            "--db-password1",
            "PGPASSWORD",
            "client_secret",
            "X-Api-Key",
            "apiKey",
            "api.key",
            "MY_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "Proxy-Authorization",
            "--auth",
            "Cookie",
            "MYSQL_PWD",
            "DB_PASS",
            "--pass",
            "GITHUB_PAT",
            "credentials",
        ] {
            assert!(is_secret_name(name), "{name} is secret");
        }
        for name in [
            "--tokens",
            "--max-tokens",
            "--tokenizer",
            "--pad-token",
            "eos_token",
            "--token-length",
            "author",
            "--authors",
            "auth-type",
            "key",
            "sort_key",
            "PWD",
            "--path",
            "forward-pass",
            "bypass",
            "compass",
            "1",
            "",
            "--epochs",
            "--",
            "pattern",
            "secured",
        ] {
            assert!(!is_secret_name(name), "{name} is not secret");
        }
    }
}
