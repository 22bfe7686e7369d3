//! Sensors of GPUs over time, one panel below the other on a common axis of time, with the spans shaded in which clocks
//! were held down.

use anyhow::Result;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Axis, Frame, Labels, Sheet};
use super::course::{self, Series};
use super::palette::{SERIES, TEXT};
use super::ticks;
use crate::aggregate::summary::Point;
use crate::report::format::Scale;

/// With a legend, the first panel stands lower.
const TOP: i32 = 104;
const LEGEND: i32 = 26;
const PANEL: i32 = 110;
const GAP: i32 = 40;
const FOOT: i32 = 60;

/// A chart of sensors.
#[derive(Clone, Debug)]
pub(crate) struct SensorChart<'a> {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: String,
    /// A name for each line of every panel; none where there is one.
    pub(crate) legend: Vec<String>,
    pub(crate) panels: Vec<SensorPanel<'a>>,
    /// Where clocks were held down: from and to, seconds since the run's start.
    pub(crate) shaded: Vec<(f64, f64)>,
}

/// One quantity, a line a GPU.
#[derive(Clone, Debug)]
pub(crate) struct SensorPanel<'a> {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    /// In the order of the legend; none where that GPU has no such sensor.
    pub(crate) series: Vec<Option<Series<'a>>>,
    /// Text beside the highest point of the first line, its value filled in.
    pub(crate) peak: String,
}

/// Draws the chart as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &SensorChart<'_>) -> Result<String> {
    let end =
        course::end_s(chart.panels.iter().flat_map(|panel| panel.series.iter().flatten()).map(|series| series.course));
    let count = i32::try_from(chart.panels.len()).unwrap_or(1);
    let legend = chart.legend.iter().zip(SERIES.iter().cycle()).map(|(label, ink)| (label.clone(), *ink)).collect();
    let labels = Labels { title: chart.title.clone(), subtitle: chart.subtitle.clone(), x: chart.x.clone(), legend };
    let first = if chart.legend.is_empty() { TOP } else { TOP + LEGEND };
    let height = first + count * PANEL + (count - 1).max(0) * GAP + FOOT;
    canvas::sheet(&labels, height, |sheet| {
        for (panel, top) in chart.panels.iter().zip((first..).step_by((PANEL + GAP) as usize)) {
            let frame = Frame { top, bottom: top + PANEL, ..Frame::WHOLE };
            let time = ticks::time_axis(end);
            let is_last = top + PANEL + FOOT == height;
            draw_panel(sheet, chart, panel, frame, if is_last { time } else { time.bare() })?;
        }
        Ok(())
    })
}

fn panel_points<'a>(panel: &'a SensorPanel<'_>) -> impl Iterator<Item = &'a Point> {
    panel.series.iter().flatten().flat_map(|series| &series.course.points).filter(|point| course::is_finite(point))
}

fn draw_panel(
    sheet: &Sheet<'_>,
    chart: &SensorChart<'_>,
    panel: &SensorPanel<'_>,
    frame: Frame,
    time: Axis,
) -> Result<()> {
    let top = panel_points(panel).map(|point| point.max).fold(0.0, f64::max) * 1.3;
    let canvas = sheet.panel(frame, time, ticks::few(top, &panel.scale, 3.0));
    canvas.grid()?;
    sheet.label(&panel.title, (16, frame.top - 18), TEXT, HPos::Left)?;
    for (from, to) in &chart.shaded {
        canvas.shade(*from, *to, SERIES[4])?;
    }
    // The first GPU is drawn last, on top.
    for (index, series) in panel.series.iter().enumerate().rev() {
        if let Some(series) = series {
            course::course(&canvas, series.course, SERIES[index % SERIES.len()])?;
        }
    }
    let first = panel.series.iter().zip(SERIES.iter().cycle()).find_map(|(series, ink)| Some((series.as_ref()?, ink)));
    match first.and_then(|(series, ink)| Some((course::peak(series.course)?, ink))) {
        Some(((point, height), ink)) => canvas.mark((point.t_s, height), &panel.peak, *ink),
        None => Ok(()),
    }
}
