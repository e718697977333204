//! Walks over statements, compiled once.
//!
//! The parser's own walk is generic in its visitor: each of our visitors would bring a copy of the code that goes through
//! every kind of node, about a thousand functions, and with seventy visitors that was half of what the crates above the
//! parser consisted of. Here a visitor is called through an object, so that one copy serves all.
//!
//! IN: a part of a statement, and a [`Visitor`] or [`VisitorMut`] of the parser. OUT: what the parser's walk gives.

use sqlparser::ast::{
    Assignment, Distinct, Expr, FunctionArg, FunctionArguments, GroupByExpr, JoinOperator, LimitClause,
    NamedWindowDefinition, ObjectName, OnConflictAction, OrderBy, OrderByExpr, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, TableWithJoins, ValueWithSpan, Values, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Walks through a part of a statement, as [`Visit::visit`] does.
pub trait Walk {
    fn walk<V: Visitor>(&self, visitor: &mut V) -> ControlFlow<V::Break>;
}

/// Walks through a part of a statement that may change, as [`VisitMut::visit`] does.
pub trait WalkMut {
    fn walk_mut<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break>;
}

/// Calls `look` for every expression, outer ones first, until it breaks.
pub fn expressions<N, B>(node: &N, look: impl FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B>
where
    N: Node + ?Sized,
{
    struct Looking<F>(F);
    impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Looking<F> {
        type Break = B;
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
            (self.0)(expr)
        }
    }
    node.walk(&mut Looking(look))
}

/// Calls `change` for every expression, inner ones first, until it breaks.
pub fn expressions_mut<N, B>(node: &mut N, change: impl FnMut(&mut Expr) -> ControlFlow<B>) -> ControlFlow<B>
where
    N: NodeMut + ?Sized,
{
    struct Changing<F>(F);
    impl<B, F: FnMut(&mut Expr) -> ControlFlow<B>> VisitorMut for Changing<F> {
        type Break = B;
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
            (self.0)(expr)
        }
    }
    node.walk_mut(&mut Changing(change))
}

/// Calls `look` for every name of a relation, until it breaks.
pub fn relations<N, B>(node: &N, look: impl FnMut(&ObjectName) -> ControlFlow<B>) -> ControlFlow<B>
where
    N: Node + ?Sized,
{
    struct Looking<F>(F);
    impl<B, F: FnMut(&ObjectName) -> ControlFlow<B>> Visitor for Looking<F> {
        type Break = B;
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<B> {
            (self.0)(relation)
        }
    }
    node.walk(&mut Looking(look))
}

/// A part of a statement. Which ones there are is said below: the walk through each is compiled here, and nowhere else.
pub trait Node {
    fn go_through(&self, visitor: &mut AnyVisitor<'_>) -> ControlFlow<()>;
}

/// The same, for visitors that change it.
pub trait NodeMut {
    fn go_through_mut(&mut self, visitor: &mut AnyVisitorMut<'_>) -> ControlFlow<()>;
}

/// Some visitor.
pub struct AnyVisitor<'a>(&'a mut dyn Hooks);

/// Some visitor that changes what it visits.
pub struct AnyVisitorMut<'a>(&'a mut dyn HooksMut);

/// A visitor, and what it broke off with.
struct Kept<'a, V, B> {
    visitor: &'a mut V,
    broke: Option<B>,
}

impl<V, B> Kept<'_, V, B> {
    fn keep(&mut self, flow: ControlFlow<B>) -> ControlFlow<()> {
        flow.map_break(|value| self.broke = Some(value))
    }
    fn ended(self, flow: ControlFlow<()>) -> ControlFlow<B> {
        flow.map_break(|()| self.broke.expect("whoever breaks off says with what"))
    }
}

impl<N: Node + ?Sized> Walk for N {
    fn walk<V: Visitor>(&self, visitor: &mut V) -> ControlFlow<V::Break> {
        let mut kept = Kept { visitor, broke: None };
        let flow = self.go_through(&mut AnyVisitor(&mut kept));
        kept.ended(flow)
    }
}

impl<N: NodeMut + ?Sized> WalkMut for N {
    fn walk_mut<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break> {
        let mut kept = Kept { visitor, broke: None };
        let flow = self.go_through_mut(&mut AnyVisitorMut(&mut kept));
        kept.ended(flow)
    }
}

macro_rules! hooks {
    ($($before:ident $after:ident $node:ty),+ $(,)?) => {
        /// [`Visitor`], as an object.
        trait Hooks {
            $(fn $before(&mut self, node: &$node) -> ControlFlow<()>;
            fn $after(&mut self, node: &$node) -> ControlFlow<()>;)+
        }
        impl<V: Visitor> Hooks for Kept<'_, V, V::Break> {
            $(fn $before(&mut self, node: &$node) -> ControlFlow<()> {
                let flow = self.visitor.$before(node);
                self.keep(flow)
            }
            fn $after(&mut self, node: &$node) -> ControlFlow<()> {
                let flow = self.visitor.$after(node);
                self.keep(flow)
            })+
        }
        impl Visitor for AnyVisitor<'_> {
            type Break = ();
            $(fn $before(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$before(node)
            }
            fn $after(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$after(node)
            })+
        }

        /// [`VisitorMut`], as an object.
        trait HooksMut {
            $(fn $before(&mut self, node: &mut $node) -> ControlFlow<()>;
            fn $after(&mut self, node: &mut $node) -> ControlFlow<()>;)+
        }
        impl<V: VisitorMut> HooksMut for Kept<'_, V, V::Break> {
            $(fn $before(&mut self, node: &mut $node) -> ControlFlow<()> {
                let flow = self.visitor.$before(node);
                self.keep(flow)
            }
            fn $after(&mut self, node: &mut $node) -> ControlFlow<()> {
                let flow = self.visitor.$after(node);
                self.keep(flow)
            })+
        }
        impl VisitorMut for AnyVisitorMut<'_> {
            type Break = ();
            $(fn $before(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$before(node)
            }
            fn $after(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$after(node)
            })+
        }
    };
}

hooks! {
    pre_visit_query post_visit_query Query,
    pre_visit_select post_visit_select Select,
    pre_visit_relation post_visit_relation ObjectName,
    pre_visit_table_factor post_visit_table_factor TableFactor,
    pre_visit_expr post_visit_expr Expr,
    pre_visit_statement post_visit_statement Statement,
    pre_visit_value post_visit_value ValueWithSpan,
}

macro_rules! nodes {
    ($($node:ty),+ $(,)?) => {
        $(impl Node for $node {
            fn go_through(&self, visitor: &mut AnyVisitor<'_>) -> ControlFlow<()> {
                Visit::visit(self, visitor)
            }
        }
        impl NodeMut for $node {
            fn go_through_mut(&mut self, visitor: &mut AnyVisitorMut<'_>) -> ControlFlow<()> {
                VisitMut::visit(self, visitor)
            }
        })+
    };
}

nodes! {
    Assignment,
    Distinct,
    Expr,
    FunctionArg,
    FunctionArguments,
    GroupByExpr,
    JoinOperator,
    LimitClause,
    NamedWindowDefinition,
    OnConflictAction,
    OrderBy,
    OrderByExpr,
    Query,
    Select,
    SelectItem,
    SetExpr,
    Statement,
    TableFactor,
    TableWithJoins,
    Values,
}

impl<N: Node> Node for Vec<N> {
    fn go_through(&self, visitor: &mut AnyVisitor<'_>) -> ControlFlow<()> {
        self.iter().try_for_each(|node| node.go_through(visitor))
    }
}
impl<N: NodeMut> NodeMut for Vec<N> {
    fn go_through_mut(&mut self, visitor: &mut AnyVisitorMut<'_>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|node| node.go_through_mut(visitor))
    }
}
impl<N: Node> Node for Option<N> {
    fn go_through(&self, visitor: &mut AnyVisitor<'_>) -> ControlFlow<()> {
        self.iter().try_for_each(|node| node.go_through(visitor))
    }
}
impl<N: NodeMut> NodeMut for Option<N> {
    fn go_through_mut(&mut self, visitor: &mut AnyVisitorMut<'_>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|node| node.go_through_mut(visitor))
    }
}
impl<N: Node + ?Sized> Node for Box<N> {
    fn go_through(&self, visitor: &mut AnyVisitor<'_>) -> ControlFlow<()> {
        (**self).go_through(visitor)
    }
}
impl<N: NodeMut + ?Sized> NodeMut for Box<N> {
    fn go_through_mut(&mut self, visitor: &mut AnyVisitorMut<'_>) -> ControlFlow<()> {
        (**self).go_through_mut(visitor)
    }
}
