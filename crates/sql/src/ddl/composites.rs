//! CREATE TYPE … AS (…) as a change of the catalog; names and schemas of enumerated and composite types.

use super::domains::Made;
use super::{Ddl, DdlContext};
use crate::names;
use crate::parse::OfType;
use base::composite::{Attribute, Composite, CompositeType};
use base::enumeration::EnumType;
use base::error::{SqlResult, SqlState};
use base::roles::Object;
use base::schema::SchemaAction;
use base::{DataType, SqlError, TableId};
use sqlparser::ast::{self, UserDefinedTypeCompositeAttributeDef as Declared};

impl DdlContext<'_> {
    pub(super) fn create_composite(&self, name: &ast::ObjectName, declared: &[Declared]) -> SqlResult<Ddl> {
        let (schema, name) = self.new_name(name, false)?;
        // A description stays in memory as long as the process, so rights are checked before one is made.
        self.check_create(&schema)?;
        self.check_type_name(&schema, &name)?;
        let attributes = declared.iter().map(attribute).collect::<SqlResult<Vec<_>>>()?;
        let made = Composite::new(TableId(self.catalog.next_id), schema, name, attributes)?;
        let actions = vec![SchemaAction::PutComposite(CompositeType::of(made))];
        Ok(Ddl { actions, tag: "CREATE TYPE", ..Ddl::default() })
    }

    /// ALTER TYPE … RENAME TO, and what the parser writes as that. Errors: 42710, 3F000, 42809; 0A000 for attributes, and
    /// while a text that is kept has the name.
    pub(super) fn rename_type(&self, name: &ast::ObjectName, to: &ast::Ident) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "ALTER TYPE", ..Ddl::default() };
        let of = match self.find_made(name)? {
            Made::Domain(_) => Made::Enum(self.find_enum(name)?),
            of => of,
        };
        self.check_owner(&Object::Relation(of.id()))?;
        let Some((schema, last)) = self.catalog.types.place_of(of.id()) else { return Ok(ddl) };
        let (mut schema, mut last) = (schema.to_string(), last.to_string());
        match (crate::parse::change_of_type(&to.value), of) {
            (Some(OfType::Owner(role)), _) => {
                let owner = ast::Owner::Ident(ast::Ident::with_quote('"', role));
                return self.change_owner(Object::Relation(of.id()), &owner, ddl.tag);
            }
            (Some(OfType::Attributes), Made::Row(_)) => {
                let told = "ALTER TYPE with ADD, DROP, ALTER or RENAME ATTRIBUTE";
                return Err(SqlError::unsupported(told).hint(
                    "Create another type, and take the columns to it: ALTER TABLE … ALTER … TYPE … USING ….",
                ));
            }
            (Some(OfType::Attributes), _) => {
                let told = format!("\"{last}\" is not a composite type");
                return Err(SqlError::new(SqlState(*b"42809"), told));
            }
            (Some(OfType::Schema(to)), _) if to == schema => return Ok(ddl),
            (Some(OfType::Schema(to)), _) if !self.catalog.schemas.iter().any(|schema| schema == to) => {
                let told = format!("schema \"{to}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, told));
            }
            (Some(OfType::Schema(to)), _) => {
                self.check_create(to)?;
                schema = to.to_string();
            }
            (None, _) => last = names::fold(to),
        }
        self.check_type_name(&schema, &last)?;
        if let Some(what) = self.names_made(of)? {
            return Err(SqlError::unsupported(format!("renaming a type that {what} names"))
                .hint("Drop what names it, rename, and create it again."));
        }
        ddl.actions.extend(renamed(of, schema, last));
        Ok(ddl)
    }

    /// Attributes of other composite types that are of a type, as errors call them.
    pub(super) fn attributes_of(&self, of: Made) -> Vec<(CompositeType, String)> {
        let rows = self.catalog.types.composites.values();
        let each = rows.flat_map(|row| row.attributes().iter().map(move |attribute| (*row, attribute)));
        each.filter(|(_, attribute)| attribute.data_type.made_id() == Some(of.id()))
            .map(|(row, attribute)| {
                (row, format!("column {} of composite type {}", attribute.name, row.name()))
            })
            .collect()
    }
}

/// A type with another name.
fn renamed(of: Made, schema: String, name: String) -> Option<SchemaAction> {
    match of {
        Made::Enum(of) => {
            let mut next = of.description().clone();
            (next.schema, next.name) = (schema, name);
            Some(SchemaAction::PutEnum(EnumType::of(next)))
        }
        Made::Row(of) => {
            let mut next = of.description().clone();
            (next.schema, next.name) = (schema, name);
            Some(SchemaAction::PutComposite(CompositeType::of(next)))
        }
        Made::Domain(_) => None,
    }
}

/// Errors: 42704; 0A000 for a domain, whose rules nothing would hold values against.
fn attribute(declared: &Declared) -> SqlResult<Attribute> {
    let written = &declared.data_type;
    if let Some(domain) = names::domain(written) {
        return Err(SqlError::unsupported(format!("an attribute of domain {}", domain.name))
            .hint("Say the base type, and check the value where it is stored."));
    }
    if names::is_serial(written) {
        let told = format!("type \"{}\" does not exist", written.to_string().to_lowercase());
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told));
    }
    if let Some(collation) = &declared.collation
        && !crate::names::is_bytewise(collation)
    {
        return Err(SqlError::unsupported(format!("COLLATE {collation} of an attribute")));
    }
    let data_type: DataType = names::data_type(written)?;
    Ok(Attribute { name: names::fold(&declared.name), data_type })
}
