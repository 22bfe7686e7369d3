//! The version of the trace's schema, written in every JSON file and every Parquet footer.

use anyhow::{Result, bail};

/// What this program writes: `major.minor`.
///
/// A new column or key raises the minor: older readers ignore it, newer ones read null where it is missing.
/// A changed meaning raises the major.
pub const SCHEMA_VERSION: &str = "1.0";

/// Refuses a version that this program cannot read: another major, or no version at all.
///
/// # Errors
/// Names both versions and what to do.
pub fn check(found: &str) -> Result<()> {
    match major(found) {
        Some(found_major) if Some(found_major) == major(SCHEMA_VERSION) => Ok(()),
        Some(_) => bail!(
            "schema version {found} is of another major than {SCHEMA_VERSION}, which this shice reads; \
             use the shice that wrote the trace, or a newer one"
        ),
        None => bail!("{found:?} is no schema version (expected something like {SCHEMA_VERSION})"),
    }
}

/// Whether a trace may hold what this program does not know.
pub fn is_newer(found: &str) -> bool {
    let minor = |version: &str| version.split_once('.')?.1.parse::<u32>().ok();
    minor(found) > minor(SCHEMA_VERSION)
}

fn major(version: &str) -> Option<u32> {
    let (major, minor) = version.split_once('.')?;
    minor.parse::<u32>().ok()?;
    major.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_minor_is_read() {
        check("1.7").unwrap();
        assert!(is_newer("1.7") && !is_newer(SCHEMA_VERSION));
    }

    #[test]
    fn another_major_is_refused_and_both_are_named() {
        let message = check("2.0").unwrap_err().to_string();
        assert!(message.contains("2.0") && message.contains(SCHEMA_VERSION), "{message}");
    }

    #[test]
    fn words_are_no_version() {
        for word in ["", "1", "one.two", "1.x"] {
            assert!(check(word).is_err(), "{word}");
        }
    }
}
