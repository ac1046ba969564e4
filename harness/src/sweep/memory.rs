//! How much memory a checkpoint will need, and how much there is.
//!
//! Need: the weights, times a factor of the user's, and the key/value cache at the measured length. There is: 85 % of the
//! memory the backend really uses, which is the device's on a discrete GPU and the host's elsewhere, and never more than
//! the control group allows.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_reports::row::Backend;

use super::model_shape::ModelShape;
use crate::provenance::machine::Machine;
use crate::text::bytes;

/// The variable that holds the factor.
pub(super) const FACTOR: &str = "BENCH_MEM_OVERHEAD_FACTOR";
/// The share of the memory that may be used, in percent.
const SHARE_PCT: u64 = 85;

/// What may be used, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) bytes: u64,
    /// What it is a share of, in words.
    of: String,
}

/// What a checkpoint is expected to need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Estimate {
    pub(super) weight_bytes: u64,
    /// Unknown where the configuration does not tell.
    pub(super) cache_bytes: Option<u64>,
}

impl Estimate {
    /// Of a checkpoint at so many tokens in all.
    pub(super) fn of(folder: &CheckpointFolder, tokens: u64, factor: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate; conversion saturates, and the factor is not negative"
        )]
        let weight_bytes = (folder.weight_bytes() as f64 * factor) as u64;
        Self { weight_bytes, cache_bytes: ModelShape::of(folder).cache_bytes(tokens) }
    }

    pub(super) fn bytes(self) -> u64 {
        self.weight_bytes.saturating_add(self.cache_bytes.unwrap_or(0))
    }
}

impl Budget {
    /// Of this host and backend; `None` where the memory is unknown.
    pub(super) fn of(machine: &Machine, backend: Backend) -> Option<Self> {
        let memory = match (backend, machine.device_memory_bytes(backend)) {
            (Backend::Cuda, Some(device)) => Some((device, "the GPU's memory")),
            _ => machine.memory_bytes.map(|host| (host, "the host's memory")),
        };
        // The limit of a control group is on the host's memory, which a discrete GPU does not use for weights.
        let discrete = backend == Backend::Cuda && machine.device_memory_bytes(backend).is_some();
        let limit = if discrete { None } else { cgroup_limit_bytes() };
        Self::least(memory, limit)
    }

    fn least(memory: Option<(u64, &str)>, limit: Option<u64>) -> Option<Self> {
        let limit = limit.map(|limit| (limit, "the control group's limit"));
        let (base, of) = memory.into_iter().chain(limit).min_by_key(|(bytes, _)| *bytes)?;
        let share = u128::from(base) * u128::from(SHARE_PCT) / 100;
        Some(Self {
            bytes: u64::try_from(share).unwrap_or(u64::MAX),
            of: format!("{SHARE_PCT} % of {of}, {}", bytes(base)),
        })
    }

    /// Why an estimate does not fit; `None` when it does.
    pub(super) fn refuses(&self, estimate: Estimate) -> Option<String> {
        (estimate.bytes() > self.bytes).then(|| {
            let cache = match estimate.cache_bytes {
                Some(cache) => format!("and {} of key/value cache", bytes(cache)),
                None => "and a key/value cache of unknown size".to_owned(),
            };
            format!(
                "{} of weights {cache} do not fit into {} ({}); {FACTOR} scales the weights",
                bytes(estimate.weight_bytes),
                bytes(self.bytes),
                self.of
            )
        })
    }
}

/// The factor of the environment.
///
/// # Errors
/// When it is no number of 0 or more: an estimate by another number than the user meant would skip or start the wrong
/// checkpoints.
pub(super) fn factor() -> anyhow::Result<f64> {
    match std::env::var_os(FACTOR) {
        None => Ok(1.0),
        Some(value) => parse_factor(&value.to_string_lossy()),
    }
}

fn parse_factor(text: &str) -> anyhow::Result<f64> {
    match text.trim().parse::<f64>() {
        Ok(factor) if factor.is_finite() && factor >= 0.0 => Ok(factor),
        _ => bail!(
            "{FACTOR} is `{text}`, which is not a number of 0 or more; unset it or give one, such as 1.2"
        ),
    }
}

/// The least limit of this process's control groups.
fn cgroup_limit_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    least_limit(Path::new("/sys/fs/cgroup"), &groups)
}

/// A limit holds for every group below, so each folder up to the root is looked at: of version 2, and of version 1, where
/// a limit beyond any memory stands for none.
fn least_limit(root: &Path, groups: &str) -> Option<u64> {
    let none = u64::MAX >> 4;
    let mut files: Vec<PathBuf> = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, name) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let folder = root.join(path.trim_start_matches('/'));
        files.extend(
            folder.ancestors().take_while(|folder| folder.starts_with(&root)).map(|at| at.join(name)),
        );
    }
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok())
        .filter(|limit| *limit < none)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_a_share_of_the_least_memory_there_is() {
        let budget = |memory, limit| Budget::least(memory, limit).map(|budget| budget.bytes);
        assert_eq!(budget(Some((100, "the host's memory")), None), Some(85));
        assert_eq!(budget(Some((100, "the host's memory")), Some(40)), Some(34));
        assert_eq!(budget(Some((100, "the host's memory")), Some(400)), Some(85));
        assert_eq!(budget(None, None), None);
    }

    #[test]
    fn a_discrete_gpu_counts_by_its_own_memory() {
        let gpu = crate::provenance::machine::Gpu {
            name: "RTX".to_owned(),
            memory_bytes: Some(24_000_000_000),
            driver: None,
            cuda_version: None,
            count: 1,
        };
        let machine = Machine { memory_bytes: Some(256_000_000_000), gpu: Some(gpu), ..Machine::default() };
        let budget = Budget::of(&machine, Backend::Cuda).map(|budget| budget.bytes);
        assert_eq!(budget, Some(20_400_000_000));
        let host = Budget::of(&machine, Backend::Metal).map(|budget| budget.bytes);
        assert!(host.is_some_and(|bytes| bytes <= 217_600_000_000), "{host:?}");
    }

    #[test]
    fn what_does_not_fit_says_by_how_much() {
        let budget = Budget { bytes: 1_000, of: "85 % of x".to_owned() };
        assert_eq!(budget.refuses(Estimate { weight_bytes: 600, cache_bytes: Some(400) }), None);
        let why = budget.refuses(Estimate { weight_bytes: 600, cache_bytes: Some(401) }).unwrap_or_default();
        assert!(why.contains("600 B of weights and 401 B of key/value cache"), "{why}");
        assert!(why.contains(FACTOR), "{why}");
    }

    #[test]
    fn a_factor_that_is_no_number_is_an_error_and_not_zero() {
        assert_eq!(parse_factor("1.25").ok(), Some(1.25));
        for text in ["", "abc", "1,5", "-1", "nan", "inf"] {
            let message = parse_factor(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(FACTOR), "{text}: {message}");
        }
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts_in_both_versions() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
            fs::write(path, text)
        };
        put("a/b/memory.max", "max\n")?;
        put("a/memory.max", "5000\n")?;
        assert_eq!(least_limit(root.path(), "0::/a/b\n"), Some(5000));
        put("memory/c/memory.limit_in_bytes", "3000\n")?;
        put("memory/memory.limit_in_bytes", "9223372036854771712\n")?;
        assert_eq!(least_limit(root.path(), "5:cpu:/c\n4:memory:/c\n0::/a/b\n"), Some(3000));
        assert_eq!(least_limit(root.path(), "4:memory:/d\n"), None);
        assert_eq!(least_limit(root.path(), "garbage"), None);
        Ok(())
    }
}
