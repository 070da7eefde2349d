//! A value per process, also across `fork`.
//!
//! A forked child sees its parent's memory, with mutexes that other threads may have held at the
//! fork. It gets a fresh value instead and never touches the parent's.

use std::sync::OnceLock;

use crate::sys;

/// A value that a forked child starts anew.
#[derive(Debug)]
pub struct ProcessLocal<T: 'static> {
    first: OnceLock<Node<T>>,
}

#[derive(Debug)]
struct Node<T: 'static> {
    process: u32,
    value: T,
    next: OnceLock<Box<Node<T>>>,
}

impl<T: Default + 'static> ProcessLocal<T> {
    /// Of no process yet.
    #[expect(clippy::new_without_default, reason = "it is made in statics, as a constant")]
    pub const fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// The value of this process.
    pub fn here(&self) -> &T {
        self.of(sys::process_number())
    }

    /// The value of the process with this number, which is this one.
    pub(crate) fn of(&self, process: u32) -> &T {
        let new = || Node { process, value: T::default(), next: OnceLock::new() };
        let mut node = self.first.get_or_init(new);
        while node.process != process {
            node = node.next.get_or_init(|| Box::new(new()));
        }
        &node.value
    }
}
