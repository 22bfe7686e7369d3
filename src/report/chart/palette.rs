//! The colours of charts. Each is reserved: it stands in the SVG for nothing but its role, so that one function can turn
//! it into a CSS variable and the page's dark mode reaches the chart.

use plotters::style::RGBColor;

/// A role, its colour on white, and the CSS variable that takes its place in a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ink {
    pub(super) colour: RGBColor,
    variable: &'static str,
}

pub(super) const TEXT: Ink = ink(0x1F, 0x29, 0x33, "--chart-text");
pub(super) const QUIET: Ink = ink(0x5A, 0x67, 0x76, "--chart-quiet");
pub(super) const GRID: Ink = ink(0xE4, 0xE8, 0xEC, "--chart-grid");
pub(super) const AXIS: Ink = ink(0x9A, 0xA5, 0xB1, "--chart-axis");

/// For series, in the order of their use: the colours of Okabe and Ito that hold on white.
pub(super) const SERIES: [Ink; 5] = [
    ink(0x00, 0x72, 0xB2, "--chart-1"),
    ink(0xD5, 0x5E, 0x00, "--chart-2"),
    ink(0x00, 0x9E, 0x73, "--chart-3"),
    ink(0xCC, 0x79, 0xA7, "--chart-4"),
    ink(0xE6, 0x9F, 0x00, "--chart-5"),
];

/// How busy a core was, from nothing to all of the time: ColorBrewer's YlGnBu, whose lightness falls step by step, so that
/// it can be told without seeing colours. In the dark it runs the other way.
pub(super) const HEAT: [Ink; 8] = [
    ink(0xFF, 0xFF, 0xD9, "--heat-1"),
    ink(0xED, 0xF8, 0xB1, "--heat-2"),
    ink(0xC7, 0xE9, 0xB4, "--heat-3"),
    ink(0x7F, 0xCD, 0xBB, "--heat-4"),
    ink(0x41, 0xB6, 0xC4, "--heat-5"),
    ink(0x1D, 0x91, 0xC0, "--heat-6"),
    ink(0x22, 0x5E, 0xA8, "--heat-7"),
    ink(0x0C, 0x2C, 0x84, "--heat-8"),
];

fn all() -> impl Iterator<Item = &'static Ink> {
    [&TEXT, &QUIET, &GRID, &AXIS].into_iter().chain(&SERIES).chain(&HEAT)
}

const fn ink(red: u8, green: u8, blue: u8, variable: &'static str) -> Ink {
    Ink { colour: RGBColor(red, green, blue), variable }
}

/// Puts CSS variables in the place of the reserved colours.
pub(super) fn with_variables(svg: &str) -> String {
    all().fold(svg.to_owned(), |svg, ink| {
        let RGBColor(red, green, blue) = ink.colour;
        svg.replace(&format!("\"#{red:02X}{green:02X}{blue:02X}\""), &format!("\"var({})\"", ink.variable))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_defines_every_variable_for_light_and_dark() {
        let style = include_str!("../../../templates/page.css");
        for ink in all() {
            let defined = style.matches(&format!("{}:", ink.variable)).count();
            assert_eq!(defined, 2, "{}", ink.variable);
        }
    }

    #[test]
    fn no_colour_is_left_after_mapping() {
        let mapped = with_variables("<line stroke=\"#0072B2\"/><text fill=\"#1F2933\">#0072B2</text>");
        assert_eq!(mapped, "<line stroke=\"var(--chart-1)\"/><text fill=\"var(--chart-text)\">#0072B2</text>");
    }
}
