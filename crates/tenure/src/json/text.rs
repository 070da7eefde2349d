//! Keys and the text of numbers: most are short, and a short one needs no allocation.

/// How many bytes are kept in place: a text is then as large as a `String`.
const SHORT_MAX: usize = 22;

/// A text has exactly one form, so the derived comparison is that of the texts.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Text {
    /// The length, the bytes up to it, and zeros.
    Short(u8, [u8; SHORT_MAX]),
    Long(Box<str>),
}

impl Text {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(length, bytes) => &bytes[..usize::from(*length)],
            Self::Long(text) => text.as_bytes(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            // The bytes came from a `str`: the check never fails.
            Self::Short(..) => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Self::Long(text) => text,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        match u8::try_from(text.len()) {
            Ok(length) if text.len() <= SHORT_MAX => {
                let mut bytes = [0; SHORT_MAX];
                bytes[..text.len()].copy_from_slice(text.as_bytes());
                Self::Short(length, bytes)
            }
            _ => Self::Long(text.into()),
        }
    }
}
