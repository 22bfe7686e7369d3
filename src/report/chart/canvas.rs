//! A sheet with a title, axes and a legend, on which charts draw in the units of their data.

use std::cell::RefCell;
use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::font;
use super::palette::{self, Ink};

/// Size of a chart in CSS pixels.
pub(super) const WIDTH: i32 = 800;
pub(super) const HEIGHT: i32 = 400;

/// plotters rounds to whole units: a finer grid than CSS pixels keeps lines smooth.
pub(super) const FINE: i32 = 4;

const LEGEND_LINE: i32 = 26;
const TITLE_SIZE: i32 = 20;
pub(super) const TEXT_SIZE: i32 = 16;

/// Where on a sheet a panel's data lie, in CSS pixels; labels stand around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
}

impl Frame {
    /// The frame of a chart that has one panel, on a sheet of [`HEIGHT`].
    pub(super) const WHOLE: Self = Self { left: 84, right: 784, top: 104, bottom: 340 };
}

/// What an axis spans and where it is labelled.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Values at the two ends; made apart and finite by [`Axis::new`].
    low: f64,
    high: f64,
    /// Whether equal lengths along it are equal ratios.
    is_log: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis that cannot harm: whatever comes in, its ends are finite and apart.
    pub(super) fn new(low: f64, high: f64, ticks: Vec<(f64, String)>) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { low, high, is_log: false, ticks }
    }

    /// The same on which equal lengths are equal ratios; plain where an end is not above zero.
    pub(super) fn log(low: f64, high: f64, ticks: Vec<(f64, String)>) -> Self {
        let axis = Self::new(low, high, ticks);
        Self { is_log: axis.low > 0.0, ..axis }
    }

    /// The same in a unit that is this many times smaller.
    pub(super) fn stretched(self, times: f64) -> Self {
        let ticks = self.ticks.into_iter().map(|(value, label)| (value * times, label)).collect();
        Self { low: self.low * times, high: self.high * times, ticks, ..self }
    }

    /// Without labels.
    pub(super) fn bare(self) -> Self {
        Self { ticks: Vec::new(), ..self }
    }

    #[cfg(test)]
    pub(super) fn labels(&self) -> Vec<&str> {
        self.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    /// Share of the way from the low to the high end; beyond them, and for what is no number, an end itself.
    fn share(&self, value: f64) -> f64 {
        let along = |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (low, high) = (along(self.low), along(self.high));
        let share = ((along(value) - low) / (high - low)).clamp(0.0, 1.0);
        if share.is_nan() { 0.0 } else { share }
    }
}

/// Words around a chart.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) x: String,
    /// A line of text each, with its colour.
    pub(super) legend: Vec<(String, Ink)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The sheet while it is drawn on.
pub(super) struct Sheet<'a> {
    area: Area<'a>,
    height: i32,
    /// Shapes that plotters would draw one by one, at many times the size.
    paths: RefCell<String>,
}

/// A panel of a sheet, on which is drawn in the units of its axes.
pub(super) struct Canvas<'s, 'a> {
    sheet: &'s Sheet<'a>,
    frame: Frame,
    x: Axis,
    y: Axis,
}

/// Draws a chart of one panel: the frame, and in it whatever `body` draws. Returns the SVG.
///
/// # Errors
/// The font or the drawing fails.
pub(super) fn draw(
    labels: &Labels,
    x: Axis,
    y: Axis,
    body: impl FnOnce(&Canvas<'_, '_>) -> Result<()>,
) -> Result<String> {
    // A legend of several lines pushes the panel down, and none lets it up.
    let pushed = legend_lines(&labels.legend)? * LEGEND_LINE;
    let Frame { left, right, top, bottom } = Frame::WHOLE;
    let frame = Frame { left, right, top: top + pushed, bottom: bottom + pushed };
    sheet(labels, HEIGHT + pushed, |sheet| {
        let canvas = sheet.panel(frame, x, y);
        canvas.grid()?;
        body(&canvas)
    })
}

/// Draws a sheet: its words, and whatever panels `body` puts on it. Returns the SVG.
///
/// # Errors
/// The font or the drawing fails.
pub(super) fn sheet(labels: &Labels, height: i32, body: impl FnOnce(&Sheet<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    let paths = {
        let size = ((WIDTH * FINE).unsigned_abs(), (height * FINE).unsigned_abs());
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let sheet = Sheet { area, height, paths: RefCell::default() };
        body(&sheet)?;
        sheet.words(labels)?;
        sheet.area.present().map_err(drawing)?;
        sheet.paths.into_inner()
    };
    Ok(match svg.rfind("</svg>") {
        Some(end) => format!("{}{paths}{}", &svg[..end], &svg[end..]),
        None => svg,
    })
}

impl<'a> Sheet<'a> {
    pub(super) fn panel(&self, frame: Frame, x: Axis, y: Axis) -> Canvas<'_, 'a> {
        Canvas { sheet: self, frame, x, y }
    }

    fn words(&self, labels: &Labels) -> Result<()> {
        let title = fit(&labels.title, TITLE_SIZE, WIDTH - 32)?;
        self.text(&title, (16 * FINE, 12 * FINE), TITLE_SIZE, palette::TEXT, (HPos::Left, VPos::Top))?;
        let subtitle = fit(&labels.subtitle, TEXT_SIZE, WIDTH - 32)?;
        self.text(&subtitle, (16 * FINE, 41 * FINE), TEXT_SIZE, palette::QUIET, (HPos::Left, VPos::Top))?;
        let middle = (Frame::WHOLE.left + Frame::WHOLE.right) / 2 * FINE;
        self.text(
            &labels.x,
            (middle, (self.height - 26) * FINE),
            TEXT_SIZE,
            palette::QUIET,
            (HPos::Center, VPos::Top),
        )?;
        self.legend(&labels.legend)
    }

    fn legend(&self, entries: &[(String, Ink)]) -> Result<()> {
        for ((label, ink), (x, line)) in entries.iter().zip(legend_places(entries)?) {
            let y = (78 + line * LEGEND_LINE) * FINE;
            let stroke = ink.colour.stroke_width(width(4));
            self.put(&PathElement::new(vec![(x, y), (x + 22 * FINE, y)], stroke))?;
            self.text(label, (x + 30 * FINE, y), TEXT_SIZE, palette::TEXT, (HPos::Left, VPos::Center))?;
        }
        Ok(())
    }

    /// Text at a place in CSS pixels, upright in the middle of it.
    pub(super) fn label(&self, text: &str, (x, y): (i32, i32), ink: Ink, across: HPos) -> Result<()> {
        self.text(text, (x * FINE, y * FINE), TEXT_SIZE, ink, (across, VPos::Center))
    }

    /// A filled rectangle between two corners in CSS pixels.
    pub(super) fn swatch(&self, from: (i32, i32), to: (i32, i32), ink: Ink) -> Result<()> {
        let corners = [from, to].map(|(x, y)| (x * FINE, y * FINE));
        self.put(&Rectangle::new(corners, ink.colour.filled()))
    }

    fn text(&self, text: &str, at: (i32, i32), size: i32, ink: Ink, (across, down): (HPos, VPos)) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let style =
            (font::FAMILY, size * FINE).into_text_style(&self.area).color(&ink.colour).pos(Pos::new(across, down));
        self.put(&Text::new(font::drawable(text), at, style))
    }

    fn put<'e, E>(&self, element: &'e E) -> Result<()>
    where
        &'e E: PointCollection<'e, (i32, i32)>,
        E: Drawable<SVGBackend<'a>>,
    {
        self.area.draw(element).map_err(drawing)
    }
}

impl Canvas<'_, '_> {
    /// A line through points in units of the data.
    pub(super) fn line(&self, points: &[(f64, f64)], ink: Ink) -> Result<()> {
        let path: Vec<_> = points.iter().map(|point| self.at(*point)).collect();
        self.sheet.put(&PathElement::new(path, ink.colour.stroke_width(width(2))))
    }

    /// A level line over the whole width, quietly.
    pub(super) fn level(&self, y: f64, label: &str) -> Result<()> {
        let points = [(self.x.low, y), (self.x.high, y)].map(|point| self.at(point));
        self.sheet.put(&PathElement::new(points.to_vec(), palette::AXIS.colour.stroke_width(width(1))))?;
        let (right, height) = points[1];
        self.sheet.text(label, (right, height - 4 * FINE), TEXT_SIZE, palette::QUIET, (HPos::Right, VPos::Bottom))
    }

    /// An upright line over the whole height, with its label at the top, a number of lines down.
    pub(super) fn upright(&self, x: f64, label: &str, down: i32, ink: Ink) -> Result<()> {
        let points = [(x, self.y.low), (x, self.y.high)].map(|point| self.at(point));
        self.sheet.put(&PathElement::new(points.to_vec(), ink.colour.stroke_width(width(2))))?;
        let (x, _) = points[1];
        let (side, gap) =
            if x > (self.frame.left + self.frame.right) * FINE / 2 { (HPos::Right, -6) } else { (HPos::Left, 6) };
        let y = (self.frame.top + 12 + 22 * down) * FINE;
        self.sheet.text(label, (x + gap * FINE, y), TEXT_SIZE, palette::TEXT, (side, VPos::Center))
    }

    /// A band between two lines.
    pub(super) fn band(&self, low: &[(f64, f64)], high: &[(f64, f64)], ink: Ink) -> Result<()> {
        let outline: Vec<_> = low.iter().chain(high.iter().rev()).map(|point| self.at(*point)).collect();
        self.sheet.put(&Polygon::new(outline, ink.colour.mix(0.22)))
    }

    /// Shades all between two places of the x axis.
    pub(super) fn shade(&self, from: f64, to: f64, ink: Ink) -> Result<()> {
        let corners = [self.at((from, self.y.high)), self.at((to, self.y.low))];
        self.sheet.put(&Rectangle::new(corners, ink.colour.mix(0.22).filled()))
    }

    /// A rectangle between two corners in units of the data.
    pub(super) fn bar(&self, from: (f64, f64), to: (f64, f64), ink: Ink) -> Result<()> {
        self.sheet.put(&Rectangle::new([self.at(from), self.at(to)], ink.colour.filled()))
    }

    /// A thin line with a cap at each end, upright or level: the spread of a bar or a dot.
    pub(super) fn whisker(&self, from: (f64, f64), to: (f64, f64)) -> Result<()> {
        let points = [from, to].map(|point| self.at(point));
        let cap = 5 * FINE;
        let (across, down) = if points[0].0 == points[1].0 { (cap, 0) } else { (0, cap) };
        let caps = points.map(|(x, y)| vec![(x - across, y - down), (x + across, y + down)]);
        for path in [points.to_vec()].into_iter().chain(caps) {
            self.sheet.put(&PathElement::new(path, palette::TEXT.colour.stroke_width(width(2))))?;
        }
        Ok(())
    }

    /// A dot.
    pub(super) fn dot(&self, point: (f64, f64), ink: Ink) -> Result<()> {
        self.sheet.put(&Circle::new(self.at(point), width(5), ink.colour.filled()))
    }

    /// A dot with a label.
    pub(super) fn mark(&self, point: (f64, f64), label: &str, ink: Ink) -> Result<()> {
        self.dot(point, ink)?;
        self.note(point, label)
    }

    /// A label above a point, or below where there is no room; it stays on the panel.
    pub(super) fn note(&self, point: (f64, f64), label: &str) -> Result<()> {
        let (x, y) = self.at(point);
        let half = width_of(label, TEXT_SIZE)? / 2;
        let left = self.frame.left * FINE + half;
        let x = x.clamp(left, (self.frame.right * FINE - half).max(left));
        let above = y - 26 * FINE >= self.frame.top * FINE;
        let (y, down) = if above { (y - 9 * FINE, VPos::Bottom) } else { (y + 12 * FINE, VPos::Top) };
        self.sheet.text(label, (x, y), TEXT_SIZE, palette::TEXT, (HPos::Center, down))
    }

    /// Text to the right of a point.
    pub(super) fn beside(&self, point: (f64, f64), label: &str, ink: Ink) -> Result<()> {
        let (x, y) = self.at(point);
        self.sheet.text(label, (x + 7 * FINE, y), TEXT_SIZE, ink, (HPos::Left, VPos::Center))
    }

    /// Many rectangles of one colour, given by two corners each, in units of the data.
    pub(super) fn cells(&self, cells: &[[(f64, f64); 2]], ink: Ink) {
        let mut paths = self.sheet.paths.borrow_mut();
        paths.push_str("<path shape-rendering=\"crispEdges\" d=\"");
        for [from, to] in cells {
            let ((left, top), (right, bottom)) = (self.at(*from), self.at(*to));
            let (across, down) = (right - left, bottom - top);
            // Writing to a string cannot fail.
            let _ = write!(paths, "M{left} {top}h{across}v{down}h{}z", -across);
        }
        let RGBColor(red, green, blue) = ink.colour;
        let _ = writeln!(paths, "\" fill=\"#{red:02X}{green:02X}{blue:02X}\"/>");
    }

    /// Where a share of the y axis is, in units of the data.
    pub(super) fn height_at(&self, share: f64) -> f64 {
        self.y.low + share * (self.y.high - self.y.low)
    }

    /// Level lines, and the labels of both axes.
    pub(super) fn grid(&self) -> Result<()> {
        for (value, _) in &self.y.ticks {
            let (_, y) = self.at((self.x.low, *value));
            let ink = if *value == self.y.low { palette::AXIS } else { palette::GRID };
            let path = vec![(self.frame.left * FINE, y), (self.frame.right * FINE, y)];
            self.sheet.put(&PathElement::new(path, ink.colour.stroke_width(width(1))))?;
        }
        self.labels()
    }

    /// The labels of both axes.
    pub(super) fn labels(&self) -> Result<()> {
        for (value, label) in &self.y.ticks {
            let (_, y) = self.at((self.x.low, *value));
            let at = ((self.frame.left - 10) * FINE, y);
            self.sheet.text(label, at, TEXT_SIZE, palette::QUIET, (HPos::Right, VPos::Center))?;
        }
        for (value, label) in &self.x.ticks {
            self.below(*value, label)?;
        }
        Ok(())
    }

    /// Upright lines with the labels of the x axis: the grid of bars that lie. It is drawn over some stretches of the y
    /// axis, so that text between them stays free.
    pub(super) fn upright_grid(&self, stretches: &[(f64, f64)]) -> Result<()> {
        for (value, label) in &self.x.ticks {
            let ink = if *value == self.x.low { palette::AXIS } else { palette::GRID };
            for (from, to) in stretches {
                let path = [*from, *to].map(|y| self.at((*value, y))).to_vec();
                self.sheet.put(&PathElement::new(path, ink.colour.stroke_width(width(1))))?;
            }
            self.below(*value, label)?;
        }
        Ok(())
    }

    fn below(&self, x: f64, label: &str) -> Result<()> {
        let (x, _) = self.at((x, self.y.low));
        let at = (x, (self.frame.bottom + 10) * FINE);
        self.sheet.text(label, at, TEXT_SIZE, palette::QUIET, (HPos::Center, VPos::Top))
    }

    fn at(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let Frame { left, right, top, bottom } = self.frame;
        let across = f64::from(left) + self.x.share(x) * f64::from(right - left);
        let down = f64::from(bottom) - self.y.share(y) * f64::from(bottom - top);
        ((across * f64::from(FINE)).round() as i32, (down * f64::from(FINE)).round() as i32)
    }
}

/// Where the entries of a legend stand: how far across in fine units, and on which line.
fn legend_places(entries: &[(String, Ink)]) -> Result<Vec<(i32, i32)>> {
    let (mut x, mut line) = (16 * FINE, 0);
    let mut places = Vec::new();
    for (label, _) in entries {
        let width = 30 * FINE + width_of(label, TEXT_SIZE)?;
        if x > 16 * FINE && x + width > (WIDTH - 16) * FINE {
            (x, line) = (16 * FINE, line + 1);
        }
        places.push((x, line));
        x += width + 26 * FINE;
    }
    Ok(places)
}

/// Lines of a legend beyond the first; one fewer than none where there is no legend.
fn legend_lines(entries: &[(String, Ink)]) -> Result<i32> {
    Ok(legend_places(entries)?.last().map_or(-1, |(_, line)| *line))
}

/// Width of text in fine units.
fn width_of(text: &str, size: i32) -> Result<i32> {
    Ok(font::width(&font::drawable(text), f64::from(size * FINE))?.ceil() as i32)
}

/// Width of a label in CSS pixels.
///
/// # Errors
/// The bundled font cannot be read.
pub(super) fn label_width(text: &str) -> Result<i32> {
    Ok(width_of(text, TEXT_SIZE)?.div_euclid(FINE) + 1)
}

/// A label cut to a width in CSS pixels.
///
/// # Errors
/// The bundled font cannot be read.
pub(super) fn fitted(text: &str, room: i32) -> Result<String> {
    fit(text, TEXT_SIZE, room)
}

/// Text cut to a width, with an ellipsis where it was cut.
fn fit(text: &str, size: i32, room: i32) -> Result<String> {
    let mut fitted = text.to_owned();
    let mut kept: Vec<char> = text.chars().collect();
    while width_of(&fitted, size)? > room * FINE && kept.pop().is_some() {
        fitted = kept.iter().collect::<String>() + "…";
    }
    Ok(fitted)
}

fn width(pixels: i32) -> u32 {
    (pixels * FINE).unsigned_abs()
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw the chart: {error}")
}
