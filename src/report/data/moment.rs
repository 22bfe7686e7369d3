//! Moments as programs want them.

use crate::report::format;

/// A moment as RFC 3339 has it, in UTC to the second.
pub(crate) fn rfc3339(unix_ns: i64) -> String {
    format!("{}Z", format::utc(unix_ns).replacen(' ', "T", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_rfc_3339_has_them() {
        assert_eq!(rfc3339(951_827_696_999_000_000), "2000-02-29T12:34:56Z");
    }
}
