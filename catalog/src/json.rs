//! JSON objects in which a key given twice is an error.
//!
//! `serde_json`'s own map keeps the last of two equal keys, which would hide a damaged file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

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

#[cfg(test)]
mod tests {
    use super::UniqueMap;

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
