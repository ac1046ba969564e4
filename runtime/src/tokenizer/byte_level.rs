//! The alphabet of byte-level tokenizers: a printable character for each of the 256 bytes.
//!
//! Printable bytes of Latin-1 stand for themselves; the others, in order, for the characters from U+0100 on (the table
//! that GPT-2 introduced).

const PRINTABLE: [std::ops::RangeInclusive<u8>; 3] = [0x21..=0x7e, 0xa1..=0xac, 0xae..=0xff];

fn is_printable(byte: u8) -> bool {
    PRINTABLE.iter().any(|range| range.contains(&byte))
}

/// Bytes by the code of their character.
#[derive(Debug, Clone)]
pub(super) struct ByteTable {
    byte_of: Vec<Option<u8>>,
}

impl ByteTable {
    /// The table.
    pub(super) fn new() -> Self {
        let mut byte_of = vec![None; 256];
        for byte in 0..=u8::MAX {
            if is_printable(byte) {
                byte_of[usize::from(byte)] = Some(byte);
            } else {
                byte_of.push(Some(byte));
            }
        }
        Self { byte_of }
    }

    fn byte(&self, character: char) -> Option<u8> {
        let code = usize::try_from(u32::from(character)).ok()?;
        self.byte_of.get(code).copied().flatten()
    }

    /// Bytes of a token. One with a character outside the alphabet, as added tokens may have, stands for its own text.
    pub(super) fn bytes(&self, token: &str) -> Vec<u8> {
        token
            .chars()
            .map(|character| self.byte(character))
            .collect::<Option<_>>()
            .unwrap_or_else(|| token.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::ByteTable;

    #[test]
    fn every_byte_has_one_character() {
        let table = ByteTable::new();
        let mut bytes: Vec<_> = table.byte_of.iter().copied().flatten().collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=u8::MAX).collect::<Vec<_>>());
    }

    #[test]
    fn known_characters_stand_for_known_bytes() {
        let table = ByteTable::new();
        assert_eq!(table.bytes("ĠaĊÃ©"), b" a\n\xc3\xa9");
        assert_eq!(table.bytes("\u{100}\u{120}\u{121}\u{142}\u{143}"), [0x00, 0x20, 0x7f, 0xa0, 0xad]);
    }

    #[test]
    fn a_token_outside_the_alphabet_stands_for_itself() {
        assert_eq!(ByteTable::new().bytes("<fim suffix>"), b"<fim suffix>");
    }
}
