//! Self-contained HTML pages: tables, notes, and plots as inline SVG.
//!
//! IN: names and numbers. OUT: text. KEEPS: all text is escaped; a page loads nothing from other places and
//! runs no script.
//!
//! Reading order: [`page`], [`plot`].

pub mod page;
pub mod plot;

pub use page::Page;

/// Why a plot could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undrawable(String);

impl std::fmt::Display for Undrawable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "draw a plot: {}", self.0)
    }
}
impl std::error::Error for Undrawable {}
