//! RFC 7396 merge patch, with rules for the fields where the last writer must not simply win.
//!
//! # Invariants
//!
//! 1. Without rules this is RFC 7396, no more and no less.
//! 2. Keys that stay keep their order; new keys come last, in the order of the patch.
//! 3. A rule meets the types it is made for, or the whole merge is refused.

use std::collections::{BTreeMap, HashSet};

use super::number::Number;
use super::pointer::tokens;
use super::value::{Object, Value};
use crate::error::{Error, ErrorKind, Result};

/// How single fields of a document are merged.
///
/// A merge follows RFC 7396: objects are merged key by key, everything else is overwritten by the
/// patch, and `null` in the patch deletes. A rule replaces the overwriting for one field, named by
/// its JSON Pointer (RFC 6901): `""` is the whole document, `"/stats/runs"` the field `runs` of the
/// object `stats`. A merge does not look into arrays, so a pointer into one never applies.
///
/// | rule | takes | result | merging the same patch again | order of two patches |
/// |---|---|---|---|---|
/// | [`union`](Self::union) | arrays | every element once | changes nothing | changes only the order of elements |
/// | [`max`](Self::max), [`min`](Self::min) | numbers | the larger, the smaller | changes nothing | does not matter |
/// | [`sum`](Self::sum) | numbers | both added | **adds again** | does not matter (with fractions: up to rounding) |
/// | [`last`](Self::last) | anything | the patch's value, whole | changes nothing | **the last one wins** |
///
/// - A field that is missing (or `null`) in the document takes the value of the patch; a field that
///   the patch does not name stays.
/// - `null` in the patch deletes the field whatever its rule is.
/// - A value of a type the rule does not take is an error, and the document is left as it was.
///
/// # Unsafe for revocation
///
/// A union brings deletions back: a merge of a list read before an element was removed adds
/// that element again. Never keep approvals, permissions or anything else that can be revoked
/// under [`union`](Self::union); change them with an update that reads and writes under the lock.
/// For the same reason [`max`](Self::max) is no counter: two writers that both go from 5 to 6 count
/// one event. Count with [`sum`](Self::sum), and give the write an operation id if it may be retried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    root: Node,
    keeps_kinds: bool,
}

/// One place of the document: its rule, or the places below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    rule: Option<(Rule, String)>,
    below: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Union,
    Max,
    Min,
    Sum,
    Last,
}

impl Rules {
    /// No rules: plain RFC 7396.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The array at `pointer` is a set: the elements of the document in their order, then those of
    /// the patch that are not there yet. Elements are compared by value (`1` is `1.0`, key order is
    /// no difference). Unsafe for anything that can be revoked, see [above](Self#unsafe-for-revocation).
    pub fn union(self, pointer: &str) -> Result<Self> {
        self.with(Rule::Union, pointer)
    }

    /// The larger number stays. Numbers of any size are compared exactly.
    pub fn max(self, pointer: &str) -> Result<Self> {
        self.with(Rule::Max, pointer)
    }

    /// The smaller number stays. Numbers of any size are compared exactly.
    pub fn min(self, pointer: &str) -> Result<Self> {
        self.with(Rule::Min, pointer)
    }

    /// The number of the patch is added. Exact for integers as long as the sum fits 128 bits, else
    /// as a 64-bit float; a sum beyond that is an error.
    pub fn sum(self, pointer: &str) -> Result<Self> {
        self.with(Rule::Sum, pointer)
    }

    /// The value of the patch replaces the one of the document whole, even if both are objects. A
    /// `null` inside it is stored, not taken as a deletion.
    pub fn last(self, pointer: &str) -> Result<Self> {
        self.with(Rule::Last, pointer)
    }

    /// Refuses a merge that would replace an object or an array by a value of another kind, unless a rule
    /// says so: such a patch is often one level off. [`ErrorKind::Conflict`] then.
    #[must_use]
    pub fn keep_kinds(mut self) -> Self {
        self.keeps_kinds = true;
        self
    }

    fn with(mut self, rule: Rule, pointer: &str) -> Result<Self> {
        let refuse = |detail| Error::new(ErrorKind::Invalid, "declare a merge rule", detail);
        let mut node = &mut self.root;
        for token in tokens(pointer).map_err(refuse)? {
            if let Some((_, outer)) = &node.rule {
                return Err(refuse(never_applies(pointer, outer)));
            }
            node = node.below.entry(token).or_default();
        }
        if node.rule.is_some() {
            return Err(refuse(format!("{pointer:?} has two rules")));
        }
        if let Some(inner) = node.first_below() {
            return Err(refuse(never_applies(inner, pointer)));
        }
        node.rule = Some((rule, pointer.to_owned()));
        Ok(self)
    }
}

impl Node {
    fn first_below(&self) -> Option<&str> {
        let node = self.below.values().next()?;
        node.rule.as_ref().map(|(_, pointer)| pointer.as_str()).or_else(|| node.first_below())
    }
}

fn never_applies(inner: &str, outer: &str) -> String {
    format!("the rule for {inner:?} would never apply: {outer:?} has a rule for the whole value")
}

/// What a merge of `patch` would replace by another kind although the rules keep kinds: where, and how.
pub(crate) fn replaced_kind(current: &Value, patch: &Value, rules: &Rules) -> Option<String> {
    if !rules.keeps_kinds {
        return None;
    }
    let (pointer, old, new) = find_replaced(current, patch, Some(&rules.root), "")?;
    let place = if pointer.is_empty() { "the document".to_owned() } else { format!("`{pointer}`") };
    let new = match new {
        "null" => new.to_owned(),
        "array" | "object" => format!("an {new}"),
        new => format!("a {new}"),
    };
    Some(format!("it would replace the {old} at {place} by {new}"))
}

fn find_replaced(
    target: &Value,
    patch: &Value,
    node: Option<&Node>,
    pointer: &str,
) -> Option<(String, &'static str, &'static str)> {
    if node.is_some_and(|node| node.rule.is_some()) {
        return None; // The rule says what happens.
    }
    let found = |old, new: &Value| Some((pointer.to_owned(), old, new.type_name()));
    match (target, patch) {
        (Value::Object(fields), Value::Object(changes)) => {
            let mut kept = changes.iter().filter(|(_, change)| !change.is_null());
            kept.find_map(|(key, change)| {
                let below = node.and_then(|node| node.below.get(key));
                let pointer = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                find_replaced(fields.get(key)?, change, below, &pointer)
            })
        }
        (Value::Object(_), new) => found("object", new),
        (Value::Array(_), Value::Array(_)) => None,
        (Value::Array(_), new) => found("array", new),
        _ => None,
    }
}

/// The document after merging `patch` into `current`.
pub(crate) fn merge(
    current: &Value,
    patch: &Value,
    rules: &Rules,
) -> std::result::Result<Value, String> {
    let mut merged = current.clone();
    merge_into(&mut merged, patch, Some(&rules.root))?;
    Ok(merged)
}

fn merge_into(
    target: &mut Value,
    patch: &Value,
    node: Option<&Node>,
) -> std::result::Result<(), String> {
    if let Some((rule, pointer)) = node.and_then(|node| node.rule.as_ref()) {
        // Deletion of a field happens one level up; this null is the whole patch.
        *target = if patch.is_null() { Value::Null } else { rule.apply(target, patch, pointer)? };
        return Ok(());
    }
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    if target.as_object().is_none() {
        *target = Value::Object(Object::new());
    }
    let Some(fields) = target.as_object_mut() else { return Ok(()) };
    let mut deletes = false;
    for (key, change) in changes.iter() {
        if change.is_null() {
            deletes = true;
        } else {
            let below = node.and_then(|node| node.below.get(key));
            merge_into(fields.or_null(key), change, below)?;
        }
    }
    if deletes {
        fields.retain(|key, _| !changes.get(key).is_some_and(Value::is_null));
    }
    Ok(())
}

impl Rule {
    /// `stored` is null where the document has nothing.
    fn apply(
        self,
        stored: &Value,
        patch: &Value,
        pointer: &str,
    ) -> std::result::Result<Value, String> {
        match (self, stored, patch) {
            (Self::Last, _, patch) => Ok(patch.clone()),
            (Self::Union, Value::Array(stored), Value::Array(patch)) => Ok(union(stored, patch)),
            (Self::Union, Value::Null, Value::Array(patch)) => Ok(union(&[], patch)),
            (Self::Max | Self::Min | Self::Sum, Value::Null, Value::Number(_)) => Ok(patch.clone()),
            (Self::Max, Value::Number(stored), Value::Number(patch)) => {
                Ok(pick(patch.compare(stored).is_gt(), stored, patch))
            }
            (Self::Min, Value::Number(stored), Value::Number(patch)) => {
                Ok(pick(patch.compare(stored).is_lt(), stored, patch))
            }
            (Self::Sum, Value::Number(stored), Value::Number(patch)) => {
                stored.add(patch).map(Value::Number).ok_or_else(|| {
                    format!("rule sum at {pointer:?}: the sum is beyond the range of a number")
                })
            }
            (Self::Union, ..) => Err(self.refusal("arrays", stored, patch, pointer)),
            _ => Err(self.refusal("numbers", stored, patch, pointer)),
        }
    }

    fn refusal(self, takes: &str, stored: &Value, patch: &Value, pointer: &str) -> String {
        let name = match self {
            Self::Union => "union",
            Self::Max => "max",
            Self::Min => "min",
            Self::Sum => "sum",
            Self::Last => "last",
        };
        let (stored, patch) = (stored.type_name(), patch.type_name());
        format!(
            "rule {name} at {pointer:?} takes {takes}: the document has {stored}, the patch {patch}"
        )
    }
}

/// Equal numbers keep the stored one, so that its notation does not change.
fn pick(patch_wins: bool, stored: &Number, patch: &Number) -> Value {
    Value::Number(if patch_wins { patch.clone() } else { stored.clone() })
}

fn union(stored: &[Value], patch: &[Value]) -> Value {
    let mut seen = HashSet::new();
    let all = stored.iter().chain(patch);
    Value::Array(all.filter(|value| seen.insert(*value)).cloned().collect())
}
