//! What names a revision of a source tree: a commit, or for MLX a release tag too. Anything else names nothing.

/// Fewest and most hexadecimal digits of a commit.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=40;

/// What follows a commit whose tree was changed.
const DIRTY: &str = "-dirty";

/// A commit in one spelling: 7 to 40 hexadecimal digits in lower case, `-dirty` after them where sources differed from it.
pub(crate) fn commit(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    is_hash(text.strip_suffix(DIRTY).unwrap_or(&text)).then_some(text)
}

/// A commit or release tag of MLX, such as `9a795735` or `v0.32.1`.
pub(crate) fn mlx(text: &str) -> Option<String> {
    let text = text.trim();
    commit(text).or_else(|| is_tag(text).then(|| text.to_owned()))
}

/// One revision. Hashes may be abbreviated to different lengths, tags may not; changed sources are those of no commit, so
/// such a one is only the same as itself.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one == other || (is_hash(one) && is_hash(other) && (one.starts_with(other) || other.starts_with(one)))
}

fn is_hash(text: &str) -> bool {
    DIGITS.contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// A version of at least two numbers, with or without `v` before and more behind it.
fn is_tag(text: &str) -> bool {
    let version = text.strip_prefix('v').unwrap_or(text);
    let mut parts = version.split('.');
    let number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    let starts = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
    parts.next().is_some_and(number) && parts.next().is_some_and(starts) && version.bytes().all(sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_a_hash_and_nothing_else_is() {
        for (text, expected) in [
            ("aede9a6f", Some("aede9a6f")),
            (" AEDE9A6F ", Some("aede9a6f")),
            ("aede9a6-Dirty", Some("aede9a6-dirty")),
            ("aede9a6f9a865cdce41a6955ed1697c91c072556", Some("aede9a6f9a865cdce41a6955ed1697c91c072556")),
            ("aede9a6f9a865cdce41a6955ed1697c91c0725560", None),
            ("aede9a6fx", None),
            ("aede9a", None),
            ("n/a", None),
            ("HEAD", None),
            ("-dirty", None),
            ("aede9a6f-modified", None),
            ("v0.32.1", None),
            ("", None),
        ] {
            assert_eq!(commit(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn mlx_may_be_named_by_a_release_tag() {
        for text in ["v0.32.1", "0.32.1", "v0.32.2-rc1", "9a795735"] {
            assert_eq!(mlx(text).as_deref(), Some(text));
        }
        for text in ["", "n/a", "none", "v", "v1", "main", "v0.", "9a7", "v0.32.1 or so"] {
            assert_eq!(mlx(text), None, "{text:?}");
        }
    }

    #[test]
    fn hashes_of_different_lengths_agree_only_when_clean_and_tags_never() {
        assert!(same("9be5913", "9be591346"));
        assert!(!same("9be591", "9be591346"));
        assert!(!same("9be59134", "9be59134-dirty"));
        assert!(same("v0.32.2", "v0.32.2"));
        assert!(!same("v0.32.2", "v0.32.20"));
    }
}
