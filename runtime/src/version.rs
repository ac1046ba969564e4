//! What this binary is: its sources, its build, and the MLX library that is loaded into it.
//!
//! Everything here comes from the running executable, never from the folder beside it.

use crate::device::CudaInfo;
use crate::kernels::mlx;
use mlx_rs::{Device, DeviceType};
use mlxcel_build_stamp::{BuildStamp, StampParseError};
use mlxcel_catalog::identity::digest_file;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::{env, fmt};

/// What MLX runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// An Apple GPU.
    Metal,
    /// An NVIDIA GPU.
    Cuda,
    /// The processor.
    Cpu,
}

impl Backend {
    /// What MLX's default device is right now.
    pub fn current() -> Self {
        let on_gpu = Device::try_default()
            .and_then(|device| device.get_type())
            .is_ok_and(|kind| matches!(kind, DeviceType::Gpu));
        match (on_gpu, mlx::metal_is_available(), mlx::cuda_is_available()) {
            (true, true, _) => Self::Metal,
            (true, false, true) => Self::Cuda,
            _ => Self::Cpu,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Metal => "metal",
            Self::Cuda => "cuda",
            Self::Cpu => "cpu",
        })
    }
}

/// The MLX that is loaded, and what lies between it and this crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MlxInfo {
    /// What MLX runs on.
    pub backend: Backend,
    /// The library's own word, for example `0.32.2`.
    pub version: Option<String>,
    /// The commit, where the library reports one (as development builds do), else the release tag.
    pub revision: Option<String>,
    /// The library file that is loaded.
    pub library_path: Option<PathBuf>,
    /// SHA-256 of that file.
    pub library_sha256: Option<String>,
    /// The release that the build was pinned to.
    pub pinned_version: String,
    /// The folder linked instead of the pinned release, where the build was told to.
    pub dir_override: Option<String>,
    /// Version of the Rust binding.
    pub mlx_rs_version: Option<String>,
    /// Version of the C interface compiled in.
    pub mlx_c_version: String,
    /// The GPU and the CUDA libraries; `None` on other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<CudaInfo>,
}

/// Everything that the running binary knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildInfo {
    /// Sources, compiler and options.
    pub build: BuildStamp,
    /// MLX.
    pub mlx: MlxInfo,
    /// The executable file.
    pub executable_path: Option<PathBuf>,
    /// SHA-256 of that file.
    pub executable_sha256: Option<String>,
}

impl MlxInfo {
    /// Asks the loaded library. Reads and hashes its file.
    pub fn of_loaded_library() -> Self {
        let version = mlx::library_version();
        let library_path = mlx::library_path().map(|path| path.canonicalize().unwrap_or(path));
        Self {
            backend: Backend::current(),
            revision: version.as_deref().map(revision_of),
            version,
            library_sha256: library_path.as_deref().and_then(|path| digest_file(path).ok()),
            library_path,
            pinned_version: mlx_sys::PINNED_MLX_VERSION.to_owned(),
            dir_override: mlx_sys::MLX_DIR_OVERRIDE.map(str::to_owned),
            mlx_rs_version: option_env!("MLXCEL_MLX_RS_VERSION").map(str::to_owned),
            mlx_c_version: mlx_sys::MLX_C_VERSION.to_owned(),
            cuda: CudaInfo::of_loaded_libraries(),
        }
    }
}

impl BuildInfo {
    /// Describes the running binary, whose own build script made `build`.
    pub fn of_running_binary(build: BuildStamp) -> Self {
        let executable_path = env::current_exe().ok().map(|path| path.canonicalize().unwrap_or(path));
        Self {
            build,
            mlx: MlxInfo::of_loaded_library(),
            executable_sha256: executable_path.as_deref().and_then(|path| digest_file(path).ok()),
            executable_path,
        }
    }
}

/// The stamp that this crate's build script made; a program built on it has one of its own.
pub fn runtime_stamp() -> Result<BuildStamp, StampParseError> {
    BuildStamp::parse(include_str!(concat!(env!("OUT_DIR"), "/build_stamp.json")))
}

/// A development build's version ends in `+` and its commit; a release's tag is its version behind a `v`.
fn revision_of(version: &str) -> String {
    match version.split_once('+') {
        Some((_, commit)) if commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            commit.to_owned()
        }
        _ if version == mlx_sys::PINNED_MLX_VERSION => mlx_sys::PINNED_MLX_TAG.to_owned(),
        _ => format!("v{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_named_by_its_tag_and_a_development_build_by_its_commit() {
        assert_eq!(revision_of("0.32.2"), "v0.32.2");
        assert_eq!(revision_of("0.33.0.dev20261101+9a795735c0ff"), "9a795735c0ff");
        assert_eq!(revision_of("0.31.0"), "v0.31.0");
    }

    #[test]
    fn the_loaded_library_is_the_pinned_release_and_its_file_is_hashed() {
        let mlx = MlxInfo::of_loaded_library();
        if mlx.dir_override.is_none() {
            assert_eq!(mlx.version.as_deref(), Some(mlx_sys::PINNED_MLX_VERSION));
        }
        let path = mlx.library_path.expect("OK because the loader knows its files");
        assert!(
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libmlx")),
            "{}",
            path.display()
        );
        assert_eq!(mlx.library_sha256.map(|digest| digest.len()), Some(64));
    }
}
