//! Words and numbers for people: stderr lines, byte counts, durations, lists.

use std::io::Write as _;
use std::time::Duration;

/// Prints a line to stderr. A closed stderr is no reason to lose a measurement. Names in it come from folders and files:
/// nothing of theirs but a line break reaches the terminal as it is.
pub fn complain(line: &str) {
    let lines: Vec<String> = line.split('\n').map(one_line).collect();
    let _ = writeln!(std::io::stderr().lock(), "{}", lines.join("\n"));
}

/// Prints to stdout; fails when stdout does (a full disk behind a redirection, a closed pipe).
///
/// # Errors
/// Whatever writing gave.
pub fn say(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

/// A name or a message with one from a folder or a file, on one line: a line break in a name would forge a line of the
/// output, and other control characters reach a terminal.
pub fn one_line(text: impl std::fmt::Display) -> String {
    text.to_string().chars().fold(String::new(), |mut line, c| {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
        line
    })
}

/// An error and what caused it, in one line. Where an error has told its cause already, that is not told again.
pub fn told(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        match told.as_str() {
            "" => cause,
            _ if told.contains(&cause) => told,
            _ => format!("{told}: {cause}"),
        }
    })
}

/// A byte count in powers of ten, as `271.4 MB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let amount = count as f64;
    UNITS
        .iter()
        .find(|(size, _)| amount >= *size)
        .map_or_else(|| format!("{count} B"), |(size, unit)| format!("{:.1} {unit}", amount / size))
}

/// A number of things, as `1 row` or `3 rows`.
pub fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A duration as `0.8 s`, `42 s`, `3 min 05 s` or `1 h 12 min`.
pub fn duration(time: Duration) -> String {
    if time < Duration::from_secs(10) && time.subsec_nanos() != 0 {
        let seconds = time.as_secs_f64();
        return if seconds < 0.001 {
            format!("{seconds} s")
        } else {
            format!("{} s", (seconds * 1e3).round() / 1e3)
        };
    }
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

/// The end of a text, at most `limit` characters, on one line.
pub fn tail(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let excess = line.chars().count().saturating_sub(limit);
    if excess == 0 { line } else { format!("…{}", line.chars().skip(excess).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(one_line("a\u{1b}[31m\nb größe"), "a\\u{1b}[31m\\nb größe");
    }

    #[test]
    fn a_cause_is_told_once() {
        use anyhow::Context as _;
        let cause = || std::io::Error::other("the disk is full");
        let outer = Err::<(), _>(cause()).context("cannot write `a`");
        assert_eq!(outer.map_err(|error| told(&error)), Err("cannot write `a`: the disk is full".to_owned()));
        let error = mlxcel_reports::history::HistoryError::Read { path: "a".into(), source: cause() };
        let outer = Err::<(), _>(error).context("first side");
        assert_eq!(
            outer.map_err(|error| told(&error)),
            Err("first side: cannot read `a`: the disk is full".to_owned())
        );
    }

    #[test]
    fn byte_counts_take_the_largest_unit_that_fits() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(271_400_000), "271.4 MB");
        assert_eq!(bytes(24_000_000_000), "24.0 GB");
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!([0, 1, 2].map(|number| counted(number, "row")), ["0 rows", "1 row", "2 rows"]);
    }

    #[test]
    fn durations_drop_what_does_not_matter() {
        assert_eq!(duration(Duration::from_secs(42)), "42 s");
        assert_eq!(duration(Duration::from_millis(42_700)), "42 s");
        // A limit below a second is not one of nothing.
        assert_eq!(duration(Duration::from_millis(800)), "0.8 s");
        assert_eq!(duration(Duration::from_millis(1_500)), "1.5 s");
        assert_eq!(duration(Duration::from_micros(50)), "0.00005 s");
        assert_eq!(duration(Duration::ZERO), "0 s");
        assert_eq!(duration(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(duration(Duration::from_secs(4_330)), "1 h 12 min");
    }

    #[test]
    fn a_tail_keeps_the_end_on_one_line() {
        assert_eq!(tail("a\n b\tc", 10), "a b c");
        assert_eq!(tail("abcdef", 3), "…def");
    }
}
