//! The 22 queries: TPC-H's shapes over the merged schema.
//!
//! Every window over a date that changes is one-sided, `date < parameter`, and the parameter is the quantile of the
//! dates that are there, so that its selectivity stays. Tables stand in FROM in an order in which each has a key in common
//! with those before. NULL dates are in no window: lines that were not delivered do not count. Query 22 asks for customers
//! without an order; TPC-C's all have one, so it reads and finds nothing.

use super::reservoir::Reservoir;
use base::Datum;

/// Numbers of the queries.
pub const QUERIES: std::ops::RangeInclusive<usize> = 1..=22;

/// A column whose distribution changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DateColumn {
    /// `ol_delivery_d`: TPC-H's l_shipdate.
    Delivery,
    /// `ol_receiptdate`.
    Receipt,
    /// `o_entry_d`: TPC-H's o_orderdate.
    Entry,
}

impl DateColumn {
    pub const ALL: [DateColumn; 3] = [DateColumn::Delivery, DateColumn::Receipt, DateColumn::Entry];

    /// Its table and name.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            DateColumn::Delivery => ("vodka_order_line", "ol_delivery_d"),
            DateColumn::Receipt => ("vodka_order_line", "ol_receiptdate"),
            DateColumn::Entry => ("vodka_orders", "o_entry_d"),
        }
    }
}

/// A query's moving predicate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    pub column: DateColumn,
    /// `<=` instead of `<`.
    pub or_equal: bool,
    /// TPC-H's constant for it, as `YYYY-MM-DD`: the share of rows before it on the loaded data is what is kept.
    pub constant: &'static str,
    /// The share to keep where it cannot be measured, as published with the benchmark.
    pub fallback: f64,
}

const fn window(column: DateColumn, or_equal: bool, constant: &'static str, fallback: f64) -> Option<Window> {
    Some(Window { column, or_equal, constant, fallback })
}

/// The moving predicate of a query; `None` for those without.
pub fn moving(number: usize) -> Option<Window> {
    use DateColumn::{Delivery, Entry, Receipt};
    match number {
        1 => window(Delivery, true, "1996-09-02", 0.70),
        3 => window(Delivery, false, "1994-06-15", 0.3365),
        4 => window(Entry, false, "1993-10-01", 0.2277),
        5 => window(Entry, true, "1994-01-01", 0.304),
        6 => window(Delivery, false, "1993-07-01", 0.2098),
        7 => window(Delivery, false, "1994-04-01", 0.3156),
        8 => window(Entry, false, "1995-01-01", 0.4555),
        10 => window(Entry, false, "1993-10-01", 0.266),
        12 => window(Receipt, false, "1993-07-01", 0.2054),
        14 => window(Delivery, false, "1994-10-01", 0.3857),
        15 => window(Delivery, false, "1995-01-01", 0.4214),
        20 => window(Delivery, false, "1993-07-01", 0.2098),
        _ => None,
    }
}

/// The parameter that keeps a share of the rows in the window. `None` without a sample.
pub fn parameter(window: &Window, sample: &Reservoir, alpha: f64) -> Option<i64> {
    if window.or_equal { sample.quantile_inclusive(alpha) } else { sample.quantile(alpha) }
}

/// Query `number` with a literal for its parameter, µs since 2000-01-01; panics on another number, or without the
/// parameter of a query that has one.
pub fn query(number: usize, parameter_us: Option<i64>) -> String {
    assert!(QUERIES.contains(&number), "queries are numbered 1 to 22, not {number}");
    let text = TEXTS[number - 1];
    if moving(number).is_none() {
        return text.into();
    }
    let us = parameter_us.expect("a query with a moving window has a parameter");
    text.replace("{p}", &timestamp(us))
}

/// A literal for an instant.
pub fn timestamp(us: i64) -> String {
    format!("timestamp '{}'", base::text::display(&Datum::Timestamp(us)))
}

const TEXTS: [&str; 22] = [
    // 1
    "select ol_returnflag, ol_number, sum(ol_quantity) as sum_qty, sum(ol_amount) as sum_base_price,
    sum(ol_amount * (1 - ol_discount)) as sum_disc_price, avg(ol_quantity) as avg_qty,
    avg(ol_amount) as avg_price, avg(ol_discount) as avg_disc, count(*) as count_order
from vodka_order_line
where ol_delivery_d <= {p}
group by ol_returnflag, ol_number
order by ol_returnflag, ol_number",
    // 2
    "select su_acctbal, su_name, n_name, i_id, i_mfgr, su_address, su_phone, su_comment
from vodka_region, vodka_nation, vodka_supplier, vodka_stock, vodka_item,
    (select s_i_id as m_i_id, min(s_supplycost) as m_cost
    from vodka_region, vodka_nation, vodka_supplier, vodka_stock
    where s_suppkey = su_suppkey and su_nationkey = n_nationkey and n_regionkey = r_regionkey
        and r_name = 'EUROPE'
    group by s_i_id) m
where n_regionkey = r_regionkey and su_nationkey = n_nationkey and s_suppkey = su_suppkey and i_id = s_i_id
    and r_name = 'EUROPE' and i_size = 15 and i_type like '%BRASS'
    and m_i_id = s_i_id and s_supplycost = m_cost
order by su_acctbal desc, n_name, su_name, i_id
limit 10",
    // 3
    "select ol_w_id, ol_d_id, ol_o_id, sum(ol_amount * (1 - ol_discount)) as revenue, o_entry_d, o_shippriority
from vodka_customer, vodka_orders, vodka_order_line
where c_mktsegment = 'BUILDING' and c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_delivery_d < {p}
group by ol_w_id, ol_d_id, ol_o_id, o_entry_d, o_shippriority
order by revenue desc, o_entry_d, ol_w_id, ol_d_id, ol_o_id
limit 10",
    // 4
    "select o_carrier_id, count(*) as order_count
from vodka_orders
where o_entry_d < {p} and exists (select 1 from vodka_order_line
    where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_commitdate < ol_receiptdate)
group by o_carrier_id
order by o_carrier_id",
    // 5
    "select n_name, sum(ol_amount * (1 - ol_discount)) as revenue
from vodka_region, vodka_nation, vodka_customer, vodka_orders, vodka_order_line, vodka_supplier
where n_regionkey = r_regionkey and c_nationkey = n_nationkey
    and c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and ol_suppkey = su_suppkey and su_nationkey = c_nationkey
    and r_name = 'ASIA' and o_entry_d <= {p}
group by n_name
order by revenue desc",
    // 6
    "select sum(ol_amount * ol_discount) as revenue
from vodka_order_line
where ol_delivery_d < {p} and ol_discount between 0.05 and 0.07 and ol_quantity < 24",
    // 7
    "select n1.n_name as supp_nation, n2.n_name as cust_nation, extract(year from ol_delivery_d) as l_year,
    sum(ol_amount * (1 - ol_discount)) as revenue
from vodka_nation n1, vodka_supplier, vodka_order_line, vodka_orders, vodka_customer, vodka_nation n2
where su_nationkey = n1.n_nationkey and ol_suppkey = su_suppkey
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id and c_nationkey = n2.n_nationkey
    and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY') or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
    and ol_delivery_d < {p}
group by n1.n_name, n2.n_name, extract(year from ol_delivery_d)
order by supp_nation, cust_nation, l_year",
    // 8
    "select extract(year from o_entry_d) as o_year,
    sum(case when n2.n_name = 'BRAZIL' then ol_amount * (1 - ol_discount) else 0 end)
        / sum(ol_amount * (1 - ol_discount)) as mkt_share
from vodka_region, vodka_nation n1, vodka_customer, vodka_orders, vodka_order_line, vodka_item, vodka_supplier,
    vodka_nation n2
where n1.n_regionkey = r_regionkey and c_nationkey = n1.n_nationkey
    and c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and i_id = ol_i_id
    and ol_suppkey = su_suppkey and su_nationkey = n2.n_nationkey
    and r_name = 'AMERICA' and i_type = 'ECONOMY ANODIZED STEEL' and o_entry_d < {p}
group by extract(year from o_entry_d)
order by o_year",
    // 9
    "select n_name, extract(year from o_entry_d) as o_year,
    sum(ol_amount * (1 - ol_discount) - s_supplycost * ol_quantity) as sum_profit
from vodka_item, vodka_stock, vodka_supplier, vodka_nation, vodka_order_line, vodka_orders
where i_id = s_i_id and s_suppkey = su_suppkey and su_nationkey = n_nationkey
    and ol_supply_w_id = s_w_id and ol_i_id = s_i_id and ol_suppkey = su_suppkey
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and i_name like '%green%'
group by n_name, extract(year from o_entry_d)
order by n_name, o_year desc",
    // 10
    "select c_w_id, c_d_id, c_id, c_last, sum(ol_amount * (1 - ol_discount)) as revenue, c_balance, n_name,
    c_city, c_phone
from vodka_nation, vodka_customer, vodka_orders, vodka_order_line
where c_nationkey = n_nationkey and c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and o_entry_d < {p} and ol_returnflag = 'R'
group by c_w_id, c_d_id, c_id, c_last, c_balance, n_name, c_city, c_phone
order by revenue desc, c_w_id, c_d_id, c_id
limit 20",
    // 11
    "select s_i_id, sum(s_supplycost * s_quantity) as value
from vodka_nation, vodka_supplier, vodka_stock
where su_nationkey = n_nationkey and s_suppkey = su_suppkey and n_name = 'GERMANY'
group by s_i_id
having sum(s_supplycost * s_quantity) > (select sum(s_supplycost * s_quantity) * 0.0001
    from vodka_nation, vodka_supplier, vodka_stock
    where su_nationkey = n_nationkey and s_suppkey = su_suppkey and n_name = 'GERMANY')
order by value desc, s_i_id",
    // 12
    "select ol_shipmode,
    sum(case when o_carrier_id = 1 or o_carrier_id = 2 then 1 else 0 end) as high_line_count,
    sum(case when o_carrier_id <> 1 and o_carrier_id <> 2 then 1 else 0 end) as low_line_count
from vodka_orders, vodka_order_line
where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_shipmode in ('MAIL', 'SHIP')
    and ol_commitdate < ol_receiptdate and ol_delivery_d < ol_commitdate and ol_receiptdate < {p}
group by ol_shipmode
order by ol_shipmode",
    // 13
    "select c_count, count(*) as custdist
from (select c_w_id, c_d_id, c_id, count(o_id) as c_count
    from vodka_customer left outer join vodka_orders
        on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
            and o_comment not like '%special%requests%'
    group by c_w_id, c_d_id, c_id) c_orders
group by c_count
order by custdist desc, c_count desc",
    // 14
    "select 100.00 * sum(case when i_type like 'PROMO%' then ol_amount * (1 - ol_discount) else 0 end)
    / (0.001 + sum(ol_amount * (1 - ol_discount))) as promo_revenue
from vodka_item, vodka_order_line
where ol_i_id = i_id and ol_delivery_d < {p}",
    // 15
    "with revenue as (
    select ol_suppkey as supplier_no, sum(ol_amount * (1 - ol_discount)) as total_revenue
    from vodka_order_line
    where ol_delivery_d < {p}
    group by ol_suppkey)
select su_suppkey, su_name, su_address, su_phone, total_revenue
from vodka_supplier, revenue
where su_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
order by su_suppkey",
    // 16
    "select i_brand, i_type, i_size, count(distinct s_suppkey) as supplier_cnt
from vodka_item, vodka_stock
where i_id = s_i_id and i_brand <> 'Brand#45' and i_type not like 'MEDIUM POLISHED%'
    and i_size in (49, 14, 23, 45, 19, 3, 36, 9)
    and s_suppkey not in (select su_suppkey from vodka_supplier where su_comment like '%Customer%Complaints%')
group by i_brand, i_type, i_size
order by supplier_cnt desc, i_brand, i_type, i_size",
    // 17
    "select count(*) as small_lines
from vodka_item, vodka_order_line,
    (select ol_i_id as a_i_id, 0.2 * avg(ol_quantity) as a_quantity
    from vodka_order_line group by ol_i_id) a
where i_id = ol_i_id and a_i_id = i_id and i_brand = 'Brand#23' and i_container = 'MED BOX'
    and ol_quantity < a_quantity",
    // 18
    "select c_last, c_w_id, c_d_id, c_id, o_id, o_entry_d, sum(ol_quantity) as total_quantity
from vodka_customer, vodka_orders, vodka_order_line
where c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
group by c_last, c_w_id, c_d_id, c_id, o_id, o_entry_d
having sum(ol_quantity) > 300
order by o_entry_d, c_w_id, c_d_id, o_id
limit 5",
    // 19
    "select sum(ol_amount * (1 - ol_discount)) as revenue
from vodka_item, vodka_order_line
where i_id = ol_i_id and ol_shipmode in ('AIR', 'REG AIR') and ol_shipinstruct = 'DELIVER IN PERSON'
    and ((i_brand = 'Brand#12' and i_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
            and ol_quantity >= 1 and ol_quantity <= 11 and i_size between 1 and 5)
        or (i_brand = 'Brand#23' and i_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
            and ol_quantity >= 10 and ol_quantity <= 20 and i_size between 1 and 10)
        or (i_brand = 'Brand#34' and i_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
            and ol_quantity >= 20 and ol_quantity <= 30 and i_size between 1 and 15))",
    // 20
    "select su_name, su_address
from vodka_nation, vodka_supplier
where su_nationkey = n_nationkey and n_name = 'CANADA' and su_suppkey in (
    select s_suppkey
    from vodka_stock, (select ol_supply_w_id as q_w_id, ol_i_id as q_i_id, 0.0005 * sum(ol_quantity) as q_sum
        from vodka_order_line where ol_delivery_d < {p} group by ol_supply_w_id, ol_i_id) q
    where s_w_id = q_w_id and s_i_id = q_i_id and s_quantity > q_sum
        and s_i_id in (select i_id from vodka_item where i_name like 'forest%'))
order by su_name",
    // 21
    "select su_name, count(*) as numwait
from vodka_nation, vodka_supplier, vodka_order_line l1, vodka_orders
where su_nationkey = n_nationkey and l1.ol_suppkey = su_suppkey
    and l1.ol_w_id = o_w_id and l1.ol_d_id = o_d_id and l1.ol_o_id = o_id
    and l1.ol_receiptdate > l1.ol_commitdate and n_name = 'SAUDI ARABIA'
    and exists (select 1 from vodka_order_line l2
        where l2.ol_w_id = l1.ol_w_id and l2.ol_d_id = l1.ol_d_id and l2.ol_o_id = l1.ol_o_id
            and l2.ol_suppkey <> l1.ol_suppkey)
    and not exists (select 1 from vodka_order_line l3
        where l3.ol_w_id = l1.ol_w_id and l3.ol_d_id = l1.ol_d_id and l3.ol_o_id = l1.ol_o_id
            and l3.ol_suppkey <> l1.ol_suppkey and l3.ol_receiptdate > l3.ol_commitdate)
group by su_name
order by numwait desc, su_name
limit 10",
    // 22
    "select cntrycode, count(*) as numcust, sum(c_balance) as totacctbal
from (select substr(c_phone, 1, 2) as cntrycode, c_balance
    from vodka_customer
    where substr(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17')
        and c_balance > (select avg(c_balance) from vodka_customer
            where c_balance > 0.00 and substr(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17'))
        and not exists (select 1 from vodka_orders
            where o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id)) custsale
group by cntrycode
order by cntrycode",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_queries_have_a_parameter_and_it_stands_in_their_text() {
        let with: Vec<usize> = QUERIES.filter(|&n| moving(n).is_some()).collect();
        assert_eq!(with, [1, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15, 20]);
        for number in QUERIES {
            let text = query(number, Some(0));
            assert_eq!(
                text.contains("timestamp '2000-01-01 00:00:00'"),
                moving(number).is_some(),
                "Q{number}"
            );
            assert!(!text.contains('{'));
            if let Some(window) = moving(number) {
                let column = window.column.name().1;
                let comparison = if window.or_equal { "<=" } else { "<" };
                assert!(text.contains(&format!("{column} {comparison} timestamp")), "Q{number}");
            }
        }
    }

    /// Rows in a window over orders' dates, while orders are added: along with the quantile, and with a fixed date.
    #[test]
    fn rows_in_a_window_are_linear_in_size_with_a_quantile_and_drift_with_a_fixed_date() {
        use crate::tpcc::Tpcc;
        use crate::vodka::{Table, Vodka, tables::orders::O_ENTRY_D};
        let vodka = Vodka::new(Tpcc::new(2).shrunk(10));
        let mut dates: Vec<i64> = (1..=2)
            .flat_map(|w| vodka.rows(Table::Orders, w))
            .map(|row| match row[O_ENTRY_D] {
                Datum::Timestamp(us) => us,
                _ => unreachable!("orders have a date"),
            })
            .collect();
        for number in [5, 8] {
            let window = moving(number).unwrap();
            let mut sample = Reservoir::new(4000, base::rng::Rng::new(1));
            sample.fill(dates.iter().copied());
            let fixed = parameter(&window, &sample, window.fallback).unwrap();
            let loaded = dates.len();
            let (mut points, mut drifting) = (Vec::new(), Vec::new());
            for n in 0..2 * loaded as i64 {
                let us = vodka.clock(n * 100_000);
                dates.push(us);
                sample.add(us);
                if n % 200 == 0 {
                    let inside = |us: i64| dates.iter().filter(|date| **date <= us).count() as f64;
                    let moved = parameter(&window, &sample, window.fallback).unwrap();
                    points.push((dates.len() as f64, inside(moved)));
                    drifting.push((dates.len() as f64, inside(fixed)));
                }
            }
            assert!(r_squared(&points) > 0.99, "Q{number}: {}", r_squared(&points));
            let share = |point: &(f64, f64)| point.1 / point.0;
            let (first, last) = (&drifting[0], &drifting[drifting.len() - 1]);
            assert!(share(last) < share(first) / 2.5, "Q{number} stays with a fixed date");
            dates.truncate(loaded);
        }
    }

    fn r_squared(points: &[(f64, f64)]) -> f64 {
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
        let xy = sum(&|p| (p.0 - x) * (p.1 - y));
        xy * xy / (sum(&|p| (p.0 - x).powi(2)) * sum(&|p| (p.1 - y).powi(2)))
    }
}
