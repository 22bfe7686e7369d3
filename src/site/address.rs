//! Addresses: of files beside a page, and names of things that have no address.

/// A path as the path of an address: whatever could mean something else in one stands as `%XX`.
pub fn encode(path: &str) -> String {
    let keeps = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/=".contains(&byte);
    path.bytes().map(|byte| if keeps(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A file as part of an address, for pages that stand alone.
pub(super) fn data(kind: &str, text: &str) -> String {
    format!("data:{kind};charset=utf-8,{}", encode(text))
}

/// A name that stays the same wherever a site lies: a UUID (version 8, RFC 9562) out of a hash of what is named.
pub(super) fn urn(parts: &[&str]) -> String {
    // FNV-1a with 128 bits: stable over releases, which std's hashers do not promise.
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    let version = hash & !(0xf << 76) | (8 << 76);
    let hex = format!("{:032x}", version & !(0b11 << 62) | (0b10 << 62));
    format!("urn:uuid:{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_an_address_is_encoded() {
        assert_eq!(encode("a b/environment=x/100%?#.parquet"), "a%20b/environment=x/100%25%3F%23.parquet");
        assert_eq!(encode("中"), "%E4%B8%AD");
    }

    #[test]
    fn names_are_uuids_of_version_8_and_differ_where_a_part_does() {
        // Computed with Python: h = offset; for b in b"a\0b\0": h = ((h ^ b) * prime) % 2**128; then version and variant.
        assert_eq!(urn(&["a", "b"]), "urn:uuid:6971299c-b675-8277-b806-e976f537e9be");
        assert_ne!(urn(&["ab", ""]), urn(&["a", "b"]));
        assert_eq!(urn(&["a", "b"]).split('-').nth(2).and_then(|part| part.chars().next()), Some('8'));
    }
}
