//! The font that charts are measured and rasterised with.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use ttf_parser::Face;

use crate::report::escape;

/// Subset of Noto Sans CJK SC; how it was made stands beside it.
pub(super) const FONT: &[u8] = include_bytes!("../../../templates/fonts/NotoSansSC-subset.otf");

/// The family that the SVG names: browsers take their own font, the rasteriser takes [`FONT`].
pub(super) const FAMILY: &str = "sans-serif";

/// Width of text at a size, in the unit of the size.
///
/// # Errors
/// The bundled font cannot be read.
pub(super) fn width(text: &str, size: f64) -> Result<f64> {
    let face = Face::parse(FONT, 0).context("the bundled font cannot be read")?;
    let advance = |c| face.glyph_index(c).and_then(|glyph| face.glyph_hor_advance(glyph)).map_or(0.0, f64::from);
    Ok(text.chars().map(advance).sum::<f64>() / f64::from(face.units_per_em()) * size)
}

/// Characters of a text that the font lacks, each once, in their order.
pub(super) fn missing(text: &str) -> Vec<char> {
    let Ok(face) = Face::parse(FONT, 0) else { return Vec::new() };
    let missing: BTreeSet<char> = escape::line(text).chars().filter(|c| face.glyph_index(*c).is_none()).collect();
    missing.into_iter().collect()
}

/// Text as charts can show it: one line, a box for every character that the font lacks.
pub(super) fn drawable(text: &str) -> String {
    let Ok(face) = Face::parse(FONT, 0) else { return escape::line(text) };
    escape::line(text).chars().map(|c| if face.glyph_index(c).is_some() { c } else { escape::MISSING }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signs of checks: they stand in tables, which browsers draw, and in no chart.
    const NOT_IN_CHARTS: [char; 3] = ['✅', '⚠', '❌'];

    #[test]
    fn the_font_has_every_character_of_the_templates() {
        let templates = [
            include_str!("../../../templates/zh/report.md"),
            include_str!("../../../templates/zh/words.json"),
            include_str!("../../../templates/en/report.md"),
            include_str!("../../../templates/en/words.json"),
        ];
        for template in templates {
            let text: String = template.chars().filter(|c| !c.is_control() && !NOT_IN_CHARTS.contains(c)).collect();
            let missing: Vec<char> =
                text.chars().zip(drawable(&text).chars()).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
            assert!(missing.is_empty(), "the font lacks {missing:?}: add them in templates/fonts/subset.py");
        }
    }

    #[test]
    fn a_han_character_is_as_wide_as_its_size() {
        assert_eq!(width("训练", 16.0).unwrap(), 32.0);
    }

    #[test]
    fn a_character_that_the_font_lacks_becomes_a_box() {
        assert_eq!(drawable("训练 🔥\u{202E}"), "训练 □□");
        assert_eq!(missing("b🔥 训练 \u{202E}한🔥"), ['한', '🔥']);
    }
}
