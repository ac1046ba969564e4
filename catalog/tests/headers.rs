//! The safetensors header reader against good, damaged and hostile files.

mod support;

use std::collections::BTreeMap;

use mlxcel_catalog::headers::{Dtype, Header, HeaderError, HeaderFault, MAX_HEADER_BYTES, read_header};
use proptest::prelude::*;
use support::{Folder, assert_says, file_bytes};

fn read(bytes: impl AsRef<[u8]>) -> Result<Header, HeaderError> {
    let folder = Folder::empty().file("a.safetensors", bytes);
    read_header(&folder.join("a.safetensors"))
}

/// The fault of a file with this header and this many bytes of data.
#[track_caller]
fn fault(header: &str, data_bytes: usize) -> HeaderFault {
    let error = read(file_bytes(header, &vec![0; data_bytes])).expect_err("the file is wrong");
    assert_says(&error, &["a.safetensors: "]);
    error.fault
}

/// The fault of a single tensor `t` described by this JSON, in a file with 8 bytes of data.
#[track_caller]
fn tensor_fault(tensor: &str) -> HeaderFault {
    fault(&format!(r#"{{"t":{tensor}}}"#), 8)
}

#[test]
fn reads_names_dtypes_shapes_ranges_and_metadata() {
    let header = concat!(
        r#"{"__metadata__":{"format":"mlx"},"#,
        r#""b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"#,
        r#""a":{"dtype":"U32","shape":[],"data_offsets":[0,4]},"#,
        r#""empty":{"dtype":"F64","shape":[0,7],"data_offsets":[4,4]}}   "#,
    );
    let read = read(file_bytes(header, &[0; 16])).expect("a good file");
    let start = 8 + header.len() as u64;
    assert_eq!(read.data_start, start);
    assert_eq!(read.file_bytes, start + 16);
    assert_eq!(read.metadata, BTreeMap::from([("format".to_owned(), "mlx".to_owned())]));
    assert_eq!(read.tensors.keys().collect::<Vec<_>>(), ["a", "b", "empty"]);
    let b = &read.tensors["b"];
    assert_eq!(
        (b.dtype, b.shape.as_slice(), b.range.clone()),
        (Dtype::Bf16, [2, 3].as_slice(), start + 4..start + 16)
    );
    assert_eq!((b.elements(), b.byte_count()), (6, 12));
    assert_eq!((read.tensors["a"].elements(), read.tensors["empty"].elements()), (1, 0));
}

#[test]
fn reads_a_file_without_tensors_and_null_metadata() {
    assert!(read(file_bytes("{}", &[])).expect("a good file").tensors.is_empty());
    assert!(read(file_bytes(r#"{"__metadata__":null}"#, &[])).expect("a good file").metadata.is_empty());
}

#[test]
fn knows_every_dtype_by_its_spelling_and_size() {
    for dtype in Dtype::ALL {
        assert_eq!(Dtype::from_name(dtype.name()), Some(*dtype));
        let header =
            format!(r#"{{"t":{{"dtype":"{dtype}","shape":[3],"data_offsets":[0,{}]}}}}"#, 3 * dtype.bytes());
        let data = vec![0; usize::try_from(3 * dtype.bytes()).expect("a small number")];
        assert_eq!(read(file_bytes(&header, &data)).expect("a good file").tensors["t"].dtype, *dtype);
    }
    assert_eq!(Dtype::ALL.len(), 16);
}

#[test]
fn refuses_what_is_not_a_file() {
    let folder = Folder::empty();
    assert!(matches!(read_header(&folder.join("none")), Err(HeaderError { fault: HeaderFault::Io(_), .. })));
    assert!(matches!(read_header(folder.path()), Err(HeaderError { fault: HeaderFault::NotAFile, .. })));
}

#[test]
fn refuses_files_too_short_for_a_length() {
    for bytes in 0..8 {
        let error = read(vec![0; bytes]).expect_err("too short");
        assert!(matches!(error.fault, HeaderFault::TooShort { file_bytes } if file_bytes == bytes as u64));
    }
}

#[test]
fn refuses_header_lengths_over_the_limit_or_beyond_the_file() {
    for (length, over_limit) in
        [(u64::MAX, true), (MAX_HEADER_BYTES + 1, true), (MAX_HEADER_BYTES, false), (3, false)]
    {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"{}");
        let fault = read(bytes).expect_err("a wrong length").fault;
        match fault {
            HeaderFault::HeaderTooLong { header_bytes } => {
                assert!(over_limit && header_bytes == length);
            }
            HeaderFault::HeaderBeyondFile { header_bytes, file_bytes } => {
                assert!(!over_limit && header_bytes == length && file_bytes == 10);
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn refuses_headers_that_are_not_utf8_or_not_json_objects() {
    let mut bytes = 3_u64.to_le_bytes().to_vec();
    bytes.extend_from_slice(b"{\xff}");
    assert!(matches!(read(bytes).expect_err("not UTF-8").fault, HeaderFault::NotUtf8 { at: 1 }));
    for header in ["", " {}", "[]", "null", "{", "{}{}", r#"{"t":1}"#, r#"{"t":null}"#, "{\"t\":{}}"] {
        assert!(matches!(fault(header, 0), HeaderFault::NotValid(_)), "{header}");
    }
}

#[test]
fn refuses_deep_nesting_without_using_up_the_stack() {
    let depth = 500_000;
    let header = format!(r#"{{"t":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert!(matches!(fault(&header, 0), HeaderFault::NotValid(_)));
    let header = format!(
        r#"{{"t":{{"dtype":"U8","shape":[8],"data_offsets":[0,8],"more":{}1{}}}}}"#,
        "[".repeat(depth),
        "]".repeat(depth)
    );
    assert!(matches!(fault(&header, 8), HeaderFault::NotValid(_)));
}

#[test]
fn refuses_fields_that_the_format_does_not_have() {
    let found = tensor_fault(r#"{"dtype":"U8","shape":[8],"data_offsets":[0,8],"strides":[1]}"#);
    assert!(found.to_string().contains("strides"), "{found}");
}

#[test]
fn refuses_keys_given_twice() {
    let tensor = r#"{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
    let header = format!(r#"{{"t":{tensor},"t":{tensor}}}"#);
    assert!(fault(&header, 4).to_string().contains("tensor \"t\" is given twice"));
    let header = r#"{"__metadata__":{},"__metadata__":{}}"#;
    assert!(fault(header, 0).to_string().contains("__metadata__ is given twice"));
    assert!(fault(r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0).to_string().contains("\"a\" is given twice"));
    let double = tensor_fault(r#"{"dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]}"#).to_string();
    assert!(double.contains("in tensor \"t\"") && double.contains("duplicate field"), "{double}");
}

#[test]
fn refuses_metadata_that_is_not_text() {
    for metadata in ["[]", "1", r#"{"a":1}"#, r#"{"a":null}"#] {
        let header = format!(r#"{{"__metadata__":{metadata}}}"#);
        assert!(fault(&header, 0).to_string().contains("__metadata__"), "{metadata}");
    }
}

#[test]
fn refuses_unknown_dtypes_by_name() {
    for dtype in ["f32", "C64", "F4", "", "F32 "] {
        let found = tensor_fault(&format!(r#"{{"dtype":"{dtype}","shape":[8],"data_offsets":[0,8]}}"#));
        assert!(
            matches!(found, HeaderFault::UnknownDtype { tensor, dtype: d } if tensor == "t" && d == dtype)
        );
    }
}

#[test]
fn refuses_axes_that_are_no_lengths() {
    for axis in ["-1", "1.5", "2e0", "18446744073709551616", "1e300"] {
        let found = tensor_fault(&format!(r#"{{"dtype":"U8","shape":[8,{axis}],"data_offsets":[0,8]}}"#));
        assert!(matches!(found, HeaderFault::BadShape { tensor, .. } if tensor == "t"), "{axis}");
    }
    for shape in ["8", "null", "[\"8\"]", "{\"0\":8}", "[1e400]"] {
        let found = tensor_fault(&format!(r#"{{"dtype":"U8","shape":{shape},"data_offsets":[0,8]}}"#));
        assert!(matches!(found, HeaderFault::NotValid(_)), "{shape}");
    }
}

#[test]
fn refuses_shapes_whose_product_overflows() {
    for shape in [
        "[4294967296,4294967296]",
        "[9223372036854775808,2]",
        "[18446744073709551615]",
        "[9223372036854775808,2,0]",
    ] {
        let found = tensor_fault(&format!(r#"{{"dtype":"F64","shape":{shape},"data_offsets":[0,8]}}"#));
        assert!(matches!(found, HeaderFault::ShapeOverflow { .. }), "{shape}: {found}");
    }
}

#[test]
fn refuses_offsets_that_are_no_range() {
    for offsets in ["[8,0]", "[-8,0]", "[0,8.0]", "[18446744073709551600,18446744073709551608]", "[0,1e30]"] {
        let found = tensor_fault(&format!(r#"{{"dtype":"U8","shape":[8],"data_offsets":{offsets}}}"#));
        assert!(matches!(found, HeaderFault::BadOffsets { .. }), "{offsets}: {found}");
    }
    for offsets in ["[0]", "[0,8,8]", "{}", "8"] {
        let found = tensor_fault(&format!(r#"{{"dtype":"U8","shape":[8],"data_offsets":{offsets}}}"#));
        assert!(matches!(found, HeaderFault::NotValid(_)), "{offsets}: {found}");
    }
}

#[test]
fn refuses_spans_that_dtype_and_shape_do_not_fill() {
    let found = tensor_fault(r#"{"dtype":"F16","shape":[3],"data_offsets":[0,8]}"#);
    assert!(matches!(found, HeaderFault::WrongSpan { expected: 6, found: 8, .. }), "{found}");
}

#[test]
fn refuses_overlaps_and_holes() {
    let pair = |first: &str, second: &str| {
        let tensor = |offsets| format!(r#"{{"dtype":"U8","shape":[4],"data_offsets":{offsets}}}"#);
        format!(r#"{{"a":{},"b":{}}}"#, tensor(first), tensor(second))
    };
    let found = fault(&pair("[0,4]", "[2,6]"), 6);
    assert!(
        matches!(found, HeaderFault::Overlap { ref first, ref second } if first == "a" && second == "b"),
        "{found}"
    );
    assert!(matches!(fault(&pair("[0,4]", "[0,4]"), 4), HeaderFault::Overlap { .. }));
    assert!(matches!(fault(&pair("[0,4]", "[6,10]"), 10), HeaderFault::Hole { bytes: 2, .. }));
    assert!(matches!(fault(&pair("[1,5]", "[5,9]"), 9), HeaderFault::Hole { bytes: 1, .. }));
}

#[test]
fn refuses_truncated_files_and_trailing_bytes() {
    let header = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}"#;
    let size = 8 + header.len() as u64;
    match fault(header, 7) {
        HeaderFault::Truncated { tensor, expected, found } => {
            assert_eq!((tensor.as_str(), expected, found), ("b", size + 8, size + 7));
        }
        other => panic!("{other}"),
    }
    assert!(matches!(fault(header, 0), HeaderFault::Truncated { tensor, .. } if tensor == "a"));
    let found = fault(header, 9);
    assert!(found.to_string().contains("1 bytes after"), "{found}");
    assert!(matches!(found, HeaderFault::TrailingBytes { .. }));
}

#[test]
fn keeps_line_breaks_of_tensor_names_out_of_messages() {
    let found = fault(r#"{"a\nb":{"dtype":"?","shape":[],"data_offsets":[0,0]}}"#, 0).to_string();
    assert!(!found.contains('\n') && found.contains(r"a\nb"), "{found}");
}

#[test]
fn the_digest_covers_the_header_and_not_the_data() {
    let header = r#"{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    let digest = |header: &str, data| read(file_bytes(header, &[data])).expect("a good file").sha256;
    assert_eq!(digest(header, 0), digest(header, 1));
    assert_ne!(digest(header, 0), digest(&format!("{header} "), 0));
}

/// Tensors whose data lie one after another, as `(dtype, shape)`.
fn tensors() -> impl Strategy<Value = Vec<(Dtype, Vec<usize>)>> {
    let shape = prop::collection::vec(0_usize..4, 0..4);
    prop::collection::vec((prop::sample::select(Dtype::ALL), shape), 1..6)
}

/// Header text, data length and expected entries (relative to the data) of such tensors.
fn laid_out(tensors: &[(Dtype, Vec<usize>)]) -> (String, usize) {
    let mut end = 0;
    let entries: Vec<_> = tensors
        .iter()
        .enumerate()
        .map(|(position, (dtype, shape))| {
            let begin = end;
            end += shape.iter().product::<usize>() * usize::try_from(dtype.bytes()).expect("a small number");
            format!(r#""t{position}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#)
        })
        .collect();
    (format!("{{{}}}", entries.join(",")), end)
}

proptest! {
    #[test]
    fn reads_back_what_was_laid_out(tensors in tensors()) {
        let (text, data_bytes) = laid_out(&tensors);
        let header = read(file_bytes(&text, &vec![0; data_bytes])).expect("a good file");
        prop_assert_eq!(header.tensors.len(), tensors.len());
        for (position, (dtype, shape)) in tensors.iter().enumerate() {
            let entry = &header.tensors[&format!("t{position}")];
            prop_assert_eq!((entry.dtype, &entry.shape), (*dtype, shape));
            prop_assert_eq!(entry.elements(), shape.iter().product::<usize>() as u64);
        }
    }

    #[test]
    fn every_cut_of_a_good_file_is_refused(tensors in tensors(), cut in any::<prop::sample::Index>()) {
        let (text, data_bytes) = laid_out(&tensors);
        let bytes = file_bytes(&text, &vec![0; data_bytes]);
        let kept = cut.index(bytes.len());
        prop_assert!(read(&bytes[..kept]).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused_and_what_is_read_fits_the_file(
        header in "\\{[\\[\\]{}\":,0-9a-zU8\\-]{0,80}", data in prop::collection::vec(any::<u8>(), 0..16),
    ) {
        if let Ok(header) = read(file_bytes(&header, &data)) {
            for entry in header.tensors.values() {
                prop_assert!(entry.range.start >= header.data_start && entry.range.end <= header.file_bytes);
            }
        }
    }

    #[test]
    fn a_changed_number_never_passes_unseen(tensors in tensors(), at in any::<prop::sample::Index>(), digit in b'0'..=b'9') {
        let (text, data_bytes) = laid_out(&tensors);
        let mut changed = text.clone().into_bytes();
        let digits: Vec<_> = (0..changed.len()).filter(|&i| changed[i].is_ascii_digit()).collect();
        let position = digits[at.index(digits.len())];
        changed[position] = digit;
        let changed = String::from_utf8(changed).expect("digits stay digits");
        prop_assume!(changed != text);
        if let Ok(header) = read(file_bytes(&changed, &vec![0; data_bytes])) {
            // Only a name, a dtype of equal size or an axis of an empty tensor can change and still fit.
            let total: u64 = header.tensors.values().map(|entry| entry.elements() * entry.dtype.bytes()).sum();
            prop_assert_eq!(total, data_bytes as u64);
        }
    }
}
