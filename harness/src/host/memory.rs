//! Want of memory: how long programs waited for it, and how much was swapped out.
//!
//! Linux: pressure stall information (`/proc/pressure/memory`, kernel documentation `accounting/psi`), `/proc/meminfo` and
//! `/proc/vmstat`. macOS: the pressure level and the swap file as `sysctl` tells them.

use std::time::Duration;

use serde::Serialize;

/// Memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReading {
    /// How long at least one program has waited for memory since the system was started.
    pub stalled: Option<Duration>,
    /// The level of macOS.
    pub level: Option<PressureLevel>,
    /// Swap in use.
    pub swap_used_bytes: Option<u64>,
    /// Pages written to swap since the system was started.
    pub pages_swapped_out: Option<u64>,
}

/// How macOS calls the pressure on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PressureLevel {
    /// Enough memory.
    Normal,
    /// Programs are asked to give some back.
    Warning,
    /// There is hardly any left.
    Critical,
}

/// What became of memory between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MemoryChange {
    /// Share of the time in which at least one program waited for memory, in percent.
    pub stalled_pct: Option<f64>,
    /// The worse of the levels.
    pub level: Option<PressureLevel>,
    /// By how much the swap in use grew; negative when it shrank.
    pub swap_growth_bytes: Option<i64>,
    /// Pages that were written to swap.
    pub pages_swapped_out: Option<u64>,
}

impl MemoryReading {
    /// What became of it until a later reading.
    pub fn until(&self, later: &Self, elapsed: Duration) -> MemoryChange {
        let stalled = self.stalled.zip(later.stalled).and_then(|(before, after)| after.checked_sub(before));
        let signed = |bytes: u64| i64::try_from(bytes).ok();
        MemoryChange {
            stalled_pct: stalled
                .filter(|_| !elapsed.is_zero())
                .map(|stalled| (100.0 * stalled.as_secs_f64() / elapsed.as_secs_f64()).min(100.0)),
            level: self.level.max(later.level),
            swap_growth_bytes: self
                .swap_used_bytes
                .zip(later.swap_used_bytes)
                .and_then(|(before, after)| signed(after)?.checked_sub(signed(before)?)),
            pages_swapped_out: self
                .pages_swapped_out
                .zip(later.pages_swapped_out)
                .and_then(|(before, after)| after.checked_sub(before)),
        }
    }
}

/// Memory now.
pub fn read() -> MemoryReading {
    #[cfg(target_os = "linux")]
    {
        let text = |path| std::fs::read_to_string(path).unwrap_or_default();
        linux(&text("/proc/pressure/memory"), &text("/proc/meminfo"), &text("/proc/vmstat"))
    }
    #[cfg(target_os = "macos")]
    {
        let sysctl = |name| super::system::output("/usr/sbin/sysctl", &["-n", name]).unwrap_or_default();
        macos(&sysctl("kern.memorystatus_vm_pressure_level"), &sysctl("vm.swapusage"))
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    MemoryReading::default()
}

/// From the three files of Linux; an empty text is one that could not be read.
pub fn linux(pressure: &str, meminfo: &str, vmstat: &str) -> MemoryReading {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "));
    let total = some.and_then(|line| line.split(' ').find_map(|field| field.strip_prefix("total=")));
    let meminfo = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    MemoryReading {
        stalled: total.and_then(|micros| micros.parse().ok()).map(Duration::from_micros),
        level: None,
        swap_used_bytes: meminfo("SwapTotal")
            .zip(meminfo("SwapFree"))
            .and_then(|(total, free)| total.checked_sub(free)),
        pages_swapped_out: vmstat.lines().find_map(|line| line.strip_prefix("pswpout ")?.trim().parse().ok()),
    }
}

/// From the two values of macOS: a level of 1, 2 or 4, and `total = 2048.00M  used = 1024.00M  free = 1024.00M`.
pub fn macos(level: &str, swap_usage: &str) -> MemoryReading {
    let used = swap_usage.split_once("used = ").and_then(|(_, rest)| rest.split_whitespace().next());
    MemoryReading {
        stalled: None,
        level: match level.trim() {
            "1" => Some(PressureLevel::Normal),
            "2" => Some(PressureLevel::Warning),
            "4" => Some(PressureLevel::Critical),
            _ => None,
        },
        swap_used_bytes: used.and_then(amount),
        pages_swapped_out: None,
    }
}

fn amount(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let factor = match unit {
        "K" => 1_u64 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie in range")]
    (0.0..1e18).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESSURE: &str = "some avg10=1.00 avg60=0.20 avg300=0.05 total=2500000\n\
                            full avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n";

    #[test]
    fn linux_tells_stalls_and_swap() {
        let meminfo = "MemTotal:  1000 kB\nSwapCached:  7 kB\nSwapTotal:   2048 kB\nSwapFree:  1024 kB\n";
        let expected = MemoryReading {
            stalled: Some(Duration::from_millis(2500)),
            level: None,
            swap_used_bytes: Some(1 << 20),
            pages_swapped_out: Some(12),
        };
        assert_eq!(linux(PRESSURE, meminfo, "pswpin 3\npswpout 12\n"), expected);
    }

    #[test]
    fn what_a_kernel_does_not_tell_is_unknown_and_not_nothing() {
        assert_eq!(linux("", "MemTotal: 5 kB\n", ""), MemoryReading::default());
        assert_eq!(macos("", ""), MemoryReading::default());
        let change = MemoryReading::default().until(&MemoryReading::default(), Duration::from_secs(1));
        assert_eq!(change, MemoryChange::default());
    }

    #[test]
    fn macos_tells_a_level_and_swap() {
        let reading = macos("2\n", "total = 2048.00M  used = 1025.50M  free = 1022.50M  (encrypted)\n");
        assert_eq!(reading.level, Some(PressureLevel::Warning));
        assert_eq!(reading.swap_used_bytes, Some(1025 * (1 << 20) + (1 << 19)));
    }

    #[test]
    fn growth_has_a_sign_and_stalls_are_a_share_of_the_time() {
        let before = MemoryReading {
            stalled: Some(Duration::from_secs(1)),
            level: Some(PressureLevel::Normal),
            swap_used_bytes: Some(500),
            pages_swapped_out: Some(5),
        };
        let after = MemoryReading {
            stalled: Some(Duration::from_millis(1500)),
            level: Some(PressureLevel::Critical),
            swap_used_bytes: Some(100),
            pages_swapped_out: Some(9),
        };
        let change = before.until(&after, Duration::from_secs(2));
        let expected = MemoryChange {
            stalled_pct: Some(25.0),
            level: Some(PressureLevel::Critical),
            swap_growth_bytes: Some(-400),
            pages_swapped_out: Some(4),
        };
        assert_eq!(change, expected);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-zA-Z=: .0-9-]{0,80}") {
            let _ = linux(&text, &text, &text);
            let _ = macos(&text, &text);
        }
    }
}
