//! Cases side by side: a row a case, a panel a quantity, in each a lying bar for the mean over runs and a whisker from the
//! least to the greatest run.

use anyhow::Result;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Axis, Frame, Labels, Sheet, WIDTH};
use super::palette::{QUIET, SERIES, TEXT};
use super::ticks;
use crate::report::format::Scale;

const TOP: i32 = 104;
/// Height of a row of bars.
const ROW: i32 = 34;
/// Height of a line of text.
const LINE: i32 = 22;
/// Below the rows: the labels of the axes.
const FOOT: i32 = 44;
/// Longer names stand above their bars instead of beside them.
const MOST_NAME: i32 = 190;
const GAP: i32 = 24;

/// A chart of bars.
#[derive(Clone, Debug)]
pub(crate) struct BarChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) panels: Vec<Panel>,
}

/// What is compared.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Which of the colours of series it has.
    pub(crate) series: usize,
}

/// A quantity of all rows.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    /// The axis reaches at least this.
    pub(crate) least_top: f64,
    /// In the order of the rows; none where it was not measured.
    pub(crate) bars: Vec<Option<Bar>>,
    /// Stands where nothing was measured.
    pub(crate) absent: String,
}

/// The value of one row.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) mean: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) label: String,
}

impl Bar {
    fn is_finite(&self) -> bool {
        [self.mean, self.min, self.max].iter().all(|value| value.is_finite())
    }
}

/// Draws the chart as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &BarChart) -> Result<String> {
    let mut name_width = 0;
    for row in &chart.rows {
        name_width = name_width.max(canvas::label_width(&row.name)?);
    }
    let is_above = name_width > MOST_NAME;
    let row = if is_above { ROW + LINE } else { ROW };
    let left = if is_above { 16 } else { 28 + name_width };
    let bottom = TOP + row * i32::try_from(chart.rows.len()).unwrap_or(i32::MAX / row / 2);
    let labels =
        Labels { title: chart.title.clone(), subtitle: chart.subtitle.clone(), x: String::new(), legend: Vec::new() };
    let count = i32::try_from(chart.panels.len()).unwrap_or(1).max(1);
    let width = (WIDTH - left) / count;
    canvas::sheet(&labels, bottom + FOOT, |sheet| {
        for (panel, left) in chart.panels.iter().zip((left..).step_by(width.max(1) as usize)) {
            draw_panel(sheet, chart, panel, Frame { left, right: left + width - GAP, top: TOP, bottom })?;
        }
        for (named, top) in chart.rows.iter().zip((TOP..).step_by(row as usize)) {
            if is_above {
                sheet.label(&canvas::fitted(&named.name, WIDTH - 40)?, (left + 8, top + LINE - 6), TEXT, HPos::Left)?;
            } else {
                sheet.label(&named.name, (left - 12, top + ROW / 2), TEXT, HPos::Right)?;
            }
        }
        Ok(())
    })
}

/// One quantity; to the right of the bars there is room for the longest label.
fn draw_panel(sheet: &Sheet<'_>, chart: &BarChart, panel: &Panel, frame: Frame) -> Result<()> {
    let bars = || panel.bars.iter().flatten().filter(|bar| bar.is_finite());
    let mut label_width = 0;
    for bar in bars() {
        label_width = label_width.max(canvas::label_width(&bar.label)?);
    }
    let title = canvas::fitted(&panel.title, frame.right + GAP - frame.left - 8)?;
    sheet.label(&title, (frame.left, TOP - 18), TEXT, HPos::Left)?;
    let frame = Frame { right: (frame.right - label_width).max(frame.left + 40), ..frame };
    let top = bars().map(|bar| bar.max).fold(panel.least_top, f64::max);
    let axis = ticks::few(top, &panel.scale, f64::from((frame.right - frame.left) / 80).clamp(1.0, 4.0));
    let rows = chart.rows.len() as f64;
    let height = f64::from(frame.bottom - frame.top) / rows.max(1.0);
    let half = 10.0 / height;
    let canvas = sheet.panel(frame, axis, Axis::new(0.0, rows, Vec::new()));
    let share = f64::from(ROW) / height;
    let stretches: Vec<_> = (0..chart.rows.len()).map(|row| (row as f64, row as f64 + share)).collect();
    canvas.upright_grid(&stretches)?;
    for (index, (row, bar)) in chart.rows.iter().zip(&panel.bars).enumerate() {
        // Rows are counted from the top, the axis from the bottom; bars stand at the foot of their row.
        let middle = rows - index as f64 - 1.0 + share / 2.0;
        let Some(bar) = bar.as_ref().filter(|bar| bar.is_finite()) else {
            canvas.beside((0.0, middle), &panel.absent, QUIET)?;
            continue;
        };
        canvas.bar((0.0, middle + half), (bar.mean, middle - half), SERIES[row.series % SERIES.len()])?;
        if bar.min < bar.max {
            canvas.whisker((bar.min, middle), (bar.max, middle))?;
        }
        canvas.beside((bar.max.max(bar.mean), middle), &bar.label, TEXT)?;
    }
    Ok(())
}
