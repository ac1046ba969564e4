//! The GGUF reader against damaged and hostile files.
#![expect(clippy::unwrap_used, reason = "a test may stop where it fails")]

mod convert_support;

use convert_support::{GgufMaker, Meta, small_gguf};
use mlxcel::convert::gguf::{BlockType, GgufFile, Value};
use proptest::prelude::*;

fn open(bytes: &[u8]) -> Result<GgufFile, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    let result = GgufFile::open(&path);
    result.map_err(|error| {
        let text = error.to_string();
        assert!(text.contains("model.gguf") && text.contains("at byte"), "{text}");
        text
    })
}

fn tiny() -> GgufMaker {
    let mut maker = GgufMaker::default();
    maker
        .set("general.architecture", Meta::Text("llama".to_owned()))
        .set("list", Meta::Texts(vec!["one".to_owned(), "two".to_owned()]))
        .set("numbers", Meta::F32s(vec![0.5, -1.0]))
        .set("yes", Meta::Bool(true))
        .tensor("a", &[2, 32], BlockType::Q4_0, vec![7; 36])
        .tensor("b", &[3], BlockType::F32, vec![1; 12]);
    maker
}

/// The tiny file with a replacement for a stretch of bytes.
fn patched(find: &[u8], replace: &[u8]) -> Vec<u8> {
    let mut bytes = tiny().bytes();
    let at = bytes.windows(find.len()).position(|window| window == find).unwrap();
    bytes[at..at + replace.len()].copy_from_slice(replace);
    bytes
}

#[test]
fn reads_metadata_shapes_and_data() {
    let mut file = {
        let folder = tempfile::tempdir().unwrap();
        GgufFile::open(&tiny().write(folder.path())).unwrap()
    };
    assert_eq!(file.metadata()["general.architecture"], Value::Text("llama".to_owned()));
    assert_eq!(file.metadata()["list"].as_array().unwrap().len(), 2);
    assert_eq!(file.metadata()["yes"].as_bool(), Some(true));
    let tensor = file.tensors()["a"].clone();
    assert_eq!(
        (tensor.shape.as_slice(), tensor.block_type, tensor.bytes),
        ([2, 32].as_slice(), BlockType::Q4_0, 36)
    );
    let mut row = [0; 18];
    file.read_data(&tensor, 18, &mut row).unwrap();
    assert_eq!(row, [7; 18]);
    let tensor = file.tensors()["b"].clone();
    let mut data = [0; 12];
    file.read_data(&tensor, 0, &mut data).unwrap();
    assert_eq!(data, [1; 12]);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = tiny().bytes();
    assert!(open(&bytes).is_ok());
    for length in 0..bytes.len() {
        assert!(
            open(&bytes[..length]).is_err(),
            "{length} of {} bytes were taken for a whole file",
            bytes.len()
        );
    }
}

#[test]
fn version_two_is_read_and_others_are_refused() {
    let mut bytes = tiny().bytes();
    bytes[4] = 2;
    assert!(open(&bytes).is_ok());
    bytes[4] = 1;
    assert!(open(&bytes).unwrap_err().contains("version 1"));
    bytes[4..8].copy_from_slice(&3_u32.to_be_bytes());
    assert!(open(&bytes).unwrap_err().contains("big-endian"));
    bytes[0] = b'X';
    assert!(open(&bytes).unwrap_err().contains("not a GGUF file"));
}

#[test]
fn huge_counts_are_refused_before_memory_is_taken() {
    for at in [8, 16] {
        let mut bytes = tiny().bytes();
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(open(&bytes).unwrap_err().contains("over the limit"));
        bytes[at..at + 8].copy_from_slice(&60_000_u64.to_le_bytes());
        assert!(open(&bytes).is_err());
    }
    // The length of the array of texts, which stands before its first text.
    let mut find = 2_u64.to_le_bytes().to_vec();
    find.extend(3_u64.to_le_bytes());
    find.extend(b"one");
    let huge = patched(&find, &(1_u64 << 60).to_le_bytes());
    assert!(open(&huge).unwrap_err().contains("truncated"));
}

#[test]
fn a_truth_value_is_zero_or_one() {
    let mut find = b"yes".to_vec();
    find.extend(7_u32.to_le_bytes());
    let mut replace = find.clone();
    replace.push(2);
    assert!(open(&patched(&find, &replace)).unwrap_err().contains("truth value 2"));
}

#[test]
fn unknown_types_and_twice_given_names_are_named() {
    let mut find = b"yes".to_vec();
    find.extend(7_u32.to_le_bytes());
    let mut replace = b"yes".to_vec();
    replace.extend(99_u32.to_le_bytes());
    assert!(open(&patched(&find, &replace)).unwrap_err().contains("\"yes\" has the unknown value type 99"));

    let mut maker = tiny();
    maker.metadata.push(("yes".to_owned(), Meta::Bool(false)));
    assert!(open(&maker.bytes()).unwrap_err().contains("\"yes\" occurs twice"));
    let mut maker = tiny();
    maker.tensors.push(maker.tensors[0].clone());
    assert!(open(&maker.bytes()).unwrap_err().contains("tensor \"a\" occurs twice"));
}

#[test]
fn a_tensor_type_without_dequantizer_is_named_with_its_tensor() {
    let mut find = 32_u64.to_le_bytes().to_vec();
    find.extend(2_u64.to_le_bytes());
    let mut replace = find.clone();
    find.extend(2_u32.to_le_bytes());
    replace.extend(20_u32.to_le_bytes());
    let message = open(&patched(&find, &replace)).unwrap_err();
    assert!(message.contains("\"a\"") && message.contains("IQ4_NL") && message.contains("Q4_K"), "{message}");
}

#[test]
fn shapes_that_cut_blocks_or_overflow_are_refused() {
    let mut maker = tiny();
    maker.tensor("a", &[2, 31], BlockType::Q4_0, vec![0; 36]);
    assert!(open(&maker.bytes()).unwrap_err().contains("no whole number of Q4_0 blocks"));
    let mut maker = tiny();
    maker.tensor("a", &[usize::MAX / 2, 8, 32], BlockType::F32, vec![0; 36]);
    assert!(open(&maker.bytes()).unwrap_err().contains("too large to exist"));
}

#[test]
fn a_misaligned_alignment_is_refused() {
    let mut maker = tiny();
    maker.set("general.alignment", Meta::U32(24));
    assert!(open(&maker.bytes()).unwrap_err().contains("general.alignment"));
    maker.set("general.alignment", Meta::U32(0));
    assert!(open(&maker.bytes()).unwrap_err().contains("general.alignment"));
}

#[test]
fn overlapping_tensors_are_refused() {
    // The offset of the second tensor (64, after 36 bytes padded) is set back to 0.
    let mut bytes = tiny().bytes();
    let mut find = 0_u32.to_le_bytes().to_vec();
    find.extend(64_u64.to_le_bytes());
    let at = bytes.windows(12).position(|window| window == find).unwrap();
    bytes[at + 4] = 0;
    assert!(open(&bytes).unwrap_err().contains("overlap"));
    bytes[at + 4] = 8;
    assert!(open(&bytes).unwrap_err().contains("no multiple of the alignment"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_bytes_never_end_the_program(changes in prop::collection::vec((0_usize..1 << 16, any::<u8>()), 1..6)) {
        let mut bytes = small_gguf("llama", &[BlockType::Q4_1]).bytes();
        // Most of the file is tensor data and tokens; the changes go to its head and to anywhere.
        let length = bytes.len();
        for (number, (at, value)) in changes.into_iter().enumerate() {
            let at = if number % 2 == 0 { at % 600 } else { at % length };
            bytes[at] = value;
        }
        if let Ok(file) = open(&bytes) {
            for tensor in file.tensors().values() {
                prop_assert!(tensor.start + tensor.bytes <= length as u64);
            }
        }
    }

    #[test]
    fn random_bytes_after_the_magic_never_end_the_program(tail in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(tail);
        let _ = open(&bytes);
    }
}
