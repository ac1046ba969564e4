//! Compiles mlx-c, whose sources the published `mlx-sys` crate carries, against the headers of the linked MLX.

use crate::variable;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn compile(manifest_dir: &Path, mlx_include: &Path) -> Result<(), String> {
    let sources = locate_sources(manifest_dir)?;
    let folder = sources.join("mlx/c");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "cpp"))
        .collect();
    files.sort();
    files.extend(
        ["compat.cpp", "cuda.cpp", "nodes.cpp", "operation.cpp", "primitive.cpp"]
            .map(|file| manifest_dir.join("compat").join(file)),
    );
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .include(mlx_include)
        .include(&sources)
        .flag("-include")
        .flag(manifest_dir.join("compat/format.hpp"))
        .warnings(false)
        .files(files)
        .try_compile("mlxc")
        .map_err(|error| {
            format!("mlx-c could not be compiled: {error}\nA C++20 compiler is needed (GCC 11, Clang 14 or newer; CXX names another).")
        })
}

/// Where Cargo unpacked the published `mlx-sys` crate; downloads it when the registry cache lacks it.
fn locate_sources(manifest_dir: &Path) -> Result<PathBuf, String> {
    let manifest = manifest_dir.join("mlx-c/Cargo.toml");
    let output = Command::new(variable("CARGO")?)
        .args(["metadata", "--locked", "--format-version=1", "--manifest-path"])
        .arg(&manifest)
        .output()
        .map_err(|error| format!("`cargo metadata` could not be started: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "the sources of mlx-c (in the published crate mlx-sys 0.7.0) could not be fetched: {}\n\
             Check the network and Cargo's registry settings.",
            String::from_utf8_lossy(&output.stderr).trim(),
        ));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("`cargo metadata`: {error}"))?;
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "mlx-sys")
        .and_then(|package| {
            Path::new(package["manifest_path"].as_str()?).parent().map(|root| root.join("src/mlx-c"))
        })
        .filter(|sources| sources.is_dir())
        .ok_or_else(|| {
            format!("`cargo metadata` on {} names no mlx-sys crate with mlx-c sources", manifest.display())
        })
}
