//! Lines: what an entry is, and how many there are in a range of the file.
//!
//! An entry is a line that is not blank. Blank lines (spaces, tabs, carriage returns and the NULs that
//! a power loss leaves in unsynced files) are skipped and never numbered.

use std::io;

use crate::checksum;
use crate::fs::Handle;

/// How much is read at a time.
pub(super) const CHUNK_BYTES: usize = 128 * 1024;

/// Nothing but white space and NULs.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0))
}

/// Counts entries in bytes that come in pieces.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count {
    /// Entries whose newline was seen.
    pub(super) closed: u64,
    /// The bytes after the last newline are not blank.
    ink: bool,
    /// There are bytes after the last newline.
    open: bool,
}

impl Count {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', bytes) {
            if self.ink || !is_blank(&bytes[start..newline]) {
                self.closed += 1;
            }
            (self.ink, self.open) = (false, false);
            start = newline + 1;
        }
        if start < bytes.len() {
            self.open = true;
            self.ink = self.ink || !is_blank(&bytes[start..]);
        }
    }

    /// Entries, the unterminated one included.
    pub(super) fn entries(self) -> u64 {
        self.closed + u64::from(self.ink)
    }

    /// The last line has no newline.
    pub(super) fn is_open(self) -> bool {
        self.open
    }

    /// What is in `[start, end)` of a file. Memory does not grow with the range.
    pub(super) fn between(file: &dyn Handle, start: u64, end: u64) -> io::Result<Self> {
        let (mut count, mut at) = (Self::default(), start);
        while at < end {
            let bytes = file.read_range(at, end.min(at + CHUNK_BYTES as u64))?;
            if bytes.is_empty() {
                break; // Somebody cut the file.
            }
            count.feed(&bytes);
            at += bytes.len() as u64;
        }
        Ok(count)
    }

    /// The number of entries in `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut count = Self::default();
        count.feed(bytes);
        count
    }
}

/// A range of the file with its entries counted and its bytes summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) entries: u64,
    pub(super) sum: u64,
}

/// Cuts `[start, end)` into ranges of about `target_bytes` that end at a newline (the last one where
/// the range ends), each counted and summed. Memory does not grow with the range.
pub(super) fn measure(
    file: &dyn Handle,
    start: u64,
    end: u64,
    target_bytes: u64,
    mut each: impl FnMut(Measured) -> io::Result<()>,
) -> io::Result<()> {
    let mut buf = vec![0; CHUNK_BYTES.min(usize::try_from(end - start).unwrap_or(CHUNK_BYTES))];
    let (mut at, mut from) = (start, start);
    let (mut count, mut sum) = (Count::default(), checksum::Running::default());
    while at < end {
        let want = buf.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let read = file.read_full_at(&mut buf[..want], at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut chunk = &buf[..read];
        while !chunk.is_empty() {
            // How far this range still goes before it may be cut.
            let left = target_bytes.saturating_sub(at - from);
            let left = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            let cut = match memchr::memchr(b'\n', &chunk[left..]) {
                Some(newline) => left + newline + 1,
                None => chunk.len(),
            };
            let is_cut = left < chunk.len() && chunk[cut - 1] == b'\n';
            count.feed(&chunk[..cut]);
            sum.update(&chunk[..cut]);
            at += cut as u64;
            chunk = &chunk[cut..];
            if is_cut || at == end {
                each(Measured {
                    start: from,
                    end: at,
                    entries: count.entries(),
                    sum: sum.finish(),
                })?;
                (from, count, sum) = (at, Count::default(), checksum::Running::default());
            }
        }
    }
    Ok(())
}

/// The end of the last complete line in `[start, end)`; `start` if there is none.
pub(super) fn last_line_end(file: &dyn Handle, start: u64, end: u64) -> io::Result<u64> {
    let mut at = end;
    while at > start {
        let from = at.saturating_sub(CHUNK_BYTES as u64).max(start);
        let bytes = file.read_range(from, at)?;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            return Ok(from + newline as u64 + 1);
        }
        at = from;
    }
    Ok(start)
}

/// Behind the first newline in `[start, end)`; `end` if there is none.
pub(super) fn line_end(file: &dyn Handle, start: u64, end: u64) -> io::Result<u64> {
    let mut at = start;
    while at < end {
        let bytes = file.read_range(at, end.min(at + CHUNK_BYTES as u64))?;
        if let Some(newline) = memchr::memchr(b'\n', &bytes) {
            return Ok(at + newline as u64 + 1);
        }
        if bytes.is_empty() {
            break; // Somebody cut the file.
        }
        at += bytes.len() as u64;
    }
    Ok(end)
}

/// The line that stands open at `end`, counted; it begins at `start` or later.
pub(super) fn open_line(file: &dyn Handle, start: u64, end: u64) -> io::Result<Count> {
    Count::between(file, last_line_end(file, start, end)?, end)
}

/// Whether the byte before `end` is something else than a newline.
pub(super) fn is_open_at(file: &dyn Handle, end: u64) -> io::Result<bool> {
    if end == 0 {
        return Ok(false);
    }
    let last = file.read_range(end - 1, end)?;
    Ok(last.first().is_some_and(|byte| *byte != b'\n'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::fs::{Access, disk};

    use super::*;

    /// A file with these bytes and no name.
    fn file(bytes: &[u8]) -> Arc<dyn Handle> {
        let name = format!("tenure-lines-{}", crate::random::number().unwrap());
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        let file = disk().open(&path, Access::CreateNew(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        disk().remove(&path).unwrap();
        file
    }

    fn entries(bytes: &[u8]) -> u64 {
        bytes.split(|byte| *byte == b'\n').filter(|line| !is_blank(line)).count() as u64
    }

    /// The same ranges, found one byte after the other.
    fn cut(bytes: &[u8], start: usize, target: usize) -> Vec<Measured> {
        let mut found = Vec::new();
        let mut from = start;
        for at in start..bytes.len() {
            let far = at - from >= target && bytes[at] == b'\n';
            if far || at + 1 == bytes.len() {
                let range = &bytes[from..=at];
                let (entries, sum) = (entries(range), checksum::of(range));
                let (start, end) = (from as u64, at as u64 + 1);
                found.push(Measured { start, end, entries, sum });
                from = at + 1;
            }
        }
        found
    }

    #[test]
    fn ranges_end_at_newlines_and_are_counted_and_summed() {
        let lens =
            [0, 1, 5, 999, CHUNK_BYTES - 1, 3, 0, CHUNK_BYTES, 2 * CHUNK_BYTES + 7, 60_000, 0];
        let mut long: Vec<u8> =
            lens.iter().flat_map(|len| [vec![b'x'; *len], vec![b'\n']].concat()).collect();
        long.extend_from_slice(b"  \n\t\0\n open");
        // A newline at the end of what is read at a time, before a range is long enough.
        let edge = [vec![b'x'; CHUNK_BYTES - 1], b"\nx\n".to_vec()].concat();
        for bytes in [long.as_slice(), b"", b"\n", b"a", b"a\nb\n", b"a\n\n\nb", &edge] {
            for target in [0, 1, 2, 1000, CHUNK_BYTES - 1, CHUNK_BYTES, 200_000, 1 << 40] {
                for start in [0, 1, 700].into_iter().filter(|start| *start <= bytes.len()) {
                    // What comes behind the range is not in it.
                    let (file, mut found) = (file(&[bytes, b"more\n"].concat()), Vec::new());
                    let end = bytes.len() as u64;
                    let each = |range| {
                        found.push(range);
                        Ok(())
                    };
                    measure(file.as_ref(), start as u64, end, target as u64, each).unwrap();
                    assert_eq!(found, cut(bytes, start, target), "{start} {end} {target}");
                }
            }
        }
        let short = measure(file(b"a\n").as_ref(), 0, 9, 1, |_| Ok(()));
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn entries_are_counted_wherever_the_pieces_end() {
        let bytes = b"a\n\n \t\r\0\nbc\n \n d\n\0e";
        let whole = Count::of(bytes);
        assert_eq!((whole.closed, whole.entries(), whole.is_open()), (3, 4, true));
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut count = Count::default();
                for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    count.feed(piece);
                }
                assert_eq!((count.closed, count.entries()), (3, 4), "{first} {second}");
                let part = Count::of(&bytes[..second]);
                assert_eq!(part.entries(), entries(&bytes[..second]), "{second}");
                assert_eq!(part.is_open(), second > 0 && bytes[second - 1] != b'\n', "{second}");
            }
        }
    }

    #[test]
    fn the_last_line_is_found_from_the_end() {
        let far = [b"ab\ncd\n".as_slice(), &vec![b'x'; 2 * CHUNK_BYTES + 5]].concat();
        let edge = [vec![b'x'; 9], vec![b'\n'], vec![b'x'; CHUNK_BYTES]].concat();
        for bytes in [far.as_slice(), &edge, b"", b"\n", b"a", b"a\n", b"a\nb", b"\n\nbcd"] {
            let (file, end) = (file(bytes), bytes.len() as u64);
            for start in [0, 1, 3, 6, 10].into_iter().filter(|start| *start <= bytes.len()) {
                let newline = bytes[start..].iter().rposition(|byte| *byte == b'\n');
                let expected = newline.map_or(start, |at| start + at + 1) as u64;
                let found = last_line_end(file.as_ref(), start as u64, end).unwrap();
                assert_eq!(found, expected, "{start} {end}");
            }
            let open = bytes.last().is_some_and(|byte| *byte != b'\n');
            assert_eq!(is_open_at(file.as_ref(), end).unwrap(), open);
        }
        assert!(!is_open_at(file(b"a\nb").as_ref(), 2).unwrap());
        assert!(!is_open_at(file(b"cut").as_ref(), 9).unwrap());
    }

    #[test]
    fn a_line_is_followed_to_its_end_and_counted_from_its_beginning() {
        let long = [b"ab\n \n".as_slice(), &vec![b'x'; 2 * CHUNK_BYTES + 5], b"\nrest"].concat();
        let blank = [b"ab\n".as_slice(), &vec![b' '; CHUNK_BYTES + 1]].concat();
        for bytes in [long.as_slice(), &blank, b"", b"a", b"a\n", b"a\nb\n", b"\n\nb"] {
            let (file, end) = (file(bytes), bytes.len() as u64);
            for start in [0, 1, 2, 3, 6, CHUNK_BYTES, CHUNK_BYTES + 4] {
                let Some(rest) = bytes.get(start..) else { continue };
                let newline = rest.iter().position(|byte| *byte == b'\n');
                let expected = newline.map_or(end, |at| (start + at) as u64 + 1);
                assert_eq!(line_end(file.as_ref(), start as u64, end).unwrap(), expected);
                let far = end + 9;
                let cut = newline.map_or(far, |_| expected);
                assert_eq!(line_end(file.as_ref(), start as u64, far).unwrap(), cut, "cut");
                let line = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
                let line = &line[line.len().saturating_sub(rest.len())..];
                let count = open_line(file.as_ref(), start as u64, end).unwrap();
                let inked = u64::from(!is_blank(line));
                assert_eq!((count.entries(), count.is_open()), (inked, !line.is_empty()));
            }
        }
    }

    #[test]
    fn a_range_is_counted_as_far_as_it_is_there() {
        let bytes = [b"ab\n\ncd\n".as_slice(), &vec![b'x'; CHUNK_BYTES], b"\n\n\nopen"].concat();
        let (file, end) = (file(&bytes), bytes.len() as u64);
        for (start, until) in [(0, 0), (0, 3), (0, 5), (1, 9), (5, end - 1), (0, end), (3, end + 9)]
        {
            let count = Count::between(file.as_ref(), start, until).unwrap();
            let cut = |at: u64| usize::try_from(at.min(end)).unwrap();
            let whole = Count::of(&bytes[cut(start)..cut(until)]);
            let told = |count: &Count| (count.closed, count.entries(), count.is_open());
            assert_eq!(told(&count), told(&whole), "{start} {until}");
        }
    }
}
