//! Loops, and how they are left.

use super::{Around, Parser};
use crate::program::{Declared, Op, Target};
use base::error::SqlResult;

impl Parser<'_> {
    /// LOOP, WHILE, FOR or FOREACH behind its label.
    pub(super) fn any_loop(&mut self, label: Option<String>) -> SqlResult<()> {
        let line = self.line();
        self.deeper(|parser| match parser.take_name()?.as_str() {
            "loop" => {
                let start = parser.here();
                parser.looped(label, start, false, line, "LOOP")
            }
            "while" => {
                let start = parser.here();
                parser.evaluate(&["loop"], line, "WHILE")?;
                parser.skip(1);
                let leave = parser.emit(Op::JumpUnless(0), line, "WHILE");
                parser.looped(label, start, false, line, "WHILE")?;
                parser.land([leave]);
                Ok(())
            }
            "for" => parser.for_loop(label, line),
            "foreach" => parser.foreach_loop(label, line),
            _ => Err(parser.unexpected()),
        })
    }

    /// The body of a loop that goes on at `next`, and its end.
    pub(super) fn looped(
        &mut self,
        label: Option<String>,
        next: usize,
        has_state: bool,
        line: u32,
        what: &'static str,
    ) -> SqlResult<()> {
        self.around.push(Around::Loop { label: label.clone(), exits: Vec::new(), next, has_state });
        self.statements(&["end"])?;
        self.expect_word("end")?;
        self.expect_word("loop")?;
        self.end_label(label.as_deref())?;
        self.expect_sign(";")?;
        self.emit(Op::Jump(next), line, what);
        let Some(Around::Loop { exits, .. }) = self.around.pop() else {
            unreachable!("what was opened inside is closed");
        };
        self.land(exits);
        Ok(())
    }

    /// A loop over values: the instruction that gets the next one, then the body.
    fn over_values(
        &mut self,
        label: Option<String>,
        targets: Vec<Target>,
        line: u32,
        what: &'static str,
    ) -> SqlResult<()> {
        let next = self.emit(Op::Next { targets, end: 0 }, line, what);
        self.looped(label, next, true, line, what)?;
        self.land([next]);
        Ok(())
    }

    fn for_loop(&mut self, label: Option<String>, line: u32) -> SqlResult<()> {
        let names = self.names()?;
        self.expect_word("in")?;
        if self.take_word("execute") {
            const WHAT: &str = "FOR over EXECUTE statement";
            let targets = self.row_targets(&names)?;
            self.evaluate(&["loop", "using"], line, WHAT)?;
            let using = self.using(&["loop", ","], line, WHAT)?;
            self.expect_word("loop")?;
            self.emit(Op::QueryText { using }, line, WHAT);
            self.open_scope(label.clone());
            self.over_values(label, targets, line, WHAT)?;
            self.close_scope();
            return Ok(());
        }
        if let Some(cursor) = self.cursor_ahead() {
            return self.cursor_loop(label, &names, cursor, line);
        }
        let reverse = self.is_word("reverse") && {
            self.skip(1);
            true
        };
        let first = self.skip_until(&["loop", ".."])?;
        if !self.is_sign("..") {
            const WHAT: &str = "FOR over SELECT rows";
            if reverse {
                return Err(self.wrong("cannot specify REVERSE in query FOR loop"));
            }
            if first.is_empty() {
                return Err(self.unexpected());
            }
            let targets = self.row_targets(&names)?;
            let query = self.statement(first, false);
            self.skip(1);
            self.emit(Op::QueryRows(query), line, WHAT);
            self.open_scope(label.clone());
            self.over_values(label, targets, line, WHAT)?;
            self.close_scope();
            return Ok(());
        }
        const WHAT: &str = "FOR with integer loop variable";
        let [name] = names.as_slice() else {
            return Err(self.wrong("integer FOR loop must have only one target variable"));
        };
        let [name] = name.as_slice() else { return Err(self.unexpected()) };
        if first.is_empty() {
            return Err(self.unexpected());
        }
        let first = self.statement(first, true);
        self.emit(Op::Evaluate(first), line, WHAT);
        self.skip(1);
        self.evaluate(&["loop", "by"], line, WHAT)?;
        let has_step = self.take_word("by");
        if has_step {
            self.evaluate(&["loop"], line, WHAT)?;
        }
        self.expect_word("loop")?;
        self.emit(Op::BeginIntegers { has_step, reverse }, line, WHAT);
        self.open_scope(label.clone());
        let variable = self.variable(name, Declared::Integer, line);
        self.over_values(label, vec![Target { variable, field: None }], line, WHAT)?;
        self.close_scope();
        Ok(())
    }

    fn foreach_loop(&mut self, label: Option<String>, line: u32) -> SqlResult<()> {
        const WHAT: &str = "FOREACH over array";
        let names = self.names()?;
        if self.is_word("slice") {
            return Err(self.unsupported("FOREACH … SLICE"));
        }
        let targets = self.row_targets(&names)?;
        self.expect_word("in")?;
        self.expect_word("array")?;
        self.evaluate(&["loop"], line, WHAT)?;
        self.skip(1);
        self.emit(Op::BeginElements, line, WHAT);
        self.open_scope(label.clone());
        self.over_values(label, targets, line, WHAT)?;
        self.close_scope();
        Ok(())
    }

    /// `a, b.c, …`.
    fn names(&mut self) -> SqlResult<Vec<Vec<String>>> {
        let mut names = vec![self.take_dotted()?];
        while self.take_sign(",") {
            names.push(self.take_dotted()?);
        }
        Ok(names)
    }

    fn row_targets(&self, names: &[Vec<String>]) -> SqlResult<Vec<Target>> {
        let unknown = "loop variable of loop over rows must be a record variable or list of scalar variables";
        let target = |name: &Vec<String>| {
            self.target(name).map_err(|e| match e.message.ends_with("not a known variable") {
                true => self.wrong(unknown),
                false => e,
            })
        };
        names.iter().map(target).collect()
    }

    /// EXIT and CONTINUE.
    pub(super) fn leave(&mut self, line: u32) -> SqlResult<()> {
        let (is_exit, what) = if self.is_word("exit") { (true, "EXIT") } else { (false, "CONTINUE") };
        self.skip(1);
        let label = match self.is_word("when") || self.is_sign(";") {
            true => None,
            false => Some(self.take_name()?),
        };
        let depth = self.left(label.as_deref(), is_exit)?;
        let stays = match self.take_word("when") {
            true => {
                self.evaluate(&[";"], line, what)?;
                Some(self.emit(Op::JumpUnless(0), line, what))
            }
            false => None,
        };
        self.expect_sign(";")?;
        self.unwind(depth + 1, line, what);
        let jump = match &self.around[depth] {
            Around::Loop { next, .. } if !is_exit => self.emit(Op::Jump(*next), line, what),
            Around::Loop { has_state: true, .. } => {
                self.emit(Op::EndLoop, line, what);
                self.emit(Op::Jump(0), line, what)
            }
            _ => self.emit(Op::Jump(0), line, what),
        };
        if is_exit && let Around::Loop { exits, .. } | Around::Block { exits, .. } = &mut self.around[depth] {
            exits.push(jump);
        }
        self.land(stays);
        Ok(())
    }

    /// Ends what lies inside of what is left.
    fn unwind(&mut self, depth: usize, line: u32, what: &'static str) {
        let ends = |around: &Around| match around {
            Around::Loop { has_state: true, .. } => Some(Op::EndLoop),
            Around::Protected(number) => Some(Op::Unprotect(*number)),
            Around::Handler => Some(Op::EndHandler),
            _ => None,
        };
        let ended: Vec<Op> = self.around[depth..].iter().rev().filter_map(ends).collect();
        for op in ended {
            self.emit(op, line, what);
        }
    }

    /// What EXIT or CONTINUE is about, by its depth.
    fn left(&self, label: Option<&str>, is_exit: bool) -> SqlResult<usize> {
        let Some(label) = label else {
            let innermost = self.around.iter().rposition(|around| matches!(around, Around::Loop { .. }));
            return innermost.ok_or_else(|| match is_exit {
                true => self.wrong("EXIT cannot be used outside a loop, unless it has a label"),
                false => self.wrong("CONTINUE cannot be used outside a loop"),
            });
        };
        let is_named = |around: &Around| match around {
            Around::Block { label: Some(of), .. } | Around::Loop { label: Some(of), .. } => of == label,
            _ => false,
        };
        let depth = self.around.iter().rposition(is_named).ok_or_else(|| {
            self.wrong(format!(
                "there is no label \"{label}\" attached to any block or loop enclosing this statement"
            ))
        })?;
        if !is_exit && matches!(self.around[depth], Around::Block { .. }) {
            return Err(self.wrong(format!("block label \"{label}\" cannot be used in CONTINUE")));
        }
        Ok(depth)
    }
}
