//! A heat map of cores over time: a row a core, a column a span of time, the busy share as one of eight colours.

use anyhow::Result;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Axis, Canvas, Frame, Labels};
use super::palette::{HEAT, TEXT};
use super::ticks;

const TOP: i32 = 104;
/// Below the cells: the labels of the axis of time.
const FOOT: i32 = 60;
/// Height of all cells together, as far as rows of a good height allow.
const LEAST_HEIGHT: i32 = 80;
const MOST_HEIGHT: i32 = 380;
const ROW: i32 = 30;
/// A label takes so much height.
const LABEL: i32 = 20;

/// A heat map.
#[derive(Clone, Debug)]
pub(crate) struct HeatChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Names the axis of time.
    pub(crate) x: String,
    /// Width of a column.
    pub(crate) bin_s: f64,
    /// From the top down.
    pub(crate) rows: Vec<HeatRow>,
    /// What the least and the greatest colour stand for.
    pub(crate) ends: [String; 2],
}

/// One core, or several.
#[derive(Clone, Debug)]
pub(crate) struct HeatRow {
    pub(crate) label: String,
    /// Busy share, 0 to 1; a gap where it was not measured.
    pub(crate) shares: Vec<Option<f64>>,
}

/// Draws the chart as SVG.
///
/// # Errors
/// The drawing fails.
pub(super) fn draw(chart: &HeatChart) -> Result<String> {
    let count = i32::try_from(chart.rows.len()).unwrap_or(i32::MAX / ROW);
    let height = (count * ROW).clamp(LEAST_HEIGHT, MOST_HEIGHT);
    let each = (count * LABEL).unsigned_abs().div_ceil(height.unsigned_abs()).max(1) as usize;
    let rows = chart.rows.len() as f64;
    let labels = chart.rows.iter().enumerate().step_by(each);
    let labels = labels.map(|(index, row)| (rows - index as f64 - 0.5, row.label.clone())).collect();
    let columns = chart.rows.iter().map(|row| row.shares.len()).max().unwrap_or_default();
    let words =
        Labels { title: chart.title.clone(), subtitle: chart.subtitle.clone(), x: chart.x.clone(), legend: Vec::new() };
    let frame = Frame { top: TOP, bottom: TOP + height, ..Frame::WHOLE };
    canvas::sheet(&words, TOP + height + FOOT, |sheet| {
        let x = ticks::time_axis(columns as f64 * chart.bin_s);
        let canvas = sheet.panel(frame, x, Axis::new(0.0, rows, labels));
        canvas.labels()?;
        cells(&canvas, chart);
        let [least, greatest] = &chart.ends;
        sheet.label(least, (16, 78), TEXT, HPos::Left)?;
        let mut left = 24 + canvas::label_width(least)?;
        for ink in HEAT {
            sheet.swatch((left, 70), (left + 28, 86), ink)?;
            left += 28;
        }
        sheet.label(greatest, (left + 8, 78), TEXT, HPos::Left)
    })
}

/// Neighbours of one colour are one rectangle.
fn cells(canvas: &Canvas<'_, '_>, chart: &HeatChart) {
    let mut by_level: [Vec<_>; HEAT.len()] = Default::default();
    for (index, row) in chart.rows.iter().enumerate() {
        let bottom = (chart.rows.len() - index - 1) as f64;
        let mut column = 0;
        for run in row.shares.chunk_by(|a, b| level(*a) == level(*b)) {
            let [from, to] = [column, column + run.len()].map(|column| column as f64 * chart.bin_s);
            column += run.len();
            if let Some(level) = run.first().and_then(|share| level(*share)) {
                by_level[level].push([(from, bottom + 1.0), (to, bottom)]);
            }
        }
    }
    for (cells, ink) in by_level.iter().zip(HEAT).filter(|(cells, _)| !cells.is_empty()) {
        canvas.cells(cells, ink);
    }
}

/// Which of the colours; none for what is no number.
fn level(share: Option<f64>) -> Option<usize> {
    let share = share.filter(|share| share.is_finite())?;
    Some(((share * HEAT.len() as f64).clamp(0.0, HEAT.len() as f64) as usize).min(HEAT.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(rows: Vec<Vec<Option<f64>>>, bin_s: f64) -> HeatChart {
        let row = |shares| HeatRow { label: "0".to_owned(), shares };
        HeatChart {
            title: "t".to_owned(),
            subtitle: "s".to_owned(),
            x: "x".to_owned(),
            bin_s,
            rows: rows.into_iter().map(row).collect(),
            ends: ["0%", "100%"].map(str::to_owned),
        }
    }

    #[test]
    fn shares_take_one_of_eight_colours_and_gaps_none() {
        let shares = [0.0, 0.124, 0.126, 0.99, 1.0, 7.0, -1.0].map(|share| level(Some(share)).unwrap());
        assert_eq!(shares, [0, 0, 1, 7, 7, 7, 0]);
        assert_eq!([None, Some(f64::NAN), Some(f64::INFINITY)].map(level), [None; 3]);
    }

    #[test]
    fn neighbours_of_one_colour_are_one_rectangle_and_a_full_sheet_stays_small() {
        let svg = draw(&chart(vec![vec![Some(0.5); 192]; 2], 1.0)).unwrap();
        let path = svg.split("<path ").nth(1).unwrap();
        assert_eq!(path.split('z').count() - 1, 2, "{path}");
        let noisy =
            (0..128).map(|row| (0..192).map(|column| Some(f64::from((row * 5 + column * 3) % 8) / 8.0)).collect());
        assert!(draw(&chart(noisy.collect(), 1.0)).unwrap().len() < 600_000);
    }

    #[test]
    fn empty_and_unusable_maps_end() {
        for (rows, bin_s) in [
            (Vec::new(), 1.0),
            (vec![Vec::new()], 1.0),
            (vec![vec![None, Some(f64::NAN)]], f64::NAN),
            (vec![vec![Some(0.5)]], f64::INFINITY),
            (vec![vec![Some(0.5); 3]], -1.0),
            (vec![vec![Some(0.5); 3]], 0.0),
        ] {
            draw(&chart(rows, bin_s)).unwrap();
        }
    }
}
