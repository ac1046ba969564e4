//! The fuzz targets' bodies over their corpus, over the corpus damaged a little, and over bytes of chance.

use std::fs;
use std::path::Path;

use mlxcel_catalog::fuzzing;
use proptest::prelude::*;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target, usize); 3] =
    [("header", fuzzing::header, 10), ("config", fuzzing::config, 8), ("table", fuzzing::table, 8)];

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let entries = fs::read_dir(folder).expect("the corpus");
    entries.map(|entry| fs::read(entry.expect("an entry").path()).expect("a file")).collect()
}

#[test]
fn every_reader_holds_to_its_word_on_the_corpus() {
    for (name, target, least) in TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() >= least, "{name}: only {} files", corpus.len());
        for bytes in &corpus {
            target(bytes);
        }
    }
}

/// What a fuzzer has grown from the corpus, the smallest set that reaches as much code: a line an input, escaped as
/// `escape_ascii` does it.
fn grown(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/grown").join(name).with_extension("txt");
    let text = fs::read_to_string(path).expect("what was grown");
    text.lines().map(|line| unescaped(line).unwrap_or_else(|| panic!("{name}: {line}"))).collect()
}

fn unescaped(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                other => other,
            },
            other => other,
        };
        bytes.push(byte);
    }
    Some(bytes)
}

#[test]
fn escaped_inputs_read_back() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(unescaped(&bytes.escape_ascii().to_string()), Some(bytes));
    assert_eq!(unescaped("\\x0"), None);
}

#[test]
fn every_reader_holds_to_its_word_on_what_a_fuzzer_has_grown() {
    for (name, target, least) in TARGETS {
        let inputs = grown(name);
        assert!(inputs.len() > least, "{name}: only {} inputs", inputs.len());
        for bytes in &inputs {
            target(bytes);
        }
    }
}

#[test]
fn every_reader_holds_to_its_word_on_every_beginning_of_the_corpus() {
    for (name, target, _) in TARGETS {
        for bytes in corpus(name) {
            for end in 0..bytes.len().min(300) {
                target(&bytes[..end]);
            }
        }
    }
}

proptest! {
    #[test]
    fn every_reader_holds_to_its_word_on_damaged_files(
        pick in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        for (name, target, _) in TARGETS {
            let corpus = corpus(name);
            let mut bytes = pick.get(&corpus).clone();
            for (at, byte) in &edits {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
            }
            target(&bytes);
        }
    }

    #[test]
    fn every_reader_holds_to_its_word_on_bytes_of_chance(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (_, target, _) in TARGETS {
            target(&bytes);
        }
    }
}
