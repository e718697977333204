//! Tables as data, and the SQL that makes them.

use base::topology::Topology;
use base::{DataType, RegionId, TableId, schema};

/// One column: its name in capitals (as the benchmarks' documents write it) and its type.
pub type Column = (&'static str, DataType);

/// Where a table's rows live when the cluster has regions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Rows follow the warehouse (or key) in this column.
    By(&'static str),
    /// Every region has a whole copy.
    Replicated,
}

/// A table of a workload.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    pub name: &'static str,
    pub columns: &'static [Column],
    pub primary_key: &'static [&'static str],
    /// Columns that may be null; all others are NOT NULL.
    pub nullable: &'static [&'static str],
    /// Name and columns of each secondary index.
    pub indexes: &'static [(&'static str, &'static [&'static str])],
    pub home: Home,
}

/// Which storage parameters the schema carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// None: plain SQL, for PostgreSQL and for one region.
    Plain,
    /// Values 1, 2, 3, … of the home column go to these regions in turn.
    RoundRobin(Vec<String>),
    /// The home column's values are spread over all regions by their hash.
    Hash,
}

impl TableSpec {
    /// Position of a column; panics on a name that the table does not have.
    pub fn column(&self, name: &str) -> usize {
        self.columns
            .iter()
            .position(|(column, _)| column.eq_ignore_ascii_case(name))
            .unwrap_or_else(|| panic!("{} has no column {name}", self.name))
    }
    /// Column names, in order, in small letters.
    pub fn column_names(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| name.to_ascii_lowercase()).collect()
    }
    /// `CREATE TABLE`; `values` is the number of values of the home column.
    pub fn create_table(&self, placement: &Placement, values: u32) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|(name, data_type)| {
                let name = name.to_ascii_lowercase();
                let not_null = if self.nullable.contains(&name.as_str()) { "" } else { " NOT NULL" };
                format!("    {name} {}{not_null}", data_type.name())
            })
            .collect();
        format!(
            "CREATE TABLE {} (\n{},\n    PRIMARY KEY ({})\n){}",
            self.name,
            columns.join(",\n"),
            self.primary_key.join(", "),
            self.storage(placement, values)
        )
    }
    /// `CREATE INDEX` for each secondary index.
    pub fn create_indexes(&self) -> Vec<String> {
        self.indexes
            .iter()
            .map(|(name, columns)| format!("CREATE INDEX {name} ON {} ({})", self.name, columns.join(", ")))
            .collect()
    }
    /// `COPY … FROM STDIN` in the text format.
    pub fn copy_in(&self) -> String {
        format!("COPY {} ({}) FROM STDIN", self.name, self.column_names().join(", "))
    }
    /// The table as the catalog would hold it after [`TableSpec::create_table`] and
    /// [`TableSpec::create_indexes`]; it and its indexes take ids from `next_id` on. Plain placement
    /// means region 0. Panics on a region that the topology does not have.
    pub fn describe(
        &self,
        placement: &Placement,
        values: u32,
        topology: &Topology,
        next_id: u32,
    ) -> schema::Table {
        let columns = self.columns.iter().map(|(name, data_type)| {
            let name = name.to_ascii_lowercase();
            schema::Column {
                not_null: !self.nullable.contains(&name.as_str()),
                name,
                data_type: *data_type,
                default: None,
                missing: base::Datum::Null,
                identity: schema::Identity::No,
                hidden: false,
            }
        });
        let indexes = self.indexes.iter().zip(next_id + 1..).map(|((name, columns), id)| schema::Index {
            id: TableId(id),
            name: (*name).into(),
            columns: columns.iter().map(|column| self.column(column)).collect(),
            unique: false,
            constraint: false,
            form: schema::IndexForm::default(),
        });
        let region = |name: &String| {
            topology.region_named(name).unwrap_or_else(|| panic!("there is no region {name}"))
        };
        let placement = match (self.home, placement) {
            (Home::Replicated, Placement::RoundRobin(_) | Placement::Hash) => schema::Placement::Replicated,
            (_, Placement::Plain) => schema::Placement::Home(RegionId(0)),
            (Home::By(column), Placement::Hash) => {
                schema::Placement::HomeBy { column: self.column(column), regions: schema::RegionMap::Hash }
            }
            (Home::By(column), Placement::RoundRobin(names)) => {
                let regions = names.iter().map(region).cycle();
                let list = (1..=i64::from(values)).map(base::Datum::Int).zip(regions).collect();
                schema::Placement::HomeBy {
                    column: self.column(column),
                    regions: schema::RegionMap::List(list),
                }
            }
        };
        schema::Table {
            id: TableId(next_id),
            schema: "public".into(),
            name: self.name.into(),
            version: 0,
            columns: columns.collect(),
            primary_key: self.primary_key.iter().map(|column| self.column(column)).collect(),
            primary_key_name: format!("{}_pkey", self.name),
            indexes: indexes.collect(),
            checks: Default::default(),
            foreign: Default::default(),
            triggers: Default::default(),
            domains: Default::default(),
            partitioning: None,
            placement,
        }
    }
    fn storage(&self, placement: &Placement, values: u32) -> String {
        match (self.home, placement) {
            (_, Placement::Plain) => String::new(),
            (Home::Replicated, _) => " WITH (replicated = true)".into(),
            (Home::By(column), Placement::Hash) => {
                format!(" WITH (home_by = '{column}', home_map = 'hash')")
            }
            (Home::By(column), Placement::RoundRobin(regions)) => {
                assert!(!regions.is_empty(), "a cluster has at least one region");
                let map: Vec<String> =
                    (1..=values).zip(regions.iter().cycle()).map(|(v, r)| format!("{v}:{r}")).collect();
                format!(" WITH (home_by = '{column}', home_map = 'list({})')", map.join(", "))
            }
        }
    }
}

/// Short names for the types that the benchmarks use.
pub mod types {
    use base::DataType;

    pub const INTEGER: DataType = DataType::Integer;
    pub const BIGINT: DataType = DataType::BigInt;
    pub const TEXT: DataType = DataType::Text;
    pub const TIMESTAMP: DataType = DataType::Timestamp;

    pub const fn numeric(precision: u8, scale: u8) -> DataType {
        DataType::Numeric { precision, scale }
    }
    pub const fn varchar(length: u32) -> DataType {
        DataType::Varchar { length }
    }
    pub const fn char(length: u32) -> DataType {
        DataType::Char { length }
    }
}

/// Makes a module with the table's columns as a list and as constants of their positions.
macro_rules! columns {
    ($(#[$doc:meta])* $module:ident { $($name:ident: $data_type:expr),* $(,)? }) => {
        $(#[$doc])*
        pub mod $module {
            use $crate::table::{Column, types::*};

            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Position { $($name),* }
            $(pub const $name: usize = Position::$name as usize;)*
            pub const COLUMNS: &[Column] = &[$((stringify!($name), $data_type)),*];
        }
    };
}
pub(crate) use columns;

#[cfg(test)]
mod tests {
    use super::*;
    use types::*;

    const BOOK: TableSpec = TableSpec {
        name: "book",
        columns: &[("B_W_ID", INTEGER), ("B_ID", BIGINT), ("B_PRICE", numeric(5, 2)), ("B_NOTE", varchar(9))],
        primary_key: &["b_w_id", "b_id"],
        nullable: &["b_note"],
        indexes: &[("book_price", &["b_w_id", "b_price"])],
        home: Home::By("b_w_id"),
    };

    #[test]
    fn the_schema_is_plain_sql_unless_a_placement_is_given() {
        assert_eq!(
            BOOK.create_table(&Placement::Plain, 3),
            "CREATE TABLE book (\n    b_w_id integer NOT NULL,\n    b_id bigint NOT NULL,\n    \
             b_price numeric(5,2) NOT NULL,\n    b_note character varying(9),\n    \
             PRIMARY KEY (b_w_id, b_id)\n)"
        );
        assert_eq!(BOOK.create_indexes(), ["CREATE INDEX book_price ON book (b_w_id, b_price)"]);
        let regions = Placement::RoundRobin(vec!["us".into(), "eu".into()]);
        let sql = BOOK.create_table(&regions, 3);
        assert!(sql.ends_with(" WITH (home_by = 'b_w_id', home_map = 'list(1:us, 2:eu, 3:us)')"), "{sql}");
        let copies = TableSpec { home: Home::Replicated, ..BOOK };
        assert!(copies.create_table(&Placement::Hash, 3).ends_with(" WITH (replicated = true)"));
    }
}
