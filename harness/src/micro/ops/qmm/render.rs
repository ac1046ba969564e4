//! A report for people. As JSON it is what its types say.

use std::fmt::Write as _;

use super::{QmmRow, Report};
use crate::host::llc::LlcSource;
use crate::micro::columns::{Column, lines};
use crate::text::bytes;

const COLUMNS: [Column; 13] = [
    ("kernel", true),
    ("weight", true),
    ("dtype", true),
    ("M", false),
    ("NxK", true),
    ("ms", false),
    ("q3-q1 %", false),
    ("reps", false),
    ("GB/s", false),
    ("% read", false),
    ("GFLOP/s", false),
    ("% peak", false),
    ("x MLX", false),
];

/// The table, with what the host can do at best above it.
pub fn table(report: &Report) -> String {
    let mut text = head(report);
    text.push_str(&lines(COLUMNS, report.rows.iter().map(cells)));
    for reason in reasons(report) {
        // OK to ignore: writing to a String does not fail.
        let _ = writeln!(text, "{reason}");
    }
    text
}

fn head(report: &Report) -> String {
    let host = &report.host;
    let unknown = || "unknown".to_owned();
    let cache = host.last_level_cache.as_ref().map_or_else(unknown, |cache| {
        let source = match cache.source {
            LlcSource::Variable => ", as told",
            LlcSource::System => "",
            LlcSource::Table => ", estimated",
        };
        format!("{}{source}", bytes(cache.bytes))
    });
    let reading = &report.read_bandwidth;
    let products: Vec<String> = report
        .f32_products
        .iter()
        .map(|product| format!("{} {:.1}", product.by, product.gflop_per_s))
        .collect();
    format!(
        "host            {}, last-level cache {cache}, threads {}{}\n\
         kernels         mlxcel-{} ({} for 2 to {} rows), MLX {}\n\
         read bandwidth  {:.1} GB/s (before {:.1}, after {:.1})\n\
         f32 peak        {:.1} GFLOP/s by {} ({})\n\n",
        host.hardware.clone().unwrap_or_else(unknown),
        host.threads,
        if host.optimized { "" } else { "; compiled WITHOUT optimizations" },
        host.isa,
        host.width,
        host.small_rows,
        host.mlx_version.clone().unwrap_or_else(unknown),
        reading.peak_gb_per_s(),
        reading.before_gb_per_s,
        reading.after_gb_per_s,
        report.f32_peak.gflop_per_s,
        report.f32_peak.by,
        products.join("; ")
    )
}

fn cells(row: &QmmRow) -> [String; 13] {
    let figures = row.figures.as_ref();
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), significant);
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
    let weight = row.group_size.map_or_else(
        || row.mode.clone(),
        |group_size| format!("{} {}b g{group_size}{}", row.mode, row.bits, scales(row)),
    );
    [
        row.kernel.clone(),
        weight,
        row.dtype.to_owned(),
        row.m.to_string(),
        format!("{}x{}", row.n, row.k),
        number(figures.map(|figures| figures.median_ms)),
        percent(figures.and_then(|figures| figures.quartile_spread_pct)),
        figures.map_or_else(
            || "-".to_owned(),
            |figures| match figures.products_a_repetition {
                1 => figures.repetitions.to_string(),
                products => format!("{}·{products}", figures.repetitions),
            },
        ),
        number(figures.map(|figures| figures.gb_per_s)),
        percent(figures.map(|figures| figures.read_bandwidth_pct)),
        number(figures.map(|figures| figures.gflop_per_s)),
        percent(figures.map(|figures| figures.f32_peak_pct)),
        number(row.times_mlx),
    ]
}

/// The data type of scales, where it is not that of the activations.
fn scales(row: &QmmRow) -> String {
    row.scales_dtype
        .filter(|scales| *scales != row.dtype)
        .map_or_else(String::new, |scales| format!(" {scales}"))
}

fn reasons(report: &Report) -> Vec<String> {
    let rows = report.rows.iter();
    let mut lines: Vec<String> = rows
        .filter_map(|row| {
            let reason = row.not_measured.as_ref()?;
            Some(format!(
                "{} M {} {}x{} {}: not measured: {reason}",
                row.kernel, row.m, row.n, row.k, row.dtype
            ))
        })
        .collect();
    if report.rows.iter().any(|row| row.copies == 1) {
        lines.push(
            "One copy of the weight was read again and again (--warm): GB/s may be a cache's.".to_owned(),
        );
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// Three significant digits.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        value if value >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::ops::qmm::{Figures, Host};
    use crate::micro::peaks::{Arithmetic, Reading};

    fn report() -> Report {
        let arithmetic = Arithmetic { gflop_per_s: 90.0, by: "mlxcel-avx2 dense f32".to_owned() };
        let figures = Figures {
            repetitions: 40,
            products_a_repetition: 3,
            median_ms: 0.125,
            min_ms: 0.12,
            max_ms: 0.5,
            first_quartile_ms: Some(0.1225),
            third_quartile_ms: Some(0.1275),
            quartile_spread_pct: Some(4.0),
            block_medians_ms: vec![0.125, 0.125],
            gb_per_s: 12.34,
            gflop_per_s: 5.6,
            read_bandwidth_pct: 77.1,
            f32_peak_pct: 6.2,
        };
        let ours = QmmRow {
            kernel: "mlxcel-avx2".to_owned(),
            width: None,
            mode: "affine".to_owned(),
            bits: 4,
            group_size: Some(64),
            dtype: "bf16",
            scales_dtype: Some("f32"),
            m: 1,
            n: 2048,
            k: 576,
            weight_bytes: 1000,
            copies: 7,
            figures: Some(figures),
            not_measured: None,
            times_mlx: Some(123.4),
            largest_difference: Some(0.001),
        };
        let mlx = QmmRow {
            kernel: "mlx".to_owned(),
            figures: None,
            not_measured: Some("it would take all day".to_owned()),
            times_mlx: None,
            largest_difference: None,
            ..ours.clone()
        };
        Report {
            schema_version: 1,
            host: Host {
                hardware: Some("AMD_EPYC_24GB".to_owned()),
                last_level_cache: None,
                threads: 2,
                isa: "avx2".to_owned(),
                width: "wide",
                small_rows: 16,
                mlx_version: Some("0.32.2".to_owned()),
                libmlx_sha256: None,
                mlxcel_version: "0.1.0".to_owned(),
                executable_sha256: None,
                mlxcel_commit: None,
                optimized: true,
            },
            read_bandwidth: Reading {
                before_gb_per_s: 15.0,
                after_gb_per_s: 16.0,
                buffer_bytes: 1 << 29,
                threads: 2,
            },
            f32_peak: arithmetic.clone(),
            f32_products: vec![arithmetic],
            rows: vec![ours, mlx],
        }
    }

    #[test]
    fn the_table_shows_every_figure_and_why_there_is_none() {
        let text = table(&report());
        let line =
            |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
        let of = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(
            of(line("mlxcel-avx2")),
            "mlxcel-avx2 affine 4b g64 f32 bf16 1 2048x576 0.125 4.0 40·3 12.3 77.1 5.60 6.2 123"
        );
        assert_eq!(of(line("mlx  ")), "mlx affine 4b g64 f32 bf16 1 2048x576 - - - - - - - -");
        assert_eq!(line("read bandwidth"), "read bandwidth  16.0 GB/s (before 15.0, after 16.0)");
        assert!(text.contains("mlx M 1 2048x576 bf16: not measured: it would take all day"), "{text}");
        assert!(text.contains("mlxcel-avx2 (wide for 2 to 16 rows), MLX 0.32.2"), "{text}");
        assert!(!text.contains("--warm"), "{text}");
    }

    #[test]
    fn the_json_document_has_these_keys() -> serde_json::Result<()> {
        let document = serde_json::to_value(report())?;
        let keys = |value: &serde_json::Value| {
            value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            keys(&document).as_deref(),
            Some("schema_version host read_bandwidth f32_peak f32_products rows")
        );
        assert_eq!(
            keys(&document["rows"][0]).as_deref(),
            Some(
                "kernel width mode bits group_size dtype scales_dtype m n k weight_bytes copies figures not_measured times_mlx \
                 largest_difference"
            )
        );
        assert_eq!(
            keys(&document["rows"][0]["figures"]).as_deref(),
            Some(
                "repetitions products_a_repetition median_ms min_ms max_ms first_quartile_ms third_quartile_ms \
                 quartile_spread_pct block_medians_ms gb_per_s gflop_per_s read_bandwidth_pct f32_peak_pct"
            )
        );
        assert_eq!(document["rows"][1]["figures"], serde_json::Value::Null);
        assert_eq!(
            keys(&document["read_bandwidth"]).as_deref(),
            Some("before_gb_per_s after_gb_per_s buffer_bytes threads")
        );
        Ok(())
    }
}
