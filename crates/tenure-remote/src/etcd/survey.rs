//! What is read as it is: documents, names, holds of many targets, events. And what is kept of many of them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tenure::{Result, Value};

use super::EtcdEngine;
use super::hold::Found;
use super::record::age;
use super::txn::{Kv, Span, Txn, then};
use crate::engine::{Hold, Listed, Read};

/// So many names are read at once.
const PAGE: usize = 1000;
/// So many old keys are deleted at once.
const TRIM_MAX: usize = 100;

impl EtcdEngine {
    pub(super) fn read_document(&self, name: &str, operation: Option<&str>) -> Result<Read> {
        let (world, keys) = (self.world()?, self.layout.of(name));
        let mut reads = vec![then::get(&keys.document)];
        reads.extend(operation.map(|operation| then::look(&keys.operation(operation))));
        let done = self.transact("read", &Txn::reading(reads))?.done;
        let document = done.key(0).map(|kv| (kv.value, world.version(kv.written)));
        Ok(Read { document, is_done: done.key(1).is_some() })
    }

    /// All keys of a range, in their order.
    fn all(&self, step: &'static str, span: &Span) -> Result<Vec<Kv>> {
        let (mut found, mut rest): (Vec<Kv>, Span) = (Vec::new(), span.clone());
        loop {
            let txn = Txn::reading(vec![then::range(&rest, PAGE)]);
            let done = self.transact(step, &txn)?.done;
            found.extend(done.keys(0));
            match found.last() {
                Some(last) if done.has_more(0) => rest.0 = [&last.key, &b"\0"[..]].concat(),
                _ => return Ok(found),
            }
        }
    }

    pub(super) fn list_directory(&self, directory: &str) -> Result<Vec<Listed>> {
        let (step, world) = ("list", self.world()?);
        let parent = directory.trim_end_matches('/');
        let mut listed: BTreeMap<String, Listed> = BTreeMap::new();
        for kv in self.all(step, &self.layout.directory('t', directory))? {
            let Some(name) = self.layout.name_of(&kv.key) else { continue };
            let is_inside = |rest: &str| rest.starts_with('/') && !rest[1..].contains('/');
            if !name.strip_prefix(parent).is_some_and(is_inside) {
                continue;
            }
            let (changes, age) = (world.number(kv.written), age(&kv.value));
            let entry = listed.entry(name.clone());
            let known = entry.or_insert(Listed { name, has_content: true, changes: 0, age });
            if changes > known.changes {
                (known.changes, known.age) = (changes, age);
            }
        }
        let mut listed: Vec<_> = listed.into_values().collect();
        correct_ages(&mut listed);
        Ok(listed)
    }

    pub(super) fn survey_holds(&self, prefix: &str) -> Result<Vec<(String, Hold)>> {
        let (step, world) = ("survey", self.world()?);
        let parent = prefix.trim_end_matches('/');
        let own = self.layout.of(if parent.is_empty() { "/" } else { parent });
        let mut holds = Vec::new();
        let by_name = |kind: char, key: &[u8]| -> Result<HashMap<String, Vec<Kv>>> {
            let mut found = self.all(step, &self.layout.directory(kind, prefix))?;
            let own = Txn::reading(vec![if kind == 'q' {
                then::oldest(&own.queue, 0)
            } else {
                then::get(key)
            }]);
            found.extend(self.transact(step, &own)?.done.keys(0));
            let mut names: HashMap<String, Vec<Kv>> = HashMap::new();
            for kv in found {
                if let Some(name) = self.layout.name_of(&kv.key) {
                    let of_name = names.entry(name).or_default();
                    if !of_name.iter().any(|known| known.key == kv.key) {
                        of_name.push(kv);
                    }
                }
            }
            Ok(names)
        };
        let fences = by_name('f', &own.fence)?;
        let (owners, alive) = (by_name('o', &own.owner)?, by_name('l', &own.alive)?);
        let mut queues = by_name('q', b"")?;
        for (name, fence) in &fences {
            let first = |names: &HashMap<String, Vec<Kv>>| {
                names.get(name).and_then(|found| found.first()).cloned()
            };
            let found = Found::new(fence.first(), first(&owners).as_ref(), first(&alive));
            let mut queue = queues.remove(name).unwrap_or_default();
            queue.sort_by_key(|place| place.created);
            holds.push((name.clone(), self.describe_hold(&found, &queue, &world)?));
        }
        holds.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(holds)
    }

    pub(super) fn read_events(&self, name: &str) -> Result<Vec<Value>> {
        let keys = self.layout.of(name);
        let txn = Txn::reading(vec![then::oldest(&keys.events, 0)]);
        let found = self.transact("read the events of", &txn)?.done.keys(0);
        Ok(found.iter().filter_map(|kv| tenure::json::parse(&kv.value).ok()).collect())
    }

    /// Deletes the oldest keys of a range until so many are left. If that fails, the next call does it.
    pub(super) fn trim(&self, span: &Span, kept: usize) {
        let step = "forget old records";
        let txn = Txn::reading(vec![then::oldest(span, TRIM_MAX)]);
        let Ok(answered) = self.transact(step, &txn) else { return };
        let surplus = answered.done.count(0).saturating_sub(kept);
        let oldest = answered.done.keys(0);
        let deletes: Vec<_> = oldest.iter().take(surplus).map(|kv| then::delete(&kv.key)).collect();
        if !deletes.is_empty() {
            let _ = self.transact(step, &Txn::reading(deletes));
        }
    }
}

/// Makes the ages agree with the revisions. Each age comes from the clock of its writer, and no change is older than one
/// before it: a wrong clock makes others younger, so that they are kept, and never older.
fn correct_ages(listed: &mut [Listed]) {
    let mut youngest = Duration::MAX;
    let mut by_revision: Vec<_> = listed.iter_mut().collect();
    by_revision.sort_by_key(|listed| listed.changes);
    for listed in by_revision {
        youngest = youngest.min(listed.age);
        listed.age = youngest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_change_is_never_older_whatever_the_clocks_say() {
        let listed = |(changes, age): (u64, u64)| Listed {
            name: changes.to_string(),
            has_content: true,
            changes,
            age: Duration::from_secs(age),
        };
        // The writer of 4 is an hour behind.
        let mut found = [(4, 3600), (1, 90), (3, 10), (2, 50)].map(listed);
        correct_ages(&mut found);
        let ages: Vec<_> =
            found.iter().map(|listed| (listed.changes, listed.age.as_secs())).collect();
        assert_eq!(ages, [(4, 10), (1, 90), (3, 10), (2, 50)]);
    }
}
