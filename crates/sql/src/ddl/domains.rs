//! CREATE, ALTER and DROP DOMAIN as changes of the catalog.

use super::{Ddl, DdlContext, defaults};
use crate::names;
use crate::parse::{OfDomain, SAME_NAME, of_domain};
use base::composite::CompositeType;
use base::domain::Domain;
use base::enumeration::EnumType;
use base::error::{SqlResult, SqlState};
use base::identifier::first_free;
use base::roles::Object;
use base::schema::{Check, Column, Identity, Placement, SchemaAction, Table};
use base::user_types::UserTypes;
use base::{DataType, Datum, SqlError, TableId};
use sqlparser::ast::{
    self, AlterColumnOperation as ColumnOperation, AlterTableOperation as Operation, ColumnOption, Statement,
    TableConstraint,
};
use std::sync::Arc;

/// A type that users made.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Made {
    Enum(EnumType),
    Row(CompositeType),
    Domain(TableId),
}

impl Made {
    /// The type of an id: a domain, if it is no other one.
    pub fn known(types: &UserTypes, id: TableId) -> Made {
        match types.made(id) {
            Some(DataType::Enum(of)) => Made::Enum(of),
            Some(DataType::Composite(of)) => Made::Row(of),
            _ => Made::Domain(id),
        }
    }

    pub fn id(self) -> TableId {
        match self {
            Made::Enum(of) => of.id(),
            Made::Row(of) => of.id(),
            Made::Domain(id) => id,
        }
    }

    /// Whether a column of a table is of the type.
    pub fn is_of(self, table: &Table, column: usize) -> bool {
        match self {
            Made::Enum(_) | Made::Row(_) => table.columns[column].data_type.made_id() == Some(self.id()),
            Made::Domain(id) => table.domains.get(&column).is_some_and(|domain| domain.id == id),
        }
    }

    pub fn is_of_some(self, table: &Table) -> bool {
        (0..table.columns.len()).any(|column| self.is_of(table, column))
    }
}

/// The column that stands for the value in conditions: VALUE.
const VALUE: &str = "value";

impl DdlContext<'_> {
    /// CREATE and ALTER DOMAIN, as the parser hands them on; `None`: the statement is about a table.
    pub(super) fn change_domain(&self, alter: &ast::AlterTable) -> SqlResult<Option<Ddl>> {
        let [Operation::SetOptionsParens { options }] = alter.operations.as_slice() else { return Ok(None) };
        match of_domain(options) {
            None => Ok(None),
            Some(OfDomain::Create(text)) => self.create_domain(&alter.name, text).map(Some),
            Some(OfDomain::Alter(text)) => self.alter_domain(&alter.name, text).map(Some),
        }
    }

    fn create_domain(&self, name: &ast::ObjectName, text: &str) -> SqlResult<Ddl> {
        let (schema, name) = self.new_name(name, false)?;
        self.check_create(&schema)?;
        self.check_type_name(&schema, &name)?;
        let declared = declared(text)?;
        let mut domain = Domain {
            id: TableId(self.catalog.next_id),
            schema,
            name,
            data_type: base_type(&declared.data_type)?,
            default: None,
            not_null: false,
            checks: Vec::new(),
        };
        for option in &declared.options {
            let name = option.name.as_ref().map(names::fold);
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => domain.not_null = true,
                ColumnOption::Default(e) => domain.default = self.domain_default(&domain, e)?,
                ColumnOption::Check(check) => self.add_domain_check(&mut domain, name, &check.expr, true)?,
                ColumnOption::Collation(name) if names::is_bytewise(name) => {}
                other => return Err(SqlError::unsupported(format!("{other} of a domain"))),
            }
        }
        let actions = vec![SchemaAction::PutDomain(domain)];
        Ok(Ddl { actions, tag: "CREATE DOMAIN", ..Ddl::default() })
    }

    fn alter_domain(&self, name: &ast::ObjectName, text: &str) -> SqlResult<Ddl> {
        let domain = self.find_domain(name)?;
        let mut ddl = Ddl { tag: "ALTER DOMAIN", ..Ddl::default() };
        self.check_owner(&Object::Relation(domain.id))?;
        let mut next = domain.as_ref().clone();
        match operation(text)? {
            Operation::AlterColumn { op: ColumnOperation::SetDefault { value }, .. } => {
                next.default = self.domain_default(&next, &value)?;
            }
            Operation::AlterColumn { op: ColumnOperation::DropDefault, .. } => next.default = None,
            Operation::AlterColumn { op: ColumnOperation::SetNotNull, .. } => next.not_null = true,
            Operation::AlterColumn { op: ColumnOperation::DropNotNull, .. } => next.not_null = false,
            Operation::AddConstraint { constraint: TableConstraint::Check(check), not_valid } => {
                let name = check.name.as_ref().map(names::fold);
                self.add_domain_check(&mut next, name, &check.expr, !not_valid)?;
            }
            Operation::DropConstraint { if_exists, name, .. } => {
                let name = names::fold(&name);
                match find_check(&mut next, &name) {
                    Ok(_) => next.checks.retain(|check| check.name != name),
                    Err(error) if if_exists => {
                        ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", error.message));
                        return Ok(ddl);
                    }
                    Err(error) => return Err(error),
                }
            }
            Operation::ValidateConstraint { name } => {
                find_check(&mut next, &names::fold(&name))?.is_validated = true;
            }
            Operation::RenameConstraint { old_name, new_name } => {
                let to = names::fold(&new_name);
                refuse_taken(&next, &to)?;
                find_check(&mut next, &names::fold(&old_name))?.name = to;
            }
            Operation::RenameTable { table_name: ast::RenameTableNameKind::To(to) } => {
                self.rename_domain(&mut next, &to)?;
            }
            Operation::OwnerTo { new_owner } => {
                return self.change_owner(Object::Relation(next.id), &new_owner, ddl.tag);
            }
            other => return Err(SqlError::unsupported(format!("ALTER DOMAIN {other}"))),
        }
        if next != *domain.as_ref() {
            ddl.actions.push(SchemaAction::PutDomain(next));
        }
        Ok(ddl)
    }

    /// RENAME TO, and SET SCHEMA as the parser writes it. Errors: 42710, 3F000; 0A000 while a text that is kept has the name.
    fn rename_domain(&self, next: &mut Domain, to: &ast::ObjectName) -> SqlResult<()> {
        let mut parts = names::parts(to)?;
        let last = parts.pop().expect("a name has a part");
        let (schema, name) = match (last == SAME_NAME, parts.pop()) {
            (true, Some(schema)) => (schema, next.name.clone()),
            (false, None) => (next.schema.clone(), last),
            _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \".\"")),
        };
        if schema == next.schema && name == next.name {
            return Ok(());
        }
        if !self.catalog.schemas.contains(&schema) {
            let told = format!("schema \"{schema}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, told));
        }
        self.check_create(&schema)?;
        self.check_type_name(&schema, &name)?;
        if let Some(what) = self.names_made(Made::Domain(next.id))? {
            return Err(SqlError::unsupported(format!("renaming a domain that {what} names"))
                .hint("Drop what names it, rename, and create it again."));
        }
        (next.schema, next.name) = (schema, name);
        Ok(())
    }

    /// Errors: those of a column's default.
    fn domain_default(&self, domain: &Domain, e: &ast::Expr) -> SqlResult<Option<String>> {
        let kept = defaults::kept_default(self, &value_of(domain).columns[0], e)?;
        Ok((!kept.eq_ignore_ascii_case("null")).then_some(kept))
    }

    /// Errors: 42710 for a name that is taken, and those of the condition.
    fn add_domain_check(
        &self,
        domain: &mut Domain,
        name: Option<String>,
        e: &ast::Expr,
        is_validated: bool,
    ) -> SqlResult<()> {
        let is_taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
        let name = match name {
            Some(name) => name,
            None => first_free([&domain.name, "", "check"], |name| !is_taken(name)),
        };
        refuse_taken(domain, &name)?;
        let check = self.check(&value_of(domain), name, e)?;
        domain.checks.push(Check { is_validated, ..check });
        Ok(())
    }

    /// Errors: 42704; 42809 for a type that is no domain.
    pub(super) fn find_domain(&self, name: &ast::ObjectName) -> SqlResult<Arc<Domain>> {
        let written = ast::DataType::Custom(name.clone(), Vec::new());
        if let Some(domain) = names::domain(&written) {
            return Ok(domain);
        }
        names::data_type(&written)?;
        Err(SqlError::new(SqlState(*b"42809"), format!("\"{name}\" is not a domain")))
    }

    pub(super) fn drop_domain(&self, drop: &ast::DropDomain) -> SqlResult<Ddl> {
        let mut ddl = Ddl { tag: "DROP DOMAIN", ..Ddl::default() };
        let domain = match self.find_domain(&drop.name) {
            Err(e) if drop.if_exists && super::is_missing(&e) => {
                ddl.notice(SqlState::SUCCESSFUL, format!("{}, skipping", e.message));
                return Ok(ddl);
            }
            found => found?,
        };
        let is_cascade = drop.drop_behavior == Some(ast::DropBehavior::Cascade);
        self.drop_made(&[Made::Domain(domain.id)], is_cascade, &mut ddl)?;
        Ok(ddl)
    }
}

/// A table of one column, which is a value of the domain.
fn value_of(domain: &Domain) -> Table {
    let column = Column {
        name: VALUE.into(),
        data_type: domain.data_type,
        not_null: false,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    };
    Table {
        id: domain.id,
        schema: domain.schema.clone(),
        name: domain.name.clone(),
        version: 0,
        columns: vec![column],
        primary_key: Vec::new(),
        primary_key_name: String::new(),
        indexes: Vec::new(),
        checks: Arc::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::Replicated,
    }
}

/// What follows the name in CREATE DOMAIN: a column's type and options. Errors: 42601.
fn declared(text: &str) -> SqlResult<ast::ColumnDef> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let text = if word.eq_ignore_ascii_case("as") { rest } else { text };
    if let [Statement::CreateTable(create)] =
        crate::parse::parse(&format!("CREATE TABLE domain ({VALUE} {text})"))?.as_slice()
        && let [column] = create.columns.as_slice()
        && create.constraints.is_empty()
    {
        return Ok(column.clone());
    }
    Err(wrong(text))
}

/// What follows the name in ALTER DOMAIN, as an operation on a table. Errors: 42601.
fn operation(text: &str) -> SqlResult<Operation> {
    let words: Vec<String> = text.split_whitespace().take(2).map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_of_value = matches!(words.as_slice(), ["set" | "drop", "default" | "not"]);
    let column = if is_of_value { format!("ALTER COLUMN {VALUE} ") } else { String::new() };
    let parsed = crate::parse::parse(&format!("ALTER TABLE domain {column}{text}"))?;
    match <[Statement; 1]>::try_from(parsed) {
        Ok([Statement::AlterTable(alter)]) if alter.operations.len() == 1 => {
            Ok(alter.operations.into_iter().next().expect("just counted"))
        }
        _ => Err(wrong(text)),
    }
}

fn wrong(text: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{text}\""))
}

/// Errors: 0A000 for a type that no domain is made over here; 42704.
fn base_type(written: &ast::DataType) -> SqlResult<DataType> {
    if let Some(domain) = names::domain(written) {
        return Err(SqlError::unsupported(format!("a domain over domain {}", domain.name))
            .hint("Say the base type, and repeat the conditions."));
    }
    let data_type = names::data_type(written)?;
    match data_type.made_id() {
        Some(_) if data_type.enumeration().is_some() => {
            Err(SqlError::unsupported(format!("a domain over the enumerated type {}", data_type.name())))
        }
        Some(_) => {
            Err(SqlError::unsupported(format!("a domain over the composite type {}", data_type.name())))
        }
        None if names::is_serial(written) => {
            let told = format!("type \"{}\" does not exist", written.to_string().to_lowercase());
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, told))
        }
        None => Ok(data_type),
    }
}

/// Errors: 42704.
fn find_check<'d>(domain: &'d mut Domain, name: &str) -> SqlResult<&'d mut Check> {
    let told = format!("constraint \"{name}\" of domain \"{}\" does not exist", domain.name);
    let found = domain.checks.iter_mut().find(|check| check.name == name);
    found.ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, told))
}

/// Errors: 42710.
fn refuse_taken(domain: &Domain, name: &str) -> SqlResult<()> {
    match domain.checks.iter().any(|check| check.name == name) {
        true => {
            let told = format!("constraint \"{name}\" for domain \"{}\" already exists", domain.name);
            Err(SqlError::new(SqlState::DUPLICATE_OBJECT, told))
        }
        false => Ok(()),
    }
}
