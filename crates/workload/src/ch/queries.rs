//! The 22 queries, in SQL that PostgreSQL and DataFusion both run.
//!
//! Against the published text: `%` for `mod`, a common table expression for query 15's view, and upper
//! ends of date ranges that lie in 2100 instead of 2012 or 2020, so that data loaded today is inside, as it
//! was in 2011. Tables stand in FROM in an order in which each has a key in common with those before, small
//! ones first: PostgreSQL orders joins by itself, DataFusion takes them as they are written. Where a query names warehouses itself (19), a given scope takes the place of its lists.
//! Query 22 finds nothing until customers without an order exist; that is so in the original.

/// Which warehouses a query reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope<'a> {
    /// All, as published.
    All,
    /// Only these: a predicate on the warehouse column of every occurrence of a TPC-C table but `item`, so
    /// that all other partitions can be left out.
    Warehouses(&'a [i32]),
}

/// Numbers of the queries.
pub const QUERIES: std::ops::RangeInclusive<usize> = 1..=22;

/// Query `number` (1 to 22) over a scope; panics on another number and on an empty scope.
pub fn query(number: usize, scope: Scope<'_>) -> String {
    assert!(QUERIES.contains(&number), "CH-benCHmark has queries 1 to 22, not {number}");
    let mut out = String::new();
    let mut rest = TEXTS[number - 1];
    // `{w}` stands for "and w is in scope"; `{?text}` stays only when there is no scope.
    while let Some(start) = rest.find('{') {
        let end = start + rest[start..].find('}').expect("braces are paired");
        out.push_str(&rest[..start]);
        let inside = &rest[start + 1..end];
        match (inside.strip_prefix('?'), scope) {
            (Some(text), Scope::All) => out.push_str(text),
            (Some(_), Scope::Warehouses(_)) | (None, Scope::All) => {}
            (None, Scope::Warehouses(warehouses)) => out.push_str(&predicate(inside, warehouses)),
        }
        rest = &rest[end + 1..];
    }
    out + rest
}

/// The tables of TPC-C that query `number` (1 to 22) reads, each once.
pub fn tables(number: usize) -> Vec<&'static str> {
    let mut words =
        TEXTS[number - 1].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect::<Vec<_>>();
    words.sort_unstable();
    words.dedup();
    let names = crate::tpcc::Table::ALL.map(|table| table.spec().name);
    names.into_iter().filter(|name| words.contains(name)).collect()
}

fn predicate(column: &str, warehouses: &[i32]) -> String {
    match warehouses {
        [] => panic!("a scope names at least one warehouse"),
        [one] => format!(" and {column} = {one}"),
        many => {
            let list: Vec<String> = many.iter().map(i32::to_string).collect();
            format!(" and {column} in ({})", list.join(", "))
        }
    }
}

const TEXTS: [&str; 22] = [
    // 1
    "select ol_number, sum(ol_quantity) as sum_qty, sum(ol_amount) as sum_amount,
    avg(ol_quantity) as avg_qty, avg(ol_amount) as avg_amount, count(*) as count_order
from order_line
where ol_delivery_d > timestamp '2007-01-02 00:00:00'{ol_w_id}
group by ol_number
order by ol_number",
    // 2
    "select su_suppkey, su_name, n_name, i_id, i_name, su_address, su_phone, su_comment
from region, nation, supplier, stock, item,
    (select s_i_id as m_i_id, min(s_quantity) as m_s_quantity
    from region, nation, supplier, stock
    where (s_w_id * s_i_id) % 10000 = su_suppkey and su_nationkey = n_nationkey
        and n_regionkey = r_regionkey and r_name like 'Europ%'{s_w_id}
    group by s_i_id) m
where i_id = s_i_id and (s_w_id * s_i_id) % 10000 = su_suppkey and su_nationkey = n_nationkey
    and n_regionkey = r_regionkey and i_data like '%b' and r_name like 'Europ%'
    and i_id = m_i_id and s_quantity = m_s_quantity{s_w_id}
order by n_name, su_name, i_id",
    // 3
    "select ol_o_id, ol_w_id, ol_d_id, sum(ol_amount) as revenue, o_entry_d
from customer, orders, new_order, order_line
where c_state like 'A%' and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
    and no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and o_entry_d > timestamp '2007-01-02 00:00:00'{c_w_id}{no_w_id}{o_w_id}{ol_w_id}
group by ol_o_id, ol_w_id, ol_d_id, o_entry_d
order by revenue desc, o_entry_d",
    // 4
    "select o_ol_cnt, count(*) as order_count
from orders
where o_entry_d >= timestamp '2007-01-02 00:00:00' and o_entry_d < timestamp '2100-01-02 00:00:00'
    and exists (select 1 from order_line
        where o_id = ol_o_id and o_w_id = ol_w_id and o_d_id = ol_d_id
            and ol_delivery_d >= o_entry_d{ol_w_id}){o_w_id}
group by o_ol_cnt
order by o_ol_cnt",
    // 5
    "select n_name, sum(ol_amount) as revenue
from region, nation, supplier, stock, order_line, orders, customer
where c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
    and ol_o_id = o_id and ol_w_id = o_w_id and ol_d_id = o_d_id
    and ol_w_id = s_w_id and ol_i_id = s_i_id and (s_w_id * s_i_id) % 10000 = su_suppkey
    and ascii(substr(c_state, 1, 1)) = su_nationkey and su_nationkey = n_nationkey
    and n_regionkey = r_regionkey and r_name = 'Europe'
    and o_entry_d >= timestamp '2007-01-02 00:00:00'{c_w_id}{o_w_id}{ol_w_id}{s_w_id}
group by n_name
order by revenue desc",
    // 6
    "select sum(ol_amount) as revenue
from order_line
where ol_delivery_d >= timestamp '1999-01-01 00:00:00' and ol_delivery_d < timestamp '2100-01-01 00:00:00'
    and ol_quantity between 1 and 100000{ol_w_id}",
    // 7
    "select su_nationkey as supp_nation, substr(c_state, 1, 1) as cust_nation,
    extract(year from o_entry_d) as l_year, sum(ol_amount) as revenue
from nation n1, supplier, stock, order_line, orders, customer, nation n2
where ol_supply_w_id = s_w_id and ol_i_id = s_i_id and (s_w_id * s_i_id) % 10000 = su_suppkey
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
    and su_nationkey = n1.n_nationkey and ascii(substr(c_state, 1, 1)) = n2.n_nationkey
    and ((n1.n_name = 'Germany' and n2.n_name = 'Cambodia')
        or (n1.n_name = 'Cambodia' and n2.n_name = 'Germany'))
    and ol_delivery_d between timestamp '2007-01-02 00:00:00' and timestamp '2100-01-02 00:00:00'{s_w_id}{ol_w_id}{o_w_id}{c_w_id}
group by su_nationkey, substr(c_state, 1, 1), extract(year from o_entry_d)
order by supp_nation, cust_nation, l_year",
    // 8
    "select extract(year from o_entry_d) as l_year,
    sum(case when n2.n_name = 'Germany' then ol_amount else 0 end) / sum(ol_amount) as mkt_share
from item, stock, supplier, nation n2, order_line, orders, customer, nation n1, region
where i_id = s_i_id and ol_i_id = s_i_id and ol_supply_w_id = s_w_id
    and (s_w_id * s_i_id) % 10000 = su_suppkey
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
    and n1.n_nationkey = ascii(substr(c_state, 1, 1)) and n1.n_regionkey = r_regionkey
    and ol_i_id < 1000 and r_name = 'Europe' and su_nationkey = n2.n_nationkey
    and o_entry_d between timestamp '2007-01-02 00:00:00' and timestamp '2100-01-02 00:00:00'
    and i_data like '%b'{s_w_id}{ol_w_id}{o_w_id}{c_w_id}
group by extract(year from o_entry_d)
order by l_year",
    // 9
    "select n_name, extract(year from o_entry_d) as l_year, sum(ol_amount) as sum_profit
from item, stock, supplier, nation, order_line, orders
where ol_i_id = s_i_id and ol_supply_w_id = s_w_id and (s_w_id * s_i_id) % 10000 = su_suppkey
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and ol_i_id = i_id
    and su_nationkey = n_nationkey and i_data like '%BB'{s_w_id}{ol_w_id}{o_w_id}
group by n_name, extract(year from o_entry_d)
order by n_name, l_year desc",
    // 10
    "select c_id, c_last, sum(ol_amount) as revenue, c_city, c_phone, n_name
from nation, customer, orders, order_line
where c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and o_entry_d >= timestamp '2007-01-02 00:00:00' and o_entry_d <= ol_delivery_d
    and n_nationkey = ascii(substr(c_state, 1, 1)){c_w_id}{o_w_id}{ol_w_id}
group by c_id, c_last, c_city, c_phone, n_name
order by revenue desc",
    // 11
    "select s_i_id, sum(s_order_cnt) as ordercount
from nation, supplier, stock
where (s_w_id * s_i_id) % 10000 = su_suppkey and su_nationkey = n_nationkey and n_name = 'Germany'{s_w_id}
group by s_i_id
having sum(s_order_cnt) > (select sum(s_order_cnt) * 0.005
    from nation, supplier, stock
    where (s_w_id * s_i_id) % 10000 = su_suppkey and su_nationkey = n_nationkey and n_name = 'Germany'{s_w_id})
order by ordercount desc",
    // 12
    "select o_ol_cnt,
    sum(case when o_carrier_id = 1 or o_carrier_id = 2 then 1 else 0 end) as high_line_count,
    sum(case when o_carrier_id <> 1 and o_carrier_id <> 2 then 1 else 0 end) as low_line_count
from orders, order_line
where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    and o_entry_d <= ol_delivery_d and ol_delivery_d < timestamp '2100-01-01 00:00:00'{o_w_id}{ol_w_id}
group by o_ol_cnt
order by o_ol_cnt",
    // 13
    "select c_count, count(*) as custdist
from (select c_id, count(o_id) as c_count
    from customer left outer join orders
        on (c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id and o_carrier_id > 8{o_w_id})
    where c_id > 0{c_w_id}
    group by c_id) as c_orders
group by c_count
order by custdist desc, c_count desc",
    // 14
    "select 100.00 * sum(case when i_data like 'PR%' then ol_amount else 0 end) / (1 + sum(ol_amount))
    as promo_revenue
from order_line, item
where ol_i_id = i_id and ol_delivery_d >= timestamp '2007-01-02 00:00:00'
    and ol_delivery_d < timestamp '2100-01-02 00:00:00'{ol_w_id}",
    // 15
    "with revenue as (
    select (s_w_id * s_i_id) % 10000 as supplier_no, sum(ol_amount) as total_revenue
    from order_line, stock
    where ol_i_id = s_i_id and ol_supply_w_id = s_w_id
        and ol_delivery_d >= timestamp '2007-01-02 00:00:00'{ol_w_id}{s_w_id}
    group by (s_w_id * s_i_id) % 10000)
select su_suppkey, su_name, su_address, su_phone, total_revenue
from supplier, revenue
where su_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
order by su_suppkey",
    // 16
    "select i_name, substr(i_data, 1, 3) as brand, i_price,
    count(distinct (s_w_id * s_i_id) % 10000) as supplier_cnt
from item, stock
where i_id = s_i_id and i_data not like 'zz%'
    and (s_w_id * s_i_id) % 10000 not in (select su_suppkey from supplier where su_comment like '%bad%'){s_w_id}
group by i_name, substr(i_data, 1, 3), i_price
order by supplier_cnt desc",
    // 17
    "select sum(ol_amount) / 2.0 as avg_yearly
from order_line,
    (select i_id, avg(ol_quantity) as a
    from item, order_line
    where i_data like '%b' and ol_i_id = i_id{ol_w_id}
    group by i_id) t
where ol_i_id = t.i_id and ol_quantity < t.a{ol_w_id}",
    // 18
    "select c_last, c_id, o_id, o_entry_d, o_ol_cnt, sum(ol_amount) as amount_sum
from customer, orders, order_line
where c_id = o_c_id and c_w_id = o_w_id and c_d_id = o_d_id
    and ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id{c_w_id}{o_w_id}{ol_w_id}
group by o_id, o_w_id, o_d_id, c_id, c_last, o_entry_d, o_ol_cnt
having sum(ol_amount) > 200
order by amount_sum desc, o_entry_d",
    // 19
    "select sum(ol_amount) as revenue
from order_line, item
where ol_i_id = i_id and ol_quantity >= 1 and ol_quantity <= 10 and i_price between 1 and 400000{ol_w_id}
    and ((i_data like '%a'{? and ol_w_id in (1, 2, 3)})
        or (i_data like '%b'{? and ol_w_id in (1, 2, 4)})
        or (i_data like '%c'{? and ol_w_id in (1, 5, 3)}))",
    // 20
    "select su_name, su_address
from nation, supplier
where su_suppkey in (select (s_i_id * s_w_id) % 10000
        from (select s_i_id, s_w_id, s_quantity from stock
            where s_i_id in (select i_id from item where i_data like 'co%'){s_w_id}) s, order_line
        where ol_i_id = s_i_id and ol_delivery_d > timestamp '2010-05-23 12:00:00'{ol_w_id}
        group by s_i_id, s_w_id, s_quantity
        having 2 * s_quantity > sum(ol_quantity))
    and su_nationkey = n_nationkey and n_name = 'Germany'
order by su_name",
    // 21
    "select su_name, count(*) as numwait
from nation, supplier, stock, order_line l1, orders
where l1.ol_o_id = o_id and l1.ol_w_id = o_w_id and l1.ol_d_id = o_d_id
    and l1.ol_w_id = s_w_id and l1.ol_i_id = s_i_id and (s_w_id * s_i_id) % 10000 = su_suppkey
    and l1.ol_delivery_d > o_entry_d
    and not exists (select 1 from order_line l2
        where l2.ol_o_id = l1.ol_o_id and l2.ol_w_id = l1.ol_w_id and l2.ol_d_id = l1.ol_d_id
            and l2.ol_delivery_d > l1.ol_delivery_d{l2.ol_w_id})
    and su_nationkey = n_nationkey and n_name = 'Germany'{l1.ol_w_id}{o_w_id}{s_w_id}
group by su_name
order by numwait desc, su_name",
    // 22
    "select substr(c_state, 1, 1) as country, count(*) as numcust, sum(c_balance) as totacctbal
from customer
where substr(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7')
    and c_balance > (select avg(c_balance) from customer
        where c_balance > 0.00 and substr(c_phone, 1, 1) in ('1', '2', '3', '4', '5', '6', '7'){c_w_id})
    and not exists (select 1 from orders
        where o_c_id = c_id and o_w_id = c_w_id and o_d_id = c_d_id{o_w_id}){c_w_id}
group by substr(c_state, 1, 1)
order by country",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_reaches_every_occurrence_of_every_sharded_table() {
        for number in QUERIES {
            let (all, scoped) = (query(number, Scope::All), query(number, Scope::Warehouses(&[777, 778])));
            assert!(!all.contains(['{', '}', '?']) && !scoped.contains(['{', '}', '?']), "Q{number}");
            // Words that follow FROM, JOIN or a comma in a FROM list name tables.
            let words: Vec<&str> =
                scoped.split_whitespace().map(|w| w.trim_matches([',', '(', ')'])).collect();
            let occurrences = words
                .iter()
                .filter(|w| ["order_line", "orders", "new_order", "stock", "customer"].contains(w))
                .count();
            assert_eq!(scoped.matches("w_id in (777, 778)").count(), occurrences, "Q{number}: {scoped}");
            assert_eq!(all.matches("777").count(), 0);
        }
    }

    #[test]
    fn a_query_names_its_tables() {
        assert_eq!(tables(1), ["order_line"]);
        assert_eq!(tables(3), ["customer", "orders", "new_order", "order_line"]);
        assert!({ QUERIES }.all(|number| !tables(number).is_empty()));
    }

    #[test]
    fn one_warehouse_is_an_equality() {
        assert!(query(6, Scope::Warehouses(&[3])).ends_with("between 1 and 100000 and ol_w_id = 3"));
        assert!(query(19, Scope::All).contains("ol_w_id in (1, 5, 3)"));
        assert!(!query(19, Scope::Warehouses(&[3])).contains("in (1"));
    }
}
