//! Plots of bars.

use super::*;

/// A group of bars per name over a logarithmic range, one bar per side.
pub fn groups(y: &str, names: &[&str], sides: &[(&str, Vec<f64>)]) -> Result<String, Undrawable> {
    let heights = || sides.iter().flat_map(|(_, heights)| heights.iter().copied());
    let top = heights().fold(0.001, f64::max) * 1.5;
    let low = heights().filter(|ms| *ms > 0.0).fold(top / 100.0, f64::min) / 1.5;
    let width = 0.8 / sides.len() as f64;
    let legend: Vec<&str> = sides.iter().map(|(side, _)| *side).collect();
    draw(HEIGHT, &legend, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(MARGIN_RIGHT)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.5..names.len() as f64 - 0.5, (low..top).log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(1)
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .x_labels(names.len() + 1)
            .x_label_formatter(&|x| label_at(names, *x))
            .y_desc(y)
            .y_label_formatter(&|v| on_axis(*v, 0.0))
            .draw()
            .map_err(failed)?;
        for (n, (_, heights)) in sides.iter().enumerate() {
            let left = |name: usize| name as f64 - 0.4 + n as f64 * width;
            let bars = heights.iter().enumerate().filter(|(_, ms)| **ms > 0.0);
            let bars = bars.map(|(name, ms)| {
                Rectangle::new([(left(name), low), (left(name) + width, *ms)], colour(n).filled())
            });
            chart.draw_series(bars).map_err(failed)?;
        }
        Ok(())
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

/// Bars from left to right, the first on top, with names beside them: each bar is a stack of pieces.
pub fn stacks(x: &str, pieces: &[String], bars: &[(String, Vec<f64>)]) -> Result<String, Undrawable> {
    let lanes = bars.iter().map(|(name, widths)| {
        let mut left = 0.0;
        let boxes = widths.iter().enumerate().map(|(n, width)| {
            left += width;
            Piece { colour: n, from: left - width, to: left }
        });
        Lane { name: name.clone(), boxes: boxes.collect() }
    });
    across(x, pieces, &lanes.collect::<Vec<_>>(), &bars.iter().map(|_| 1).collect::<Vec<_>>())
}

/// Groups of bars from left to right, the first on top; a group has a name and one bar per side.
pub fn horizontal(x: &str, sides: &[String], groups: &[(String, Vec<f64>)]) -> Result<String, Undrawable> {
    let lanes = groups.iter().flat_map(|(name, widths)| {
        widths.iter().enumerate().map(|(n, width)| Lane {
            // A group's name stands beside its middle bar.
            name: if n == (widths.len() - 1) / 2 { name.clone() } else { String::new() },
            boxes: vec![Piece { colour: n, from: 0.0, to: *width }],
        })
    });
    across(x, sides, &lanes.collect::<Vec<_>>(), &groups.iter().map(|g| g.1.len()).collect::<Vec<_>>())
}

/// One coloured piece of a bar.
struct Piece {
    colour: usize,
    from: f64,
    to: f64,
}

/// One bar, with what stands beside it.
struct Lane {
    name: String,
    boxes: Vec<Piece>,
}

const LANE_HEIGHT: u32 = 15;
/// Between groups.
const GAP: u32 = 9;

/// Bars, gathered in groups of these sizes.
fn across(x: &str, legend: &[String], lanes: &[Lane], sizes: &[usize]) -> Result<String, Undrawable> {
    let ends = |lane: &Lane| lane.boxes.last().map_or(0.0, |piece| piece.to);
    // Room for the figure behind the longest bar.
    let right = lanes.iter().map(ends).fold(0.001, f64::max) * 1.1;
    let inside = lanes.len().max(1) as u32 * LANE_HEIGHT + (sizes.len() as u32 + 1) * GAP;
    let longest = lanes.iter().map(|lane| width_of(&lane.name)).max().unwrap_or(0);
    let beside = (longest + 14).min(WIDTH / 2);
    let legend: Vec<&str> = legend.iter().map(String::as_str).collect();
    draw(inside + 2 * MARGIN + 40, &legend, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(MARGIN_RIGHT)
            .x_label_area_size(40)
            .y_label_area_size(beside)
            // Pixels from below.
            .build_cartesian_2d(0.0..right, 0.0..f64::from(inside))
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .max_light_lines(1)
            .light_line_style(WHITE)
            .bold_line_style(GRID)
            .x_desc(x)
            .x_label_formatter(&|v| on_axis(*v, right))
            .draw()
            .map_err(failed)?;
        let origin = area.get_pixel_range();
        let mut lanes = lanes.iter();
        let mut top = inside - GAP;
        for size in sizes {
            for lane in lanes.by_ref().take(*size) {
                let (above, below) = (f64::from(top) - 1.0, f64::from(top - LANE_HEIGHT) + 1.0);
                let pieces = lane.boxes.iter().filter(|piece| piece.to > piece.from).map(|piece| {
                    Rectangle::new([(piece.from, below), (piece.to, above)], colour(piece.colour).filled())
                });
                chart.draw_series(pieces).map_err(failed)?;
                let place = |value: f64| {
                    let (x, y) = chart.plotting_area().map_coordinate(&(value, (above + below) / 2.0));
                    (x - origin.0.start, y - origin.1.start)
                };
                let (axis, middle) = place(0.0);
                area.draw(&text(&lane.name, (axis - 8, middle), HPos::Right)).map_err(failed)?;
                let end = ends(lane);
                area.draw(&text(&figure(end), (place(end).0 + 4, middle), HPos::Left)).map_err(failed)?;
                top -= LANE_HEIGHT;
            }
            top -= GAP.min(top);
        }
        Ok(())
    })
}
