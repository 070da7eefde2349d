//! Numbers: the text that was written, compared by value whatever their size and notation. An `f64` would
//! call two neighbouring big integers equal, and the text alone would call `1` and `1.0` different.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::text::Text;

/// A JSON number of any size, kept as it was written: `1E400`, `0.10` and `-0` stay what they are.
///
/// Numbers are equal by value: `1`, `1.0` and `10e-1` are equal.
#[derive(Clone)]
pub struct Number(Text);

impl Number {
    /// A number of text that the parser has checked.
    pub(super) fn checked(text: &str) -> Self {
        Self(text.into())
    }

    /// A float as serde_json writes it, in its shortest notation; `None` for infinity and NaN, which JSON
    /// does not have.
    pub fn from_f64(float: f64) -> Option<Self> {
        serde_json::Number::from_f64(float).map(|number| Self::checked(&number.to_string()))
    }

    /// The number as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The number as an integer, if it is written as one and fits.
    pub(super) fn as_i64(&self) -> Option<i64> {
        self.as_str().parse().ok()
    }

    /// The number as an integer, if it is written as one and fits.
    pub(super) fn as_u64(&self) -> Option<u64> {
        self.as_str().parse().ok()
    }

    pub(super) fn as_i128(&self) -> Option<i128> {
        self.as_str().parse().ok()
    }

    /// The nearest float, if the number is not beyond all of them.
    pub(super) fn as_f64(&self) -> Option<f64> {
        self.as_str().parse().ok().filter(|float: &f64| float.is_finite())
    }

    /// The sum: exact for integers within `i128`, else as `f64`. None if it is beyond both.
    pub(super) fn add(&self, other: &Self) -> Option<Self> {
        let exact = self.as_i128().zip(other.as_i128()).and_then(|(a, b)| a.checked_add(b));
        match exact {
            Some(sum) => Some(sum.into()),
            None => Self::from_f64(self.as_f64()? + other.as_f64()?),
        }
    }

    /// Compares by value.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        Decimal::new(self).compare(&Decimal::new(other))
    }

    /// Whether both are written alike.
    pub(super) fn is_written_as(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    pub(super) fn text(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// As JSON.
impl fmt::Debug for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.is_written_as(other) || Decimal::new(self) == Decimal::new(other)
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Decimal::new(self).hash(state);
    }
}

/// A decimal number in one form per value: `0.<digits> * 10^point`, negated if `negative`.
/// The digits have no zero at either end. Zero has no digits, point 0, and no sign.
#[derive(PartialEq, Eq, Hash)]
struct Decimal {
    negative: bool,
    point: i128,
    digits: Vec<u8>,
}

impl Decimal {
    fn new(number: &Number) -> Self {
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
        let point = exponent_value(exponent) + signed(whole.len()) - signed(zeros);
        Self { negative, point, digits }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        // Without zeros in front, the point decides; then the digits, as words in a dictionary.
        let size = (self.point, &self.digits).cmp(&(other.point, &other.digits));
        let size = if self.negative { size.reverse() } else { size };
        sign(self).cmp(&sign(other)).then(size)
    }
}

/// An exponent of 38 digits and more is cut to the largest one that cannot overflow later.
fn exponent_value(text: &str) -> i128 {
    let limit = i128::MAX / 2;
    let beyond = if text.starts_with('-') { -limit } else { limit };
    text.parse().map_or(beyond, |exponent: i128| exponent.clamp(-limit, limit))
}

fn signed(count: usize) -> i128 {
    i128::try_from(count).unwrap_or(i128::MAX / 4)
}
