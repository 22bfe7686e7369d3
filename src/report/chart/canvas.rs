//! A sheet with a title, axes and a legend, on which charts draw in the units of their data.

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
const FINE: i32 = 4;

const LEFT: i32 = 84;
const RIGHT: i32 = 784;
const TOP: i32 = 104;
const BOTTOM: i32 = 340;
const TITLE_SIZE: i32 = 20;
const TEXT_SIZE: i32 = 16;

/// What an axis spans and where it is labelled.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// Values at the two ends; made apart and finite by [`Axis::new`].
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// An axis that cannot harm: whatever comes in, its ends are finite and apart.
    pub(super) fn new(low: f64, high: f64, ticks: Vec<(f64, String)>) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { low, high, ticks }
    }

    /// Share of the way from the low to the high end; beyond them, the end itself.
    fn share(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
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
pub(super) struct Canvas<'a> {
    area: Area<'a>,
    x: Axis,
    y: Axis,
}

/// Draws a chart: the frame, and in it whatever `body` draws. Returns the SVG.
///
/// # Errors
/// The font or the drawing fails.
pub(super) fn draw(labels: &Labels, x: Axis, y: Axis, body: impl FnOnce(&Canvas<'_>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let size = (WIDTH * FINE).unsigned_abs();
        let area = SVGBackend::with_string(&mut svg, (size, (HEIGHT * FINE).unsigned_abs())).into_drawing_area();
        let canvas = Canvas { area, x, y };
        canvas.grid()?;
        body(&canvas)?;
        canvas.words(labels)?;
        canvas.area.present().map_err(drawing)?;
    }
    Ok(svg)
}

impl<'a> Canvas<'a> {
    /// A line through points in units of the data.
    pub(super) fn line(&self, points: &[(f64, f64)], ink: Ink) -> Result<()> {
        let path: Vec<_> = points.iter().map(|point| self.at(*point)).collect();
        self.put(&PathElement::new(path, ink.colour.stroke_width(width(2))))
    }

    /// A level line over the whole width, quietly.
    pub(super) fn level(&self, y: f64, label: &str) -> Result<()> {
        let points = [(self.x.low, y), (self.x.high, y)].map(|point| self.at(point));
        self.put(&PathElement::new(points.to_vec(), palette::AXIS.colour.stroke_width(width(1))))?;
        let (right, height) = points[1];
        self.text(label, (right, height - 4 * FINE), TEXT_SIZE, palette::QUIET, HPos::Right, VPos::Bottom)
    }

    /// A band between two lines.
    pub(super) fn band(&self, low: &[(f64, f64)], high: &[(f64, f64)], ink: Ink) -> Result<()> {
        let outline: Vec<_> = low.iter().chain(high.iter().rev()).map(|point| self.at(*point)).collect();
        self.put(&Polygon::new(outline, ink.colour.mix(0.22)))
    }

    /// A bar from the axis up.
    pub(super) fn bar(&self, from: f64, to: f64, height: f64, ink: Ink) -> Result<()> {
        let corners = [self.at((from, height)), self.at((to, self.y.low))];
        self.put(&Rectangle::new(corners, ink.colour.filled()))
    }

    /// A thin upright line: the spread of a bar.
    pub(super) fn whisker(&self, x: f64, low: f64, high: f64) -> Result<()> {
        let points = [(x, low), (x, high)].map(|point| self.at(point));
        self.put(&PathElement::new(points.to_vec(), palette::TEXT.colour.stroke_width(width(2))))
    }

    /// A dot, with a label that stays on the sheet.
    pub(super) fn mark(&self, point: (f64, f64), label: &str, ink: Ink) -> Result<()> {
        let (x, y) = self.at(point);
        self.put(&Circle::new((x, y), width(5), ink.colour.filled()))?;
        let half = self.width_of(label, TEXT_SIZE)? / 2;
        let x = x.clamp(LEFT * FINE + half, (RIGHT * FINE - half).max(LEFT * FINE + half));
        let place = if y - 26 * FINE < TOP * FINE { (y + 12 * FINE, VPos::Top) } else { (y - 9 * FINE, VPos::Bottom) };
        self.text(label, (x, place.0), TEXT_SIZE, palette::TEXT, HPos::Center, place.1)
    }

    /// Level lines with their labels, and the time axis.
    fn grid(&self) -> Result<()> {
        for (value, label) in &self.y.ticks {
            let (_, y) = self.at((self.x.low, *value));
            let ink = if *value == self.y.low { palette::AXIS } else { palette::GRID };
            let path = vec![(LEFT * FINE, y), (RIGHT * FINE, y)];
            self.put(&PathElement::new(path, ink.colour.stroke_width(width(1))))?;
            self.text(label, ((LEFT - 10) * FINE, y), TEXT_SIZE, palette::QUIET, HPos::Right, VPos::Center)?;
        }
        for (value, label) in &self.x.ticks {
            let (x, _) = self.at((*value, self.y.low));
            self.text(label, (x, (BOTTOM + 10) * FINE), TEXT_SIZE, palette::QUIET, HPos::Center, VPos::Top)?;
        }
        Ok(())
    }

    fn words(&self, labels: &Labels) -> Result<()> {
        let title = self.fit(&labels.title, TITLE_SIZE, WIDTH - 32)?;
        self.text(&title, (16 * FINE, 12 * FINE), TITLE_SIZE, palette::TEXT, HPos::Left, VPos::Top)?;
        let subtitle = self.fit(&labels.subtitle, TEXT_SIZE, WIDTH - 32)?;
        self.text(&subtitle, (16 * FINE, 41 * FINE), TEXT_SIZE, palette::QUIET, HPos::Left, VPos::Top)?;
        let middle = (LEFT + RIGHT) / 2 * FINE;
        self.text(&labels.x, (middle, (BOTTOM + 34) * FINE), TEXT_SIZE, palette::QUIET, HPos::Center, VPos::Top)?;
        self.legend(&labels.legend)
    }

    fn legend(&self, entries: &[(String, Ink)]) -> Result<()> {
        let (mut x, y) = (16 * FINE, 78 * FINE);
        for (label, ink) in entries {
            let stroke = ink.colour.stroke_width(width(4));
            self.put(&PathElement::new(vec![(x, y), (x + 22 * FINE, y)], stroke))?;
            self.text(label, (x + 30 * FINE, y), TEXT_SIZE, palette::TEXT, HPos::Left, VPos::Center)?;
            x += 56 * FINE + self.width_of(label, TEXT_SIZE)?;
        }
        Ok(())
    }

    fn at(&self, (x, y): (f64, f64)) -> (i32, i32) {
        let across = f64::from(LEFT) + self.x.share(x) * f64::from(RIGHT - LEFT);
        let down = f64::from(BOTTOM) - self.y.share(y) * f64::from(BOTTOM - TOP);
        ((across * f64::from(FINE)).round() as i32, (down * f64::from(FINE)).round() as i32)
    }

    fn text(&self, text: &str, at: (i32, i32), size: i32, ink: Ink, across: HPos, down: VPos) -> Result<()> {
        let style =
            (font::FAMILY, size * FINE).into_text_style(&self.area).color(&ink.colour).pos(Pos::new(across, down));
        self.put(&Text::new(font::drawable(text), at, style))
    }

    /// Width of text in fine units.
    fn width_of(&self, text: &str, size: i32) -> Result<i32> {
        Ok(font::width(&font::drawable(text), f64::from(size * FINE))?.ceil() as i32)
    }

    /// Text cut to a width, with an ellipsis where it was cut.
    fn fit(&self, text: &str, size: i32, room: i32) -> Result<String> {
        let mut fitted = text.to_owned();
        let mut kept: Vec<char> = text.chars().collect();
        while self.width_of(&fitted, size)? > room * FINE && kept.pop().is_some() {
            fitted = kept.iter().collect::<String>() + "…";
        }
        Ok(fitted)
    }

    fn put<'e, E>(&self, element: &'e E) -> Result<()>
    where
        &'e E: PointCollection<'e, (i32, i32)>,
        E: Drawable<SVGBackend<'a>>,
    {
        self.area.draw(element).map_err(drawing)
    }
}

fn width(pixels: i32) -> u32 {
    (pixels * FINE).unsigned_abs()
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw the chart: {error}")
}
