//! An etcd whose space is used up: a clear refusal, nothing lost, and work goes on once there is space again.

use serde_json::json;
use tenure::{Document, WriteOptions};
use tenure_engines::{Etcd, EtcdOptions};
use tenure_proof::Tally;

use crate::load::recovered;
use crate::scene::handle;

/// As small as etcd takes it: a fresh database is a few pages.
const QUOTA: u64 = 2 * 1024 * 1024;

#[test]
fn a_full_etcd_refuses_clearly_and_loses_nothing() {
    if !Etcd::is_here() {
        return;
    }
    let mut tally = Tally::new("stores", "a_full_etcd_refuses_clearly_and_loses_nothing");
    let options = EtcdOptions { quota: Some(QUOTA), ..EtcdOptions::default() };
    let cluster = Etcd::start_with(1, options);
    let store = handle(&cluster.fresh_url());
    let document = Document::on(&store, "/quota/document").expect("a name");
    let (mut last, text) = (0_u64, "x".repeat(200_000));
    let refused = loop {
        let value = json!({ "n": last + 1, "text": text });
        match document.set(&value, &WriteOptions::default()) {
            Ok(_) => last += 1,
            Err(error) => break error,
        }
        assert!(last < 100, "there is a quota");
    };
    let told = refused.to_string();
    println!("full after {last} versions: {told}");
    assert!(last > 0 && !told.contains('\n') && told.contains("/quota/document"), "{told}");
    let names_it = ["quota", "space"].iter().any(|word| told.to_lowercase().contains(word));
    assert!(names_it, "the error does not say that the space is used up: {told}");
    let read = document.read().expect("a full server still answers readers").expect("it is there");
    let found = read.value["n"].as_u64();
    assert_eq!(found, Some(last), "the last acknowledged version");
    let health = store.check();
    let problem = match &health {
        Ok(health) => health.iter().any(|finding| finding.problem.is_some()),
        Err(_) => true,
    };
    assert!(problem, "the health check is silent about it: {health:?}");
    // Space again, as an administrator makes it.
    let ask = |path: &str, body: &serde_json::Value| cluster.ask(0, path, body).expect(path);
    let status = ask("/v3/maintenance/status", &json!({}));
    let revision = status["header"]["revision"].as_str().expect("a revision").to_owned();
    ask("/v3/kv/compaction", &json!({ "revision": revision, "physical": true }));
    ask("/v3/maintenance/defragment", &json!({}));
    let alarms = ask("/v3/maintenance/alarm", &json!({ "action": "GET" }));
    let member = &alarms["alarms"][0]["memberID"];
    let off = json!({ "action": "DEACTIVATE", "alarm": "NOSPACE", "memberID": member });
    ask("/v3/maintenance/alarm", &off);
    recovered(|| document.set(&json!({ "n": last + 1 }), &WriteOptions::default()));
    tally.tried(1, "etcd servers without space");
    tally.tried(last, "versions written until it was full, none lost");
}
