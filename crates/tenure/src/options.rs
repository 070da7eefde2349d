//! What a caller can ask of a write.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread::ThreadId;

use crate::error::{Error, ErrorKind};
use crate::wait::{Cancel, Wait};

/// The number of a hold. Fences of one target grow and are not consecutive.
pub type Fence = u64;

/// Whether a finished call survives a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the call returns, the change survives power loss.
    #[default]
    Durable,
    /// The change survives any process crash, but a power loss may take it back.
    NoSync,
}

/// Proof of a hold on another target: one lease on a session can protect its document and journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The target that is held.
    pub target: PathBuf,
    /// The fence of that hold.
    pub fence: Fence,
}

/// The state of a document. Opaque: compare it, store it, and give it back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub(crate) String);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if text.is_empty() || text.len() > 128 || !text.chars().all(plain) {
            let detail = "a version is what an earlier call returned, unchanged";
            return Err(Error::new(ErrorKind::Invalid, "read version", detail));
        }
        Ok(Self(text.to_owned()))
    }
}

/// How a document or journal is written. The default is durable, unproven, and waits ten seconds.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// How long to wait for other holders.
    pub wait: Wait,
    /// Ends the wait early.
    pub cancel: Option<Cancel>,
    /// Proof of a hold on the target itself; the write then skips the wait for the hold.
    pub fence: Option<Fence>,
    /// Proof of holds on other targets, checked in the same critical section.
    pub guards: Vec<Guard>,
    /// The version the document must have.
    pub if_version: Option<Version>,
    /// Whether to return only when the change survives power loss.
    pub durability: Durability,
    /// Names the operation: repeated, it is not done again (of the 4,096 newest of a file, at least). A
    /// durable call is remembered for good when it returns, one without a sync until the machine restarts.
    pub operation: Option<String>,
    /// What the write is for, shown to those who wait.
    pub label: String,
    /// The mode of a file that does not exist yet.
    pub new_mode: u32,
    /// Write a document that has several hard links, leaving the other names behind.
    pub break_link: bool,
    /// Work on a network file system although its locks cannot be trusted.
    pub allow_network: bool,
    /// Lock exactly this file as well, to exclude others that lock it.
    pub lock_file: Option<PathBuf>,
    /// The thread that this is done for, if it is not the calling one: see [`LockOptions::thread`].
    ///
    /// [`LockOptions::thread`]: crate::LockOptions::thread
    pub thread: Option<ThreadId>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            wait: Wait::default(),
            cancel: None,
            fence: None,
            guards: Vec::new(),
            if_version: None,
            durability: Durability::default(),
            operation: None,
            label: String::new(),
            new_mode: 0o600,
            break_link: false,
            allow_network: false,
            lock_file: None,
            thread: None,
        }
    }
}
