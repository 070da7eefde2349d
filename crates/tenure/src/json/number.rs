//! Numbers compared by value, whatever their size and notation. An `f64` would call two neighbouring
//! big integers equal, and the text alone would call `1` and `1.0` different.

use std::cmp::Ordering;

use serde_json::Number;

/// A decimal number in one form per value: `0.<digits> * 10^point`, negated if `negative`.
/// The digits have no zero at either end. Zero has no digits, point 0, and no sign.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    negative: bool,
    point: i128,
    digits: Vec<u8>,
}

impl Decimal {
    pub(super) fn new(number: &Number) -> Self {
        let text = number.as_str();
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let negative = mantissa.starts_with('-');
        let mantissa = mantissa.trim_start_matches('-');
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));

        let mut digits = [whole, fraction].concat().into_bytes();
        digits.truncate(digits.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1));
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        digits.drain(..zeros);
        if digits.is_empty() {
            return Self { negative: false, point: 0, digits };
        }
        Self { negative, point: exponent_value(exponent) + length(whole) - signed(zeros), digits }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            // Without zeros in front, the point decides; then the digits, as words in a dictionary.
            let size = self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
            if self.negative { size.reverse() } else { size }
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) fn compare(left: &Number, right: &Number) -> Ordering {
    Decimal::new(left).cmp(&Decimal::new(right))
}

/// The sum: exact for integers within `i128`, else as `f64`. None if it is beyond both.
pub(super) fn add(left: &Number, right: &Number) -> Option<Number> {
    let exact = left.as_i128().zip(right.as_i128()).and_then(|(a, b)| a.checked_add(b));
    match exact {
        Some(sum) => Number::from_i128(sum),
        None => Number::from_f64(left.as_f64()? + right.as_f64()?),
    }
}

/// An exponent of 38 digits and more is cut to the largest one that cannot overflow later.
fn exponent_value(text: &str) -> i128 {
    let limit = i128::MAX / 2;
    let beyond = if text.starts_with('-') { -limit } else { limit };
    text.parse().map_or(beyond, |exponent: i128| exponent.clamp(-limit, limit))
}

fn length(text: &str) -> i128 {
    signed(text.len())
}

fn signed(count: usize) -> i128 {
    i128::try_from(count).unwrap_or(i128::MAX / 4)
}
