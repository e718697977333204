//! The figures on a terminal: a live view, a line a second, a summary.

use super::audit::Audit;
use super::figures::{FaultReport, Percentiles, QueryReport, RegionReport, Report};
use crate::database::Region;
use crossterm::event::{Event, KeyCode, KeyModifiers};
use ratatui::DefaultTerminal;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};
use std::fmt::Write;
use std::io;
use std::time::Duration;

/// The live view; dropping it gives the terminal back.
pub struct Live {
    terminal: DefaultTerminal,
    /// What is typed and not entered yet.
    prompt: String,
    told: Option<String>,
}

impl Live {
    pub fn open() -> io::Result<Live> {
        Ok(Live { terminal: ratatui::try_init()?, prompt: String::new(), told: None })
    }

    /// The next command that was typed since the last call, if any: a line, or q, Esc or Ctrl-C at once.
    pub fn typed(&mut self) -> io::Result<Option<String>> {
        while crossterm::event::poll(Duration::ZERO)? {
            let Event::Key(key) = crossterm::event::read()? else { continue };
            match key.code {
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    return Ok(Some("q".into()));
                }
                KeyCode::Esc if !self.prompt.is_empty() => self.prompt.clear(),
                KeyCode::Esc => return Ok(Some("q".into())),
                KeyCode::Char('q') if self.prompt.is_empty() => return Ok(Some("q".into())),
                KeyCode::Char(c) => self.prompt.push(c),
                KeyCode::Backspace => _ = self.prompt.pop(),
                KeyCode::Enter if !self.prompt.is_empty() => {
                    self.told = None;
                    return Ok(Some(std::mem::take(&mut self.prompt)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// What the last command came to, shown until the next one.
    pub fn tell(&mut self, what: String) {
        self.told = Some(what);
    }

    pub fn draw(&mut self, report: &Report, regions: &[Region]) -> io::Result<()> {
        let prompt = self.prompt_line(report);
        self.terminal.draw(|frame| {
            let faults_height =
                if report.faults.is_empty() { 0 } else { report.faults.len().min(6) as u16 + 2 };
            let heights = [
                Constraint::Length(1),
                Constraint::Length(report.regions.len() as u16 + 3),
                Constraint::Length(faults_height),
                Constraint::Min(5),
                Constraint::Length(regions.len() as u16 + 2),
                Constraint::Length(1),
            ];
            let [title, transactions, faults, queries, connect, footer] =
                Layout::vertical(heights).areas(frame.area());
            if !report.faults.is_empty() {
                let newest = report.faults.iter().rev().take(6).map(|f| Line::from(fault_line(f)));
                let block = Block::bordered().title(" lost and regained (longest time without a commit, s) ");
                frame.render_widget(Paragraph::new(newest.collect::<Vec<_>>()).block(block), faults);
            }
            frame.render_widget(Paragraph::new(headline(report)).style(bold()), title);
            frame.render_widget(region_table(report), transactions);
            frame.render_widget(query_table(report, queries.height), queries);
            let lines: Vec<Line> =
                regions.iter().map(|r| Line::from(format!("{:<14} {}", r.name, r.psql()))).collect();
            frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" connect ")), connect);
            frame.render_widget(Paragraph::new(prompt), footer);
        })?;
        Ok(())
    }

    fn prompt_line(&self, report: &Report) -> Line<'static> {
        if !self.prompt.is_empty() {
            return Line::from(format!("> {}_", self.prompt)).style(bold());
        }
        match &self.told {
            Some(told) => Line::from(told.clone()).style(Color::Yellow),
            None => status(report),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn headline(report: &Report) -> String {
    format!(
        "Meridian · engine {} · WAN {} · queries {} · {:.0} s",
        report.engine, report.wan, report.consistency, report.measured_s
    )
}

fn status(report: &Report) -> Line<'static> {
    match report.errors.last() {
        Some(error) => Line::from(format!("{} errors, last: {error}", report.errors_count)).style(Color::Red),
        None => {
            let help = "type kill, lose or heal REGION, or skew REGION MS; q or Ctrl-C ends the demo";
            Line::from(help).style(Color::DarkGray)
        }
    }
}

const REGION_HEADS: [&str; 8] =
    ["region", "txn/s", "p50 ms", "p99 ms", "1-region p50", "multi p50 ms", "multi p50 RTT", "aborts"];

fn region_cells(region: &RegionReport, now: bool) -> [String; 8] {
    let rate = if now { region.commits_now } else { region.commits_per_s };
    let reasons: Vec<String> = region.aborts_by_reason.iter().map(|(r, n)| format!("{r}×{n}")).collect();
    [
        region.name.clone(),
        format!("{rate:.1}"),
        ms(region.commit_ms.p50),
        ms(region.commit_ms.p99),
        ms(region.single_region_commit_ms.p50),
        ms(region.multi_region_commit_ms.p50),
        format!("{:.2}", region.multi_region_commit_rtt.p50),
        if reasons.is_empty() { "0".into() } else { reasons.join(" ") },
    ]
}

/// `12.0 kill eu   us 0.4  eu 1.9  ap 0.3`
fn fault_line(fault: &FaultReport) -> String {
    let mut line = format!("{:>7.1} s  {:<16}", fault.at_s, fault.what);
    for (region, silence_s) in &fault.without_service_s {
        write!(line, "  {region} {silence_s:.1}").expect("memory takes it");
    }
    line
}

fn region_table(report: &Report) -> Table<'static> {
    let rows = report.regions.iter().map(|r| {
        let color = if r.is_lost { Color::Red } else { Color::Reset };
        Row::new(aligned(region_cells(r, true))).style(color)
    });
    let widths = [16, 8, 9, 9, 13, 13, 14, 20].map(Constraint::Length);
    Table::new(rows, widths)
        .header(Row::new(aligned(REGION_HEADS.map(String::from))).style(bold()))
        .block(Block::bordered().title(" transactions "))
}

const QUERY_HEADS: [&str; 10] = [
    "query",
    "scope",
    "runs",
    "rows",
    "latency p50",
    "staleness",
    "coordination",
    "wait p50",
    "visible p50",
    "visible p99",
];

fn query_cells(query: &QueryReport) -> [String; 10] {
    [
        query.name.clone(),
        query.scope.clone(),
        if query.errors > 0 { format!("{} ✗{}", query.runs, query.errors) } else { query.runs.to_string() },
        query.rows.to_string(),
        ms(query.latency_ms.p50),
        ms(query.staleness_ms.p50),
        ms(query.coordination_ms.p50),
        ms(query.wait_ms.p50),
        ms(query.visibility_delay_ms.p50),
        ms(query.visibility_delay_ms.p99),
    ]
}

fn query_table(report: &Report, height: u16) -> Table<'static> {
    let room = usize::from(height.saturating_sub(3));
    let rows = report.queries.iter().take(room).map(|q| {
        let color = if q.errors > 0 { Color::Red } else { Color::Reset };
        Row::new(aligned(query_cells(q))).style(color)
    });
    let widths = [6, 7, 7, 6, 12, 10, 13, 10, 12, 12].map(Constraint::Length);
    let hidden = report.queries.len().saturating_sub(room);
    let title = match hidden {
        0 => " queries (ms; visible = staleness + coordination + wait) ".to_string(),
        n => format!(" queries (ms; visible = staleness + coordination + wait; {n} more below) "),
    };
    Table::new(rows, widths)
        .header(Row::new(aligned(QUERY_HEADS.map(String::from))).style(bold()))
        .block(Block::bordered().title(title))
}

/// Names to the left, figures to the right.
fn aligned<const N: usize>(cells: [String; N]) -> impl Iterator<Item = Cell<'static>> {
    cells
        .into_iter()
        .enumerate()
        .map(|(c, text)| Cell::from(if c == 0 { Text::from(text) } else { Text::from(text).right_aligned() }))
}

fn ms(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.3}"),
    }
}

/// One line for logs and pipes.
pub fn line(report: &Report) -> String {
    let mut out = format!("{:>5.0}s ", report.measured_s);
    for r in &report.regions {
        let Percentiles { p50, p99 } = r.commit_ms;
        write!(out, " {} {:.0}/s {}/{} ms", r.name, r.commits_now, ms(p50), ms(p99))
            .expect("memory takes it");
    }
    let runs: u64 = report.queries.iter().map(|q| q.runs).sum();
    write!(out, "  queries {runs}, errors {}", report.errors_count).expect("memory takes it");
    out
}

/// The whole report as tables of text.
pub fn summary(report: &Report) -> String {
    let mut out = format!("\n{}\n\n", headline(report));
    let regions: Vec<Vec<String>> = report.regions.iter().map(|r| region_cells(r, false).to_vec()).collect();
    table(&mut out, &REGION_HEADS, &regions);
    out.push('\n');
    let queries: Vec<Vec<String>> = report.queries.iter().map(|q| query_cells(q).to_vec()).collect();
    table(&mut out, &QUERY_HEADS, &queries);
    if !report.faults.is_empty() {
        out.push_str("\nlost and regained (longest time without a commit of a region's terminals, s)\n");
        report.faults.iter().for_each(|f| writeln!(out, "{}", fault_line(f)).expect("memory takes it"));
    }
    if let Some(audit) = &report.audit {
        let Audit { answered, lost, unknown, unknown_done, invented } = audit;
        writeln!(
            out,
            "\naudit: of {answered} answered payments {lost} are lost; of {unknown} without an answer \
             {unknown_done} took effect; {invented} were never requested"
        )
        .expect("memory takes it");
    }
    if !report.errors.is_empty() {
        writeln!(out, "\n{} errors:", report.errors_count).expect("memory takes it");
        for error in &report.errors {
            writeln!(out, "  {error}").expect("memory takes it");
        }
    }
    out.push('\n');
    out
}

fn table(out: &mut String, heads: &[&str], rows: &[Vec<String>]) {
    let width = |c: usize| {
        let cells = rows.iter().map(|r| r[c].chars().count());
        cells.chain([heads[c].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut line = |cells: Vec<&str>| {
        for (c, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            // Names to the left, figures to the right.
            let pad = " ".repeat(width - cell.chars().count());
            let text = if c == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
            out.push_str(&text);
        }
        out.push('\n');
    };
    line(heads.to_vec());
    rows.iter().for_each(|row| line(row.iter().map(String::as_str).collect()));
}
