//! The kit itself: servers start, die and come back; faults happen where they should.
#![cfg(target_os = "linux")]

mod etcd;
mod network;
mod outlive;
mod postgres;
mod proxy;
