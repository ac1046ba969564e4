//! macOS: `ps`, which sees the processes of all users without more rights than ours.

use std::time::Duration;

use super::{Process, Table};

/// The program.
pub const PROGRAM: &str = "/bin/ps";
/// Its arguments, for which [`parse`] is made: the start is five words long, the name is the rest of the line.
pub const ARGUMENTS: [&str; 3] = ["-A", "-o", "pid=,ppid=,state=,time=,lstart=,comm="];

/// The processes in its output. Lines that are none are passed over.
pub fn parse(text: &str) -> Table {
    text.lines().filter_map(line).map(|process| (process.pid, process)).collect()
}

fn line(text: &str) -> Option<Process> {
    let mut rest = text;
    let mut word = || {
        let trimmed = rest.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        let (word, after) = trimmed.split_at(end);
        rest = after;
        Some(word).filter(|word| !word.is_empty())
    };
    let (pid, parent) = (word()?.parse().ok()?, word()?.parse().ok()?);
    let state = word()?.chars().next()?;
    let cpu = time(word()?)?;
    let started = [word()?, word()?, word()?, word()?, word()?].join(" ");
    let program = rest.trim();
    let name = program.rsplit('/').next().filter(|name| !name.is_empty())?.to_owned();
    Some(Process { pid, parent, name, state, started, cpu, children_cpu: Duration::ZERO })
}

/// `[days-][hours:]minutes:seconds[.hundredths]`.
fn time(text: &str) -> Option<Duration> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let seconds =
        clock.split(':').try_fold(0_u64, |sum, part| sum.checked_mul(60)?.checked_add(part.parse().ok()?))?;
    let seconds = days.parse::<u64>().ok()?.checked_mul(86_400)?.checked_add(seconds)?;
    let fraction = format!("0.{fraction}").parse::<f64>().ok()?;
    Duration::from_secs(seconds).checked_add(Duration::try_from_secs_f64(fraction).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "    1     0 Ss     0:22.51 Mon Nov 23 08:01:12 2026     /sbin/launchd\n\
                        \x20 431     1 S      4:01.07 Mon Nov 23 08:01:40 2026     /System/Library/PrivateFrameworks/MediaAnalysis.framework/mediaanalysisd\n\
                        99012   431 T      1:02:03.50 Sun Nov 29 20:15:05 2026     /Applications/One Drive.app/Contents/MacOS/One Drive\n\
                        garbage\n";

    #[test]
    fn processes_have_their_names_without_folders() {
        let table = parse(TEXT);
        let seen: Vec<_> = table.values().map(|process| (process.pid, process.name.as_str())).collect();
        assert_eq!(seen, [(1, "launchd"), (431, "mediaanalysisd"), (99012, "One Drive")]);
    }

    #[test]
    fn times_starts_parents_and_states_are_read() {
        let table = parse(TEXT);
        let drive = table
            .get(&99012)
            .map(|process| (process.parent, process.cpu, process.started.as_str(), process.is_stopped()));
        let expected = (431, Duration::from_millis(3_723_500), "Sun Nov 29 20:15:05 2026", true);
        assert_eq!(drive, Some(expected));
    }

    #[test]
    fn times_of_every_length_are_read() {
        for (text, millis) in
            [("0:00.07", 70), ("12:03.00", 723_000), ("100:00.5", 6_000_500), ("2-01:00:00", 176_400_000)]
        {
            assert_eq!(time(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "-", "a:b", "0:", "1:2.x"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,200}") {
            let _ = parse(&text);
            let _ = time(&text);
        }
    }
}
