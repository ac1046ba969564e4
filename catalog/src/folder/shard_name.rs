//! The naming of shards, `NAME-00002-of-00005.safetensors`, and what is missing of such a set.

use std::collections::{BTreeMap, BTreeSet};

/// `(name before the numbers, number, total, digits)` of a shard's file name.
fn parse(file_name: &str) -> Option<(&str, u32, u32, usize)> {
    let stem = file_name.strip_suffix(".safetensors")?;
    let (rest, total) = stem.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(number) || !all_digits(total) || number.len() != total.len() {
        return None;
    }
    Some((prefix, number.parse().ok()?, total.parse().ok()?, total.len()))
}

/// The files that `names` shows to be missing, in order. A set counts as begun by any one of its files.
pub(super) fn missing_of_sets<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut sets: BTreeMap<(&str, u32, usize), BTreeSet<u32>> = BTreeMap::new();
    for (prefix, number, total, digits) in names.filter_map(parse) {
        sets.entry((prefix, total, digits)).or_default().insert(number);
    }
    let mut missing = Vec::new();
    for ((prefix, total, digits), present) in sets {
        missing.extend(
            (1..=total)
                .filter(|number| !present.contains(number))
                .map(|number| format!("{prefix}-{number:0digits$}-of-{total:0digits$}.safetensors"))
                // A damaged name may claim any total; nobody needs to read more than this.
                .take(1_000),
        );
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::missing_of_sets;

    #[test]
    fn lists_what_a_set_lacks_with_the_digits_of_the_names_present() {
        let present = ["model-00002-of-00004.safetensors", "model-00004-of-00004.safetensors"];
        assert_eq!(
            missing_of_sets(present.into_iter()),
            ["model-00001-of-00004.safetensors", "model-00003-of-00004.safetensors"]
        );
    }

    #[test]
    fn finds_nothing_missing_in_complete_sets_and_plain_names() {
        let present =
            ["a-1-of-2.safetensors", "a-2-of-2.safetensors", "model.safetensors", "x-y-of-z.safetensors"];
        assert_eq!(missing_of_sets(present.into_iter()), Vec::<String>::new());
    }

    #[test]
    fn keeps_sets_of_different_totals_apart() {
        let present = ["m-1-of-2.safetensors", "m-2-of-3.safetensors"];
        assert_eq!(
            missing_of_sets(present.into_iter()),
            ["m-2-of-2.safetensors", "m-1-of-3.safetensors", "m-3-of-3.safetensors"]
        );
    }

    #[test]
    fn is_not_led_into_endless_lists_by_an_absurd_total() {
        assert_eq!(missing_of_sets(["m-0000000001-of-4000000000.safetensors"].into_iter()).len(), 1_000);
    }
}
