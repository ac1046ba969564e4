//! What happened in an interval, by the windows that touch it.

use std::time::Instant;

use serde::Serialize;

use super::memory::{MemoryChange, PressureLevel};
use super::window::{Foreigner, Limits, Window};

/// What happened in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// Its length.
    pub seconds: f64,
    /// How much of it readings cover.
    pub covered_seconds: f64,
    /// Share of the covered time in which somebody else was busy, from 0 to 1; `None` when nothing is covered.
    pub contended_fraction: Option<f64>,
    /// Whoever was most in the way in any part of the interval.
    pub busiest: Option<Foreigner>,
    /// Highest share of the time in which programs waited for memory, in percent.
    pub memory_stalled_pct: Option<f64>,
    /// Highest level of pressure on memory, on macOS.
    pub memory_level: Option<PressureLevel>,
    /// Growth of the swap in use over all windows that touch the interval.
    pub swap_growth_bytes: Option<i64>,
    /// Pages written to swap in those windows.
    pub pages_swapped_out: Option<u64>,
}

impl Interval {
    /// What happened from one moment to another, by the windows that touch it.
    pub fn of<'a>(
        windows: impl IntoIterator<Item = &'a Window>,
        from: Instant,
        to: Instant,
        limits: &Limits,
    ) -> Self {
        let mut interval =
            Self { seconds: to.saturating_duration_since(from).as_secs_f64(), ..Self::default() };
        let mut contended = 0.0;
        for window in windows {
            let overlap = window.to.min(to).saturating_duration_since(window.from.max(from)).as_secs_f64();
            if overlap <= 0.0 {
                continue;
            }
            interval.take_memory(&window.memory);
            if !window.readable {
                continue;
            }
            interval.covered_seconds += overlap;
            contended += if window.busy { overlap } else { 0.0 };
            let weight = |foreigner: &Option<Foreigner>| {
                foreigner.as_ref().map_or((false, 0.0), |foreigner| foreigner.weight(limits))
            };
            if weight(&window.foreigner) > weight(&interval.busiest) {
                interval.busiest.clone_from(&window.foreigner);
            }
        }
        interval.contended_fraction =
            (interval.covered_seconds > 0.0).then(|| contended / interval.covered_seconds);
        interval
    }

    fn take_memory(&mut self, change: &MemoryChange) {
        self.memory_stalled_pct =
            self.memory_stalled_pct.into_iter().chain(change.stalled_pct).reduce(f64::max);
        self.memory_level = self.memory_level.max(change.level);
        if let Some(growth) = change.swap_growth_bytes {
            self.swap_growth_bytes = Some(self.swap_growth_bytes.unwrap_or(0).saturating_add(growth));
        }
        if let Some(pages) = change.pages_swapped_out {
            self.pages_swapped_out = Some(self.pages_swapped_out.unwrap_or(0).saturating_add(pages));
        }
    }

    /// Whether others were busy for more than this share of it. An interval that nothing covers counts as contended: that
    /// nobody was there is not known of it.
    pub fn is_contended(&self, share: f64) -> bool {
        self.contended_fraction.is_none_or(|fraction| fraction > share)
    }

    /// In words: `others were busy for 34% of 12.3 s, most of all cargo (process 123), 96% of a core`.
    pub fn describe(&self) -> String {
        let Some(fraction) = self.contended_fraction else {
            return "what else ran on the host could not be read".to_owned();
        };
        let whom = self.busiest.as_ref().map(|who| format!(", most of all {}", who.describe()));
        format!(
            "others were busy for {:.0}% of {:.1} s{}",
            fraction * 100.0,
            self.covered_seconds,
            whom.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::memory::MemoryReading;
    use crate::host::own::Own;
    use crate::host::processes::Table;
    use crate::host::processes::tests::{millis, table};
    use crate::host::reading::Reading;

    const WORKER: u32 = 50;

    /// Windows of a second each, busy or not, one after another.
    fn windows(begun: Instant, busy: &[bool]) -> Vec<Window> {
        (0_u64..)
            .zip(busy)
            .map(|(number, busy)| {
                let used = if *busy { 400 + number } else { 20 };
                let before = table(&[(60, 1, "make", 0)]);
                let after = table(&[(60, 1, "make", used)]);
                let at = begun + millis(number * 1000);
                Window::between(
                    &Reading::of_processes(at, before),
                    &Reading::of_processes(at + millis(1000), after),
                    &Own::of([WORKER]),
                    &Limits::default(),
                )
            })
            .collect()
    }

    #[test]
    fn an_interval_is_judged_by_the_windows_that_touch_it_each_by_its_share() {
        let begun = Instant::now();
        let windows = windows(begun, &[true, false, false, true, true]);
        let of =
            |from, to| Interval::of(&windows, begun + millis(from), begun + millis(to), &Limits::default());
        let interval = of(500, 3500);
        assert!((interval.contended_fraction.unwrap_or(0.0) - 1.0 / 3.0).abs() < 1e-9, "{interval:?}");
        assert_eq!(
            interval.busiest.as_ref().map(Foreigner::describe).as_deref(),
            Some("make (process 60), 40% of a core")
        );
        assert!(interval.is_contended(0.2) && !interval.is_contended(0.4));
        assert_eq!(of(1000, 3000).contended_fraction, Some(0.0));
        assert!(interval.describe().contains("33% of 3.0 s, most of all make (process 60), 40% of a core"));
    }

    #[test]
    fn an_interval_that_nothing_covers_is_not_known_to_be_quiet() {
        let begun = Instant::now();
        let windows = windows(begun, &[false]);
        let interval = Interval::of(&windows, begun + millis(2000), begun + millis(3000), &Limits::default());
        assert_eq!(interval.contended_fraction, None);
        assert!(interval.is_contended(0.2));
    }

    #[test]
    fn processes_that_cannot_be_read_are_unknown_and_not_quiet() {
        let begun = Instant::now();
        let reading = |at| Reading { processes: None, ..Reading::of_processes(at, Table::new()) };
        let to = begun + millis(1000);
        let window = Window::between(&reading(begun), &reading(to), &Own::of([WORKER]), &Limits::default());
        assert!(!window.readable && !window.busy);
        assert!(Interval::of([&window], begun, to, &Limits::default()).is_contended(0.2));
    }

    #[test]
    fn memory_of_all_windows_is_taken_together() {
        let begun = Instant::now();
        let reading = |at: u64, stalled: u64, swap: u64| Reading {
            memory: MemoryReading {
                stalled: Some(millis(stalled)),
                swap_used_bytes: Some(swap),
                ..MemoryReading::default()
            },
            ..Reading::of_processes(begun + millis(at), Table::new())
        };
        let readings = [reading(0, 0, 100), reading(1000, 100, 150), reading(2000, 400, 120)];
        let windows: Vec<Window> = readings
            .windows(2)
            .filter_map(|pair| {
                let [one, other] = pair else { return None };
                Some(Window::between(one, other, &Own::of([WORKER]), &Limits::default()))
            })
            .collect();
        let interval = Interval::of(&windows, begun, begun + millis(2000), &Limits::default());
        assert_eq!(interval.swap_growth_bytes, Some(20));
        assert!(interval.memory_stalled_pct.is_some_and(|pct| (pct - 30.0).abs() < 1e-9), "{interval:?}");
    }
}
