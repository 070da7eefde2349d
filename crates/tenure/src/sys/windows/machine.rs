//! Clocks, and who this machine, this boot and a process are.
#![expect(unsafe_code, reason = "clocks and process times are raw calls")]

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::sync::OnceLock;
use std::time::SystemTime;

use windows_sys::Wdk::System::SystemInformation::{
    NtQuerySystemInformation, SystemTimeOfDayInformation,
};
use windows_sys::Win32::Foundation::{FILETIME, STILL_ACTIVE};
use windows_sys::Win32::System::SystemInformation::{
    ComputerNamePhysicalDnsHostname, GetComputerNameExW,
};
use windows_sys::Win32::System::Threading::{
    GetExitCodeProcess, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
};
use windows_sys::Win32::System::WindowsProgramming::QueryInterruptTimePrecise;

use super::api::text;
use super::handle::time_of;

/// A DNS host name has at most 63 characters.
const HOST_NAME_MAX: u32 = 256;

/// `KUSER_SHARED_DATA.BootId`: the page is mapped, for reading, at this address of every process.
const BOOT_COUNT: usize = 0x7FFE_0000 + 0x2C4;

/// Microseconds of the wall clock since 1970.
#[expect(clippy::disallowed_methods, reason = "the clocks live here")]
pub(crate) fn wall_time_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Microseconds since boot, counting the time asleep (the "unbiased" interrupt time would not).
pub(crate) fn boot_time_us() -> u64 {
    let mut ticks = 0;
    // SAFETY: the call fills the one number it is given.
    unsafe { QueryInterruptTimePrecise(&raw mut ticks) };
    ticks / 10
}

/// This boot of the machine, from two numbers that both stay as they are until the next one:
///
/// - The boot instant. It is corrected whenever the clock is set, and the sum of these corrections is
///   kept next to it; the difference is the instant as it was first written down. It comes from the
///   hardware clock, so it repeats on a machine whose hardware clock does not run.
/// - The number of the boot, which the loader counts. It repeats on another Windows of the same disk.
///
/// Not `SystemBootEnvironmentInformation.BootIdentifier`: it names the entry of the boot menu, which is
/// the same in every boot. A resumed kernel (sleep, hibernation, fast start-up) is the same boot: what
/// it had not written yet is still in its memory.
pub(crate) fn boot_id() -> [u8; 16] {
    static ID: OnceLock<[u8; 16]> = OnceLock::new();
    *ID.get_or_init(|| {
        // SAFETY: the system maps this page into every process, before it starts, and for ever.
        let count = unsafe { std::ptr::with_exposed_provenance::<u32>(BOOT_COUNT).read_volatile() };
        let mut name = [0; 12];
        name[..8].copy_from_slice(&boot_instant().to_le_bytes());
        name[8..].copy_from_slice(&count.to_le_bytes());
        crate::checksum::wide(&name)
    })
}

/// The size that the public headers give to `SYSTEM_TIMEOFDAY_INFORMATION`.
const TIME_OF_DAY_BYTES: u32 = 48;
const _: () = assert!(size_of::<TimeOfDay>() == TIME_OF_DAY_BYTES as usize);

/// `SYSTEM_TIMEOFDAY_INFORMATION`. The public headers call its fields reserved; the layout has been the
/// same since Windows 2000.
#[repr(C)]
#[derive(Default)]
struct TimeOfDay {
    boot_time: i64,
    current_time: i64,
    time_zone_bias: i64,
    time_zone_id: u32,
    reserved: u32,
    boot_time_bias: i64,
    sleep_time_bias: i64,
}

fn boot_instant() -> i64 {
    let mut found = TimeOfDay::default();
    // SAFETY: the call fills at most the bytes it is given, and any bits are a value of this type.
    let status = unsafe {
        NtQuerySystemInformation(
            SystemTimeOfDayInformation,
            (&raw mut found).cast(),
            TIME_OF_DAY_BYTES,
            std::ptr::null_mut(),
        )
    };
    if status < 0 { 0 } else { found.boot_time.wrapping_sub(found.boot_time_bias) }
}

/// Users have no numbers here; neither have the owners of files.
pub(crate) fn effective_user() -> u32 {
    0
}

/// The path with exactly these bytes; a name that is not Unicode has none.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<std::path::PathBuf> {
    String::from_utf8(bytes).ok().map(Into::into)
}

/// The name of this machine, for people.
pub(crate) fn host_name() -> String {
    let mut name = [0u16; HOST_NAME_MAX as usize];
    let mut len = HOST_NAME_MAX;
    // SAFETY: `name` has `len` units. A call that fails leaves it empty.
    unsafe {
        GetComputerNameExW(ComputerNamePhysicalDnsHostname, name.as_mut_ptr(), &raw mut len);
    }
    text(&name)
}

/// There is no fork: no other process ever sees this one's memory.
pub(crate) fn process_number() -> u32 {
    0
}

/// There is none, and none goes unnoticed.
#[expect(clippy::unnecessary_wraps, reason = "where there are forks, the answer may be unknown")]
pub(crate) fn forks() -> Option<u32> {
    Some(0)
}

/// A pid means the same in every container of a Windows machine.
pub(crate) fn pid_namespace() -> u64 {
    0
}

/// Whether no process that we may see has this number any more. For display only.
pub(crate) fn is_gone(pid: u32) -> bool {
    process_start(pid).is_none()
}

/// When the process started, in the kernel's own unit; for display and comparison only. None once
/// it has ended, even while another process keeps a handle of it.
pub(crate) fn process_start(pid: u32) -> Option<u64> {
    // SAFETY: no pointer is passed.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    if process.is_null() {
        return None;
    }
    // SAFETY: the handle is new and has no other owner.
    let process = unsafe { OwnedHandle::from_raw_handle(process) };
    let mut code = 0;
    // SAFETY: the handle is open, and the call fills the one number it is given.
    let known = unsafe { GetExitCodeProcess(process.as_raw_handle(), &raw mut code) };
    if known == 0 || i32::try_from(code) != Ok(STILL_ACTIVE) {
        return None;
    }
    let mut times = [FILETIME::default(); 4];
    let [start, end, kernel, user] = &mut times;
    // SAFETY: the handle is open, and the call fills the four times it is given.
    let known = unsafe { GetProcessTimes(process.as_raw_handle(), start, end, kernel, user) };
    (known != 0).then(|| time_of(times[0]))
}
