//! Every type, in text and in binary: from a batch as from a value, and as PostgreSQL writes it.

use super::*;
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, OffsetBuffer};
use arrow_schema::Field;
use base::{DataType, Datum};
use bytes::BytesMut;
use sql::types::{Column, INTERVAL_OID, NUMERIC, TIME_OID, array_oid, type_oid};
use std::sync::Arc;

/// An array with the column that it is shown as.
fn column(data_type: DataType, array: impl Array + 'static) -> (Column, ArrayRef) {
    (Column::new("c", data_type), Arc::new(array))
}

fn with_oid(type_oid: u32, data_type: DataType, array: impl Array + 'static) -> (Column, ArrayRef) {
    (Column { type_oid, ..Column::new("c", data_type) }, Arc::new(array))
}

fn us(text: &str) -> i64 {
    match base::text::parse(text, DataType::Timestamp).unwrap() {
        Datum::Timestamp(us) => us,
        _ => unreachable!(),
    }
}

/// Columns of every kind that a batch may have, with what is odd about each.
fn columns() -> Vec<(Column, ArrayRef)> {
    let mut all = scalars();
    all.extend(texts());
    all.extend(times_and_intervals());
    all.extend(lists());
    all
}

fn scalars() -> Vec<(Column, ArrayRef)> {
    let floats = [0.0, -0.0, 1.0, -1.5, 0.1, 1e15, 123456789012345.0, 1e-5, 0.0001, f64::MIN, f64::EPSILON];
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324];
    let doubles: Vec<Option<f64>> = floats.into_iter().chain(odd).map(Some).chain([None]).collect();
    let reals: Vec<Option<f32>> = doubles.iter().map(|f| f.map(|f| f as f32)).collect();
    let decimals = |scale: i8, units: &[i128]| {
        let units: Vec<Option<i128>> = units.iter().copied().map(Some).chain([None]).collect();
        let precision = 38;
        let array = Decimal128Array::from(units).with_precision_and_scale(precision, scale).unwrap();
        column(DataType::Numeric { precision, scale: scale as u8 }, array)
    };
    let ten = |n: u32| 10i128.pow(n);
    let units =
        [0, 1, -1, 5, 10, 9_999, 10_000, 12_345_678, -10_001, 123_456_789_012_345_678_901_234_567_890];
    let wide = [ten(38) - 1, 1 - ten(38), ten(37), i128::from(u64::MAX), i128::from(u64::MAX) * 10_000 + 1];
    let mut all: Vec<_> = [0, 1, 2, 3, 4, 5, 10, 37, 38]
        .into_iter()
        .map(|scale| decimals(scale, &[&units[..], &wide[..]].concat()))
        .collect();
    all.extend([
        column(DataType::Boolean, BooleanArray::from(vec![Some(true), Some(false), None])),
        column(DataType::SmallInt, Int8Array::from(vec![Some(i8::MIN), Some(i8::MAX), None])),
        column(DataType::SmallInt, Int16Array::from(vec![Some(i16::MIN), Some(i16::MAX), None])),
        column(DataType::Integer, Int32Array::from(vec![Some(i32::MIN), Some(i32::MAX), None, Some(0)])),
        column(DataType::BigInt, Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), None, Some(-7)])),
        column(DataType::SmallInt, UInt8Array::from(vec![Some(u8::MAX), None])),
        column(DataType::Integer, UInt16Array::from(vec![Some(u16::MAX), None])),
        column(DataType::BigInt, UInt32Array::from(vec![Some(u32::MAX), None])),
        column(DataType::BigInt, UInt64Array::from(vec![Some(3), None])),
        with_oid(26, DataType::BigInt, Int64Array::from(vec![Some(16_384), None])),
        column(DataType::Real, Float32Array::from(reals)),
        column(DataType::Double, Float64Array::from(doubles)),
        column(DataType::Text, NullArray::new(3)),
    ]);
    all
}

fn texts() -> Vec<(Column, ArrayRef)> {
    let words = vec![Some(""), Some("plain"), Some("é\n\t\\\"x"), None, Some("ab ")];
    let ids = vec![Some("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), None, Some("no uuid at all")];
    let bytes = vec![Some(&b""[..]), Some(b"\x00\xff"), None, Some(&[7; 100])];
    let id: Vec<Option<[u8; 16]>> = vec![Some([0xa5; 16]), None];
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(id.into_iter(), 16).unwrap();
    let three = vec![Some([1u8, 2, 255]), None];
    let three = FixedSizeBinaryArray::try_from_sparse_iter_with_size(three.into_iter(), 3).unwrap();
    let dictionary: DictionaryArray<Int32Type> = words.clone().into_iter().collect();
    vec![
        column(DataType::Text, StringArray::from(words.clone())),
        column(DataType::Text, LargeStringArray::from(words.clone())),
        column(DataType::Text, StringViewArray::from(words.clone())),
        column(DataType::Varchar { length: 20 }, StringViewArray::from(words.clone())),
        column(DataType::Char { length: 7 }, StringViewArray::from(words.clone())),
        column(DataType::Char { length: 7 }, dictionary),
        column(DataType::Uuid, StringViewArray::from(ids)),
        column(DataType::Uuid, fixed),
        column(DataType::Bytea, three),
        column(DataType::Bytea, BinaryArray::from(bytes.clone())),
        column(DataType::Bytea, LargeBinaryArray::from(bytes.clone())),
        column(DataType::Bytea, BinaryViewArray::from(bytes)),
    ]
}

fn times_and_intervals() -> Vec<(Column, ArrayRef)> {
    let days = vec![Some(0), Some(10_957), Some(-719_529), Some(-800_000), Some(3_000_000), None];
    let moments = [
        "2026-11-21 20:53:07.25",
        "2000-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "0044-03-15 10:00:00 BC",
        "0001-12-31 00:00:00.000001 BC",
        "12345-01-01 01:02:03.1",
    ];
    let moments: Vec<Option<i64>> = moments
        .iter()
        .map(|text| Some(us(text) + EPOCH_US))
        .chain([None, Some(i64::MIN), Some(i64::MAX)])
        .collect();
    let spans = [(14, 3, 14_706_789_000), (0, -1, 3_600_000_000), (0, 0, -1_000_000), (0, 0, 0), (-25, 0, 1)];
    let spans = spans.map(|(months, days, us): (i32, i32, i64)| {
        Some(IntervalMonthDayNano { months, days, nanoseconds: us * 1_000 })
    });
    let spans: Vec<_> = spans.into_iter().chain([None]).collect();
    let halves = vec![Some(IntervalDayTime::new(-2, 3_500)), None];
    let interval =
        |array: ArrayRef| (Column { type_oid: INTERVAL_OID, ..Column::new("c", DataType::Text) }, array);
    let zoned = TimestampMicrosecondArray::from(moments.clone()).with_timezone("+00:00");
    vec![
        column(DataType::Date, Date32Array::from(days)),
        column(DataType::Timestamp, TimestampMicrosecondArray::from(moments)),
        column(DataType::TimestampTz, zoned),
        column(DataType::Timestamp, TimestampSecondArray::from(vec![Some(-5), None, Some(i64::MAX)])),
        column(DataType::Timestamp, TimestampMillisecondArray::from(vec![Some(-5), None, Some(i64::MAX)])),
        column(DataType::Timestamp, TimestampNanosecondArray::from(vec![Some(-5), None, Some(1_999)])),
        interval(Arc::new(IntervalMonthDayNanoArray::from(spans))),
        interval(Arc::new(IntervalYearMonthArray::from(vec![Some(-14), None, Some(1)]))),
        interval(Arc::new(IntervalDayTimeArray::from(halves))),
        interval(Arc::new(DurationSecondArray::from(vec![Some(90_061), None, Some(-1)]))),
        interval(Arc::new(DurationNanosecondArray::from(vec![Some(1_999), None]))),
        with_oid(TIME_OID, DataType::Text, Time64NanosecondArray::from(vec![Some(86_399_000_001_000), None])),
        with_oid(TIME_OID, DataType::Text, Time32SecondArray::from(vec![Some(60), None])),
    ]
}

/// A list of the slices of an array that these ends give, with one NULL.
fn list_of(values: ArrayRef, ends: &[usize]) -> ListArray {
    let lengths = ends.windows(2).map(|w| w[1] - w[0]);
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let nulls = (0..ends.len() - 1).map(|i| i != 1).collect();
    ListArray::new(field, OffsetBuffer::from_lengths(lengths), values, Some(nulls))
}

fn lists() -> Vec<(Column, ArrayRef)> {
    let words = ["a", "b,c", "", "q\"", "back\\slash", "null", " x ", "{}"];
    let words = StringViewArray::from(words.iter().map(|w| Some(*w)).chain([None]).collect::<Vec<_>>());
    let decimals = Decimal128Array::from(vec![Some(150), None, Some(-5), Some(0)]);
    let decimals = decimals.with_precision_and_scale(20, 10).unwrap();
    let of = |data_type: DataType, values: ArrayRef| {
        let ends = [0, 2, 2, values.len()];
        let column = Column { type_oid: array_oid(type_oid(data_type)), ..Column::new("c", DataType::Text) };
        (column, Arc::new(list_of(values, &ends)) as ArrayRef)
    };
    vec![
        of(DataType::Text, Arc::new(words)),
        of(DataType::Boolean, Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        of(DataType::SmallInt, Arc::new(Int16Array::from(vec![Some(1), None, Some(-3)]))),
        of(DataType::Integer, Arc::new(Int32Array::from(vec![Some(1), None, Some(-3)]))),
        of(DataType::BigInt, Arc::new(Int64Array::from(vec![Some(1), None, Some(-3), Some(4)]))),
        of(DataType::Real, Arc::new(Float32Array::from(vec![Some(0.1), None, Some(f32::NAN)]))),
        of(DataType::Double, Arc::new(Float64Array::from(vec![Some(0.1), None, Some(f64::NEG_INFINITY)]))),
        of(DataType::Date, Arc::new(Date32Array::from(vec![Some(0), None, Some(20_000)]))),
        of(DataType::Timestamp, Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None, Some(1)]))),
        of(DataType::Bytea, Arc::new(BinaryArray::from(vec![Some(&b"\x00"[..]), None, Some(b"")]))),
        of(NUMERIC, Arc::new(decimals)),
    ]
}

/// The fields of a column in a format, each with its length: from the batch, and from the values in it.
fn fields(column: &Column, array: &ArrayRef, format: i16) -> Vec<Vec<u8>> {
    let batch = RecordBatch::try_from_iter([("c", array.clone())]).unwrap();
    let portion = Portion::Batch(batch);
    let writer = portion.writer(std::slice::from_ref(column), &[format]).unwrap();
    let field = |row| {
        let mut out = BytesMut::new();
        writer.fields(&mut out, row).unwrap();
        // Without the number of fields.
        out[2..].to_vec()
    };
    (0..array.len()).map(field).collect()
}

fn sent(column: &Column, value: Datum, format: i16) -> Vec<u8> {
    let portion = Portion::Values(vec![vec![value]]);
    let writer = portion.writer(std::slice::from_ref(column), &[format]).unwrap();
    let mut out = BytesMut::new();
    writer.fields(&mut out, 0).unwrap();
    out[2..].to_vec()
}

#[test]
fn the_writers_before_wrote_the_same() {
    for (column, array) in columns() {
        let mut rows = vec![Vec::new(); array.len()];
        old::append_column(array.as_ref(), column.data_type, &mut rows).unwrap();
        for format in [0, BINARY] {
            let before = |row: &Vec<Datum>| {
                let mut out = BytesMut::new();
                old::write_field(&mut out, &row[0], &column, format);
                out.to_vec()
            };
            let before: Vec<_> = rows.iter().map(before).collect();
            let shown = format!("{} as {column:?}, format {format}", array.data_type());
            assert_eq!(fields(&column, &array, format), before, "{shown}");
            let of_values: Vec<_> = rows.iter().map(|row| sent(&column, row[0].clone(), format)).collect();
            assert_eq!(of_values, before, "values: {shown}");
            // A slice in the middle of a batch.
            let part = array.slice(1, array.len() - 1);
            assert_eq!(fields(&column, &part, format), before[1..], "slice: {shown}");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// What a field has behind its length.
fn shown(field: &[u8]) -> &[u8] {
    let length = i32::from_be_bytes(field[..4].try_into().unwrap());
    assert_eq!(length as usize, field.len() - 4);
    &field[4..]
}

const INT4: DataType = DataType::Integer;
const NUMERIC_2: DataType = DataType::Numeric { precision: 9, scale: 2 };
const NUMERIC_8: DataType = DataType::Numeric { precision: 38, scale: 8 };

/// Text and binary forms that PostgreSQL 15 gave.
const OF_TABLES: [(DataType, &str, &str); 25] = [
    (DataType::Boolean, "t", "01"),
    (DataType::SmallInt, "-32768", "8000"),
    (INT4, "2147483647", "7fffffff"),
    (DataType::BigInt, "-9223372036854775808", "8000000000000000"),
    (DataType::Double, "-0", "8000000000000000"),
    (DataType::Double, "1e+15", "430c6bf526340000"),
    (DataType::Double, "NaN", "7ff8000000000000"),
    (DataType::Real, "0.1", "3dcccccd"),
    (DataType::Real, "1e+06", "49742400"),
    (DataType::Real, "-Infinity", "ff800000"),
    (NUMERIC_2, "0.00", "0000000000000002"),
    (NUMERIC_2, "-12.50", "0002000040000002000c1388"),
    (DataType::Numeric { precision: 9, scale: 4 }, "0.0001", "0001ffff000000040001"),
    (DataType::Numeric { precision: 9, scale: 0 }, "10000", "00010001000000000001"),
    (
        NUMERIC_8,
        "123456789012345678901234567890.12345678",
        "000a000700000008000c0d801ed204d2162e23340d801ed204d2162e",
    ),
    (DataType::Date, "2026-11-21", "0000265d"),
    (DataType::Date, "0044-03-15 BC", "fff49d7b"),
    (DataType::Timestamp, "0044-03-15 10:00:00.25 BC", "ff1af9e74e235890"),
    (DataType::TimestampTz, "2026-11-21 20:53:07.25+00", "000303ce51004350"),
    (DataType::TimestampTz, "0001-12-31 00:00:00.000001+00 BC", "ff1fe2eba7c50001"),
    (DataType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
    (DataType::Bytea, "\\x00ff", "00ff"),
    (DataType::Char { length: 4 }, "ab  ", "61622020"),
    (DataType::Varchar { length: 9 }, "é", "c3a9"),
    (DataType::Text, "", ""),
];

/// The same of types that columns of tables do not have.
const OF_OTHERS: [(u32, &str, &str); 6] = [
    (INTERVAL_OID, "1 year 2 mons 3 days 04:05:06.789", "000000036c97ca88000000030000000e"),
    (INTERVAL_OID, "-1 days +01:00:00", "00000000d693a400ffffffff00000000"),
    (1007, "{1,NULL,-3}", "00000001000000010000001700000003000000010000000400000001ffffffff00000004fffffffd"),
    (1016, "{}", "000000000000000000000014"),
    (
        1009,
        "{a,\"b c\",\"\",NULL,\"null\"}",
        "000000010000000100000019000000050000000100000001610000000362206300000000ffffffff000000046e756c6c",
    ),
    (1231, "{1.5,NULL}", "0000000100000001000006a400000002000000010000000c000200000000000100011388ffffffff"),
];

#[test]
fn types_of_tables_are_written_as_postgresql_writes_them() {
    for (data_type, text, binary) in OF_TABLES {
        let value = base::text::parse(text, data_type).unwrap();
        let array = colstore::array_of(data_type, &[value.clone(), Datum::Null]);
        let column = Column::new("c", data_type);
        for (format, wanted) in [(0, hex(text.as_bytes())), (BINARY, binary.to_string())] {
            let from_batch = fields(&column, &array, format);
            assert_eq!(hex(shown(&from_batch[0])), wanted, "{text} as {data_type:?}, format {format}");
            assert_eq!(from_batch[1], (-1i32).to_be_bytes(), "null as {data_type:?}");
            assert_eq!(sent(&column, value.clone(), format), from_batch[0], "{text} as a value");
        }
    }
}

/// The arrays that [`OF_OTHERS`] are made of.
fn others() -> [ArrayRef; 6] {
    let span = |months, days, us: i64| {
        let value = IntervalMonthDayNano { months, days, nanoseconds: us * 1_000 };
        Arc::new(IntervalMonthDayNanoArray::from(vec![value])) as ArrayRef
    };
    let list = |values: ArrayRef| {
        let ends = [0, values.len()];
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(ends.windows(2).map(|w| w[1] - w[0]));
        Arc::new(ListArray::new(field, offsets, values, None)) as ArrayRef
    };
    let number = Decimal128Array::from(vec![Some(15), None]).with_precision_and_scale(5, 1).unwrap();
    [
        span(14, 3, 14_706_789_000),
        span(0, -1, 3_600_000_000),
        list(Arc::new(Int32Array::from(vec![Some(1), None, Some(-3)]))),
        list(Arc::new(Int64Array::from(Vec::<i64>::new()))),
        list(Arc::new(StringViewArray::from(vec![Some("a"), Some("b c"), Some(""), None, Some("null")]))),
        list(Arc::new(number)),
    ]
}

#[test]
fn intervals_and_arrays_are_written_as_postgresql_writes_them() {
    for ((type_oid, text, binary), array) in OF_OTHERS.into_iter().zip(others()) {
        let column = Column { type_oid, ..Column::new("c", DataType::Text) };
        for (format, wanted) in [(0, hex(text.as_bytes())), (BINARY, binary.to_string())] {
            let from_batch = fields(&column, &array, format);
            assert_eq!(hex(shown(&from_batch[0])), wanted, "{text}, format {format}");
            // What a cursor kept is text.
            assert_eq!(sent(&column, Datum::text(text), format), from_batch[0], "{text} as a value");
        }
    }
}

#[test]
fn rows_and_nested_lists_are_text() {
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b,c"), Some("")]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None, Some(4)]));
    let field = |name: &str, array: &ArrayRef| Arc::new(Field::new(name, array.data_type().clone(), true));
    let rows = StructArray::from(vec![(field("a", &names), names), (field("b", &numbers), numbers)]);
    let text = Column::new("c", DataType::Text);
    let texts = |array: &ArrayRef| {
        let fields = fields(&text, array, 0);
        fields.iter().map(|field| String::from_utf8(shown(field).to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&(Arc::new(rows) as ArrayRef)), ["(a,1)", "(,2)", "(\"b,c\",)", "(\"\",4)"]);
    let inner = Arc::new(list_of(Arc::new(Int32Array::from(vec![1, 2, 3])), &[0, 2, 2, 3]));
    let outer: ArrayRef = Arc::new(list_of(inner, &[0, 3]).slice(0, 1));
    assert_eq!(texts(&outer), ["{{1,2},NULL,{3}}"]);
    let column = Column { type_oid: array_oid(type_oid(DataType::Text)), ..text };
    let portion = Portion::Batch(RecordBatch::try_from_iter([("c", outer)]).unwrap());
    let refused = portion.writer(&[column], &[BINARY]).err().unwrap();
    assert_eq!(refused.state, base::SqlState::FEATURE_NOT_SUPPORTED);
}
