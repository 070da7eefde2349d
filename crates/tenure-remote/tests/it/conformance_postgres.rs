//! The store on PostgreSQL passes the suite, with connections that break and replies that get lost.

use tenure_conformance::Subject;
use tenure_engines::Postgres;
use tenure_remote::postgres::PostgresEngine;

use crate::armed_engine::{stand_in, subject_on};

/// A schema of its own on the server that all tests share.
fn subject() -> Subject {
    if !Postgres::is_here() {
        return stand_in();
    }
    let server = Postgres::shared();
    let schema = Postgres::fresh_schema();
    let url = |address: &str| format!("{}?schema={schema}", server.url_at(address));
    subject_on(&server.address(), url, PostgresEngine::connect)
}

tenure_conformance::conformance!(subject);
