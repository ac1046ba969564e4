//! `micro qmm` for real: a tiny product on both sides, and bad input.
#![cfg(feature = "runtime")]

use std::error::Error;
use std::process::{Command, Output};

use serde_json::Value;

fn qmm(flags: &[&str], environment: &[(&str, &str)]) -> std::io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"))
        .args(["micro", "qmm"])
        .args(flags)
        .env_remove("MLXCEL_QMV_WIDE")
        .env_remove("MLXCEL_CPU_ISA")
        .env_remove("MLXCEL_CPU_KERNELS")
        .env("MLXCEL_BENCH_LLC_BYTES", "1048576")
        .envs(environment.iter().copied())
        .output()
}

/// What `flags` are refused with, and the exit code.
fn refused(flags: &[&str], environment: &[(&str, &str)]) -> Result<(Option<i32>, String), Box<dyn Error>> {
    let output = qmm(flags, environment)?;
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

#[test]
fn a_tiny_product_is_measured_whatever_the_switch_of_our_kernels_says() -> Result<(), Box<dyn Error>> {
    let flags = [
        "--shape",
        "256x128",
        "--rows",
        "3,20",
        "--mode",
        "affine,dense",
        "--dtype",
        "f32",
        "--seconds",
        "0.02",
        "--mlx-limit",
        "60",
        "--format",
        "json",
    ];
    let output = qmm(
        &flags,
        &[("MLXCEL_CPU_KERNELS", "0"), ("MLXCEL_QMV_WIDE", "0"), ("MLXCEL_CPU_ISA", "portable")],
    )?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let rows = report["rows"].as_array().ok_or("no rows")?;
    let kernels: Vec<&str> = rows.iter().filter_map(|row| row["kernel"].as_str()).collect();
    assert_eq!(kernels, ["mlxcel-portable", "mlx"].repeat(4));
    assert_eq!(report["host"]["width"], "narrow");
    // The width counts for up to 16 rows, and for our kernels.
    let widths: Vec<&Value> = rows.iter().map(|row| &row["width"]).collect();
    let narrow = Value::from("narrow");
    assert_eq!(widths, [&narrow, &Value::Null, &Value::Null, &Value::Null].repeat(2), "{report}");
    for row in rows {
        let figures = &row["figures"];
        let number = |key: &str| figures[key].as_f64().unwrap_or(f64::NAN);
        assert!(number("median_ms") > 0.0 && number("median_ms") <= number("max_ms"), "{row}");
        assert!((0.0..=100.0001).contains(&number("f32_peak_pct")), "{row}");
        let bytes = row["weight_bytes"].as_f64().unwrap_or(f64::NAN);
        let rate = bytes / number("median_ms") / 1e6;
        assert!((number("gb_per_s") / rate - 1.0).abs() < 1e-9, "{row}");
        // Four times the cache of one mebibyte.
        let copies = row["copies"].as_f64().unwrap_or(f64::NAN);
        assert!(copies * bytes >= f64::from(4 << 20) && (copies - 1.0) * bytes < f64::from(4 << 20), "{row}");
        let ours = row["kernel"] != "mlx";
        assert_eq!(row["times_mlx"].as_f64().is_some_and(|times| times > 0.0), ours, "{row}");
        assert_eq!(row["largest_difference"].as_f64().is_some_and(|share| share < 1e-4), ours, "{row}");
    }
    Ok(())
}

#[test]
fn bad_input_is_refused_in_words_before_anything_is_measured() -> Result<(), Box<dyn Error>> {
    for (flags, code, words) in [
        (&["--bits", "7"][..], 64, "must be one of 2, 3, 4, 5, 6, 8"),
        (&["--rows", "0"], 64, "a product of 0 rows computes nothing"),
        (&["--shape", "64x96"], 4, "no whole number of groups of 64"),
        (&["--mode", "dense", "--bits", "4"], 4, "of the affine mode"),
    ] {
        let (exit, stderr) = refused(flags, &[])?;
        assert!(exit == Some(code) && stderr.contains(words), "{flags:?}: {exit:?} {stderr}");
    }
    for (name, words) in [("MLXCEL_QMV_WIDE", "must be 0 or 1"), ("MLXCEL_CPU_ISA", "this processor has")] {
        let (exit, stderr) = refused(&["--shape", "64x64"], &[(name, "banana")])?;
        assert!(exit == Some(4) && stderr.contains("banana") && stderr.contains(words), "{name}: {stderr}");
    }
    let (exit, stderr) = refused(&["--shape", "64x64"], &[("MLXCEL_BENCH_LLC_BYTES", "much")])?;
    assert!(exit == Some(4) && stderr.contains("MLXCEL_BENCH_LLC_BYTES"), "{stderr}");
    Ok(())
}
