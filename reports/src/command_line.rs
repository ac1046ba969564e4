//! A command line as one line of text, as a shell takes it, and back.
//!
//! A report names the command that made it, and whoever verifies the report takes that apart again; a path may hold
//! spaces, quotes and line breaks.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

/// What makes a text no command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A quote has no partner.
    #[error("a quote is never closed")]
    OpenQuote,
    /// A backslash is the last character.
    #[error("it ends in a backslash")]
    OpenEscape,
    /// An escape within `$'...'` that no character has.
    #[error("`\\{0}` is no escape that is written here")]
    BadEscape(char),
}

/// The arguments with spaces between them, each quoted where it has to be. Never holds a control character.
pub fn joined(arguments: &[String]) -> String {
    arguments.iter().map(|argument| quoted(argument)).collect::<Vec<_>>().join(" ")
}

/// One argument, quoted where it has to be: `'...'`, or `$'...'` where control characters are in it.
pub fn quoted(argument: &str) -> String {
    if argument.chars().any(is_unprintable) {
        let mut text = "$'".to_owned();
        for c in argument.chars() {
            // OK to ignore, here and below: writing to a String does not fail.
            let _ = match c {
                '\\' | '\'' => write!(text, "\\{c}"),
                '\n' => write!(text, "\\n"),
                '\r' => write!(text, "\\r"),
                '\t' => write!(text, "\\t"),
                c if is_unprintable(c) && u32::from(c) < 0x80 => write!(text, "\\x{:02x}", u32::from(c)),
                c if is_unprintable(c) => write!(text, "\\u{:04x}", u32::from(c)),
                c => write!(text, "{c}"),
            };
        }
        text.push('\'');
        text
    } else if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// The arguments of a command line: of [`joined`], or typed by hand with single, double or `$'...'` quotes.
pub fn parted(text: &str) -> Result<Vec<String>, Unreadable> {
    let mut arguments = Vec::new();
    let mut argument: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            arguments.extend(argument.take());
            continue;
        }
        let argument = argument.get_or_insert_default();
        match c {
            '\'' => until_quote(&mut chars, argument)?,
            '"' => double_quoted(&mut chars, argument)?,
            '$' if chars.next_if_eq(&'\'').is_some() => with_escapes(&mut chars, argument)?,
            '\\' => argument.push(chars.next().ok_or(Unreadable::OpenEscape)?),
            c => argument.push(c),
        }
    }
    arguments.extend(argument);
    Ok(arguments)
}

fn until_quote(chars: &mut Peekable<Chars<'_>>, argument: &mut String) -> Result<(), Unreadable> {
    loop {
        match chars.next().ok_or(Unreadable::OpenQuote)? {
            '\'' => return Ok(()),
            c => argument.push(c),
        }
    }
}

fn double_quoted(chars: &mut Peekable<Chars<'_>>, argument: &mut String) -> Result<(), Unreadable> {
    loop {
        match chars.next().ok_or(Unreadable::OpenQuote)? {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(Unreadable::OpenQuote)? {
                c @ ('"' | '\\' | '$' | '`') => argument.push(c),
                c => argument.extend(['\\', c]),
            },
            c => argument.push(c),
        }
    }
}

fn with_escapes(chars: &mut Peekable<Chars<'_>>, argument: &mut String) -> Result<(), Unreadable> {
    loop {
        let c = match chars.next().ok_or(Unreadable::OpenQuote)? {
            '\'' => return Ok(()),
            '\\' => match chars.next().ok_or(Unreadable::OpenQuote)? {
                c @ ('\\' | '\'') => c,
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'x' => code(chars, 2).ok_or(Unreadable::BadEscape('x'))?,
                'u' => code(chars, 4).ok_or(Unreadable::BadEscape('u'))?,
                c => return Err(Unreadable::BadEscape(c)),
            },
            c => c,
        };
        argument.push(c);
    }
}

/// The character of exactly so many hexadecimal digits.
fn code(chars: &mut Peekable<Chars<'_>>, digits: u32) -> Option<char> {
    let digit = |sum: u32, chars: &mut Peekable<Chars<'_>>| Some(sum * 16 + chars.next()?.to_digit(16)?);
    (0..digits).try_fold(0, |sum, _| digit(sum, chars)).and_then(char::from_u32)
}

/// What no shell gives another meaning.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "-_./:=,@%+".contains(c)
}

/// Control characters, and what ends a line or turns the direction of writing without being one.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_a_shell_would_change_is_quoted() {
        for (argument, text) in [
            ("--vary", "--vary"),
            ("setting=kv_mode", "setting=kv_mode"),
            ("a/b-1.csv", "a/b-1.csv"),
            ("größe.csv", "größe.csv"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("*.csv", "'*.csv'"),
            ("~/a", "'~/a'"),
            ("a\nb", r"$'a\nb'"),
            ("\u{1b}[0m'\\", r"$'\x1b[0m\'\\'"),
            ("\u{202e}", r"$'\u202e'"),
        ] {
            assert_eq!(quoted(argument), text);
            assert_eq!(parted(text), Ok(vec![argument.to_owned()]), "{text}");
        }
    }

    #[test]
    fn what_people_type_is_read_as_their_shell_reads_it() {
        let parted = |text| parted(text).expect("OK because the quotes are closed");
        assert_eq!(parted(r#"a  "b c" d\ e '"'"'""#), ["a", "b c", "d e", "\"'"]);
        assert_eq!(parted(r#""a\"b\\c\d" --x='y z'"#), [r#"a"b\c\d"#, "--x=y z"]);
        assert_eq!(parted("  "), [""; 0]);
        assert_eq!(parted("a '' b"), ["a", "", "b"]);
    }

    #[test]
    fn halves_of_quotes_and_unknown_escapes_are_errors() {
        for (text, error) in [
            ("a 'b", Unreadable::OpenQuote),
            ("a \"b", Unreadable::OpenQuote),
            ("a $'b", Unreadable::OpenQuote),
            ("a \\", Unreadable::OpenEscape),
            (r"$'\q'", Unreadable::BadEscape('q')),
            (r"$'\x1'", Unreadable::BadEscape('x')),
            (r"$'\ud800'", Unreadable::BadEscape('u')),
        ] {
            assert_eq!(parted(text), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_command_line_reads_back(arguments in proptest::collection::vec(any::<String>(), 0..6)) {
            let text = joined(&arguments);
            prop_assert!(!text.chars().any(is_unprintable), "{text:?}");
            prop_assert_eq!(parted(&text), Ok(arguments));
        }

        #[test]
        fn no_text_makes_parting_panic(text in any::<String>()) {
            let _ = parted(&text);
        }
    }
}
