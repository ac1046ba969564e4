//! NVIDIA's management library, opened while the program runs; a host without it has none.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};
use nvml_wrapper::{Device, Nvml};

use super::{GpuReading, GpuUser};
use crate::host::thermal::GpuConditions;

/// The library, and how far each GPU's record of its users has been read.
pub struct Nvidia {
    library: Nvml,
    devices: Vec<u32>,
    last_seen_micros: BTreeMap<u32, u64>,
}

impl std::fmt::Debug for Nvidia {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Nvidia").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl Nvidia {
    /// Opens the library; `None` without it, without a driver or without a GPU that this process may use.
    pub fn open() -> Option<Self> {
        let library = Nvml::init().ok()?;
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let devices: Vec<u32> = (0..library.device_count().ok()?)
            .filter(|index| {
                let uuid = library.device_by_index(*index).and_then(|device| device.uuid()).ok();
                visible.as_deref().is_none_or(|list| is_visible(list, *index, uuid.as_deref()))
            })
            .collect();
        (!devices.is_empty()).then_some(Self { library, devices, last_seen_micros: BTreeMap::new() })
    }

    /// Who uses the GPUs.
    pub fn users(&mut self) -> GpuReading {
        let mut reading = GpuReading::default();
        let mut users: BTreeMap<u32, GpuUser> = BTreeMap::new();
        for index in &self.devices {
            let Ok(device) = self.library.device_by_index(*index) else { continue };
            let utilization = device.utilization_rates().ok().map(|rates| f64::from(rates.gpu));
            reading.utilization_pct = reading.utilization_pct.into_iter().chain(utilization).reduce(f64::max);
            let compute = device.running_compute_processes().unwrap_or_default();
            let graphics = device.running_graphics_processes().unwrap_or_default();
            for info in compute.iter().chain(&graphics) {
                add(&mut users, info);
            }
            let Some(seen) = self.last_seen_micros.get_mut(index) else {
                // What was recorded before the first reading is not of any interval.
                self.last_seen_micros.insert(*index, unix_micros());
                continue;
            };
            // An error means that nobody was busy since, or that this GPU keeps no such record.
            let Ok(samples) = device.process_utilization_stats(*seen) else { continue };
            *seen = samples.iter().map(|sample| sample.timestamp).fold(*seen, u64::max);
            for (pid, pct) in mean_by_process(&samples) {
                let user = users.entry(pid).or_insert(GpuUser { pid, ..GpuUser::default() });
                user.busy_pct = Some(user.busy_pct.unwrap_or(0.0).max(pct));
            }
        }
        reading.users = users.into_values().collect();
        reading
    }

    /// How warm, fast and throttled each GPU is.
    pub fn conditions(&self) -> Vec<GpuConditions> {
        self.devices
            .iter()
            .filter_map(|index| Some(conditions(*index, &self.library.device_by_index(*index).ok()?)))
            .collect()
    }
}

/// The clock of the library's records.
fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn conditions(index: u32, device: &Device<'_>) -> GpuConditions {
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    GpuConditions {
        index,
        celsius: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
        sm_mhz: device.clock_info(Clock::SM).ok(),
        memory_mhz: device.clock_info(Clock::Memory).ok(),
        power_watts: device.power_usage().ok().map(watts),
        power_limit_watts: device.enforced_power_limit().ok().map(watts),
        throttle: device.current_throttle_reasons().map(throttle_words).unwrap_or_default(),
    }
}

/// The reasons that mean less speed than asked for. Being idle is none, nor are clocks that somebody has set.
fn throttle_words(reasons: ThrottleReasons) -> Vec<String> {
    [
        (ThrottleReasons::SW_POWER_CAP, "power cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "software thermal slowdown"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hardware thermal slowdown"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
    ]
    .into_iter()
    .filter(|(reason, _)| reasons.contains(*reason))
    .map(|(_, word)| word.to_owned())
    .collect()
}

fn add(users: &mut BTreeMap<u32, GpuUser>, info: &ProcessInfo) {
    let user = users.entry(info.pid).or_insert(GpuUser { pid: info.pid, ..GpuUser::default() });
    if let UsedGpuMemory::Used(bytes) = info.used_gpu_memory {
        user.memory_bytes = Some(user.memory_bytes.unwrap_or(0).saturating_add(bytes));
    }
}

/// How busy each process kept the GPU on average over its records.
fn mean_by_process(samples: &[ProcessUtilizationSample]) -> BTreeMap<u32, f64> {
    let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for sample in samples {
        let (sum, count) = sums.entry(sample.pid).or_default();
        *sum += f64::from(sample.sm_util.min(100));
        *count += 1.0;
    }
    sums.into_iter().map(|(pid, (sum, count))| (pid, sum / count)).collect()
}

/// Whether `CUDA_VISIBLE_DEVICES` lets a program use this GPU. As CUDA reads it: the list ends at the first entry that is no
/// GPU.
fn is_visible(list: &str, index: u32, uuid: Option<&str>) -> bool {
    list.split(',')
        .map(str::trim)
        .take_while(|entry| entry.starts_with("GPU-") || entry.parse::<u32>().is_ok())
        .any(|entry| entry.parse() == Ok(index) || uuid.is_some_and(|uuid| uuid.starts_with(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pid: u32, sm_util: u32) -> ProcessUtilizationSample {
        ProcessUtilizationSample { pid, timestamp: 1, sm_util, mem_util: 0, enc_util: 0, dec_util: 0 }
    }

    #[test]
    fn a_host_without_the_library_has_no_gpu_and_no_error() {
        // On a host with one, its conditions must at least be read.
        if let Some(nvidia) = Nvidia::open() {
            assert!(nvidia.conditions().iter().any(|gpu| gpu.celsius.is_some()), "{nvidia:?}");
        }
    }

    #[test]
    fn records_are_averaged_by_process() {
        let means = mean_by_process(&[sample(1, 40), sample(2, 100), sample(1, 60), sample(2, u32::MAX)]);
        assert_eq!(means, BTreeMap::from([(1, 50.0), (2, 100.0)]));
    }

    #[test]
    fn the_visible_devices_are_those_that_cuda_would_use() {
        let uuid = Some("GPU-8a1b2c3d-0000");
        assert!(is_visible("0,2", 2, uuid) && !is_visible("0,2", 1, uuid));
        assert!(is_visible("GPU-8a1b", 5, uuid) && !is_visible("GPU-9", 5, uuid));
        assert!(!is_visible("", 0, uuid) && !is_visible("-1,0", 0, uuid) && !is_visible("none", 0, None));
    }

    #[test]
    fn being_idle_is_no_throttling() {
        assert!(throttle_words(ThrottleReasons::GPU_IDLE).is_empty());
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        assert_eq!(throttle_words(both), ["power cap", "hardware thermal slowdown"]);
    }
}
