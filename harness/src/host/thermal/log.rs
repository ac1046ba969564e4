//! Readings one after another, and what they amount to: start, worst, end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{GpuConditions, Sensor, ThermalReading};

/// Readings that are kept.
const MOST: usize = 65_536;

/// The host's condition over a while.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thermal {
    /// At its begin.
    pub start: ThermalReading,
    /// The worst of each: highest temperatures and power, lowest clocks, all reasons of throttling.
    pub worst: ThermalReading,
    /// At its end.
    pub end: ThermalReading,
    /// Why anything was slower than it could have been, at any time; empty when no sign of it was seen.
    pub throttle: Vec<String>,
}

/// Readings in order of time.
#[derive(Clone, Debug, Default)]
pub struct ThermalLog(Vec<(Instant, ThermalReading)>);

impl ThermalLog {
    /// Adds a reading.
    pub fn push(&mut self, at: Instant, reading: ThermalReading) {
        if self.0.len() >= MOST {
            self.0.drain(..MOST / 2);
        }
        self.0.push((at, reading));
    }

    /// Whether the last reading is older than this.
    pub fn is_due(&self, now: Instant, every: Duration) -> bool {
        self.0.last().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= every)
    }

    /// From the last reading before an interval to its last one; `None` without readings.
    pub fn between(&self, from: Instant, to: Instant) -> Option<Thermal> {
        let first = self.0.iter().rposition(|(at, _)| *at <= from).unwrap_or(0);
        let last = self.0.iter().rposition(|(at, _)| *at <= to).unwrap_or(0);
        let readings: Vec<&ThermalReading> =
            self.0.get(first..=last.max(first))?.iter().map(|(_, reading)| reading).collect();
        Thermal::of(&readings)
    }
}

impl Thermal {
    fn of(readings: &[&ThermalReading]) -> Option<Self> {
        let (start, end) = (*readings.first()?, *readings.last()?);
        let lowest = |of: fn(&ThermalReading) -> Option<f64>| {
            readings.iter().filter_map(|reading| of(reading)).reduce(f64::min)
        };
        let mut throttle: Vec<String> = readings.iter().flat_map(|reading| reading.throttle()).collect();
        let events = start.cpu_throttle_events.zip(end.cpu_throttle_events);
        if let Some(count) =
            events.and_then(|(before, after)| after.checked_sub(before)).filter(|count| *count > 0)
        {
            throttle.push(format!("processor throttled {count} times"));
        }
        throttle.sort();
        throttle.dedup();
        let worst = ThermalReading {
            sensors: highest(readings),
            cpu_mhz: lowest(|reading| reading.cpu_mhz),
            cpu_max_mhz: lowest(|reading| reading.cpu_max_mhz),
            cpu_throttle_events: end.cpu_throttle_events,
            cpu_speed_limit_pct: readings.iter().filter_map(|reading| reading.cpu_speed_limit_pct).min(),
            pressure: readings.iter().filter_map(|reading| reading.pressure).max(),
            gpus: worst_gpus(readings),
            power_source: readings
                .iter()
                .filter_map(|reading| reading.power_source)
                .find(|source| *source == super::PowerSource::Battery)
                .or(end.power_source),
            power_mode: end.power_mode.clone(),
        };
        Some(Self { start: start.clone(), worst, end: end.clone(), throttle })
    }
}

fn highest(readings: &[&ThermalReading]) -> Vec<Sensor> {
    let mut highest: BTreeMap<&str, f64> = BTreeMap::new();
    for sensor in readings.iter().flat_map(|reading| &reading.sensors) {
        let celsius = highest.entry(&sensor.name).or_insert(sensor.celsius);
        *celsius = celsius.max(sensor.celsius);
    }
    highest.into_iter().map(|(name, celsius)| Sensor { name: name.to_owned(), celsius }).collect()
}

fn worst_gpus(readings: &[&ThermalReading]) -> Vec<GpuConditions> {
    let higher = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
    let lower = |one: Option<u32>, other: Option<u32>| one.into_iter().chain(other).min();
    let mut worst: BTreeMap<u32, GpuConditions> = BTreeMap::new();
    for gpu in readings.iter().flat_map(|reading| &reading.gpus) {
        let all = worst.entry(gpu.index).or_insert_with(|| gpu.clone());
        all.celsius = higher(all.celsius, gpu.celsius);
        all.power_watts = higher(all.power_watts, gpu.power_watts);
        all.sm_mhz = lower(all.sm_mhz, gpu.sm_mhz);
        all.memory_mhz = lower(all.memory_mhz, gpu.memory_mhz);
        all.throttle.extend(gpu.throttle.iter().cloned());
        all.throttle.sort();
        all.throttle.dedup();
    }
    worst.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(celsius: f64, mhz: f64, events: u64, throttle: &[&str]) -> ThermalReading {
        ThermalReading {
            sensors: vec![Sensor { name: "package".to_owned(), celsius }],
            cpu_mhz: Some(mhz),
            cpu_throttle_events: Some(events),
            gpus: vec![GpuConditions {
                index: 0,
                celsius: Some(celsius + 10.0),
                throttle: throttle.iter().map(|reason| (*reason).to_owned()).collect(),
                ..GpuConditions::default()
            }],
            ..ThermalReading::default()
        }
    }

    fn log(begun: Instant) -> ThermalLog {
        let mut log = ThermalLog::default();
        let readings = [
            reading(40.0, 4000.0, 3, &[]),
            reading(90.0, 2500.0, 5, &["power cap"]),
            reading(60.0, 3500.0, 5, &[]),
            reading(50.0, 3900.0, 5, &[]),
        ];
        for (number, reading) in (0_u64..).zip(readings) {
            log.push(begun + Duration::from_secs(10 * number), reading);
        }
        log
    }

    #[test]
    fn the_worst_is_kept_though_neither_start_nor_end_show_it() {
        let begun = Instant::now();
        let thermal = log(begun).between(begun, begun + Duration::from_secs(35));
        let hottest = |reading: &ThermalReading| reading.hottest_celsius();
        assert_eq!(
            thermal.as_ref().map(|thermal| [&thermal.start, &thermal.worst, &thermal.end].map(hottest)),
            Some([Some(50.0), Some(100.0), Some(60.0)])
        );
        assert_eq!(thermal.as_ref().and_then(|thermal| thermal.worst.cpu_mhz), Some(2500.0));
        let reasons = thermal.map(|thermal| thermal.throttle);
        assert_eq!(
            reasons,
            Some(vec!["GPU 0: power cap".to_owned(), "processor throttled 2 times".to_owned()])
        );
    }

    #[test]
    fn an_interval_has_its_own_worst() {
        let begun = Instant::now();
        let thermal = log(begun).between(begun + Duration::from_secs(22), begun + Duration::from_secs(40));
        assert_eq!(thermal.as_ref().and_then(|thermal| thermal.worst.hottest_celsius()), Some(70.0));
        assert_eq!(thermal.map(|thermal| thermal.throttle), Some(Vec::new()));
    }

    #[test]
    fn without_readings_nothing_is_known() {
        let now = Instant::now();
        assert_eq!(ThermalLog::default().between(now, now), None);
        assert!(ThermalLog::default().is_due(now, Duration::from_hours(1)));
    }
}
