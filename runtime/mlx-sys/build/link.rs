//! Links libmlx, lays it beside the built binaries, and tells dependents which run paths to set.
//!
//! A library crate's link arguments do not reach the final binaries, so each binary crate sets the run path itself,
//! from the `rpaths` value given here (`DEP_MLX_RPATHS`).
//!
//! MLX for CUDA compiles kernels at run time and looks for headers in `../include` of the folder it was loaded from. So
//! it gets a folder of its own with both in it; that also keeps builds with and without CUDA, which share a target
//! folder, from taking each other's library.

use crate::{MlxBuild, variable};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn link(build: &MlxBuild) -> Result<(), String> {
    let macos = variable("CARGO_CFG_TARGET_OS")? == "macos";
    for dir in &build.library_dirs {
        println!("cargo::rustc-link-search=native={}", dir.display());
    }
    println!("cargo::rustc-link-lib=dylib=mlx");
    // libmlx's own dependencies are found through its run path, not by the link editor.
    if !macos {
        println!("cargo::rustc-link-arg=-Wl,--allow-shlib-undefined");
    }

    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    // OUT_DIR is PROFILE/build/mlx-sys-HASH/out.
    let profile_dir =
        out_dir.ancestors().nth(3).ok_or_else(|| format!("OUT_DIR {} is too short", out_dir.display()))?;
    let cuda = build.include.join("cccl").is_dir();
    if cuda {
        let folder = profile_dir.join(CUDA_FOLDER);
        let lib = folder.join("lib");
        fs::create_dir_all(&lib).map_err(|error| format!("cannot create {}: {error}", lib.display()))?;
        lay_beside(&lib, build)?;
        lay_headers(&folder.join("include"), &build.include)?;
    } else {
        lay_beside(profile_dir, build)?;
    }

    let origin = if macos { "@loader_path" } else { "$ORIGIN" };
    // Where Cargo puts binaries; where it puts tests and examples; an installed prefix; and the cache folder, for
    // `cargo install`, which copies the executable alone.
    let mut rpaths = if cuda {
        ["", "/..", "/../lib/mlxcel"].map(|up| format!("{origin}{up}/{CUDA_FOLDER}/lib")).to_vec()
    } else {
        ["", "/..", "/../lib/mlxcel"].map(|up| format!("{origin}{up}")).to_vec()
    };
    rpaths.extend(build.library_dirs.iter().map(|dir| dir.display().to_string()));
    println!("cargo::metadata=rpaths={}", rpaths.join(";"));
    println!("cargo::metadata=include={}", build.include.display());
    Ok(())
}

/// The folder of MLX for CUDA beside the binaries: `lib` and `include`.
const CUDA_FOLDER: &str = "mlx-cuda";

/// Links the headers that MLX for CUDA compiles its kernels with.
fn lay_headers(target: &Path, include: &Path) -> Result<(), String> {
    let _ = fs::remove_file(target);
    #[cfg(unix)]
    return std::os::unix::fs::symlink(include, target)
        .map_err(|error| format!("cannot link {} to {}: {error}", target.display(), include.display()));
    #[cfg(not(unix))]
    return Err(format!("{} cannot be linked to {} on this system", target.display(), include.display()));
}

/// Hard-links (or copies) the libraries into a folder, so that a copied folder of binaries still runs.
fn lay_beside(folder: &Path, build: &MlxBuild) -> Result<(), String> {
    for dir in &build.library_dirs {
        let entries = fs::read_dir(dir).map_err(|error| format!("cannot list {}: {error}", dir.display()))?;
        for source in entries.flatten().map(|entry| entry.path()).filter(|path| is_library(path)) {
            let Some(name) = source.file_name() else { continue };
            let target = folder.join(name);
            let _ = fs::remove_file(&target);
            if fs::hard_link(&source, &target).is_err() {
                fs::copy(&source, &target).map_err(|error| {
                    format!("cannot copy {} to {}: {error}", source.display(), target.display())
                })?;
            }
        }
    }
    Ok(())
}

/// A shared library, or the compiled Metal kernels that MLX looks for beside its library.
fn is_library(path: &Path) -> bool {
    let versioned = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so."));
    let suffix = path.extension().unwrap_or_default();
    path.is_file() && (versioned || ["so", "dylib", "metallib"].iter().any(|library| suffix == *library))
}

/// The library's file name on the target.
pub(crate) fn library_name() -> &'static str {
    if variable("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "macos") { "libmlx.dylib" } else { "libmlx.so" }
}

pub(crate) fn library_in(dir: &Path) -> Option<PathBuf> {
    Some(dir.join(library_name())).filter(|path| path.is_file())
}
