//! Operators and functions of addresses: their part of the table of [`calls`]. They are computed by [`base::inet`].

use crate::calls::{self, Argument, Call, Form};
use base::DataType;
use base::expr::Function;
use base::inet::NetworkFunction as F;
use sqlparser::ast::BinaryOperator;

const INET: DataType = DataType::Inet;
const CIDR: DataType = DataType::Cidr;
const MAC: DataType = DataType::MacAddr;
const MAC8: DataType = DataType::MacAddr8;
const TEXT: DataType = DataType::Text;
const BOOLEAN: DataType = DataType::Boolean;
const INTEGER: DataType = DataType::Integer;
const BIGINT: DataType = DataType::BigInt;

const fn call(arguments: &'static [Argument], function: F, returns: DataType) -> Call {
    calls::plain(arguments, Function::Network(function), returns)
}

const fn formed(form: Form, arguments: &'static [Argument], function: F, returns: DataType) -> Call {
    calls::formed(form, arguments, Function::Network(function), returns)
}

/// Functions by their names. What a literal may be comes first.
pub(crate) const FUNCTIONS: &[(&str, &[Call])] = {
    use Argument::Of;
    &[
        ("host", &[call(&[Of(INET)], F::Host, TEXT)]),
        ("abbrev", &[call(&[Of(INET)], F::Short, TEXT), call(&[Of(CIDR)], F::ShortNetwork, TEXT)]),
        ("broadcast", &[call(&[Of(INET)], F::Broadcast, INET)]),
        ("network", &[call(&[Of(INET)], F::Network, CIDR)]),
        ("netmask", &[call(&[Of(INET)], F::Netmask, INET)]),
        ("hostmask", &[call(&[Of(INET)], F::Hostmask, INET)]),
        ("masklen", &[call(&[Of(INET)], F::PrefixLength, INTEGER)]),
        (
            "set_masklen",
            &[
                call(&[Of(INET), Of(INTEGER)], F::SetPrefix, INET),
                call(&[Of(CIDR), Of(INTEGER)], F::SetNetworkPrefix, CIDR),
            ],
        ),
        ("family", &[call(&[Of(INET)], F::Family, INTEGER)]),
        ("inet_same_family", &[call(&[Of(INET), Of(INET)], F::SameFamily, BOOLEAN)]),
        ("inet_merge", &[call(&[Of(INET), Of(INET)], F::Merge, CIDR)]),
        ("macaddr8_set7bit", &[call(&[Of(MAC8)], F::SetSeventhBit, MAC8)]),
    ]
};

/// Functions that other types have, too.
pub(crate) const SHARED: &[(&str, &[Call])] = {
    use Argument::Of;
    &[("trunc", &[call(&[Of(MAC)], F::Truncate, MAC), call(&[Of(MAC8)], F::Truncate, MAC8)])]
};

/// Whether values of a type take part in an operator that is looked for here.
pub fn has_operator(data_type: DataType, op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    match data_type {
        INET | CIDR => within(op).is_some() || matches!(op, B::Plus | B::Minus) || is_of_bits(op),
        MAC | MAC8 => is_of_bits(op),
        _ => false,
    }
}

/// `~x` is written as `x # -1`.
fn is_of_bits(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(op, B::BitwiseAnd | B::BitwiseOr | B::BitwiseXor | B::PGBitwiseXor)
}

/// Operators of two addresses of which one may lie in the other's network.
fn within(op: &BinaryOperator) -> Option<&'static [Call]> {
    use Argument::Of;
    use BinaryOperator as B;
    const SIDES: &[Argument] = &[Of(INET), Of(INET)];
    const CALLS: [Call; 5] = [
        call(SIDES, F::Inside, BOOLEAN),
        call(SIDES, F::InsideOrSame, BOOLEAN),
        formed(Form::Turned, SIDES, F::Inside, BOOLEAN),
        formed(Form::Turned, SIDES, F::InsideOrSame, BOOLEAN),
        call(SIDES, F::Overlaps, BOOLEAN),
    ];
    let calls: &'static [Call] = &CALLS;
    let nth = match op {
        B::PGBitwiseShiftLeft => 0,
        B::PGBitwiseShiftRight => 2,
        B::PGOverlap => 4,
        B::Custom(symbol) => match symbol.as_str() {
            "<<=" => 1,
            ">>=" => 3,
            _ => return None,
        },
        _ => return None,
    };
    Some(&calls[nth..=nth])
}

/// What an operator of two sides of these types may be; `None` if it is not one of addresses.
pub(crate) fn operators(
    op: &BinaryOperator,
    left: Option<DataType>,
    right: Option<DataType>,
) -> Option<&'static [Call]> {
    use Argument::Of;
    use BinaryOperator as B;
    const AND: &[Call] = &[
        call(&[Of(INET), Of(INET)], F::And, INET),
        call(&[Of(MAC), Of(MAC)], F::And, MAC),
        call(&[Of(MAC8), Of(MAC8)], F::And, MAC8),
    ];
    const OR: &[Call] = &[
        call(&[Of(INET), Of(INET)], F::Or, INET),
        call(&[Of(MAC), Of(MAC)], F::Or, MAC),
        call(&[Of(MAC8), Of(MAC8)], F::Or, MAC8),
    ];
    const NOT: &[Call] = &[
        formed(Form::First, &[Of(INET), Of(INTEGER)], F::Not, INET),
        formed(Form::First, &[Of(MAC), Of(INTEGER)], F::Not, MAC),
        formed(Form::First, &[Of(MAC8), Of(INTEGER)], F::Not, MAC8),
    ];
    const PLUS: &[Call] = &[
        call(&[Of(INET), Of(BIGINT)], F::Add, INET),
        formed(Form::Turned, &[Of(BIGINT), Of(INET)], F::Add, INET),
    ];
    const MINUS: &[Call] =
        &[call(&[Of(INET), Of(INET)], F::Distance, BIGINT), call(&[Of(INET), Of(BIGINT)], F::Subtract, INET)];
    if ![left, right].into_iter().flatten().any(|of| has_operator(of, op)) {
        return None;
    }
    Some(match op {
        B::BitwiseAnd => AND,
        B::BitwiseOr => OR,
        B::BitwiseXor | B::PGBitwiseXor => NOT,
        B::Plus => PLUS,
        B::Minus => MINUS,
        op => within(op)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{function, operator};

    #[test]
    fn a_network_is_an_address_where_nothing_is_said_of_networks() {
        let returns = |name, given: &[Option<DataType>]| function(name, given).map(|call| call.returns());
        assert_eq!(returns("set_masklen", &[Some(CIDR), Some(BIGINT)]), Some(CIDR));
        assert_eq!(returns("set_masklen", &[None, Some(INTEGER)]), Some(INET));
        assert_eq!(returns("broadcast", &[Some(CIDR)]), Some(INET));
        assert_eq!(returns("trunc", &[Some(MAC8)]), Some(MAC8));
        assert_eq!(returns("trunc", &[None]), None);
        assert_eq!(returns("host", &[Some(MAC)]), None);
    }

    #[test]
    fn operators_are_found_by_their_sides() {
        use BinaryOperator as B;
        let returns = |op, left, right| operator(&op, left, right).map(|call| call.returns());
        assert_eq!(returns(B::Minus, Some(INET), None), Some(BIGINT));
        assert_eq!(returns(B::Minus, Some(CIDR), Some(INTEGER)), Some(INET));
        assert_eq!(returns(B::Plus, Some(INTEGER), Some(INET)), Some(INET));
        assert_eq!(returns(B::Custom("<<=".into()), Some(INET), Some(CIDR)), Some(BOOLEAN));
        assert_eq!(returns(B::BitwiseAnd, Some(MAC), None), Some(MAC));
        assert_eq!(returns(B::BitwiseAnd, Some(MAC), Some(MAC8)), None);
        assert_eq!(returns(B::PGOverlap, Some(MAC), Some(MAC)), None);
        assert_eq!(returns(B::BitwiseAnd, Some(INTEGER), Some(INTEGER)), None);
    }
}
