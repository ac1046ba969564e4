//! Where each value of a JSON text stands.

use std::collections::HashMap;

/// Where a value stands: its pointer in the stated document.
pub(super) struct Place(String);

impl Place {
    /// The pointer.
    pub(super) fn pointer(&self) -> &str {
        &self.0
    }

    pub(super) const fn root() -> Self {
        Self(String::new())
    }

    pub(super) fn within<T>(&mut self, key: &str, work: impl FnOnce(&mut Self) -> T) -> T {
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

/// The line of every value of a JSON text.
pub(super) struct Lines {
    lines: HashMap<String, u64>,
    twice: Vec<(String, u64)>,
}

impl Lines {
    /// `text` has been read as JSON before, so that its structure and depth are known to be sound.
    pub(super) fn of(text: &str) -> Self {
        let mut scanner =
            Scanner { bytes: text.as_bytes(), at: 0, line: 1, lines: HashMap::new(), twice: Vec::new() };
        scanner.value(&mut Place::root());
        Self { lines: scanner.lines, twice: scanner.twice }
    }

    /// Values that stand under one name twice, and the line of the later one.
    pub(super) fn twice(&self) -> &[(String, u64)] {
        &self.twice
    }

    /// The line of a value; of what holds it, where it is absent.
    pub(super) fn get(&self, pointer: &str) -> u64 {
        let mut pointer = pointer;
        loop {
            match (self.lines.get(pointer), pointer.rfind('/')) {
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
    twice: Vec<(String, u64)>,
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
        if self.lines.insert(place.0.clone(), self.line).is_some() {
            self.twice.push((place.0.clone(), self.line));
        }
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
    use serde_json::Value;

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
        assert!(lines.twice().is_empty());
    }

    #[test]
    fn a_name_that_stands_twice_is_told_whatever_its_spelling() {
        let lines = Lines::of("{\"a\": {\"b\": 1,\n \"\\u0062\": 2}}");
        assert_eq!(lines.twice(), [("/a/b".to_owned(), 2)]);
    }
}
