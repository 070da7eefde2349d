//! Options as they arrive, complete and checked by `lib/options.cjs`, and numbers in both directions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use napi::bindgen_prelude::{Either, Uint8Array};
use napi_derive::napi;
use tenure::embed::Inherited;
use tenure::file::FileOptions;
use tenure::options::{Durability, Mode};
use tenure::{Error, ErrorKind, Fence, Guard, Result, Wait};

use crate::failure::{invalid, to_js};

/// The largest integer that a JavaScript number keeps exactly.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// A path: text, or bytes where it is not text.
pub(crate) type Name = Either<String, Uint8Array>;

/// The variables of the caller's environment that are ours, by name.
type Variables = HashMap<String, String>;

fn inherited(variables: &Variables) -> Inherited {
    Inherited::read(|name| variables.get(name).map(Into::into))
}

/// The wait of a call, else that of its environment.
fn asked_or_inherited(wait_ms: Option<f64>, inherited: &Inherited) -> Result<Wait> {
    wait_ms.map_or_else(|| inherited.wait(), wait)
}

/// How a document or journal is written.
#[expect(missing_debug_implementations, reason = "a buffer of JavaScript has none")]
#[napi(object, object_to_js = false)]
pub struct WriteOptions {
    /// Infinity is for ever.
    pub wait_ms: Option<f64>,
    /// Proof of a hold on the target itself.
    pub fence: Option<f64>,
    /// Proof of holds on other targets.
    pub guards: Vec<GuardOption>,
    /// The version the document must have.
    pub if_version: Option<String>,
    /// False: return without waiting for the disk.
    pub durable: bool,
    /// Names the operation.
    pub operation: Option<String>,
    /// What it is for.
    pub label: String,
    /// The mode of a new file.
    pub new_mode: u32,
    /// Write a document that has several hard links.
    pub break_link: bool,
    /// Work on a network file system.
    pub allow_network: bool,
    /// Lock exactly this file as well.
    pub lock_file: Option<Name>,
    /// What the environment says.
    pub inherited: HashMap<String, String>,
}

/// Proof of a hold on another target.
#[expect(missing_debug_implementations, reason = "a buffer of JavaScript has none")]
#[napi(object, object_to_js = false)]
pub struct GuardOption {
    /// The target that is held.
    pub target: Name,
    /// The fence of that hold.
    pub fence: f64,
}

impl WriteOptions {
    /// What the core wants to know for a write to `target` (resolved). Buffers must be read on their own
    /// thread.
    pub(crate) fn read(self, target: &Path) -> napi::Result<tenure::WriteOptions> {
        self.convert(target).map_err(to_js)
    }

    fn convert(self, target: &Path) -> Result<tenure::WriteOptions> {
        let inherited = inherited(&self.inherited);
        let fence = match self.fence {
            Some(fence) => Some(whole(fence)?),
            None => inherited.fence_of(target)?,
        };
        let guard = |guard: GuardOption| {
            let fence = whole(guard.fence)?;
            Ok(Guard { target: path(guard.target)?, fence })
        };
        let durability = if self.durable { Durability::Durable } else { Durability::NoSync };
        Ok(tenure::WriteOptions {
            wait: asked_or_inherited(self.wait_ms, &inherited)?,
            fence,
            guards: self.guards.into_iter().map(guard).collect::<Result<_>>()?,
            if_version: self.if_version.map(|version| version.parse()).transpose()?,
            durability,
            operation: self.operation,
            label: self.label,
            file: FileOptions {
                new_mode: self.new_mode,
                break_link: self.break_link,
                allow_network: self.allow_network,
                lock_file: self.lock_file.map(path).transpose()?,
            },
            ..tenure::WriteOptions::default()
        })
    }
}

/// How a lock is taken.
#[expect(missing_debug_implementations, reason = "a buffer of JavaScript has none")]
#[napi(object, object_to_js = false)]
pub struct LockOptions {
    /// With other readers.
    pub shared: bool,
    /// Infinity is for ever.
    pub wait_ms: Option<f64>,
    /// What it is for.
    pub label: String,
    /// Who it is for.
    pub owner: String,
    /// Let the same owner in again.
    pub reentrant: bool,
    /// One of so many slots.
    pub slots: Option<u8>,
    /// Proof of a hold that the caller is part of.
    pub fence: Option<f64>,
    /// Lock exactly this file as well.
    pub lock_file: Option<Name>,
    /// Work on a network file system.
    pub allow_network: bool,
    /// What the environment says.
    pub inherited: HashMap<String, String>,
}

impl LockOptions {
    /// What the core wants to know, but for the fence of the environment: that needs the resolved path.
    pub(crate) fn read(self) -> napi::Result<(tenure::LockOptions, Inherited)> {
        let inherited = inherited(&self.inherited);
        let options = self.convert(&inherited).map_err(to_js)?;
        Ok((options, inherited))
    }

    fn convert(self, inherited: &Inherited) -> Result<tenure::LockOptions> {
        Ok(tenure::LockOptions {
            mode: if self.shared { Mode::Shared } else { Mode::Exclusive },
            wait: asked_or_inherited(self.wait_ms, inherited)?,
            label: self.label,
            owner: self.owner,
            reentrant: self.reentrant,
            slots: self.slots,
            fence: self.fence.map(whole).transpose()?,
            file: FileOptions {
                lock_file: self.lock_file.map(path).transpose()?,
                allow_network: self.allow_network,
                ..FileOptions::default()
            },
            ..tenure::LockOptions::default()
        })
    }
}

/// How a lease is acquired.
#[derive(Debug)]
#[napi(object, object_to_js = false)]
pub struct LeaseOptions {
    /// How long it lasts without a renewal.
    pub ttl_ms: f64,
    /// Infinity is for ever.
    pub wait_ms: Option<f64>,
    /// Who it is for.
    pub owner: String,
    /// What it is for.
    pub label: String,
    /// The token of an earlier acquire.
    pub token: Option<String>,
    /// Work on a network file system.
    pub allow_network: bool,
    /// What the environment says.
    pub inherited: HashMap<String, String>,
}

impl LeaseOptions {
    /// What the core wants to know.
    pub(crate) fn read(self) -> napi::Result<tenure::LeaseOptions> {
        self.convert().map_err(to_js)
    }

    /// The same with the token of the environment, for the lease on `target` (resolved).
    pub(crate) fn read_with_token(self, target: &Path) -> napi::Result<tenure::LeaseOptions> {
        let inherited = inherited(&self.inherited);
        let mut options = self.read()?;
        let token = || inherited.token_for(target).map(str::to_owned);
        options.token = options.token.or_else(token);
        Ok(options)
    }

    fn convert(self) -> Result<tenure::LeaseOptions> {
        Ok(tenure::LeaseOptions {
            owner: self.owner,
            ttl: duration(self.ttl_ms)?,
            wait: asked_or_inherited(self.wait_ms, &inherited(&self.inherited))?,
            token: self.token,
            label: self.label,
            file: FileOptions { allow_network: self.allow_network, ..FileOptions::default() },
            ..tenure::LeaseOptions::default()
        })
    }
}

/// A path as the system knows it.
pub(crate) fn path(name: Name) -> Result<PathBuf> {
    let bytes = match name {
        Either::A(text) => return Ok(text.into()),
        Either::B(bytes) => bytes,
    };
    #[cfg(unix)]
    let path = Some(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&bytes));
    #[cfg(not(unix))]
    let path = std::str::from_utf8(&bytes).ok();
    path.map(PathBuf::from).ok_or_else(|| invalid("read path", "it is not UTF-8"))
}

/// Milliseconds; Infinity is for ever.
pub(crate) fn wait(ms: f64) -> Result<Wait> {
    if ms == f64::INFINITY {
        return Ok(Wait::Forever);
    }
    let time = duration(ms)?;
    Ok(if time.is_zero() { Wait::No } else { Wait::For(time) })
}

/// Milliseconds, not less than none.
pub(crate) fn duration(ms: f64) -> Result<Duration> {
    let wrong = |_| invalid("read a time", format!("{ms} is no number of milliseconds"));
    Duration::try_from_secs_f64(ms / 1000.0).map_err(wrong)
}

/// A fence or sequence number from JavaScript.
pub(crate) fn whole(number: f64) -> Result<Fence> {
    #[expect(clippy::cast_precision_loss, reason = "exact up to here")]
    if number.fract() == 0.0 && (0.0..=EXACT_MAX as f64).contains(&number) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
        return Ok(number as u64);
    }
    Err(invalid("read a number", format!("{number} is no whole number of at most 2^53 - 1")))
}

/// A fence, sequence number or count for JavaScript: never a rounded one.
pub(crate) fn number(whole: u64) -> Result<f64> {
    if whole > EXACT_MAX {
        let detail = format!("{whole} is more than a JavaScript number keeps exactly");
        return Err(Error::new(ErrorKind::Unsupported, "return a number", detail));
    }
    #[expect(clippy::cast_precision_loss, reason = "checked")]
    Ok(whole as f64)
}

/// A time in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).floor()
}
