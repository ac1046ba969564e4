//! A million lines one after another: of each only the columns are read that are not as in the line before, and nothing is kept.
//!
//! Only lines that leave no doubt are taken: one record a line, quotes where they must be. At the first that does, and at the
//! first fault, the reader stops, and whoever asked reads the file as a whole, which tells what is wrong with it.

use super::layout::{self, WireRow};
use super::light::Light;
use super::{COLUMNS, VERSION_COLUMN, convert};
use crate::row::AnyRow;

/// Columns that differ from row to row of one run. All others say what was run, by what, on what.
const OF_EACH_ROW: [&str; 65] = [
    "model",
    "model_path",
    "prompt_tokens",
    "generated_tokens",
    "prefill_ms",
    "prefill_tok_s",
    "decode_ms",
    "decode_tok_s",
    "status",
    "status_detail",
    "reps",
    "decode_spread_pct",
    "prefill_spread_pct",
    "peak_memory_bytes",
    "load_ms",
    "warmup_tokens",
    "order_index",
    "started_at",
    "prefill_ns",
    "decode_ns",
    "decode_steps",
    "model_type",
    "weight_dtype",
    "bits_per_weight",
    "parameters",
    "weight_bytes",
    "quantization",
    "synthetic",
    "checkpoint_id_level",
    "checkpoint_id",
    "tokenizer_sha256",
    "prompt_sha256",
    "prompt_requested_len",
    "context_length",
    "memory_estimate_bytes",
    "memory_budget_bytes",
    "load_peak_memory_bytes",
    "warmup_peak_memory_bytes",
    "worker_peak_memory_bytes",
    "decode_bytes_per_token",
    "implied_bandwidth_bytes_s",
    "stream_bandwidth_bytes_s",
    "bandwidth_pct",
    "cooldown_ms",
    "quiet_gate",
    "quiet_wait_ms",
    "contended_pct",
    "thermal_start",
    "thermal_worst",
    "thermal_end",
    "power",
    "swap_growth_bytes",
    "uptime_s",
    "noise_floor_pct",
    "finish",
    "output_sha256",
    "cached_prompt_tokens",
    "control_model",
    "control_drift_pct",
    "control_band_pct",
    "run_id",
    "executable_sha256",
    "attempts",
    "max_spread_pct",
    "quiet_limit_pct",
];

/// A line taken apart: where each cell begins and ends in the text.
#[derive(Default)]
struct Cells {
    text: String,
    bounds: Vec<(usize, usize)>,
}

impl Cells {
    fn cells(&self) -> impl Iterator<Item = &str> {
        self.bounds.iter().map(|(start, end)| self.text.get(*start..*end).unwrap_or_default())
    }

    /// The bytes of each cell, which are told apart faster than texts are.
    fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.text.as_bytes();
        self.bounds.iter().map(|(start, end)| bytes.get(*start..*end).unwrap_or_default())
    }

    fn get(&self, index: usize) -> &str {
        self.bounds.get(index).and_then(|(start, end)| self.text.get(*start..*end)).unwrap_or_default()
    }

    /// Takes a line apart; false where it is no whole record by itself.
    fn read(&mut self, line: &str) -> bool {
        self.text.clear();
        self.bounds.clear();
        if !line.contains('"') {
            self.text.push_str(line);
            let mut start = 0;
            for (at, byte) in line.bytes().enumerate() {
                if byte == b',' {
                    self.bounds.push((start, at));
                    start = at + 1;
                }
            }
            self.bounds.push((start, line.len()));
            return true;
        }
        let mut rest = line;
        loop {
            let start = self.text.len();
            if let Some(quoted) = rest.strip_prefix('"') {
                let Some(after) = self.quoted(quoted) else { return false };
                rest = after;
            } else {
                let (cell, _) = rest.split_once(',').unwrap_or((rest, ""));
                if cell.contains('"') {
                    return false;
                }
                self.text.push_str(cell);
                rest = rest.get(cell.len()..).unwrap_or_default();
            }
            self.bounds.push((start, self.text.len()));
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return rest.is_empty(),
            }
        }
    }

    /// Reads up to the closing quote, and hands back what follows it.
    fn quoted<'l>(&mut self, mut rest: &'l str) -> Option<&'l str> {
        loop {
            let (part, after) = rest.split_once('"')?;
            self.text.push_str(part);
            match after.strip_prefix('"') {
                Some(more) => {
                    self.text.push('"');
                    rest = more;
                }
                None => return Some(after),
            }
        }
    }
}

/// Reads lines of one version, one after another.
pub(crate) struct RowStream {
    version: u32,
    columns: usize,
    is_of_each_row: Vec<bool>,
    now: Cells,
    before: Cells,
    row: Option<WireRow>,
    same_run: bool,
}

impl RowStream {
    /// For lines beneath this header; none where it is that of no version.
    pub(crate) fn of_header(header: &str) -> Option<Self> {
        let record = csv::StringRecord::from(header.split(',').collect::<Vec<_>>());
        let version = layout::version_of(&record)?;
        let columns = layout::columns(version)?;
        debug_assert!(columns.contains(&VERSION_COLUMN));
        Some(Self {
            version,
            columns: columns.len(),
            is_of_each_row: columns.iter().map(|column| OF_EACH_ROW.contains(column)).collect(),
            now: Cells::default(),
            before: Cells::default(),
            row: None,
            same_run: false,
        })
    }

    /// Version of the lines.
    pub(crate) const fn version(&self) -> u32 {
        self.version
    }

    /// Reads one line, without its end. None where it must be looked at otherwise.
    pub(crate) fn next(&mut self, line: &str) -> Option<()> {
        std::mem::swap(&mut self.now, &mut self.before);
        if !self.now.read(line) || self.now.bounds.len() != self.columns {
            return None;
        }
        if let Some(row) = &mut self.row {
            self.same_run = true;
            let pairs = self.now.bytes().zip(self.before.bytes()).zip(&self.is_of_each_row);
            for (index, ((now, before), is_of_each_row)) in pairs.enumerate() {
                if now != before {
                    row.set(index, self.now.get(index)).ok()?;
                    self.same_run &= is_of_each_row;
                }
            }
        } else {
            let mut cells: Vec<String> = self.now.cells().map(str::to_owned).collect();
            cells.resize(COLUMNS.len(), String::new());
            self.row = Some(WireRow::from_cells(&cells).ok()?);
        }
        Some(())
    }

    /// The line that was read last; none where a row would refuse it.
    pub(crate) fn last(&self) -> Option<Light<'_>> {
        Light::of_line(self.row.as_ref()?, self.version).ok()
    }

    /// What was run, by what and on what is as in the line before.
    pub(crate) const fn is_of_same_run(&self) -> bool {
        self.same_run
    }

    /// The line that was read last as a row.
    pub(crate) fn row(&self) -> Option<AnyRow> {
        convert::row(self.row.clone()?, self.version).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_columns_of_each_row_are_columns() {
        for column in OF_EACH_ROW {
            assert!(COLUMNS.contains(&column), "{column}");
        }
    }

    proptest! {
        #[test]
        fn a_line_is_taken_apart_as_a_csv_reader_does_it_or_not_at_all(line in "[ab\",]{0,12}") {
            let mut cells = Cells::default();
            if cells.read(&line) && !line.is_empty() {
                let mut reader =
                    csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
                let records: Vec<_> = reader.records().map_while(Result::ok).collect();
                prop_assert_eq!(records.len(), 1);
                prop_assert!(cells.cells().eq(records[0].iter()), "{:?}", records);
            }
        }
    }
}
