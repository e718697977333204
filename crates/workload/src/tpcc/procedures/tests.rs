//! The five procedures, run one after another on a model in two regions of two partitions.

use super::super::tables::{customer, district, history, order_line, orders, warehouse};
use super::super::{Inputs, Kind, Mix, Tpcc};
use super::*;
use crate::model::Model;
use crate::table::Placement;
use crate::{ch, procedures};
use base::decimal::Decimal;
use base::wan::Wan;
use std::collections::BTreeMap;

fn loaded(tpcc: &Tpcc, placement: &Placement) -> Model {
    let wan = Wan::uniform("two", &["us", "eu"], 1, 100);
    let topology = Topology::one_node_per_region(wan, 2);
    let mut model = Model::new(tpcc.catalog(placement, &topology), topology);
    for table in Known::ALL {
        let id = model.catalog.require(table.spec().name).unwrap().id;
        let warehouses = if table == Known::Item { 1 } else { tpcc.warehouses };
        for warehouse in 1..=warehouses {
            tpcc.rows(table, warehouse).for_each(|row| model.insert(id, &row));
        }
    }
    model
}

fn regions() -> Placement {
    Placement::RoundRobin(vec!["us".into(), "eu".into()])
}

fn small() -> Tpcc {
    Tpcc::new(4).shrunk(100).seed(3)
}

fn call(model: &mut Model, name: &str, args: &[Datum]) -> SqlResult<Vec<Row>> {
    model.call(&**procedures().get(name).unwrap(), args)
}

/// Runs the mix and returns how often each kind committed.
fn run(model: &mut Model, tpcc: &Tpcc, mix: Mix, count: usize) -> BTreeMap<&'static str, usize> {
    let mut done = BTreeMap::new();
    let mut terminals: Vec<Inputs> =
        (0..8).map(|n| Inputs::new(tpcc, mix.clone(), n, 8, 1_000_000)).collect();
    for n in 0..count {
        let input = terminals[n % 8].next_input();
        let (name, args) = input.call(n as i64);
        let rolled_back = matches!(&input, super::super::Input::NewOrder(order) if order.rollback);
        match call(model, name, &args) {
            Ok(rows) => {
                assert!(!rolled_back, "an unknown item was sold");
                assert_eq!(rows.len(), 1, "{name}");
                let columns = procedures().get(name).unwrap().columns();
                for (value, (column, data_type)) in rows[0].values().zip(&columns) {
                    assert_eq!(data_type.coerce(value.clone()).as_ref(), Ok(&value), "{name}.{column}");
                }
                *done.entry(name).or_default() += 1;
            }
            Err(error) => assert!(rolled_back && error.state == NO_DATA_FOUND, "{name}: {error}"),
        }
    }
    done
}

type Ids = (i64, i64, i64);

fn sums(rows: &[Vec<Datum>], by: [usize; 3], value: impl Fn(&[Datum]) -> Decimal) -> BTreeMap<Ids, Decimal> {
    let mut sums = BTreeMap::new();
    for row in rows {
        let sum = sums.entry((row[by[0]].int(), row[by[1]].int(), row[by[2]].int())).or_insert(Decimal::ZERO);
        *sum = sum.checked_add(value(row)).unwrap();
    }
    sums
}

/// Conditions 1 to 10 and 12 of clause 3.3.2, on the model's rows.
fn check(model: &Model) {
    let rows = |table: &str| model.rows(table);
    let (w, d, c, h) = (rows("warehouse"), rows("district"), rows("customer"), rows("history"));
    let (o, no, ol) = (rows("orders"), rows("new_order"), rows("order_line"));
    use {customer::*, district::*, history::*, order_line::*, orders::*, warehouse::*};
    let one = |_: &[Datum]| Decimal::new(1, 0);
    let paid_w = sums(&h, [H_W_ID, H_W_ID, H_W_ID], |row| row[H_AMOUNT].decimal());
    let paid_d = sums(&h, [H_W_ID, H_W_ID, H_D_ID], |row| row[H_AMOUNT].decimal());
    let districts = sums(&d, [D_W_ID, D_W_ID, D_W_ID], |row| row[D_YTD].decimal());
    for row in &w {
        let id = row[W_ID].int();
        assert_eq!(row[W_YTD].decimal(), districts[&(id, id, id)], "condition 1");
        assert_eq!(row[W_YTD].decimal(), paid_w[&(id, id, id)], "condition 8");
    }
    let orders_of = |rows: &[Vec<Datum>], d: &[Datum]| -> Vec<i64> {
        rows.iter().filter(|row| row[..2] == d[..2]).map(|row| row[2].int()).collect()
    };
    let lines_d = sums(&ol, [OL_W_ID, OL_W_ID, OL_D_ID], one);
    let announced = sums(&o, [O_W_ID, O_W_ID, O_D_ID], |row| row[O_OL_CNT].decimal());
    assert_eq!(lines_d, announced, "condition 4");
    for row in &d {
        let (id, new) = (orders_of(&o, row), orders_of(&no, row));
        assert_eq!(row[D_NEXT_O_ID].int() - 1, *id.last().unwrap(), "condition 2");
        if let (Some(first), Some(last)) = (new.first(), new.last()) {
            assert_eq!(last, id.last().unwrap(), "condition 2");
            assert_eq!((last - first + 1) as usize, new.len(), "condition 3");
        }
        let place = (row[D_W_ID].int(), row[D_W_ID].int(), row[D_ID].int());
        assert_eq!(row[D_YTD].decimal(), paid_d[&place], "condition 9");
    }
    let lines = sums(&ol, [OL_W_ID, OL_D_ID, OL_O_ID], one);
    let new = sums(&no, [0, 1, 2], one);
    for row in &o {
        let id = (row[O_W_ID].int(), row[O_D_ID].int(), row[O_ID].int());
        assert_eq!(row[O_CARRIER_ID].is_null(), new.contains_key(&id), "condition 5");
        assert_eq!(row[O_OL_CNT].decimal(), lines[&id], "condition 6");
    }
    let mut delivered = BTreeMap::new();
    let amounts = sums(&ol, [OL_W_ID, OL_D_ID, OL_O_ID], |row| row[OL_AMOUNT].decimal());
    for row in &o {
        let id = (row[O_W_ID].int(), row[O_D_ID].int(), row[O_ID].int());
        if !row[O_CARRIER_ID].is_null() {
            let sum = delivered.entry((id.0, id.1, row[O_C_ID].int())).or_insert(Decimal::ZERO);
            *sum = sum.checked_add(amounts[&id]).unwrap();
        }
    }
    let carriers: BTreeMap<Ids, bool> = o
        .iter()
        .map(|row| ((row[0].int(), row[1].int(), row[2].int()), row[O_CARRIER_ID].is_null()))
        .collect();
    for row in &ol {
        let id = (row[OL_W_ID].int(), row[OL_D_ID].int(), row[OL_O_ID].int());
        assert_eq!(row[OL_DELIVERY_D].is_null(), carriers[&id], "condition 7");
    }
    let paid = sums(&h, [H_C_W_ID, H_C_D_ID, H_C_ID], |row| row[H_AMOUNT].decimal());
    for row in &c {
        let id = (row[C_W_ID].int(), row[C_D_ID].int(), row[C_ID].int());
        let delivered = delivered.get(&id).copied().unwrap_or(Decimal::ZERO);
        let balance = row[C_BALANCE].decimal();
        assert_eq!(balance, delivered.checked_sub(paid[&id]).unwrap(), "condition 10");
        let turnover = balance.checked_add(row[C_YTD_PAYMENT].decimal()).unwrap();
        assert_eq!(turnover, delivered, "condition 12");
    }
}

#[test]
fn the_mix_keeps_every_consistency_condition_and_touches_only_what_it_declared() {
    let tpcc = small();
    let mut model = loaded(&tpcc, &regions());
    check(&model);
    let orders = model.rows("orders").len();
    // Plenty of work that crosses warehouses, partitions and regions.
    let mix = Mix { remote_line: 0.3, remote_payment: 0.5, weights: [40, 40, 6, 8, 6], ..Mix::default() };
    let done = run(&mut model, &tpcc, mix, 1500);
    check(&model);
    assert!(Kind::ALL.iter().all(|kind| done[kind.name()] > 50), "{done:?}");
    assert_eq!(model.rows("orders").len(), orders + done["new_order"]);
    let bad = model.rows("customer").into_iter().filter(|row| row[customer::C_CREDIT] == "BC".into());
    assert!(bad.into_iter().any(|row| row[customer::C_DATA].str().contains('|')), "bad credit is noted");
}

#[test]
fn where_rows_live_does_not_change_what_they_say() {
    let tpcc = small();
    let mut models = [regions(), Placement::Plain, Placement::Hash].map(|p| loaded(&tpcc, &p));
    let mix = Mix { remote_line: 0.3, remote_payment: 0.5, ..Mix::default() };
    models.iter_mut().for_each(|model| _ = run(model, &tpcc, mix.clone(), 300));
    for table in Known::ALL {
        let [first, rest @ ..] = models.each_ref().map(|model| model.rows(table.spec().name));
        rest.iter().for_each(|other| assert_eq!(first, *other, "{table:?}"));
    }
}

#[test]
fn an_aborted_order_leaves_nothing_behind() {
    let tpcc = small();
    let mut model = loaded(&tpcc, &regions());
    let before: Vec<_> = Known::ALL.iter().map(|table| model.rows(table.spec().name)).collect();
    let unknown = format!("1:1:5,{}:2:1", tpcc.items + 1);
    let (one, now) = (Datum::Int(1), Datum::Timestamp(0));
    let order =
        |lines: &str, c: i64| vec![one.clone(), one.clone(), Datum::Int(c), lines.into(), now.clone()];
    for (args, state) in [
        (order(&unknown, 1), "P0002"),
        (order("1:1:5,1:99:1", 1), "P0002"),
        (order("1:1:5", 9_999), "P0002"),
        (order("1:1:0", 1), "22023"),
        (order("1:1", 1), "22023"),
        (vec![one.clone(), Datum::Int(11), one.clone(), "1:1:1".into(), now.clone()], "P0002"),
        (vec![Datum::Null, one.clone(), one.clone(), "1:1:1".into(), now.clone()], "22023"),
    ] {
        let error = call(&mut model, "new_order", &args).unwrap_err();
        assert_eq!(error.state.as_str(), state, "{error}");
    }
    let after: Vec<_> = Known::ALL.iter().map(|table| model.rows(table.spec().name)).collect();
    assert!(before == after);
}

#[test]
fn payments_are_refused_for_strangers_wrong_amounts_and_used_history_keys() {
    let mut model = loaded(&small(), &regions());
    let pay = |c: Datum, name: Datum, cents: i128, history: i64| {
        let amount = Datum::from(Decimal::new(cents, 2));
        let place = [1, 1, 2, 1].map(Datum::Int);
        let rest = [c, name, amount, Datum::Int(history), Datum::Timestamp(0)];
        place.into_iter().chain(rest).collect::<Vec<_>>()
    };
    let one = || Datum::Int(1);
    for (args, state) in [
        (pay(Datum::Null, "NOBODY".into(), 100, 90_000), "P0002"),
        (pay(Datum::Null, Datum::Null, 100, 90_000), "22023"),
        (pay(one(), Datum::Null, -100, 90_000), "22023"),
        (pay(one(), Datum::Null, 100, 1), "23505"),
    ] {
        let error = call(&mut model, "payment", &args).unwrap_err();
        assert_eq!(error.state.as_str(), state, "{error}");
    }
    let row = call(&mut model, "payment", &pay(one(), Datum::Null, 150, 90_000)).unwrap().remove(0);
    assert_eq!(row.to_vec(), [one(), Decimal::new(-1150, 2).into()]);
    check(&model);
}

#[test]
fn a_last_name_means_the_middle_customer() {
    let tpcc = Tpcc::new(1).shrunk(300);
    let mut model = loaded(&tpcc, &regions());
    let table = model.catalog.require("customer").unwrap().id;
    // Three more of a name that one has: with four, the second by first name counts.
    let like = tpcc.rows(Known::Customer, 1).next().unwrap();
    for (n, first) in [(501, "!a"), (502, "~b"), (503, "~c")] {
        let mut row = like.clone();
        row[customer::C_ID] = Datum::Int(n);
        row[customer::C_FIRST] = first.into();
        model.insert(table, &row);
    }
    let args = [Datum::Int(1), Datum::Int(1), Datum::Null, like[customer::C_LAST].clone()];
    let row = call(&mut model, "order_status", &args).unwrap().remove(0);
    assert_eq!(row.get(0), like[customer::C_ID]);
}

#[test]
fn tables_of_another_shape_or_place_are_refused() {
    let tpcc = small();
    let model = loaded(&tpcc, &regions());
    let order = [Datum::Int(1), Datum::Int(1), Datum::Int(1), "1:1:1".into(), Datum::Timestamp(0)];
    let declare = |change: &dyn Fn(&mut base::schema::Table)| {
        let mut catalog = model.catalog.clone();
        let district = catalog.require("district").unwrap().id;
        let mut table = (**catalog.table(district).unwrap()).clone();
        change(&mut table);
        catalog.tables.insert(district, Arc::new(table));
        procedures().get("new_order").unwrap().declare(&order, &catalog, &model.topology)
    };
    assert!(declare(&|_| ()).is_ok());
    let other_type = declare(&|table| table.columns[2].data_type = DataType::Text).unwrap_err();
    assert_eq!(other_type.state, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    let elsewhere = base::schema::Placement::Home(base::RegionId(1));
    let apart = declare(&|table| table.placement = elsewhere.clone()).unwrap_err();
    assert_eq!(apart.state, SqlState::FEATURE_NOT_SUPPORTED);
    let missing =
        procedures().get("new_order").unwrap().declare(&order, &Catalog::default(), &model.topology);
    assert_eq!(missing.unwrap_err().state, SqlState::UNDEFINED_TABLE);
    assert!(model.catalog.require(ch::Table::Supplier.spec().name).is_ok());
}
