//! The fact-forcing gate, by the rules of ECC's own tests.

use serde_json::{Value, json};

use crate::hook_stage::{Stage, denial};

impl Stage {
    fn touches(&self, file: &str) -> Option<String> {
        self.touches_with(file, &[])
    }

    fn touches_with(&self, file: &str, env: &[(&str, &str)]) -> Option<String> {
        let payload = self.payload("session", "PreToolUse", "").to_string();
        let mut payload: Value = serde_json::from_str(&payload).unwrap();
        payload["tool_input"]["file_path"] = file.into();
        let command = self.command(&["gate"], payload.to_string());
        let command = env.iter().fold(command, |command, (name, value)| command.env(name, value));
        denial(&command.run().ok())
    }

    fn state(&self) -> Value {
        serde_json::from_str(&self.bench.read("gate/state-session.json")).unwrap()
    }
}

#[test]
fn the_first_edit_of_each_file_is_asked_and_the_next_passes() {
    let stage = Stage::new();
    let question = stage.touches("/src/app.js").unwrap();
    for part in ["[Fact-Forcing Gate]", "Before editing /src/app.js", "import", "verbatim", "retry"]
    {
        assert!(question.contains(part), "no `{part}` in {question}");
    }
    assert_eq!(stage.touches("/src/app.js"), None);
    assert!(stage.touches("/src/other.js").is_some());
    assert_eq!(stage.state()["checked"], json!(["/src/app.js", "/src/other.js"]));
    assert_eq!(stage.state()["fact_force_denials"], 2);
}

#[test]
fn other_sessions_are_asked_again_and_subagents_are_not_asked() {
    let stage = Stage::new();
    let payload = |agent| stage.payload(agent, "PreToolUse", "src/a.rs");
    assert!(denial(&stage.hook(&["gate"], &payload("one")).ok()).is_some());
    assert!(denial(&stage.hook(&["gate"], &payload("two")).ok()).is_some());
    assert_eq!(denial(&stage.hook(&["gate"], &payload("three/sub")).ok()), None);
    let mut child = payload("four");
    child["parentToolUseId"] = "toolu_1".into();
    assert_eq!(denial(&stage.hook(&["gate"], &child).ok()), None);
}

#[test]
fn files_of_a_multi_edit_are_asked_one_by_one() {
    let stage = Stage::new();
    let mut payload = stage.payload("session", "PreToolUse", "x");
    payload["tool_name"] = "multiedit".into();
    payload["tool_input"] =
        json!({ "edits": [{ "file_path": "/a.js" }, { "file_path": "/b.js" }] });
    let call = || denial(&stage.hook(&["gate"], &payload).ok());
    assert!(call().unwrap().contains("/a.js"));
    assert!(call().unwrap().contains("/b.js"));
    assert_eq!(call(), None);
}

#[test]
fn a_payload_without_an_event_is_gated_and_one_of_another_event_is_not() {
    let stage = Stage::new();
    let mut payload = stage.payload("s", "PostToolUse", "a.rs");
    assert_eq!(denial(&stage.hook(&["gate"], &payload).ok()), None);
    payload.as_object_mut().unwrap().remove("hook_event_name");
    let question = denial(&stage.hook(&["gate"], &payload).ok()).unwrap();
    assert!(question.contains("ECC_DISABLED_HOOKS"), "{question}");
}

#[test]
fn settings_exempt_trees_and_switches_pass() {
    let stage = Stage::new();
    assert_eq!(stage.touches("/home/u/.claude/settings.local.json"), None);
    let file = stage.root().join("tests/x.test.js");
    let file = file.to_str().unwrap();
    assert_eq!(stage.touches_with(file, &[("GATEGUARD_EXEMPT_GLOBS", "docs/**, tests/**")]), None);
    for (name, value) in [
        ("ECC_GATEGUARD", "off"),
        ("ECC_GATEGUARD", " Disabled "),
        ("GATEGUARD_DISABLED", "1"),
        ("ECC_HOOK_PROFILE", "minimal"),
        ("ECC_DISABLED_HOOKS", "x, pre:edit-write:gateguard-fact-force"),
    ] {
        assert_eq!(stage.touches_with("/a.js", &[(name, value)]), None, "{name}={value}");
    }
    assert!(!stage.bench.path("gate").exists());
    assert!(stage.touches_with(file, &[("GATEGUARD_EXEMPT_GLOBS", "test/**")]).is_some());
}

#[test]
fn questions_become_short_and_differ() {
    let stage = Stage::new();
    let questions: Vec<_> = (0..5).map(|n| stage.touches(&format!("/{n}.js")).unwrap()).collect();
    assert!(questions[2].lines().count() > 5);
    assert!(
        questions[3].lines().count() == 1 && questions[3].contains("question 4"),
        "{}",
        questions[3]
    );
    assert!(questions[4].contains("question 5"));
    let env = [("GATEGUARD_FACT_FORCE_FULL_DENIALS", "0")];
    assert_eq!(stage.touches_with("/9.js", &env).unwrap().lines().count(), 1);
}

#[test]
fn a_template_asks_its_own_question() {
    let stage = Stage::new();
    let template = stage.bench.file("q.txt", "Why {tool} {file}?");
    let payload = stage.payload("s", "PreToolUse", "a.rs");
    let ran = stage.hook(&["gate", "--template", template.to_str().unwrap()], &payload).ok();
    assert_eq!(denial(&ran).unwrap(), format!("Why Edit {}?", stage.root().join("a.rs").display()));
}

#[test]
fn of_twenty_calls_at_once_no_mark_is_lost() {
    let stage = Stage::new();
    for round in 0..3 {
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let payload = stage.payload("session", "PreToolUse", &format!("{round}/{n}.rs"));
                let command = stage.command(&["gate"], payload.to_string());
                std::thread::spawn(move || denial(&command.run().ok()))
            })
            .collect();
        assert!(calls.into_iter().all(|call| call.join().unwrap().is_some()));
        let state = stage.state();
        assert_eq!(state["checked"].as_array().unwrap().len(), 20 * (round + 1), "{state}");
        assert_eq!(state["fact_force_denials"], 20 * (round + 1), "{state}");
    }
}
