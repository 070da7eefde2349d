//! Race 66: two installers and one settings file of another tool.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tenure::Wait;
use tenure_agents::settings::{Change, changed};
use tenure_agents::settings_file;
use tenure_proof::tenure;

use crate::scene::Scene;

const SETTINGS: &str = "{\n  // Of the team.\n  \"model\": \"fast\",\n  \"hooks\": {},\n}\n";

/// An installer as many tools have it: read, change, write, without a lock and without the comments.
fn their_install(file: &Path, name: &str, meanwhile: impl FnOnce()) {
    let text = fs::read_to_string(file).unwrap();
    let mut settings: Value = serde_json::from_str(&text).unwrap();
    meanwhile();
    settings["hooks"][name] = json!([{ "command": name }]);
    fs::write(file, settings.to_string()).unwrap();
}

fn start(file: &Path, wait: &str) -> Child {
    let mut command = Command::new(tenure());
    command.args(["settings", "merge", "--wait", wait]).arg(file);
    command.arg(r#"{"hooks":{"bob":[{"command":"bob"}]}}"#);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Two installers edit the settings of Claude Code, and each drops the other's keys (anthropics/claude-code#78392,
/// 440 captures). Ours: a change reads and replaces the file under its lock (G6); comments and unknown keys stay.
#[test]
fn race_66_two_installers_drop_each_others_settings() {
    let mut scene = Scene::new("race_66");
    let theirs = scene.theirs().join("settings.json");
    fs::write(&theirs, r#"{"model":"fast","hooks":{}}"#).unwrap();
    their_install(&theirs, "alice", || their_install(&theirs, "bob", || {}));
    let left: Value = serde_json::from_slice(&fs::read(&theirs).unwrap()).unwrap();
    assert_eq!(left["hooks"], json!({ "alice": [{ "command": "alice" }] }), "bob is lost");
    scene.broke("installers that read, change and write without a lock");

    let ours = scene.ours("settings.json");
    fs::write(&ours, SETTINGS).unwrap();
    let patch = tenure::json!({ "hooks": { "alice": [{ "command": "alice" }] } });
    let (calls, waiting) = (Cell::new(0), Cell::new(None));
    settings_file::change(&ours, Wait::default(), false, |found| {
        calls.set(calls.get() + 1);
        // The first call only looks whether there is something to do; the second one is under the lock.
        if calls.get() == 2 {
            assert_eq!(start(&ours, "0").wait().unwrap().code(), Some(75), "bob is not kept out");
            waiting.set(Some(start(&ours, "60s")));
        }
        Ok(changed(found.text, &patch, Change::Merge)?.map(settings_file::Plan::with_copy))
    })
    .unwrap();
    assert!(waiting.take().unwrap().wait().unwrap().success());
    let text = fs::read_to_string(&ours).unwrap();
    for kept in ["// Of the team.", "\"model\": \"fast\"", "\"alice\"", "\"bob\""] {
        assert!(text.contains(kept), "{kept} is gone from {text}");
    }
    scene.tally.tried(2, "installers at once");
}
