//! The only code that talks to the operating system in a platform-specific way.
//!
//! Every platform file defines the same names: [`disk`] (the real [`crate::fs::Fs`]), clocks, the
//! identity of this process, and a watcher for changes. Types, retries and policy live above.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod platform;

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(unix)]
mod attributes;
#[cfg(unix)]
mod clock;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod in_order;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod inotify;
mod locks;
mod polling;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod stat;
#[cfg(unix)]
mod trust;

// On other systems a boot cannot be identified, and a lock would look safe that is not.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple", windows)))]
compile_error!("tenure runs on Linux, macOS and Windows");

#[cfg(unix)]
pub(crate) use self::clock::{boot_time_us, wall_time_us};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use self::inotify::Watcher;
pub(crate) use self::locks::{Locks, command_of, lock_holder, lock_keepers};
pub use self::platform::disk;
#[cfg(windows)]
pub(crate) use self::platform::{
    boot_time_us, effective_user, forks, host_name, is_gone, path_from_bytes, pid_namespace,
    process_number, process_start, wall_time_us,
};
pub(crate) use self::platform::{is_hardware, is_link_loop, is_out_of_files, is_too_long};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use self::polling::Watcher;
pub(crate) use self::polling::pause;
#[cfg(unix)]
pub(crate) use self::process::{
    effective_user, forks, host_name, is_gone, path_from_bytes, pid_namespace, process_number,
    process_start,
};
