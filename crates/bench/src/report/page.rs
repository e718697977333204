//! A page put together piece by piece, for reports of another shape than [`super::Report`].

use super::html::{STYLE, add, escaped, row};
use super::plot;

/// A page that needs nothing beside itself.
pub struct Page(String);

impl Page {
    pub fn new(title: &str) -> Page {
        let title = escaped(title);
        Page(format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <style>{STYLE}</style></head><body><h1>{title}</h1>"
        ))
    }
    pub fn note(&mut self, text: &str) {
        add(&mut self.0, format_args!("<p class=\"note\">{}</p>", escaped(text)));
    }
    pub fn bad(&mut self, text: &str) {
        add(&mut self.0, format_args!("<p class=\"bad\">{}</p>", escaped(text)));
    }
    pub fn heading(&mut self, text: &str) {
        add(&mut self.0, format_args!("<h2>{}</h2>", escaped(text)));
    }
    /// The first cell of a line names it.
    pub fn table(&mut self, columns: &[String], lines: &[Vec<String>]) {
        let columns: Vec<String> = columns.iter().map(|c| escaped(c)).collect();
        add(&mut self.0, format_args!("<table><tr><th>{}</th></tr>", columns.join("</th><th>")));
        for line in lines {
            let cells: Vec<String> = line.iter().map(|cell| escaped(cell)).collect();
            row(&mut self.0, "", &cells);
        }
        self.0.push_str("</table>");
    }
    /// Lines through points, one per name.
    ///
    /// # Errors
    /// If the plot cannot be drawn.
    pub fn lines(
        &mut self,
        caption: &str,
        (x, y): (&str, &str),
        lines: &[(String, Vec<(f64, f64)>)],
    ) -> anyhow::Result<()> {
        let series =
            lines.iter().map(|(name, points)| plot::Series { name: name.clone(), points: points.clone() });
        let svg = plot::linear(x, y, series.collect())?;
        self.figure(caption, &svg);
        Ok(())
    }
    /// Bars from left to right, each a stack of pieces, under which its name stands.
    ///
    /// # Errors
    /// If the plot cannot be drawn.
    pub fn stacks(
        &mut self,
        caption: &str,
        y: &str,
        pieces: &[String],
        bars: &[(String, Vec<f64>)],
    ) -> anyhow::Result<()> {
        let svg = plot::stacks(y, pieces, bars)?;
        self.figure(caption, &svg);
        Ok(())
    }
    fn figure(&mut self, caption: &str, svg: &str) {
        add(&mut self.0, format_args!("<figure><figcaption>{}</figcaption>{svg}</figure>", escaped(caption)));
    }
    pub fn finish(mut self) -> String {
        self.0.push_str("</body></html>\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_was_put_on_it() {
        let mut page = Page::new("a < b");
        page.heading("delays");
        page.table(&["system".into(), "ms".into()], &[vec!["<x>".into(), "1.0".into()]]);
        page.lines("a curve", ("x", "ms"), &[("ours".into(), vec![(0.0, 1.0), (1.0, 2.0)])]).unwrap();
        let bars = [("one".to_string(), vec![1.0, 2.0]), ("two".to_string(), vec![0.0, 0.5])];
        page.stacks("bars", "ms", &["wait".into(), "way".into()], &bars).unwrap();
        page.stacks("no bars", "ms", &[], &[]).unwrap();
        let html = page.finish();
        assert_eq!((html.matches("<svg").count(), html.matches("</svg>").count()), (3, 3));
        assert!(html.contains("a &lt; b") && html.contains("&lt;x&gt;") && html.contains("two"));
        assert!(!html.contains("<script") && !html.contains("href="));
    }
}
