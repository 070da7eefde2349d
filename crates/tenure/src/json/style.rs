//! How a document is laid out, seen from its text: what a change adds looks like what is there.

/// A wider indent is no habit of any writer; it is not taken over.
const MAX_INDENT: usize = 16;

/// How far the first separator of a one-line document is searched for.
const HEAD: usize = 4096;

/// How a document is laid out.
#[derive(Clone, Copy)]
pub(super) struct Style<'s> {
    /// One member per line, indented by this per level; `None` if all is on one line.
    pub(super) unit: Option<&'s [u8]>,
    pub(super) newline: &'s [u8],
    /// After a colon, and after a comma on one line.
    pub(super) space: &'s [u8],
}

/// The place of a value: what its line begins with (copied whitespace, then so many units of the
/// style), or `None` if it shares its line with the rest of its container.
pub(super) type Place<'s> = Option<(&'s [u8], usize)>;

impl<'s> Style<'s> {
    /// Two spaces: what people and `git diff` read best.
    pub(super) const DEFAULT: Self = Self { unit: Some(b"  "), newline: b"\n", space: b" " };

    /// The style of a text, from the first value inside the outermost array or object. What the text
    /// does not show (`{}` has no indent) is as in the default.
    pub(super) fn detect(text: &'s [u8]) -> Self {
        let space_of =
            |text: &[u8]| text.iter().take(HEAD).position(|byte| !byte.is_ascii_whitespace());
        let Some(open) = space_of(text).filter(|open| matches!(text[*open], b'{' | b'[')) else {
            return Self::DEFAULT;
        };
        let inside = &text[open + 1..];
        let Some(gap) = space_of(inside).filter(|gap| !matches!(inside[*gap], b'}' | b']')) else {
            return Self::DEFAULT;
        };
        let (gap, inside) = inside.split_at(gap);
        let Some(line_end) = gap.iter().rposition(|&byte| byte == b'\n') else {
            return Self { unit: None, space: first_space(inside), ..Self::DEFAULT };
        };
        let (line_end, unit) = gap.split_at(line_end + 1);
        let newline = if line_end.ends_with(b"\r\n") { &b"\r\n"[..] } else { b"\n" };
        let unit = if unit.len() <= MAX_INDENT { Some(unit) } else { Self::DEFAULT.unit };
        Self { unit, newline, ..Self::DEFAULT }
    }

    /// The place of the whole document.
    pub(super) fn line(&self) -> Place<'s> {
        self.unit.map(|_| (&b""[..], 0))
    }
}

/// The space behind the first `:` or `,` that is not part of a string.
fn first_space(text: &[u8]) -> &'static [u8] {
    let mut in_string = false;
    let mut bytes = text.iter().take(HEAD);
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => drop(bytes.next()),
            b':' | b',' if !in_string => {
                return if bytes.next() == Some(&b' ') { b" " } else { b"" };
            }
            _ => {}
        }
    }
    b""
}
