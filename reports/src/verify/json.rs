//! The JSON output of a comparison against the comparison done again, value by value.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::{Map, Value};

use super::Context;
use super::comparison::{DEPENDS_ON_OTHER_FILES, StatedInput, recomputed, remark, set_apart};
use super::report::{Discrepancy, Verification, VerifyError};
use crate::render::comparison as render;

/// Logarithms and powers may differ in the last bits between machines.
const RELATIVE_TOLERANCE: f64 = 1e-12;

pub(super) fn verify(path: &Path, text: &str, context: Context<'_>) -> Result<Verification, VerifyError> {
    let unfit = |reason: String| VerifyError::NothingToDerive { path: path.to_owned(), reason };
    let stated: Value =
        serde_json::from_str(text).map_err(|error| unfit(format!("it is not JSON: {error}")))?;
    let is_comparison = ["verdict", "pairs", "inputs"].iter().all(|key| stated.get(key).is_some());
    if !is_comparison {
        return Err(unfit("it is JSON, but not a comparison".to_owned()));
    }
    let lines = Lines::of(text);
    let mut verification = Verification::new(path, "comparison (JSON)");
    let command = strings(stated.get("command"));
    let inputs = inputs(&stated, &lines);
    let Some(mut comparison) =
        recomputed(path, (lines.get("/command"), &command), &inputs, context, &mut verification)
    else {
        return Ok(verification);
    };
    let apart = set_apart(&mut comparison);
    let derived = render::json(&comparison).map_err(|error| unfit(error.to_string()))?;
    let warnings = stated.get("warnings").and_then(Value::as_array);
    let stated_apart = warnings.map_or(0, |list| list.iter().filter(|finding| is_apart(finding)).count());
    remark(stated_apart, apart.len(), &mut verification);
    let mut diff = Diff { path, lines: &lines, compared: 0, found: Vec::new() };
    diff.values(&mut Place::root(), Some(&stated), Some(&derived));
    verification.count("values", diff.compared);
    verification.discrepancies.append(&mut diff.found);
    Ok(verification)
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let texts = list.and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn inputs(stated: &Value, lines: &Lines) -> Vec<StatedInput> {
    let list = stated.get("inputs").and_then(Value::as_array).into_iter().flatten();
    list.enumerate()
        .filter_map(|(index, input)| {
            let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
            let field = format!("/inputs/{index}/sha256");
            let line = lines.get(&field);
            Some(StatedInput {
                side: text("side")?,
                path: text("path")?,
                sha256: text("sha256")?,
                line,
                field,
            })
        })
        .collect()
}

/// A finding that depends on other files than the two.
fn is_apart(finding: &Value) -> bool {
    finding.get("rule").and_then(Value::as_str) == Some(DEPENDS_ON_OTHER_FILES)
}

/// Where a value stands: its pointer in the stated document.
struct Place(String);

impl Place {
    const fn root() -> Self {
        Self(String::new())
    }

    fn within<T>(&mut self, key: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.0.len();
        self.0.push('/');
        self.0.push_str(&escaped(key));
        let result = work(self);
        self.0.truncate(length);
        result
    }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

struct Diff<'a> {
    path: &'a Path,
    lines: &'a Lines,
    compared: usize,
    found: Vec<Discrepancy>,
}

impl Diff<'_> {
    fn values(&mut self, place: &mut Place, stated: Option<&Value>, derived: Option<&Value>) {
        match (stated, derived) {
            (Some(Value::Object(stated)), Some(Value::Object(derived))) => {
                self.objects(place, stated, derived);
            }
            (Some(Value::Array(stated)), Some(Value::Array(derived))) => self.lists(place, stated, derived),
            _ => {
                self.compared += 1;
                if !agree(stated, derived) {
                    let message = "from the two files and the command line";
                    let discrepancy =
                        Discrepancy::new(self.path, &place.0, message).at(self.lines.get(&place.0));
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
        let kept: Vec<(usize, &Value)> =
            stated.iter().enumerate().filter(|(_, entry)| !is_apart(entry)).collect();
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
        let parts = ["side", "rule", "model", "shape", "field"];
        let object = entry.as_object()?;
        let name: Vec<&str> =
            parts.iter().filter_map(|key| object.get(*key).and_then(Value::as_str)).collect();
        if name.is_empty() || names.insert(name.join(" "), (*index, *entry)).is_some() {
            return None;
        }
    }
    Some(names)
}

fn agree(stated: Option<&Value>, derived: Option<&Value>) -> bool {
    match (stated.and_then(Value::as_f64), derived.and_then(Value::as_f64)) {
        (Some(one), Some(other)) => (one - other).abs() <= RELATIVE_TOLERANCE * one.abs().max(other.abs()),
        _ => stated == derived,
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The line of every value of a JSON text.
struct Lines(HashMap<String, u64>);

impl Lines {
    /// `text` has been read as JSON before, so that its structure and depth are known to be sound.
    fn of(text: &str) -> Self {
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, line: 1, lines: HashMap::new() };
        scanner.value(&mut Place::root());
        Self(scanner.lines)
    }

    /// The line of a value; of what holds it, where it is absent.
    fn get(&self, pointer: &str) -> u64 {
        let mut pointer = pointer;
        loop {
            match (self.0.get(pointer), pointer.rfind('/')) {
                (Some(line), _) => return *line,
                (None, Some(end)) => pointer = pointer.get(..end).unwrap_or_default(),
                (None, None) => return 1,
            }
        }
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
    lines: HashMap<String, u64>,
}

impl Scanner<'_> {
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            match byte {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' | b',' | b':' => {}
                other => return Some(other),
            }
            self.at += 1;
        }
        None
    }

    fn value(&mut self, place: &mut Place) {
        let first = self.peek();
        self.lines.insert(place.0.clone(), self.line);
        match first {
            Some(b'{') => {
                self.at += 1;
                while self.peek().is_some_and(|byte| byte == b'"') {
                    let key = self.string();
                    place.within(&key, |place| self.value(place));
                }
                self.at += 1;
            }
            Some(b'[') => {
                self.at += 1;
                let mut index = 0_usize;
                while self.peek().is_some_and(|byte| byte != b']') {
                    place.within(&index.to_string(), |place| self.value(place));
                    index += 1;
                }
                self.at += 1;
            }
            Some(b'"') => {
                self.string();
            }
            _ => {
                while self.bytes.get(self.at).is_some_and(|byte| !b",]} \t\r\n".contains(byte)) {
                    self.at += 1;
                }
            }
        }
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' => self.at += 2,
                b'"' => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let text = self.bytes.get(start..self.at).unwrap_or_default();
        serde_json::from_slice(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_the_line_it_stands_in() {
        let text = "{\n \"a\": [1,\n  {\"b/c\": \"x\\\"]}\"}\n ],\n \"d\": {},\n \"e\": null\n}";
        serde_json::from_str::<Value>(text).expect("OK because it is JSON");
        let lines = Lines::of(text);
        for (pointer, line) in [
            ("", 1),
            ("/a", 2),
            ("/a/0", 2),
            ("/a/1", 3),
            ("/a/1/b~1c", 3),
            ("/d", 5),
            ("/e", 6),
            ("/a/1/absent", 3),
        ] {
            assert_eq!(lines.get(pointer), line, "{pointer}");
        }
    }

    #[test]
    fn numbers_agree_to_the_last_bits_and_no_further() {
        let value = |number: f64| Value::from(number);
        assert!(agree(Some(&value(1.048)), Some(&value(1.048 + 2e-16))));
        assert!(!agree(Some(&value(1.048)), Some(&value(1.048_000_1))));
        assert!(!agree(Some(&Value::Null), Some(&value(0.0))));
        assert!(!agree(None, Some(&Value::Null)));
    }
}
