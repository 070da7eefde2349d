//! One fault at one call, or from one moment on, as arguments of strace.

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The process dies instead of making the call.
    Kill,
    /// The call fails once.
    Once(&'static str),
    /// The call and all later ones of its kind fail.
    Always(&'static str),
    /// A signal interrupts the call three times.
    Interrupted,
}

/// One fault at one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The kind of call, as strace calls it.
    pub call: String,
    /// The first call is 1.
    pub number: usize,
    /// What happens there.
    pub fault: Fault,
    /// Other kinds that the same happens to, each from this number on.
    pub with: Vec<(String, usize)>,
}

impl Case {
    /// Every kind of call that the fault may happen to.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        [self.call.as_str()].into_iter().chain(self.with.iter().map(|(call, _)| call.as_str()))
    }

    /// The arguments of `strace -e`.
    pub(super) fn injects(&self) -> impl Iterator<Item = String> {
        let first = [(&self.call, self.number)].into_iter();
        let all = first.chain(self.with.iter().map(|(call, number)| (call, *number)));
        all.map(|(call, number)| self.fault.inject(call, number))
    }
}

impl Fault {
    fn inject(self, call: &str, number: usize) -> String {
        match self {
            Self::Kill => format!("inject={call}:signal=KILL:when={number}"),
            Self::Once(error) => format!("inject={call}:error={error}:when={number}"),
            Self::Always(error) => format!("inject={call}:error={error}:when={number}+"),
            // Not for ever: a caller that tries again is right, and would never end.
            Self::Interrupted => {
                format!("inject={call}:error=EINTR:when={number}..{}", number + 2)
            }
        }
    }
}
