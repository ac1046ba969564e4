//! The environment variables that can change what is measured.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Families of variables, by the beginning of their names.
const FAMILIES: [&str; 15] = [
    "MLX_",
    "MLXCEL_",
    "BENCH_",
    "QUIET_",
    "OMP_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "MKL_",
    "VECLIB_",
    "BLIS_",
    "RAYON_",
    "CUDA_",
    "NVIDIA_",
    "MTL_",
];
/// Single variables.
const SINGLE: [&str; 13] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "DYLD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
    "MALLOC_ARENA_MAX",
    "GLIBC_TUNABLES",
    "WAIT_FOR_QUIET",
    "INDEXER_EXTRA_NAMES",
    "MLXLM_PYTHON",
    "MODELS_DIR",
    "BENCHMARKS_DIR",
    "TOKENIZERS_PARALLELISM",
    "RUST_BACKTRACE",
];
/// Words in names whose values are nobody's business.
const SECRET: [&str; 4] = ["TOKEN", "SECRET", "PASSWORD", "API_KEY"];

/// Of those that matter, the ones that change no measurement: where things lie, what is waited for, what is printed. The
/// interpreter of a reference is told by what it says of itself.
const COMPUTE_NOTHING: [&str; 10] = [
    "BENCHMARKS_DIR",
    "BENCH_ALLOW_STALE_BINARY",
    "INDEXER_EXTRA_NAMES",
    "MLXCEL_BENCH_IGNORE_OOM_RECORD",
    "MLXCEL_BENCH_QUIET_RECORD",
    "MLXCEL_CACHE_DIR",
    "MLXCEL_CATALOG_HOST",
    "MLXLM_PYTHON",
    "MODELS_DIR",
    "RUST_BACKTRACE",
];

/// The variables that can change what is computed and how fast, with their values.
pub fn that_compute(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let mut found = that_matter(all);
    found.retain(|name, _| {
        !(COMPUTE_NOTHING.contains(&name.as_str()) || name.starts_with("QUIET_") || name == "WAIT_FOR_QUIET")
    });
    found
}

/// The variables that matter, with their values; of what looks like a secret, only that it is set.
pub fn that_matter(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| {
            SINGLE.contains(&name.as_str()) || FAMILIES.iter().any(|family| name.starts_with(family))
        })
        .map(|(name, value)| {
            let secret = !SINGLE.contains(&name.as_str()) && SECRET.iter().any(|word| name.contains(word));
            let shown = if secret { "(set)".to_owned() } else { value.to_string_lossy().into_owned() };
            (name, shown)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        that_matter(pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    #[test]
    fn what_matters_is_kept_and_nothing_else() {
        let kept =
            of(&[("OMP_NUM_THREADS", "2"), ("HOME", "/home/x"), ("MLXCEL_CACHE_DIR", "/c"), ("USER", "x")]);
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["MLXCEL_CACHE_DIR", "OMP_NUM_THREADS"]);
    }

    #[test]
    fn what_computes_is_told_from_where_things_lie() {
        let pairs = [
            ("MLXCEL_CPU_KERNELS", "0"),
            ("RAYON_NUM_THREADS", "2"),
            ("MODELS_DIR", "/m"),
            ("QUIET_HOLD", "9"),
            // Another file each time, where `quiet --` starts the sweep.
            (crate::host::pause::VARIABLE, "/t/record"),
        ];
        let kept =
            that_compute(pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["MLXCEL_CPU_KERNELS", "RAYON_NUM_THREADS"]);
    }

    #[test]
    fn secrets_are_not_published() {
        let kept = of(&[("MLXCEL_API_KEY", "abc"), ("TOKENIZERS_PARALLELISM", "false")]);
        assert_eq!(kept.get("MLXCEL_API_KEY").map(String::as_str), Some("(set)"));
        assert_eq!(kept.get("TOKENIZERS_PARALLELISM").map(String::as_str), Some("false"));
    }
}
