//! The watch: a thread that reads the host again and again while something is measured, and answers for any interval.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;

use super::interval::Interval;
use super::own::Own;
use super::reading::{HostReader, Reader, Reading};
use super::thermal::{Thermal, ThermalLog, ThermalReader};
use super::window::{Foreigner, Limits, Window};

/// Times are counted in hundredths of a second on most systems, so shorter windows say little.
const SHORTEST_WINDOW: Duration = Duration::from_millis(500);
/// Windows that are kept: a day and more at the usual interval.
const MOST_WINDOWS: usize = 65_536;

/// How a watch looks.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// Time between readings.
    pub every: Duration,
    /// Time between readings of temperature and clocks.
    pub thermal_every: Duration,
    /// From when on somebody else counts as busy.
    pub limits: Limits,
    /// Which processes are our own.
    pub own: Own,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            // On macOS a look takes two other programs.
            every: Duration::from_secs(if cfg!(target_os = "macos") { 5 } else { 2 }),
            thermal_every: Duration::from_secs(10),
            limits: Limits::default(),
            own: Own::this_process(),
        }
    }
}

/// A running watch. Dropping it ends the thread.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    settings: WatchSettings,
    started_at: Timestamp,
    started: Instant,
    state: Mutex<State>,
}

struct State {
    reader: Box<dyn Reader>,
    last: Reading,
    windows: Vec<Window>,
    thermal: ThermalLog,
    thermal_reader: Option<ThermalReader>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("windows", &self.windows.len()).finish_non_exhaustive()
    }
}

/// What a watch saw, for the provenance.
#[derive(Clone, Debug, Serialize)]
pub struct WatchRecord {
    /// When it began.
    pub started_at: Timestamp,
    /// Time between readings.
    pub every_seconds: f64,
    /// From when on somebody else counted as busy.
    pub limits: Limits,
    /// Windows in all.
    pub windows: usize,
    /// The whole time.
    pub whole: Interval,
    /// The windows in which somebody else was busy, in order; at most a thousand.
    pub busy: Vec<BusyWindow>,
}

/// A window in which somebody else was busy.
#[derive(Clone, Debug, Serialize)]
pub struct BusyWindow {
    /// Its begin, counted from the begin of the watch.
    pub from_seconds: f64,
    /// Its end.
    pub to_seconds: f64,
    /// The busiest.
    pub foreigner: Foreigner,
}

impl Watch {
    /// Watches this host. The first reading is taken before this returns.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn start(settings: WatchSettings) -> std::io::Result<Self> {
        Self::with(settings, Box::new(HostReader::open()), Some(ThermalReader::open()))
    }

    /// Watches what a reader shows.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn with(
        settings: WatchSettings,
        mut reader: Box<dyn Reader>,
        thermal_reader: Option<ThermalReader>,
    ) -> std::io::Result<Self> {
        let every = settings.every;
        let last = reader.read();
        let mut state =
            State { reader, last, windows: Vec::new(), thermal: ThermalLog::default(), thermal_reader };
        state.read_thermal();
        let shared = Arc::new(Shared {
            settings,
            started_at: Timestamp::now(),
            started: state.last.at,
            state: Mutex::new(state),
        });
        let (stop, stopped) = mpsc::channel();
        let sampler = Arc::clone(&shared);
        let thread = thread::Builder::new().name("host-watch".to_owned()).spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                sampler.look();
            }
        })?;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Which processes are our own; to be added to as workers come that are no descendants of this process.
    pub fn own(&self) -> &Own {
        &self.shared.settings.own
    }

    /// What happened in an interval that has passed. Takes a reading where the last one is older than its end, which may take
    /// half a second.
    pub fn between(&self, from: Instant, to: Instant) -> Interval {
        self.shared.catch_up(to);
        Interval::of(&self.shared.lock().windows, from, to, &self.shared.settings.limits)
    }

    /// Temperature, clocks and power in an interval: start, worst, end, of the readings in it and the ones around it. `None`
    /// before the first reading.
    pub fn thermal_between(&self, from: Instant, to: Instant) -> Option<Thermal> {
        self.shared.lock().thermal.between(from, to)
    }

    /// Reads temperature, clocks and power now, besides the readings that are taken anyway.
    pub fn read_thermal(&self) {
        self.shared.lock().read_thermal();
    }

    /// What was seen so far.
    pub fn record(&self) -> WatchRecord {
        const MOST: usize = 1000;
        let shared = &self.shared;
        let state = shared.lock();
        let since = |at: Instant| at.saturating_duration_since(shared.started).as_secs_f64();
        WatchRecord {
            started_at: shared.started_at,
            every_seconds: shared.settings.every.as_secs_f64(),
            limits: shared.settings.limits.clone(),
            windows: state.windows.len(),
            whole: Interval::of(&state.windows, shared.started, state.last.at, &shared.settings.limits),
            busy: state
                .windows
                .iter()
                .filter(|window| window.busy)
                .filter_map(|window| {
                    Some(BusyWindow {
                        from_seconds: since(window.from),
                        to_seconds: since(window.to),
                        foreigner: window.foreigner.clone()?,
                    })
                })
                .take(MOST)
                .collect(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Windows are pushed whole, so a thread that panicked has left none half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) {
        let mut state = self.lock();
        state.read(&self.settings);
        if state.thermal.is_due(Instant::now(), self.settings.thermal_every) {
            state.read_thermal();
        }
    }

    fn catch_up(&self, to: Instant) {
        let last = self.lock().last.at;
        if last < to {
            let now = Instant::now();
            thread::sleep((last + SHORTEST_WINDOW).saturating_duration_since(now).min(SHORTEST_WINDOW));
            self.lock().read(&self.settings);
        }
    }
}

impl State {
    fn read(&mut self, settings: &WatchSettings) {
        let reading = self.reader.read();
        if reading.at <= self.last.at {
            return;
        }
        if self.windows.len() >= MOST_WINDOWS {
            self.windows.drain(..MOST_WINDOWS / 2);
        }
        self.windows.push(Window::between(&self.last, &reading, &settings.own, &settings.limits));
        self.last = reading;
    }

    fn read_thermal(&mut self) {
        if let Some(reader) = &mut self.thermal_reader {
            self.thermal.push(Instant::now(), reader.read());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::processes::Table;
    use crate::host::processes::tests::process;

    /// Plays a process that uses so many milliseconds a reading, the readings a second apart.
    struct Script {
        begun: Instant,
        used: Vec<u64>,
        number: u64,
        total: u64,
    }

    impl Reader for Script {
        fn read(&mut self) -> Reading {
            let table: Table = [(60, process(60, 1, "make", self.total))].into_iter().collect();
            let reading = Reading::of_processes(self.begun + Duration::from_secs(self.number), table);
            if let Ok(number) = usize::try_from(self.number) {
                self.total += self.used.get(number).copied().unwrap_or(0);
            }
            self.number += 1;
            reading
        }
    }

    fn settings(every: Duration) -> WatchSettings {
        WatchSettings { every, own: Own::of([7]), ..WatchSettings::default() }
    }

    #[test]
    fn an_interval_is_answered_by_what_the_reader_showed() -> std::io::Result<()> {
        let begun = Instant::now();
        // The script's clock runs far ahead of this one, so that nothing has to be waited for.
        let script = Script { begun, used: vec![900, 10, 10, 10], number: 0, total: 0 };
        let watch = Watch::with(settings(Duration::from_millis(5)), Box::new(script), None)?;
        let end = begun + Duration::from_secs(4);
        while watch.shared.lock().last.at < end {
            thread::sleep(Duration::from_millis(2));
        }
        let interval = watch.between(begun, end);
        assert_eq!(interval.contended_fraction, Some(0.25), "{interval:?}");
        assert_eq!(interval.busiest.map(|who| who.name), Some("make".to_owned()));
        let record = watch.record();
        assert_eq!(record.busy.len(), 1);
        assert!(record.windows >= 4 && record.busy.iter().all(|window| window.from_seconds < 0.1));
        assert!(serde_json::to_value(&record).is_ok_and(|json| json["busy"][0]["foreigner"]["pid"] == 60));
        Ok(())
    }

    #[test]
    fn an_interval_that_has_just_passed_is_read_up_to_its_end() -> std::io::Result<()> {
        let begun = Instant::now();
        let watch = Watch::start(settings(Duration::from_hours(1)))?;
        thread::sleep(Duration::from_millis(50));
        let interval = watch.between(begun, Instant::now());
        assert!(interval.contended_fraction.is_some() && interval.covered_seconds > 0.03, "{interval:?}");
        Ok(())
    }

    #[test]
    fn a_busy_process_that_is_not_ours_is_found_on_this_host_by_its_number() -> std::io::Result<()> {
        let mut busy = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?;
        // Everything but the busy loop counts as ours.
        let own = WatchSettings { own: Own::of([]), ..settings(Duration::from_millis(600)) };
        let watch = Watch::start(own)?;
        let begun = Instant::now();
        thread::sleep(Duration::from_millis(1500));
        let interval = watch.between(begun, Instant::now());
        let ended = busy.kill().and_then(|()| busy.wait());
        // Other processes may be busier still, such as other tests; then their names are known.
        let busiest = interval.busiest.as_ref();
        assert!(busiest.is_some_and(|who| who.pct > 15.0), "{interval:?}");
        assert!(interval.contended_fraction.is_some_and(|share| share > 0.0), "{interval:?}");
        ended.map(|_| ())
    }

    #[test]
    fn dropping_a_watch_ends_its_thread_at_once() -> std::io::Result<()> {
        let watch = Watch::start(settings(Duration::from_hours(1)))?;
        let begun = Instant::now();
        drop(watch);
        assert!(begun.elapsed() < Duration::from_secs(30));
        Ok(())
    }
}
