//! Shows a page in the user's browser.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::site::encode;

/// Names the browsers to try, in order, separated by colons; `%s` stands for the page, which else comes last.
const VARIABLE: &str = "BROWSER";
/// What a desktop opens files with.
const OF_THE_DESKTOP: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens a page and waits until the browser, or what starts it, has returned: a browser in the terminal needs it.
///
/// # Errors
/// There is no browser, or it fails; where the page is, is told.
pub(super) fn open(page: &Path) -> Result<()> {
    let page = std::path::absolute(page).with_context(|| format!("cannot tell where {} is", page.display()))?;
    let address = format!("file://{}", encode(&page.display().to_string()));
    let named = std::env::var(VARIABLE).unwrap_or_default();
    let mut browsers: Vec<&str> = named.split(':').filter(|browser| !browser.trim().is_empty()).collect();
    if browsers.is_empty() {
        browsers.push(OF_THE_DESKTOP);
    }
    for browser in &browsers {
        let words = command(browser, &address);
        match Command::new(OsStr::new(&words[0])).args(&words[1..]).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => {
                bail!("the report is ready, but {browser} did not show it ({status}); open {address} yourself")
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                bail!("the report is ready, but {browser} cannot be started ({error}); open {address} yourself")
            }
        }
    }
    bail!(
        "the report is ready, but there is no {} to show it; open {address} yourself, or set {VARIABLE}",
        browsers.join(" or ")
    )
}

/// The words of a browser's command. The page is one word, whatever it holds.
fn command(browser: &str, address: &str) -> Vec<String> {
    let mut words: Vec<String> = browser.split_whitespace().map(|word| word.replace("%s", address)).collect();
    if !browser.contains("%s") {
        words.push(address.to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_stands_where_the_browser_wants_it() {
        assert_eq!(command("firefox --new-window", "file:///a"), ["firefox", "--new-window", "file:///a"]);
        assert_eq!(command("lynx -dump %s", "file:///a"), ["lynx", "-dump", "file:///a"]);
    }
}
