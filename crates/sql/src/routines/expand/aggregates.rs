//! Calls of aggregates of users: what `array_agg` gathers of the rows, made a state ([`crate::routines::fold`]). So DISTINCT,
//! ORDER BY, FILTER and OVER of a call are those of `array_agg`.

use super::{Expansion, cast, permit};
use crate::names::quoted;
use crate::privileges::{Check, denied};
use crate::routines::fold::transition;
use crate::routines::fold_calls;
use crate::routines::kept::expand_permitted;
use crate::routines::resolve::Resolved;
use base::element::Element;
use base::error::{SqlError, SqlResult, SqlState};
use base::roles::{Object, Privileges};
use base::routines::{Aggregate, FunctionName, Routine};
use base::{DataType, TableId};
use sqlparser::ast::{
    self, DuplicateTreatment, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
};

/// 42809.
const WRONG_OBJECT_TYPE: SqlState = SqlState(*b"42809");

/// The arguments of a call as functions are found by them: a star is none. `None`: a subquery is in their place.
pub(super) fn arguments(arguments: &FunctionArguments) -> Option<&[FunctionArg]> {
    match arguments {
        FunctionArguments::List(_) if is_star(arguments) => Some(&[]),
        FunctionArguments::List(list) => Some(&list.args),
        FunctionArguments::None => Some(&[]),
        FunctionArguments::Subquery(_) => None,
    }
}

/// `f(*)`.
fn is_star(arguments: &FunctionArguments) -> bool {
    match arguments {
        FunctionArguments::List(list) => {
            matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
        }
        _ => false,
    }
}

/// Errors: 42809 for `f(*)` of a function that is no aggregate.
pub(super) fn refuse_star(function: &ast::Function, name: &str) -> SqlResult<()> {
    match is_star(&function.args) {
        false => Ok(()),
        true => {
            let told = format!("{name}(*) specified, but {name} is not an aggregate function");
            Err(SqlError::new(WRONG_OBJECT_TYPE, told))
        }
    }
}

/// 42803.
pub(super) fn not_in_from() -> SqlError {
    let told = "aggregate functions are not allowed in functions in FROM";
    SqlError::new(SqlState(*b"42803"), told)
}

impl Expansion<'_, '_> {
    /// What a call of an aggregate is. Errors: 42501; 42809 for a call without a star, or WITHIN GROUP; 0A000.
    pub(super) fn aggregate(&mut self, function: &ast::Function, call: &Resolved) -> SqlResult<Expr> {
        let routine = &call.routine;
        let Some(aggregate) = routine.aggregate() else {
            return Err(SqlError::internal("it is an aggregate"));
        };
        permit(self.check, routine)?;
        check_decided(routine)?;
        check_transition(self.check, routine, aggregate)?;
        let wrong = |told: String| Err(SqlError::new(WRONG_OBJECT_TYPE, told));
        let name = &routine.name;
        if !function.within_group.is_empty() {
            return wrong(format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"));
        }
        if routine.parameters.is_empty() && !is_star(&function.args) {
            return wrong(format!("{name}(*) must be used to call a parameterless aggregate function"));
        }
        let mut arguments = self.arguments(call)?;
        if arguments.is_empty() {
            arguments.push(crate::parse::parse_expr("1")?);
        }
        let mut gathered = function.clone();
        gathered.name = ObjectName::from(vec![Ident::new("array_agg")]);
        let FunctionArguments::List(list) = &mut gathered.args else {
            return Err(SqlError::internal("an aggregate has a list of arguments"));
        };
        let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        if is_distinct && arguments.len() > 1 {
            return Err(SqlError::unsupported(format!(
                "DISTINCT in a call of {name}, which has several arguments"
            ))
            .hint("Compute the distinct rows in a subquery in FROM."));
        }
        if is_distinct && !list.clauses.is_empty() && call.arguments.last() != arguments.last() {
            return Err(SqlError::unsupported(format!(
                "DISTINCT and ORDER BY in a call of {name} whose argument is of another type"
            ))
            .hint("Cast the argument to the type that the aggregate takes, in both places."));
        }
        list.args = Vec::new();
        let declared = self.check.catalog.routines.0.get(&routine.id);
        let is_polymorphic = declared.is_some_and(|declared| declared.is_polymorphic());
        let types: Vec<DataType> =
            routine.types().filter(|_| is_polymorphic).map(|of| of.data_type).collect();
        let name = quoted(&fold_calls::name_of(routine.id, &types));
        let mut folded = crate::parse::parse_expr(&format!("{name}(1)"))?;
        if let Expr::Function(ast::Function { args: FunctionArguments::List(list), .. }) = &mut folded {
            let unnamed = |e: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(e));
            let gather = |argument: Expr| {
                let mut gathered = gathered.clone();
                if let FunctionArguments::List(list) = &mut gathered.args {
                    list.args = vec![unnamed(argument)];
                }
                unnamed(Expr::Function(gathered))
            };
            list.args = arguments.into_iter().map(gather).collect();
        }
        let state = cast(self.check.catalog, folded, aggregate.state)?;
        let Some(last) = &aggregate.last else { return Ok(state) };
        let text = fold_calls::call(self.check.catalog, last, &[state.to_string()]);
        let mut result = crate::parse::parse_expr(&text)?;
        // Its arguments are expanded already.
        self.permitted = permitted_by_owner(self.check, routine, last)?;
        let expanded = self.expression(&mut result);
        self.permitted = None;
        expanded?;
        Ok(result)
    }
}

/// Errors: 0A000 for a polymorphic aggregate whose types the text of a call does not tell, or that gathers arrays.
fn check_decided(routine: &Routine) -> SqlResult<()> {
    let name = &routine.name;
    if routine.is_polymorphic() {
        let told = format!(
            "a call of the polymorphic aggregate {name} with an argument of a type that its text does not tell"
        );
        return Err(SqlError::unsupported(told).hint("Cast the argument to its type."));
    }
    match routine.types().find(|of| Element::of(of.data_type).is_none()) {
        None => Ok(()),
        Some(of) => {
            let of = crate::routines::data_type_name(of.data_type);
            Err(SqlError::unsupported(format!("an aggregate over {of}"))
                .hint("Values of types that there are arrays of can be aggregated."))
        }
    }
}

/// Whether the aggregate's owner may call SFUNC, and the role that acts what the body of SFUNC calls. Errors: 42501, and
/// those of [`super::expand`].
fn check_transition(check: &Check<'_>, routine: &Routine, aggregate: &Aggregate) -> SqlResult<()> {
    let permitted = permitted_by_owner(check, routine, &aggregate.transition)?;
    if permitted.is_none() {
        return Ok(());
    }
    let text = transition(check.catalog, aggregate, routine);
    expand_permitted(check, permitted, &mut crate::parse::parse_expr(&text)?)
}

/// The function of a user that an aggregate calls. Errors: 42501 if the aggregate's owner may not call it.
fn permitted_by_owner(
    check: &Check<'_>,
    aggregate: &Routine,
    called: &FunctionName,
) -> SqlResult<Option<TableId>> {
    let Some(called) = called.routine.and_then(|id| check.catalog.routines.0.get(&id)) else {
        return Ok(None);
    };
    let roles = &check.catalog.roles;
    let owner = roles.standing(roles.owner_of(&Object::Relation(aggregate.id)));
    match roles.may(&owner, &Object::Relation(called.id), Privileges::EXECUTE) {
        true => Ok(Some(called.id)),
        false => Err(denied(called.kind(), &called.name)),
    }
}
