//! Charts, drawn once as SVG: a page takes it with CSS variables for colours, Markdown takes it rasterised.

use anyhow::{Context, Result};

use self::csv::Csv;
use super::escape;

pub(crate) mod bars;
mod canvas;
pub(crate) mod cores;
pub(crate) mod course;
pub(crate) mod csv;
mod font;
pub(crate) mod heat;
pub(crate) mod lines;
mod palette;
mod png;
pub(crate) mod sensors;
pub(crate) mod steps;
mod ticks;

pub(crate) use ticks::TimeUnit;

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Drawing<'a> {
    Course(course::CourseChart<'a>),
    Cores(cores::CoreChart<'a>),
    Bars(bars::BarChart),
    Lines(lines::LineChart),
    Heat(heat::HeatChart),
    Steps(steps::StepChart<'a>),
    Distribution(steps::DistributionChart<'a>),
    Sensors(sensors::SensorChart<'a>),
}

/// What a chart is called: its id, the path of its picture, and what stands for it where it cannot be seen.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) description: String,
}

/// A chart of a report.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Unique within the report.
    pub id: String,
    /// Of its PNG, relative to the report.
    pub path: String,
    /// Stands for the chart where it cannot be seen.
    pub description: String,
    /// Its numbers, in full where the drawing is thinned out.
    pub csv: String,
    svg: String,
}

impl Chart {
    /// Draws a chart.
    ///
    /// # Errors
    /// The drawing fails; the chart is named.
    pub(crate) fn draw(named: Named, numbers: Csv, drawing: &Drawing<'_>) -> Result<Self> {
        let Named { id, path, description } = named;
        let (title, drawn) = match drawing {
            Drawing::Course(chart) => (&chart.title, course::draw(chart)),
            Drawing::Cores(chart) => (&chart.title, cores::draw(chart)),
            Drawing::Bars(chart) => (&chart.title, bars::draw(chart)),
            Drawing::Lines(chart) => (&chart.title, lines::draw(chart)),
            Drawing::Heat(chart) => (&chart.title, heat::draw(chart)),
            Drawing::Steps(chart) => (&chart.title, steps::draw(chart)),
            Drawing::Distribution(chart) => (&chart.title, steps::draw_distribution(chart)),
            Drawing::Sensors(chart) => (&chart.title, sensors::draw(chart)),
        };
        let drawn = drawn.with_context(|| format!("chart {id}"))?;
        let svg = with_head(&drawn, &id, &font::drawable(title), &font::drawable(&description));
        Ok(Self { id, path, description, csv: numbers.finish(), svg })
    }

    /// Path of its numbers, relative to the report; the same in every language.
    pub fn csv_path(&self) -> String {
        format!("charts/{}.csv", self.id)
    }

    /// The SVG for a page: its colours are the page's CSS variables.
    pub fn inline(&self) -> String {
        palette::with_variables(&self.svg)
    }

    /// The SVG as a picture on white, with the bundled font.
    ///
    /// # Errors
    /// The picture cannot be made; the chart is named.
    pub fn png(&self) -> Result<Vec<u8>> {
        png::rasterise(&self.svg).with_context(|| format!("cannot rasterise the chart {}", self.id))
    }
}

/// Characters that charts show as a box, of a text that a user chose.
pub fn boxed(text: &str) -> Vec<char> {
    font::missing(text)
}

/// Replaces the head that plotters writes by one with a size in CSS pixels and the words that screen readers read.
fn with_head(drawn: &str, id: &str, title: &str, description: &str) -> String {
    let body = drawn.split_once('>').map_or(drawn, |(_, body)| body).trim_start();
    let view_box =
        drawn.split_once("viewBox=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("", |(view_box, _)| view_box);
    let (title, description) = (escape::markup(title), escape::markup(description));
    let size = |place: usize| view_box.split(' ').nth(place).and_then(|size| size.parse::<i32>().ok()).unwrap_or(0);
    let (width, height) = (size(2) / canvas::FINE, size(3) / canvas::FINE);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"{view_box}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-desc\">\n<title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{description}</desc>\n{body}",
    )
}
