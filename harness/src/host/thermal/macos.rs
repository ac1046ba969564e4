//! macOS: the thermal pressure as the system notifies it, limits and power as `pmset` tells them.

use super::{PowerSource, ThermalPressure, ThermalReading};

/// The condition now; without GPUs, whose heat is part of the same pressure.
#[cfg(target_os = "macos")]
pub(super) fn read() -> ThermalReading {
    use crate::host::system::output;
    let pmset = |what: &[&str]| output("/usr/bin/pmset", what).unwrap_or_default();
    let level = output("/usr/bin/notifyutil", &["-g", "com.apple.system.thermalpressurelevel"]);
    parse(&level.unwrap_or_default(), &pmset(&["-g", "therm"]), &pmset(&["-g", "batt"]), &pmset(&["-g"]))
}

/// From the output of `notifyutil -g com.apple.system.thermalpressurelevel`, `pmset -g therm`, `pmset -g batt` and `pmset -g`;
/// an empty text is one that could not be had.
pub fn parse(level: &str, therm: &str, batt: &str, settings: &str) -> ThermalReading {
    let setting = |name: &str| {
        settings.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(name)).then(|| words.next())?
        })
    };
    ThermalReading {
        pressure: match level.split_whitespace().last() {
            Some("0") => Some(ThermalPressure::Nominal),
            Some("1") => Some(ThermalPressure::Moderate),
            Some("2") => Some(ThermalPressure::Heavy),
            Some("3") => Some(ThermalPressure::Trapping),
            Some("4") => Some(ThermalPressure::Sleeping),
            _ => None,
        },
        cpu_speed_limit_pct: therm.lines().find_map(|line| {
            line.trim().strip_prefix("CPU_Speed_Limit")?.trim_start().strip_prefix('=')?.trim().parse().ok()
        }),
        power_source: match batt.split_once("drawing from '").and_then(|(_, rest)| rest.split('\'').next()) {
            Some("AC Power") => Some(PowerSource::Mains),
            Some("Battery Power" | "UPS Power") => Some(PowerSource::Battery),
            _ => None,
        },
        // The older name is of one bit, the newer has high power as well.
        power_mode: match (setting("powermode"), setting("lowpowermode")) {
            (Some("0"), _) | (None, Some("0")) => Some("automatic".to_owned()),
            (Some("1"), _) | (None, Some("1")) => Some("low power".to_owned()),
            (Some("2"), _) => Some("high power".to_owned()),
            _ => None,
        },
        ..ThermalReading::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_laptop_on_battery_is_understood() {
        let reading = parse(
            "com.apple.system.thermalpressurelevel 2\n",
            "2026-11-29 20:15:05 +0100 CPU Power notify\n\tCPU_Scheduler_Limit \t= 100\n\tCPU_Speed_Limit \t= 62\n",
            "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t93%; discharging\n",
            "System-wide power settings:\nCurrently in use:\n lowpowermode         1\n sleep                1\n",
        );
        assert_eq!(reading.pressure, Some(ThermalPressure::Heavy));
        assert_eq!(reading.cpu_speed_limit_pct, Some(62));
        assert_eq!(reading.power_source, Some(PowerSource::Battery));
        assert_eq!(reading.power_mode.as_deref(), Some("low power"));
    }

    #[test]
    fn a_cool_desktop_is_understood() {
        let reading = parse(
            "com.apple.system.thermalpressurelevel 0\n",
            "Note: No thermal warning level has been recorded\nNote: No performance warning level has been recorded\n",
            "Now drawing from 'AC Power'\n",
            " powermode            2\n lowpowermode         0\n",
        );
        assert_eq!(reading.pressure, Some(ThermalPressure::Nominal));
        assert_eq!(reading.cpu_speed_limit_pct, None);
        assert_eq!(reading.power_source, Some(PowerSource::Mains));
        assert_eq!(reading.power_mode.as_deref(), Some("high power"));
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        assert_eq!(parse("", "", "", ""), ThermalReading::default());
        assert_eq!(
            parse("7", "CPU_Speed_Limit = x", "drawing from 'Sun'", "powermode"),
            ThermalReading::default()
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,120}") {
            let _ = parse(&text, &text, &text, &text);
        }
    }
}
