//! Two tables, and values of every type to fill them with.

use base::composite::{Attribute, Composite, CompositeType};
use base::decimal::Decimal;
use base::element::Element;
use base::enumeration::{EnumType, Enumeration};
use base::inet::Inet;
use base::interval::Interval;
use base::rng::Rng;
use base::schema::*;
use base::timetz::TimeTz;
use base::*;
use std::sync::Arc;

pub fn column(name: &str, data_type: DataType, not_null: bool) -> Column {
    let name = name.into();
    Column {
        name,
        data_type,
        not_null,
        default: None,
        missing: Datum::Null,
        identity: Identity::No,
        hidden: false,
    }
}

pub fn table(id: u32, columns: Vec<Column>, primary_key: Vec<usize>) -> Table {
    Table {
        id: TableId(id),
        schema: "public".into(),
        name: format!("table{id}"),
        version: 0,
        columns,
        primary_key,
        primary_key_name: format!("table{id}_pkey"),
        indexes: vec![],
        checks: Default::default(),
        foreign: Default::default(),
        triggers: Default::default(),
        domains: Default::default(),
        partitioning: None,
        placement: Placement::Replicated,
    }
}

/// A table of every type whose key is two integers, and one whose key is a text.
pub fn tables() -> [Table; 2] {
    let numeric = |precision, scale| DataType::Numeric { precision, scale };
    let wide = vec![
        column("a", DataType::SmallInt, true),
        column("b", DataType::BigInt, true),
        column("integer", DataType::Integer, false),
        column("narrow", numeric(12, 2), false),
        column("wide", numeric(38, 10), false),
        column("fraction", numeric(2, 5), false),
        column("real", DataType::Real, false),
        column("double", DataType::Double, false),
        column("text", DataType::Text, false),
        column("varchar", DataType::Varchar { length: 9 }, false),
        column("char", DataType::Char { length: 3 }, false),
        column("boolean", DataType::Boolean, false),
        column("date", DataType::Date, false),
        column("timestamp", DataType::Timestamp, false),
        column("timestamptz", DataType::TimestampTz, false),
        column("uuid", DataType::Uuid, false),
        column("bytea", DataType::Bytea, false),
        column("tsvector", DataType::TsVector, false),
        column("tsquery", DataType::TsQuery, false),
        column("time", DataType::Time, false),
        column("interval", DataType::Interval, false),
        column("json", DataType::Json, false),
        column("jsonb", DataType::Jsonb, false),
        column("inet", DataType::Inet, false),
        column("cidr", DataType::Cidr, false),
        column("macaddr", DataType::MacAddr, false),
        column("macaddr8", DataType::MacAddr8, false),
        column("timetz", DataType::TimeTz, false),
        column("array", DataType::Array(Element::of(DataType::Text).expect("no array")), false),
    ];
    let mood = Enumeration::new(
        TableId(90),
        "public".into(),
        "mood".into(),
        ["sad", "ok", "happy"].map(String::from).to_vec(),
    );
    let mood = EnumType::of(mood.expect("three names"));
    let attribute = |name: &str, data_type| Attribute { name: name.into(), data_type };
    let attributes = vec![attribute("n", DataType::Integer), attribute("t", DataType::Text)];
    let pair = Composite::new(TableId(91), "public".into(), "pair".into(), attributes);
    let pair = DataType::Composite(CompositeType::of(pair.expect("two names")));
    let wide = [wide, vec![column("enum", DataType::Enum(mood), false), column("row", pair, false)]].concat();
    let slim = vec![column("k", DataType::Text, true), column("v", DataType::Integer, false)];
    [table(1, wide, vec![0, 1]), table(2, slim, vec![0])]
}

fn inet(text: &str) -> Inet {
    Inet::parse(text).expect("an address")
}

/// A value of the type: now and then null, now and then extreme, else from a small set.
pub fn value(rng: &mut Rng, data_type: DataType) -> Datum {
    let extreme = rng.chance(0.1);
    let small = rng.between(-3, 30);
    match data_type {
        DataType::SmallInt if extreme => Datum::Int(*rng.pick(&[i16::MIN, i16::MAX]) as i64),
        DataType::Integer if extreme => Datum::Int(*rng.pick(&[i32::MIN, i32::MAX]) as i64),
        DataType::BigInt if extreme => Datum::Int(*rng.pick(&[i64::MIN, i64::MAX])),
        DataType::SmallInt | DataType::Integer | DataType::BigInt => Datum::Int(small),
        DataType::Numeric { precision, scale } => {
            let largest = 10i128.pow(precision.into()) - 1;
            let units = if extreme { *rng.pick(&[-largest, largest]) } else { small.into() };
            Datum::Decimal(Decimal::new(units, scale))
        }
        DataType::Real if extreme => {
            Datum::Float(*rng.pick(&[f32::MIN, f32::MAX, f32::NAN, f32::INFINITY, -0.0]) as f64)
        }
        DataType::Double if extreme => {
            Datum::Float(*rng.pick(&[f64::MIN, f64::MAX, f64::NAN, f64::NEG_INFINITY, -0.0]))
        }
        DataType::Real | DataType::Double => Datum::Float(small as f64 / 4.0),
        DataType::Text if extreme => Datum::text("long ".repeat(40) + &small.to_string()),
        DataType::Text => Datum::text(format!("täxt {small}")),
        DataType::Varchar { .. } => Datum::text(if extreme { String::new() } else { small.to_string() }),
        DataType::Char { .. } => Datum::text(if extreme { "" } else { "ab" }),
        DataType::Boolean => Datum::Bool(extreme),
        DataType::Date if extreme => Datum::Date(*rng.pick(&[i32::MIN, i32::MAX - 10_957])),
        DataType::Date => Datum::Date(small as i32),
        DataType::Timestamp | DataType::TimestampTz if extreme => {
            Datum::Timestamp(*rng.pick(&[i64::MIN, i64::MAX - 946_684_800_000_000]))
        }
        DataType::Timestamp | DataType::TimestampTz => Datum::Timestamp(small * 1_000_003),
        DataType::Uuid => Datum::Uuid(if extreme { [0xFF; 16] } else { [small as u8; 16] }),
        DataType::Bytea => Datum::Bytes(Arc::from(&vec![0xFF; small.unsigned_abs() as usize][..])),
        DataType::Time => Datum::Time(if extreme { 86_400_000_000 } else { small.abs() * 1_000_003 }),
        DataType::Interval if extreme => {
            // Columns keep the time in ns.
            let us = i64::MAX / 1_000;
            let largest = Interval { months: i32::MAX, days: i32::MAX, us };
            let smallest = Interval { months: i32::MIN, days: i32::MIN, us: -us };
            Datum::Interval(*rng.pick(&[largest, smallest]))
        }
        DataType::Interval => Datum::Interval(Interval { months: small as i32, days: -1, us: small }),
        DataType::Cidr if extreme => Datum::Inet(inet("ff::/64")),
        DataType::Cidr => Datum::Inet(inet(&format!("10.0.{}.0/24", small.unsigned_abs()))),
        DataType::MacAddr | DataType::MacAddr8 => {
            let octets = if data_type == DataType::MacAddr { 6 } else { 8 };
            let filler = if extreme { u8::MAX } else { small as u8 };
            Datum::Inet(Inet::of_hardware(&vec![filler; octets]).expect("six octets or eight"))
        }
        DataType::TimeTz => Datum::TimeTz(match extreme {
            true => TimeTz::new(*rng.pick(&[0, 86_400_000_000]), *rng.pick(&[-57_599, 57_599])),
            false => TimeTz::new(small.abs() * 1_000_003, 3_600),
        }),
        DataType::Inet if extreme => Datum::Inet(inet("ff::1/64")),
        DataType::Inet => Datum::Inet(inet(&format!("10.0.0.{}", small.unsigned_abs()))),
        DataType::Json => Datum::text(format!("[{small},  {small}]")),
        DataType::Jsonb => Datum::Json(format!("{{\"a\": {small}}}").into()),
        DataType::TsVector => Datum::text(format!("'täxt':{}", 1 + small.unsigned_abs())),
        DataType::TsQuery => Datum::text(format!("'täxt' & 'a{}'", small.unsigned_abs())),
        DataType::Array(_) if extreme => Datum::Array(Arc::from([])),
        DataType::Array(_) => Datum::Array(Arc::from([Datum::text(small.to_string()), Datum::Null])),
        DataType::Composite(of) => {
            Datum::Array(of.attributes().iter().map(|a| value(rng, a.data_type)).collect())
        }
        DataType::Enum(of) => {
            let labels = &of.description().labels;
            Datum::Int(labels[small.unsigned_abs() as usize % labels.len()].code)
        }
    }
}

/// A catalog with both tables.
pub fn both_tables() -> Arc<Catalog> {
    let mut catalog = Catalog::default();
    let actions = tables().into_iter().map(SchemaAction::CreateTable).collect();
    catalog
        .apply(&SchemaChange { database: Default::default(), base_version: 0, actions })
        .expect("empty so far");
    Arc::new(catalog)
}
