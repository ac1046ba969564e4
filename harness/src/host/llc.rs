//! The size of the last-level cache, and how it is known.
//!
//! In order: the variable `MLXCEL_BENCH_LLC_BYTES`; the system; a table by the chip's family. An unknown size stays unknown:
//! what needs one (a cold-cache measurement) must refuse.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::system::{line, names, number};

/// The variable that overrides everything.
pub const VARIABLE: &str = "MLXCEL_BENCH_LLC_BYTES";

/// The size of a last-level cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastLevelCache {
    /// All of it that this host's processor, or the device, has.
    pub bytes: u64,
    /// Pieces that it consists of, each shared by some of the cores.
    pub slices: u32,
    /// How it is known.
    pub source: LlcSource,
}

/// How the size is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LlcSource {
    /// The user said so, with [`VARIABLE`].
    Variable,
    /// The system says so.
    System,
    /// From a table, by the family of the chip: an upper estimate.
    Table,
}

/// [`VARIABLE`] holds no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE} is `{found}`, which is no count of bytes above 0; give the size in bytes, or unset it")]
pub struct BadVariable {
    /// What it holds.
    pub found: String,
}

/// The last-level cache of this host's processor; `None` when its size is unknown.
///
/// # Errors
/// [`BadVariable`].
pub fn last_level_cache(chip: Option<&str>) -> Result<Option<LastLevelCache>, BadVariable> {
    if let Some(cache) = from_variable(std::env::var(VARIABLE).ok().as_deref())? {
        return Ok(Some(cache));
    }
    #[cfg(target_os = "macos")]
    let system = {
        let size = super::system::output("/usr/sbin/sysctl", &["-n", "hw.l3cachesize"]);
        let bytes = size.and_then(|text| text.trim().parse::<u64>().ok()).filter(|bytes| *bytes > 0);
        bytes.map(|bytes| LastLevelCache { bytes, slices: 1, source: LlcSource::System })
    };
    #[cfg(not(target_os = "macos"))]
    let system = from_sysfs(Path::new("/sys/devices/system/cpu"));
    Ok(system.or_else(|| from_table(chip?)))
}

/// The last-level cache of a GPU by its name; `None` when its size is unknown. On an Apple chip it is the processor's.
///
/// # Errors
/// [`BadVariable`].
pub fn device_cache(device: &str) -> Result<Option<LastLevelCache>, BadVariable> {
    Ok(from_variable(std::env::var(VARIABLE).ok().as_deref())?.or_else(|| from_table(device)))
}

fn from_variable(value: Option<&str>) -> Result<Option<LastLevelCache>, BadVariable> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    match value.trim().parse::<u64>() {
        Ok(bytes) if bytes > 0 => Ok(Some(LastLevelCache { bytes, slices: 1, source: LlcSource::Variable })),
        _ => Err(BadVariable { found: value.to_owned() }),
    }
}

/// Each core lists its caches; those of the highest level count, each once, however many cores share it.
#[cfg_attr(target_os = "macos", allow(dead_code, reason = "parsers are tested on every system"))]
fn from_sysfs(folder: &Path) -> Option<LastLevelCache> {
    let mut slices: BTreeMap<(i64, String), u64> = BTreeMap::new();
    for cpu in names(folder).iter().filter(|name| name.starts_with("cpu")) {
        let caches = folder.join(cpu).join("cache");
        for index in names(&caches).iter().filter(|name| name.starts_with("index")) {
            let cache = caches.join(index);
            let kind = line(&cache.join("type"));
            let (Some(level), Some(size), Some(shared)) = (
                number(&cache.join("level")),
                line(&cache.join("size")).as_deref().and_then(size),
                line(&cache.join("shared_cpu_list")),
            ) else {
                continue;
            };
            if kind.as_deref() != Some("Instruction") {
                slices.insert((level, shared), size);
            }
        }
    }
    let last = slices.keys().map(|(level, _)| *level).max().filter(|level| *level >= 2)?;
    let of_last: Vec<u64> =
        slices.iter().filter(|((level, _), _)| *level == last).map(|(_, bytes)| *bytes).collect();
    let bytes = of_last.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
    let slices = u32::try_from(of_last.len()).ok()?;
    (bytes > 0).then_some(LastLevelCache { bytes, slices, source: LlcSource::System })
}

/// `32768K`.
#[cfg_attr(target_os = "macos", allow(dead_code, reason = "parsers are tested on every system"))]
fn size(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(number) => (number, 1 << 20),
            None => (text, 1),
        },
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Families of chips in lower case, with the mebibytes of their last-level cache. Apple tells none: these are the usual upper
/// estimates for the system-level cache of a base, Pro, Max and Ultra chip. NVIDIA's are of its data sheets. Longer names
/// first where one contains another.
const TABLE: [(&str, u64); 10] = [
    ("ultra", 96),
    ("max", 48),
    ("pro", 24),
    ("gh200", 60),
    ("gb10", 24),
    ("b200", 126),
    ("h200", 60),
    ("h100", 50),
    ("a100", 40),
    ("v100", 6),
];
/// Of an Apple chip that is none of the larger.
const APPLE_BASE: u64 = 8;

fn from_table(chip: &str) -> Option<LastLevelCache> {
    let chip = chip.to_lowercase();
    let words = || chip.split_whitespace();
    let apple = chip.starts_with("apple m");
    let mebibytes = if apple {
        let larger = TABLE.iter().take(3).find(|(family, _)| words().any(|word| word == *family));
        larger.map_or(APPLE_BASE, |(_, mebibytes)| *mebibytes)
    } else if chip.starts_with("nvidia") {
        TABLE.iter().skip(3).find(|(family, _)| chip.contains(family))?.1
    } else {
        return None;
    };
    Some(LastLevelCache { bytes: mebibytes << 20, slices: 1, source: LlcSource::Table })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mebibytes(chip: &str) -> Option<u64> {
        from_table(chip).map(|cache| cache.bytes >> 20)
    }

    #[test]
    fn the_families_of_apple_and_nvidia_have_estimates_and_others_none() {
        for (chip, expected) in [
            ("Apple M1 Ultra", Some(96)),
            ("Apple M5 Max", Some(48)),
            ("Apple M4 Pro", Some(24)),
            ("Apple M2", Some(8)),
            ("NVIDIA H200", Some(60)),
            ("NVIDIA GH200 480GB", Some(60)),
            ("NVIDIA GB10", Some(24)),
            ("NVIDIA Titan of the Max", None),
            ("AMD Ryzen AI Max+ 395", None),
            ("", None),
        ] {
            assert_eq!(mebibytes(chip), expected, "{chip}");
        }
    }

    #[test]
    fn a_variable_that_is_no_size_is_refused_and_not_passed_over() {
        assert_eq!(
            from_variable(Some("1048576")).map(|cache| cache.map(|cache| cache.bytes)),
            Ok(Some(1 << 20))
        );
        assert_eq!(from_variable(None), Ok(None));
        assert_eq!(from_variable(Some("")), Ok(None));
        for text in ["0", "24MiB", "-1", "1e6"] {
            assert!(from_variable(Some(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cache_that_cores_share_counts_once_and_instructions_never() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        for (cpu, index, level, kind, size, shared) in [
            (0, 0, 1, "Data", "32K", "0"),
            (0, 1, 2, "Unified", "1024K", "0"),
            (0, 2, 3, "Unified", "32768K", "0-1"),
            (1, 2, 3, "Unified", "32768K", "0-1"),
            (2, 2, 3, "Unified", "32768K", "2-3"),
            (2, 3, 4, "Instruction", "9M", "2-3"),
        ] {
            let folder = root.path().join(format!("cpu{cpu}/cache/index{index}"));
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("level"), format!("{level}\n"))?;
            std::fs::write(folder.join("type"), format!("{kind}\n"))?;
            std::fs::write(folder.join("size"), format!("{size}\n"))?;
            std::fs::write(folder.join("shared_cpu_list"), format!("{shared}\n"))?;
        }
        let expected = LastLevelCache { bytes: 64 << 20, slices: 2, source: LlcSource::System };
        assert_eq!(from_sysfs(root.path()), Some(expected));
        assert_eq!(from_sysfs(&root.path().join("none")), None);
        Ok(())
    }
}
