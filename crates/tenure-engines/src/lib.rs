//! Real servers for tests, and ways to make them fail: PostgreSQL with standbys and pgbouncer, etcd with one or more
//! members, a TCP proxy, and hosts with their own network.
//!
//! ```no_run
//! use tenure_engines::{Etcd, Postgres};
//!
//! if Postgres::is_here() {
//!     let server = Postgres::start();
//!     println!("{}", server.fresh_url()); // a schema that no other test uses
//! }
//! if Etcd::is_here() {
//!     let mut cluster = Etcd::start(3);
//!     cluster.kill(cluster.leader());
//! }
//! ```
//!
//! # Invariants
//!
//! 1. Servers listen on loopback or in a namespace of their own, on ports that were free, and keep their data in a
//!    directory of this process.
//! 2. Nothing outlives the process, however it ends: the kernel kills its servers, and a guardian removes the directory.
//! 3. A missing program fails the test, unless the variable that `cargo xtask test` sets for it says to go on
//!    (`TENURE_WITHOUT_POSTGRES`, `TENURE_WITHOUT_ETCD`, `TENURE_WITHOUT_NETWORKS`). Then it is reported.
#![cfg(target_os = "linux")]

mod bouncer;
mod daemon;
mod etcd;
mod gateway;
mod network;
mod place;
mod port;
mod postgres;
mod programs;
mod proxy;
mod tls;
mod wait;

pub use self::bouncer::Bouncer;
pub use self::etcd::{Etcd, EtcdOptions};
pub use self::network::{Host, Network};
pub use self::postgres::{Postgres, PostgresOptions, Replication};
pub use self::proxy::{Proxy, Way};
pub use self::tls::{Certificates, Identity};
pub use self::wait::until;
