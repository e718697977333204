//! `WITH (…)`: where a table's rows live.

use super::DdlContext;
use base::error::{SqlResult, SqlState};
use base::schema::{Placement, RegionMap, Table};
use base::{DataType, RegionId, SqlError};
use datafusion::sql::sqlparser::ast::{self, SqlOption};
use std::collections::BTreeMap;

/// Storage parameters, as written.
pub(super) struct StorageOptions(BTreeMap<String, String>);

impl StorageOptions {
    /// Errors: 22023 for parameters that are not known.
    pub fn read(options: &ast::CreateTableOptions) -> SqlResult<StorageOptions> {
        let options: &[SqlOption] = match options {
            ast::CreateTableOptions::None => &[],
            ast::CreateTableOptions::With(options) | ast::CreateTableOptions::Plain(options) => options,
            _ => return Err(SqlError::unsupported("table options other than WITH (…)")),
        };
        let mut found = BTreeMap::new();
        for option in options {
            let (name, value) = match option {
                SqlOption::KeyValue { key, value } => (key.value.to_lowercase(), text(value)),
                SqlOption::Ident(ident) => (ident.value.to_lowercase(), "true".into()),
                other => return Err(SqlError::unsupported(format!("the table option {other}"))),
            };
            // PostgreSQL's own physical parameters have nothing to act on.
            if !["home", "home_by", "home_map", "replicated", "fillfactor"].contains(&name.as_str()) {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("unrecognized parameter \"{name}\""),
                )
                .hint("Tables take home, or home_by with home_map, or replicated."));
            }
            found.insert(name, value);
        }
        Ok(StorageOptions(found))
    }

    /// The column that decides the region, if one does.
    pub fn home_by(&self) -> Option<&str> {
        self.0.get("home_by").map(String::as_str)
    }

    pub fn placement(&self, context: &DdlContext<'_>, table: &Table) -> SqlResult<Placement> {
        let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let replicated = match self.0.get("replicated").map(|v| v.to_lowercase()) {
            None => false,
            Some(v) if ["true", "on", "1", "yes"].contains(&v.as_str()) => true,
            Some(v) if ["false", "off", "0", "no"].contains(&v.as_str()) => false,
            Some(v) => return Err(invalid(format!("invalid value for boolean option \"replicated\": {v}"))),
        };
        let home = self.0.get("home");
        let given =
            usize::from(replicated) + usize::from(home.is_some()) + usize::from(self.home_by().is_some());
        if given > 1 {
            return Err(invalid("a table takes one of home, home_by and replicated".into()));
        }
        if self.0.contains_key("home_map") && self.home_by().is_none() {
            return Err(invalid("home_map needs home_by".into()));
        }
        if replicated {
            return Ok(Placement::Replicated);
        }
        if let Some(region) = home {
            return Ok(Placement::Home(region_named(context, region)?));
        }
        let Some(column) = self.home_by() else { return Ok(Placement::Home(context.region)) };
        let column = table.column_named(&column.to_lowercase()).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" named in home_by does not exist"),
            )
        })?;
        if !table.primary_key.contains(&column) {
            return Err(SqlError::new(
                SqlState::INVALID_TABLE_DEFINITION,
                "the home_by column must be part of the primary key",
            )
            .detail("Otherwise equal keys could live in two regions."));
        }
        let map = self.0.get("home_map").map_or("hash", String::as_str);
        let regions = region_map(context, map, table.columns[column].data_type)?;
        Ok(Placement::HomeBy { column, regions })
    }
}

fn region_map(context: &DdlContext<'_>, map: &str, data_type: DataType) -> SqlResult<RegionMap> {
    let trimmed = map.trim();
    match trimmed.to_lowercase().as_str() {
        "hash" => return Ok(RegionMap::Hash),
        "name" => {
            return match data_type {
                DataType::Text | DataType::Varchar { .. } | DataType::Char { .. } => Ok(RegionMap::Name),
                other => Err(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("home_map = 'name' needs a column of text, not {}", other.name()),
                )),
            };
        }
        _ => {}
    }
    let list = trimmed.strip_prefix("list(").and_then(|l| l.strip_suffix(')')).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid home_map \"{map}\""))
            .hint("Write 'hash', 'name', or 'list(1:us, 2:eu)'.")
    })?;
    let mut pairs = Vec::new();
    for item in list.split(',') {
        let (value, region) = item.rsplit_once(':').ok_or_else(|| {
            SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("\"{item}\" in home_map is not value:region"),
            )
        })?;
        let value = base::text::parse(value.trim().trim_matches('\''), data_type)?;
        pairs.push((value, region_named(context, region.trim())?));
    }
    Ok(RegionMap::List(pairs))
}

fn region_named(context: &DdlContext<'_>, name: &str) -> SqlResult<RegionId> {
    context.topology.region_named(name).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("region \"{name}\" does not exist"))
            .hint(format!("Regions are {}.", context.topology.wan.regions.join(", ")))
    })
}

fn text(e: &ast::Expr) -> String {
    match e {
        ast::Expr::Value(v) => match &v.value {
            ast::Value::SingleQuotedString(s) | ast::Value::DoubleQuotedString(s) => s.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}
