//! Embeds what the harness is built from, and lets the binary find the MLX library where the runtime found
//! it.

use std::env;

fn main() {
    mlxcel_build_stamp::emit(&[
        "Cargo.toml",
        "Cargo.lock",
        ".cargo",
        "runtime",
        // The catalog file and the fuzzing corpora lie in the same folder and are no part of the program.
        "catalog/Cargo.toml",
        "catalog/src",
        "reports",
        "harness",
    ]);
    link_run_paths();
}

/// Link arguments of a library do not reach the binaries that use it, so the runtime hands its run paths on
/// and each binary sets them.
fn link_run_paths() {
    println!("cargo:rerun-if-env-changed=DEP_MLXCEL_RPATHS");
    let Ok(paths) = env::var("DEP_MLXCEL_RPATHS") else {
        return;
    };
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // As DT_RPATH rather than DT_RUNPATH: it also holds for the libraries that the MLX library itself
        // needs.
        println!("cargo:rustc-link-arg=-Wl,--disable-new-dtags");
    }
    for path in paths.split(';').filter(|path| !path.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{path}");
    }
}
