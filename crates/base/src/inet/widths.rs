//! How many bytes an address of a type is packed in, as [`Inet::packed`](super::Inet::packed) packs it.

use super::KEY_BYTES;
use crate::DataType;

/// The types of addresses with how many bytes one is packed in: each number is another one.
const WIDTHS: [(DataType, usize); 4] = [
    (DataType::Inet, KEY_BYTES),
    (DataType::Cidr, KEY_BYTES + 1),
    (DataType::MacAddr, 6),
    (DataType::MacAddr8, 8),
];

/// How many bytes addresses of a type are packed in; `None` for other types.
pub fn width(data_type: DataType) -> Option<usize> {
    WIDTHS.iter().find(|(of, _)| *of == data_type).map(|(_, width)| *width)
}

/// The type whose addresses are packed in so many bytes.
pub fn of_width(width: i32) -> Option<DataType> {
    WIDTHS.iter().find(|(_, of)| usize::try_from(width) == Ok(*of)).map(|(data_type, _)| *data_type)
}
