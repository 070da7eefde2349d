//! The text of a source file with all of its mutants, each behind a check at run time.
//!
//! # Invariants
//!
//! 1. A mutant is text before and after a range of the original. Ranges nest or are disjoint; the
//!    original text itself is never changed.
//! 2. The position of every mutant in the new text is known, to find the one that the compiler
//!    rejects.

use std::ops::Range;

use crate::points::Point;

/// A file with its mutants.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    /// Where the mutants are now.
    pub(crate) places: Vec<Place>,
}

/// Where a mutant is in the new text.
#[derive(Debug, Default, Clone)]
pub(crate) struct Place {
    pub(crate) number: u32,
    /// What was added before and after the original text.
    before: Range<usize>,
    after: Range<usize>,
}

impl Place {
    /// Whether these bytes are in the added text.
    fn added(&self, bytes: &Range<usize>) -> bool {
        let within = |part: &Range<usize>| part.start <= bytes.start && bytes.end <= part.end;
        within(&self.before) || within(&self.after)
    }

    /// Whether these bytes are in the mutant at all.
    fn spans(&self, bytes: &Range<usize>) -> bool {
        self.before.start <= bytes.start && bytes.end <= self.after.end
    }

    fn length(&self) -> usize {
        self.after.end - self.before.start
    }
}

impl Rewritten {
    /// Inserts the mutants into the text.
    pub(crate) fn new(text: &str, points: &[&Point]) -> Self {
        let mut places: Vec<Place> =
            points.iter().map(|point| Place { number: point.number, ..Place::default() }).collect();
        let mut opening: Vec<usize> = (0..points.len()).collect();
        // The outer one opens first and closes last.
        opening.sort_by_key(|&index| {
            let range = &points[index].range;
            (range.start, std::cmp::Reverse(range.end), index)
        });
        let mut new = String::with_capacity(text.len() * 2);
        let (mut copied, mut open): (usize, Vec<usize>) = (0, Vec::new());
        for index in opening {
            let start = points[index].range.start;
            close(text, points, start, &mut new, &mut copied, &mut open, &mut places);
            new.push_str(&text[copied..start]);
            copied = start;
            places[index].before = append(&mut new, &points[index].before);
            open.push(index);
        }
        close(text, points, text.len(), &mut new, &mut copied, &mut open, &mut places);
        new.push_str(&text[copied..]);
        Self { text: new, places }
    }

    /// The mutant that causes an error at these bytes: the one whose added text contains them, or
    /// the innermost one around them.
    pub(crate) fn culprit(&self, bytes: &Range<usize>) -> Option<u32> {
        let of = |found: Option<&Place>| found.map(|place| place.number);
        let innermost = |places: &mut dyn Iterator<Item = &Place>| {
            of(places.min_by_key(|place| place.length()))
        };
        innermost(&mut self.places.iter().filter(|place| place.added(bytes)))
            .or_else(|| innermost(&mut self.places.iter().filter(|place| place.spans(bytes))))
    }

    /// The mutants that begin in these bytes.
    pub(crate) fn within(&self, bytes: &Range<usize>) -> Vec<u32> {
        let begins = |place: &&Place| bytes.contains(&place.before.start);
        self.places.iter().filter(begins).map(|place| place.number).collect()
    }
}

/// Ends the open mutants that end at or before `until`.
fn close(
    text: &str,
    points: &[&Point],
    until: usize,
    new: &mut String,
    copied: &mut usize,
    open: &mut Vec<usize>,
    places: &mut [Place],
) {
    while let Some(&index) = open.last() {
        let end = points[index].range.end;
        if end > until {
            break;
        }
        open.pop();
        new.push_str(&text[*copied..end]);
        *copied = end;
        places[index].after = append(new, &points[index].after);
    }
}

fn append(text: &mut String, more: &str) -> Range<usize> {
    let start = text.len();
    text.push_str(more);
    start..text.len()
}

#[cfg(test)]
mod tests {
    use super::Rewritten;
    use crate::points::Point;

    fn point(number: u32, range: std::ops::Range<usize>) -> Point {
        Point {
            number,
            file: String::new(),
            line: 1,
            within: String::new(),
            what: String::new(),
            range,
            before: format!("<{number} "),
            after: ">".to_owned(),
        }
    }

    #[test]
    fn mutants_nest_and_are_found_again_by_their_bytes() {
        let points = [point(1, 0..5), point(2, 0..1), point(3, 2..5), point(4, 6..6)];
        let new = Rewritten::new("a + b c", &points.iter().collect::<Vec<_>>());
        assert_eq!(new.text, "<1 <2 a> <3 + b>> <4 >c");
        assert_eq!(new.culprit(&(6..7)), Some(2)); // `a`
        assert_eq!(new.culprit(&(0..2)), Some(1)); // Its own text.
        assert_eq!(new.culprit(&(22..23)), None); // `c`
        assert_eq!(new.within(&(4..12)), [3]);
    }
}
