//! Race 69: a promoted standby gives out smaller fences, versions or journal numbers again.
//!
//! A standby that follows asynchronously may lack the last commits of the primary, and with them the newest counters.
//! An epoch above the counters keeps everything growing; a synchronous standby has to lack nothing that was
//! acknowledged.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tenure::{AppendOptions, Document, ErrorKind, Journal, Wait, WriteOptions};
use tenure_engines::{Postgres, Replication};
use tenure_proof::{Form, Tally};
use tenure_remote::RemoteStore;

use crate::holders::{take, write, written};
use crate::load::{entries, entries_and_gaps, recovered};
use crate::scene::{handle, with};

const TTL: Duration = Duration::from_secs(2);
const STATE: &str = "/failover/state";
const LOG: &str = "/failover/log";

fn set(store: &RemoteStore, value: u64) -> tenure::Result<String> {
    let options = WriteOptions { wait: Wait::For(TTL), ..WriteOptions::default() };
    let written = Document::on(store, STATE)?.set(&tenure::json!({ "n": value }), &options)?;
    Ok(written.version.to_string())
}

fn append(store: &RemoteStore, value: u64) -> tenure::Result<u64> {
    let write = WriteOptions { wait: Wait::For(TTL), ..WriteOptions::default() };
    let options = AppendOptions { write, ..AppendOptions::default() };
    Ok(Journal::on(store, LOG)?.append(&[value.to_string()], &options)?.last)
}

/// The URL that names both servers, and how long a session lives.
fn both(primary: &Postgres, standby: &Postgres, ttl: &str) -> String {
    let addresses = format!("{},{}", primary.address(), standby.address());
    let url = format!("{}?schema={}", primary.url_at(&addresses), Postgres::fresh_schema());
    with(&url, &format!("ttl={ttl}&target_session_attrs=read-write"))
}

#[test]
fn race_69_fences_grow_when_an_asynchronous_standby_is_promoted() {
    if !Postgres::is_here() {
        return;
    }
    let test = "race_69_fences_grow_when_an_asynchronous_standby_is_promoted";
    let mut tally = Tally::new("stores", test);
    for _ in 0..Form::asked().pick(1, 5) {
        let mut primary = Postgres::start();
        primary.sql("create table naive (fence int); insert into naive values (0)");
        let standby = primary.standby(Replication::Asynchronous);
        let store = handle(&both(&primary, &standby, "10s"));
        let first = take(&store, TTL);
        let mut fences = vec![first.publish_fence()];
        write(&store, fences[0], 1).unwrap_or_else(|error| panic!("{error}"));
        first.release().unwrap_or_else(|error| panic!("{error}"));
        let mut versions = vec![set(&store, 1).expect("a version")];
        let mut numbers = vec![append(&store, 1).expect("a number")];
        let mut naive = vec![naive_fence(&primary)];
        let position = format!(
            "select pg_wal_lsn_diff('{}', pg_last_wal_replay_lsn()) <= 0",
            primary.sql("select pg_current_wal_lsn()")
        );
        tenure_engines::until("the standby has it", Duration::from_secs(20), || {
            (standby.sql(&position) == "t").then_some(())
        });
        // From here on the standby gets nothing: it will not know these fences, versions and numbers.
        primary.stall_replication();
        for value in 2..6 {
            let guard = take(&store, TTL);
            fences.push(guard.publish_fence());
            naive.push(naive_fence(&primary));
            guard.release().unwrap_or_else(|error| panic!("{error}"));
            versions.push(set(&store, value).unwrap_or_else(|error| panic!("{error}")));
            numbers.push(append(&store, value).unwrap_or_else(|error| panic!("{error}")));
        }
        // The old holder. The standby knows its session, and not its lock.
        let old = take(&store, TTL);
        fences.push(old.publish_fence());
        assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
        primary.kill();
        standby.promote();
        assert!(naive.contains(&naive_fence(&standby)), "it lacks nothing: {naive:?}");
        tally.caught("a fence that is only a counter, on a promoted standby");
        let refused = recovered_refusal(&store, fences[fences.len() - 1]);
        assert!(matches!(refused, ErrorKind::Fenced | ErrorKind::LeaseLost), "{refused:?}");
        let loss = old.loss().expect("it can be lost");
        assert!(loss.wait(Duration::from_secs(30)), "the loss is signalled");
        let lost = old.verify().expect_err("the new primary knows nothing of its hold");
        assert!(lost.to_string().contains("forgot"), "its session lives: {lost}");
        old.release().expect_err("it is over");
        let next = recovered(|| {
            let options = tenure::LockOptions { wait: Wait::For(TTL * 4), ..Default::default() };
            tenure::Lock::on(&store, "/holders/lock")?.acquire(&options)
        });
        let largest = *fences.iter().max().expect("some");
        let fence = next.publish_fence();
        assert!(fence > largest && fence < 1 << 53, "{fence} after {fences:?}");
        write(&store, fence, 7).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(written(&store), [1, 7], "nothing of the old holder");
        let version = set(&store, 9).unwrap_or_else(|error| panic!("{error}"));
        assert!(!versions.contains(&version), "version {version} again");
        let number = append(&store, 9).unwrap_or_else(|error| panic!("{error}"));
        let largest = *numbers.iter().max().expect("some");
        assert!(number > largest, "number {number} after {numbers:?}");
        // A reader that continues behind the last number it has seen misses nothing.
        let (read, _) = recovered(|| entries_and_gaps(&store, LOG, largest + 1));
        assert_eq!(read, [(number, 9)]);
        // One that has not seen the lost ones gets a gap.
        let (read, gaps) = recovered(|| entries_and_gaps(&store, LOG, 0));
        assert_eq!(read, [(numbers[0], 1), (number, 9)]);
        let is_told = |lost: &u64| gaps.iter().any(|(from, to)| (from..=to).contains(&lost));
        assert!(numbers[1..].iter().all(is_told), "{:?} are skipped: {gaps:?}", &numbers[1..]);
        tally.tried(1, "asynchronous standbys promoted that lacked the newest fences");
        tally.tried(5, "fences that the promoted standby had never seen");
    }
}

/// The next number of a plain counter: the control.
fn naive_fence(server: &Postgres) -> String {
    server.sql("update naive set fence = fence + 1 returning fence")
}

/// How a write under an old fence is refused, once the store answers again.
fn recovered_refusal(store: &RemoteStore, fence: u64) -> ErrorKind {
    recovered(|| match write(store, fence, 99) {
        Ok(number) => panic!("the old holder wrote entry {number}"),
        Err(error) if error.kind() == ErrorKind::Io => Err(error),
        Err(error) => Ok(error.kind()),
    })
}

#[test]
fn race_69_a_synchronous_standby_has_all_that_was_acknowledged() {
    if !Postgres::is_here() {
        return;
    }
    let test = "race_69_a_synchronous_standby_has_all_that_was_acknowledged";
    let mut tally = Tally::new("stores", test);
    for _ in 0..Form::asked().pick(1, 5) {
        let mut primary = Postgres::start();
        let standby = primary.standby(Replication::Synchronous);
        let url = both(&primary, &standby, "2s");
        let store = handle(&with(&url, "failover=sync"));
        let guard = take(&store, TTL);
        let fence = guard.publish_fence();
        // Writers at full speed while the primary dies.
        let (told, heard) = channel();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let (told, stop, url) = (told.clone(), stop.clone(), url.clone());
                std::thread::spawn(move || {
                    let store = tenure_remote::open_apart(&url).expect("it is there");
                    for turn in 0.. {
                        if stop.load(std::sync::atomic::Ordering::SeqCst) {
                            return;
                        }
                        let value = writer * 1_000_000 + turn;
                        if let Ok(number) = append(&store, value) {
                            let _ = told.send((number, value));
                        }
                    }
                })
            })
            .collect();
        drop(told);
        let mut acknowledged = Vec::new();
        while acknowledged.len() < 200 {
            acknowledged.push(heard.recv_timeout(Duration::from_secs(60)).expect("writers write"));
        }
        primary.kill();
        standby.promote();
        let before = acknowledged.len();
        while acknowledged.len() < before + 50 {
            acknowledged.push(heard.recv_timeout(Duration::from_secs(60)).expect("they go on"));
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        for writer in writers {
            writer.join().expect("no writer panics");
        }
        acknowledged.extend(heard.try_iter());
        // The new primary has no standby yet, so `failover=sync` refuses it.
        let error = entries(&store, LOG, 0).expect_err("the replication is not synchronous now");
        assert!(error.to_string().contains("failover=sync"), "{error}");
        let store = handle(&url);
        let (there, _) = recovered(|| entries_and_gaps(&store, LOG, 0));
        let lost: Vec<_> = acknowledged.iter().filter(|entry| !there.contains(entry)).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        let mut values: Vec<u64> = there.iter().map(|(_, value)| *value).collect();
        values.sort_unstable();
        assert!(values.is_sorted_by(|one, next| one < next), "an entry is there twice");
        let next = {
            drop(guard);
            take(&store, TTL * 8)
        };
        assert!(next.publish_fence() > fence);
        tally.tried(1, "synchronous standbys promoted under load");
        tally
            .tried(acknowledged.len() as u64, "entries acknowledged around a promotion, none lost");
    }
}
