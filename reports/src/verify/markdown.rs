//! The Markdown output of a comparison, alone or within a page, against the comparison done again, cell by cell.

use std::collections::BTreeMap;
use std::path::Path;

use super::Context;
use super::comparison::{Files, recomputed};
use super::inputs::Stated;
use super::report::{Discrepancy, Verification, VerifyError};
use crate::command_line::parted;
use crate::render::comparison as render;

/// How a comparison begins and how it ends.
const BEGINNING: &str = "| model | before ";
const COMMAND: &str = "- command: ";

pub(super) fn verify(path: &Path, text: &str, context: Context<'_>) -> Result<Verification, VerifyError> {
    let lines: Vec<(u64, &str)> = (1..).zip(text.lines()).collect();
    let mut verification = Verification::new(path, "comparison (Markdown)");
    let mut rest = lines.as_slice();
    let mut inside = 0;
    while let Some(start) = rest.iter().position(|(_, line)| line.starts_with(BEGINNING)) {
        let block = rest.get(start..).unwrap_or_default();
        // A comparison without a command line must not swallow the next one.
        let next = block.iter().skip(1).position(|(_, line)| line.starts_with(BEGINNING)).map(|at| at + 1);
        let end = block
            .iter()
            .position(|(_, line)| line.starts_with(COMMAND))
            .map(|at| at + 1)
            .filter(|end| next.is_none_or(|next| *end <= next));
        let end = end.or(next).unwrap_or(block.len());
        let (block, after) = block.split_at(end);
        block_of(path, block, context, &mut verification);
        inside += block.iter().filter(|(_, line)| !line.trim().is_empty()).count();
        rest = after;
    }
    if inside == 0 {
        let reason = "it holds no comparison as `compare --format markdown` writes it".to_owned();
        return Err(VerifyError::NothingToDerive { path: path.to_owned(), reason });
    }
    let outside = lines.iter().filter(|(_, line)| !line.trim().is_empty()).count().saturating_sub(inside);
    if outside > 0 {
        verification.notes.push(format!("{outside} lines outside of the comparisons were not verified"));
    }
    Ok(verification)
}

fn block_of(path: &Path, block: &[(u64, &str)], context: Context<'_>, verification: &mut Verification) {
    let start = block.first().map_or(1, |(line, _)| *line);
    let command = block.iter().find_map(|(line, text)| Some((*line, text.strip_prefix(COMMAND)?)));
    let Some((command_line, command)) = command else {
        let message = "the comparison ends without its command line, so nothing follows from it";
        verification.found(Discrepancy::new(path, "command", message).at(start));
        return;
    };
    let command = match parted(&unescaped(command)) {
        Ok(command) => command,
        Err(error) => {
            let message =
                format!("the command line cannot be taken apart, so nothing follows from it: {error}");
            let discrepancy = Discrepancy::new(path, "command", message).at(command_line);
            verification.found(discrepancy.values(Some(command), None::<String>));
            return;
        }
    };
    let inputs: Vec<Stated> = block.iter().filter_map(|(line, text)| input(*line, text)).collect();
    let sources: Vec<Stated> = block.iter().filter_map(|(line, text)| source(*line, text)).collect();
    let files = Files { command: &command, command_line, inputs: &inputs, sources: &sources };
    let Some(comparison) = recomputed(path, &files, context, verification) else { return };
    if let Some(first) = comparison.refused.first() {
        let message = format!("the comparison is refused, first by rule {}: {}", first.rule, first.message);
        let discrepancy = Discrepancy::new(path, "verdict", message).at(start);
        verification.found(discrepancy.values(Some("ok"), Some("refused")));
        return;
    }
    let again = render::markdown(&comparison);
    let numbered: Vec<(u64, &str)> = again.lines().map(|line| (start, line)).collect();
    let (stated, derived) = (entries(block), entries(&numbered));
    differences(path, start, &stated, &derived, verification);
}

/// What tells one line from the others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    section: String,
    name: Vec<String>,
    /// Lines of one name, counted.
    occurrence: usize,
}

/// One line taken apart.
#[derive(Debug)]
struct Entry {
    line: u64,
    /// Names of the cells, where the line is one of a table.
    names: Vec<String>,
    cells: Vec<String>,
}

fn entries(lines: &[(u64, &str)]) -> BTreeMap<Key, Entry> {
    let mut entries: BTreeMap<Key, Entry> = BTreeMap::new();
    let mut section = "pairs".to_owned();
    let mut names: Vec<String> = Vec::new();
    for (line, text) in lines {
        let is_rule = text.starts_with("|---") && text.chars().all(|c| "|-:".contains(c));
        let (key, entry) = if is_rule || text.trim().is_empty() {
            continue;
        } else if text.starts_with('|') {
            let cells = cells(text);
            if names.is_empty() {
                names.clone_from(&cells);
                // Another unit in the header is another comparison; of the section it is no name.
                (vec!["header".to_owned()], Entry { line: *line, names: Vec::new(), cells })
            } else {
                let naming = if names.first().is_some_and(|name| name == "rule") { 3 } else { 1 };
                let name = cells.iter().take(naming).cloned().collect();
                (name, Entry { line: *line, names: names.clone(), cells })
            }
        } else if let Some(text) = text.strip_prefix("- ") {
            (vec![bullet_name(text)], Entry { line: *line, names: Vec::new(), cells: vec![text.to_owned()] })
        } else {
            // A title, or words that no comparison has: whichever, both sides must have it.
            (*text).clone_into(&mut section);
            names.clear();
            (Vec::new(), Entry { line: *line, names: Vec::new(), cells: vec![(*text).to_owned()] })
        };
        let is_bullet = text.starts_with("- ");
        let section = if is_bullet { "closing".to_owned() } else { section.clone() };
        let mut key = Key { section, name: key, occurrence: 0 };
        while entries.contains_key(&key) {
            key.occurrence += 1;
        }
        entries.insert(key, entry);
    }
    entries
}

/// The part of a closing line that does not change with the numbers in it.
fn bullet_name(text: &str) -> String {
    if text.starts_with("only before: ") || text.starts_with("only after: ") {
        return text.to_owned();
    }
    let name = text.split_once(": ").map_or(text, |(name, _)| name);
    name.chars().filter(|c| !c.is_ascii_digit() && *c != '%').collect()
}

/// The cells of a table line; a bar behind a backslash separates nothing.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut behind_backslash = false;
    for c in line.trim().trim_start_matches('|').chars() {
        if c == '|' && !behind_backslash {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            cell.push(c);
        }
        behind_backslash = c == '\\' && !behind_backslash;
    }
    if cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek().is_some_and(char::is_ascii_punctuation) {
            plain.extend(chars.next());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// `- before: PATH (LAYOUT, N rows, sha256 DIGEST)`, the digest of the samples behind it where there are any.
fn input(line: u64, text: &str) -> Option<Stated> {
    let text = unescaped(text.strip_prefix("- ")?);
    let (side, rest) = text.split_once(": ").filter(|(side, _)| matches!(*side, "before" | "after"))?;
    let (rest, digests) = rest.strip_suffix(')')?.rsplit_once(", sha256 ")?;
    let digest = digests.split_once(", ").map_or(digests, |(digest, _)| digest);
    let (path, _) = rest.rsplit_once(" (")?;
    let [path] = <[String; 1]>::try_from(parted(path).ok()?).ok()?;
    let field = format!("{side} sha256");
    Some(Stated { what: side.to_owned(), path, sha256: Some(digest.to_owned()), line, field })
}

/// `- store: PATH (sha256 DIGEST)`, or `(unreadable)` in place of a digest.
fn source(line: u64, text: &str) -> Option<Stated> {
    let text = unescaped(text.strip_prefix("- ")?);
    let (what, rest) = text.split_once(": ").filter(|(what, _)| matches!(*what, "catalog" | "store"))?;
    let (path, digest) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let [path] = <[String; 1]>::try_from(parted(path).ok()?).ok()?;
    let sha256 = digest.strip_prefix("sha256 ").map(str::to_owned);
    Some(Stated { what: what.to_owned(), path, sha256, line, field: format!("{what} sha256") })
}

fn differences(
    path: &Path,
    start: u64,
    stated: &BTreeMap<Key, Entry>,
    derived: &BTreeMap<Key, Entry>,
    verification: &mut Verification,
) {
    let message = "from the files and the command line";
    let named = |key: &Key| format!("{} {}", key.section, key.name.join(" "));
    for (key, entry) in stated {
        let Some(other) = derived.get(key) else {
            verification.count("cells", 1);
            let discrepancy = Discrepancy::new(path, named(key), message).at(entry.line);
            verification.found(discrepancy.values(Some(entry.cells.join(" | ")), None::<String>));
            continue;
        };
        for index in 0..entry.cells.len().max(other.cells.len()) {
            verification.count("cells", 1);
            let (one, two) = (entry.cells.get(index), other.cells.get(index));
            if one != two {
                let column = entry.names.get(index).or_else(|| other.names.get(index));
                let field = column.map_or_else(|| named(key), |column| format!("{} {column}", named(key)));
                let discrepancy = Discrepancy::new(path, field, message).at(entry.line);
                verification.found(discrepancy.values(one, two));
            }
        }
    }
    for (key, entry) in derived.iter().filter(|(key, _)| !stated.contains_key(*key)) {
        verification.count("cells", 1);
        let discrepancy = Discrepancy::new(path, named(key), message).at(start);
        verification.found(discrepancy.values(None::<String>, Some(entry.cells.join(" | "))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_in_a_name_separates_no_cells() {
        assert_eq!(cells(r"| a\|b | 1.00 |  | yes |"), [r"a\|b", "1.00", "", "yes"]);
        assert_eq!(cells(r"| a\\| 2 |"), [r"a\\", "2"]);
        assert_eq!(unescaped(r"a\_b\\c"), r"a_b\c");
    }

    #[test]
    fn an_input_is_read_from_its_line() {
        for (line, path) in [
            (r"- before: benchmarks/a\_b.csv (v1, 2 rows, sha256 00ff)", "benchmarks/a_b.csv"),
            (r"- before: 'a (1).csv' (v1, 2 rows, sha256 00ff, samples sha256 11ee)", "a (1).csv"),
            (r"- before: $'a\\nb, sha256 x' (v1, 2 rows, sha256 00ff)", "a\nb, sha256 x"),
        ] {
            let input = input(7, line).expect("OK because the line is one of an input");
            assert_eq!((input.path.as_str(), input.sha256.as_deref()), (path, Some("00ff")), "{line}");
        }
        assert!(self::input(7, "- before: two words (v1, 2 rows, sha256 00ff)").is_none());
        assert!(self::input(7, "- command: x").is_none());
    }

    #[test]
    fn another_file_is_read_from_its_line() {
        for (line, path, sha256) in [
            ("- store: a.csv (sha256 00ff)", "a.csv", Some("00ff")),
            (r"- catalog: 'my table\_1 (2).tsv' (sha256 00ff)", "my table_1 (2).tsv", Some("00ff")),
            ("- store: a.csv (unreadable)", "a.csv", None),
        ] {
            let source = source(7, line).expect("OK because the line is one of a file");
            assert_eq!((source.path.as_str(), source.sha256.as_deref()), (path, sha256), "{line}");
        }
        assert!(source(7, "- before: a.csv (sha256 00ff)").is_none());
    }
}
