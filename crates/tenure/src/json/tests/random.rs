//! Random documents from a seed, small enough that keys and values often meet.

use crate::json::{Object, Value};

/// SplitMix64: good enough to spread cases, and the same on every machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % (limit as u64)).expect("below a usize")
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number in any notation that JSON allows.
    pub(super) fn number(&mut self) -> Value {
        let mut text = self.pick(&["", "-"]).to_owned();
        text += self.pick(&["0", "1", "7", "10", "12345678901234567890123", "9007199254740993"]);
        text += self.pick(&["", "", ".0", ".5", ".1000", ".00000000000000000000000000001"]);
        text += self.pick(&["", "", "e0", "E5", "e+5", "E-2", "e400", "E+00", "e-400"]);
        Value::Number(text.parse().expect("a number"))
    }

    pub(super) fn integer(&mut self) -> Value {
        let size = i128::from(self.pick(&[1_i64, 1000, i64::MAX]));
        let spread = i128::try_from(self.below(1000)).expect("below 1000");
        let sign = self.pick(&[1_i128, -1]);
        Value::from(sign * size * spread)
    }

    pub(super) fn string(&mut self) -> String {
        self.pick(&[
            "",
            "a",
            "quote \" and \\ and 1e5",
            "\\\\",
            "x\"",
            "\\\"",
            "\u{1F600} \u{e9}",
            "\n\t\u{0}\u{7f}",
            "1E9",
            "$serde_json::private::Number",
        ])
        .to_owned()
    }

    pub(super) fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::String(self.string()),
            3 | 4 => self.number(),
            5 => self.array(depth),
            _ => self.object(depth),
        }
    }

    pub(super) fn array(&mut self, depth: usize) -> Value {
        Value::Array((0..self.below(5)).map(|_| self.value(depth.saturating_sub(1))).collect())
    }

    pub(super) fn object(&mut self, depth: usize) -> Value {
        let mut object = Object::new();
        for _ in 0..self.below(6) {
            let key = match self.below(3) {
                0 => self.string(),
                _ => self.pick(&["a", "b", "c", "d", "z"]).to_owned(),
            };
            object.insert(key, self.value(depth.saturating_sub(1)));
        }
        Value::Object(object)
    }
}
