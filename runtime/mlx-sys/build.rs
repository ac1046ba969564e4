//! Fetches the pinned MLX release binary, compiles mlx-c against its headers, links it and lays it beside the binaries.

#[path = "build/fetch.rs"]
mod fetch;
#[path = "build/link.rs"]
mod link;
#[path = "build/mlx_c.rs"]
mod mlx_c;
#[path = "build/pins.rs"]
mod pins;

use std::env;
use std::path::{Path, PathBuf};
use std::process::exit;

/// An MLX build on disk: headers, and the folders its libraries lie in.
pub(crate) struct MlxBuild {
    include: PathBuf,
    library_dirs: Vec<PathBuf>,
}

fn main() {
    if let Err(message) = run() {
        // One clear error, without the panic's location and backtrace around it.
        for line in message.lines() {
            println!("cargo::error={line}");
        }
        exit(1);
    }
}

fn run() -> Result<(), String> {
    let manifest_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    for watched in ["pins.json", "build.rs", "build", "compat", "mlx-c/Cargo.toml", "mlx-c/Cargo.lock"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    for watched in ["MLXCEL_MLX_DIR", "MLXCEL_CACHE_DIR", "XDG_CACHE_HOME"] {
        println!("cargo::rerun-if-env-changed={watched}");
    }

    let pins = pins::read(&manifest_dir.join("pins.json"))?;
    println!("cargo::rustc-env=MLXCEL_PINNED_MLX_VERSION={}", pins.mlx_version);
    println!("cargo::rustc-env=MLXCEL_PINNED_MLX_TAG={}", pins.mlx_tag);
    println!("cargo::rustc-env=MLXCEL_MLX_C_VERSION={}", pins.mlx_c_version);

    let build = match env::var_os("MLXCEL_MLX_DIR") {
        Some(dir) => {
            println!("cargo::rustc-env=MLXCEL_LINKED_MLX_DIR={}", dir.to_string_lossy());
            existing_build(Path::new(&dir))?
        }
        None => fetch::pinned_build(&pins)?,
    };
    mlx_c::compile(&manifest_dir, &build.include)?;
    link::link(&build)
}

/// The MLX build in the folder that `MLXCEL_MLX_DIR` names: an unpacked wheel, or an install prefix.
fn existing_build(dir: &Path) -> Result<MlxBuild, String> {
    let root = if dir.join("mlx/lib").is_dir() { dir.join("mlx") } else { dir.to_path_buf() };
    let include = root.join("include");
    let lib = root.join("lib");
    if !include.join("mlx/mlx.h").is_file() || link::library_in(&lib).is_none() {
        return Err(format!(
            "MLXCEL_MLX_DIR is {}, which holds no MLX build: expected include/mlx/mlx.h and lib/{}\n\
             Point it at an install prefix or an unpacked MLX wheel, or unset it to use the pinned release.",
            dir.display(),
            link::library_name(),
        ));
    }
    Ok(MlxBuild { include, library_dirs: vec![lib] })
}

/// An environment variable that Cargo sets for every build script.
pub(crate) fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("the environment variable {name} cannot be read: {error}"))
}
