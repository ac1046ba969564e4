//! The prompt that measurements use: exactly so many tokens, the same on every machine.

use super::TokenizerError;

/// The longest synthetic prompt.
pub(super) const MAX_PROMPT_TOKENS: usize = 1 << 24;

/// What the paragraph must come to; it keeps the text within reason when a damaged tokenizer makes next to nothing of it.
const MIN_PARAGRAPH_TOKENS: usize = 32;

/// Plain, neutral prose with the usual mixture of word lengths, punctuation and numbers. It ends with a blank line, so
/// that a repetition begins like a new paragraph. Changing a letter of it changes every measured prompt.
const PARAGRAPH: &str = "\
The harbour town wakes before sunrise, when the first boats come back with their nets and the cranes along the quay \
begin to turn. By seven o'clock the market hall is open: bread, apples, tools and second-hand books lie on 48 long \
tables, and anyone who arrives late will find the best of it gone. Behind the hall a narrow street climbs to the old \
observatory, which now holds a school for surveyors and a small museum of clocks. Its keeper likes to explain that \
no two of them agree, that each is off by a little every day, and that this is why people learned to compare before \
they learned to measure. In the evening the wind drops, the lamps along the water are lit one after another, and the \
last ferry crosses the bay with a handful of passengers, two bicycles and the post for the islands.

";

/// Encodes the repeated paragraph with `encode` and cuts it to `tokens` ids.
pub(super) fn prompt(
    tokens: usize,
    encode: impl Fn(&str) -> Result<Vec<u32>, TokenizerError>,
) -> Result<Vec<u32>, TokenizerError> {
    match tokens {
        0 => return Err(TokenizerError::EmptyPrompt),
        1..=MAX_PROMPT_TOKENS => {}
        _ => return Err(TokenizerError::PromptTooLong { tokens }),
    }
    // Measured over four paragraphs, since special tokens may count for most of the ids of one.
    let four = encode(&PARAGRAPH.repeat(4))?.len();
    let three = encode(&PARAGRAPH.repeat(3))?.len();
    let per_paragraph = four.saturating_sub(three);
    if per_paragraph < MIN_PARAGRAPH_TOKENS {
        return Err(TokenizerError::NoPromptTokens);
    }
    // The spare paragraphs keep the cut away from the end, where ids may differ from those within a longer text.
    let repetitions = tokens / per_paragraph + 4;
    let mut ids = encode(&PARAGRAPH.repeat(repetitions))?;
    if ids.len() < tokens {
        return Err(TokenizerError::NoPromptTokens);
    }
    ids.truncate(tokens);
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::{MAX_PROMPT_TOKENS, PARAGRAPH, prompt};
    use crate::tokenizer::TokenizerError;

    #[test]
    fn the_paragraph_ends_with_a_blank_line_and_is_plain() {
        assert!(PARAGRAPH.ends_with(".\n\n"));
        assert!(PARAGRAPH.trim_end().bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
    }

    #[test]
    fn refuses_lengths_that_make_no_sense() {
        let encode = |_: &str| Ok(vec![1]);
        assert!(matches!(prompt(0, encode), Err(TokenizerError::EmptyPrompt)));
        assert!(matches!(prompt(MAX_PROMPT_TOKENS + 1, encode), Err(TokenizerError::PromptTooLong { .. })));
    }

    #[test]
    fn refuses_a_tokenizer_that_makes_nothing_of_text() {
        assert!(matches!(prompt(5, |_| Ok(vec![1])), Err(TokenizerError::NoPromptTokens)));
        assert!(matches!(prompt(5, |_| Ok(vec![])), Err(TokenizerError::NoPromptTokens)));
    }
}
