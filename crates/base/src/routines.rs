//! Functions and procedures that users have made, as the catalog keeps them.
//!
//! The catalog knows what a call looks like: arguments, result, language. What a body does is its language's business; the
//! text is kept as it was written.
//!
//! KEEPS: no two routines of one schema have one name and one list of argument types; a type here holds the description
//! that the catalog has of it.

use crate::roles::{Object, PUBLIC, Privileges, Rights, RoleChange};
use crate::{DataType, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Arguments that a routine has at most, as in PostgreSQL.
pub const PARAMETERS_MAX: usize = 100;

/// Bytes of a body: a catalog travels to every node and is held in memory as often as it has changed.
pub const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Routine {
    /// From the number space of tables; owner and privileges are those of [`Object::Relation`] with it.
    pub id: TableId,
    pub schema: String,
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub result: ResultOf,
    pub language: Language,
    pub volatility: Volatility,
    /// It gives NULL, or no row, where an argument is NULL, and does not run.
    pub is_strict: bool,
    pub is_leakproof: bool,
    pub parallel: Parallel,
    pub estimates: Estimates,
    pub body: String,
    /// The body is `RETURN …` or `BEGIN ATOMIC … END`, not a quoted text.
    pub is_standard: bool,
    /// SECURITY DEFINER: what the body does is held against the privileges of the owner.
    #[serde(deserialize_with = "crate::codec::since::<12, _, _>")]
    pub is_definer: bool,
    #[serde(deserialize_with = "crate::codec::since::<12, _, _>")]
    pub form: Form,
    /// The last of [`Routine::parameters`] is an array of all arguments from there on (VARIADIC).
    #[serde(deserialize_with = "crate::codec::since::<13, _, _>")]
    pub is_variadic: bool,
}

/// COST and ROWS as they were written; nothing is estimated from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    pub cost: Option<String>,
    pub rows: Option<String>,
}

/// What there is to a routine beside arguments that go in and a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Form {
    #[default]
    Plain,
    /// Some arguments are OUT or INOUT: all of them in the order in which they are declared. Those that go in are
    /// [`Routine::parameters`], in the same order.
    WithOutputs(Vec<DeclaredArgument>),
    /// It is an aggregate, and its body is empty.
    Aggregate(Aggregate),
}

/// An argument of a routine that has OUT or INOUT arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DeclaredArgument {
    /// The next one of [`Routine::parameters`].
    In,
    /// The next one of [`Routine::parameters`], which is a column of the result as well.
    InOut,
    /// A column of the result alone.
    Out { name: Option<String>, of: TypeOf },
}

/// What an argument is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    In,
    /// The last one that goes in, which is an array of all arguments from there on.
    Variadic,
    InOut,
    Out,
    /// A column of RETURNS TABLE.
    Column,
}

/// An argument of a routine, or a column of RETURNS TABLE.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentOf<'a> {
    pub mode: Mode,
    pub name: Option<&'a str>,
    pub of: TypeOf,
    /// SQL text.
    pub default: Option<&'a str>,
}

/// How an aggregate is computed. The state begins as `initial` and becomes `transition(state, argument)` for each row;
/// the result is the last state, or `last(state)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregate {
    pub state: TypeOf,
    /// INITCOND; `None`: NULL.
    pub initial: Option<String>,
    /// SFUNC.
    pub transition: FunctionName,
    /// FINALFUNC.
    pub last: Option<FunctionName>,
}

/// A function that an aggregate calls: one of a user, or one of PostgreSQL's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionName {
    /// Of a function of a user, its number, which stays the same when it is renamed.
    pub routine: Option<TableId>,
    /// Of one of PostgreSQL's, its name; of a user's as it was when the aggregate was made.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    pub name: Option<String>,
    pub of: TypeOf,
    /// SQL text.
    pub default: Option<String>,
}

/// A type of an argument or a result, without limits of length or digits, as PostgreSQL ignores them here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeOf {
    /// Of a domain, its base type; it says nothing while the type is polymorphic.
    pub data_type: DataType,
    pub domain: Option<TableId>,
    /// It stands for a type that a call decides.
    #[serde(deserialize_with = "crate::codec::since::<13, _, _>")]
    pub any: Option<Polymorphic>,
}

/// A type that stands for another one, which the arguments of a call decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Polymorphic {
    Element,
    /// The array of what [`Polymorphic::Element`] stands for.
    Array,
    NonArray,
    Enum,
    /// The type that all such arguments have in common.
    Compatible,
    CompatibleArray,
    CompatibleNonArray,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResultOf {
    /// It is a procedure, and is called by CALL.
    Procedure,
    Void,
    /// It is for CREATE TRIGGER.
    Trigger,
    One(TypeOf),
    SetOf(TypeOf),
    /// One row of a table or view, or many.
    RowOf(TableId),
    SetOfRows(TableId),
    /// RETURNS TABLE, or RETURNS SETOF record with several OUT arguments.
    Table(Vec<(String, TypeOf)>),
    /// Several OUT arguments: one row of them.
    Record(Vec<(String, TypeOf)>),
    /// RETURNS record: one row, or many, whose columns are listed where it is called.
    OpenRecord,
    SetOfOpenRecords,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Language {
    Sql,
    PlPgSql,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Volatility {
    Immutable,
    Stable,
    Volatile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parallel {
    Unsafe,
    Restricted,
    Safe,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Routines(pub BTreeMap<TableId, Arc<Routine>>);

impl Routines {
    /// Routines of a name, in the order of their ids.
    pub fn named<'a>(&'a self, schema: &'a str, name: &'a str) -> impl Iterator<Item = &'a Arc<Routine>> {
        self.0.values().filter(move |routine| routine.schema == schema && routine.name == name)
    }

    /// The one of a name and argument types.
    pub fn exact(&self, schema: &str, name: &str, types: &[TypeOf]) -> Option<&Arc<Routine>> {
        let is_it = |routine: &&Arc<Routine>| {
            routine.schema == schema && routine.name == name && routine.types().eq(types.iter().copied())
        };
        self.0.values().find(is_it)
    }

    pub fn in_schema<'a>(&'a self, schema: &'a str) -> impl Iterator<Item = &'a Arc<Routine>> {
        self.0.values().filter(move |routine| routine.schema == schema)
    }
}

impl Routine {
    /// All arguments if some of them are OUT or INOUT; otherwise nothing.
    pub fn declared(&self) -> &[DeclaredArgument] {
        match &self.form {
            Form::WithOutputs(declared) => declared,
            Form::Plain | Form::Aggregate(_) => &[],
        }
    }

    pub fn aggregate(&self) -> Option<&Aggregate> {
        match &self.form {
            Form::Aggregate(aggregate) => Some(aggregate),
            Form::Plain | Form::WithOutputs(_) => None,
        }
    }

    /// Types of the arguments.
    pub fn types(&self) -> impl Iterator<Item = TypeOf> + '_ {
        self.parameters.iter().map(|parameter| parameter.of)
    }

    pub fn is_procedure(&self) -> bool {
        self.result == ResultOf::Procedure
    }

    /// Whether it gives any number of rows.
    pub fn is_set(&self) -> bool {
        matches!(
            self.result,
            ResultOf::SetOf(_) | ResultOf::SetOfRows(_) | ResultOf::Table(_) | ResultOf::SetOfOpenRecords
        )
    }

    /// Arguments that a call has to give; those behind them have defaults.
    pub fn required(&self) -> usize {
        self.parameters.iter().take_while(|parameter| parameter.default.is_none()).count()
    }

    /// What PostgreSQL calls it; an aggregate is a function as well.
    pub fn kind(&self) -> &'static str {
        if self.is_procedure() { "procedure" } else { "function" }
    }

    /// Columns of its rows that it names itself: of RETURNS TABLE, or of several OUT arguments.
    pub fn named_columns(&self) -> &[(String, TypeOf)] {
        match &self.result {
            ResultOf::Table(columns) | ResultOf::Record(columns) => columns,
            _ => &[],
        }
    }

    /// The name of the one OUT argument whose value it gives.
    pub fn output_name(&self) -> Option<&str> {
        if !matches!(self.result, ResultOf::One(_) | ResultOf::SetOf(_)) || !self.has_outputs() {
            return None;
        }
        self.arguments()
            .into_iter()
            .find(|argument| argument.mode.goes_out())
            .and_then(|argument| argument.name)
    }

    /// Whether it has OUT or INOUT arguments.
    pub fn has_outputs(&self) -> bool {
        !self.declared().is_empty()
    }

    /// All arguments in the order in which they are declared, and behind them the columns of RETURNS TABLE.
    pub fn arguments(&self) -> Vec<ArgumentOf<'_>> {
        let mut parameters = self.parameters.iter();
        let mut all = Vec::with_capacity(self.parameters.len());
        for declared in self.declared() {
            let mode = match declared {
                DeclaredArgument::Out { name, of } => {
                    all.push(ArgumentOf { mode: Mode::Out, name: name.as_deref(), of: *of, default: None });
                    continue;
                }
                DeclaredArgument::In => Mode::In,
                DeclaredArgument::InOut => Mode::InOut,
            };
            all.extend(parameters.next().map(|parameter| parameter.as_argument(mode)));
        }
        all.extend(parameters.map(|parameter| parameter.as_argument(Mode::In)));
        if self.is_variadic
            && let Some(last) = all.iter_mut().rfind(|argument| argument.mode == Mode::In)
        {
            last.mode = Mode::Variadic;
        }
        if let (ResultOf::Table(columns), false) = (&self.result, self.has_outputs()) {
            all.extend(columns.iter().map(|(name, of)| ArgumentOf {
                mode: Mode::Column,
                name: Some(name.as_str()),
                of: *of,
                default: None,
            }));
        }
        all
    }

    /// Every type of its signature.
    pub fn all_types(&self) -> impl Iterator<Item = TypeOf> + '_ {
        let one = match &self.result {
            ResultOf::One(of) | ResultOf::SetOf(of) => Some(*of),
            _ => None,
        };
        let state = self.aggregate().map(|aggregate| aggregate.state);
        self.types().chain(one).chain(self.named_columns().iter().map(|(_, of)| *of)).chain(state)
    }

    /// Its rows are those of another table from now on, which has taken the place of the one that it names.
    pub fn give_rows_of(&mut self, table: TableId) {
        if let ResultOf::RowOf(of) | ResultOf::SetOfRows(of) = &mut self.result {
            *of = table;
        }
    }

    /// The relation whose rows it gives.
    pub fn row_of(&self) -> Option<TableId> {
        match self.result {
            ResultOf::RowOf(id) | ResultOf::SetOfRows(id) => Some(id),
            _ => None,
        }
    }

    /// The same with another description of a type.
    pub(crate) fn retyped(&self, of: DataType) -> Routine {
        self.with_types(|known| known.data_type = known.data_type.retyped(of))
    }

    /// Whether a call decides some of its types.
    pub fn is_polymorphic(&self) -> bool {
        self.all_types().any(|of| of.any.is_some())
    }

    /// The same with other types.
    pub fn with_types(&self, mut renew: impl FnMut(&mut TypeOf)) -> Routine {
        let mut next = self.clone();
        next.parameters.iter_mut().for_each(|parameter| renew(&mut parameter.of));
        match &mut next.result {
            ResultOf::One(of) | ResultOf::SetOf(of) => renew(of),
            ResultOf::Table(columns) | ResultOf::Record(columns) => {
                columns.iter_mut().for_each(|(_, of)| renew(of));
            }
            _ => {}
        }
        match &mut next.form {
            Form::Plain => {}
            Form::WithOutputs(declared) => {
                for declared in declared {
                    if let DeclaredArgument::Out { of, .. } = declared {
                        renew(of);
                    }
                }
            }
            Form::Aggregate(aggregate) => renew(&mut aggregate.state),
        }
        next
    }
}

impl Parameter {
    fn as_argument(&self, mode: Mode) -> ArgumentOf<'_> {
        ArgumentOf { mode, name: self.name.as_deref(), of: self.of, default: self.default.as_deref() }
    }
}

impl Mode {
    /// Whether a call gives a value for it.
    pub fn goes_in(self) -> bool {
        matches!(self, Mode::In | Mode::Variadic | Mode::InOut)
    }

    /// Whether it is a column of the result.
    pub fn goes_out(self) -> bool {
        !matches!(self, Mode::In | Mode::Variadic)
    }
}

impl From<DataType> for TypeOf {
    fn from(data_type: DataType) -> TypeOf {
        TypeOf { data_type, domain: None, any: None }
    }
}

impl From<Polymorphic> for TypeOf {
    fn from(any: Polymorphic) -> TypeOf {
        TypeOf { data_type: DataType::Text, domain: None, any: Some(any) }
    }
}

impl TypeOf {
    /// The type, unless a call decides it.
    pub fn known(self) -> Option<DataType> {
        self.any.is_none().then_some(self.data_type)
    }
}

impl Polymorphic {
    /// All of them, with their names and object ids.
    const ALL: [(Polymorphic, &'static str, u32); 7] = [
        (Polymorphic::Element, "anyelement", 2283),
        (Polymorphic::Array, "anyarray", 2277),
        (Polymorphic::NonArray, "anynonarray", 2776),
        (Polymorphic::Enum, "anyenum", 3500),
        (Polymorphic::Compatible, "anycompatible", 5077),
        (Polymorphic::CompatibleArray, "anycompatiblearray", 5078),
        (Polymorphic::CompatibleNonArray, "anycompatiblenonarray", 5079),
    ];

    /// The one of a name in lower case.
    pub fn named(name: &str) -> Option<Polymorphic> {
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        Polymorphic::ALL.iter().find(|(_, known, _)| *known == name).map(|(of, ..)| *of)
    }

    /// Its name and its object id.
    fn described(self) -> (&'static str, u32) {
        let found = Polymorphic::ALL.iter().find(|(of, ..)| *of == self);
        found.map(|(_, name, oid)| (*name, *oid)).expect("the list has all of them")
    }

    pub fn name(self) -> &'static str {
        self.described().0
    }

    /// Object id, as PostgreSQL numbers it.
    pub fn oid(self) -> u32 {
        self.described().1
    }

    /// Whether it stands for an array.
    pub fn is_array(self) -> bool {
        matches!(self, Polymorphic::Array | Polymorphic::CompatibleArray)
    }

    /// Whether arguments of different types meet in one that they have in common.
    pub fn is_compatible(self) -> bool {
        use Polymorphic as P;
        matches!(self, P::Compatible | P::CompatibleArray | P::CompatibleNonArray)
    }

    /// What stands for the elements of an array of this type.
    pub fn element(self) -> Polymorphic {
        match self {
            Polymorphic::Array => Polymorphic::Element,
            Polymorphic::CompatibleArray => Polymorphic::Compatible,
            other => other,
        }
    }
}

/// What lets everybody call a routine that is new.
pub fn to_everybody(id: TableId) -> RoleChange {
    let rights = Rights { held: Privileges::EXECUTE, grantable: Privileges::NONE };
    RoleChange::SetRights(Object::Relation(id), PUBLIC, rights)
}
