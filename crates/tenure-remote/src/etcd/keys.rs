//! The keys of a store, all below its prefix.
//!
//! | key | value | lives |
//! |---|---|---|
//! | `meta` | the format, the cluster, the epoch | for ever |
//! | `f NAME` | empty: its mod revision is the newest fence | until the target is removed |
//! | `o NAME` | the holder | from the grant to an orderly end: it outlives a holder that died and a lease that expired |
//! | `l NAME` | the ticket that has the hold | with the etcd lease of the holder's session, or of the lease |
//! | `q NAME // TICKET` | who waits; the create revision is the place in the queue | with the etcd lease of the session |
//! | `d NAME` | the document, byte for byte | until the target is removed |
//! | `t NAME // d` | when the document changed; its mod revision counts changes | with the document |
//! | `t NAME // j` | when the journal changed, and its next number | with the journal |
//! | `e NAME // NUMBER` | a batch: lines with the first one's number in the key, separated by newlines | with the journal |
//! | `p NAME // OPERATION` | what an operation did | until newer ones push it out |
//! | `v NAME // TICKET` | an event | until newer ones push it out |
//! | `r / ID` | a commit that is done, or one that must not happen any more | some minutes |
//!
//! A name begins with a slash and has neither two of them in a row nor one at its end, so `//` ends it.

use super::txn::Span;

/// The keys of one store.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Ends with a slash.
    prefix: String,
}

/// The keys of one target.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) fence: Vec<u8>,
    pub(super) owner: Vec<u8>,
    pub(super) alive: Vec<u8>,
    pub(super) queue: Span,
    pub(super) document: Vec<u8>,
    pub(super) touched: Span,
    pub(super) document_touched: Vec<u8>,
    pub(super) head: Vec<u8>,
    pub(super) entries: Span,
    pub(super) operations: Span,
    pub(super) events: Span,
}

/// The range of all keys that begin with this text.
fn below(text: String) -> Span {
    let start = text.into_bytes();
    let mut end = start.clone();
    if let Some(last) = end.last_mut() {
        *last += 1; // It ends with a slash.
    }
    (start, end)
}

/// A key of a range of [`below`].
fn inside(span: &Span, rest: &str) -> Vec<u8> {
    [&span.0, rest.as_bytes()].concat()
}

impl Layout {
    pub(super) fn new(path: &str) -> Self {
        let prefix = if path.is_empty() { "/".to_owned() } else { format!("/{path}/") };
        Self { prefix }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn meta(&self) -> Vec<u8> {
        format!("{}meta", self.prefix).into_bytes()
    }

    /// The record of a commit.
    pub(super) fn receipt(&self, id: &str) -> Vec<u8> {
        format!("{}r/{id}", self.prefix).into_bytes()
    }

    fn key(&self, kind: char, name: &str) -> Vec<u8> {
        format!("{}{kind}{name}", self.prefix).into_bytes()
    }

    fn span(&self, kind: char, name: &str) -> Span {
        below(format!("{}{kind}{name}//", self.prefix))
    }

    pub(super) fn of(&self, name: &str) -> Keys {
        let touched = self.span('t', name);
        Keys {
            fence: self.key('f', name),
            owner: self.key('o', name),
            alive: self.key('l', name),
            queue: self.span('q', name),
            document: self.key('d', name),
            document_touched: inside(&touched, "d"),
            head: inside(&touched, "j"),
            touched,
            entries: self.span('e', name),
            operations: self.span('p', name),
            events: self.span('v', name),
        }
    }

    /// All keys of a kind whose names are below this directory.
    pub(super) fn directory(&self, kind: char, directory: &str) -> Span {
        below(format!("{}{kind}{}/", self.prefix, directory.trim_end_matches('/')))
    }

    /// The name in a key.
    pub(super) fn name_of(&self, key: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?.get(1..)?;
        Some(text.split("//").next().unwrap_or(text).to_owned())
    }
}

impl Keys {
    /// The place of a ticket in the queue.
    pub(super) fn place(&self, ticket: &str) -> Vec<u8> {
        inside(&self.queue, ticket)
    }

    /// The batch that begins with this number.
    pub(super) fn batch(&self, first: u64) -> Vec<u8> {
        inside(&self.entries, &format!("{first:020}"))
    }

    /// The number in the key of a batch.
    pub(super) fn number_of(&self, key: &[u8]) -> Option<u64> {
        std::str::from_utf8(key.strip_prefix(self.entries.0.as_slice())?).ok()?.parse().ok()
    }

    pub(super) fn operation(&self, id: &str) -> Vec<u8> {
        inside(&self.operations, id)
    }

    pub(super) fn event(&self, id: &str) -> Vec<u8> {
        inside(&self.events, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_again_in_its_keys() {
        for path in ["", "a", "a/b"] {
            let layout = Layout::new(path);
            for name in ["/x", "/x/y.json", "/-", "/\u{e4} b"] {
                let keys = layout.of(name);
                let all = [&keys.fence, &keys.owner, &keys.head, &keys.batch(7), &keys.place("t")];
                for key in all {
                    assert_eq!(layout.name_of(key).as_deref(), Some(name));
                }
                assert_eq!(keys.number_of(&keys.batch(12)), Some(12));
                assert_eq!(keys.number_of(&keys.fence), None);
            }
        }
    }

    #[test]
    fn the_range_of_a_name_has_the_keys_of_no_other_name() {
        let layout = Layout::new("a");
        let keys = layout.of("/x");
        let has = |key: &Vec<u8>| keys.queue.0 <= *key && *key < keys.queue.1;
        assert!(has(&keys.place("0")) && has(&keys.place("ffff")));
        for other in ["/x/y", "/x0", "/x/-", "/w", "/x."] {
            assert!(!has(&layout.of(other).place("0")), "{other}");
        }
    }
}
