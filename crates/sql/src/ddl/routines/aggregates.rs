//! CREATE AGGREGATE.

use super::super::{Ddl, DdlContext};
use super::INVALID_DEFINITION;
use super::arguments::{argument_type, refuse_undecided};
use crate::lower::scope::ParameterTypes;
use crate::names;
use crate::parse::{CreateAggregate, Declared};
use crate::privileges::Check;
use crate::routines::fold::{self, Fold};
use crate::routines::resolve::{Types, resolve, unfit};
use crate::routines::scopes::Scopes;
use crate::routines::{self, expand};
use base::element::Element;
use base::error::{SqlError, SqlResult, SqlState};
use base::routines::{
    Aggregate, Estimates, Form, FunctionName, Language, Parallel, Parameter, ResultOf, Routine, TypeOf,
    Volatility,
};
use base::{DataType, TableId};
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
            is_variadic: false,
            is_definer: false,
            form: Form::Aggregate(aggregate),
        };
        if self.checks_bodies && !made.is_polymorphic() {
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
        refuse_undecided(parameters, &ResultOf::One(state), "transition")?;
        let taken: Vec<TypeOf> =
            std::iter::once(state).chain(parameters.iter().map(|parameter| parameter.of)).collect();
        let (next, gives) = self.function_of(transition, &taken)?;
        if (gives.data_type, gives.any) != (state.data_type, state.any) {
            let (shown, state) = (&next.name, routines::type_name(self.catalog, state));
            let told = format!("return type of transition function {shown} is not {state}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, told));
        }
        let first = parameters.first().map(|parameter| (parameter.of.data_type, parameter.of.any));
        let begins_with_value = create.initial.is_none() && fold::is_strict(self.catalog, &next);
        if begins_with_value && first != Some((state.data_type, state.any)) {
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
        refuse_undecided(parameters, &ResultOf::One(result), "result")?;
        Ok((Aggregate { state, initial: create.initial.clone(), transition: next, last }, result))
    }

    /// The function of a name that takes values of these types, and the type of what it gives. Errors: 42883, 42501; 0A000
    /// for one in PL/pgSQL.
    fn function_of(&self, name: &ObjectName, taken: &[TypeOf]) -> SqlResult<(FunctionName, TypeOf)> {
        let null = |of: &TypeOf| match of.any {
            Some(any) => format!("CAST(NULL AS {})", any.name()),
            None => format!("CAST(NULL AS {})", routines::written_type(of.data_type)),
        };
        let nulls: Vec<String> = taken.iter().map(null).collect();
        let call = crate::parse::parse_expr(&format!("{name}({})", nulls.join(", ")))?;
        let Expr::Function(ast::Function { args: FunctionArguments::List(list), .. }) = &call else {
            return Err(SqlError::new(INVALID_DEFINITION, format!("{name} is no name of a function")));
        };
        let (scopes, parameters) = (Scopes::default(), ParameterTypes::default());
        let (scopes, parameters, is_body) = (&scopes, &parameters, false);
        let types = Types { lookup: self.lookup(), scopes, parameters, is_body };
        if let Some(found) = resolve(types, name, &list.args)? {
            return self.function_of_user(&found.routine);
        }
        let (_, last) = names::qualified(name, self.database)?;
        let function = FunctionName { routine: None, name: last };
        // What is polymorphic is tried with a type that no function of PostgreSQL's gives otherwise.
        let sample = |of: &TypeOf| match of.any {
            Some(any) if any.is_array() => "CAST(NULL AS uuid[])".to_string(),
            Some(_) => "CAST(NULL AS uuid)".to_string(),
            None => null(of),
        };
        let samples: Vec<String> = taken.iter().map(sample).collect();
        let sql = format!("SELECT {}", fold::call(self.catalog, &function, &samples));
        let asked =
            crate::parse::parse(&sql)?.pop().ok_or_else(|| SqlError::internal("this text is a query"))?;
        let columns = self.shapes.columns_of(&asked, &[]).map_err(|error| {
            let is_missing = error.state == SqlState::UNDEFINED_FUNCTION;
            unfit(types, name, &list.args).filter(|_| is_missing).unwrap_or(error)
        })?;
        let column = columns.and_then(|columns| columns.into_iter().next());
        let column = column.ok_or_else(|| SqlError::internal("a query has columns"))?;
        let given = routines::unlimited(column.data_type);
        let sampled = taken.iter().filter_map(|of| of.any).find(|any| match given {
            DataType::Uuid => !any.is_array(),
            DataType::Array(of) => any.is_array() && of.data_type() == DataType::Uuid,
            _ => false,
        });
        Ok((function, sampled.map_or(given.into(), TypeOf::from)))
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

/// Errors: 0A000 for arguments that there are no arrays of, 42601 for defaults.
fn parameters(declared: &[Declared]) -> SqlResult<Vec<Parameter>> {
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
        if Element::of(data_type.data_type).is_none() && data_type.any.is_none() {
            return Err(SqlError::unsupported(format!("an aggregate over {}", of.data_type))
                .hint("Values of types that there are arrays of can be aggregated."));
        }
        made.push(Parameter { name: of.name.clone(), of: data_type, default: None });
    }
    Ok(made)
}
