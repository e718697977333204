//! Functions of angles, in radians and in degrees, and their inverses.

use base::error::SqlResult;
use base::{SqlError, SqlState};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Angle {
    Sine,
    Cosine,
    Tangent,
    Cotangent,
    ArcSine,
    ArcCosine,
    AreaCosine,
    AreaTangent,
    SineOfDegrees,
    CosineOfDegrees,
    TangentOfDegrees,
    CotangentOfDegrees,
    DegreesOfSine,
    DegreesOfCosine,
    DegreesOfTangent,
}

/// Functions of degrees, which the library does not have, with how many arguments they take.
pub(in super::super) const OF_DEGREES: [(&str, usize); 8] = [
    ("sind", 1),
    ("cosd", 1),
    ("tand", 1),
    ("cotd", 1),
    ("asind", 1),
    ("acosd", 1),
    ("atand", 1),
    (DIRECTION, 2),
];

/// The angle of a point, in degrees.
pub(super) const DIRECTION: &str = "atan2d";

impl Angle {
    pub fn named(name: &str) -> Option<Angle> {
        Some(match name {
            "sin" => Angle::Sine,
            "cos" => Angle::Cosine,
            "tan" => Angle::Tangent,
            "cot" => Angle::Cotangent,
            "asin" => Angle::ArcSine,
            "acos" => Angle::ArcCosine,
            "acosh" => Angle::AreaCosine,
            "atanh" => Angle::AreaTangent,
            "sind" => Angle::SineOfDegrees,
            "cosd" => Angle::CosineOfDegrees,
            "tand" => Angle::TangentOfDegrees,
            "cotd" => Angle::CotangentOfDegrees,
            "asind" => Angle::DegreesOfSine,
            "acosd" => Angle::DegreesOfCosine,
            "atand" => Angle::DegreesOfTangent,
            _ => return None,
        })
    }

    /// Errors: 22003 for what has no value.
    pub fn of(self, f: f64) -> SqlResult<f64> {
        let is_outside = match self {
            Angle::ArcSine
            | Angle::ArcCosine
            | Angle::AreaTangent
            | Angle::DegreesOfSine
            | Angle::DegreesOfCosine => f.abs() > 1.0,
            Angle::AreaCosine => f < 1.0,
            Angle::DegreesOfTangent => false,
            _ => f.is_infinite(),
        };
        if is_outside {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"));
        }
        Ok(match self {
            Angle::Sine => f.sin(),
            Angle::Cosine => f.cos(),
            Angle::Tangent => f.tan(),
            Angle::Cotangent => 1.0 / f.tan(),
            Angle::ArcSine => f.asin(),
            Angle::ArcCosine => f.acos(),
            Angle::AreaCosine => f.acosh(),
            Angle::AreaTangent => f.atanh(),
            Angle::SineOfDegrees => Turned::of(f).sine(),
            Angle::CosineOfDegrees => Turned::of(f).cosine(),
            Angle::TangentOfDegrees => Turned::of(f).tangent(),
            Angle::CotangentOfDegrees => Turned::of(f).cotangent(),
            Angle::DegreesOfSine if f < 0.0 => -degrees_of_sine(-f),
            Angle::DegreesOfSine => degrees_of_sine(f),
            Angle::DegreesOfCosine if f < 0.0 => 90.0 + degrees_of_sine(-f),
            Angle::DegreesOfCosine => degrees_of_cosine(f),
            Angle::DegreesOfTangent => f.atan() / 1f64.atan() * 45.0,
        })
    }
}

/// The angle between the axis and a point, in degrees.
pub(super) fn direction(y: f64, x: f64) -> f64 {
    y.atan2(x) / 1f64.atan() * 45.0
}

/// An angle of at most 90 degrees, and whether the original one lies below the horizontal axis, and left of the vertical one.
struct Turned {
    degrees: f64,
    is_below: bool,
    is_left: bool,
}

impl Turned {
    fn of(degrees: f64) -> Turned {
        let mut degrees = degrees % 360.0;
        let mut is_below = degrees < 0.0;
        degrees = degrees.abs();
        if degrees > 180.0 {
            degrees = 360.0 - degrees;
            is_below = !is_below;
        }
        let is_left = degrees > 90.0;
        Turned { degrees: if is_left { 180.0 - degrees } else { degrees }, is_below, is_left }
    }

    fn sine(&self) -> f64 {
        signed(self.is_below, sine(self.degrees))
    }
    fn cosine(&self) -> f64 {
        signed(self.is_left, cosine(self.degrees))
    }
    fn tangent(&self) -> f64 {
        let of = |degrees| sine(degrees) / cosine(degrees);
        // There is one zero.
        signed(self.is_below != self.is_left, of(self.degrees) / of(45.0)) + 0.0
    }
    fn cotangent(&self) -> f64 {
        let of = |degrees| cosine(degrees) / sine(degrees);
        signed(self.is_below != self.is_left, of(self.degrees) / of(45.0)) + 0.0
    }
}

fn signed(is_negative: bool, f: f64) -> f64 {
    if is_negative { -f } else { f }
}

// Sines and cosines are scaled so that those of 30, 60 and 90 degrees are exact.

fn small_sine(degrees: f64) -> f64 {
    degrees.to_radians().sin() / 30f64.to_radians().sin() / 2.0
}
fn large_cosine(degrees: f64) -> f64 {
    1.0 - (1.0 - degrees.to_radians().cos()) / (1.0 - 60f64.to_radians().cos()) / 2.0
}
fn sine(degrees: f64) -> f64 {
    if degrees <= 30.0 { small_sine(degrees) } else { large_cosine(90.0 - degrees) }
}
fn cosine(degrees: f64) -> f64 {
    if degrees <= 60.0 { large_cosine(degrees) } else { small_sine(90.0 - degrees) }
}

/// Of a sine from 0 to 1.
fn degrees_of_sine(f: f64) -> f64 {
    if f <= 0.5 { f.asin() / 0.5f64.asin() * 30.0 } else { 90.0 - f.acos() / 0.5f64.acos() * 60.0 }
}
/// Of a cosine from 0 to 1.
fn degrees_of_cosine(f: f64) -> f64 {
    if f <= 0.5 { 90.0 - f.asin() / 0.5f64.asin() * 30.0 } else { f.acos() / 0.5f64.acos() * 60.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_angles_are_exact() {
        let is = |name: &str, of: f64| Angle::named(name).unwrap().of(of).unwrap();
        assert_eq!(
            [30.0, -30.0, 150.0, 210.0, 270.0, 720.0].map(|of| is("sind", of)),
            [0.5, -0.5, 0.5, -0.5, -1.0, 0.0]
        );
        assert_eq!(
            [0.0, 60.0, 90.0, 120.0, 180.0, -300.0].map(|of| is("cosd", of)),
            [1.0, 0.5, 0.0, -0.5, -1.0, 0.5]
        );
        assert_eq!([0.0, 45.0, 135.0, 180.0, 225.0].map(|of| is("tand", of)), [0.0, 1.0, -1.0, 0.0, 1.0]);
        assert_eq!([45.0, 90.0, 135.0].map(|of| is("cotd", of)), [1.0, 0.0, -1.0]);
        assert_eq!([-1.0, -0.5, 0.0, 0.5, 1.0].map(|of| is("asind", of)), [-90.0, -30.0, 0.0, 30.0, 90.0]);
        assert_eq!([-1.0, -0.5, 0.0, 0.5, 1.0].map(|of| is("acosd", of)), [180.0, 120.0, 90.0, 60.0, 0.0]);
        assert_eq!([is("atand", -1.0), is("atand", f64::INFINITY)], [-45.0, 90.0]);
        assert_eq!(direction(-1.0, -1.0), -135.0);
    }

    #[test]
    fn what_has_no_value_is_out_of_range() {
        for (name, of) in [("acosh", 0.5), ("atanh", 1.5), ("asind", -2.0), ("sind", f64::INFINITY)] {
            let refused = Angle::named(name).unwrap().of(of).unwrap_err();
            assert_eq!(refused.state, SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "{name}");
        }
        assert_eq!(Angle::AreaTangent.of(1.0), Ok(f64::INFINITY));
    }
}
