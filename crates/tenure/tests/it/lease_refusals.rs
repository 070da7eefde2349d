//! A lease that cannot be acquired, found or read: the right kind of error, with the right holder
//! in it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure::{ErrorKind, Lease, LeaseOptions, Wait};

use crate::faulty_fs::{Change, FaultyFs, Op, Verdict};
use crate::scratch::{LONG, Scratch, kind, lease, terms};

/// The limits themselves are allowed, one step further is not.
#[test]
fn the_limits_of_tokens_and_times_are_allowed() {
    let a_year = Duration::from_secs(366 * 24 * 3600);
    for (length, allowed) in [(15, false), (16, true), (256, true), (257, false)] {
        let scratch = Scratch::new();
        let leases = Lease::open(scratch.target()).unwrap();
        let token = "t".repeat(length);
        let options = LeaseOptions { token: Some(token.clone()), ..terms("me", a_year, Wait::No) };
        let refused = (!allowed).then_some(ErrorKind::Invalid);
        assert_eq!(kind(leases.acquire(&options)), refused, "{length}");
        assert_eq!(kind(leases.renew(&token, Some(a_year))), refused, "{length}");
        assert_eq!(kind(leases.release(&token)), refused, "{length}");
    }
    let scratch = Scratch::new();
    let longer = terms("me", a_year + Duration::from_nanos(1), Wait::No);
    let leases = Lease::open(scratch.target()).unwrap();
    assert_eq!(kind(leases.acquire(&longer)), Some(ErrorKind::Invalid));
}

/// A call with a token that is not the current one gets the current holder's name, if there is one.
#[test]
fn race_48_g9_a_lost_token_is_told_who_has_the_lease() {
    let scratch = Scratch::new();
    let leases = Lease::open(scratch.target()).unwrap();
    let stranger = "t".repeat(20);
    let lost = || leases.renew(&stranger, None).unwrap_err();
    assert_eq!((lost().kind(), lost().holder()), (ErrorKind::LeaseLost, None), "no holder yet");
    let held = lease(&scratch.target(), "other");
    let error = lost();
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    assert_eq!(error.holder().map(|holder| holder.owner.as_str()), Some("other"));
    leases.release(&held.token).unwrap();
    assert_eq!(
        (lost().kind(), lost().holder()),
        (ErrorKind::LeaseLost, None),
        "no holder any more"
    );
}

/// Who has it, since when, and for how long.
#[test]
fn race_49_g9_a_lease_shows_since_when_it_is_held() {
    let scratch = Scratch::new();
    let now_us = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_micros()).unwrap()
    };
    let before = now_us();
    let held = lease(&scratch.target(), "me");
    let info = Lease::open(scratch.target()).unwrap().show().unwrap().unwrap();
    assert!((before..=now_us()).contains(&info.holder.since_us), "{info:?}");
    assert_eq!((info.ttl, info.holder.fence), (LONG, held.fence));
    assert!(info.expires_in.is_some_and(|left| left <= LONG && left > LONG / 2), "{info:?}");
}

/// A record that cannot be opened does not mean a free lease, and a renewal that fails does not
/// mean a lost one.
#[test]
fn g10_an_error_is_not_mistaken_for_a_free_lease() {
    let scratch = Scratch::new();
    let held = lease(&scratch.target(), "me");
    let armed = Arc::new(AtomicBool::new(false));
    let fails = armed.clone();
    let fs = FaultyFs::new(move |op, path| {
        let commit = path.extension().is_some_and(|name| name == "commit");
        let hit = commit && matches!(op, Op::Lock | Op::Open(Change::Never));
        if hit && fails.swap(false, Ordering::Relaxed) {
            return Verdict::Fail(io::Error::from_raw_os_error(5));
        }
        Verdict::Go
    });
    let leases = Lease::open_on(&fs.shared(), &scratch.target()).unwrap();
    armed.store(true, Ordering::Relaxed);
    assert_eq!(kind(leases.show()), Some(ErrorKind::Io));
    let again = LeaseOptions { token: Some(held.token.clone()), ..terms("me", LONG, Wait::No) };
    armed.store(true, Ordering::Relaxed);
    assert_eq!(kind(leases.acquire(&again)), Some(ErrorKind::Io));
    assert_eq!(leases.acquire(&again).unwrap().fence, held.fence);
}
