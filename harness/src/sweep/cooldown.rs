//! Waiting for the host to cool before a row.
//!
//! A fixed wait, a longer one after a big checkpoint, or until a short control kernel is about as fast again as before the
//! first row. The warm-up of each worker, which no timer sees, is the work that brings clocks back after a wait. What was
//! really waited is handed back, for the row, and what there is to say of it.

use std::time::{Duration, Instant};

use crate::cli::{ConditionArgs, Cooldown};
use crate::host::cooldown::{CooldownSettings, Surroundings, wait};
use crate::text::{complain, duration};

/// What is said where nothing can be waited for.
const NO_KERNEL: &str = "--cooldown auto waits for nothing here: its control kernel cannot be run";
/// How often a waiting sweep looks whether it was interrupted.
const POLL: Duration = Duration::from_millis(100);

/// A wait.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Waited {
    pub(super) time: Duration,
    /// Why the row does not begin as was asked for, if it does not.
    pub(super) remark: Option<String>,
}

/// Waits between rows.
pub(super) struct Waits<'a> {
    arguments: &'a ConditionArgs,
    /// The rate of the control kernel, in any unit; `None` where it cannot be run.
    kernel: &'a dyn Fn() -> Option<f64>,
    interrupted: &'a dyn Fn() -> bool,
    first_rate: Option<f64>,
    /// Weights of the checkpoint that was measured last.
    last_weight_bytes: Option<u64>,
}

impl<'a> Waits<'a> {
    /// Before the first row; runs the control kernel where it will be needed.
    pub(super) fn new(
        arguments: &'a ConditionArgs,
        kernel: &'a dyn Fn() -> Option<f64>,
        interrupted: &'a dyn Fn() -> bool,
    ) -> Self {
        let automatic = arguments.cooldown == Cooldown::Auto && !arguments.no_cooldown;
        let first_rate = if automatic { kernel() } else { None };
        if automatic && first_rate.is_none() {
            complain(&format!("note: {NO_KERNEL}; --cooldown SECONDS waits so long"));
        }
        Self { arguments, kernel, interrupted, first_rate, last_weight_bytes: None }
    }

    /// Waits as long as is due before the next row; hands back how long that really was.
    pub(super) fn before_row(&self) -> Waited {
        let Some(weight_bytes) = self.last_weight_bytes else { return Waited::default() };
        if self.arguments.no_cooldown {
            return Waited::default();
        }
        let begun = Instant::now();
        let remark = match self.arguments.cooldown {
            Cooldown::Fixed(time) => {
                self.sleep(time);
                None
            }
            Cooldown::Auto => self.until_recovered(),
        };
        if weight_bytes as f64 > self.arguments.big_threshold_gb * f64::from(1 << 30) {
            self.sleep(self.arguments.big_cooldown);
        }
        let waited = begun.elapsed();
        // Where nothing was due, the clock still shows some nanoseconds.
        let time = if waited < Duration::from_millis(1) { Duration::ZERO } else { waited };
        Waited { time, remark }
    }

    /// A checkpoint of such weights was measured.
    pub(super) fn measured(&mut self, weight_bytes: u64) {
        self.last_weight_bytes = Some(weight_bytes);
    }

    /// Says so where the host is not as fast again.
    fn until_recovered(&self) -> Option<String> {
        let Some(first) = self.first_rate else { return Some(NO_KERNEL.to_owned()) };
        let settings =
            CooldownSettings { at_most: self.arguments.cooldown_limit, ..CooldownSettings::default() };
        let mut kernel = || (self.kernel)();
        let mut sleep = std::thread::sleep;
        let mut around = Surroundings {
            kernel: &mut kernel,
            sleep: &mut sleep,
            now: &Instant::now,
            interrupted: self.interrupted,
        };
        // An interruption is noticed by whoever asked for the wait.
        let waited = wait(first, &settings, &mut around).ok().filter(|waited| !waited.recovered)?;
        let rate = waited.last_rate.map_or_else(
            || "and gave no rate".to_owned(),
            |rate| format!("at {:.1} % of its first rate", 100.0 * rate / first),
        );
        let limit = duration(self.arguments.cooldown_limit);
        let remark = format!(
            "--cooldown auto: not cooled down within {limit} (--cooldown-limit): the control kernel was {rate}"
        );
        complain(&format!("note: {remark}"));
        Some(remark)
    }

    fn sleep(&self, time: Duration) {
        let begun = Instant::now();
        while !(self.interrupted)() {
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(POLL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn arguments() -> ConditionArgs {
        ConditionArgs {
            cooldown: Cooldown::Fixed(Duration::from_millis(30)),
            big_cooldown: Duration::from_millis(40),
            big_threshold_gb: 10.0,
            cooldown_limit: Duration::from_millis(50),
            no_cooldown: false,
            max_spread: 4.0,
        }
    }

    #[test]
    fn nothing_is_waited_before_the_first_row_and_more_after_a_big_one() {
        let arguments = arguments();
        let mut waits = Waits::new(&arguments, &|| None, &|| false);
        assert_eq!(waits.before_row(), Waited::default());
        waits.measured(1 << 30);
        let small = waits.before_row().time;
        assert!((Duration::from_millis(30)..Duration::from_millis(69)).contains(&small), "{small:?}");
        waits.measured(11 << 30);
        assert!(waits.before_row().time >= Duration::from_millis(70));
        let none = ConditionArgs { no_cooldown: true, ..arguments.clone() };
        let mut waits = Waits::new(&none, &|| None, &|| false);
        waits.measured(11 << 30);
        assert_eq!(waits.before_row(), Waited::default());
    }

    #[test]
    fn an_automatic_wait_ends_with_the_first_rate_or_at_its_limit() {
        let automatic = ConditionArgs { cooldown: Cooldown::Auto, ..arguments() };
        let rate = Cell::new(100.0);
        let kernel = || Some(rate.get());
        let mut waits = Waits::new(&automatic, &kernel, &|| false);
        waits.measured(1);
        rate.set(99.5);
        let waited = waits.before_row();
        assert!(waited.time < Duration::from_millis(50) && waited.remark.is_none(), "{waited:?}");
        rate.set(90.0);
        // The last trial ends at the limit and not after it.
        let waited = waits.before_row();
        assert!(waited.time >= Duration::from_millis(45), "{waited:?}");
        let remark = waited.remark.unwrap_or_default();
        assert!(remark.contains("not cooled down within 0.05 s") && remark.contains("90.0 %"), "{remark}");
    }

    #[test]
    fn an_automatic_wait_without_its_kernel_says_that_nothing_is_waited_for() {
        let automatic = ConditionArgs { cooldown: Cooldown::Auto, ..arguments() };
        let mut waits = Waits::new(&automatic, &|| None, &|| false);
        waits.measured(1);
        let waited = waits.before_row();
        assert_eq!(waited, Waited { time: Duration::ZERO, remark: Some(NO_KERNEL.to_owned()) });
    }

    #[test]
    fn an_interruption_ends_a_wait() {
        let long = ConditionArgs { cooldown: Cooldown::Fixed(Duration::from_mins(10)), ..arguments() };
        let mut waits = Waits::new(&long, &|| None, &|| true);
        waits.measured(1);
        assert!(waits.before_row().time < Duration::from_mins(1));
    }
}
