//! The table at the end of a sweep.
//!
//! Figures of a row that was measured and is not valid stand in square brackets, so that a reader sees them beside the rule
//! that they broke, and neither reads nor quotes them as the others. What a reader must know before quoting a number stands in
//! a footnote beneath, with the number of repetitions behind each figure in the table.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::row::{AnyRow, BuildType, Figures};
use crate::store::Completeness;
use crate::text::one_line;

const UNKNOWN: &str = "-";
const MIB: f64 = 1024.0 * 1024.0;

/// The table and its footnotes, ending in a line break. `width` is the terminal's in columns; none for as wide as the
/// table gets.
pub fn table(rows: &[AnyRow], completeness: &Completeness, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width {
        table.set_width(width);
    }
    let header = [
        "model",
        "bits",
        "prompt",
        "gen.",
        "prefill tok/s",
        "decode tok/s",
        "n",
        "peak MiB",
        "load ms",
        "status",
    ];
    table.set_header(header);
    for column in 1..header.len() - 1 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let notes = Notes::of(rows, completeness);
    for row in rows {
        table.add_row(cells(row, &notes));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    notes.write(&mut text);
    text
}

fn cells(row: &AnyRow, notes: &Notes) -> Vec<String> {
    let checkpoint = &row.identity().checkpoint;
    let invalid = row.status().is_invalid();
    let figures = row.figures().filter(|_| invalid || row.status().is_ok());
    let marked = |text: String| if invalid && text != UNKNOWN { format!("[{text}]") } else { text };
    let name = format!("{}{}", one_line(&checkpoint.model), notes.marks(row));
    let status = row.status();
    let status = match (status.is_ok(), row.detail()) {
        (true, None) => "ok".to_owned(),
        (true, Some(detail)) => format!("ok: {}", one_line(detail)),
        (false, None) => one_line(&status.to_string()),
        (false, Some(detail)) => format!("{}: {}", one_line(&status.to_string()), one_line(detail)),
    };
    vec![
        name,
        shown(checkpoint.bits_per_weight.as_known(), |bits| format!("{bits:.2}")),
        shown(figures, |figures| figures.prefill().tokens().to_string()),
        shown(figures, |figures| figures.decode().generated().to_string()),
        marked(shown(figures, |figures| rate(figures.prefill().tok_s(), figures.prefill_spread_pct()))),
        marked(shown(figures, |figures| rate(figures.decode().tok_s(), figures.decode_spread_pct()))),
        shown(figures, |figures| figures.reps().to_string()),
        marked(shown(figures.and_then(Figures::peak_memory_bytes), |bytes| {
            format!("{:.1}", bytes as f64 / MIB)
        })),
        shown(row.load_nanos(), |nanos| format!("{:.0}", nanos as f64 / 1e6)),
        status,
    ]
}

fn shown<T>(value: Option<T>, form: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), form)
}

fn rate(tok_s: Option<f64>, spread_pct: Option<f64>) -> String {
    match (tok_s, spread_pct) {
        (None, _) => UNKNOWN.to_owned(),
        (Some(rate), None) => format!("{rate:.2}"),
        (Some(rate), Some(spread)) => format!("{rate:.2} ({spread:.1}%)"),
    }
}

/// What must be said beneath the table, and the mark of each remark that holds for some rows only.
struct Notes {
    remarks: Vec<Remark>,
    general: Vec<String>,
}

struct Remark {
    mark: char,
    applies: fn(&AnyRow) -> bool,
    text: &'static str,
}

const REMARKS: [Remark; 6] = [
    Remark {
        mark: 'x',
        applies: |row| row.status().is_invalid() && row.figures().is_some(),
        text: "not valid, by the rule in its status: the figures in square brackets show what was read, and are not to be quoted \
               or compared",
    },
    Remark {
        mark: '*',
        applies: |row| row.identity().checkpoint.synthetic.as_known() == Some(&true),
        text: "synthetic checkpoint: made-up weights, no trained model",
    },
    Remark {
        mark: '!',
        applies: |row| row.identity().run.stale_binary_allowed,
        text: "stale binary allowed: the executable was not shown to match the source tree",
    },
    Remark {
        mark: '+',
        applies: |row| row.identity().build.is_dirty() != Some(false),
        text: "the sources of the executable differ from its commit, or the commit is unknown",
    },
    Remark {
        mark: '#',
        applies: |row| row.identity().build.build_type == BuildType::Debug,
        text: "debug build: not a measure of speed",
    },
    Remark {
        mark: '1',
        applies: |row| row.as_measured().is_some_and(|row| row.figures().reps() == 1),
        text: "one repetition: no spread is known",
    },
];

impl Notes {
    fn of(rows: &[AnyRow], completeness: &Completeness) -> Self {
        let remarks = REMARKS.into_iter().filter(|remark| rows.iter().any(remark.applies)).collect();
        let mut general = vec![
            "rates are of the lower median repetition, decode = (generated - 1) / time; in brackets the spread, 100 * \
             (max - min) / median, of n repetitions"
                .to_owned(),
        ];
        if let Completeness::Partial { reason, torn } = completeness {
            let reason = reason.as_deref().map_or_else(|| "the run did not end".to_owned(), one_line);
            general.push(format!("PARTIAL: {reason}; rows are missing"));
            if *torn {
                general.push("the file ends within a row, which is not shown".to_owned());
            }
        }
        let valid = rows.iter().filter(|row| row.as_measured().is_some()).count();
        general.push(format!("{valid} of {} rows are valid measurements", rows.len()));
        Self { remarks, general }
    }

    fn marks(&self, row: &AnyRow) -> String {
        let marks: String =
            self.remarks.iter().filter(|remark| (remark.applies)(row)).map(|remark| remark.mark).collect();
        if marks.is_empty() { marks } else { format!(" [{marks}]") }
    }

    fn write(&self, text: &mut String) {
        for remark in &self.remarks {
            // OK to ignore: writing to a String does not fail.
            let _ = writeln!(text, "[{}] {}", remark.mark, remark.text);
        }
        for line in &self.general {
            text.push_str(line);
            text.push('\n');
        }
    }
}
