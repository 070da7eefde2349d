//! The definitions that filters may use, read only as far as a filter needs them.
//!
//! Most filters use none, and reading and compiling them all takes longer than everything else that a
//! command does.
//!
//! # Invariants
//!
//! 1. A filter means the same whichever part it was compiled with: no definition hides another one or a
//!    native function.

use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::native::Fun;
use jaq_json::Val;

/// How much of the library is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Native functions only, like `length` and `now`.
    Natives,
    /// The definitions of the language core as well, like `map` and `del`.
    Core,
    /// Everything.
    All,
}

impl Part {
    /// From the smallest on.
    pub(super) const BY_SIZE: [Self; 3] = [Self::Natives, Self::Core, Self::All];

    /// The definitions in it.
    pub(super) fn definitions(self) -> Vec<Def<&'static str>> {
        match self {
            Self::Natives => Vec::new(),
            Self::Core => jaq_core::defs().collect(),
            Self::All => jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).collect(),
        }
    }
}

/// The native functions, which every part has.
pub(super) fn natives() -> impl Iterator<Item = Fun<JustLut<Val>>> {
    jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_library_hides_anything_else() {
        let natives = natives().map(|(name, arguments, _)| (name, arguments.len()));
        let definitions = Part::All.definitions().into_iter();
        let definitions = definitions.map(|definition| (definition.name, definition.args.len()));
        let mut all: Vec<_> = natives.chain(definitions).collect();
        all.sort_unstable();
        let twice: Vec<_> = all.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
