//! Plots as SVG.
//!
//! KEEPS: nothing is drawn over anything else. The legend has a line of its own above the plot, labels have the room
//! that their longest one needs, and a plot of bars is as high as its bars are many. Lines that lie on each other stay
//! visible, since earlier ones are wider.

mod bars;

pub use bars::{groups, horizontal, stacks};

use crate::Undrawable;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
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
const GRID: RGBColor = RGBColor(0xe6, 0xe6, 0xe6);

const WIDTH: u32 = 760;
const HEIGHT: u32 = 320;
const MARGIN: u32 = 12;
/// Right of the axis: half of its last label lies there.
const MARGIN_RIGHT: u32 = 28;
const FONT_SIZE: i32 = 12;
/// A letter in the widest font that a browser may take for `sans-serif`.
const LETTER_WIDTH: f64 = 6.9;
const LEGEND_LINE: u32 = 18;
/// Series of fewer points show where their points are.
const MARKED_MAX: usize = 40;

/// Lines over a linear range that holds zero.
///
/// # Errors
/// If it cannot be drawn; so below.
pub fn linear(x: &str, y: &str, series: Vec<Series>) -> Result<String, Undrawable> {
    let left = series.iter().flat_map(|s| &s.points).map(|p| p.0).fold(0.0, f64::min);
    let right = highest(&series, |p| p.0).max(left + 0.001);
    let top = highest(&series, |p| p.1).max(0.001) * 1.08;
    lines((x, left..right, right - left), (y, 0.0..top), &series)
}

/// Lines over a logarithmic range; up to a hundred.
pub fn logarithmic(x: &str, y: &str, series: Vec<Series>) -> Result<String, Undrawable> {
    let right = highest(&series, |p| p.0).max(0.01) * 1.2;
    let left = series.iter().flat_map(|s| &s.points).map(|p| p.0).fold(right / 10.0, f64::min).max(0.001);
    lines((x, (left..right).log_scale(), 0.0), (y, 0.0..100.0), &series)
}

/// Lines between two axes, each with its name. `span` is the length of a linear horizontal axis.
fn lines<X>(
    (x, across, span): (&str, X, f64),
    (y, up): (&str, Range<f64>),
    series: &[Series],
) -> Result<String, Undrawable>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let names: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
    let height = up.end - up.start;
    draw(HEIGHT, &names, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(MARGIN_RIGHT)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(across, up)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .max_light_lines(1)
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .x_desc(x)
            .y_desc(y)
            .x_label_formatter(&|v| on_axis(*v, span))
            .y_label_formatter(&|v| on_axis(*v, height))
            .draw()
            .map_err(failed)?;
        for (n, series) in series.iter().enumerate() {
            let colour = colour(n);
            // Wider than those after it, so that it shows where they cover it.
            let wider = (names.len() - 1 - n).min(2) as u32;
            let width = 2 + wider;
            let line = LineSeries::new(series.points.iter().copied(), colour.stroke_width(width));
            chart.draw_series(line).map_err(failed)?;
            if series.points.len() <= MARKED_MAX {
                let mark = |point: &(f64, f64)| Circle::new(*point, 3 + wider as i32, colour.filled());
                chart.draw_series(series.points.iter().map(mark)).map_err(failed)?;
            }
        }
        Ok(())
    })
}

fn colour(n: usize) -> RGBColor {
    COLOURS[n % COLOURS.len()]
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws the legend, and the plot into the rest: that many pixels.
fn draw(
    height: u32,
    names: &[&str],
    paint: impl FnOnce(&Area<'_>) -> Result<(), Undrawable>,
) -> Result<String, Undrawable> {
    let legend = if names.len() > 1 { arranged(names) } else { Vec::new() };
    let lines = legend.last().map_or(0, |(line, ..)| line + 1);
    let above = if lines > 0 { lines * LEGEND_LINE + MARGIN / 2 } else { 0 };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, above + height)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let (head, body) = area.split_vertically(above);
        for (n, (line, left, name)) in legend.iter().enumerate() {
            let (x, y) = (*left as i32, (MARGIN / 2 + line * LEGEND_LINE) as i32);
            let sample = Rectangle::new([(x, y + 4), (x + 16, y + 12)], colour(n).filled());
            head.draw(&sample).map_err(failed)?;
            head.draw(&text(name, (x + 22, y + 8), HPos::Left)).map_err(failed)?;
        }
        paint(&body)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Where the names of a legend go: the line, the left edge, the name.
fn arranged<'a>(names: &[&'a str]) -> Vec<(u32, u32, &'a str)> {
    let mut out = Vec::new();
    let (mut line, mut left) = (0, MARGIN);
    for name in names {
        let width = 22 + width_of(name) + 16;
        if left > MARGIN && left + width > WIDTH {
            (line, left) = (line + 1, MARGIN);
        }
        out.push((line, left, *name));
        left += width;
    }
    out
}

/// A text with its middle at this height.
fn text<'a>(text: &'a str, at: (i32, i32), side: HPos) -> Text<'a, (i32, i32), &'a str> {
    let style = ("sans-serif", FONT_SIZE).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
    Text::new(text, at, style)
}

fn width_of(text: &str) -> u32 {
    (text.chars().count() as f64 * LETTER_WIDTH).ceil() as u32
}

fn highest(series: &[Series], of: fn(&(f64, f64)) -> f64) -> f64 {
    series.iter().flat_map(|s| &s.points).map(of).fold(0.0, f64::max)
}

/// A number on an axis of this length: all have as many digits as its steps need. The length of an axis that is not
/// linear is 0, and each number has its own.
fn on_axis(value: f64, span: f64) -> String {
    let step = if span > 0.0 { span / 10.0 } else { value.abs() };
    let decimals = match step {
        s if s >= 0.95 || s == 0.0 => 0,
        s if s >= 0.095 => 1,
        s if s >= 0.0095 => 2,
        _ => 3,
    };
    // No "-0".
    thousands(&format!("{:.decimals$}", value + 0.0))
}

/// A figure beside a bar: three digits, or all before the point.
fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 1.0 => 1,
        _ => 2,
    };
    thousands(&format!("{value:.decimals$}"))
}

/// `12345.6` as `12,345.6`.
fn thousands(number: &str) -> String {
    let (whole, rest) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    let digits = whole.trim_start_matches('-');
    let mut out = whole[..whole.len() - digits.len()].to_string();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) && digits.len() > 4 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

fn failed(error: impl std::fmt::Display) -> Undrawable {
    Undrawable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_axis_have_as_many_digits_as_its_steps() {
        assert_eq!([0.0, 5.0, 10.0].map(|v| on_axis(v, 22.0)), ["0", "5", "10"]);
        assert_eq!([0.0, 0.5, 1.0].map(|v| on_axis(v, 1.0)), ["0.0", "0.5", "1.0"]);
        assert_eq!([5000.0, 12_000.0].map(|v| on_axis(v, 12_000.0)), ["5000", "12,000"]);
        assert_eq!([0.1, 10.0].map(|v| on_axis(v, 0.0)), ["0.1", "10"]);
        assert_eq!(on_axis(-0.0, 22.0), "0");
    }

    #[test]
    fn a_legend_takes_another_line_before_it_leaves_the_plot() {
        let names = ["a".repeat(40), "b".repeat(40), "c".repeat(40)];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let placed = arranged(&names);
        assert_eq!(placed.iter().map(|(line, ..)| *line).collect::<Vec<_>>(), [0, 0, 1]);
        assert!(placed.iter().all(|(_, left, name)| left + width_of(name) < WIDTH));
    }

    #[test]
    fn points_before_zero_have_room() {
        let series = |points| vec![Series { name: "a".into(), points }];
        let svg = linear("x", "y", series(vec![(-100.0, 1.0), (100.0, 1.0)])).unwrap();
        assert!(svg.contains("-100") && svg.contains("\n100\n"), "{svg}");
    }
}
