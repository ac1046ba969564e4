//! Repeats something until there is time and number enough, and hands back every time.

use std::time::{Duration, Instant};

/// How long, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// It is repeated until this time has passed.
    pub time: Duration,
    /// It is repeated at least so often, however long that takes.
    pub least: usize,
    /// And at most so often.
    pub most: usize,
}

/// Repeats `pass` within a budget; the time of each repetition.
///
/// # Errors
/// The first that `pass` gives.
pub fn block<E>(budget: Budget, pass: &mut dyn FnMut() -> Result<(), E>) -> Result<Vec<Duration>, E> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while times.len() < budget.least || (times.len() < budget.most && begun.elapsed() < budget.time) {
        times.push(once(pass)?);
    }
    Ok(times)
}

/// The time of one repetition.
///
/// # Errors
/// What `pass` gives.
pub fn once<E>(pass: &mut dyn FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let begun = Instant::now();
    pass()?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(time: Duration, least: usize, most: usize, each: Duration) -> usize {
        let times = block(Budget { time, least, most }, &mut || {
            std::thread::sleep(each);
            Ok::<(), ()>(())
        });
        let times = times.unwrap_or_default();
        assert!(times.iter().all(|time| *time >= each), "{times:?}");
        times.len()
    }

    #[test]
    fn it_ends_with_the_time_the_number_or_the_error_but_not_before_the_least_number() {
        let (none, long) = (Duration::ZERO, Duration::from_mins(1));
        assert_eq!(repeated(none, 3, 9, Duration::from_millis(2)), 3);
        assert_eq!(repeated(long, 1, 4, Duration::from_millis(1)), 4);
        assert!((1..=5).contains(&repeated(Duration::from_millis(20), 1, 100, Duration::from_millis(5))));
        let mut calls = 0;
        let failed = block(Budget { time: long, least: 1, most: 100 }, &mut || {
            calls += 1;
            if calls == 3 { Err("third") } else { Ok(()) }
        });
        assert_eq!((failed, calls), (Err("third"), 3));
    }
}
