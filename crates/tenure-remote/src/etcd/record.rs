//! What is written into the keys: who has a hold or waits for it, how far a journal is, what an operation did.
//!
//! All of it is JSON, so that `etcdctl get` shows it. A value that cannot be read is that of no holder: people look at
//! it, and nothing is decided by it but the token of a lease.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tenure::status::{HoldKind, Holder};

use super::txn::int;
use crate::engine::Kind;
use crate::holder;

/// The holder of a target, or one that waits for it.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) ticket: String,
    pub(super) holder: Holder,
    pub(super) lease: Option<Lease>,
}

/// A lease of a user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    /// Its number at etcd, which counts whole seconds.
    pub(super) id: u64,
    pub(super) ttl: Duration,
    pub(super) token_sum: [u8; 16],
}

impl Owner {
    /// The owner that a ticket becomes. `lease` is the etcd lease of a user's lease.
    pub(super) fn new(ticket: &str, holder: &Holder, kind: Kind, lease: u64) -> Self {
        let mut holder = holder.clone();
        holder.since_us = tenure::store::wall_time_us();
        let lease = match kind {
            Kind::Lock => None,
            Kind::Lease { ttl, token_sum } => Some(Lease { id: lease, ttl, token_sum }),
        };
        Self { ticket: ticket.to_owned(), holder, lease }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let holder: Value =
            serde_json::from_str(&holder::to_text(&self.holder)).unwrap_or_default();
        let mut value = json!({
            "ticket": self.ticket, "since_us": self.holder.since_us, "holder": holder,
        });
        if let Some(lease) = &self.lease {
            value["lease"] = json!({
                "id": lease.id.to_string(),
                "ttl_ms": u64::try_from(lease.ttl.as_millis()).unwrap_or(u64::MAX),
                "token_sum": hexadecimal(&lease.token_sum),
            });
        }
        value.to_string().into_bytes()
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let lease = value["lease"].is_object().then(|| Lease {
            id: int(&value["lease"]["id"]),
            ttl: Duration::from_millis(int(&value["lease"]["ttl_ms"])),
            token_sum: sum_of(value["lease"]["token_sum"].as_str().unwrap_or_default()),
        });
        let holder = Holder {
            since_us: int(&value["since_us"]),
            hold: if lease.is_some() { HoldKind::Lease } else { HoldKind::Lock },
            ..holder::from_text(value["holder"].to_string().as_bytes())
        };
        let ticket = value["ticket"].as_str().unwrap_or_default().to_owned();
        Self { ticket, holder, lease }
    }

    /// The holder with the fence of its hold.
    pub(super) fn holder_with(&self, fence: u64) -> Holder {
        Holder { fence, ..self.holder.clone() }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of a checksum; one that cannot be read is that of no token, as far as can be known.
fn sum_of(text: &str) -> [u8; 16] {
    let mut sum = [0; 16];
    for (place, byte) in sum.iter_mut().enumerate() {
        let digits = text.get(place * 2..place * 2 + 2);
        *byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0);
    }
    sum
}

/// How far a journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    /// The number that the next line gets.
    pub(super) next: u64,
    /// The epoch of its last append.
    pub(super) epoch: u64,
}

impl Head {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let at = stamp();
        json!({ "at_ms": at, "next": self.next, "epoch": self.epoch }).to_string().into_bytes()
    }

    pub(super) fn read(bytes: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
        Self { next: int(&value["next"]), epoch: int(&value["epoch"]) }
    }
}

/// That a document changed.
pub(super) fn touch() -> Vec<u8> {
    json!({ "at_ms": stamp() }).to_string().into_bytes()
}

/// How long ago a document or a journal changed. etcd has no clock that can be asked: it is that of the writers.
pub(super) fn age(bytes: &[u8]) -> Duration {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    Duration::from_millis(stamp().saturating_sub(int(&value["at_ms"])))
}

fn stamp() -> u64 {
    tenure::store::wall_time_us() / 1000
}

/// What a commit did, for a caller that did not get the reply.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Did {
    /// It wrote the document.
    pub(super) wrote: bool,
    pub(super) lines: Option<(u64, u64)>,
}

impl Did {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        json!({ "wrote": self.wrote, "lines": self.lines }).to_string().into_bytes()
    }

    /// `None` for a commit that must not happen any more.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let wrote = value["wrote"].as_bool()?;
        let lines = value["lines"].as_array().and_then(|lines| match lines.as_slice() {
            [first, last] => Some((int(first), int(last))),
            _ => None,
        });
        Some(Self { wrote, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_as_it_was_written() {
        let kind = Kind::Lease { ttl: Duration::from_millis(2500), token_sum: [7; 16] };
        let holder = Holder { pid: 3, host: "h\"".to_owned(), ..Holder::default() };
        let owner = Owner::new("t", &holder, kind, 9);
        let read = Owner::read(&owner.to_bytes());
        let lease = read.lease.expect("a lease");
        assert_eq!(
            (lease.id, lease.ttl, lease.token_sum),
            (9, Duration::from_millis(2500), [7; 16])
        );
        assert_eq!(
            (read.ticket.as_str(), read.holder.pid, read.holder.host.as_str()),
            ("t", 3, "h\"")
        );
        assert_eq!(read.holder.hold, HoldKind::Lease);
        assert!(Owner::read(b"nonsense").lease.is_none());
    }

    #[test]
    fn what_was_done_is_not_what_must_not_happen() {
        let did = Did { wrote: true, lines: Some((3, 5)) };
        let read = Did::read(&did.to_bytes()).expect("done");
        assert_eq!((read.wrote, read.lines), (true, Some((3, 5))));
        assert!(Did::read(b"void").is_none());
    }
}
