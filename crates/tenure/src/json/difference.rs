//! Applying the difference of two values to a third one, which knows more fields than they do.
//!
//! # Invariants
//!
//! 1. What is equal in both values stays as it is in the third one: it is neither changed nor added.
//! 2. Fields of the third value that neither of them has stay, in elements of arrays as well. An element that did not
//!    change is recognised wherever it is now; one that changed by its index, unless the array became shorter: then it is
//!    not known which element it was, and only its new content is written.

use super::value::Value;

/// So many comparisons at most look for elements that moved.
const COMPARISONS_MAX: usize = 1_000_000;

/// Changes `value` as `before` was changed into `after`.
pub(crate) fn apply_difference(value: &mut Value, before: &Value, after: Value) {
    if *before == after {
        return;
    }
    match (value, before, after) {
        (Value::Object(value), Value::Object(before), Value::Object(after)) => {
            value.retain(|key, _| !before.contains_key(key) || after.contains_key(key));
            for (key, new) in after.iter() {
                match (value.get_mut(key), before.get(key)) {
                    (Some(value), Some(old)) => apply_difference(value, old, new.clone()),
                    (None, Some(old)) if old == new => {}
                    _ => drop(value.insert(key, new.clone())),
                }
            }
        }
        (Value::Array(value), Value::Array(before), Value::Array(after))
            if value.len() == before.len() =>
        {
            apply_to_elements(value, before, after);
        }
        (value, _, after) => *value = after,
    }
}

fn apply_to_elements(value: &mut Vec<Value>, before: &[Value], after: Vec<Value>) {
    let same = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
    let (old, new_count) = (&before[same..], after.len() - same);
    let mut sources: Vec<_> = value.drain(same..).map(Some).collect();
    let may_search = old.len().saturating_mul(new_count) <= COMPARISONS_MAX;
    let is_shorter = after.len() < before.len();
    let mut new: Vec<_> = after.into_iter().skip(same).map(|new| (None, new)).collect();
    for (index, (found, new)) in new.iter_mut().enumerate() {
        // Most elements that moved did so together, by as much as the array became longer or shorter.
        let moved = (index + old.len()).checked_sub(new_count);
        let near = [Some(index), moved].into_iter().flatten();
        let all = if may_search { 0..old.len() } else { 0..0 };
        let mut places = near.chain(all).filter(|place| *place < old.len());
        let place = places.find(|place| sources[*place].is_some() && old[*place] == *new);
        *found = place.and_then(|place| sources[place].take());
    }
    for (index, (found, new)) in new.into_iter().enumerate() {
        let source = sources.get_mut(index).filter(|_| found.is_none() && !is_shorter);
        value.push(match (found, source.and_then(Option::take)) {
            (Some(unchanged), _) => unchanged,
            (None, Some(mut changed)) => {
                apply_difference(&mut changed, &old[index], new);
                changed
            }
            (None, None) => new,
        });
    }
}
