//! Operators and functions of full-text search and of addresses over rows.

use super::expr::{ExprLowering, Typed};
use super::{Lowered, Refusal};
use crate::calls::{self, Call};
use crate::text_search;
use sqlparser::ast;

impl ExprLowering<'_> {
    /// An operator of which a side may be a document, a query, a text or an address.
    pub(super) fn search_of(
        &mut self,
        left: Typed,
        op: &ast::BinaryOperator,
        right: Typed,
    ) -> Lowered<Typed> {
        let Some(call) = calls::operator(op, left.known_type(), right.known_type()) else {
            return Err(Refusal::TooRich);
        };
        self.search_call(call, vec![left, right])
    }

    /// A function of full-text search or of addresses; `None` if it is none. Errors: 0A000 for those that are missing.
    pub(super) fn search_function(&mut self, name: &str, arguments: &[&ast::Expr]) -> Lowered<Option<Typed>> {
        if text_search::is_missing(name) {
            return Err(text_search::missing(name).into());
        }
        if calls::returned(name).is_none() {
            return Ok(None);
        }
        let mut lowered = Vec::with_capacity(arguments.len());
        for argument in arguments {
            lowered.push(self.lower(argument)?);
        }
        let given: Vec<_> = lowered.iter().map(Typed::known_type).collect();
        // Queries say which functions there are.
        let Some(call) = calls::function(name, &given) else { return Err(Refusal::TooRich) };
        self.search_call(call, lowered).map(Some)
    }

    fn search_call(&mut self, call: Call, arguments: Vec<Typed>) -> Lowered<Typed> {
        let mut taken = Vec::with_capacity(arguments.len());
        for (argument, wanted) in arguments.into_iter().zip(call.wanted()) {
            taken.push(self.resolve(argument, wanted)?.expr);
        }
        Ok(Typed::known(call.over(taken), call.returns()))
    }
}
