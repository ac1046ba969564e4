//! Two JSON documents against each other, value by value.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::json_lines::{Lines, Place};
use super::report::{Discrepancy, Verification};

/// Logarithms and powers may differ in the last bits between machines.
const RELATIVE_TOLERANCE: f64 = 1e-12;

/// Holds every value of a document against the one that follows.
pub(super) struct Diff<'a> {
    path: &'a Path,
    lines: &'a Lines,
    /// From what the other values were derived.
    from: &'static str,
    compared: usize,
    found: Vec<Discrepancy>,
}

impl<'a> Diff<'a> {
    pub(super) const fn new(path: &'a Path, lines: &'a Lines, from: &'static str) -> Self {
        Self { path, lines, from, compared: 0, found: Vec::new() }
    }

    /// Compares two documents, and puts what was found into the verification.
    pub(super) fn documents(mut self, stated: &Value, derived: &Value, verification: &mut Verification) {
        for (pointer, line) in self.lines.twice() {
            let message = "the name stands twice in one object, and readers differ in which value they take";
            self.found.push(Discrepancy::new(self.path, pointer.as_str(), message).at(*line));
        }
        self.values(&mut Place::root(), Some(stated), Some(derived));
        verification.count("values", self.compared);
        verification.discrepancies.append(&mut self.found);
    }

    fn values(&mut self, place: &mut Place, stated: Option<&Value>, derived: Option<&Value>) {
        match (stated, derived) {
            (Some(Value::Object(stated)), Some(Value::Object(derived))) => {
                self.objects(place, stated, derived);
            }
            (Some(Value::Array(stated)), Some(Value::Array(derived))) => self.lists(place, stated, derived),
            _ => {
                self.compared += 1;
                if !agree(stated, derived) {
                    let pointer = place.pointer();
                    let discrepancy =
                        Discrepancy::new(self.path, pointer, self.from).at(self.lines.get(pointer));
                    self.found.push(discrepancy.values(stated.map(shown), derived.map(shown)));
                }
            }
        }
    }

    fn objects(&mut self, place: &mut Place, stated: &Map<String, Value>, derived: &Map<String, Value>) {
        let others = derived.keys().filter(|key| !stated.contains_key(*key));
        for key in stated.keys().chain(others) {
            place.within(key, |place| self.values(place, stated.get(key), derived.get(key)));
        }
    }

    /// Entries with names are compared by name, so that one that is missing hides no other.
    fn lists(&mut self, place: &mut Place, stated: &[Value], derived: &[Value]) {
        let kept: Vec<(usize, &Value)> = stated.iter().enumerate().collect();
        let numbered: Vec<(usize, &Value)> = derived.iter().enumerate().collect();
        if let (Some(by_name), Some(others)) = (named(&kept), named(&numbered)) {
            for (name, (index, entry)) in &by_name {
                let other = others.get(name).map(|(_, other)| *other);
                place.within(&index.to_string(), |place| self.values(place, Some(entry), other));
            }
            for (name, (_, entry)) in others.iter().filter(|(name, _)| !by_name.contains_key(*name)) {
                place.within(name, |place| self.values(place, None, Some(entry)));
            }
            return;
        }
        for at in 0..kept.len().max(derived.len()) {
            let (index, entry) = kept.get(at).map_or((at, None), |(index, entry)| (*index, Some(*entry)));
            place.within(&index.to_string(), |place| self.values(place, entry, derived.get(at)));
        }
    }
}

/// Entries by what names them, where each has a name of its own.
fn named<'v>(list: &[(usize, &'v Value)]) -> Option<BTreeMap<String, (usize, &'v Value)>> {
    let mut names = BTreeMap::new();
    for (index, entry) in list {
        let parts = ["side", "what", "rule", "metric", "model", "shape", "field"];
        let object = entry.as_object()?;
        let name: Vec<&str> =
            parts.iter().filter_map(|key| object.get(*key).and_then(Value::as_str)).collect();
        if name.is_empty() || names.insert(name.join(" "), (*index, *entry)).is_some() {
            return None;
        }
    }
    Some(names)
}

pub(super) fn agree(stated: Option<&Value>, derived: Option<&Value>) -> bool {
    match (stated.and_then(Value::as_f64), derived.and_then(Value::as_f64)) {
        (Some(one), Some(other)) => (one - other).abs() <= RELATIVE_TOLERANCE * one.abs().max(other.abs()),
        _ => stated == derived,
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_to_the_last_bits_and_no_further() {
        let value = |number: f64| Value::from(number);
        assert!(agree(Some(&value(1.048)), Some(&value(1.048 + 2e-16))));
        assert!(!agree(Some(&value(1.048)), Some(&value(1.048_000_1))));
        assert!(!agree(Some(&Value::Null), Some(&value(0.0))));
        assert!(!agree(None, Some(&Value::Null)));
    }
}
