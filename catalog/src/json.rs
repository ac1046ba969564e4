//! JSON objects in which a key given twice is an error.
//!
//! `serde_json`'s own map keeps the last of two equal keys, which would hide a damaged file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// An object whose keys are all different and whose values are of one type.
#[derive(Debug)]
pub(crate) struct UniqueMap<V>(pub(crate) BTreeMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for UniqueMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor(PhantomData)).map(Self)
    }
}

struct UniqueVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for UniqueVisitor<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access
                .next_value::<V>()
                .map_err(|error| A::Error::custom(format_args!("in key {key:?}: {error}")))?;
            match map.entry(key) {
                Entry::Vacant(slot) => slot.insert(value),
                Entry::Occupied(slot) => {
                    return Err(A::Error::custom(format_args!("key {:?} is given twice", slot.key())));
                }
            };
        }
        Ok(map)
    }
}

/// Any JSON value in which no object gives a key twice, at any depth.
#[derive(Debug)]
pub(crate) struct UniqueValue(pub(crate) Value);

impl<'de> Deserialize<'de> for UniqueValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Self)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(UniqueValue(value)) = access.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key {key:?} is given twice")));
            }
            let UniqueValue(value) = access.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::{UniqueMap, UniqueValue};

    #[test]
    fn a_value_is_read_as_it_is_written() {
        let text = r#"{"b":[null,true,-1,18446744073709551615,1.5e-7,"x"],"a":{}}"#;
        let UniqueValue(value) = serde_json::from_str(text).expect("OK because it is a value");
        assert_eq!(value, serde_json::from_str::<serde_json::Value>(text).expect("OK because it is a value"));
    }

    #[test]
    fn a_key_given_twice_is_found_at_any_depth() {
        let error = serde_json::from_str::<UniqueValue>(r#"{"x":[{"a":1,"a":2}]}"#)
            .expect_err("OK because a repeats");
        assert!(error.to_string().contains("\"a\" is given twice"), "{error}");
    }

    #[test]
    fn keeps_keys_that_differ() {
        let map: UniqueMap<u32> =
            serde_json::from_str(r#"{"b":1,"a":2}"#).expect("OK because it is an object");
        assert_eq!(map.0.into_iter().collect::<Vec<_>>(), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    }

    #[test]
    fn refuses_a_key_given_twice_even_when_written_with_an_escape() {
        let error = serde_json::from_str::<UniqueMap<u32>>(r#"{"a":1,"\u0061":1}"#)
            .expect_err("OK because a repeats");
        assert!(error.to_string().contains("\"a\" is given twice"), "{error}");
    }

    #[test]
    fn names_the_key_whose_value_is_wrong() {
        let error =
            serde_json::from_str::<UniqueMap<u32>>(r#"{"a":-1}"#).expect_err("OK because -1 is no u32");
        assert!(error.to_string().contains("in key \"a\""), "{error}");
    }
}
