//! Reads `pins.json`: which MLX release is linked, and the file and SHA-256 for each platform.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The pinned release.
pub(crate) struct Pins {
    pub(crate) mlx_version: String,
    pub(crate) mlx_tag: String,
    pub(crate) mlx_c_version: String,
    wheels: Vec<Wheel>,
}

/// One platform's release binary.
#[derive(Clone)]
pub(crate) struct Wheel {
    pub(crate) package: String,
    pub(crate) file: String,
    pub(crate) sha256: String,
    /// pip's platform tag.
    pub(crate) platform: String,
    os: String,
    arch: String,
    cuda: bool,
    min_macos: u64,
}

pub(crate) fn read(path: &Path) -> Result<Pins, String> {
    let broken = |what: String| format!("{}: {what}", path.display());
    let text = fs::read_to_string(path).map_err(|error| broken(error.to_string()))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
    let field = |value: &Value, key: &str| {
        value[key]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| broken(format!("`{key}` is missing or not a string")))
    };
    let mut wheels = Vec::new();
    for wheel in json["wheels"].as_array().ok_or_else(|| broken("`wheels` is missing".into()))? {
        wheels.push(Wheel {
            package: field(wheel, "package")?,
            file: field(wheel, "file")?,
            sha256: field(wheel, "sha256")?,
            platform: field(wheel, "platform")?,
            os: field(wheel, "os")?,
            arch: field(wheel, "arch")?,
            cuda: wheel["cuda"].as_bool().unwrap_or(false),
            min_macos: wheel["min_macos"].as_u64().unwrap_or(0),
        });
    }
    Ok(Pins {
        mlx_version: field(&json, "mlx_version")?,
        mlx_tag: field(&json, "mlx_tag")?,
        mlx_c_version: field(&json, "mlx_c_version")?,
        wheels,
    })
}

impl Pins {
    /// The release binary for the target being built; the newest that the macOS at hand runs.
    pub(crate) fn wheel(&self, os: &str, arch: &str, cuda: bool) -> Result<Wheel, String> {
        let macos = if os == "macos" { macos_major().unwrap_or(u64::MAX) } else { u64::MAX };
        self.wheels
            .iter()
            .filter(|wheel| {
                wheel.os == os && wheel.arch == arch && wheel.cuda == cuda && wheel.min_macos <= macos
            })
            .max_by_key(|wheel| wheel.min_macos)
            .cloned()
            .ok_or_else(|| {
                let known: Vec<_> = self
                    .wheels
                    .iter()
                    .map(|wheel| {
                        format!(
                            "{} {}{}",
                            wheel.os,
                            wheel.arch,
                            if wheel.cuda { " with feature cuda" } else { "" }
                        )
                    })
                    .collect();
                format!(
                    "MLX {} has no release binary for {os} {arch}{}; there is one for: {}\n\
                     Set MLXCEL_MLX_DIR to an MLX build of your own to link that instead.",
                    self.mlx_version,
                    if cuda { " with feature cuda" } else { "" },
                    known.join(", "),
                )
            })
    }
}

/// The major version of the macOS that builds, which is the one that will run what it builds.
fn macos_major() -> Option<u64> {
    let output = Command::new("sw_vers").arg("-productVersion").output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().split('.').next()?.parse().ok()
}
