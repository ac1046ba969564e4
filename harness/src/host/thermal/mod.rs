//! How warm, fast and throttled the host is, and where its power comes from: `hwmon`, `cpufreq` and `power_supply` on Linux,
//! `notifyutil` and `pmset` on macOS, the management library on NVIDIA. Nothing needs more rights than ours.

pub mod linux;
mod log;
pub mod macos;

use serde::Serialize;

pub use log::{Thermal, ThermalLog};

use super::gpu::GpuReader;

/// The host's condition at one moment. What cannot be read is `None` or an empty list.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ThermalReading {
    /// Temperatures.
    pub sensors: Vec<Sensor>,
    /// Clock of the cores that this process may use, on average.
    pub cpu_mhz: Option<f64>,
    /// Highest clock that they could have.
    pub cpu_max_mhz: Option<f64>,
    /// How often a core was throttled for heat since the system was started.
    pub cpu_throttle_events: Option<u64>,
    /// How far the system lets the processor go, in percent, on Macs that tell it.
    pub cpu_speed_limit_pct: Option<u32>,
    /// How macOS judges the heat.
    pub pressure: Option<ThermalPressure>,
    /// The GPUs.
    pub gpus: Vec<GpuConditions>,
    /// Where power comes from.
    pub power_source: Option<PowerSource>,
    /// How the system spends it: the governor of the clocks and the platform's profile, or the mode of macOS.
    pub power_mode: Option<String>,
}

/// A temperature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensor {
    /// The chip and the place.
    pub name: String,
    /// How warm it is.
    pub celsius: f64,
}

/// How macOS judges the heat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThermalPressure {
    /// None.
    Nominal,
    /// Some work may be put off.
    Moderate,
    /// Clocks are lowered.
    Heavy,
    /// Clocks are far lower.
    Trapping,
    /// The system is about to sleep.
    Sleeping,
}

/// Where power comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerSource {
    /// The mains.
    Mains,
    /// A battery.
    Battery,
}

/// The condition of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GpuConditions {
    /// Its number, as the driver counts.
    pub index: u32,
    /// How warm it is.
    pub celsius: Option<f64>,
    /// Clock of its processors.
    pub sm_mhz: Option<u32>,
    /// Clock of its memory.
    pub memory_mhz: Option<u32>,
    /// Power it draws.
    pub power_watts: Option<f64>,
    /// Power it may draw.
    pub power_limit_watts: Option<f64>,
    /// Why it is slower than asked for; empty when it is not.
    pub throttle: Vec<String>,
}

impl ThermalReading {
    /// The highest temperature of all.
    pub fn hottest_celsius(&self) -> Option<f64> {
        let gpus = self.gpus.iter().filter_map(|gpu| gpu.celsius);
        self.sensors.iter().map(|sensor| sensor.celsius).chain(gpus).reduce(f64::max)
    }

    /// Heat, clock and throttling in words, as `61.0 C, 2500 MHz, thermal pressure heavy`; `None` when nothing is known.
    pub fn describe(&self) -> Option<String> {
        let mut parts = Vec::new();
        parts.extend(self.hottest_celsius().map(|celsius| format!("{celsius:.1} C")));
        parts.extend(self.cpu_mhz.map(|mhz| format!("{mhz:.0} MHz")));
        for gpu in &self.gpus {
            parts.extend(gpu.sm_mhz.map(|mhz| format!("GPU {} {mhz} MHz", gpu.index)));
        }
        if self.pressure == Some(ThermalPressure::Nominal) {
            parts.push("thermal pressure nominal".to_owned());
        }
        parts.extend(self.throttle());
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Source and mode of power in words, as `mains, governor performance`; `None` when neither is known.
    pub fn power(&self) -> Option<String> {
        let source = self.power_source.map(|source| match source {
            PowerSource::Mains => "mains".to_owned(),
            PowerSource::Battery => "battery".to_owned(),
        });
        let parts: Vec<String> = source.into_iter().chain(self.power_mode.clone()).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Why anything is slower than it could be, as it stands in this reading alone.
    pub fn throttle(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(pressure) = self.pressure.filter(|pressure| *pressure > ThermalPressure::Nominal) {
            reasons.push(format!("thermal pressure {}", format!("{pressure:?}").to_lowercase()));
        }
        if let Some(pct) = self.cpu_speed_limit_pct.filter(|pct| *pct < 100) {
            reasons.push(format!("processor held at {pct}%"));
        }
        for gpu in &self.gpus {
            reasons.extend(gpu.throttle.iter().map(|reason| format!("GPU {}: {reason}", gpu.index)));
        }
        reasons
    }
}

/// Since when the system runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Boot {
    /// When it was started, in seconds since 1970.
    pub boot_time_unix_seconds: Option<u64>,
    /// How long ago that was.
    pub uptime_seconds: Option<u64>,
}

impl Boot {
    /// Of this host.
    pub fn of_this_host() -> Self {
        let known = |number: u64| Some(number).filter(|number| *number > 0);
        Self {
            boot_time_unix_seconds: sysinfo::System::boot_time().ok().and_then(known),
            uptime_seconds: sysinfo::System::uptime().ok().and_then(known),
        }
    }
}

/// Reads the host's condition again and again.
#[derive(Debug)]
pub struct ThermalReader {
    gpu: GpuReader,
}

impl ThermalReader {
    /// Finds out what can be read.
    pub fn open() -> Self {
        Self { gpu: GpuReader::open() }
    }

    /// The condition now.
    pub fn read(&mut self) -> ThermalReading {
        #[cfg(target_os = "linux")]
        let reading = linux::read(std::path::Path::new("/sys"));
        #[cfg(target_os = "macos")]
        let reading = macos::read();
        #[cfg(not(any(target_os = "linux", target_os = "macos")))]
        let reading = ThermalReading::default();
        ThermalReading { gpus: self.gpu.conditions(), ..reading }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_was_started_some_time_ago() {
        let boot = Boot::of_this_host();
        assert!(boot.boot_time_unix_seconds.is_some_and(|time| time > 1_600_000_000), "{boot:?}");
        assert!(boot.uptime_seconds.is_some(), "{boot:?}");
    }

    #[test]
    fn the_hottest_of_processor_and_gpu_counts() {
        let reading = ThermalReading {
            sensors: vec![Sensor { name: "a".to_owned(), celsius: 40.0 }],
            gpus: vec![GpuConditions { celsius: Some(71.0), ..GpuConditions::default() }],
            ..ThermalReading::default()
        };
        assert_eq!(reading.hottest_celsius(), Some(71.0));
        assert_eq!(ThermalReading::default().hottest_celsius(), None);
    }

    #[test]
    fn every_sign_of_throttling_is_named() {
        let gpu =
            GpuConditions { index: 1, throttle: vec!["power cap".to_owned()], ..GpuConditions::default() };
        let reading = ThermalReading {
            pressure: Some(ThermalPressure::Heavy),
            cpu_speed_limit_pct: Some(60),
            gpus: vec![gpu],
            ..ThermalReading::default()
        };
        assert_eq!(
            reading.throttle(),
            ["thermal pressure heavy", "processor held at 60%", "GPU 1: power cap"]
        );
        assert_eq!(
            reading.describe().as_deref(),
            Some("thermal pressure heavy, processor held at 60%, GPU 1: power cap")
        );
        let calm = ThermalReading {
            pressure: Some(ThermalPressure::Nominal),
            cpu_speed_limit_pct: Some(100),
            ..ThermalReading::default()
        };
        assert!(calm.throttle().is_empty());
        assert_eq!(calm.describe().as_deref(), Some("thermal pressure nominal"));
        assert_eq!((ThermalReading::default().describe(), calm.power()), (None, None));
    }
}
