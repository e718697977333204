//! Types that users have made, as the catalog keeps them.
//!
//! KEEPS: a column's type holds the description that the catalog has of it, so an ALTER TYPE describes every table and
//! view anew that has such a column; no two types of one schema have one name.

use crate::composite::CompositeType;
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
    #[serde(deserialize_with = "crate::codec::since::<13, _, _>")]
    pub composites: BTreeMap<TableId, CompositeType>,
}

impl UserTypes {
    pub fn is_empty(&self) -> bool {
        self.enums.is_empty() && self.domains.is_empty() && self.composites.is_empty()
    }

    /// Ids of a schema's types.
    pub fn in_schema<'a>(&'a self, schema: &'a str) -> impl Iterator<Item = TableId> + 'a {
        self.ids().filter(move |id| self.schema_of(*id) == Some(schema))
    }

    /// Ids of all types.
    pub fn ids(&self) -> impl Iterator<Item = TableId> + '_ {
        self.enums.keys().chain(self.domains.keys()).chain(self.composites.keys()).copied()
    }

    /// The schema of a type.
    pub fn schema_of(&self, id: TableId) -> Option<&str> {
        self.place_of(id).map(|(schema, _)| schema)
    }

    /// Schema and name of a type.
    pub fn place_of(&self, id: TableId) -> Option<(&str, &str)> {
        let of_enum = self.enums.get(&id).map(|of| of.description());
        let of_enum = of_enum.map(|of| (of.schema.as_str(), of.name.as_str()));
        let domain = || self.domains.get(&id).map(|of| (of.schema.as_str(), of.name.as_str()));
        let row = || self.composites.get(&id).map(|of| of.description());
        of_enum.or_else(domain).or_else(|| row().map(|of| (of.schema.as_str(), of.name.as_str())))
    }

    /// An enumerated or composite type by its id.
    pub fn made(&self, id: TableId) -> Option<DataType> {
        let row = || self.composites.get(&id).copied().map(DataType::Composite);
        self.enums.get(&id).copied().map(DataType::Enum).or_else(row)
    }

    /// Whether an id is a type's.
    pub fn contains(&self, id: TableId) -> bool {
        self.place_of(id).is_some()
    }

    /// Whether a schema has a type of a name.
    pub fn has(&self, schema: &str, name: &str) -> bool {
        self.ids().any(|id| self.place_of(id) == Some((schema, name)))
    }

    pub fn named(&self, schema: &str, name: &str) -> Option<EnumType> {
        let is_it = |e: &&EnumType| e.description().schema == schema && e.description().name == name;
        self.enums.values().find(is_it).copied()
    }

    pub fn composite_named(&self, schema: &str, name: &str) -> Option<CompositeType> {
        let is_it = |of: &&CompositeType| of.description().schema == schema && of.description().name == name;
        self.composites.values().find(is_it).copied()
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
        match self {
            DataType::Array(of) => format!("{}[]", of.data_type().qualified_name()),
            DataType::Enum(of) => of.qualified_name(),
            DataType::Composite(of) => of.qualified_name(),
            other => other.name(),
        }
    }

    /// Whether this type is another one, or its elements or attributes are.
    pub fn has(self, other: DataType) -> bool {
        self == other
            || match self {
                DataType::Array(of) => of.data_type().has(other),
                DataType::Composite(of) => of.attributes().iter().any(|a| a.data_type.has(other)),
                _ => false,
            }
    }

    /// The id of the enumerated or composite type that this type is, or that its elements are of.
    pub fn made_id(self) -> Option<TableId> {
        match self {
            DataType::Enum(of) => Some(of.id()),
            DataType::Composite(of) => Some(of.id()),
            DataType::Array(of) => of.data_type().made_id(),
            _ => None,
        }
    }

    /// The same with another description of an enumerated or composite type, if it has to do with that.
    pub fn retyped(self, to: DataType) -> DataType {
        match self {
            own if own == to => to,
            DataType::Array(of) => Element::of(of.data_type().retyped(to)).map_or(self, DataType::Array),
            DataType::Composite(of) => DataType::Composite(of.retyped(to)),
            other => other,
        }
    }
}

impl Expr {
    /// Whether a cast in it is from or to a type.
    pub(crate) fn names_type(&self, of: DataType) -> bool {
        let mut found = false;
        self.walk(&mut |e| {
            found |= match e {
                Expr::Cast(_, t) => t.has(of),
                Expr::Convert(_, a, b) => a.has(of) || b.has(of),
                _ => false,
            };
        });
        found
    }

    /// The same with another description of a type; codes in it stay what they are.
    pub fn retype(&mut self, to: DataType) {
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
