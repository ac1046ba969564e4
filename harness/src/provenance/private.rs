//! Keeps the names of people's folders out of what is published: the checkout becomes `.`, the home folder
//! `~`.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Folders to abbreviate.
#[derive(Clone, Debug, Default)]
pub struct Abbreviations(Vec<(String, &'static str)>);

impl Abbreviations {
    /// For a checkout, where there is one, and the home folder.
    pub fn new(checkout: Option<&Path>, home: Option<PathBuf>) -> Self {
        // The checkout first: it mostly lies in the home folder.
        let folders = [(checkout.map(Path::to_owned), "."), (home, "~")];
        let text = |folder: PathBuf| folder.to_str().map(|text| text.trim_end_matches('/').to_owned());
        Self(
            folders
                .into_iter()
                .filter_map(|(folder, short)| Some((folder.and_then(text)?, short)))
                .filter(|(folder, _)| folder.len() > 1)
                .collect(),
        )
    }

    /// The text with every whole mention of a folder abbreviated.
    pub fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (folder, short)| abbreviate(&text, folder, short))
    }

    /// The same for every string of a JSON value.
    pub fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.json(value)).collect(),
            Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, self.json(value))).collect(),
            other => other,
        }
    }
}

fn abbreviate(text: &str, folder: &str, short: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(folder) {
        let (before, from) = rest.split_at(at);
        let after = from.get(folder.len()..).unwrap_or_default();
        // Not within another name or path: /home/ann is in neither /home/anna nor /mnt/home/ann.
        let begins = !before.ends_with(|letter: char| letter.is_alphanumeric() || "/._-~".contains(letter));
        let ends = !after.starts_with(|letter: char| letter.is_alphanumeric() || "._-".contains(letter));
        done.push_str(before);
        done.push_str(if begins && ends { short } else { folder });
        rest = after;
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn abbreviations() -> Abbreviations {
        Abbreviations::new(Some(Path::new("/home/ann/bench")), Some("/home/ann/".into()))
    }

    #[test]
    fn whole_folders_are_abbreviated_wherever_they_stand() {
        for (text, expected) in [
            ("/home/ann/bench/target/release/mlxcel-bench", "./target/release/mlxcel-bench"),
            ("/home/ann", "~"),
            ("--models=/home/ann/models", "--models=~/models"),
            ("/home/ann/a:/opt/b:/home/ann/c", "~/a:/opt/b:~/c"),
            ("cannot read /home/ann/x: no such file", "cannot read ~/x: no such file"),
        ] {
            assert_eq!(abbreviations().text(text), expected);
        }
    }

    #[test]
    fn other_folders_stay() {
        for text in ["/home/anna/x", "/mnt/home/ann/x", "/home/ann-2", "models/x", "/opt/bench"] {
            assert_eq!(abbreviations().text(text), text);
        }
        assert_eq!(Abbreviations::new(None, Some("/".into())).text("/opt/x"), "/opt/x");
    }

    #[test]
    fn json_is_abbreviated_in_depth() {
        let value = json!({ "path": "/home/ann/x", "list": ["/home/ann/bench"], "number": 3 });
        assert_eq!(abbreviations().json(value), json!({ "path": "~/x", "list": ["."], "number": 3 }));
    }
}
