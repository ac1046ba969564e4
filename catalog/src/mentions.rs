//! Where names are used: rows of result files and mentions in documents.
//!
//! A mention is a whole name: `qwen2.5-7b` is not mentioned by `qwen2.5-7b-4bit`. Letters, digits, `.`, `-` and `_` belong to
//! a name; a full stop at its end does not.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{MAX_TABLE_BYTES, open_regular, read_regular};

/// How often each name is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mentions {
    rows: BTreeMap<String, u64>,
    words: BTreeMap<String, u64>,
    /// Whether result files were looked through.
    pub has_rows: bool,
    /// Whether documents were looked through.
    pub has_documents: bool,
    /// Files that could not be read, and why.
    pub faults: Vec<String>,
}

impl Mentions {
    /// Reads all `*.csv` under `results` and all `*.md` under `documents` (folders or files). A path that does not exist
    /// is passed over, and then nothing is known.
    pub fn read(results: &[PathBuf], documents: &[PathBuf]) -> Self {
        let mut mentions = Self::default();
        for root in results.iter().filter(|root| root.exists()) {
            mentions.has_rows = true;
            for path in files(root, "csv", &mut mentions.faults) {
                if let Err(error) = mentions.add_results(&path) {
                    mentions
                        .faults
                        .push(format!("{} cannot be read as a result file: {error}", path.display()));
                }
            }
        }
        for root in documents.iter().filter(|root| root.exists()) {
            mentions.has_documents = true;
            for path in files(root, "md", &mut mentions.faults) {
                match read_regular(&path, MAX_TABLE_BYTES) {
                    Ok(bytes) => mentions.add_document(&String::from_utf8_lossy(&bytes)),
                    Err(error) => mentions.faults.push(format!("{} cannot be read: {error}", path.display())),
                }
            }
        }
        mentions
    }

    /// Rows of result files that are about this name; nothing when none were looked through.
    pub fn rows(&self, name: &str) -> Option<u64> {
        self.has_rows.then(|| self.rows.get(name).copied().unwrap_or_default())
    }

    /// Mentions of this name in documents; nothing when none were looked through.
    pub fn documents(&self, name: &str) -> Option<u64> {
        self.has_documents.then(|| self.words.get(name).copied().unwrap_or_default())
    }

    /// Adds the words of a document.
    pub fn add_document(&mut self, text: &str) {
        for word in text.split(|character: char| !is_part_of_name(character)) {
            let word = word.trim_end_matches('.');
            if !word.is_empty() {
                *self.words.entry(word.to_owned()).or_default() += 1;
            }
        }
    }

    /// Counts rows by their `model` column. Old files begin with `#` lines and have rows of more fields than columns.
    fn add_results(&mut self, path: &Path) -> Result<(), csv::Error> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .has_headers(false)
            .comment(Some(b'#'))
            .from_reader(open_regular(path)?);
        let mut column = None;
        for record in reader.byte_records() {
            let record = record?;
            match column {
                None => match record.iter().position(|field| field == b"model") {
                    Some(found) => column = Some(found),
                    // A table of something else.
                    None => return Ok(()),
                },
                Some(column) => {
                    if let Some(name) = record.get(column).and_then(|field| std::str::from_utf8(field).ok()) {
                        *self.rows.entry(name.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        Ok(())
    }
}

fn is_part_of_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '.' | '-' | '_')
}

/// All files of an extension under a folder, sorted; links to folders are not followed, so there are no circles.
fn files(root: &Path, extension: &str, faults: &mut Vec<String>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let kind = if path == root { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let listed: io::Result<()> = kind.and_then(|kind| {
            if kind.is_dir() {
                for entry in fs::read_dir(&path)? {
                    open.push(entry?.path());
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path.clone());
            }
            Ok(())
        });
        if let Err(error) = listed {
            faults.push(format!("{} cannot be listed: {error}", path.display()));
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_name_mentions_no_shorter_one() {
        let mut mentions = Mentions { has_documents: true, ..Mentions::default() };
        mentions.add_document(
            "`qwen2.5-7b` beats qwen2.5-7b-4bit, my-qwen2.5-7b and models/qwen2.5-7b/; so says qwen2.5-7b.",
        );
        assert_eq!(mentions.documents("qwen2.5-7b"), Some(3));
        assert_eq!(mentions.documents("qwen2.5-7b-4bit"), Some(1));
        assert_eq!(mentions.documents("qwen2.5"), Some(0));
    }

    #[test]
    fn rows_are_counted_by_their_model_and_what_was_not_looked_through_is_unknown() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("old"))?;
        fs::write(folder.path().join("a.csv"), "model,x\na,1\na-4bit,2\n\"a\",3\n")?;
        fs::write(folder.path().join("old/b.csv"), "# note\nx,model\n1,a,extra\n")?;
        fs::write(folder.path().join("other.csv"), "op,nanos\na,1\n")?;
        let mentions = Mentions::read(&[folder.path().to_owned()], &[folder.path().join("gone")]);
        assert_eq!(
            (mentions.rows("a"), mentions.rows("a-4bit"), mentions.rows("b")),
            (Some(3), Some(1), Some(0))
        );
        assert_eq!(mentions.documents("a"), None);
        assert!(mentions.faults.is_empty(), "{:?}", mentions.faults);
        Ok(())
    }
}
