//! The health of a cluster: what could break a promise, and what to do about it. No clock is asked.

use serde_json::{Value, json};
use tenure::{Error, ErrorKind, Result};

use super::EtcdEngine;
use super::txn::int;
use crate::engine::Finding;

/// The quota of a server that does not say it.
const QUOTA: u64 = 2 << 30;

/// A member as it describes itself.
struct Member {
    address: String,
    status: Result<Value>,
    quota: Option<u64>,
}

impl EtcdEngine {
    pub(super) fn check_health(&self) -> Result<Vec<Finding>> {
        let members: Vec<_> = self.client.hosts().map(ToString::to_string).enumerate().collect();
        let members: Vec<_> = members
            .into_iter()
            .map(|(place, address)| Member {
                address,
                status: self.ask_json(place, "/v3/maintenance/status", &json!({})),
                quota: self.quota(place),
            })
            .collect();
        if let [Member { status: Err(_), .. }] = members.as_slice() {
            self.world()?; // The error of a request, which says what to do.
        }
        let mut findings: Vec<_> = members.iter().map(describe).collect();
        findings.push(self.check_quorum(&members));
        findings.push(check_size(&members));
        findings.push(self.check_alarms());
        findings.push(self.check_store());
        Ok(findings)
    }

    fn ask_json(&self, place: usize, path: &str, body: &Value) -> Result<Value> {
        let bytes = self.client.ask_member(place, "POST", path, body)?;
        serde_json::from_slice(&bytes)
            .map_err(|_| Error::new(ErrorKind::Io, "look at", "the answer is not from etcd"))
    }

    /// The quota, from the metrics: the gateway of 3.4 and 3.5 does not say it.
    fn quota(&self, place: usize) -> Option<u64> {
        let text = self.client.ask_member(place, "GET", "/metrics", &json!({})).ok()?;
        let text = String::from_utf8_lossy(&text);
        let line =
            text.lines().find(|line| line.starts_with("etcd_server_quota_backend_bytes "))?;
        let value: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes")]
        (value > 0.0).then_some(value as u64)
    }

    fn check_quorum(&self, members: &[Member]) -> Finding {
        let leaders = members.iter().filter_map(|member| member.status.as_ref().ok());
        let leader = leaders.map(|status| int(&status["leader"])).find(|leader| *leader > 0);
        let listed = (0..members.len()).find_map(|place| {
            let answer = self.ask_json(place, "/v3/cluster/member/list", &json!({})).ok()?;
            answer["members"].as_array().map(Vec::len)
        });
        let reads = self.find_problem();
        let found = match (leader, listed) {
            (Some(leader), Some(count)) => format!("leader {leader:x}, {count} members"),
            (Some(leader), None) => format!("leader {leader:x}"),
            (None, _) => "no leader is known".to_owned(),
        };
        let problem = match (reads, leader, listed) {
            (Some(problem), _, _) => Some(problem),
            (None, None, _) => Some("no member names a leader: nothing can be written".to_owned()),
            (None, _, Some(count)) if count > 1 && members.len() == 1 => Some(format!(
                "the URL names only one of {count} members: if that one is lost, so is the store. Name all"
            )),
            (None, _, Some(count)) if count % 2 == 0 => Some(format!(
                "{count} members tolerate the loss of no more than {}: use an odd number",
                (count - 1) / 2
            )),
            _ => None,
        };
        Finding { what: "quorum", found, problem }
    }

    /// What a read that needs a majority says.
    fn find_problem(&self) -> Option<String> {
        self.world().err().map(|error| error.to_string())
    }

    fn check_alarms(&self) -> Finding {
        let what = "alarms";
        let body = json!({ "action": "GET" });
        let answer = self.client.ask("look at", "/v3/maintenance/alarm", &body);
        let alarms = match answer {
            Ok(answer) => answer.body["alarms"].as_array().cloned().unwrap_or_default(),
            Err(failure) => {
                let found = format!("cannot be read: {}", failure.error("look at"));
                return Finding { what, found, problem: None };
            }
        };
        let kinds: Vec<_> = alarms.iter().filter_map(|alarm| alarm["alarm"].as_str()).collect();
        let problem = if kinds.contains(&"NOSPACE") {
            Some(
                "the quota is used up: no writes are taken. Compact and defragment, or raise \
                 --quota-backend-bytes; then `etcdctl alarm disarm`",
            )
        } else if kinds.contains(&"CORRUPT") {
            Some("the members disagree about the data: replace the damaged one from the others")
        } else {
            None
        };
        let found = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
        Finding { what, found, problem: problem.map(str::to_owned) }
    }

    fn check_store(&self) -> Finding {
        let (found, problem) = match self.world() {
            Ok(world) if world.written == 0 => ("not used yet".to_owned(), None),
            Ok(world) => (format!("epoch {}", world.epoch), None),
            Err(error) => ("cannot be read".to_owned(), Some(error.to_string())),
        };
        Finding { what: "store", found, problem }
    }
}

fn describe(member: &Member) -> Finding {
    let what = "server";
    match &member.status {
        Ok(status) => {
            let version = status["version"].as_str().unwrap_or("of an unknown version");
            let found = format!("{}: etcd {version}", member.address);
            Finding { what, found, problem: bad_version(version) }
        }
        Err(error) => {
            let found = format!("{}: no answer", member.address);
            Finding { what, found, problem: Some(error.to_string()) }
        }
    }
}

/// What is wrong with a version.
fn bad_version(version: &str) -> Option<String> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    match (part(), part(), part()) {
        (3, 5, 0..=2) => {
            Some("3.5.0 to 3.5.2 can lose data after a crash: upgrade to 3.5.3".to_owned())
        }
        (0..=2, ..) | (3, 0..=3, _) => Some("older than 3.4: not tested, upgrade".to_owned()),
        (3, 4, 0..=30) | (3, 5, 3..=12) => Some(
            "a leader with a slow disk can end leases that are renewed (fixed in 3.4.31 and \
             3.5.11): a hold may be lost early; its writes are refused then"
                .to_owned(),
        ),
        _ => None,
    }
}

fn check_size(members: &[Member]) -> Finding {
    let what = "quota";
    let sizes = members.iter().filter_map(|member| member.status.as_ref().ok());
    let used = sizes.map(|status| int(&status["dbSize"])).max().unwrap_or(0);
    let quota = members.iter().filter_map(|member| member.quota).min();
    let total = quota.unwrap_or(QUOTA);
    let unit = |bytes: u64| bytes >> 20;
    let guessed = if quota.is_some() { "" } else { " (the default: it could not be read)" };
    let found = format!("{} MiB of {} MiB used{guessed}", unit(used), unit(total));
    let is_full = used > total / 10 * 8;
    let problem = is_full.then(|| {
        "more than 80 % are used; at 100 % no writes are taken. Compact and defragment, remove old \
         journals, or raise --quota-backend-bytes"
            .to_owned()
    });
    Finding { what, found, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bad_versions_are_named() {
        for bad in ["3.5.0", "3.5.2", "3.4.30", "3.5.12", "3.3.1", "2.3.7"] {
            assert!(bad_version(bad).is_some(), "{bad}");
        }
        for good in ["3.4.31", "3.5.13", "3.5.16", "3.6.0", "3.6.0-rc.1"] {
            assert!(bad_version(good).is_none(), "{good}");
        }
    }
}
