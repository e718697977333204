//! One hostile input: a few steps over a connection of its own, and how it is kept in a file.
//!
//! A file of the corpus has one step per line, a word and a [`Text`]; lines that begin with `#` say what was found.
//!
//! ```text
//! # deep/parentheses, seed 1, index 7: the process ended
//! query select \{5000 (\}1\{5000 )\}
//! ```

use crate::text::Text;
use std::fmt;

/// What is done on the connection, in order. Whatever comes back is judged by [`crate::judge`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A simple Query.
    Query(Text),
    /// Parse, Describe, Bind, Execute and Sync in one packet, with parameters as text; `None` is NULL.
    Execute(Text, Vec<Option<Text>>),
    /// A COPY FROM STDIN and its data.
    Copy(Text, Text),
    /// Bytes after the greeting, then the end of what we send; the server has to answer or hang up.
    Bytes(Text),
    /// The same on a connection that was not greeted: startup packets and other first bytes.
    First(Text),
    /// Bytes on a connection that was not greeted, which is then left open and silent.
    Silent(Text),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Generator and production, e.g. `deep/parentheses`.
    pub shape: String,
    pub steps: Vec<Step>,
}

impl Input {
    pub fn new(shape: impl Into<String>, steps: Vec<Step>) -> Input {
        Input { shape: shape.into(), steps }
    }

    fn texts(&self) -> impl Iterator<Item = &Text> {
        self.steps.iter().flat_map(Step::texts)
    }
    /// The largest number of repetitions in it.
    pub fn times_max(&self) -> u32 {
        self.texts().map(Text::times_max).max().unwrap_or(0)
    }
    pub fn scaled(&self, from: u32, to: u32) -> Input {
        let steps = self.steps.iter().map(|s| s.map(|t| t.scaled(from, to)));
        Input { shape: self.shape.clone(), steps: steps.collect() }
    }

    /// Reads a file of the corpus. Errors: the line that means nothing.
    pub fn parse(file: &str) -> Result<Input, String> {
        let mut shape = String::new();
        let mut steps = Vec::new();
        for (n, line) in file.lines().enumerate() {
            if let Some(comment) = line.strip_prefix('#') {
                if shape.is_empty() {
                    let word = comment.split_whitespace().next().unwrap_or_default();
                    shape = word.trim_matches([',', ':']).to_string();
                }
            } else if !line.trim().is_empty() {
                steps.push(Step::parse(line).map_err(|e| format!("line {}: {e}", n + 1))?);
            }
        }
        if steps.is_empty() { Err("no steps".into()) } else { Ok(Input { shape, steps }) }
    }
}

/// Between the texts of one line. No text contains it: a backslash is always escaped.
const BETWEEN: &str = " \\| ";
const NULL: &str = "\\N";

impl Step {
    fn texts(&self) -> Vec<&Text> {
        match self {
            Step::Query(t) | Step::Bytes(t) | Step::First(t) | Step::Silent(t) => vec![t],
            Step::Execute(t, parameters) => std::iter::once(t).chain(parameters.iter().flatten()).collect(),
            Step::Copy(t, data) => vec![t, data],
        }
    }
    fn map(&self, f: impl Fn(&Text) -> Text) -> Step {
        match self {
            Step::Query(t) => Step::Query(f(t)),
            Step::Bytes(t) => Step::Bytes(f(t)),
            Step::First(t) => Step::First(f(t)),
            Step::Silent(t) => Step::Silent(f(t)),
            Step::Execute(t, ps) => Step::Execute(f(t), ps.iter().map(|p| p.as_ref().map(&f)).collect()),
            Step::Copy(t, data) => Step::Copy(f(t), f(data)),
        }
    }
    fn parse(line: &str) -> Result<Step, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let one = || Text::parse(rest);
        match word {
            "query" => one().map(Step::Query),
            "bytes" => one().map(Step::Bytes),
            "first" => one().map(Step::First),
            "silent" => one().map(Step::Silent),
            "execute" => {
                let mut texts = rest.split(BETWEEN);
                let sql = Text::parse(texts.next().unwrap_or_default())?;
                let parameter = |t: &str| if t == NULL { Ok(None) } else { Text::parse(t).map(Some) };
                Ok(Step::Execute(sql, texts.map(parameter).collect::<Result<_, _>>()?))
            }
            "copy" => {
                let (sql, data) = rest.split_once(BETWEEN).ok_or("copy needs a statement \\| its data")?;
                Ok(Step::Copy(Text::parse(sql)?, Text::parse(data)?))
            }
            other => Err(format!("'{other}' is no step")),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Query(t) => write!(f, "query {t}"),
            Step::Bytes(t) => write!(f, "bytes {t}"),
            Step::First(t) => write!(f, "first {t}"),
            Step::Silent(t) => write!(f, "silent {t}"),
            Step::Copy(t, data) => write!(f, "copy {t}{BETWEEN}{data}"),
            Step::Execute(t, parameters) => {
                write!(f, "execute {t}")?;
                for parameter in parameters {
                    f.write_str(BETWEEN)?;
                    match parameter {
                        Some(text) => write!(f, "{text}")?,
                        None => f.write_str(NULL)?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_read_back() {
        let text = || Text::from("a | \\ b\n").repeat(2, "x");
        let steps = vec![
            Step::Query(text()),
            Step::Execute(text(), vec![None, Some(text()), Some(Text::default())]),
            Step::Copy(text(), Text::default()),
            Step::Bytes(text()),
            Step::First(Text::default()),
            Step::Silent(text()),
        ];
        let input = Input::new("deep/x", steps);
        assert_eq!(Input::parse(&format!("# deep/x: found\n{input}")).unwrap(), input);
    }
}
