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

#[test]
fn every_reader_holds_to_its_word_on_what_a_fuzzer_has_grown() {
    for (name, target, least) in TARGETS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/grown").join(name).with_extension("txt");
        let inputs = fuzzing::grown(&path).expect("what was grown");
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
