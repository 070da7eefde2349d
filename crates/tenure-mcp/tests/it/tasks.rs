//! A board of tasks that agents share through the server.

use std::collections::HashSet;
use std::time::Duration;

use tenure::{Value, json};

use crate::client::Client;

fn claim(agent: &str) -> Value {
    json!({ "queue": "tasks", "agent": agent })
}

fn finish(claimed: &Value, outcome: &str) -> Value {
    json!({ "queue": "tasks", "id": &claimed["id"], "token": &claimed["token"], "outcome": outcome })
}

#[test]
fn every_task_goes_to_one_agent_and_is_done_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut alice, mut bob) = (Client::new(dir.path()), Client::new(dir.path()));
    for n in 0..6 {
        let id = format!("task-{n}");
        let task = json!({ "queue": "tasks", "task": { "n": n }, "id": id });
        assert_eq!(alice.call("add_task", &task).expect("added")["new"], true);
        assert_eq!(bob.call("add_task", &task).expect("known")["new"], false);
    }
    let mut seen = HashSet::new();
    for _ in 0..3 {
        for (client, agent) in [(&mut alice, "alice"), (&mut bob, "bob")] {
            let claimed = client.call("claim_task", &claim(agent)).expect("a task");
            assert!(seen.insert(claimed["id"].to_string()), "{claimed} was given out twice");
            client.call("finish_task", &finish(&claimed, "done")).expect("done");
            // Again: the answer was lost, the claim had completed it.
            client.call("finish_task", &finish(&claimed, "done")).expect("done before");
        }
    }
    let none = alice.call("claim_task", &claim("alice")).expect("an answer");
    assert_eq!(none["claimed"], false);
    let listed = |client: &mut Client, finished: bool| {
        let asked = json!({ "queue": "tasks", "finished": finished });
        client.call("list_tasks", &asked).expect("a list")["tasks"]
            .as_array()
            .expect("a list")
            .len()
    };
    assert_eq!((listed(&mut alice, false), listed(&mut alice, true)), (0, 6));
    alice.close();
    bob.close();
}

#[test]
fn a_failed_task_goes_back_and_is_set_aside_in_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    let task = json!({ "queue": "tasks", "task": "build", "max_attempts": 2 });
    client.call("add_task", &task).expect("added");
    for (attempt, state) in [(1, "open"), (2, "set_aside")] {
        let claimed = client.call("claim_task", &claim("alice")).expect("a task");
        assert_eq!(claimed["attempt"], attempt);
        let mut failed = finish(&claimed, "failed");
        failed["reason"] = json!("no network");
        assert_eq!(client.call("finish_task", &failed).expect("failed")["state"], state);
    }
    let asked = json!({ "queue": "tasks", "finished": true });
    let listed = client.call("list_tasks", &asked).expect("a list");
    assert_eq!(listed["tasks"][0]["reason"], "no network", "{listed}");
    client.close();
}

#[test]
fn a_lost_claim_is_an_error_that_says_stop() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    client.call("add_task", &json!({ "queue": "tasks", "task": 1 })).expect("added");
    let mut short = claim("alice");
    short["ttl_seconds"] = json!(0.05);
    let lost = client.call("claim_task", &short).expect("a task");
    // It expires, which wakes the other one.
    let mut next = claim("bob");
    next["wait_seconds"] = json!(30);
    let taken = client.call("claim_task", &next).expect("an answer");
    assert_eq!((&taken["id"], &taken["attempt"]), (&lost["id"], &json!(2)), "{taken}");
    let refused = client.call("finish_task", &finish(&lost, "done")).expect_err("lost");
    assert!(refused.contains("Next: Stop"), "{refused}");
    let renewal = |claimed: &Value| json!({ "queue": "tasks", "id": &claimed["id"], "token": &claimed["token"] });
    client.call("renew_task", &renewal(&lost)).expect_err("lost");
    assert_eq!(client.call("renew_task", &renewal(&taken)).expect("renewed")["id"], taken["id"]);
    let listed = client.call("list_tasks", &json!({ "queue": "tasks" })).expect("a list");
    assert_eq!(listed["tasks"][0]["owner"], "bob", "{listed}");
    assert_eq!(listed["tasks"][0]["state"], "claimed");
    client.close();
}

#[test]
fn bad_arguments_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    client.call("add_task", &json!({ "queue": "tasks", "task": 1 })).expect("added");
    let claimed = client.call("claim_task", &claim("alice")).expect("a task");
    for (tool, arguments, why) in [
        ("add_task", json!({ "queue": "tasks" }), "`task` is missing"),
        ("claim_task", json!({ "queue": "tasks", "ttl_seconds": 0 }), "more than 0"),
        ("finish_task", finish(&claimed, "perhaps"), "done or failed"),
        ("list_tasks", json!({ "queue": "tasks", "finished": "yes" }), "true or false"),
        ("list_tasks", json!({ "queue": "../tasks" }), "outside of"),
        (
            "finish_task",
            json!({ "queue": "tasks", "id": "../x", "token": "t", "outcome": "done" }),
            "no such task",
        ),
    ] {
        let refused = client.call(tool, &arguments).expect_err("bad input");
        assert!(refused.contains(why), "{arguments}: {refused}");
    }
    client.close();
}

#[test]
fn a_claim_waits_only_if_it_is_told_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    client.request("tools/call", &json!({ "name": "claim_task", "arguments": claim("alice") }));
    let answer = client.answers_within(Duration::from_secs(5)).expect("an answer at once");
    assert_eq!(answer["result"]["structuredContent"]["claimed"], false, "{answer}");
    client.close();
}

/// The cancellation comes while the claim is made: no caller gets its token.
#[test]
fn a_claim_whose_call_was_cancelled_is_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut client = Client::new(dir.path());
    for _ in 0..20 {
        client.call("add_task", &json!({ "queue": "tasks", "task": 1 })).expect("added");
        let params = json!({ "name": "claim_task", "arguments": claim("alice") });
        let id = client.request("tools/call", &params);
        let params = json!({ "requestId": id });
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        client.send(&cancelled.to_string());
        let mut next = claim("bob");
        next["wait_seconds"] = json!(20);
        client.request("tools/call", &json!({ "name": "claim_task", "arguments": next }));
        let answer = client.answer();
        let claimed = &answer["result"]["structuredContent"];
        if answer["id"] != id {
            assert_eq!(claimed["claimed"], true, "the cancelled call keeps the task");
            client.call("finish_task", &finish(claimed, "done")).expect("done");
            if claimed["attempt"] == 2 {
                return client.close();
            }
            continue; // Cancelled before it claimed anything: once more.
        }
        // The claim was faster than its cancellation: once more.
        client.call("finish_task", &finish(claimed, "failed")).expect("failed");
        let taken = client.answer();
        let taken = &taken["result"]["structuredContent"];
        client.call("finish_task", &finish(taken, "done")).expect("done");
    }
    panic!("no claim was cancelled");
}
