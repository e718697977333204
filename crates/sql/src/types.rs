//! Types as clients know them: columns of results, parameters, PostgreSQL's object ids and modifiers.

use base::{DataType, Datum, TableId};

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterType {
    /// Of the value, or of each element.
    pub data_type: DataType,
    /// An array travels as text: `{1,2}`.
    pub is_array: bool,
    /// Object id of a type that has none of ours: an object id.
    pub announced: Option<u32>,
}

pub const INTERVAL_OID: u32 = 1186;
pub const TIME_OID: u32 = 1083;
pub const OBJECT_ID_OID: u32 = 26;
/// Of `"char"`, one byte.
pub const CHAR_OID: u32 = 18;

impl From<DataType> for ParameterType {
    fn from(data_type: DataType) -> ParameterType {
        ParameterType { data_type, is_array: false, announced: None }
    }
}

impl ParameterType {
    /// PostgreSQL's object id.
    pub fn oid(self) -> u32 {
        let of = self.announced.unwrap_or(type_oid(self.data_type));
        if self.is_array { array_oid(of) } else { of }
    }
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    /// How its values are written; types beyond these are shown as text.
    pub data_type: DataType,
    /// Object id of the type that is announced: usually [`type_oid`] of `data_type`.
    pub type_oid: u32,
    /// Type modifier as PostgreSQL sends it, −1 for none.
    pub type_modifier: i32,
    /// Object id of the table and number (from 1) of the column it comes straight from.
    pub origin: Option<(u32, i16)>,
}

impl Column {
    pub fn new(name: impl Into<String>, data_type: DataType) -> Column {
        Column {
            name: name.into(),
            data_type,
            type_oid: type_oid(data_type),
            type_modifier: type_modifier(data_type),
            origin: None,
        }
    }
}

/// Object ids of tables and indexes begin here, as PostgreSQL's own user objects do.
pub const FIRST_OID: u32 = 16_384;

/// Object id of a table, index, sequence or type that a user made.
pub fn oid(id: TableId) -> u32 {
    FIRST_OID + id.0
}

/// Types with their arrays, by PostgreSQL's object ids.
const ARRAYS: [(u32, u32); 28] = [
    (16, 1000),
    (17, 1001),
    (19, 1003),
    (20, 1016),
    (21, 1005),
    (23, 1007),
    (25, 1009),
    (26, 1028),
    (114, 199),
    (700, 1021),
    (701, 1022),
    (1042, 1014),
    (1043, 1015),
    (1082, 1182),
    (1083, 1183),
    (1114, 1115),
    (1184, 1185),
    (1186, 1187),
    (1700, 1231),
    (2950, 2951),
    (869, 1041),
    (650, 651),
    (829, 1040),
    (774, 775),
    (1266, 1270),
    (3802, 3807),
    (3614, 3643),
    (3615, 3645),
];

/// Object ids of arrays of the types that users made begin here. Labels have those from 0x5000_0000 on.
const FIRST_ARRAY: u32 = 0x4000_0000;
const ARRAYS_OF_USERS: u32 = 0x1000_0000;

/// Object id of an array of a type; text's for types without one.
pub fn array_oid(of: u32) -> u32 {
    if let Some(nth) = of.checked_sub(FIRST_OID).filter(|nth| *nth < ARRAYS_OF_USERS) {
        return FIRST_ARRAY + nth;
    }
    ARRAYS.iter().find(|(element, _)| *element == of).map_or(1009, |(_, array)| *array)
}

/// Object id of an array's elements; `None` if the type is no array.
pub fn element_oid(array: u32) -> Option<u32> {
    if let Some(nth) = array.checked_sub(FIRST_ARRAY).filter(|nth| *nth < ARRAYS_OF_USERS) {
        return Some(FIRST_OID + nth);
    }
    ARRAYS.iter().find(|(_, a)| *a == array).map(|(element, _)| *element)
}

/// PostgreSQL's object id of a type.
pub fn type_oid(data_type: DataType) -> u32 {
    match data_type {
        DataType::Boolean => 16,
        DataType::Bytea => 17,
        DataType::BigInt => 20,
        DataType::SmallInt => 21,
        DataType::Integer => 23,
        DataType::Text => 25,
        DataType::Real => 700,
        DataType::Double => 701,
        DataType::Char { .. } => 1042,
        DataType::Varchar { .. } => 1043,
        DataType::Date => 1082,
        DataType::Timestamp => 1114,
        DataType::TimestampTz => 1184,
        DataType::Numeric { .. } => 1700,
        DataType::Uuid => 2950,
        DataType::Time => TIME_OID,
        DataType::Interval => INTERVAL_OID,
        DataType::Json => 114,
        DataType::Jsonb => 3802,
        DataType::Inet => 869,
        DataType::Cidr => 650,
        DataType::MacAddr => 829,
        DataType::MacAddr8 => 774,
        DataType::TimeTz => 1266,
        DataType::TsVector => 3614,
        DataType::TsQuery => 3615,
        DataType::Array(of) => array_oid(type_oid(of.data_type())),
        DataType::Enum(of) => oid(of.id()),
        DataType::Composite(of) => oid(of.id()),
    }
}

/// The type of an object id, as a parameter may have it. 705 (unknown) and 0 are no type.
pub fn type_of_oid(oid: u32) -> Option<DataType> {
    Some(match oid {
        16 => DataType::Boolean,
        17 => DataType::Bytea,
        20 | 26 => DataType::BigInt,
        21 => DataType::SmallInt,
        23 => DataType::Integer,
        19 | 25 | 1042 | 1043 => DataType::Text,
        700 => DataType::Real,
        701 => DataType::Double,
        1082 => DataType::Date,
        1114 => DataType::Timestamp,
        1184 => DataType::TimestampTz,
        1700 => NUMERIC,
        2950 => DataType::Uuid,
        TIME_OID => DataType::Time,
        INTERVAL_OID => DataType::Interval,
        114 => DataType::Json,
        3802 => DataType::Jsonb,
        869 => DataType::Inet,
        650 => DataType::Cidr,
        829 => DataType::MacAddr,
        774 => DataType::MacAddr8,
        1266 => DataType::TimeTz,
        3614 => DataType::TsVector,
        3615 => DataType::TsQuery,
        _ => return None,
    })
}

/// `numeric` without limits: as wide as values get.
pub const NUMERIC: DataType = DataType::Numeric { precision: 38, scale: 10 };

/// PostgreSQL's modifier of a type: length or precision and scale, −1 for none.
pub fn type_modifier(data_type: DataType) -> i32 {
    match data_type {
        NUMERIC => -1,
        DataType::Numeric { precision, scale } => (i32::from(precision) << 16 | i32::from(scale)) + 4,
        DataType::Varchar { length } | DataType::Char { length } => length as i32 + 4,
        DataType::Array(of) => type_modifier(of.data_type()),
        _ => -1,
    }
}

/// The type of a parameter that came as a bare value.
pub fn type_of(value: &Datum) -> Option<DataType> {
    value.own_type()
}
