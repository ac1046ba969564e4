//! The quiet gate: measuring begins once nobody else has been busy for a while.
//!
//! Each window without a busy foreigner adds its length to a streak, each with one takes it away; the gate opens when the
//! streak is long enough. So one blip does not start the waiting anew, and steady work never lets it end. When the limit on
//! waiting is reached the gate opens all the same, as [`QuietState::TimedOut`], which belongs into every row.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::own::Own;
use super::reading::{Reader, Reading};
use super::window::{Foreigner, Limits, Window};

/// How quiet is quiet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateSettings {
    /// Whether there is a gate at all.
    pub enabled: bool,
    /// From when on somebody else counts as busy.
    pub limits: Limits,
    /// How long nobody else may have been busy.
    #[serde(rename = "hold_seconds", serialize_with = "seconds")]
    pub hold: Duration,
    /// How long is waited for it at most; `None` for ever.
    #[serde(rename = "limit_seconds", serialize_with = "maybe_seconds")]
    pub limit: Option<Duration>,
    /// Time between readings.
    #[serde(rename = "every_seconds", serialize_with = "seconds")]
    pub every: Duration,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            limits: Limits::default(),
            hold: Duration::from_secs(90),
            limit: Some(Duration::from_mins(30)),
            every: Duration::from_secs(5),
        }
    }
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn maybe_seconds<S: serde::Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_some(&time.as_secs_f64()),
        None => serializer.serialize_none(),
    }
}

/// How the gate was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum QuietState {
    /// Nobody else was busy for long enough.
    Quiet,
    /// Somebody was, to the end of the waiting.
    TimedOut,
    /// There was no gate.
    Disabled,
}

impl QuietState {
    /// The word for rows.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Quiet => "Quiet",
            Self::TimedOut => "TimedOut",
            Self::Disabled => "Disabled",
        }
    }
}

/// How the gate was passed, and what was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuietOutcome {
    /// How.
    pub state: QuietState,
    /// How long was waited.
    pub waited_seconds: f64,
    /// Windows that were looked at.
    pub windows: u32,
    /// Windows in which somebody else was busy, or in which nothing could be read.
    pub busy_windows: u32,
    /// The last that was busy, if any.
    pub last_busy: Option<Foreigner>,
    /// How quiet was asked for.
    pub settings: GateSettings,
}

/// The waiting was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted while waiting for a quiet host")]
pub struct Interrupted;

/// What a waiting gate looks at besides the host.
pub struct Surroundings<'a> {
    /// Waits between readings. At most as long as told; it may be shorter.
    pub sleep: &'a mut dyn FnMut(Duration),
    /// Whether the program was told to stop.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Is told who is busy: each time that it is somebody else, and once a minute.
    pub tell: &'a mut dyn FnMut(&str),
}

/// Waits for a quiet host.
///
/// # Errors
/// [`Interrupted`], when the program was told to stop meanwhile.
pub fn wait_for_quiet(
    reader: &mut dyn Reader,
    own: &Own,
    settings: &GateSettings,
    around: &mut Surroundings<'_>,
) -> Result<QuietOutcome, Interrupted> {
    let mut outcome = QuietOutcome {
        state: QuietState::Disabled,
        waited_seconds: 0.0,
        windows: 0,
        busy_windows: 0,
        last_busy: None,
        settings: settings.clone(),
    };
    if !settings.enabled {
        return Ok(outcome);
    }
    let mut before = reader.read();
    let begun = before.at;
    let mut streak = Duration::ZERO;
    let mut told = None;
    loop {
        rest(settings.every, around)?;
        let after = reader.read();
        outcome.waited_seconds = after.at.saturating_duration_since(begun).as_secs_f64();
        let busy_windows = outcome.busy_windows;
        streak = next_streak(streak, [&before, &after], own, &mut outcome, &mut |who, words| {
            let again = told.as_ref().is_none_or(|(whom, when)| {
                whom != who || after.at.saturating_duration_since(*when) >= Duration::from_mins(1)
            });
            if again {
                (around.tell)(words);
                told = Some((who.to_owned(), after.at));
            }
        });
        // Without a hold one window is enough, but it must have been a quiet one.
        if outcome.busy_windows == busy_windows && streak >= settings.hold {
            outcome.state = QuietState::Quiet;
            return Ok(outcome);
        }
        if settings.limit.is_some_and(|limit| after.at.saturating_duration_since(begun) >= limit) {
            outcome.state = QuietState::TimedOut;
            return Ok(outcome);
        }
        before = after;
    }
}

/// [`wait_for_quiet`] on this host's clock.
///
/// # Errors
/// [`Interrupted`].
pub fn wait_on_this_host(
    own: &Own,
    settings: &GateSettings,
    interrupted: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> Result<QuietOutcome, Interrupted> {
    let mut sleep = std::thread::sleep;
    let mut around = Surroundings { sleep: &mut sleep, interrupted, tell };
    wait_for_quiet(&mut super::reading::HostReader::open(), own, settings, &mut around)
}

/// Sleeps in pieces, so that an interruption is heard soon.
fn rest(time: Duration, around: &mut Surroundings<'_>) -> Result<(), Interrupted> {
    const PIECE: Duration = Duration::from_millis(200);
    let mut left = time;
    loop {
        if (around.interrupted)() {
            return Err(Interrupted);
        }
        if left.is_zero() {
            return Ok(());
        }
        let piece = left.min(PIECE);
        (around.sleep)(piece);
        left -= piece;
    }
}

fn next_streak(
    streak: Duration,
    [before, after]: [&Reading; 2],
    own: &Own,
    outcome: &mut QuietOutcome,
    tell: &mut dyn FnMut(&str, &str),
) -> Duration {
    let limits = &outcome.settings.limits;
    let window = Window::between(before, after, own, limits);
    let length = after.at.saturating_duration_since(before.at);
    outcome.windows = outcome.windows.saturating_add(1);
    if window.readable && !window.busy {
        return streak.saturating_add(length);
    }
    outcome.busy_windows = outcome.busy_windows.saturating_add(1);
    let left = streak.saturating_sub(length);
    let quiet_for = format!("quiet for {} of {} s", left.as_secs(), outcome.settings.hold.as_secs());
    let (who, what) = match &window.foreigner {
        Some(busy) if window.busy => {
            outcome.last_busy = Some(busy.clone());
            (busy.name.as_str(), busy.describe())
        }
        _ => ("", "the processes of this host cannot be read".to_owned()),
    };
    tell(who, &format!("waiting for a quiet host ({quiet_for}): {what}"));
    left
}

/// Reads at the moments of another clock; for tests and replays.
#[derive(Debug)]
pub struct Replay(pub std::collections::VecDeque<Reading>, pub Instant);

impl Reader for Replay {
    fn read(&mut self) -> Reading {
        // After the last reading nothing more is known.
        let past =
            Reading { processes: None, ..Reading::of_processes(self.1, super::processes::Table::new()) };
        let reading = self.0.pop_front().unwrap_or(past);
        self.1 = reading.at + Duration::from_secs(5);
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::processes::Table;
    use crate::host::processes::tests::process;

    /// Readings five seconds apart, between which a process uses these shares of a core.
    fn script(shares: &[u64]) -> Replay {
        let begun = Instant::now();
        let mut total = 0;
        let mut readings = std::collections::VecDeque::new();
        for number in 0..=shares.len() {
            let table: Table = [(60, process(60, 1, "make", total))].into_iter().collect();
            let at = begun + Duration::from_secs(5) * u32::try_from(number).unwrap_or(u32::MAX);
            readings.push_back(Reading::of_processes(at, table));
            total += shares.get(number).copied().unwrap_or(0) * 50;
        }
        Replay(readings, begun)
    }

    fn wait(shares: &[u64], settings: &GateSettings) -> (Result<QuietOutcome, Interrupted>, Vec<String>) {
        let mut told = Vec::new();
        let outcome = wait_for_quiet(
            &mut script(shares),
            &Own::of([7]),
            settings,
            &mut Surroundings {
                sleep: &mut |_| {},
                interrupted: &|| false,
                tell: &mut |words| told.push(words.to_owned()),
            },
        );
        (outcome, told)
    }

    fn state(shares: &[u64], settings: &GateSettings) -> Option<(QuietState, f64)> {
        wait(shares, settings).0.ok().map(|outcome| (outcome.state, outcome.waited_seconds))
    }

    #[test]
    fn a_quiet_host_is_waited_for_as_long_as_the_hold_and_no_longer() {
        assert_eq!(state(&[2; 40], &GateSettings::default()), Some((QuietState::Quiet, 90.0)));
    }

    #[test]
    fn a_blip_costs_its_own_length_twice_and_steady_work_all_the_waiting() {
        let mut shares = vec![2; 40];
        shares[10] = 80;
        let (outcome, told) = wait(&shares, &GateSettings::default());
        let outcome = outcome.ok();
        assert_eq!(
            outcome.as_ref().map(|outcome| (outcome.state, outcome.waited_seconds)),
            Some((QuietState::Quiet, 100.0))
        );
        assert_eq!(outcome.and_then(|outcome| outcome.last_busy?.pid), Some(60));
        assert!(told.len() == 1 && told[0].contains("make (process 60), 80% of a core"), "{told:?}");
        let (outcome, told) = wait(&[20; 400], &GateSettings::default());
        let outcome = outcome.map(|outcome| (outcome.state, outcome.waited_seconds));
        assert_eq!(outcome, Ok((QuietState::TimedOut, 1800.0)));
        // Once a minute, not at every look.
        assert_eq!(told.len(), 30);
    }

    #[test]
    fn every_parameter_counts() {
        let short = GateSettings { hold: Duration::from_secs(20), ..GateSettings::default() };
        assert_eq!(state(&[2; 40], &short), Some((QuietState::Quiet, 20.0)));
        let impatient = GateSettings { limit: Some(Duration::from_secs(30)), ..GateSettings::default() };
        assert_eq!(state(&[2; 40], &impatient), Some((QuietState::TimedOut, 30.0)));
        let limits = Limits { cpu_pct: 50.0, ..Limits::default() };
        let tolerant = GateSettings { limits, ..GateSettings::default() };
        assert_eq!(state(&[40; 40], &tolerant), Some((QuietState::Quiet, 90.0)));
        let none = GateSettings { enabled: false, ..GateSettings::default() };
        assert_eq!(state(&[99; 40], &none), Some((QuietState::Disabled, 0.0)));
        let patient = GateSettings { limit: None, ..GateSettings::default() };
        let mut shares = vec![90; 500];
        shares.extend([0; 20]);
        assert_eq!(state(&shares, &patient), Some((QuietState::Quiet, 2590.0)));
    }

    #[test]
    fn without_a_hold_a_busy_host_is_still_not_quiet() {
        let at_once = GateSettings {
            hold: Duration::ZERO,
            limit: Some(Duration::from_secs(30)),
            ..GateSettings::default()
        };
        assert_eq!(state(&[90; 40], &at_once), Some((QuietState::TimedOut, 30.0)));
        assert_eq!(state(&[90, 90, 2], &at_once), Some((QuietState::Quiet, 15.0)));
        assert_eq!(state(&[2; 40], &at_once), Some((QuietState::Quiet, 5.0)));
    }

    #[test]
    fn a_host_that_cannot_be_read_is_never_quiet() {
        let (outcome, told) = wait(&[], &GateSettings::default());
        let outcome = outcome.ok();
        assert_eq!(outcome.map(|outcome| outcome.state), Some(QuietState::TimedOut));
        assert!(told.iter().all(|words| words.contains("cannot be read")), "{told:?}");
    }

    #[test]
    fn an_interruption_ends_the_waiting() {
        let asked = std::cell::Cell::new(0);
        let outcome = wait_for_quiet(
            &mut script(&[90; 40]),
            &Own::of([7]),
            &GateSettings::default(),
            &mut Surroundings {
                sleep: &mut |_| {},
                interrupted: &|| {
                    asked.set(asked.get() + 1);
                    asked.get() > 60
                },
                tell: &mut |_| {},
            },
        );
        assert_eq!(outcome, Err(Interrupted));
    }

    #[test]
    fn on_this_very_host_the_gate_opens_when_nobody_is_busy_and_names_who_is() -> std::io::Result<()> {
        let every = Duration::from_millis(600);
        let most = f64::MAX;
        let blind = Limits {
            cpu_pct: most,
            gpu_pct: most,
            own_program_cpu_pct: most,
            steal_pct: most,
            ignored: Vec::new(),
        };
        let calm = GateSettings { hold: every, every, limits: blind, ..GateSettings::default() };
        let wait = |settings: &GateSettings| {
            let outcome = wait_on_this_host(&Own::of([]), settings, &|| false, &mut |_| {});
            outcome.map(|outcome| (outcome.state, outcome.last_busy.is_some()))
        };
        assert_eq!(wait(&calm), Ok((QuietState::Quiet, false)));
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?;
        let strict = GateSettings { limit: Some(every), every, ..GateSettings::default() };
        let outcome = wait(&strict);
        busy.kill().and_then(|()| busy.wait())?;
        assert_eq!(outcome, Ok((QuietState::TimedOut, true)));
        Ok(())
    }

    #[test]
    fn the_outcome_is_kept_in_words_and_seconds() {
        let json = wait(&[2; 40], &GateSettings::default())
            .0
            .ok()
            .and_then(|outcome| serde_json::to_value(outcome).ok());
        let at = |pointer: &str| json.as_ref().and_then(|json| json.pointer(pointer)).cloned();
        assert_eq!(at("/state"), Some("Quiet".into()));
        assert_eq!(at("/settings/hold_seconds"), Some(90.0.into()));
        assert_eq!(at("/settings/limits/cpu_pct"), Some(15.0.into()));
    }
}
