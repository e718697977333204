//! Builds a page from its parts.

use std::fmt::Write;

pub const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;margin:.6rem 0}\
td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #e6e6e6}\
td:first-child,th:first-child{text-align:left}tr.total{font-weight:600}\
@media(max-width:48rem){table{display:block;overflow-x:auto}}\
.note{color:#666;font-size:.9rem}.bad{color:#b00020}figure{margin:1rem 0}svg{max-width:100%;height:auto}";

/// A page that needs nothing beside itself.
pub struct Page(String);

impl Page {
    pub fn new(title: &str) -> Page {
        let title = escaped(title);
        Page(format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
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
    /// A plot, as [`crate::plot`] draws it.
    pub fn figure(&mut self, caption: &str, svg: &str) {
        add(&mut self.0, format_args!("<figure><figcaption>{}</figcaption>{svg}</figure>", escaped(caption)));
    }
    pub fn finish(mut self) -> String {
        self.0.push_str("</body></html>\n");
        self.0
    }
}

/// A line of a table, of cells that are escaped already.
pub fn row(out: &mut String, class: &str, cells: &[String]) {
    add(out, format_args!("<tr class=\"{class}\"><td>{}</td></tr>", cells.join("</td><td>")));
}

pub fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("strings grow");
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot;

    #[test]
    fn a_page_holds_what_was_put_on_it() {
        let mut page = Page::new("a < b");
        page.heading("delays");
        page.table(&["system".into(), "ms".into()], &[vec!["<x>".into(), "1.0".into()]]);
        let ours = plot::Series { name: "ours".into(), points: vec![(0.0, 1.0), (1.0, 2.0)] };
        page.figure("a curve", &plot::linear("x", "ms", vec![ours]).unwrap());
        let bars = [("one".to_string(), vec![1.0, 2.0]), ("two".to_string(), vec![0.0, 0.5])];
        page.figure("bars", &plot::stacks("ms", &["wait".into(), "way".into()], &bars).unwrap());
        page.figure("groups", &plot::horizontal("ms", &["wait".into(), "way".into()], &bars).unwrap());
        page.figure("no bars", &plot::stacks("ms", &[], &[]).unwrap());
        let html = page.finish();
        assert_eq!((html.matches("<svg").count(), html.matches("</svg>").count()), (4, 4));
        assert!(html.contains("a &lt; b") && html.contains("&lt;x&gt;") && html.contains("two"));
        assert!(!html.contains("<script") && !html.contains("href="));
    }
}
