//! Plots as SVG.

use crate::Undrawable;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// One line of a plot.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

const COLOURS: [RGBColor; 8] = [
    RGBColor(0x1b, 0x6e, 0xc2),
    RGBColor(0xd9, 0x6b, 0x0b),
    RGBColor(0x3f, 0x8f, 0x4f),
    RGBColor(0x8a, 0x4f, 0xb0),
    RGBColor(0xc2, 0x1b, 0x4a),
    RGBColor(0x12, 0x9a, 0x9a),
    RGBColor(0x8c, 0x6d, 0x1f),
    RGBColor(0x55, 0x5f, 0x6b),
];

/// Lines over a linear range from zero.
///
/// # Errors
/// If it cannot be drawn; so below.
pub fn linear(x: &str, y: &str, series: Vec<Series>) -> Result<String, Undrawable> {
    let right = highest(&series, |p| p.0).max(1.0);
    let top = highest(&series, |p| p.1).max(0.001) * 1.08;
    lines((x, 0.0..right), (y, 0.0..top), &series)
}

/// Lines over a logarithmic range; up to a hundred.
pub fn logarithmic(x: &str, y: &str, series: Vec<Series>) -> Result<String, Undrawable> {
    let right = highest(&series, |p| p.0).max(0.01) * 1.2;
    let left = series.iter().flat_map(|s| &s.points).map(|p| p.0).fold(right / 10.0, f64::min).max(0.001);
    lines((x, (left..right).log_scale()), (y, 0.0..100.0), &series)
}

/// Lines between two axes, each with its name.
fn lines<X>(
    (x, across): (&str, X),
    (y, up): (&str, Range<f64>),
    series: &[Series],
) -> Result<String, Undrawable>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    draw(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(across, up)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(0xe6, 0xe6, 0xe6))
            .x_desc(x)
            .y_desc(y)
            .x_label_formatter(&|v| short(*v))
            .y_label_formatter(&|v| short(*v))
            .draw()
            .map_err(failed)?;
        for (n, series) in series.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            chart
                .draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(2)))
                .map_err(failed)?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
        }
        legend(chart.configure_series_labels()).draw().map_err(failed)
    })
}

/// A group of bars per name over a logarithmic range, one bar per side.
pub fn groups(y: &str, names: &[&str], sides: &[(&str, Vec<f64>)]) -> Result<String, Undrawable> {
    let heights = || sides.iter().flat_map(|(_, heights)| heights.iter().copied());
    // Room for the legend above the highest bar.
    let top = heights().fold(0.001, f64::max) * 8.0;
    let low = heights().filter(|ms| *ms > 0.0).fold(top / 100.0, f64::min) / 1.5;
    let width = 0.8 / sides.len() as f64;
    draw(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.5..names.len() as f64 - 0.5, (low..top).log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(0xe6, 0xe6, 0xe6))
            .x_labels(names.len() + 1)
            .x_label_formatter(&|x| label_at(names, *x))
            .y_desc(y)
            .y_label_formatter(&|v| short(*v))
            .draw()
            .map_err(failed)?;
        for (n, (side, heights)) in sides.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let left = |name: usize| name as f64 - 0.4 + n as f64 * width;
            let bars = heights.iter().enumerate().filter(|(_, ms)| **ms > 0.0);
            chart
                .draw_series(bars.map(|(name, ms)| {
                    Rectangle::new([(left(name), low), (left(name) + width, *ms)], colour.filled())
                }))
                .map_err(failed)?
                .label(*side)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
        }
        let mut labels = legend(chart.configure_series_labels());
        labels.position(SeriesLabelPosition::UpperRight).draw().map_err(failed)
    })
}

/// The name whose group stands at this place, if one does.
fn label_at(names: &[&str], x: f64) -> String {
    let nearest = x.round();
    if (x - nearest).abs() > 0.01 || nearest < 0.0 {
        return String::new();
    }
    names.get(nearest as usize).map_or(String::new(), |name| name.to_string())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(paint: impl FnOnce(&Area<'_>) -> Result<(), Undrawable>) -> Result<String, Undrawable> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (760, 320)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        paint(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn legend<'a, 'b, DB: DrawingBackend + 'a, CT: CoordTranslate>(
    labels: plotters::chart::SeriesLabelStyle<'a, 'b, DB, CT>,
) -> plotters::chart::SeriesLabelStyle<'a, 'b, DB, CT> {
    let mut labels = labels;
    labels.background_style(WHITE.mix(0.85)).position(SeriesLabelPosition::LowerRight);
    labels
}

fn highest(series: &[Series], of: fn(&(f64, f64)) -> f64) -> f64 {
    series.iter().flat_map(|s| &s.points).map(of).fold(0.0, f64::max)
}

/// A number on an axis.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        v if v >= 10.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}").trim_end_matches('0').into(),
    }
}

fn failed(error: impl std::fmt::Display) -> Undrawable {
    Undrawable(error.to_string())
}

/// Bars from left to right, horizontal names beside them: each bar is a stack of pieces.
pub fn stacks(y: &str, pieces: &[String], bars: &[(String, Vec<f64>)]) -> Result<String, Undrawable> {
    let right = bars.iter().map(|(_, heights)| heights.iter().sum::<f64>()).fold(0.001, f64::max) * 1.1;
    let count = bars.len().max(1) as f64;
    let names: Vec<&str> = bars.iter().map(|(name, _)| name.as_str()).collect();
    draw(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(230)
            // The first bar stands on top.
            .build_cartesian_2d(0.0..right, -(count - 0.5)..0.5)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(0xe6, 0xe6, 0xe6))
            .x_desc(y)
            .x_label_formatter(&|v| short(*v))
            .y_labels(bars.len() + 1)
            .y_label_formatter(&|at| label_at(&names, -at))
            .draw()
            .map_err(failed)?;
        for (n, piece) in pieces.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let boxes = bars.iter().enumerate().map(|(bar, (_, heights))| {
                let left: f64 = heights[..n].iter().sum();
                let middle = -(bar as f64);
                Rectangle::new([(left, middle - 0.32), (left + heights[n], middle + 0.32)], colour.filled())
            });
            chart
                .draw_series(boxes)
                .map_err(failed)?
                .label(piece)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
        }
        if pieces.len() > 1 {
            legend(chart.configure_series_labels()).draw().map_err(failed)?;
        }
        Ok(())
    })
}
