//! A value per process, also across `fork`.
//!
//! A forked child sees its parent's memory, with mutexes that other threads may have held at the
//! fork. It gets a fresh value instead and never touches the parent's.

use std::sync::OnceLock;

use crate::sys;

/// A static that a forked child starts anew.
#[derive(Debug)]
pub(crate) struct ProcessLocal<T: 'static> {
    first: OnceLock<Node<T>>,
}

#[derive(Debug)]
struct Node<T: 'static> {
    process: u32,
    value: T,
    next: OnceLock<Box<Node<T>>>,
}

impl<T: Default + 'static> ProcessLocal<T> {
    pub(crate) const fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// The value of this process.
    pub(crate) fn here(&'static self) -> &'static T {
        self.of(sys::process_number())
    }

    /// The value of the process with this number, which is this one.
    pub(crate) fn of(&'static self, process: u32) -> &'static T {
        let new = || Node { process, value: T::default(), next: OnceLock::new() };
        let mut node = self.first.get_or_init(new);
        while node.process != process {
            node = node.next.get_or_init(|| Box::new(new()));
        }
        &node.value
    }
}
