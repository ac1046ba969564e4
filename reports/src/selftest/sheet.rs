//! Small result files for the corpus: a flawless row of the current layout, and rows of the historical ones, in which a
//! case changes what it is about.

use crate::wire;

/// Rows of the newest layout; each starts flawless.
#[derive(Debug, Clone)]
pub(super) struct Sheet {
    rows: Vec<Vec<(&'static str, String)>>,
}

/// The cells of a flawless row, by column; columns that are not named are empty.
const FLAWLESS: [(&str, &str); 58] = [
    ("model", "alpha-4bit"),
    ("model_path", "models/alpha-4bit"),
    ("prompt_tokens", "512"),
    ("generated_tokens", "128"),
    ("prefill_ms", "256.000000"),
    ("prefill_tok_s", "2000.000000"),
    ("decode_ms", "1270.000000"),
    ("decode_tok_s", "100.000000"),
    ("date", "2026-11-20"),
    ("hardware", "Apple_M5_Max_128GB"),
    ("mlxcel_version", "0.1.0"),
    ("build_type", "release"),
    ("max_tokens", "128"),
    ("prompt", "synthetic:v1"),
    ("prompt_target_len", "512"),
    ("mlxcel_commit", "11111111"),
    ("mlx_commit", "aaaaaaaa"),
    ("schema_version", "4"),
    ("run_id", "run"),
    ("harness", "text"),
    ("backend", "metal"),
    ("reps", "3"),
    ("decode_spread_pct", "1"),
    ("prefill_spread_pct", "1"),
    ("peak_memory_bytes", "1000000"),
    ("load_ms", "5.000000"),
    ("warmup_tokens", "128"),
    ("batch_size", "1"),
    ("kv_mode", "bf16"),
    ("order_index", "0"),
    ("os", "macOS 26.5"),
    ("started_at", "2026-11-20T12:00:00Z"),
    ("prefill_ns", "256000000"),
    ("decode_ns", "1270000000"),
    ("decode_steps", "127"),
    ("prefill_chunk", "2048"),
    ("sampling", "greedy"),
    ("eos_policy", "suppress"),
    ("checkpoint_id_level", "2"),
    ("checkpoint_id", "cccc"),
    ("prompt_sha256", "dddd"),
    ("kernels", "mlx"),
    ("features", "none"),
    ("target_cpu", "native"),
    ("libmlx_sha256", "7777"),
    ("mlx_version", "0.32.1"),
    ("host_id", "eeee"),
    ("stale_binary_allowed", "false"),
    ("finish", "length"),
    ("output_sha256", "9999"),
    ("cached_prompt_tokens", "0"),
    ("control_model", "alpha-4bit"),
    ("control_drift_pct", "1.5"),
    ("control_band_pct", "4"),
    ("attempts", "1"),
    ("max_spread_pct", "4"),
    ("quiet_limit_pct", "15"),
    ("usable_cores", "16"),
];

impl Sheet {
    /// Two flawless rows of two checkpoints.
    pub(super) fn flawless() -> Self {
        let row = || FLAWLESS.iter().map(|(column, text)| (*column, (*text).to_owned())).collect::<Vec<_>>();
        let mut sheet = Self { rows: vec![row(), row()] };
        for (column, text) in [
            ("model", "beta-4bit"),
            ("model_path", "models/beta-4bit"),
            ("checkpoint_id", "ffff"),
            ("order_index", "1"),
        ] {
            sheet.set_in(1, column, text);
        }
        sheet
    }

    /// The same with other cells in every row.
    pub(super) fn with(mut self, cells: &[(&'static str, &str)]) -> Self {
        for row in 0..self.rows.len() {
            for (column, text) in cells {
                self.set_in(row, column, text);
            }
        }
        self
    }

    /// The same with other cells in the first row.
    pub(super) fn with_first(mut self, cells: &[(&'static str, &str)]) -> Self {
        for (column, text) in cells {
            self.set_in(0, column, text);
        }
        self
    }

    /// The same with every row excluded by this status.
    pub(super) fn excluded(self, status: &str) -> Self {
        self.with(&[
            ("status", status),
            ("prefill_ms", ""),
            ("prefill_tok_s", ""),
            ("decode_ms", ""),
            ("decode_tok_s", ""),
        ])
    }

    /// The same with the first row once more at the end.
    pub(super) fn with_first_twice(mut self) -> Self {
        if let Some(row) = self.rows.first().cloned() {
            self.rows.push(row);
        }
        self
    }

    fn set_in(&mut self, row: usize, column: &'static str, text: &str) {
        if let Some(row) = self.rows.get_mut(row) {
            row.retain(|(name, _)| *name != column);
            row.push((column, text.to_owned()));
        }
    }

    /// As a file.
    pub(super) fn text(&self) -> String {
        let mut text = wire::header_line();
        for row in &self.rows {
            let cell = |column: &&str| {
                row.iter().find(|(name, _)| name == column).map(|(_, text)| text.as_str()).unwrap_or_default()
            };
            text.push_str(&wire::COLUMNS.iter().map(cell).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
        text
    }
}

/// Header of the oldest layout with its version column's name.
pub(super) fn sweep_14(version: &str) -> String {
    format!(
        "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,hardware,\
         {version},build_type,max_tokens,prompt\n"
    )
}

/// Header of the layout with commits.
pub(super) fn sweep_17() -> String {
    sweep_14("mlxcel_version").trim_end().to_owned() + ",prompt_target_len,mlxcel_commit,mlx_commit\n"
}
