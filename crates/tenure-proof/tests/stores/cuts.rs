//! Connections cut at every byte of a write: it is done once, or not at all, and the client knows which.

use tenure::{AppendOptions, ErrorKind, Journal, WriteOptions};
use tenure_engines::{Etcd, Postgres, Proxy, Way};
use tenure_proof::{Form, Tally, seed};
use tenure_remote::RemoteStore;
use tenure_testkit::Random;

use crate::load::{changed_nothing, entries, recovered};
use crate::scene::{handle, say};

const LOG: &str = "/cuts/log";

fn append(store: &RemoteStore, value: u64) -> tenure::Result<u64> {
    let write = WriteOptions::default();
    let options = AppendOptions { write, ..AppendOptions::default() };
    Ok(Journal::on(store, LOG)?.append(&[value.to_string()], &options)?.last)
}

/// Appends with the connection cut or half-closed at each of these bytes, in both directions.
fn sweep(store: &RemoteStore, proxy: &Proxy, test: &str) {
    let mut tally = Tally::new("stores", test);
    let mut random = Random::new(seed("stores", test));
    let (first, step) = Form::asked().pick((random.below(60), 80), (0, 1));
    let mut value = 0;
    let mut expected: Vec<(u64, u64)> = Vec::new();
    let (mut unsure, mut refusals, mut done) = (Vec::new(), Vec::new(), 0);
    for way in [Way::Requests, Way::Replies] {
        for half in [false, true] {
            let mut byte = first;
            // Until the fault is behind the whole conversation.
            loop {
                value += 1;
                let before = proxy.cuts();
                if half {
                    proxy.half_close_after(way, byte);
                } else {
                    proxy.cut_after(way, byte);
                }
                match append(store, value) {
                    Ok(number) => expected.push((number, value)),
                    Err(error) => {
                        let known = [ErrorKind::Io, ErrorKind::Busy].contains(&error.kind());
                        assert!(known, "cut at byte {byte} of {way:?}: {error}");
                        refusals.push(format!("{way:?}, half {half}, byte {byte}: {error}"));
                        if !changed_nothing(&error) {
                            unsure.push(value);
                        }
                    }
                }
                let happened = proxy.cuts() > before;
                proxy.heal();
                if !happened {
                    break;
                }
                done += 1;
                byte += step;
                assert!(byte < 100_000, "every write is cut");
            }
        }
    }
    let there = recovered(|| entries(store, LOG, 0));
    let lost: Vec<_> = expected.iter().filter(|entry| !there.contains(entry)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let mut values: Vec<u64> = there.iter().map(|(_, value)| *value).collect();
    values.sort_unstable();
    assert!(values.is_sorted_by(|one, next| one < next), "done twice: {values:?}");
    let known = |value: &u64| unsure.contains(value) || expected.iter().any(|it| it.1 == *value);
    assert!(values.iter().all(known), "refused, and done all the same: {values:?}");
    assert!(done > 4, "only {done} cuts");
    say(&format!("{done} cuts, {} acknowledged, {} unsure", expected.len(), unsure.len()));
    say(&format!(
        "{} errors, the first and the last: {:?}, {:?}",
        refusals.len(),
        refusals.first(),
        refusals.last()
    ));
    tally.tried(done, "connections cut or half-closed at a byte of a write");
    tally.tried(expected.len() as u64, "such writes acknowledged, each done once");
}

#[test]
fn a_write_to_postgres_that_is_cut_anywhere_is_done_once_or_never() {
    if !Postgres::is_here() {
        return;
    }
    let server = Postgres::shared();
    let proxy = Proxy::start(&server.address());
    let url = format!("{}?schema={}", server.url_at(&proxy.address()), Postgres::fresh_schema());
    let test = "a_write_to_postgres_that_is_cut_anywhere_is_done_once_or_never";
    sweep(&handle(&url), &proxy, test);
}

#[test]
fn a_write_to_etcd_that_is_cut_anywhere_is_done_once_or_never() {
    if !Etcd::is_here() {
        return;
    }
    let cluster = Etcd::shared();
    let proxy = Proxy::start(&cluster.address(0));
    let url = format!("{}/{}", cluster.url_at(&proxy.address()), Etcd::fresh_prefix());
    let test = "a_write_to_etcd_that_is_cut_anywhere_is_done_once_or_never";
    sweep(&handle(&url), &proxy, test);
}
