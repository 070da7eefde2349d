//! The store on servers: the suite of every store on an engine in memory and on real servers, and what a server can do
//! to a session.

#[cfg(all(target_os = "linux", any(feature = "etcd", feature = "postgres")))]
mod armed_engine;
#[cfg(all(target_os = "linux", feature = "etcd"))]
mod asking;
#[cfg(all(target_os = "linux", feature = "etcd"))]
mod conformance_etcd;
mod conformance_memory;
#[cfg(all(target_os = "linux", feature = "postgres"))]
mod conformance_postgres;
mod entries;
#[cfg(all(target_os = "linux", feature = "etcd"))]
mod etcd_access;
#[cfg(all(target_os = "linux", feature = "etcd"))]
mod etcd_faults;
#[cfg(all(target_os = "linux", feature = "etcd"))]
mod etcd_steps;
#[cfg(unix)]
mod forks;
mod memory_engine;
#[cfg(all(target_os = "linux", feature = "postgres"))]
mod postgres_faults;
#[cfg(all(target_os = "linux", feature = "postgres"))]
mod postgres_rare;
#[cfg(all(target_os = "linux", feature = "postgres"))]
mod postgres_steps;
mod sessions;
#[cfg(all(target_os = "linux", any(feature = "etcd", feature = "postgres")))]
mod sessions_on_servers;
mod sharding;
