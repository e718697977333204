//! Numbers of 512 bits without a sign, half of them behind the point.

use std::cmp::Ordering;

const LIMBS: usize = 8;

/// Limbs behind the point.
pub const POINT: usize = LIMBS / 2;

/// A number, its lowest limb first. What is computed of two numbers is cut off behind the last bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed(pub [u64; LIMBS]);

/// The natural logarithm of 2.
pub const LN_2: Fixed = behind_point(
    0,
    [0x8a0d_175b_8baa_fa2b, 0x40f3_4326_7298_b62d, 0xc9e3_b398_03f2_f6af, 0xb172_17f7_d1cf_79ab],
);
/// The natural logarithm of 10.
pub const LN_10: Fixed = behind_point(
    2,
    [0x0f18_7a08_07c0_b5ca, 0x8a3f_b3e7_6977_e43a, 0xa95b_58ae_0b4c_28a3, 0x4d76_3776_aaa2_b05b],
);
/// The logarithm of e to the base 2.
pub const LOG2_E: Fixed = behind_point(
    1,
    [0x164a_2cd9_a342_648f, 0xd6ae_f551_bad2_b4b1, 0x7d0f_fda0_d23a_7d11, 0x7154_7652_b82f_e177],
);

const fn behind_point(whole: u64, [a, b, c, d]: [u64; 4]) -> Fixed {
    Fixed([a, b, c, d, whole, 0, 0, 0])
}

impl Fixed {
    pub const ZERO: Fixed = behind_point(0, [0; 4]);
    pub const ONE: Fixed = behind_point(1, [0; 4]);

    /// A whole number.
    pub fn whole(n: u128) -> Fixed {
        Fixed([0, 0, 0, 0, n as u64, (n >> 64) as u64, 0, 0])
    }

    /// The number before the point; `None` if it has more than 128 bits.
    pub fn before_point(self) -> Option<u128> {
        let [.., low, high, 0, 0] = self.0 else { return None };
        Some(u128::from(high) << 64 | u128::from(low))
    }

    /// How it compares with another one.
    pub fn compare(self, other: Fixed) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }

    /// A sum, of numbers far below the largest one.
    pub fn plus(self, other: Fixed) -> Fixed {
        let (mut limbs, mut carry) = (self.0, false);
        for (limb, more) in limbs.iter_mut().zip(other.0) {
            let (sum, is_over) = limb.overflowing_add(more);
            let (sum, is_over_again) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, is_over || is_over_again);
        }
        Fixed(limbs)
    }

    /// A difference, of a number that is no less than the other one.
    pub fn minus(self, other: Fixed) -> Fixed {
        let (mut limbs, mut borrow) = (self.0, false);
        for (limb, less) in limbs.iter_mut().zip(other.0) {
            let (rest, is_under) = limb.overflowing_sub(less);
            let (rest, is_under_again) = rest.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (rest, is_under || is_under_again);
        }
        Fixed(limbs)
    }

    /// A product; `None` if it does not fit.
    pub fn times(self, other: Fixed) -> Option<Fixed> {
        let mut product = [0u64; 2 * LIMBS];
        for (i, a) in self.0.into_iter().enumerate().filter(|(_, a)| *a != 0) {
            let mut carry = 0u128;
            for (j, b) in other.0.into_iter().enumerate() {
                let sum = u128::from(product[i + j]) + u128::from(a) * u128::from(b) + carry;
                product[i + j] = sum as u64;
                carry = sum >> 64;
            }
            product[i + LIMBS] = carry as u64;
        }
        // The product's point lies twice as far from its end.
        let mut limbs = [0; LIMBS];
        limbs.copy_from_slice(&product[POINT..POINT + LIMBS]);
        product[POINT + LIMBS..].iter().all(|limb| *limb == 0).then_some(Fixed(limbs))
    }

    /// A product that is known to fit.
    pub fn multiple(self, factor: u64) -> Fixed {
        let (mut limbs, mut carry) = (self.0, 0u128);
        for limb in &mut limbs {
            let product = u128::from(*limb) * u128::from(factor) + carry;
            *limb = product as u64;
            carry = product >> 64;
        }
        Fixed(limbs)
    }

    /// A quotient. Dividing by zero is the caller's to refuse.
    pub fn over(self, divisor: u64) -> Fixed {
        let (mut limbs, mut rest) = (self.0, 0u128);
        for limb in limbs.iter_mut().rev() {
            let dividend = rest << 64 | u128::from(*limb);
            *limb = (dividend / u128::from(divisor)) as u64;
            rest = dividend % u128::from(divisor);
        }
        Fixed(limbs)
    }

    /// A quotient; `None` if it does not fit. Dividing by zero is the caller's to refuse.
    pub fn divided(self, divisor: Fixed) -> Option<Fixed> {
        // Both with their highest bits in one place; the quotient's bits follow, the highest first.
        let (a, b) = (self.bits(), divisor.bits());
        let mut rest = self.left(b.saturating_sub(a));
        let divisor = divisor.left(a.saturating_sub(b));
        let highest = i64::from(a) - i64::from(b) + 64 * POINT as i64;
        if highest >= 64 * LIMBS as i64 {
            return None;
        }
        let mut quotient = Fixed::ZERO;
        for bit in (0..=highest).rev() {
            if rest.compare(divisor) != Ordering::Less {
                rest = rest.minus(divisor);
                quotient.0[bit as usize / 64] |= 1 << (bit % 64);
            }
            rest = rest.left(1);
        }
        Some(quotient)
    }

    /// The square root of all bits as a whole number, cut off.
    pub fn root_of_bits(self) -> Fixed {
        let (mut rest, mut root) = (self, Fixed::ZERO);
        let mut bit = Fixed([1, 0, 0, 0, 0, 0, 0, 0]).left(self.bits().saturating_sub(1) / 2 * 2);
        while bit != Fixed::ZERO {
            let trial = root.plus(bit);
            root = root.right(1);
            if rest.compare(trial) != Ordering::Less {
                rest = rest.minus(trial);
                root = root.plus(bit);
            }
            bit = bit.right(2);
        }
        root
    }

    /// Twice the number, so many times; what does not fit is lost.
    pub fn left(self, bits: u32) -> Fixed {
        let (limbs, bits) = ((bits / 64) as usize, bits % 64);
        let mut made = [0; LIMBS];
        for n in limbs..LIMBS {
            let low = if bits > 0 && n > limbs { self.0[n - limbs - 1] >> (64 - bits) } else { 0 };
            made[n] = self.0[n - limbs] << bits | low;
        }
        Fixed(made)
    }

    /// Half the number, so many times.
    pub fn right(self, bits: u32) -> Fixed {
        let (limbs, bits) = ((bits / 64) as usize, bits % 64);
        let mut made = [0; LIMBS];
        for n in 0..LIMBS.saturating_sub(limbs) {
            let at = n + limbs;
            let high = if bits > 0 && at + 1 < LIMBS { self.0[at + 1] << (64 - bits) } else { 0 };
            made[n] = self.0[at] >> bits | high;
        }
        Fixed(made)
    }

    /// Bits up to the highest one that is set.
    fn bits(self) -> u32 {
        let highest = self.0.iter().rposition(|limb| *limb != 0);
        highest.map_or(0, |n| 64 * (n as u32 + 1) - self.0[n].leading_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_roots_are_cut_off() {
        let (three, seven) = (Fixed::whole(3), Fixed::whole(7));
        let third = Fixed::ONE.divided(three).unwrap();
        assert_eq!(third, behind_point(0, [0x5555_5555_5555_5555; 4]));
        assert_eq!(third, Fixed::ONE.over(3));
        assert_eq!(Fixed::whole(42).divided(seven), Some(Fixed::whole(6)));
        assert_eq!(Fixed::whole(u128::MAX).divided(Fixed([1, 0, 0, 0, 0, 0, 0, 0])), None);
        assert_eq!(Fixed::ZERO.divided(seven), Some(Fixed::ZERO));
        let of = |n: u64| Fixed([n, 0, 0, 0, 0, 0, 0, 0]);
        for (n, root) in [(0, 0), (1, 1), (3, 1), (4, 2), (99, 9), (100, 10), (u64::MAX, u64::from(u32::MAX))]
        {
            assert_eq!(of(n).root_of_bits(), of(root), "{n}");
        }
    }

    #[test]
    fn what_is_shifted_comes_back() {
        let n = Fixed::whole(0x1234_5678_9abc_def0);
        assert_eq!(n.left(70).right(70), n);
        assert_eq!(n.right(200).left(200), n);
        assert_eq!(n.right(512), Fixed::ZERO);
    }
}
