//! Stamps the crate with the sources it was built from, and sets the run path on which its binaries find MLX.

use std::env;

fn main() {
    mlxcel_build_stamp::emit(&[
        "Cargo.toml",
        "Cargo.lock",
        ".cargo",
        "runtime",
        "catalog/Cargo.toml",
        "catalog/src",
    ]);

    let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    if let Some(version) = std::fs::read_to_string(lock).ok().as_deref().and_then(mlx_rs_version) {
        println!("cargo::rustc-env=MLXCEL_MLX_RS_VERSION={version}");
    }

    // Given by mlx-sys, through its `links` key; handed on to the harness through ours.
    let rpaths = env::var("DEP_MLX_RPATHS").unwrap_or_default();
    println!("cargo::metadata=rpaths={rpaths}");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // RPATH rather than RUNPATH: it is searched for libmlx's own dependencies too.
        println!("cargo::rustc-link-arg=-Wl,--disable-new-dtags");
    }
    for rpath in rpaths.split(';').filter(|rpath| !rpath.is_empty()) {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{rpath}");
    }
}

/// The version of mlx-rs that the lock file names.
fn mlx_rs_version(lock: &str) -> Option<&str> {
    let entry = lock.split("[[package]]").find(|entry| entry.contains("\nname = \"mlx-rs\"\n"))?;
    entry.split("version = \"").nth(1)?.split('"').next()
}
