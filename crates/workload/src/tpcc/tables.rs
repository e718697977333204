//! The nine tables of TPC-C, with the positions of their columns.

use crate::table::{Home, TableSpec, columns};

columns!(warehouse {
    W_ID: INTEGER,
    W_NAME: varchar(10),
    W_STREET_1: varchar(20),
    W_STREET_2: varchar(20),
    W_CITY: varchar(20),
    W_STATE: char(2),
    W_ZIP: char(9),
    W_TAX: numeric(4, 4),
    W_YTD: numeric(12, 2),
});
columns!(district {
    D_W_ID: INTEGER,
    D_ID: INTEGER,
    D_NAME: varchar(10),
    D_STREET_1: varchar(20),
    D_STREET_2: varchar(20),
    D_CITY: varchar(20),
    D_STATE: char(2),
    D_ZIP: char(9),
    D_TAX: numeric(4, 4),
    D_YTD: numeric(12, 2),
    D_NEXT_O_ID: INTEGER,
});
columns!(customer {
    C_W_ID: INTEGER,
    C_D_ID: INTEGER,
    C_ID: INTEGER,
    C_FIRST: varchar(16),
    C_MIDDLE: char(2),
    C_LAST: varchar(16),
    C_STREET_1: varchar(20),
    C_STREET_2: varchar(20),
    C_CITY: varchar(20),
    C_STATE: char(2),
    C_ZIP: char(9),
    C_PHONE: char(16),
    C_SINCE: TIMESTAMP,
    C_CREDIT: char(2),
    C_CREDIT_LIM: numeric(12, 2),
    C_DISCOUNT: numeric(4, 4),
    C_BALANCE: numeric(12, 2),
    C_YTD_PAYMENT: numeric(12, 2),
    C_PAYMENT_CNT: INTEGER,
    C_DELIVERY_CNT: INTEGER,
    C_DATA: varchar(500),
});
columns!(history {
    H_W_ID: INTEGER,
    H_ID: BIGINT,
    H_D_ID: INTEGER,
    H_C_W_ID: INTEGER,
    H_C_D_ID: INTEGER,
    H_C_ID: INTEGER,
    H_DATE: TIMESTAMP,
    H_AMOUNT: numeric(6, 2),
    H_DATA: varchar(24),
});
columns!(new_order { NO_W_ID: INTEGER, NO_D_ID: INTEGER, NO_O_ID: INTEGER });
columns!(orders {
    O_W_ID: INTEGER,
    O_D_ID: INTEGER,
    O_ID: INTEGER,
    O_C_ID: INTEGER,
    O_ENTRY_D: TIMESTAMP,
    O_CARRIER_ID: INTEGER,
    O_OL_CNT: INTEGER,
    O_ALL_LOCAL: INTEGER,
});
columns!(order_line {
    OL_W_ID: INTEGER,
    OL_D_ID: INTEGER,
    OL_O_ID: INTEGER,
    OL_NUMBER: INTEGER,
    OL_I_ID: INTEGER,
    OL_SUPPLY_W_ID: INTEGER,
    OL_DELIVERY_D: TIMESTAMP,
    OL_QUANTITY: INTEGER,
    OL_AMOUNT: numeric(6, 2),
    OL_DIST_INFO: char(24),
});
columns!(item {
    I_ID: INTEGER,
    I_IM_ID: INTEGER,
    I_NAME: varchar(24),
    I_PRICE: numeric(5, 2),
    I_DATA: varchar(50),
});
columns!(stock {
    S_W_ID: INTEGER,
    S_I_ID: INTEGER,
    S_QUANTITY: INTEGER,
    S_DIST_01: char(24),
    S_DIST_02: char(24),
    S_DIST_03: char(24),
    S_DIST_04: char(24),
    S_DIST_05: char(24),
    S_DIST_06: char(24),
    S_DIST_07: char(24),
    S_DIST_08: char(24),
    S_DIST_09: char(24),
    S_DIST_10: char(24),
    S_YTD: INTEGER,
    S_ORDER_CNT: INTEGER,
    S_REMOTE_CNT: INTEGER,
    S_DATA: varchar(50),
});

/// A table of TPC-C.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
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
    /// In the order in which they are best made and loaded.
    pub const ALL: [Table; 9] = [
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
}

const ITEM: TableSpec = TableSpec {
    name: "item",
    columns: item::COLUMNS,
    primary_key: &["i_id"],
    nullable: &[],
    indexes: &[],
    home: Home::Replicated,
};
const WAREHOUSE: TableSpec = TableSpec {
    name: "warehouse",
    columns: warehouse::COLUMNS,
    primary_key: &["w_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("w_id"),
};
const DISTRICT: TableSpec = TableSpec {
    name: "district",
    columns: district::COLUMNS,
    primary_key: &["d_w_id", "d_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("d_w_id"),
};
const CUSTOMER: TableSpec = TableSpec {
    name: "customer",
    columns: customer::COLUMNS,
    primary_key: &["c_w_id", "c_d_id", "c_id"],
    nullable: &[],
    indexes: &[("customer_by_name", &["c_w_id", "c_d_id", "c_last", "c_first"])],
    home: Home::By("c_w_id"),
};
const HISTORY: TableSpec = TableSpec {
    name: "history",
    columns: history::COLUMNS,
    primary_key: &["h_w_id", "h_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("h_w_id"),
};
const NEW_ORDER: TableSpec = TableSpec {
    name: "new_order",
    columns: new_order::COLUMNS,
    primary_key: &["no_w_id", "no_d_id", "no_o_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("no_w_id"),
};
const ORDERS: TableSpec = TableSpec {
    name: "orders",
    columns: orders::COLUMNS,
    primary_key: &["o_w_id", "o_d_id", "o_id"],
    nullable: &["o_carrier_id"],
    indexes: &[("orders_by_customer", &["o_w_id", "o_d_id", "o_c_id", "o_id"])],
    home: Home::By("o_w_id"),
};
const ORDER_LINE: TableSpec = TableSpec {
    name: "order_line",
    columns: order_line::COLUMNS,
    primary_key: &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
    nullable: &["ol_delivery_d"],
    indexes: &[],
    home: Home::By("ol_w_id"),
};
const STOCK: TableSpec = TableSpec {
    name: "stock",
    columns: stock::COLUMNS,
    primary_key: &["s_w_id", "s_i_id"],
    nullable: &[],
    indexes: &[],
    home: Home::By("s_w_id"),
};
