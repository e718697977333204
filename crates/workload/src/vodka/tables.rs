//! The twelve tables: TPC-C's nine with TPC-H's columns behind them, and TPC-H's three small ones.

use crate::table::{Column, Home, Placement, TableSpec, columns, types::*};
use crate::tpcc::tables as tpcc;

/// TPC-C's columns, then ours.
const fn joined<const N: usize>(first: &[Column], second: &[Column]) -> [Column; N] {
    assert!(first.len() + second.len() == N, "the length must be the sum of both");
    let mut out = [("", INTEGER); N];
    let mut i = 0;
    while i < N {
        out[i] = if i < first.len() { first[i] } else { second[i - first.len()] };
        i += 1;
    }
    out
}

macro_rules! extended {
    ($name:ident: $base:expr, $added:expr) => {
        const $name: [Column; $base.len() + $added.len()] = joined($base, $added);
    };
}

extended!(DISTRICT_COLUMNS: tpcc::district::COLUMNS, &[("D_NATIONKEY", INTEGER)]);
extended!(CUSTOMER_COLUMNS: tpcc::customer::COLUMNS, &[
    ("C_NATIONKEY", INTEGER),
    ("C_MKTSEGMENT", varchar(10)),
    ("VER", INTEGER),
]);
extended!(STOCK_COLUMNS: tpcc::stock::COLUMNS, &[
    ("S_SUPPLYCOST", numeric(6, 2)),
    ("S_SUPPKEY", INTEGER),
    ("VER", INTEGER),
]);

columns!(item {
    I_ID: INTEGER,
    I_IM_ID: INTEGER,
    I_NAME: varchar(55),
    I_PRICE: numeric(5, 2),
    I_DATA: varchar(50),
    I_CONTAINER: varchar(10),
    I_SIZE: INTEGER,
    I_BRAND: varchar(10),
    I_TYPE: varchar(25),
    I_MFGR: varchar(25),
});
columns!(orders {
    O_W_ID: INTEGER,
    O_D_ID: INTEGER,
    O_ID: INTEGER,
    O_C_ID: INTEGER,
    O_ENTRY_D: TIMESTAMP,
    O_CARRIER_ID: INTEGER,
    O_OL_CNT: INTEGER,
    O_ALL_LOCAL: INTEGER,
    O_COMMENT: varchar(79),
    O_SHIPPRIORITY: INTEGER,
    VER: INTEGER,
});
columns!(order_line {
    OL_W_ID: INTEGER,
    OL_D_ID: INTEGER,
    OL_O_ID: INTEGER,
    OL_NUMBER: INTEGER,
    OL_I_ID: INTEGER,
    OL_SUPPLY_W_ID: INTEGER,
    OL_DELIVERY_D: TIMESTAMP,
    OL_RECEIPTDATE: TIMESTAMP,
    OL_COMMITDATE: TIMESTAMP,
    OL_QUANTITY: INTEGER,
    OL_AMOUNT: numeric(8, 2),
    OL_DISCOUNT: numeric(4, 2),
    OL_TAX: numeric(4, 2),
    OL_RETURNFLAG: char(1),
    OL_SHIPMODE: varchar(10),
    OL_SHIPINSTRUCT: varchar(25),
    OL_SUPPKEY: INTEGER,
    OL_DIST_INFO: char(24),
    VER: INTEGER,
    WRITE_TS: TIMESTAMP,
});
columns!(supplier {
    SU_SUPPKEY: INTEGER,
    SU_NAME: varchar(25),
    SU_ADDRESS: varchar(40),
    SU_NATIONKEY: INTEGER,
    SU_PHONE: varchar(15),
    SU_ACCTBAL: numeric(12, 2),
    SU_COMMENT: varchar(101),
});
columns!(nation { N_NATIONKEY: INTEGER, N_NAME: varchar(25), N_REGIONKEY: INTEGER });
columns!(region { R_REGIONKEY: INTEGER, R_NAME: varchar(25) });
columns!(
    /// What is to be loaded, and whether it is: the only table with one row.
    loaded {
        WAREHOUSES: INTEGER,
        ITEMS: INTEGER,
        CUSTOMERS: INTEGER,
        SEED: BIGINT,
        LOADED_AT: BIGINT,
        IS_COMPLETE: base::DataType::Boolean,
    }
);

columns!(
    /// One row per terminal: the number of its last transaction that wrote.
    freshness {
        F_W_ID: INTEGER,
        F_TERMINAL: INTEGER,
        F_N: BIGINT,
    }
);

/// Number of the column that counts a row's versions; the same name in each table that has one.
pub const VERSION_COLUMN: &str = "ver";

/// A table of the workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    Region,
    Nation,
    Supplier,
    Item,
    Warehouse,
    District,
    Customer,
    History,
    Orders,
    NewOrder,
    OrderLine,
    Stock,
}

impl Table {
    /// In the order in which they are made and loaded.
    pub const ALL: [Table; 12] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Item,
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::History,
        Table::Orders,
        Table::NewOrder,
        Table::OrderLine,
        Table::Stock,
    ];

    pub fn spec(self) -> &'static TableSpec {
        match self {
            Table::Region => &REGION,
            Table::Nation => &NATION,
            Table::Supplier => &SUPPLIER,
            Table::Item => &ITEM,
            Table::Warehouse => &WAREHOUSE,
            Table::District => &DISTRICT,
            Table::Customer => &CUSTOMER,
            Table::History => &HISTORY,
            Table::Orders => &ORDERS,
            Table::NewOrder => &NEW_ORDER,
            Table::OrderLine => &ORDER_LINE,
            Table::Stock => &STOCK,
        }
    }
    /// True if the table is loaded once and not once per warehouse.
    pub fn is_shared(self) -> bool {
        matches!(self, Table::Region | Table::Nation | Table::Supplier | Table::Item)
    }
}

/// The statements that make all tables and their indexes.
pub fn create(placement: &Placement, warehouses: u32) -> Vec<String> {
    let tables = Table::ALL.iter().map(|table| table.spec());
    let mut out: Vec<String> = tables.clone().map(|spec| spec.create_table(placement, warehouses)).collect();
    out.extend(tables.flat_map(|spec| spec.create_indexes()));
    out.push(FRESHNESS.create_table(placement, warehouses));
    out.push(LOADED.create_table(placement, 0));
    out
}

const fn table(
    name: &'static str,
    columns: &'static [Column],
    primary_key: &'static [&'static str],
    home: Home,
) -> TableSpec {
    TableSpec { name, columns, primary_key, nullable: &[], indexes: &[], home }
}

const REGION: TableSpec = table("vodka_region", region::COLUMNS, &["r_regionkey"], Home::Replicated);
const NATION: TableSpec = table("vodka_nation", nation::COLUMNS, &["n_nationkey"], Home::Replicated);
const SUPPLIER: TableSpec = table("vodka_supplier", supplier::COLUMNS, &["su_suppkey"], Home::Replicated);
const ITEM: TableSpec = table("vodka_item", item::COLUMNS, &["i_id"], Home::Replicated);
const WAREHOUSE: TableSpec = table("vodka_warehouse", tpcc::warehouse::COLUMNS, &["w_id"], Home::By("w_id"));
const DISTRICT: TableSpec =
    table("vodka_district", &DISTRICT_COLUMNS, &["d_w_id", "d_id"], Home::By("d_w_id"));
const CUSTOMER: TableSpec = TableSpec {
    indexes: &[("vodka_customer_by_name", &["c_w_id", "c_d_id", "c_last", "c_first"])],
    ..table("vodka_customer", &CUSTOMER_COLUMNS, &["c_w_id", "c_d_id", "c_id"], Home::By("c_w_id"))
};
const HISTORY: TableSpec =
    table("vodka_history", tpcc::history::COLUMNS, &["h_w_id", "h_id"], Home::By("h_w_id"));
const NEW_ORDER: TableSpec = table(
    "vodka_new_order",
    tpcc::new_order::COLUMNS,
    &["no_w_id", "no_d_id", "no_o_id"],
    Home::By("no_w_id"),
);
const ORDERS: TableSpec = TableSpec {
    nullable: &["o_carrier_id"],
    indexes: &[("vodka_orders_by_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"])],
    ..table("vodka_orders", orders::COLUMNS, &["o_w_id", "o_d_id", "o_id"], Home::By("o_w_id"))
};
const ORDER_LINE: TableSpec = TableSpec {
    nullable: &["ol_delivery_d", "ol_receiptdate", "ol_returnflag", "ol_shipmode", "ol_shipinstruct"],
    indexes: &[("vodka_order_line_by_write", &["write_ts"])],
    ..table(
        "vodka_order_line",
        order_line::COLUMNS,
        &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
        Home::By("ol_w_id"),
    )
};
const STOCK: TableSpec = table("vodka_stock", &STOCK_COLUMNS, &["s_w_id", "s_i_id"], Home::By("s_w_id"));

/// Written after everything else: without its row a database is not loaded.
pub const LOADED: TableSpec = table("vodka_loaded", loaded::COLUMNS, &["warehouses"], Home::Replicated);

/// Read by the queries that measure freshness as HATtrick defines it. It is empty until a run begins.
pub const FRESHNESS: TableSpec =
    table("vodka_freshness", freshness::COLUMNS, &["f_w_id", "f_terminal"], Home::By("f_w_id"));
