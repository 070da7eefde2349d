//! Objects: fields in the order in which they were written, found by key, shared by clones.
//!
//! # Invariants
//!
//! 1. No key is there twice.
//! 2. `table` is a hash table of places, by open addressing: a place is stored plus one, and 0 is free. At
//!    least half of it is free. It is empty for at most [`SEARCHED`] fields, which are searched one by one.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::text::Text;
use super::value::{Fields, Object, Value};

/// Up to here a linear search is quicker than the table.
const SEARCHED: usize = 8;

/// A secret of this process, against documents whose keys are made to collide.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));

impl Object {
    /// An object without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An object of these fields, or the key that occurs twice.
    pub(super) fn of(list: Vec<(Text, Value)>) -> Result<Self, Text> {
        let mut fields = Fields { list, table: Vec::new() };
        match fields.index() {
            Some(place) => Err(fields.list.swap_remove(place).0),
            None => Ok(Self(Arc::new(fields))),
        }
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.0.list.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a field.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(&key.into()).map(|place| self.value(place))
    }

    /// The value of a field, to be changed.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let place = self.find(&key.into())?;
        Some(&mut self.change().list[place].1)
    }

    /// Whether there is a field of this name.
    pub(super) fn contains_key(&self, key: &str) -> bool {
        self.find(&key.into()).is_some()
    }

    /// Gives a field a value, and returns the one it had. A new field comes last.
    pub fn insert(&mut self, key: impl AsRef<str>, value: impl Into<Value>) -> Option<Value> {
        let had = self.contains_key(key.as_ref());
        let before = std::mem::replace(self.or_null(key.as_ref()), value.into());
        had.then_some(before)
    }

    /// The value of a field, which is made `null` if it is missing.
    pub(super) fn or_null(&mut self, key: &str) -> &mut Value {
        let key = Text::from(key);
        let found = self.find(&key);
        let fields = self.change();
        let place = found.unwrap_or_else(|| fields.push(key));
        &mut fields.list[place].1
    }

    /// Removes a field; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let place = self.find(&key.into())?;
        let fields = self.change();
        let (_, value) = fields.list.remove(place);
        fields.index();
        Some(value)
    }

    /// Removes all fields for which `keep` is false.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        let fields = self.change();
        fields.list.retain_mut(|(key, value)| keep(key.as_str(), value));
        fields.index();
    }

    /// The fields in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.list.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The fields in order, their values to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value)> {
        self.change().list.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    pub(super) fn key(&self, place: usize) -> &Text {
        &self.0.list[place].0
    }

    pub(super) fn value(&self, place: usize) -> &Value {
        &self.0.list[place].1
    }

    /// The place of a field.
    pub(super) fn find(&self, key: &Text) -> Option<usize> {
        self.0.find(key).ok()
    }

    /// Whether the one is a clone of the other, and neither was changed since.
    pub(super) fn is_shared(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The fields, which are ours alone from now on.
    fn change(&mut self) -> &mut Fields {
        Arc::make_mut(&mut self.0)
    }
}

impl Fields {
    /// Adds a new field, and returns its place.
    fn push(&mut self, key: Text) -> usize {
        let place = self.list.len();
        let free = self.find(&key).err();
        self.list.push((key, Value::Null));
        match free {
            Some(slot) if self.table.len() >= 2 * self.list.len() => self.table[slot] = place + 1,
            _ => drop(self.index()),
        }
        place
    }

    /// The place of a field, or the slot of the table where it would be.
    fn find(&self, key: &Text) -> Result<usize, usize> {
        let is_key = |place: &usize| self.list[*place].0 == *key;
        if self.table.is_empty() {
            return (0..self.list.len()).find(is_key).ok_or(0);
        }
        let mask = self.table.len() - 1;
        let hash = xxh3_64_with_seed(key.as_bytes(), *SEED);
        let mut slot = usize::try_from(hash & mask as u64).unwrap_or_default();
        loop {
            match self.table[slot].checked_sub(1) {
                None => return Err(slot),
                Some(place) if is_key(&place) => return Ok(place),
                Some(_) => slot = (slot + 1) & mask,
            }
        }
    }

    /// Rebuilds the table. Returns the place of a key that occurs twice, if there is one.
    fn index(&mut self) -> Option<usize> {
        self.table.clear();
        if self.list.len() <= SEARCHED {
            let key = |place: usize| &self.list[place].0;
            let is_known = |place: &usize| (0..*place).any(|before| key(before) == key(*place));
            return (1..self.list.len()).find(is_known);
        }
        self.table.resize((2 * self.list.len()).next_power_of_two(), 0);
        for place in 0..self.list.len() {
            match self.find(&self.list[place].0) {
                Ok(_) => return Some(place),
                Err(slot) => self.table[slot] = place + 1,
            }
        }
        None
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |(key, value): &(Text, Value)| {
            other.find(key).is_some_and(|place| other.value(place) == value)
        };
        self.is_shared(other) || self.len() == other.len() && self.0.list.iter().all(is_same)
    }
}

impl Eq for Object {}

impl fmt::Debug for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: Into<Value>> Extend<(K, V)> for Object {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, fields: I) {
        for (key, value) in fields {
            self.insert(key, value);
        }
    }
}

impl<K: AsRef<str>, V: Into<Value>> FromIterator<(K, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(fields: I) -> Self {
        let mut object = Self::new();
        object.extend(fields);
        object
    }
}
