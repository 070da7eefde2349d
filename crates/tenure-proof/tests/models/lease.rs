//! The lease: one valid fence at a time, until it expires.
//!
//! Mirrors `lease.rs` (acquire, renew, release, take-over), `Seen::running_lease`,
//! `Seen::check_fence` and `Commit::begin` for a write that proves a lease and for one that proves
//! nothing. Every call is cut where another process, the clock or a crash can intervene: the hold,
//! the first read of the record, the commit lock, the second read, the write.
//!
//! The boot clock only moves forward; the wall clock jumps; a reboot restarts the boot clock and
//! may leave an older record, because a lease is not synced. A token renews a lease of an earlier
//! boot under a new fence. Drawing the first fence of a boot writes the record twice, as in
//! `Seen::draw`; the model of the lock shows that fences grow.

mod steps;

use stateright::{Model, Property};
use tenure_proof::{Form, Tally};

use self::steps::{At, Role, State};
use crate::check;

/// The fault of a broken variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Expiry is on the wall clock.
    WallClock,
    /// The boot is not compared: the clock of another boot counts.
    BootIgnored,
    /// The record is not read again under the commit lock.
    NoSecondLook,
    /// A release ends whichever lease there is.
    ReleaseByName,
    /// A renewal does not compare the token.
    RenewByName,
    /// A token renews a lease of an earlier boot, with its old fence.
    RenewAcrossBoots,
    /// It gets a new one only while the record names the earlier boot.
    BoundByTheDead,
    /// A take-over does not wait for writes in flight.
    TakeOverWithoutCommitLock,
    /// A take-over is recorded after it took effect.
    EventAfterEffect,
    /// The fence is compared, the time is not.
    ExpiryNotChecked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(usize, Role),
    Step(usize),
    Kill(usize),
    Tick,
    /// The wall clock jumps by this much.
    Jump(i8),
    /// The kernel writes the record to the disk, as it does now and then.
    WriteBack,
    /// A power loss; whether the newest record survives.
    Reboot(bool),
}

#[derive(Clone, Copy, Debug)]
struct Leasing {
    processes: usize,
    calls: u8,
    ticks: u8,
    jumps: u8,
    kills: u8,
    reboots: u8,
    fault: Fault,
}

impl Model for Leasing {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, process) in state.processes.iter().enumerate() {
            if process.at == At::Idle && state.calls > 0 {
                let knows = process.fence > 0;
                let roles = [Role::Acquire, Role::TakeOver, Role::Plain];
                actions.extend(roles.map(|role| Action::Begin(index, role)));
                let proven = [Role::Renew, Role::Release, Role::Proven];
                let proven = proven.map(|role| Action::Begin(index, role));
                actions.extend(proven.into_iter().filter(|_| knows));
            }
            if process.at != At::Idle {
                if state.can_step(index) {
                    actions.push(Action::Step(index));
                }
                if state.kills > 0 {
                    actions.push(Action::Kill(index));
                }
            }
        }
        if state.ticks > 0 {
            actions.push(Action::Tick);
        }
        if state.jumps > 0 {
            actions.extend([Action::Jump(-3), Action::Jump(3)]);
        }
        if state.reboots > 0 {
            actions.extend([Action::WriteBack, Action::Reboot(true), Action::Reboot(false)]);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Begin(index, role) => next.begin(index, role, self.fault),
            Action::Step(index) => next.step(index, self.fault),
            Action::Kill(index) => {
                next.kills -= 1;
                next.end(index);
            }
            Action::Tick => {
                next.ticks -= 1;
                next.now += 1;
            }
            Action::Jump(by) => {
                next.jumps -= 1;
                next.wall_offset += by;
            }
            Action::WriteBack => next.durable = next.record,
            Action::Reboot(newest) => next.reboot(newest),
        }
        next.processes.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no old fence writes", |_, state: &State| !state.stale_write),
            Property::always("a running lease is not taken", |_, state: &State| !state.theft),
            Property::always("an expired lease does not write", |_, state: &State| {
                !state.late_write
            }),
            Property::always("a release ends only its own", |_, state: &State| {
                !state.ended_another
            }),
            Property::always("a take-over is written down first", |_, state: &State| {
                state.takeovers <= state.events
            }),
            Property::always("some process can go on", |_, state: &State| {
                let busy = state.processes.iter().any(|process| process.at != At::Idle);
                !busy || (0..state.processes.len()).any(|index| state.can_step(index))
            }),
            Property::sometimes("a write is refused", |_, state: &State| state.refused),
            Property::sometimes("an expired lease is renewed", |_, state: &State| state.revived),
            Property::sometimes("a lease outlives its boot", |model: &Self, state: &State| {
                model.reboots == 0 || state.redrawn
            }),
            Property::sometimes("a renewal comes in between", |_, state: &State| {
                state.stepped_back
            }),
            Property::sometimes("a lease is taken over", |_, state: &State| state.takeovers > 0),
        ]
    }
}

const QUICK: Leasing = Leasing {
    processes: 2,
    calls: 4,
    ticks: 3,
    jumps: 0,
    kills: 1,
    reboots: 1,
    fault: Fault::None,
};

#[test]
fn one_valid_fence_at_a_time() {
    let mut tally = Tally::new("models", "one_valid_fence_at_a_time");
    check::holds(&mut tally, "two processes", QUICK);
    let crowd = Leasing { processes: 3, ticks: 2, kills: 0, reboots: 0, ..QUICK };
    check::holds(&mut tally, "three processes", crowd);
    // Jumps of the wall clock only multiply the states; a few are enough.
    let jumps = Leasing { jumps: 1, calls: 3, kills: 0, ..QUICK };
    check::holds(&mut tally, "with a wall clock that jumps", jumps);
    if Form::asked() == Form::Long {
        check::holds(&mut tally, "more calls", Leasing { calls: 5, ..QUICK });
        let crowd = Leasing { processes: 3, calls: 4, ..QUICK };
        check::holds(&mut tally, "three processes and a reboot", crowd);
    }
}

#[test]
fn broken_leases_are_found_out() {
    let mut tally = Tally::new("models", "broken_leases_are_found_out");
    let jumps = Leasing { jumps: 1, ..QUICK };
    for (name, fault, rule, model) in [
        ("expiry by the wall clock", Fault::WallClock, "an expired lease does not write", jumps),
        ("expiry by the wall clock", Fault::WallClock, "a running lease is not taken", jumps),
        ("boot not compared", Fault::BootIgnored, "an expired lease does not write", QUICK),
        ("no second look", Fault::NoSecondLook, "a running lease is not taken", QUICK),
        ("lease released by name", Fault::ReleaseByName, "a release ends only its own", QUICK),
        ("lease renewed by name", Fault::RenewByName, "no old fence writes", QUICK),
        ("lease of an earlier boot renewed", Fault::RenewAcrossBoots, "no old fence writes", QUICK),
        (
            "lease of an earlier boot, bound by one who died",
            Fault::BoundByTheDead,
            "no old fence writes",
            Leasing { calls: 5, ticks: 0, ..QUICK },
        ),
        (
            "take-over without the commit lock",
            Fault::TakeOverWithoutCommitLock,
            "no old fence writes",
            QUICK,
        ),
        (
            "take-over noted afterwards",
            Fault::EventAfterEffect,
            "a take-over is written down first",
            QUICK,
        ),
        (
            "expiry not checked by the write",
            Fault::ExpiryNotChecked,
            "an expired lease does not write",
            QUICK,
        ),
    ] {
        check::is_refuted(&mut tally, name, rule, Leasing { fault, ..model });
    }
}
