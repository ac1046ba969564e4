//! The bodies of the fuzz targets in the normal suite: on arbitrary bytes, on damaged seeds, and (by hand) ten million
//! times.

use std::path::Path;

use proptest::prelude::*;

#[path = "../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "for the fuzz targets it is a library")]
mod bodies;

/// The seeds of one target, in the order of their names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("OK because the corpus is part of the project");
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("OK because it was just listed")).collect()
}

#[test]
fn what_a_fuzzer_has_grown_makes_nothing_panic() {
    for (target, body) in TARGETS {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/grown").join(target).with_extension("txt");
        let inputs = mlxcel_catalog::fuzzing::grown(&path).expect("OK because it is part of the project");
        assert!(inputs.len() > seeds(target).len(), "{target}: only {} inputs", inputs.len());
        for input in &inputs {
            body(input);
        }
    }
}

/// A name and what it does with its input.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 4] = [
    ("rows", bodies::rows),
    ("pairs", bodies::pairs),
    ("samples", bodies::samples),
    ("documents", bodies::documents),
];

/// A small generator of numbers; the same seed gives the same inputs.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap_or_default()
    }
}

/// Texts that readers stumble over.
const WORDS: [&[u8]; 20] = [
    b"NaN",
    b"inf",
    b"-1",
    b"1e308",
    b"18446744073709551616",
    b"\"",
    b"\"\"",
    b",",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"SKIP:oom",
    b"FAIL:bench",
    b"2028-02-29",
    b"unknown",
    b"|",
    b"{}",
    b"#",
];

/// Changes a seed in a few places.
fn mutated(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut input = seed.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(input.len());
        match numbers.below(6) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = numbers.next().to_le_bytes()[0];
                }
            }
            1 => input.truncate(at),
            2 => {
                let end = at.saturating_add(numbers.below(16)).min(input.len());
                input.drain(at..end);
            }
            3 => {
                let word = WORDS[numbers.below(WORDS.len())];
                input.splice(at..at, word.iter().copied());
            }
            4 => {
                // A cell becomes another word.
                let end = input.iter().skip(at).position(|byte| matches!(byte, b',' | b'\n' | b'|' | b'"'));
                let end = end.map_or(input.len(), |length| at + length);
                let word = WORDS[numbers.below(WORDS.len())];
                input.splice(at..end, word.iter().copied());
            }
            _ => {
                let end = at.saturating_add(numbers.below(64)).min(input.len());
                let copy = input.get(at..end).unwrap_or_default().to_vec();
                input.splice(at..at, copy);
            }
        }
    }
    input
}

/// Runs a number of damaged seeds through every target in turn.
fn run(inputs: usize, start: u64) {
    let mut numbers = Numbers(start);
    let targets = TARGETS.map(|(name, body)| (name, body, seeds(name)));
    for index in 0..inputs {
        let (name, body, seeds) = &targets[index % targets.len()];
        let seed = &seeds[numbers.below(seeds.len())];
        let input = mutated(seed, &mut numbers);
        if let Err(panic) = std::panic::catch_unwind(|| body(&input)) {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|&said| said.to_owned()));
            panic!(
                "target {name}, input {index} from {start}: {said:?}\n{:?}",
                String::from_utf8_lossy(&input)
            );
        }
    }
}

#[test]
fn every_target_has_seeds_and_takes_them_as_they_are() {
    for (name, body) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name}");
        for seed in &seeds {
            body(seed);
        }
    }
}

#[test]
fn thousands_of_damaged_seeds_make_nothing_panic() {
    run(8_000, 0x9e37_79b9_7f4a_7c15);
}

/// `cargo test --release -p mlxcel-reports --test it -- --ignored --nocapture ten_million`; FUZZ_START varies the inputs.
#[test]
#[ignore = "minutes in the release build"]
fn ten_million_damaged_seeds_make_nothing_panic() {
    let start =
        std::env::var("FUZZ_START").ok().and_then(|text| text.parse().ok()).unwrap_or(88_172_645_463_325_252);
    let inputs = std::env::var("FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    run(inputs, start);
}

proptest! {
    #[test]
    fn no_bytes_make_a_target_panic(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (_, body) in TARGETS {
            body(&data);
        }
    }

    #[test]
    fn no_text_of_the_right_letters_makes_a_target_panic(data in "(?s)[-a-z0-9.,:|\"\\\\{}\\[\\]# \r\n]{0,200}") {
        for (_, body) in TARGETS {
            body(data.as_bytes());
        }
    }
}
