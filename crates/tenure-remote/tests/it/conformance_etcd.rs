//! The store on etcd passes the suite, with connections that break and replies that get lost.

use tenure_conformance::Subject;
use tenure_engines::Etcd;
use tenure_remote::etcd::EtcdEngine;

use crate::armed_engine::{stand_in, subject_on};

/// A prefix of its own on the server that all tests share.
fn subject() -> Subject {
    if !Etcd::is_here() {
        return stand_in();
    }
    let server = Etcd::shared();
    let prefix = Etcd::fresh_prefix();
    let url = |address: &str| format!("{}/{prefix}", server.url_at(address));
    subject_on(&server.address(0), url, EtcdEngine::connect)
}

tenure_conformance::conformance!(subject);
