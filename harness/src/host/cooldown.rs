//! Cooling down: waits until a short control kernel is as fast as it was at first.
//!
//! A fixed rest is too short for one host and wasted on another. The kernel is [`gemm::Kernel`] on the processor, or whatever
//! the caller measures with; its rate at the very first is what it is held against.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::gemm;

/// How long, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct CooldownSettings {
    /// How much slower than at first the kernel may be, as a share.
    pub tolerance: f64,
    /// The longest waiting.
    pub at_most: Duration,
    /// Rest between two trials of the kernel, which itself makes warm.
    pub rest: Duration,
}

impl Default for CooldownSettings {
    fn default() -> Self {
        Self { tolerance: 0.01, at_most: Duration::from_mins(5), rest: Duration::from_secs(3) }
    }
}

/// What was waited, and for what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cooldown {
    /// The kernel's rate at first, in its own unit.
    pub first_rate: f64,
    /// Its rate at last; `None` when it gave none.
    pub last_rate: Option<f64>,
    /// Whether it came back.
    pub recovered: bool,
    /// How long was really waited, the trials included.
    pub waited_seconds: f64,
    /// Trials of the kernel.
    pub trials: u32,
    /// The longest waiting that was allowed.
    pub limit_seconds: f64,
}

/// The waiting was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted while cooling down")]
pub struct Interrupted;

/// What waiting needs of its surroundings.
pub struct Surroundings<'a> {
    /// One trial: the rate, or `None` when there is none.
    pub kernel: &'a mut dyn FnMut() -> Option<f64>,
    /// Waits.
    pub sleep: &'a mut dyn FnMut(Duration),
    /// The time.
    pub now: &'a dyn Fn() -> Instant,
    /// Whether the program was told to stop.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// Waits until the kernel is back.
///
/// # Errors
/// [`Interrupted`], when the program was told to stop meanwhile.
pub fn wait(
    first_rate: f64,
    settings: &CooldownSettings,
    around: &mut Surroundings<'_>,
) -> Result<Cooldown, Interrupted> {
    const PIECE: Duration = Duration::from_millis(200);
    let begun = (around.now)();
    let mut cooldown = Cooldown {
        first_rate,
        last_rate: None,
        recovered: false,
        waited_seconds: 0.0,
        trials: 0,
        limit_seconds: settings.at_most.as_secs_f64(),
    };
    loop {
        if (around.interrupted)() {
            return Err(Interrupted);
        }
        let tried = (around.now)();
        let rate = (around.kernel)();
        let trial = (around.now)().saturating_duration_since(tried);
        cooldown.trials = cooldown.trials.saturating_add(1);
        cooldown.last_rate = rate.or(cooldown.last_rate);
        cooldown.recovered = rate.is_some_and(|rate| rate >= first_rate * (1.0 - settings.tolerance));
        let waited = (around.now)().saturating_duration_since(begun);
        cooldown.waited_seconds = waited.as_secs_f64();
        // A trial more that would end after the limit is none: the limit is one of the whole wait.
        let mut left = settings.at_most.saturating_sub(waited).saturating_sub(trial).min(settings.rest);
        if cooldown.recovered || left.is_zero() {
            return Ok(cooldown);
        }
        while !left.is_zero() {
            if (around.interrupted)() {
                return Err(Interrupted);
            }
            let piece = left.min(PIECE);
            (around.sleep)(piece);
            left -= piece;
        }
    }
}

/// The control kernel of this host's processor, with its first rate.
#[derive(Debug)]
pub struct ProcessorKernel {
    kernel: gemm::Kernel,
    first_rate: f64,
}

impl ProcessorKernel {
    /// Makes it and measures its first rate; to be done while the host is cool. `None` when it gives no rate.
    pub fn new() -> Option<Self> {
        let mut kernel = gemm::Kernel::new()?;
        let first_rate = kernel.control_rate()?;
        Some(Self { kernel, first_rate })
    }

    /// Its first rate, in operations a second.
    pub fn first_rate(&self) -> f64 {
        self.first_rate
    }

    /// Waits until it is back.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn wait(
        &mut self,
        settings: &CooldownSettings,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Cooldown, Interrupted> {
        let kernel = &mut self.kernel;
        let mut sleep = std::thread::sleep;
        let mut trial = || kernel.control_rate();
        let mut around =
            Surroundings { kernel: &mut trial, sleep: &mut sleep, now: &Instant::now, interrupted };
        wait(self.first_rate, settings, &mut around)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Waits for a kernel that gives these rates one after another and the last for ever, on a clock that only sleeping moves.
    fn waited(
        rates: &[Option<f64>],
        settings: &CooldownSettings,
        stop_after: u32,
    ) -> Result<Cooldown, Interrupted> {
        let begun = Instant::now();
        let (passed, trial, asked) = (Cell::new(Duration::ZERO), Cell::new(0), Cell::new(0));
        wait(
            100.0,
            settings,
            &mut Surroundings {
                kernel: &mut || {
                    let rate = rates.get(trial.get()).or(rates.last()).copied().flatten();
                    trial.set(trial.get() + 1);
                    rate
                },
                sleep: &mut |time| passed.set(passed.get() + time),
                now: &|| begun + passed.get(),
                interrupted: &|| {
                    asked.set(asked.get() + 1);
                    asked.get() > stop_after
                },
            },
        )
    }

    #[test]
    fn it_ends_when_the_kernel_is_back_and_says_what_was_waited() {
        let rates = [Some(80.0), Some(95.0), Some(98.9), Some(99.0), Some(100.0)];
        let cooldown = waited(&rates, &CooldownSettings::default(), u32::MAX);
        let expected = Cooldown {
            first_rate: 100.0,
            last_rate: Some(99.0),
            recovered: true,
            waited_seconds: 9.0,
            trials: 4,
            limit_seconds: 300.0,
        };
        assert_eq!(cooldown, Ok(expected));
    }

    #[test]
    fn it_ends_at_the_limit_and_says_that_the_kernel_is_not_back() {
        let settings = CooldownSettings { at_most: Duration::from_secs(10), ..CooldownSettings::default() };
        for rates in [[Some(90.0)], [None]] {
            let cooldown = waited(&rates, &settings, u32::MAX).ok();
            let seen =
                cooldown.map(|cooldown| (cooldown.recovered, cooldown.waited_seconds, cooldown.last_rate));
            assert_eq!(seen, Some((false, 10.0, rates[0])));
        }
    }

    #[test]
    fn trials_that_take_time_do_not_go_beyond_the_limit() {
        let begun = Instant::now();
        let passed = Cell::new(Duration::ZERO);
        let take = |time: Duration| passed.set(passed.get() + time);
        let settings =
            CooldownSettings { at_most: Duration::from_millis(1500), ..CooldownSettings::default() };
        let cooldown = wait(
            100.0,
            &settings,
            &mut Surroundings {
                kernel: &mut || {
                    take(Duration::from_millis(500));
                    Some(90.0)
                },
                sleep: &mut |time| take(time),
                now: &|| begun + passed.get(),
                interrupted: &|| false,
            },
        );
        let seen = cooldown.map(|cooldown| (cooldown.recovered, cooldown.waited_seconds, cooldown.trials));
        assert_eq!(seen, Ok((false, 1.5, 2)));
    }

    #[test]
    fn a_cool_host_waits_for_nothing() {
        let cooldown = waited(&[Some(100.5)], &CooldownSettings::default(), u32::MAX).ok();
        assert_eq!(cooldown.map(|cooldown| (cooldown.waited_seconds, cooldown.trials)), Some((0.0, 1)));
    }

    #[test]
    fn an_interruption_ends_it() {
        assert_eq!(waited(&[Some(1.0)], &CooldownSettings::default(), 20), Err(Interrupted));
    }

    #[test]
    fn the_processor_kernel_comes_back_to_its_own_rate() {
        let lenient = CooldownSettings { tolerance: 0.9, ..CooldownSettings::default() };
        let cooldown = ProcessorKernel::new().map(|mut kernel| kernel.wait(&lenient, &|| false));
        assert!(matches!(cooldown, Some(Ok(Cooldown { recovered: true, .. }))), "{cooldown:?}");
    }
}
