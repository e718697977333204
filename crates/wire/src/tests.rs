//! Every type, in text and in binary: from a batch as from a value, and as PostgreSQL writes it.

use super::*;
use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType as Arrow, Field, TimeUnit};
use base::{DataType, Datum};
use bytes::BytesMut;
use sql::types::{Column, array_oid, type_oid};
use std::sync::Arc;

/// A list of the slices of an array that these ends give, with one NULL.
fn list_of(values: ArrayRef, ends: &[usize]) -> ListArray {
    let lengths = ends.windows(2).map(|w| w[1] - w[0]);
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    let nulls = (0..ends.len() - 1).map(|i| i != 1).collect();
    ListArray::new(field, OffsetBuffer::from_lengths(lengths), values, Some(nulls))
}

/// The fields of a column of a batch in a format, each with its length.
fn fields(column: &Column, array: &ArrayRef, format: i16) -> Vec<Vec<u8>> {
    let batch = RecordBatch::try_from_iter([("c", array.clone())]).unwrap();
    let portion = Portion::Batch(batch);
    let writer = portion.writer(std::slice::from_ref(column), &[format], Look::default()).unwrap();
    let field = |row| {
        let mut out = BytesMut::new();
        writer.fields(&mut out, row).unwrap();
        // Without the number of fields.
        out[2..].to_vec()
    };
    (0..array.len()).map(field).collect()
}

/// The field of a value.
fn sent(column: &Column, value: Datum, format: i16) -> Vec<u8> {
    let portion = Portion::Values(vec![vec![value]]);
    let writer = portion.writer(std::slice::from_ref(column), &[format], Look::default()).unwrap();
    let mut out = BytesMut::new();
    writer.fields(&mut out, 0).unwrap();
    out[2..].to_vec()
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
const OF_TABLES: [(DataType, &str, &str); 31] = [
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
    (DataType::Time, "13:45:07.25", "0000000b86dcaf50"),
    (DataType::Time, "24:00:00", "000000141dd76000"),
    (DataType::Interval, "1 year 2 mons 3 days 04:05:06.789", "000000036c97ca88000000030000000e"),
    (DataType::Interval, "-1 days +01:00:00", "00000000d693a400ffffffff00000000"),
    (DataType::Json, "{\"a\":1}", "7b2261223a317d"),
    (DataType::Jsonb, "{\"a\": 1}", "017b2261223a20317d"),
];

#[test]
fn arrays_of_tables_are_written_as_postgresql_writes_them() {
    for (of, text, binary) in [
        (
            INT4,
            "{1,NULL,-3}",
            "00000001000000010000001700000003000000010000000400000001ffffffff00000004fffffffd",
        ),
        (DataType::Text, "{}", "000000000000000000000019"),
        (
            DataType::Jsonb,
            "{\"{\\\"a\\\": 1}\"}",
            "000000010000000000000eda000000010000000100000009017b2261223a20317d",
        ),
    ] {
        let data_type = DataType::Array(base::element::Element::of(of).unwrap());
        let value = base::text::parse(text, data_type).unwrap();
        let array = colstore::array_of(data_type, &[value.clone(), Datum::Null]);
        let column = Column::new("c", data_type);
        for (format, wanted) in [(0, hex(text.as_bytes())), (BINARY, binary.to_string())] {
            let from_batch = fields(&column, &array, format);
            assert_eq!(hex(shown(&from_batch[0])), wanted, "{text} as {data_type:?}, format {format}");
            assert_eq!(sent(&column, value.clone(), format), from_batch[0], "{text} as a value");
        }
    }
}

/// The same of arrays that are kept as texts.
const OF_OTHERS: [(u32, &str, &str); 4] = [
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
fn others() -> [ArrayRef; 4] {
    let list = |values: ArrayRef| {
        let ends = [0, values.len()];
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(ends.windows(2).map(|w| w[1] - w[0]));
        Arc::new(ListArray::new(field, offsets, values, None)) as ArrayRef
    };
    let number = Decimal128Array::from(vec![Some(15), None]).with_precision_and_scale(5, 1).unwrap();
    [
        list(Arc::new(Int32Array::from(vec![Some(1), None, Some(-3)]))),
        list(Arc::new(Int64Array::from(Vec::<i64>::new()))),
        list(Arc::new(StringViewArray::from(vec![Some("a"), Some("b c"), Some(""), None, Some("null")]))),
        list(Arc::new(number)),
    ]
}

#[test]
fn arrays_as_texts_are_written_as_postgresql_writes_them() {
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
fn rows_and_nested_lists_have_a_text_form() {
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
}

#[test]
fn lists_of_lists_are_arrays_of_several_dimensions() {
    let list = |values: ArrayRef, ends: &[usize]| -> ArrayRef {
        let lengths = ends.windows(2).map(|w| w[1] - w[0]);
        let field = Arc::new(Field::new("item", values.data_type().clone(), true));
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), values, None))
    };
    let numbers: ArrayRef =
        Arc::new(Int32Array::from(vec![Some(9), Some(1), Some(2), Some(3), None, Some(5)]));
    let column = Column::new("c", DataType::Array(base::element::Element::of(INT4).unwrap()));
    let rows = list(list(numbers.clone(), &[0, 1, 3, 5, 5]), &[0, 1, 3, 3, 4]);
    let binary = fields(&column, &rows, BINARY);
    let of = |rank, has_null, lengths: &[u32]| {
        let dimensions: String = lengths.iter().map(|length| format!("{length:08x}00000001")).collect();
        format!("{rank:08x}{has_null:08x}00000017{dimensions}")
    };
    assert_eq!(hex(shown(&binary[0])), of(2, 0, &[1, 1]) + "0000000400000009");
    assert_eq!(
        hex(shown(&binary[1])),
        of(2, 1, &[2, 2]) + "000000040000000100000004000000020000000400000003ffffffff"
    );
    assert_eq!(hex(shown(&binary[2])), of(0, 0, &[]));
    assert_eq!(hex(shown(&binary[3])), of(0, 0, &[]));
    assert_eq!(shown(&fields(&column, &rows, 0)[1]), b"{{1,2},{3,NULL}}");
    let uneven = Portion::Batch(
        RecordBatch::try_from_iter([("c", list(list(numbers, &[0, 1, 3]), &[0, 2]))]).unwrap(),
    );
    let writer = uneven.writer(&[column], &[BINARY], Look::default()).unwrap();
    assert_eq!(writer.fields(&mut BytesMut::new(), 0).unwrap_err().state, base::SqlState(*b"2202E"));
}

#[test]
fn an_array_of_another_kind_or_a_part_of_one_is_written_alike() {
    let dictionary = Arrow::Dictionary(Box::new(Arrow::Int32), Box::new(Arrow::Utf8));
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("é "), Some("")]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(100), Some(7)]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"ab"[..]), None, Some(b"\x00\xff")]));
    let seconds = vec![Some(0), None, Some(-1_000_000), Some(1_800_000_000_000_000)];
    let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(seconds.clone()));
    let spans: ArrayRef = Arc::new(DurationMicrosecondArray::from(seconds));
    let id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let ids: ArrayRef = Arc::new(StringViewArray::from(vec![Some(id), None, Some("no uuid at all")]));
    let at = |unit| Arrow::Timestamp(unit, None);
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Nanosecond];
    let char_7 = DataType::Char { length: 7 };
    let strings = vec![Arrow::Utf8, Arrow::LargeUtf8, dictionary];
    let narrow = vec![
        Arrow::Int8,
        Arrow::Int16,
        Arrow::Int32,
        Arrow::UInt8,
        Arrow::UInt16,
        Arrow::UInt32,
        Arrow::UInt64,
    ];
    let interval = Column::new("c", DataType::Interval);
    for (column, array, kinds) in [
        (Column::new("c", DataType::Text), texts.clone(), strings.clone()),
        (Column::new("c", char_7), texts, strings.clone()),
        (Column::new("c", DataType::Uuid), ids, strings),
        (Column::new("c", DataType::BigInt), numbers, narrow),
        (Column::new("c", DataType::Bytea), bytes, Vec::new()),
        (Column::new("c", DataType::Timestamp), moments, units.map(at).into()),
        (interval, spans, units.map(Arrow::Duration).into()),
    ] {
        for format in [0, BINARY] {
            let wanted = fields(&column, &array, format);
            let part = array.slice(1, array.len() - 1);
            assert_eq!(fields(&column, &part, format), wanted[1..], "part of {}", array.data_type());
            for kind in &kinds {
                let other = arrow_cast::cast(&array, kind).unwrap();
                assert_eq!(fields(&column, &other, format), wanted, "{kind}, format {format}");
            }
        }
    }
    let list: ArrayRef = Arc::new(list_of(Arc::new(Int32Array::from(vec![1, 2, 3, 4])), &[0, 2, 2, 4]));
    let column = Column { type_oid: array_oid(type_oid(INT4)), ..Column::new("c", DataType::Text) };
    for format in [0, BINARY] {
        let wanted = fields(&column, &list, format);
        assert_eq!(fields(&column, &list.slice(2, 1), format), wanted[2..]);
        let large =
            arrow_cast::cast(&list, &Arrow::LargeList(Arc::new(Field::new("item", Arrow::Int32, true))));
        assert_eq!(fields(&column, &large.unwrap(), format), wanted);
    }
}
