//! Helps with a misspelt word: the nearest of those that are known.

/// Names the nearest known word where there is one that could be meant, and all that are known.
pub fn hint(word: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return "there is none here".to_owned();
    }
    let all = known.join(", ");
    match nearest(word, known) {
        Some(nearest) => format!("did you mean {nearest:?}? (known here: {all})"),
        None => format!("known here: {all}"),
    }
}

/// The known word with the fewest edits (a letter added, left out, changed, or swapped with its neighbour); `None`
/// where that would change more than half of it.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(&word.to_lowercase(), known);
    let best = known.iter().copied().min_by_key(|known| distance(known))?;
    let longest = word.chars().count().max(best.chars().count());
    (distance(best) * 2 <= longest).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_unless_none_is_near() {
        let known = ["repeats", "interval", "case", "environment"];
        for (word, expected) in [
            ("repeat", Some("repeats")),
            ("Repeats", Some("repeats")),
            ("intreval", Some("interval")),
            ("env", None),
            ("environments", Some("environment")),
            ("cases", Some("case")),
            ("x", None),
        ] {
            assert_eq!(nearest(word, &known), expected, "{word}");
        }
        assert_eq!(hint("casse", &["case", "a"]), "did you mean \"case\"? (known here: case, a)");
        assert_eq!(hint("x", &["case"]), "known here: case");
        assert_eq!(hint("x", &[]), "there is none here");
    }
}
