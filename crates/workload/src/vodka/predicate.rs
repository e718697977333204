//! Choosing a predicate's parameters so that it selects a given share of the rows.
//!
//! A predicate is a conjunction of clauses, a clause a disjunction of literals, as in the paper's Eq. 8; each literal has a
//! parameter to choose. There are four cases:
//!
//! 1. one literal: a quantile, or a value that is as frequent as wanted; for an arithmetic literal, of its results;
//! 2. several clauses of one literal: columns that depend on each other form a group, whose rows are sampled together; the
//!    share is split among the groups, and found inside a group on its rows;
//! 3. one clause of several literals: case 2 for the negation (De Morgan);
//! 4. several clauses, some of several literals: clauses become universal and literals empty by parameters at the ends of
//!    the range (Table 1), until case 1, 2 or 3 is left.
//!
//! IN: a predicate, a sample of rows, a share. OUT: a parameter for each literal.
//! KEEPS: each literal gets exactly one parameter, by its position.

use std::collections::{BTreeMap, BTreeSet};

/// What a literal compares.
#[derive(Clone, Debug)]
pub enum Term {
    /// A column, by its place in the sample's rows.
    Column(usize),
    /// A function of columns.
    Arithmetic { columns: Vec<usize>, of: fn(&[f64]) -> f64 },
}

impl Term {
    fn columns(&self) -> &[usize] {
        match self {
            Term::Column(column) => std::slice::from_ref(column),
            Term::Arithmetic { columns, .. } => columns,
        }
    }
    fn value(&self, row: &[f64]) -> f64 {
        match self {
            Term::Column(column) => row[*column],
            Term::Arithmetic { columns, of } => of(&columns.iter().map(|c| row[*c]).collect::<Vec<_>>()),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Between,
    Equal,
    NotEqual,
    In,
    NotIn,
}

impl Comparator {
    fn negated(self) -> Option<Comparator> {
        use Comparator::*;
        Some(match self {
            Less => GreaterOrEqual,
            LessOrEqual => Greater,
            Greater => LessOrEqual,
            GreaterOrEqual => Less,
            Equal => NotEqual,
            NotEqual => Equal,
            In => NotIn,
            NotIn => In,
            // Its complement is two ranges.
            Between => return None,
        })
    }
    fn is_range(self) -> bool {
        !self.is_by_value()
    }
    fn is_by_value(self) -> bool {
        matches!(self, Comparator::Equal | Comparator::NotEqual | Comparator::In | Comparator::NotIn)
    }
}

#[derive(Clone, Debug)]
pub struct Literal {
    pub term: Term,
    pub comparator: Comparator,
}

/// Clauses, of which all must hold; of a clause's literals one.
pub type Predicate = Vec<Vec<Literal>>;

/// What stands on the right of a literal.
#[derive(Clone, PartialEq, Debug)]
pub enum Parameter {
    /// ±∞ are the ends of the column's range.
    Number(f64),
    Range(f64, f64),
    List(Vec<f64>),
    Null,
}

/// Why there are no parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unreachable {
    NoRows,
    /// Two literals of one clause cannot be made empty, or a range must be negated that has two ends.
    Irreducible(&'static str),
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreachable::NoRows => write!(f, "there are no rows to take parameters from"),
            Unreachable::Irreducible(why) => write!(f, "the predicate cannot be reduced: {why}"),
        }
    }
}
impl std::error::Error for Unreachable {}

/// Position of a literal: its clause, and its place there.
pub type At = (usize, usize);

/// A parameter for each literal.
pub type Assignment = BTreeMap<At, Parameter>;

/// Rows of columns; those that the user says depend on each other in groups.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub rows: Vec<Vec<f64>>,
    pub dependent: Vec<Vec<usize>>,
}

/// The parameter with which a literal selects everything (Table 1); `None` if there is none.
pub fn universal(comparator: Comparator) -> Option<Parameter> {
    use Comparator::*;
    match comparator {
        Less | LessOrEqual => Some(Parameter::Number(f64::INFINITY)),
        Greater | GreaterOrEqual => Some(Parameter::Number(f64::NEG_INFINITY)),
        Between => Some(Parameter::Range(f64::NEG_INFINITY, f64::INFINITY)),
        NotEqual | NotIn => Some(Parameter::Null),
        Equal | In => None,
    }
}

/// The parameter with which a literal selects nothing (Table 1); `None` if there is none.
pub fn empty(comparator: Comparator) -> Option<Parameter> {
    use Comparator::*;
    match comparator {
        Less | LessOrEqual => Some(Parameter::Number(f64::NEG_INFINITY)),
        Greater | GreaterOrEqual => Some(Parameter::Number(f64::INFINITY)),
        Between => Some(Parameter::Range(f64::INFINITY, f64::NEG_INFINITY)),
        Equal | In => Some(Parameter::Null),
        NotEqual | NotIn => None,
    }
}

/// True if a row passes a literal. By Table 1 a null list excludes nothing for `not in`, and has nothing for `in`.
fn passes(literal: &Literal, parameter: &Parameter, row: &[f64]) -> bool {
    use Comparator::*;
    let value = literal.term.value(row);
    match (literal.comparator, parameter) {
        (Less, Parameter::Number(x)) => value < *x,
        (LessOrEqual, Parameter::Number(x)) => value <= *x,
        (Greater, Parameter::Number(x)) => value > *x,
        (GreaterOrEqual, Parameter::Number(x)) => value >= *x,
        (Between, Parameter::Range(l, r)) => *l < value && value <= *r,
        (Equal, Parameter::Number(x)) => value == *x,
        (NotEqual, Parameter::Number(x)) => value != *x,
        (In, Parameter::List(list)) => list.contains(&value),
        (NotIn, Parameter::List(list)) => !list.contains(&value),
        (NotEqual | NotIn, Parameter::Null) => true,
        _ => false,
    }
}

/// The share of the sample that a predicate selects with these parameters.
pub fn selectivity(predicate: &Predicate, assignment: &Assignment, sample: &Sample) -> f64 {
    let holds = |row: &&Vec<f64>| {
        predicate.iter().enumerate().all(|(c, clause)| {
            clause.iter().enumerate().any(|(l, literal)| passes(literal, &assignment[&(c, l)], row))
        })
    };
    sample.rows.iter().filter(holds).count() as f64 / sample.rows.len().max(1) as f64
}

/// Parameters with which the predicate selects a share of `alpha`.
///
/// # Errors
/// See [`Unreachable`]. A share that no parameter reaches exactly is approached as near as one can.
pub fn instantiate(predicate: &Predicate, sample: &Sample, alpha: f64) -> Result<Assignment, Unreachable> {
    if sample.rows.is_empty() {
        return Err(Unreachable::NoRows);
    }
    assert!(predicate.iter().all(|clause| !clause.is_empty()), "a clause has a literal");
    let mut out = Assignment::new();
    let chosen = reduce(predicate, &mut out)?;
    let literal = |at: &At| (*at, predicate[at.0][at.1].clone());
    match chosen {
        Reduced::Conjunction(ats) => {
            conjunction(&ats.iter().map(literal).collect::<Vec<_>>(), sample, alpha, &mut out);
        }
        Reduced::Disjunction(ats) => {
            let negated = ats.iter().map(|at| {
                let (at, literal) = literal(at);
                let comparator =
                    literal.comparator.negated().ok_or(Unreachable::Irreducible("a negated range"))?;
                Ok((at, Literal { comparator, ..literal }))
            });
            let negated = negated.collect::<Result<Vec<_>, Unreachable>>()?;
            conjunction(&negated, sample, 1.0 - alpha, &mut out);
        }
    }
    Ok(out)
}

/// What is left to choose.
enum Reduced {
    /// Cases 1 and 2.
    Conjunction(Vec<At>),
    /// Case 3.
    Disjunction(Vec<At>),
}

/// Decides which literals are moved; the others get their ends of the range.
fn reduce(predicate: &Predicate, out: &mut Assignment) -> Result<Reduced, Unreachable> {
    let ats = |c: usize| (0..predicate[c].len()).map(move |l| (c, l)).collect::<Vec<At>>();
    if predicate.iter().all(|clause| clause.len() == 1) {
        return Ok(Reduced::Conjunction((0..predicate.len()).flat_map(ats).collect()));
    }
    if predicate.len() == 1 {
        return Ok(Reduced::Disjunction(ats(0)));
    }
    // Case 4. A clause is universal as soon as one of its literals is.
    let eliminable =
        |clause: &Vec<Literal>| clause.iter().position(|literal| universal(literal.comparator).is_some());
    let fixed: Vec<usize> = (0..predicate.len()).filter(|&c| eliminable(&predicate[c]).is_none()).collect();
    let kept = if fixed.is_empty() {
        // All could go: the one that reaches a share best stays, a single range if there is one.
        let best = |c: &usize| {
            let clause = &predicate[*c];
            (clause.len(), clause.iter().filter(|literal| !literal.comparator.is_range()).count())
        };
        vec![(0..predicate.len()).min_by_key(best).expect("a predicate has clauses")]
    } else {
        fixed
    };
    for (c, clause) in predicate.iter().enumerate().filter(|(c, _)| !kept.contains(c)) {
        for (l, literal) in clause.iter().enumerate() {
            let parameter = universal(literal.comparator).or_else(|| empty(literal.comparator));
            out.insert((c, l), parameter.expect("every comparator has an end"));
        }
    }
    if let [only] = kept[..] {
        return Ok(match predicate[only].len() {
            1 => Reduced::Conjunction(ats(only)),
            _ => Reduced::Disjunction(ats(only)),
        });
    }
    let mut moved = Vec::new();
    for c in kept {
        let clause = &predicate[c];
        let mut stay: Vec<usize> =
            (0..clause.len()).filter(|&l| empty(clause[l].comparator).is_none()).collect();
        if stay.is_empty() {
            stay.push(0);
        }
        let [stay] = stay[..] else {
            return Err(Unreachable::Irreducible("two literals of one clause cannot be made empty"));
        };
        for (l, literal) in clause.iter().enumerate().filter(|(l, _)| *l != stay) {
            out.insert((c, l), empty(literal.comparator).expect("only one stays"));
        }
        moved.push((c, stay));
    }
    Ok(Reduced::Conjunction(moved))
}

/// Cases 1 and 2: literals of which all must hold.
fn conjunction(literals: &[(At, Literal)], sample: &Sample, alpha: f64, out: &mut Assignment) {
    let mut groups = groups(literals, &sample.dependent);
    // By value first: they reach only some shares, and ranges make up for it.
    groups.sort_by_key(|group| group.iter().all(|(_, literal)| literal.comparator.is_range()));
    let mut left = alpha;
    let count = groups.len();
    for (n, group) in groups.iter().enumerate() {
        let wanted = left.clamp(0.0, 1.0).powf(1.0 / (count - n) as f64);
        let reached = solve_group(group, sample, wanted, out);
        left = if reached > 0.0 { left / reached } else { 0.0 };
    }
}

/// Literals whose columns depend on each other, directly or through others.
fn groups(literals: &[(At, Literal)], dependent: &[Vec<usize>]) -> Vec<Vec<(At, Literal)>> {
    let mut sets: Vec<BTreeSet<usize>> = Vec::new();
    let columns = literals.iter().map(|(_, literal)| literal.term.columns());
    for set in columns.chain(dependent.iter().map(Vec::as_slice)) {
        let mut merged: BTreeSet<usize> = set.iter().copied().collect();
        sets.retain(|other| {
            let apart = other.is_disjoint(&merged);
            if !apart {
                merged.extend(other);
            }
            apart
        });
        sets.push(merged);
    }
    let of = |set: &BTreeSet<usize>| {
        let inside = literals.iter().filter(|(_, l)| l.term.columns().iter().any(|c| set.contains(c)));
        inside.cloned().collect::<Vec<_>>()
    };
    sets.iter().map(of).filter(|group| !group.is_empty()).collect()
}

/// Chooses the parameters of one group; returns the share that they reach.
fn solve_group(group: &[(At, Literal)], sample: &Sample, wanted: f64, out: &mut Assignment) -> f64 {
    let at_level = |level: f64| -> Vec<(At, Parameter)> {
        group.iter().map(|(at, literal)| (*at, single(literal, sample, level))).collect()
    };
    let share = |parameters: &[(At, Parameter)]| {
        let passing = sample
            .rows
            .iter()
            .filter(|row| group.iter().zip(parameters).all(|((_, literal), (_, p))| passes(literal, p, row)));
        passing.count() as f64 / sample.rows.len() as f64
    };
    // Every literal at the same share of its own; the joint share grows with it.
    let (mut low, mut high) = if group.len() == 1 { (wanted, wanted) } else { (wanted, 1.0) };
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if share(&at_level(middle)) < wanted {
            low = middle;
        } else {
            high = middle;
        }
        if high - low < 1e-6 {
            break;
        }
    }
    let parameters = at_level(high);
    let reached = share(&parameters);
    out.extend(parameters);
    reached
}

/// Case 1: the parameter of one literal.
fn single(literal: &Literal, sample: &Sample, alpha: f64) -> Parameter {
    use Comparator::*;
    let mut values: Vec<f64> = sample.rows.iter().map(|row| literal.term.value(row)).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    // The least number that `share` of the values are below; ∞ if all are.
    let below =
        |share: f64| values.get((share * n as f64).round() as usize).copied().unwrap_or(f64::INFINITY);
    let up_to = |share: f64| match (share * n as f64).round() as usize {
        0 => f64::NEG_INFINITY,
        at => values[at.min(n) - 1],
    };
    match literal.comparator {
        Less => Parameter::Number(below(alpha)),
        LessOrEqual => Parameter::Number(up_to(alpha)),
        Greater => Parameter::Number(up_to(1.0 - alpha)),
        GreaterOrEqual => Parameter::Number(below(1.0 - alpha)),
        Between => {
            let margin = (1.0 - alpha) / 2.0;
            Parameter::Range(up_to(margin), up_to(1.0 - margin))
        }
        Equal => Parameter::Number(as_frequent(&values, alpha)),
        NotEqual => Parameter::Number(as_frequent(&values, 1.0 - alpha)),
        In => Parameter::List(list(&values, alpha)),
        NotIn => Parameter::List(list(&values, 1.0 - alpha)),
    }
}

fn frequencies(sorted: &[f64]) -> Vec<(f64, f64)> {
    let share = |run: &[f64]| (run[0], run.len() as f64 / sorted.len() as f64);
    sorted.chunk_by(|a, b| a == b).map(share).collect()
}

/// The value whose share is nearest.
fn as_frequent(sorted: &[f64], share: f64) -> f64 {
    let off = |of: &(f64, f64)| (of.1 - share).abs();
    let all = frequencies(sorted);
    all.iter().min_by(|a, b| off(a).total_cmp(&off(b))).expect("there are rows").0
}

/// Values whose shares add up to nearly this, the most frequent that fit first.
fn list(sorted: &[f64], share: f64) -> Vec<f64> {
    let mut all = frequencies(sorted);
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.total_cmp(&b.0)));
    let (mut left, mut out) = (share, Vec::new());
    for (value, frequency) in all {
        // Taken if that brings the sum nearer.
        if frequency <= 2.0 * left {
            left -= frequency;
            out.push(value);
        }
    }
    out.sort_by(f64::total_cmp);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Rng;

    /// Columns 0 to 3 are independent; 4 depends on 0; 5 has ten values of one tenth each.
    fn sample() -> Sample {
        let mut rng = Rng::new(4);
        let rows = (0..4000).map(|_| {
            let mut row: Vec<f64> = (0..4).map(|_| rng.unit() * 100.0).collect();
            row.push(row[0] + rng.unit() * 5.0);
            row.push(rng.below(10) as f64);
            row
        });
        Sample { rows: rows.collect(), dependent: vec![vec![0, 4]] }
    }
    fn column(column: usize, comparator: Comparator) -> Literal {
        Literal { term: Term::Column(column), comparator }
    }
    fn sum(columns: [usize; 2], comparator: Comparator) -> Literal {
        Literal { term: Term::Arithmetic { columns: columns.into(), of: |v| v.iter().sum() }, comparator }
    }
    fn reaches(predicate: Predicate, alpha: f64, tolerance: f64) -> Assignment {
        let sample = sample();
        let assignment = instantiate(&predicate, &sample, alpha).unwrap();
        let literals: usize = predicate.iter().map(Vec::len).sum();
        assert_eq!(assignment.len(), literals, "each literal has a parameter");
        let share = selectivity(&predicate, &assignment, &sample);
        assert!((share - alpha).abs() <= tolerance, "{predicate:?}: {share}, wanted {alpha}");
        assignment
    }

    #[test]
    fn case_1_every_comparator_reaches_its_share() {
        use Comparator::*;
        for alpha in [0.0, 0.07, 0.3, 0.95, 1.0] {
            for comparator in [Less, LessOrEqual, Greater, GreaterOrEqual, Between] {
                reaches(vec![vec![column(1, comparator)]], alpha, 0.001);
            }
            reaches(vec![vec![sum([1, 2], LessOrEqual)]], alpha, 0.001);
        }
        reaches(vec![vec![column(5, Equal)]], 0.1, 0.01);
        reaches(vec![vec![column(5, NotEqual)]], 0.9, 0.01);
        reaches(vec![vec![column(5, In)]], 0.3, 0.02);
        reaches(vec![vec![column(5, NotIn)]], 0.4, 0.02);
    }

    #[test]
    fn case_2_independent_columns_split_the_share_and_dependent_ones_are_sampled_together() {
        use Comparator::*;
        reaches(vec![vec![column(1, Less)], vec![column(2, Less)]], 0.25, 0.02);
        // Columns 0 and 4 are nearly the same: splitting the share would give its square root.
        let assignment = reaches(vec![vec![column(0, Less)], vec![column(4, Less)]], 0.25, 0.005);
        let Parameter::Number(x) = assignment[&(0, 0)] else { unreachable!() };
        assert!(x < 30.0, "{x}");
        // The paper's example: A1 < r1 and A1 + A2 < r2 and A3 < r3.
        reaches(vec![vec![column(1, Less)], vec![sum([1, 2], Less)], vec![column(3, Less)]], 0.2, 0.02);
        // A value reaches only its frequency; the range makes up for it.
        reaches(vec![vec![column(5, Equal)], vec![column(1, Less)]], 0.05, 0.01);
    }

    #[test]
    fn case_3_goes_by_de_morgan() {
        use Comparator::*;
        reaches(vec![vec![column(1, Less), column(2, Greater)]], 0.6, 0.02);
        reaches(vec![vec![column(0, Less), column(4, Less), sum([1, 2], Greater)]], 0.3, 0.02);
        let clause = vec![column(1, Between), column(2, Less)];
        assert!(matches!(instantiate(&vec![clause], &sample(), 0.3), Err(Unreachable::Irreducible(_))));
    }

    #[test]
    fn case_4_the_papers_example_leaves_the_arithmetic_clause() {
        use Comparator::*;
        // (A1 < r1 or A4 > r2) and (A2 + A3 < r3)
        let predicate = vec![vec![column(0, Less), column(3, Greater)], vec![sum([1, 2], Less)]];
        let assignment = reaches(predicate, 0.35, 0.001);
        assert_eq!(assignment[&(0, 0)], Parameter::Number(f64::INFINITY));
        // Clauses that cannot be universal keep one literal each; the others select nothing.
        let predicate = vec![vec![column(5, Equal), column(5, In)], vec![column(1, Less), column(2, Less)]];
        let assignment = reaches(predicate, 0.1, 0.01);
        assert_eq!(assignment[&(1, 0)], Parameter::Number(f64::INFINITY));
        let values = || vec![column(5, Equal), column(5, In)];
        let assignment = instantiate(&vec![values(), values()], &sample(), 0.1).unwrap();
        assert_eq!(assignment[&(0, 1)], Parameter::Null);
    }

    #[test]
    fn no_rows_no_parameters() {
        let predicate = vec![vec![column(0, Comparator::Less)]];
        assert_eq!(instantiate(&predicate, &Sample::default(), 0.5), Err(Unreachable::NoRows));
    }
}
