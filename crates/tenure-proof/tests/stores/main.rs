//! The ring of stores: real PostgreSQL and etcd servers, killed, paused, parted and promoted under load.
//!
//! Every store is driven through the nouns, as a program would. What must hold: no acknowledged operation is lost, an
//! operation without an answer happened once or never, fences strictly grow, a former holder is refused, and clients
//! recover without help. `load` makes the histories, `controls` shows that wrong stores are caught.
#![cfg(target_os = "linux")]

mod access;
mod cluster;
mod controls;
mod cuts;
mod failover;
mod faults;
mod histories;
mod holders;
mod load;
mod networks;
mod quota;
mod scene;
