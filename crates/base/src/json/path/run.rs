//! Running a path: which items it finds.
//!
//! As in PostgreSQL each item goes through all steps before the next one sets out, so that a run that looks for the first
//! item stops there, and silent errors leave what was found before them.

use super::items::{Item, Scope, Sink};
use super::layout::Layout;
use super::{Chain, Path, Step, WORK_MAX};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::json::Json;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};

/// Why a run ended before its time.
#[derive(Debug)]
pub(super) enum End {
    /// An error of the items: silent if the caller asks for that, and unknown in a predicate.
    Quiet(SqlError),
    /// One of the path or of the machine.
    Loud(SqlError),
}

impl End {
    /// Errors: what is not silent.
    pub fn told(self, is_silent: bool) -> SqlResult<()> {
        match self {
            End::Quiet(_) if is_silent => Ok(()),
            End::Quiet(error) | End::Loud(error) => Err(error),
        }
    }
}

/// An error of the items.
pub(super) fn quiet(state: &[u8; 5], message: impl Into<String>) -> End {
    End::Quiet(SqlError::new(SqlState(*state), message))
}

pub(super) type Outcome<T> = Result<T, End>;

pub(super) struct Run<'a> {
    pub is_lax: bool,
    root: &'a Json,
    vars: Option<&'a Json>,
    work_left: Cell<u64>,
    /// The number of the next object that `keyvalue()` makes.
    pub next_id: Cell<i64>,
    /// Where objects of the target and of variables lie.
    pub layouts: RefCell<[Option<Layout>; 2]>,
}

/// What a run has found, until it came to an end.
pub(super) struct Found<'a> {
    pub items: Vec<Cow<'a, Json>>,
    pub end: Option<End>,
}

pub(super) fn all<'a>(path: &Path, target: &'a Json, vars: Option<&'a Json>) -> Found<'a> {
    let mut sink = Sink::All(Vec::new());
    let end = Run::new(path, target, vars).from_root(&path.chain, &mut sink).err();
    let Sink::All(items) = sink else { unreachable!("it takes all") };
    Found { items, end }
}

pub(super) fn exists(path: &Path, target: &Json, vars: Option<&Json>) -> Outcome<bool> {
    if path.is_lax {
        return Run::new(path, target, vars).from_root(&path.chain, &mut Sink::Probe);
    }
    // All have to be looked at: an error may be behind the first one.
    let Found { items, end } = all(path, target, vars);
    match end {
        Some(end) => Err(end),
        None => Ok(!items.is_empty()),
    }
}

impl<'a> Run<'a> {
    fn new(path: &Path, root: &'a Json, vars: Option<&'a Json>) -> Run<'a> {
        Run {
            is_lax: path.is_lax,
            root,
            vars,
            work_left: Cell::new(WORK_MAX),
            next_id: Cell::new(if vars.is_some() { 2 } else { 1 }),
            layouts: RefCell::default(),
        }
    }

    fn from_root(&self, chain: &Chain, sink: &mut Sink<'a>) -> Outcome<bool> {
        let root = Item::Given(self.root);
        let scope = Scope { current: root, base: (root, 0), ignores_structure: self.is_lax, size: None };
        self.steps(chain, scope, root, self.is_lax, sink)
    }

    /// Errors: so much work is too much (54000).
    pub fn work(&self, units: usize) -> Outcome<()> {
        match self.work_left.get().checked_sub(units as u64) {
            Some(left) => {
                self.work_left.set(left);
                Ok(())
            }
            None => {
                let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "jsonpath takes too many steps");
                Err(End::Loud(error.detail(format!("A call looks at no more than {WORK_MAX} items."))))
            }
        }
    }

    /// Takes an item through a chain. Whether that finds anything counts for [`Sink::Probe`] alone.
    pub fn steps<'b>(
        &self,
        chain: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        unwraps: bool,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        self.work(1)?;
        let (step, rest) = chain.split_first().expect("a chain has a step");
        let takes_array_apart = match step {
            Step::Key(_) | Step::AnyKey | Step::Filter(_) | Step::Datetime(_) => true,
            Step::Method(method) => method.takes_elements(),
            _ => false,
        };
        if unwraps && takes_array_apart && item.is_array() {
            return self.inside(chain, scope, item, false, sink);
        }
        match step {
            Step::Root => {
                let root = Item::Given(self.root);
                self.next(rest, Scope { base: (root, 0), ..scope }, root, sink)
            }
            Step::Current => self.next(rest, scope, scope.current, sink),
            Step::Last => {
                let last = Json::Number((scope.size.unwrap_or_default() - 1).to_string());
                self.next(rest, scope, Item::Made(&last), sink)
            }
            Step::Literal(json) => self.next(rest, scope, Item::Made(json), sink),
            Step::Variable(name) => self.variable(name, rest, scope, sink),
            Step::Arithmetic(operator, left, right) => {
                let made = self.computed(*operator, left, right, scope, item)?;
                self.next(rest, scope, Item::Made(&made), sink)
            }
            Step::Sign(sign, inner) => self.with_sign(*sign, inner, rest, scope, item, sink),
            Step::Key(key) => self.key(key, rest, scope, item, sink),
            Step::AnyKey => self.any_key(rest, scope, item, sink),
            Step::AnyElement => self.any_element(rest, scope, item, sink),
            Step::Elements(elements) => self.elements(elements, rest, scope, item, sink),
            Step::Descendants(first, last) => self.descendants((*first, *last), rest, scope, item, sink),
            Step::Filter(condition) => {
                match self.truth(condition, Scope { current: item, ..scope }, item)? {
                    Some(true) => self.next(rest, scope, item, sink),
                    _ => Ok(false),
                }
            }
            Step::Method(method) => self.method(*method, rest, scope, item, sink),
            Step::Datetime(_) => Err(End::Loud(SqlError::unsupported("jsonpath item method .datetime()"))),
            predicate => {
                let made = self.truth_of(predicate, scope, item)?.map_or(Json::Null, Json::Bool);
                self.next(rest, scope, Item::Made(&made), sink)
            }
        }
    }

    /// Takes an item through the steps that are left.
    pub fn next<'b>(
        &self,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        if !rest.is_empty() {
            return self.steps(rest, scope, item, self.is_lax, sink);
        }
        if let Sink::All(items) = sink {
            self.work(4)?;
            items.push(match item {
                Item::Given(json) => Cow::Borrowed(json),
                Item::Made(json) => {
                    self.work(super::methods::weight(json))?;
                    Cow::Owned(json.clone())
                }
            });
        }
        Ok(true)
    }

    /// Takes what lies right inside an item through a chain, which may be empty.
    pub fn inside<'b>(
        &self,
        chain: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        unwraps: bool,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        for inner in item.inside() {
            let is_found = match chain {
                [] => self.next(chain, scope, inner, sink)?,
                chain => self.steps(chain, scope, inner, unwraps, sink)?,
            };
            if is_found && matches!(sink, Sink::Probe) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn variable<'b>(
        &self,
        name: &str,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        // Operators have no variables.
        let Some(vars) = self.vars else { return self.next(rest, scope, Item::Made(&Json::Null), sink) };
        let Some(value) = vars.member(name) else {
            let message = format!("could not find jsonpath variable \"{name}\"");
            return Err(End::Loud(SqlError::new(SqlState(*b"42704"), message)));
        };
        let scope = Scope { base: (Item::Given(vars), 1), ..scope };
        self.next(rest, scope, Item::Given(value), sink)
    }

    /// What a step finds at an item that it is not for.
    fn misfit(&self, scope: Scope<'_, '_>, state: &[u8; 5], message: &str) -> Outcome<bool> {
        match scope.ignores_structure {
            true => Ok(false),
            false => Err(quiet(state, message)),
        }
    }

    fn key<'b>(
        &self,
        key: &str,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        match (item.json(), item.member(key)) {
            (_, Some(member)) => self.next(rest, scope, member, sink),
            (Json::Object(_), None) if scope.ignores_structure => Ok(false),
            (Json::Object(_), None) => {
                Err(quiet(b"2203A", format!("JSON object does not contain key \"{key}\"")))
            }
            _ => self.misfit(scope, b"2203A", "jsonpath member accessor can only be applied to an object"),
        }
    }

    fn any_key<'b>(
        &self,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        match item.json() {
            Json::Object(_) => self.inside(rest, scope, item, self.is_lax, sink),
            _ => {
                let message = "jsonpath wildcard member accessor can only be applied to an object";
                self.misfit(scope, b"2203C", message)
            }
        }
    }

    fn any_element<'b>(
        &self,
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        if item.is_array() {
            return self.inside(rest, scope, item, self.is_lax, sink);
        }
        if self.is_lax {
            return self.next(rest, scope, item, sink);
        }
        let message = "jsonpath wildcard array accessor can only be applied to an array";
        self.misfit(scope, b"22039", message)
    }

    fn elements<'b>(
        &self,
        elements: &[(Chain, Option<Chain>)],
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        let size = match item.json() {
            Json::Array(elements) => elements.len() as i64,
            _ if self.is_lax => 1,
            _ => {
                let message = "jsonpath array accessor can only be applied to an array";
                return self.misfit(scope, b"22039", message);
            }
        };
        let scope = Scope { size: Some(size), ..scope };
        for (from, to) in elements {
            self.work(1)?;
            let from = self.subscript(from, scope, item)?;
            let to = match to {
                Some(to) => self.subscript(to, scope, item)?,
                None => from,
            };
            if !scope.ignores_structure && (from < 0 || from > to || to >= size) {
                return Err(quiet(b"22033", "jsonpath array subscript is out of bounds"));
            }
            for at in from.max(0)..=to.min(size - 1) {
                // What is no array is one of itself alone.
                let element = if item.is_array() { item.element(at) } else { Some(item) };
                let Some(element) = element else { continue };
                if self.next(rest, scope, element, sink)? && matches!(sink, Sink::Probe) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn subscript<'b>(&self, chain: &Chain, scope: Scope<'a, 'b>, item: Item<'a, 'b>) -> Outcome<i64>
    where
        'a: 'b,
    {
        let found = self.found(chain, scope, item)?;
        let digits = match found.as_slice() {
            [one] => super::methods::digits(one),
            _ => None,
        };
        let digits = digits
            .ok_or_else(|| quiet(b"22033", "jsonpath array subscript is not a single numeric value"))?;
        let whole = digits.split('.').next().unwrap_or_default();
        let at = whole
            .parse::<i32>()
            .map_err(|_| quiet(b"22033", "jsonpath array subscript is out of integer range"))?;
        Ok(at.into())
    }

    /// All that a chain finds.
    pub fn found<'b>(
        &self,
        chain: &Chain,
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
    ) -> Outcome<Vec<Cow<'a, Json>>>
    where
        'a: 'b,
    {
        let mut sink = Sink::All(Vec::new());
        self.steps(chain, scope, item, self.is_lax, &mut sink)?;
        let Sink::All(items) = sink else { unreachable!("it takes all") };
        Ok(items)
    }

    fn descendants<'b>(
        &self,
        levels: (u32, u32),
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        let quiet = Scope { ignores_structure: true, ..scope };
        if levels.0 == 0 && self.next(rest, quiet, item, sink)? && matches!(sink, Sink::Probe) {
            return Ok(true);
        }
        self.below(1, levels, rest, quiet, item, sink)
    }

    /// What lies inside an item on one of some levels, each before what lies inside it.
    fn below<'b>(
        &self,
        level: u32,
        (first, last): (u32, u32),
        rest: &[Step],
        scope: Scope<'a, 'b>,
        item: Item<'a, 'b>,
        sink: &mut Sink<'a>,
    ) -> Outcome<bool>
    where
        'a: 'b,
    {
        if level > last {
            return Ok(false);
        }
        for inner in item.inside() {
            self.work(1)?;
            let is_leaf = !matches!(inner.json(), Json::Array(_) | Json::Object(_));
            let is_wanted = level >= first || (first == u32::MAX && last == u32::MAX && is_leaf);
            let is_found = is_wanted && self.next(rest, scope, inner, sink)?;
            let is_found = (is_found && matches!(sink, Sink::Probe))
                || (level < last && self.below(level + 1, (first, last), rest, scope, inner, sink)?);
            if is_found && matches!(sink, Sink::Probe) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
