//! `supplier`, `nation` and `region`: three tables that every region copies.

use crate::random::{a_string, n_string};
use crate::table::{Home, Placement, TableSpec, columns};
use base::Datum;
use base::decimal::Decimal;
use base::rng::Rng;

columns!(supplier {
    SU_SUPPKEY: INTEGER,
    SU_NAME: char(25),
    SU_ADDRESS: varchar(40),
    SU_NATIONKEY: INTEGER,
    SU_PHONE: char(15),
    SU_ACCTBAL: numeric(12, 2),
    SU_COMMENT: varchar(101),
});
columns!(nation { N_NATIONKEY: INTEGER, N_NAME: char(25), N_REGIONKEY: INTEGER, N_COMMENT: varchar(152) });
columns!(region { R_REGIONKEY: INTEGER, R_NAME: char(25), R_COMMENT: varchar(152) });

/// Suppliers are numbered from 0.
pub const SUPPLIERS: i64 = 10_000;

const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Europe", "Middle East"];

/// Each nation and its region, from 1 as in [`REGIONS`]; keys are the codes of 0-9, A-Z, a-z.
const NATIONS: [(&str, i64); 62] = [
    ("Algeria", 1),
    ("Argentina", 2),
    ("Armenia", 5),
    ("Australia", 3),
    ("Austria", 4),
    ("Belgium", 4),
    ("Botswana", 1),
    ("Brazil", 2),
    ("Bulgaria", 4),
    ("Cambodia", 3),
    ("Canada", 2),
    ("Chile", 2),
    ("China", 3),
    ("Colombia", 2),
    ("Croatia", 4),
    ("Cuba", 2),
    ("Czechia", 4),
    ("Denmark", 4),
    ("Ecuador", 2),
    ("Egypt", 5),
    ("Ethiopia", 1),
    ("Finland", 4),
    ("France", 4),
    ("Germany", 4),
    ("Ghana", 1),
    ("Greece", 4),
    ("Hungary", 4),
    ("Iceland", 4),
    ("India", 3),
    ("Indonesia", 3),
    ("Iran", 5),
    ("Iraq", 5),
    ("Ireland", 4),
    ("Israel", 5),
    ("Italy", 4),
    ("Japan", 3),
    ("Jordan", 5),
    ("Kenya", 1),
    ("Laos", 3),
    ("Lebanon", 5),
    ("Malaysia", 3),
    ("Mexico", 2),
    ("Morocco", 1),
    ("Mozambique", 1),
    ("Nepal", 3),
    ("Netherlands", 4),
    ("Nigeria", 1),
    ("Norway", 4),
    ("Peru", 2),
    ("Poland", 4),
    ("Portugal", 4),
    ("Romania", 4),
    ("Saudi Arabia", 5),
    ("Senegal", 1),
    ("Spain", 4),
    ("Sweden", 4),
    ("Thailand", 3),
    ("Turkey", 5),
    ("United Kingdom", 4),
    ("United States", 2),
    ("Uruguay", 2),
    ("Vietnam", 3),
];

/// A table that CH-benCHmark adds to TPC-C.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    Region,
    Nation,
    Supplier,
}

impl Table {
    pub const ALL: [Table; 3] = [Table::Region, Table::Nation, Table::Supplier];

    pub fn spec(self) -> &'static TableSpec {
        match self {
            Table::Region => &REGION,
            Table::Nation => &NATION,
            Table::Supplier => &SUPPLIER,
        }
    }
    /// Its rows, which depend on the seed alone.
    pub fn rows(self, seed: u64) -> Box<dyn Iterator<Item = Vec<Datum>> + Send> {
        let rng = Rng::new(seed).fork(self.spec().name);
        match self {
            Table::Region => Box::new((0..REGIONS.len()).map(move |n| {
                let comment = a_string(&mut rng.fork_nth("", n as u64), 31, 115);
                vec![Datum::Int(n as i64 + 1), REGIONS[n].into(), comment.into()]
            })),
            Table::Nation => Box::new((0..NATIONS.len()).map(move |n| {
                let comment = a_string(&mut rng.fork_nth("", n as u64), 31, 114);
                let (name, region) = NATIONS[n];
                vec![Datum::Int(nation_key(n)), name.into(), Datum::Int(region), comment.into()]
            })),
            Table::Supplier => Box::new((0..SUPPLIERS).map(move |n| {
                let rng = &mut rng.fork_nth("", n as u64);
                let nation = nation_key(rng.below(NATIONS.len() as u64) as usize);
                let mut comment = a_string(rng, 25, 100);
                // A few suppliers are complained about, for query 16.
                if rng.below(SUPPLIERS as u64) < 5 {
                    comment.replace_range(0..3, "bad");
                }
                vec![
                    Datum::Int(n),
                    format!("Supplier#{n:09}").into(),
                    a_string(rng, 10, 40).into(),
                    Datum::Int(nation),
                    n_string(rng, 15, 15).into(),
                    Decimal::new(i128::from(rng.between(-99_999, 999_999)), 2).into(),
                    comment.into(),
                ]
            })),
        }
    }
    pub fn rows_count(self) -> u64 {
        match self {
            Table::Region => REGIONS.len() as u64,
            Table::Nation => NATIONS.len() as u64,
            Table::Supplier => SUPPLIERS as u64,
        }
    }
}

/// The statements that make the three tables.
pub fn create_tables(placement: &Placement) -> Vec<String> {
    Table::ALL.iter().map(|table| table.spec().create_table(placement, 0)).collect()
}

/// The code of the n-th of the characters 0-9, A-Z, a-z.
fn nation_key(n: usize) -> i64 {
    match n {
        0..10 => n as i64 + 48,
        10..36 => n as i64 - 10 + 65,
        _ => n as i64 - 36 + 97,
    }
}

const SUPPLIER: TableSpec = TableSpec {
    name: "supplier",
    columns: supplier::COLUMNS,
    primary_key: &["su_suppkey"],
    nullable: &[],
    indexes: &[],
    home: Home::Replicated,
};
const NATION: TableSpec = TableSpec {
    name: "nation",
    columns: nation::COLUMNS,
    primary_key: &["n_nationkey"],
    nullable: &[],
    indexes: &[],
    home: Home::Replicated,
};
const REGION: TableSpec = TableSpec {
    name: "region",
    columns: region::COLUMNS,
    primary_key: &["r_regionkey"],
    nullable: &[],
    indexes: &[],
    home: Home::Replicated,
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_state_has_its_nation_and_every_supplier_too() {
        let nations: BTreeSet<i64> = Table::Nation.rows(1).map(|row| row[0].int()).collect();
        for letter in ('0'..='9').chain('A'..='Z').chain('a'..='z') {
            assert!(nations.contains(&(letter as i64)), "{letter}");
        }
        for row in Table::Supplier.rows(1) {
            assert!(nations.contains(&row[supplier::SU_NATIONKEY].int()));
        }
        assert_eq!(nations.len() as u64, Table::Nation.rows_count());
    }

    #[test]
    fn rows_fit_their_columns() {
        for table in Table::ALL {
            for row in table.rows(7) {
                for (value, (name, data_type)) in row.iter().zip(table.spec().columns) {
                    assert_eq!(data_type.coerce(value.clone()).as_ref(), Ok(value), "{name}");
                }
            }
            assert_eq!(table.rows(7).count() as u64, table.rows_count());
        }
    }
}
