//! Finding a batch of the log in the bytes of a journal: whole, or torn by a crash.

/// A torn write ends at a multiple of this: a killed process leaves whole pages, a full disk whole
/// blocks, a power loss whole sectors.
const SECTOR_BYTES: u64 = 512;
/// A shorter beginning of a batch, followed by other bytes, counts as another tool's line that
/// begins the same way.
pub(super) const TORN_BYTES_MIN: usize = 256;

/// Where all of `text` begins a line of `region`. A power loss may leave NULs in the place of the newline before it.
pub(super) fn find_whole(region: &[u8], text: &[u8], restarted: bool) -> Option<usize> {
    let begins_line =
        |at: &usize| *at == 0 || region[at - 1] == b'\n' || (restarted && region[at - 1] == 0);
    memchr::memmem::find_iter(region, text).find(begins_line)
}

/// Where a beginning of `text` was torn in `bytes`, which are at `from`, and how much of it is there. `is_last`: the
/// journal ends with them.
///
/// At the end of the journal any part counts. If other bytes follow, the part must end exactly at a
/// sector, and be long enough not to be another tool's line that begins the same way; or it must be
/// whole lines that a power loss left where they were `expected`.
pub(super) fn find_torn(
    bytes: &[u8],
    text: &[u8],
    (from, is_last): (u64, bool),
    expected: u64,
    restarted: bool,
) -> Option<(u64, usize)> {
    let starts = memchr::memchr_iter(b'\n', bytes).map(|newline| newline + 1);
    // After a power loss the newline before it may be missing.
    let place = expected.checked_sub(from).and_then(|at| usize::try_from(at).ok());
    let place = place.filter(|at| restarted && *at <= bytes.len());
    place.into_iter().chain([0]).chain(starts).find_map(|at| {
        let (have, start) = (&bytes[at..], from + at as u64);
        let same = have.iter().zip(text).take_while(|(have, want)| have == want).count();
        if is_last && same == have.len() {
            return (same > 0).then_some((start, same));
        }
        let at_sector =
            |len: &usize| *len >= TORN_BYTES_MIN && (start + *len as u64) % SECTOR_BYTES == 0;
        // The last byte may be the newline with which another tool closed it.
        let sectors = [same, same.saturating_sub(1)].into_iter().find(at_sector).unwrap_or(0);
        let lines = memchr::memrchr(b'\n', &text[..same]).map_or(0, |newline| newline + 1);
        let is_there = restarted && start == expected;
        let done = if is_there { sectors.max(lines) } else { sectors };
        (done > 0).then_some((start, done))
    })
}
