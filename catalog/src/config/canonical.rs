//! The canonical form of a `config.json`: one text for all files that say the same of the model.
//!
//! Keys are sorted, spaces and the spelling of numbers fall away, and so do keys that tell where a file came from and
//! what wrote it rather than what the model is ([`VOLATILE_KEYS`]), at every depth. Everything else stays, the
//! quantization above all. Nothing is added: a key that is absent differs from one that holds its default.

use serde_json::{Map, Number, Value};

use crate::identity::sha256_hex;
use crate::json::UniqueValue;

/// Keys that are left out: versions of the libraries that wrote the file, and names of its source.
pub const VOLATILE_KEYS: &[&str] = &[
    "_commit_hash",
    "_name_or_path",
    "mlx_lm_version",
    "mlx_version",
    "mlx_vlm_version",
    "name_or_path",
    "transformers_version",
    "transformers.js_config",
    "unsloth_fixed",
    "unsloth_version",
];

/// The canonical form of the bytes of a configuration; nothing when they are no JSON object, or when a key is given
/// twice, so that what it says depends on who reads it.
pub fn canonical_form(bytes: &[u8]) -> Option<String> {
    let UniqueValue(value) = serde_json::from_slice(bytes).ok()?;
    let object = value.as_object()?;
    Some(Value::Object(object_form(object)).to_string())
}

/// SHA-256 of [`canonical_form`] in lower-case hex.
pub fn canonical_sha256(bytes: &[u8]) -> Option<String> {
    canonical_form(bytes).map(|form| sha256_hex(form.as_bytes()))
}

fn object_form(object: &Map<String, Value>) -> Map<String, Value> {
    let mut entries: Vec<(&String, &Value)> =
        object.iter().filter(|(key, _)| !VOLATILE_KEYS.contains(&key.as_str())).collect();
    entries.sort_by_key(|(key, _)| *key);
    entries.into_iter().map(|(key, value)| (key.clone(), form(value))).collect()
}

// The recursion is as deep as the reader let the value be.
fn form(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(object_form(object)),
        Value::Array(values) => Value::Array(values.iter().map(form).collect()),
        Value::Number(number) => Value::Number(number_form(number)),
        other => other.clone(),
    }
}

/// A whole number is one however it is written: `10000.0` and `1e4` are `10000`.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers below 2^53 are cast")]
fn number_form(number: &Number) -> Number {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float.fract() == 0.0 && float.abs() < EXACT => Number::from(float as i64),
        _ => number.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{VOLATILE_KEYS, canonical_form};

    #[test]
    fn order_spaces_numbers_and_sources_do_not_matter() {
        let one = br#"{"a": 10000.0, "b": {"y": 1e-5, "x": [1, 2]}, "_name_or_path": "/home/me/x"}"#;
        let other =
            br#"{"b":{"x":[1,2],"transformers_version":"5.1","y":0.00001},"transformers_version":"4.5","a":10000}"#;
        assert_eq!(canonical_form(one).as_deref(), Some(r#"{"a":10000,"b":{"x":[1,2],"y":0.00001}}"#));
        assert_eq!(canonical_form(one), canonical_form(other));
    }

    #[test]
    fn everything_else_matters() {
        let base = canonical_form(br#"{"a":[1,2],"quantization":{"bits":4}}"#);
        for other in [
            r#"{"a":[2,1],"quantization":{"bits":4}}"#,
            r#"{"a":[1,2],"quantization":{"bits":8}}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":["1",2],"quantization":{"bits":4}}"#,
            r#"{"a":[1,2],"quantization":{"bits":4},"b":null}"#,
        ] {
            assert_ne!(canonical_form(other.as_bytes()), base, "{other}");
        }
    }

    #[test]
    fn a_file_that_may_be_read_in_two_ways_has_no_form() {
        assert_eq!(canonical_form(br#"{"bits":4,"bits":8}"#), None);
        assert_eq!(canonical_form(br#"{"q":[{"bits":4,"\u0062its":8}]}"#), None);
        assert_eq!(canonical_form(b"[1]"), None);
        assert_eq!(canonical_form("[".repeat(100_000).as_bytes()), None);
    }

    #[test]
    fn no_key_of_the_model_is_volatile() {
        for key in VOLATILE_KEYS {
            assert!(!key.contains("quant") && !key.contains("dtype") && !key.contains("size"), "{key}");
        }
    }
}
