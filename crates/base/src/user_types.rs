//! Types that users have made, as the catalog keeps them.
//!
//! KEEPS: a column's type holds the description that the catalog has of it, so an ALTER TYPE describes every table and
//! view anew that has such a column; no two types of one schema have one name.

use crate::domain::Domain;
use crate::element::Element;
use crate::enumeration::EnumType;
use crate::expr::Expr;
use crate::{DataType, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserTypes {
    pub enums: BTreeMap<TableId, EnumType>,
    pub domains: BTreeMap<TableId, Arc<Domain>>,
}

impl UserTypes {
    pub fn is_empty(&self) -> bool {
        self.enums.is_empty() && self.domains.is_empty()
    }

    /// Ids of a schema's types.
    pub fn in_schema<'a>(&'a self, schema: &'a str) -> impl Iterator<Item = TableId> + 'a {
        let enums = self.enums.values().filter(move |e| e.description().schema == schema).map(|e| e.id());
        enums.chain(self.domains.values().filter(move |d| d.schema == schema).map(|d| d.id))
    }

    /// The schema of a type.
    pub fn schema_of(&self, id: TableId) -> Option<&str> {
        let of_enum = self.enums.get(&id).map(|of| of.description().schema.as_str());
        of_enum.or_else(|| self.domains.get(&id).map(|domain| domain.schema.as_str()))
    }

    /// Whether an id is a type's.
    pub fn contains(&self, id: TableId) -> bool {
        self.enums.contains_key(&id) || self.domains.contains_key(&id)
    }

    /// Whether a schema has a type of a name.
    pub fn has(&self, schema: &str, name: &str) -> bool {
        self.named(schema, name).is_some() || self.domain_named(schema, name).is_some()
    }

    pub fn named(&self, schema: &str, name: &str) -> Option<EnumType> {
        let is_it = |e: &&EnumType| e.description().schema == schema && e.description().name == name;
        self.enums.values().find(is_it).copied()
    }

    pub fn domain_named(&self, schema: &str, name: &str) -> Option<&Arc<Domain>> {
        self.domains.values().find(|d| d.schema == schema && d.name == name)
    }
}

impl DataType {
    /// The enumerated type that this type is, or that its elements are of.
    pub fn enumeration(self) -> Option<EnumType> {
        match self {
            DataType::Enum(of) => Some(of),
            DataType::Array(of) => of.data_type().enumeration(),
            _ => None,
        }
    }

    /// The name that means the same under any search path.
    pub fn qualified_name(self) -> String {
        match (self, self.enumeration()) {
            (DataType::Array(_), Some(of)) => format!("{}[]", of.qualified_name()),
            (_, Some(of)) => of.qualified_name(),
            (_, None) => self.name(),
        }
    }

    /// The same with another description of an enumerated type, if it has to do with that.
    pub fn retyped(self, to: EnumType) -> DataType {
        match self {
            DataType::Enum(of) if of == to => DataType::Enum(to),
            DataType::Array(of) if of.data_type() == DataType::Enum(to) => {
                Element::of(DataType::Enum(to)).map_or(self, DataType::Array)
            }
            other => other,
        }
    }
}

impl Expr {
    /// Whether a cast in it is from or to a type.
    pub(crate) fn names_type(&self, of: EnumType) -> bool {
        let mut found = false;
        self.walk(&mut |e| {
            found |= match e {
                Expr::Cast(_, t) => t.enumeration() == Some(of),
                Expr::Convert(_, a, b) => [a.enumeration(), b.enumeration()].contains(&Some(of)),
                _ => false,
            };
        });
        found
    }

    /// The same with another description of a type; codes in it stay what they are.
    pub fn retype(&mut self, to: EnumType) {
        let renew = |data_type: &mut DataType| *data_type = data_type.retyped(to);
        match self {
            Expr::Column(_) | Expr::Constant(_) => {}
            Expr::Unary(_, a) | Expr::IsNull(a) => a.retype(to),
            Expr::Cast(a, data_type) => {
                renew(data_type);
                a.retype(to);
            }
            Expr::Convert(a, from, into) => {
                renew(from);
                renew(into);
                a.retype(to);
            }
            Expr::Binary(_, a, b) | Expr::IsSame(a, b) | Expr::Like(a, b, _) => {
                a.retype(to);
                b.retype(to);
            }
            Expr::In(a, list) => {
                a.retype(to);
                list.iter_mut().for_each(|e| e.retype(to));
            }
            Expr::Case(branches, otherwise) => {
                for (condition, value) in branches {
                    condition.retype(to);
                    value.retype(to);
                }
                otherwise.iter_mut().for_each(|e| e.retype(to));
            }
            Expr::Call(_, arguments) => arguments.iter_mut().for_each(|e| e.retype(to)),
        }
    }
}
