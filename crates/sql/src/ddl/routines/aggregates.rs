//! CREATE AGGREGATE.

use super::super::{Ddl, DdlContext};
use super::INVALID_DEFINITION;
use super::arguments::argument_type;
use crate::lower::scope::ParameterTypes;
use crate::names;
use crate::parse::{CreateAggregate, Declared};
use crate::privileges::Check;
use crate::routines::fold::{self, Fold};
use crate::routines::resolve::{Types, resolve, unfit};
use crate::routines::scopes::Scopes;
use crate::routines::{self, expand};
use base::TableId;
use base::element::Element;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{
    Aggregate, Estimates, Form, FunctionName, Language, Parallel, Parameter, ResultOf, Routine, TypeOf,
    Volatility,
};
use sqlparser::ast::{self, Expr, FunctionArguments, ObjectName};

impl DdlContext<'_> {
    /// Errors: 42P13, 42804, 42883; 0A000 for what is not computed here.
    pub(super) fn create_aggregate(&self, create: &CreateAggregate) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "CREATE AGGREGATE", ..Ddl::default() };
        if let Some(word) = &create.unknown {
            return Err(SqlError::unsupported(format!("{word} of an aggregate"))
                .hint("There are SFUNC, STYPE, INITCOND, FINALFUNC and PARALLEL."));
        }
        let (schema, name) = self.new_name(&create.name, false)?;
        if crate::temporary::is_temporary(&schema) {
            return Err(SqlError::unsupported("a temporary aggregate"));
        }
        self.check_create(&schema)?;
        let parameters = parameters(&create.parameters)?;
        let (aggregate, result) = self.computed(create, &parameters)?;
        let mut made = Routine {
            id: TableId(self.catalog.next_id),
            schema,
            name,
            parameters,
            result: ResultOf::One(result),
            language: Language::Sql,
            volatility: Volatility::Immutable,
            is_strict: false,
            is_leakproof: false,
            parallel: create.parallel.unwrap_or(Parallel::Unsafe),
            estimates: Estimates::default(),
            body: String::new(),
            is_standard: false,
            is_definer: false,
            form: Form::Aggregate(aggregate),
        };
        if self.checks_bodies {
            Fold::of(self.catalog, self.search_path, self.database, &made)?;
        }
        ddl.actions = self.placed(&mut made, create.or_replace)?;
        Ok(ddl)
    }

    /// How it is computed, and the type of its result.
    fn computed(&self, create: &CreateAggregate, parameters: &[Parameter]) -> SqlResult<(Aggregate, TypeOf)> {
        let missing =
            |word: &str| SqlError::new(INVALID_DEFINITION, format!("aggregate {word} must be specified"));
        let state = argument_type(create.state.as_ref().ok_or_else(|| missing("stype"))?)?;
        let transition = create.transition.as_ref().ok_or_else(|| missing("sfunc"))?;
        let taken: Vec<TypeOf> =
            std::iter::once(state).chain(parameters.iter().map(|parameter| parameter.of)).collect();
        let (next, gives) = self.function_of(transition, &taken)?;
        if gives.data_type != state.data_type {
            let (shown, state) = (&next.name, routines::type_name(self.catalog, state));
            let told = format!("return type of transition function {shown} is not {state}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
        }
        let first = parameters.first().map(|parameter| parameter.of.data_type);
        let begins_with_value = create.initial.is_none() && fold::is_strict(self.catalog, &next);
        if begins_with_value && first != Some(state.data_type) {
            let told = "must not omit initial value when transition function is strict and transition type is \
                        not compatible with input type";
            return Err(SqlError::new(INVALID_DEFINITION, told));
        }
        let (last, result) = match &create.last {
            None => (None, state),
            Some(name) => {
                let (last, result) = self.function_of(name, &[state])?;
                (Some(last), result)
            }
        };
        Ok((Aggregate { state, initial: create.initial.clone(), transition: next, last }, result))
    }

    /// The function of a name that takes values of these types, and the type of what it gives. Errors: 42883, 42501; 0A000
    /// for one in PL/pgSQL.
    fn function_of(&self, name: &ObjectName, taken: &[TypeOf]) -> SqlResult<(FunctionName, TypeOf)> {
        let null = |of: &TypeOf| format!("CAST(NULL AS {})", routines::written_type(of.data_type));
        let nulls: Vec<String> = taken.iter().map(null).collect();
        let call = crate::parse::parse_expr(&format!("{name}({})", nulls.join(", ")))?;
        let Expr::Function(ast::Function { args: FunctionArguments::List(list), .. }) = &call else {
            return Err(SqlError::new(INVALID_DEFINITION, format!("{name} is no name of a function")));
        };
        let (scopes, parameters) = (Scopes::default(), ParameterTypes::default());
        let types = Types { lookup: self.lookup(), scopes: &scopes, parameters: &parameters };
        if let Some(found) = resolve(types, name, &list.args)? {
            return self.function_of_user(&found.routine);
        }
        let (_, last) = names::qualified(name, self.database)?;
        let function = FunctionName { routine: None, name: last };
        let sql = format!("SELECT {}", fold::call(self.catalog, &function, &nulls));
        let asked =
            crate::parse::parse(&sql)?.pop().ok_or_else(|| SqlError::internal("this text is a query"))?;
        let columns = self.shapes.columns_of(&asked, &[]).map_err(|error| {
            let is_missing = error.state == SqlState::UNDEFINED_FUNCTION;
            unfit(types, name, &list.args).filter(|_| is_missing).unwrap_or(error)
        })?;
        let column = columns.and_then(|columns| columns.into_iter().next());
        let column = column.ok_or_else(|| SqlError::internal("a query has columns"))?;
        Ok((function, routines::unlimited(column.data_type).into()))
    }

    fn function_of_user(&self, routine: &Routine) -> SqlResult<(FunctionName, TypeOf)> {
        let check = Check {
            catalog: self.catalog,
            search_path: self.search_path,
            database: self.database,
            standing: self.standing,
        };
        expand::permit(&check, routine)?;
        let name = &routine.name;
        match routine.result {
            _ if routine.language == Language::PlPgSql => {
                Err(SqlError::unsupported(format!("an aggregate that calls {name}, which is in PL/pgSQL"))
                    .hint("Write the function in SQL, as one SELECT of an expression over its arguments."))
            }
            ResultOf::One(of) if routine.aggregate().is_none() => {
                Ok((FunctionName { routine: Some(routine.id), name: name.clone() }, of))
            }
            _ => Err(SqlError::unsupported(format!("an aggregate that calls {name}, which gives no value"))),
        }
    }
}

/// Errors: 0A000 for several arguments, and for those that there are no arrays of.
fn parameters(declared: &[Declared]) -> SqlResult<Vec<Parameter>> {
    if declared.len() > 1 {
        return Err(SqlError::unsupported("an aggregate with several arguments")
            .hint("Let it take one: an array, or jsonb, of what belongs together."));
    }
    let mut made = Vec::new();
    for of in declared {
        if let Some(mode) = &of.mode {
            return Err(SqlError::unsupported(format!("an aggregate with arguments that are {mode}")));
        }
        if of.default.is_some() {
            let told = "aggregates cannot have default arguments";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, told));
        }
        let data_type = argument_type(&of.data_type)?;
        if Element::of(data_type.data_type).is_none() {
            return Err(SqlError::unsupported(format!("an aggregate over {}", of.data_type))
                .hint("Values of types that there are arrays of can be aggregated."));
        }
        made.push(Parameter { name: of.name.clone(), of: data_type, default: None });
    }
    Ok(made)
}
