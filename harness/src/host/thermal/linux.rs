//! Linux: temperatures from `hwmon` (kernel documentation `hwmon/sysfs-interface`), or from `thermal` where there are none;
//! clocks from `cpufreq`; counts of throttling from `thermal_throttle`; power from `power_supply`.

use std::path::{Path, PathBuf};

use super::{PowerSource, Sensor, ThermalReading};
use crate::host::system::{line, names, number};

/// The condition in a folder that is `/sys`; without GPUs.
pub fn read(sys: &Path) -> ThermalReading {
    let cpus = cpus(&sys.join("devices/system/cpu"));
    let mean = |file: &str| {
        let clocks: Vec<f64> =
            cpus.iter().filter_map(|cpu| Some(number(&cpu.join(file))? as f64 / 1000.0)).collect();
        (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
    };
    let hwmon = hwmon(&sys.join("class/hwmon"));
    ThermalReading {
        sensors: if hwmon.is_empty() { zones(&sys.join("class/thermal")) } else { hwmon },
        cpu_mhz: mean("cpufreq/scaling_cur_freq"),
        cpu_max_mhz: mean("cpufreq/cpuinfo_max_freq"),
        cpu_throttle_events: throttle_events(&cpus),
        power_source: power_source(&sys.join("class/power_supply")),
        power_mode: power_mode(sys, &cpus),
        ..ThermalReading::default()
    }
}

fn cpus(folder: &Path) -> Vec<PathBuf> {
    names(folder)
        .into_iter()
        .filter(|name| {
            name.strip_prefix("cpu")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .map(|name| folder.join(name))
        .collect()
}

/// Temperatures are in thousandths of a degree. A chip that is asleep gives an error or nonsense.
fn celsius(path: &Path) -> Option<f64> {
    number(path).map(|millis| millis as f64 / 1000.0).filter(|celsius| (-50.0..250.0).contains(celsius))
}

fn hwmon(folder: &Path) -> Vec<Sensor> {
    let mut sensors = Vec::new();
    for chip in names(folder) {
        let chip = folder.join(chip);
        let chip_name = line(&chip.join("name")).unwrap_or_else(|| "unknown".to_owned());
        for file in names(&chip) {
            let Some(place) = file.strip_suffix("_input").filter(|place| place.starts_with("temp")) else {
                continue;
            };
            let label = line(&chip.join(format!("{place}_label"))).unwrap_or_else(|| place.to_owned());
            if let Some(celsius) = celsius(&chip.join(&file)) {
                sensors.push(Sensor { name: format!("{chip_name} {label}"), celsius });
            }
        }
    }
    sensors
}

fn zones(folder: &Path) -> Vec<Sensor> {
    names(folder)
        .into_iter()
        .filter(|name| name.starts_with("thermal_zone"))
        .filter_map(|name| {
            let zone = folder.join(&name);
            let name = line(&zone.join("type")).unwrap_or(name);
            Some(Sensor { name, celsius: celsius(&zone.join("temp"))? })
        })
        .collect()
}

/// The cores of a package all count the package's events, so of those the largest count is taken.
fn throttle_events(cpus: &[PathBuf]) -> Option<u64> {
    let counts = |file: &str| {
        let count = |cpu: &PathBuf| u64::try_from(number(&cpu.join("thermal_throttle").join(file))?).ok();
        cpus.iter().filter_map(count).collect::<Vec<u64>>()
    };
    let (cores, packages) = (counts("core_throttle_count"), counts("package_throttle_count"));
    if cores.is_empty() && packages.is_empty() {
        return None;
    }
    let cores = cores.into_iter().fold(0_u64, u64::saturating_add);
    Some(cores.saturating_add(packages.into_iter().max().unwrap_or(0)))
}

fn power_source(folder: &Path) -> Option<PowerSource> {
    let supplies: Vec<PathBuf> = names(folder).into_iter().map(|name| folder.join(name)).collect();
    let of = |kind: &str| {
        supplies
            .iter()
            .filter(|supply| line(&supply.join("type")).as_deref() == Some(kind))
            .collect::<Vec<_>>()
    };
    // Batteries of mice and the like have the scope of a device.
    let batteries: Vec<_> = of("Battery")
        .into_iter()
        .filter(|supply| line(&supply.join("scope")).as_deref() != Some("Device"))
        .collect();
    let mains: Vec<_> = of("Mains").into_iter().chain(of("USB")).collect();
    if mains.iter().any(|supply| number(&supply.join("online")) == Some(1)) {
        return Some(PowerSource::Mains);
    }
    let status =
        |wanted: &str| batteries.iter().any(|supply| line(&supply.join("status")).as_deref() == Some(wanted));
    if status("Discharging") {
        Some(PowerSource::Battery)
    } else if status("Charging") || status("Full") || status("Not charging") {
        Some(PowerSource::Mains)
    } else {
        None
    }
}

/// The governor and preference of all cores, each once, and the platform's profile.
fn power_mode(sys: &Path, cpus: &[PathBuf]) -> Option<String> {
    let all = |file: &str| {
        let mut values: Vec<String> =
            cpus.iter().filter_map(|cpu| line(&cpu.join("cpufreq").join(file))).collect();
        values.sort();
        values.dedup();
        (!values.is_empty()).then(|| values.join("/"))
    };
    let parts = [
        ("governor", all("scaling_governor")),
        ("preference", all("energy_performance_preference")),
        ("profile", line(&sys.join("firmware/acpi/platform_profile"))),
    ];
    let words: Vec<String> =
        parts.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) -> std::io::Result<()> {
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(root))?;
            std::fs::write(path, text)?;
        }
        Ok(())
    }

    #[test]
    fn a_host_with_everything_is_read() -> std::io::Result<()> {
        let sys = tempfile::tempdir()?;
        write(
            sys.path(),
            &[
                ("class/hwmon/hwmon0/name", "coretemp\n"),
                ("class/hwmon/hwmon0/temp1_input", "61000\n"),
                ("class/hwmon/hwmon0/temp1_label", "Package id 0\n"),
                ("class/hwmon/hwmon0/temp1_crit", "100000\n"),
                ("class/hwmon/hwmon0/fan1_input", "1200\n"),
                ("class/hwmon/hwmon1/name", "nvme\n"),
                ("class/hwmon/hwmon1/temp1_input", "40500\n"),
                ("class/hwmon/hwmon1/temp2_input", "-273150\n"),
                ("class/thermal/thermal_zone0/type", "acpitz\n"),
                ("class/thermal/thermal_zone0/temp", "20000\n"),
                ("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n"),
                ("devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4000000\n"),
                ("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
                ("devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "5\n"),
                ("devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n"),
                ("devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "4000000\n"),
                ("devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
                ("devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "1\n"),
                ("devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "5\n"),
                ("devices/system/cpu/cpufreq/nothing", "1\n"),
                ("class/power_supply/AC/type", "Mains\n"),
                ("class/power_supply/AC/online", "0\n"),
                ("class/power_supply/BAT0/type", "Battery\n"),
                ("class/power_supply/BAT0/status", "Discharging\n"),
                ("firmware/acpi/platform_profile", "balanced\n"),
            ],
        )?;
        let reading = read(sys.path());
        let named: Vec<_> =
            reading.sensors.iter().map(|sensor| (sensor.name.as_str(), sensor.celsius)).collect();
        assert_eq!(named, [("coretemp Package id 0", 61.0), ("nvme temp1", 40.5)]);
        assert_eq!((reading.cpu_mhz, reading.cpu_max_mhz), (Some(2500.0), Some(4000.0)));
        assert_eq!(reading.cpu_throttle_events, Some(9));
        assert_eq!(reading.power_source, Some(PowerSource::Battery));
        assert_eq!(reading.power_mode.as_deref(), Some("governor powersave, profile balanced"));
        std::fs::write(sys.path().join("class/power_supply/AC/online"), "1\n")?;
        assert_eq!(read(sys.path()).power_source, Some(PowerSource::Mains));
        Ok(())
    }

    #[test]
    fn zones_stand_in_for_missing_sensors() -> std::io::Result<()> {
        let sys = tempfile::tempdir()?;
        write(
            sys.path(),
            &[
                ("class/thermal/thermal_zone0/type", "cpu-thermal\n"),
                ("class/thermal/thermal_zone0/temp", "48312\n"),
                ("class/thermal/cooling_device0/type", "Fan\n"),
            ],
        )?;
        let reading = read(sys.path());
        assert_eq!(reading.hottest_celsius(), Some(48.312));
        Ok(())
    }

    #[test]
    fn a_host_that_tells_nothing_is_unknown() -> std::io::Result<()> {
        let sys = tempfile::tempdir()?;
        assert_eq!(read(sys.path()), ThermalReading::default());
        Ok(())
    }
}
