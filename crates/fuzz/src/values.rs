//! Random values of any type that serde reads: a deserializer whose answers are drawn instead of read.
//!
//! KEEPS: a value follows from the dice alone, and is small: once enough was drawn sequences are empty, options none, and
//! of an enumeration's variants the first is taken.

use crate::{Dice, chance};
use rand::Rng;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, SeqAccess,
    VariantAccess, Visitor, value::Error,
};

/// After so many draws a value comes to its end.
const DRAWS_MAX: u32 = 400;
/// A type whose first variant holds itself has no end; such a value is given up.
const LEVELS_MAX: u32 = 200;

/// A value of a type; none if the type refused what was drawn, or came to no end.
pub fn value<T: DeserializeOwned>(dice: &mut Dice) -> Option<T> {
    T::deserialize(&mut Drawn { dice, draws: 0, level: 0 }).ok()
}

struct Drawn<'a> {
    dice: &'a mut Dice,
    draws: u32,
    level: u32,
}

impl Drawn<'_> {
    fn is_long(&mut self) -> bool {
        self.draws += 1;
        self.draws > DRAWS_MAX
    }

    /// Mostly small numbers, sometimes the ends of the range.
    fn number(&mut self) -> u64 {
        self.draws += 1;
        match self.dice.random_range(0..10) {
            0 => self.dice.random(),
            1 => u64::MAX >> self.dice.random_range(0..64),
            _ => self.dice.random_range(0..8),
        }
    }

    fn signed(&mut self) -> i64 {
        let number = self.number() as i64;
        if self.dice.random() { number } else { number.wrapping_neg() }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let count = if self.is_long() { 0 } else { self.dice.random_range(0..12) };
        (0..count).map(|_| self.dice.random()).collect()
    }

    fn text(&mut self) -> String {
        const LETTERS: [char; 8] = ['a', 'b', '_', '0', ' ', '"', 'ü', '\u{1f600}'];
        let count = if self.is_long() { 0 } else { self.dice.random_range(0..6) };
        (0..count).map(|_| LETTERS[self.dice.random_range(0..LETTERS.len())]).collect()
    }

    fn count(&mut self) -> usize {
        if self.is_long() || chance(self.dice, 30) { 0 } else { self.dice.random_range(1..4) }
    }

    /// Reads something that holds other values.
    fn inner<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.level == LEVELS_MAX {
            return Err(Error::custom("a value without an end"));
        }
        self.level += 1;
        let read = read(self);
        self.level -= 1;
        read
    }
}

/// Methods that hand a number to the visitor.
macro_rules! numbers {
    ($($method:ident $visit:ident $draw:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.$draw() as $type)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Drawn<'_> {
    type Error = Error;

    numbers! {
        deserialize_u8 visit_u8 number u8;
        deserialize_u16 visit_u16 number u16;
        deserialize_u32 visit_u32 number u32;
        deserialize_u64 visit_u64 number u64;
        deserialize_u128 visit_u128 number u128;
        deserialize_i8 visit_i8 signed i8;
        deserialize_i16 visit_i16 signed i16;
        deserialize_i32 visit_i32 signed i32;
        deserialize_i64 visit_i64 signed i64;
        deserialize_i128 visit_i128 signed i128;
        deserialize_f32 visit_f32 signed f32;
        deserialize_f64 visit_f64 signed f64;
    }

    fn is_human_readable(&self) -> bool {
        false
    }
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("the encoding does not say what comes next"))
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.dice.random())
    }
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_char(self.text().chars().next().unwrap_or('x'))
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bytes(&self.bytes())
    }
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_byte_buf(self.bytes())
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_long() || self.dice.random() {
            return visitor.visit_none();
        }
        self.inner(|drawn| visitor.visit_some(drawn))
    }
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.inner(|drawn| visitor.visit_newtype_struct(drawn))
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.count();
        self.inner(|drawn| visitor.visit_seq(Several { drawn, left }))
    }
    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        self.inner(|drawn| visitor.visit_seq(Several { drawn, left }))
    }
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(count, visitor)
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.count();
        self.inner(|drawn| visitor.visit_map(Several { drawn, left }))
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(fields.len(), visitor)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let variant = if self.is_long() { 0 } else { self.dice.random_range(0..variants.len() as u32) };
        self.inner(|drawn| visitor.visit_enum(OneOf { drawn, variant }))
    }
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
}

/// So many values, one after the other.
struct Several<'a, 'd> {
    drawn: &'a mut Drawn<'d>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Several<'_, '_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.drawn).map(Some)
    }
    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> serde::de::MapAccess<'de> for Several<'_, '_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.next_element_seed(seed)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.drawn)
    }
}

/// A variant of an enumeration by its number, as the encoding has it.
struct OneOf<'a, 'd> {
    drawn: &'a mut Drawn<'d>,
    variant: u32,
}

impl<'de, 'a, 'd> EnumAccess<'de> for OneOf<'a, 'd> {
    type Error = Error;
    type Variant = &'a mut Drawn<'d>;
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), Error> {
        let number: serde::de::value::U32Deserializer<Error> = self.variant.into_deserializer();
        Ok((seed.deserialize(number)?, self.drawn))
    }
}

impl<'de> VariantAccess<'de> for &mut Drawn<'_> {
    type Error = Error;
    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }
    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(count, visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}
