//! Lines that another tool appends to a simulated journal: each of them is one entry, once.

use std::io;

use tenure::fs::Handle;
use tenure::outcome::Entry;
use tenure_testkit::Random;

/// The lines, and what must be true of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForeignLines {
    lines: Vec<Line>,
    next_id: u64,
    /// The file was cut, and no writer has seen that. If it grows beyond its old length before,
    /// that cannot be detected (a limit).
    is_cut: bool,
}

#[derive(Debug, Clone)]
struct Line {
    id: u64,
    text: String,
    /// It was appended whole, and nothing since may have removed it.
    whole: bool,
    /// A write came after it: it has a number.
    adopted: bool,
}

impl ForeignLines {
    /// Appends a line, now and then without a newline, in one write.
    pub(crate) fn append(&mut self, file: &dyn Handle, random: &mut Random) -> io::Result<()> {
        let open = random.chance(32);
        self.write(file, random, open)
    }

    /// Appends a line to the newest archive.
    pub(crate) fn append_late(&mut self, file: &dyn Handle, random: &mut Random) -> io::Result<()> {
        self.write(file, random, false)
    }

    fn write(&mut self, file: &dyn Handle, random: &mut Random, open: bool) -> io::Result<()> {
        if self.is_cut {
            return Ok(());
        }
        let id = self.next_id;
        self.next_id += 1;
        let long = if random.chance(16) { 700 } else { 24 };
        let text = format!("F {id} {}", "y".repeat(random.index(long)));
        // The tool closes a line that it finds unterminated; otherwise two lines would become one.
        let size = file.extent()?.size;
        let is_open = size > 0 && file.read_range(size - 1, size)? != b"\n";
        let (begin, end) = (if is_open { "\n" } else { "" }, if open { "" } else { "\n" });
        self.lines.push(Line { id, text: text.clone(), whole: false, adopted: false });
        let bytes = [begin, &text, end].concat();
        let (written, _) = file.append(bytes.as_bytes())?;
        if let Some(line) = self.lines.last_mut().filter(|_| written == bytes.len()) {
            line.whole = true;
        }
        Ok(())
    }

    /// A write was acknowledged: it has adopted every line, and closed an unterminated one.
    pub(crate) fn are_adopted(&mut self) {
        self.is_cut = false;
        self.lines.iter_mut().for_each(|line| line.adopted = true);
    }

    /// None of them was synced.
    pub(crate) fn lose_power(&mut self) {
        self.lines.iter_mut().for_each(|line| line.whole = false);
    }

    /// Another tool has cut the file.
    pub(crate) fn are_cut(&mut self) {
        self.is_cut = true;
        self.lose_power();
    }

    /// Each is there at most once; a whole one is an entry when a write came after it.
    pub(crate) fn judge(&self, entries: &[Entry], pending: &[Vec<u8>]) -> Result<(), String> {
        let all = entries.iter().map(|entry| &entry.line).chain(pending);
        let all: Vec<&[u8]> =
            all.map(Vec::as_slice).filter(|line| line.starts_with(b"F ")).collect();
        for line in &self.lines {
            let found = all.iter().filter(|found| **found == line.text.as_bytes()).count();
            if found > 1 || (found == 0 && line.whole && line.adopted) {
                return Err(format!("{found} times: {line:?}"));
            }
            let begins = format!("F {} ", line.id);
            let torn = |found: &&&[u8]| found.starts_with(begins.as_bytes());
            if found == 1 && all.iter().filter(torn).count() > 1 {
                return Err(format!("a part of it, too: {line:?}"));
            }
        }
        Ok(())
    }
}
