//! What a row's stamps must be by the record of the executable and of the machine in the provenance.
//!
//! A record that lacks a key says nothing of the column; one that has it and holds null says that the column is empty.

use serde_json::Value;

use crate::row::{Backend, BuildType};

/// What a record says of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recorded {
    /// Nothing.
    Silent,
    /// That it is unknown.
    Unknown,
    /// Its value.
    Known(String),
}

impl Recorded {
    fn of(value: Option<&Value>) -> Self {
        match value {
            None => Self::Silent,
            Some(Value::Null) => Self::Unknown,
            Some(Value::String(text)) if text.trim().is_empty() || text.eq_ignore_ascii_case("unknown") => {
                Self::Unknown
            }
            Some(Value::String(text)) => Self::Known(text.clone()),
            Some(other) => Self::Known(other.to_string()),
        }
    }

    fn map(self, with: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Known(text) => Self::Known(with(text)),
            other => other,
        }
    }
}

/// One column, where its value is recorded, and what the record says.
pub(super) struct Stamp {
    pub(super) column: &'static str,
    pub(super) source: &'static str,
    pub(super) recorded: Recorded,
    /// What older programs wrote from the same record.
    pub(super) formerly: Option<Recorded>,
}

/// Every column that a record says something of.
pub(super) fn of(binary: &Value, machine: &Value, backend: Backend) -> Vec<Stamp> {
    let of_binary = |pointer: &str| Recorded::of(binary.pointer(pointer));
    let of_machine = |pointer: &str| Recorded::of(machine.pointer(pointer));
    let stamp = |column, source, recorded| Stamp { column, source, recorded, formerly: None };
    let build = "/binary/executable/stamp";
    let memory = machine.get("memory_bytes").cloned();
    let gpu_memory = machine.pointer("/gpu/memory_bytes").filter(|bytes| bytes.is_u64()).cloned();
    let mut stamps = vec![
        stamp("executable_sha256", "/binary/executable/sha256", of_binary("/executable/sha256")),
        stamp("mlxcel_version", "/binary/executable/stamp/version", of_binary("/executable/stamp/version")),
        stamp(
            "mlxcel_commit",
            "/binary/executable/stamp/tree",
            commit(binary.pointer("/executable/stamp/tree")),
        ),
        stamp("build_type", build, build_type(binary.pointer("/executable/stamp"))),
        stamp(
            "features",
            "/binary/executable/stamp/features",
            features(binary.pointer("/executable/stamp/features")),
        ),
        stamp(
            "target_cpu",
            "/binary/executable/stamp/target_cpu",
            target_cpu(of_binary("/executable/stamp/target_cpu")),
        ),
        stamp("backend", "/binary/runtime/backend", of_binary("/runtime/backend")),
        stamp("mlx_version", "/binary/runtime/mlx_version", of_binary("/runtime/mlx_version")),
        stamp(
            "mlx_commit",
            "/binary/runtime/mlx_revision",
            of_binary("/runtime/mlx_revision").map(|text| short(&text)),
        ),
        stamp(
            "libmlx_sha256",
            "/binary/runtime/mlx_library_sha256",
            of_binary("/runtime/mlx_library_sha256"),
        ),
        stamp("os", "/machine/os", of_machine("/os")),
        stamp("kernel_version", "/machine/kernel_version", of_machine("/kernel_version")),
        stamp("host_memory_bytes", "/machine/memory_bytes", of_machine("/memory_bytes")),
        stamp("host_id", "/machine/host_id", of_machine("/host_id")),
    ];
    if backend == Backend::Cuda {
        stamps.extend([
            stamp("device_name", "/machine/gpu/name", of_machine("/gpu/name")),
            stamp("device_memory_bytes", "/machine/gpu/memory_bytes", of_machine("/gpu/memory_bytes")),
            stamp("driver", "/machine/gpu/driver", of_machine("/gpu/driver")),
            Stamp {
                column: "hardware",
                source: "/machine/gpu/name and memory_bytes",
                recorded: hardware(of_machine("/gpu/name"), gpu_memory.or_else(|| memory.clone())),
                // A GPU was named with the memory of its host until 29 November 2026.
                formerly: Some(hardware(of_machine("/gpu/name"), memory)),
            },
        ]);
    } else {
        stamps.extend([
            stamp("device_name", "/machine/chip", of_machine("/chip")),
            stamp("device_memory_bytes", "/machine/memory_bytes", of_machine("/memory_bytes")),
            stamp("hardware", "/machine/chip and memory_bytes", hardware(of_machine("/chip"), memory)),
        ]);
    }
    stamps
}

/// Facts that the record states twice: two pointers into `/binary` that must hold the same.
pub(super) const TWICE: [(&str, &str); 5] = [
    ("/executable/sha256", "/runtime/executable_sha256"),
    ("/runtime/mlx_version", "/runtime/report/version"),
    ("/runtime/mlx_revision", "/runtime/report/revision"),
    ("/runtime/mlx_library_sha256", "/runtime/report/library_sha256"),
    ("/runtime/backend", "/runtime/report/backend"),
];

/// First 8 digits, `-dirty` where a source file differs from the commit.
fn commit(tree: Option<&Value>) -> Recorded {
    let Some(tree) = tree else { return Recorded::Silent };
    let files = tree.get("files").and_then(Value::as_array);
    let dirty = files.is_some_and(|files| {
        files.iter().any(|file| file.get("change").is_some_and(|change| !change.is_null()))
    });
    Recorded::of(tree.get("commit")).map(|commit| {
        let short = commit.get(..8).unwrap_or(&commit);
        if dirty { format!("{short}-dirty") } else { short.to_owned() }
    })
}

/// By the profile's name where that says it, else by the optimization.
fn build_type(stamp: Option<&Value>) -> Recorded {
    let Some(stamp) = stamp else { return Recorded::Silent };
    let text = |key: &str| stamp.get(key).and_then(Value::as_str);
    let optimized = match (text("profile"), text("opt_level")) {
        (Some("release"), _) => true,
        (Some("debug"), _) => false,
        (None, None) => return Recorded::Silent,
        (_, level) => matches!(level, Some("2" | "3" | "s" | "z")),
    };
    let kind = if optimized { BuildType::Release } else { BuildType::Debug };
    Recorded::Known(kind.as_str().to_owned())
}

fn features(list: Option<&Value>) -> Recorded {
    let Some(list) = list.and_then(Value::as_array) else { return Recorded::Silent };
    let names: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    Recorded::Known(if names.is_empty() { "none".to_owned() } else { names.join(",") })
}

fn target_cpu(recorded: Recorded) -> Recorded {
    match recorded {
        Recorded::Unknown => Recorded::Known("default".to_owned()),
        other => other,
    }
}

/// The first 8 digits of a commit; anything else (a release tag) as it is.
fn short(revision: &str) -> String {
    let is_commit = revision.len() >= 8 && revision.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_commit { revision.get(..8).unwrap_or(revision).to_owned() } else { revision.to_owned() }
}

/// `<chip>_<memory>GB`, the memory in units of 2^30 bytes.
fn hardware(chip: Recorded, memory: Option<Value>) -> Recorded {
    let Some(memory) = memory else { return Recorded::Silent };
    let memory = memory.as_u64();
    chip.map(|chip| {
        let chip = chip.split_whitespace().collect::<Vec<_>>().join("_");
        match memory {
            Some(bytes) => format!("{chip}_{}GB", (bytes as f64 / f64::from(1 << 30)).round()),
            None => chip,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_executable_of_changed_sources_is_dirty() {
        let tree =
            |change: Value| json!({"commit": "0123456789abcdef", "files": [{"path": "a", "change": change}]});
        assert_eq!(commit(Some(&tree(Value::Null))), Recorded::Known("01234567".to_owned()));
        assert_eq!(commit(Some(&tree(json!("modified")))), Recorded::Known("01234567-dirty".to_owned()));
        assert_eq!(commit(Some(&json!({"commit": null, "files": []}))), Recorded::Unknown);
        assert_eq!(commit(None), Recorded::Silent);
    }

    #[test]
    fn hardware_is_chip_and_memory() {
        let chip = Recorded::Known("Apple M5 Max".to_owned());
        let named = hardware(chip, Some(json!(137_438_953_472_u64)));
        assert_eq!(named, Recorded::Known("Apple_M5_Max_128GB".to_owned()));
    }

    #[test]
    fn a_gpu_is_named_with_its_own_memory_and_formerly_with_its_hosts() {
        let machine = |memory: Value| {
            let gpu = json!({"name": "NVIDIA H200", "memory_bytes": memory});
            json!({"memory_bytes": 135_291_469_824_u64, "gpu": gpu})
        };
        for (memory, expected) in [(json!(150_754_820_096_u64), "140GB"), (Value::Null, "126GB")] {
            let stamps = of(&Value::Null, &machine(memory), Backend::Cuda);
            let stamp = stamps
                .iter()
                .find(|stamp| stamp.column == "hardware")
                .expect("OK because every record has one");
            assert_eq!(stamp.recorded, Recorded::Known(format!("NVIDIA_H200_{expected}")));
            assert_eq!(stamp.formerly, Some(Recorded::Known("NVIDIA_H200_126GB".to_owned())));
        }
    }

    #[test]
    fn a_tag_is_not_cut_and_a_commit_is() {
        assert_eq!(short("v0.32.2"), "v0.32.2");
        assert_eq!(short("9a795735c0ffee"), "9a795735");
    }

    #[test]
    fn a_build_is_told_by_profile_then_by_optimization() {
        for (profile, level, expected) in [
            ("release", "3", "release"),
            ("debug", "3", "debug"),
            ("bench", "3", "release"),
            ("bench", "0", "debug"),
        ] {
            let stamp = json!({"profile": profile, "opt_level": level});
            assert_eq!(build_type(Some(&stamp)), Recorded::Known(expected.to_owned()), "{profile} {level}");
        }
    }
}
