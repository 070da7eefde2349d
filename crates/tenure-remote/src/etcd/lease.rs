//! etcd's leases: what keys live as long as.
//!
//! # Invariants
//!
//! 1. The client chooses the id of a lease, so that a grant whose reply was lost is found again.
//! 2. Whole seconds, rounded up: a lease never ends before the time that was asked for.
//! 3. Receipts share one lease for some minutes, which the first client that needs it grants. It is never renewed.

use std::time::Duration;

use serde_json::json;
use tenure::{Error, ErrorKind, Result};

use super::EtcdEngine;
use super::client::Failure;
use super::txn::int;
use crate::engine::SessionId;

/// etcd grants no shorter time with its usual election timeout.
pub(super) const TTL_MIN: Duration = Duration::from_secs(2);
/// Receipts of so many seconds share a lease.
const RECEIPTS_SHARE_S: u64 = 300;
/// It lasts so many seconds: each receipt at least ten minutes.
const RECEIPTS_LAST_S: u64 = 900;

/// The lease that a session is.
pub(super) fn number(session: &SessionId) -> Result<u64> {
    session.0.parse().map_err(|_| {
        Error::new(ErrorKind::LeaseLost, "use the session", "it does not belong to this store")
    })
}

fn seconds(ttl: Duration) -> u64 {
    ttl.max(TTL_MIN).as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}

impl EtcdEngine {
    /// Grants a lease.
    pub(super) fn grant(&self, step: &'static str, ttl: Duration) -> Result<u64> {
        let token = tenure::store::new_token()?;
        let id = u64::from_str_radix(&token[..16], 16).unwrap_or(1) >> 1;
        self.grant_as(step, id.max(1), seconds(ttl))
    }

    fn grant_as(&self, step: &'static str, id: u64, seconds: u64) -> Result<u64> {
        let body = json!({ "ID": id.to_string(), "TTL": seconds.to_string() });
        match self.client.ask(step, "/v3/lease/grant", &body) {
            Ok(_) | Err(Failure::LeaseExists) => Ok(id),
            Err(failure) => Err(failure.error(step)),
        }
    }

    /// Renews a lease; `false` if it has ended.
    pub(super) fn keep_alive(&self, step: &'static str, id: u64) -> Result<bool> {
        let body = json!({ "ID": id.to_string() });
        match self.client.ask(step, "/v3/lease/keepalive", &body) {
            Ok(answer) => {
                let cluster = int(&answer.body["result"]["header"]["cluster_id"]);
                self.check_cluster(step, cluster, 0, 0)?;
                Ok(int(&answer.body["result"]["TTL"]) > 0)
            }
            Err(Failure::LeaseNotFound) => Ok(false),
            Err(failure) => Err(failure.error(step)),
        }
    }

    /// Ends a lease and the keys that live as long as it.
    pub(super) fn revoke(&self, step: &'static str, id: u64) -> Result<()> {
        let body = json!({ "ID": id.to_string() });
        match self.client.ask(step, "/v3/lease/revoke", &body) {
            Ok(_) | Err(Failure::LeaseNotFound) => Ok(()),
            Err(failure) => Err(failure.error(step)),
        }
    }

    /// Ends a lease that no key lives by. If that fails, it ends by itself.
    pub(super) fn drop_lease(&self, id: u64) {
        let body = json!({ "ID": id.to_string() });
        let _ = self.client.ask_briefly("end a lease", "/v3/lease/revoke", &body);
    }

    /// What is left of a lease; `None` if it has ended.
    pub(super) fn time_left(&self, id: u64) -> Result<Option<Duration>> {
        let step = "look at the lease";
        let body = json!({ "ID": id.to_string() });
        match self.client.ask(step, "/v3/lease/timetolive", &body) {
            Ok(answer) => {
                let left = &answer.body["TTL"];
                let has_ended = left.as_str() == Some("-1") || left.as_i64() == Some(-1);
                // Whole seconds, rounded down: the last one counts as one.
                let left = Duration::from_secs(int(left).max(1));
                Ok(Some(left).filter(|_| !has_ended))
            }
            Err(Failure::LeaseNotFound) => Ok(None),
            Err(failure) => Err(failure.error(step)),
        }
    }

    /// The lease of receipts that are written now. The clock only chooses which one it is.
    pub(super) fn receipts_lease(&self) -> u64 {
        let minutes = tenure::store::wall_time_us() / 1_000_000 / RECEIPTS_SHARE_S;
        let text = format!("{}receipts {minutes}", self.layout.prefix());
        // FNV-1a.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 1).max(1)
    }

    /// Makes sure that the lease of receipts is there.
    pub(super) fn grant_receipts_lease(&self, id: u64) -> Result<()> {
        self.grant_as("keep a receipt", id, RECEIPTS_LAST_S).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_up_to_whole_seconds() {
        for (milliseconds, wanted) in [(1, 2), (2000, 2), (2001, 3), (10_000, 10)] {
            assert_eq!(seconds(Duration::from_millis(milliseconds)), wanted);
        }
    }
}
