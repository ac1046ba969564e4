//! Files of any layout as records: what tools and people do to CSV files, and no byte that makes the reader fall over.

use std::fmt::Write as _;

use mlxcel_reports::history::{self, HistoryError, SourceFile};
use mlxcel_reports::record::{Fact, Field, Harness, Metric, Outcome};
use proptest::prelude::*;

const HEADER: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                      hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit";

const ROW: &str = "alpha-4bit,./models/alpha-4bit/,735,128,263.61,2788.19,1138.69,112.41,2026-09-09,Apple_M5_Max_128GB,0.7.0,\
                   release,128,\"Hello, how are you today?\",,f85898eb,9a795735";

fn read(text: &str) -> SourceFile {
    history::read_bytes("metal_m5max_2026-09-09.csv", text.as_bytes())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn rules(file: &SourceFile) -> Vec<(&'static str, Option<u64>)> {
    file.problems.iter().map(|problem| (problem.rule, problem.line)).collect()
}

/// The row with another cell in one column.
fn with(column: &str, text: &str) -> String {
    let index =
        HEADER.split(',').position(|name| name == column).expect("OK because the column is in the header");
    let mut cells: Vec<String> = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(ROW.as_bytes())
        .records()
        .flat_map(|record| {
            record.expect("OK because the row is CSV").iter().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    text.clone_into(&mut cells[index]);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&cells).expect("OK because it goes to memory");
    String::from_utf8(writer.into_inner().expect("OK because it goes to memory"))
        .expect("OK because cells are UTF-8")
}

#[test]
fn a_row_becomes_a_record_with_units() {
    let file = read(&format!("{HEADER}\n{ROW}\n"));
    let record = &file.records[0];
    assert_eq!(record.line, 2);
    assert_eq!(record.model_path.as_deref(), Some("models/alpha-4bit"));
    assert_eq!(record.decode_nanos, Some(1_138_690_000));
    assert_eq!(record.prefill_nanos, Some(263_610_000));
    // 127 steps in 1138.69 ms, where the file's own rate counts 128.
    let rate = record.value(Metric::Decode).expect("OK because counts and times are there");
    assert!((rate - 111.531_672).abs() < 1e-5, "{rate}");
    assert_eq!(record.facts.known(Field::RuntimeVersion), Some("0.7.0"));
    assert_eq!(record.facts.known(Field::Commit), Some("f85898eb"));
    assert_eq!(record.facts.known(Field::PromptTarget), Some("none"));
    assert_eq!(record.facts.get(Field::KvMode), &Fact::NotRecorded);
    assert_eq!(record.facts.harness, Harness::Text);
    assert_eq!(file.layout, "sweep-17");
    assert!(file.problems.is_empty(), "{:?}", file.problems);
}

#[test]
fn line_ends_marks_and_comments_change_nothing() {
    let plain = read(&format!("{HEADER}\n{ROW}\n"));
    for text in [
        format!("{HEADER}\r\n{ROW}\r\n"),
        format!("\u{feff}{HEADER}\n{ROW}\n"),
        format!("{HEADER}\n{ROW}"),
        format!("{HEADER}\n\n\n{ROW}\n\n"),
        format!("\r\n{HEADER}\r\n\r\n{ROW}\r\n\r\n"),
        format!("# a remark, with a comma\n# another \"one\n{HEADER}\n{ROW}\n"),
        format!("\u{feff}# a remark\r\n{HEADER}\r\n{ROW}\r\n"),
    ] {
        let file = read(&text);
        assert_eq!(file.records.len(), 1, "{text:?}");
        assert_eq!(file.records[0].facts.known(Field::MlxCommit), Some("9a795735"), "{text:?}");
        assert_eq!(file.records[0].decode_nanos, plain.records[0].decode_nanos, "{text:?}");
        let line = text.lines().position(|line| line.starts_with("alpha")).map(|index| index as u64 + 1);
        assert_eq!(Some(file.records[0].line), line, "{text:?}");
    }
}

#[test]
fn quotes_commas_and_line_breaks_in_a_prompt_are_part_of_it() {
    for prompt in ["Say \"hi\", twice", "a\nb", "a,b,c", "\"", "日本語, ok"] {
        let file = read(&format!("{HEADER}\n{}{ROW}\n", with("prompt", prompt)));
        assert_eq!(file.records[0].facts.known(Field::Prompt), Some(prompt));
        assert_eq!(file.records.len(), 2);
        let expected = 3 + prompt.matches('\n').count() as u64;
        assert_eq!(file.records[1].line, expected, "{prompt:?}");
    }
}

#[test]
fn the_unnamed_field_after_the_last_column_is_the_status() {
    let failed = "alpha-4bit,./models/alpha-4bit/,,,,,,,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,128,Hi,,f85898eb,9a795735";
    let file =
        read(&format!("{HEADER}\n{failed},FAIL:bench\n{failed},SKIP:oom\n{failed},FAIL:exit\n{ROW},\n"));
    let outcomes: Vec<String> = file.records.iter().map(|record| record.outcome.shown()).collect();
    assert_eq!(outcomes, ["FAIL:bench", "SKIP:oom", "FAIL:exit", "ok"]);
    assert!(file.records[1].outcome.is_skip());
    assert!(matches!(file.records[2].outcome, Outcome::Foreign(_)), "an old word was not kept");
}

#[test]
fn a_row_that_cannot_be_read_is_kept_and_named_by_line_and_column() {
    for (column, text) in [
        ("decode_ms", "NaN"),
        ("decode_ms", "inf"),
        ("decode_tok_s", "-1"),
        ("prefill_ms", "1e300"),
        ("decode_ms", "~21"),
        ("prompt_tokens", "735.5"),
        ("prompt_tokens", "-3"),
        ("generated_tokens", "99999999999999999999"),
        ("generated_tokens", "0x80"),
        ("model", ""),
    ] {
        let file = read(&format!("{HEADER}\n{ROW}\n{}", with(column, text)));
        assert_eq!(file.records.len(), 2, "{column}={text}: a row was dropped");
        assert!(matches!(file.records[1].outcome, Outcome::Unreadable(_)), "{column}={text} was read");
        let problem = file.problems.iter().find(|problem| problem.rule == "unreadable_cell");
        let problem = problem.unwrap_or_else(|| panic!("{column}={text}: nobody was told"));
        assert_eq!(problem.line, Some(3));
        assert!(problem.message.contains(&format!("`{column}`")), "{}", problem.message);
    }
}

#[test]
fn a_date_that_is_none_is_named_and_unknown() {
    for text in ["2026-02-30", "2025-02-29", "2026-13-01", "20260909", "09/09/2026"] {
        let file = read(&format!("{HEADER}\n{}", with("date", text)));
        assert_eq!(file.records[0].facts.date, None, "{text}");
        assert!(file.problems.iter().any(|problem| problem.message.contains("`date`")), "{text}");
    }
    let leap = read(&format!("{HEADER}\n{}", with("date", "2024-02-29")));
    assert!(leap.records[0].facts.date.is_some());
}

#[test]
fn ragged_rows_are_kept_and_named() {
    let short = "alpha-4bit,./models/alpha-4bit/,735";
    let file = read(&format!("{HEADER}\n{short}\n{ROW},not a status\n{ROW},FAIL:bench,more\n"));
    assert_eq!(file.records.len(), 3);
    let ragged: Vec<_> = rules(&file).into_iter().filter(|(rule, _)| *rule == "ragged_row").collect();
    assert_eq!(ragged, [("ragged_row", Some(2)), ("ragged_row", Some(3)), ("ragged_row", Some(4))]);
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let early = with("generated_tokens", "31").replace("112.41", "27.22");
    let zero = with("generated_tokens", "0").replace("alpha", "beta");
    let other = with("mlxcel_commit", "00000000-dirty").replace("alpha", "gamma");
    let file = read(&format!("{HEADER}\n{ROW}\n{early}{zero}{other}"));
    let found = rules(&file);
    for expected in [
        ("duplicate_name", Some(3)),
        ("early_stop", Some(3)),
        ("zero_tokens", Some(4)),
        ("mixed_commits", Some(5)),
        ("dirty_commit", Some(5)),
    ] {
        assert!(found.contains(&expected), "{expected:?} is not among {found:?}");
    }
}

#[test]
fn a_stated_rate_that_does_not_follow_is_named_and_not_used() {
    let file = read(&format!("{HEADER}\n{}", with("decode_tok_s", "298.00")));
    assert!(rules(&file).contains(&("rate_disagrees", Some(2))));
    let rate = file.records[0].value(Metric::Decode).expect("OK because counts and times are there");
    assert!(rate < 112.0, "{rate}");
}

#[test]
fn files_without_rows_and_without_anything_are_told_apart() {
    let header_only = read(&format!("{HEADER}\n"));
    assert!(header_only.records.is_empty());
    assert_eq!(rules(&header_only), [("no_rows", None)]);
    for text in ["", "\u{feff}", "# only a remark\n"] {
        let error = history::read_bytes("x.csv", text.as_bytes()).err();
        assert!(matches!(error, Some(HistoryError::Empty { .. })), "{text:?}: {error:?}");
    }
}

#[test]
fn a_header_of_no_layout_is_named_with_the_column_that_differs() {
    let header = HEADER.replace("decode_ms", "decode_s");
    let error = history::read_bytes("x.csv", format!("{header}\n{ROW}\n").as_bytes()).err();
    let Some(HistoryError::UnknownLayout { line: 1, column: 7, found, expected, .. }) = &error else {
        panic!("{error:?}");
    };
    assert_eq!((found.as_str(), expected.as_str()), ("`decode_s`", "`decode_ms`"));
}

#[test]
fn bytes_that_are_no_text_are_named_by_line_and_column() {
    let mut bytes = format!("{HEADER}\n{ROW}\nalpha,").into_bytes();
    bytes.extend([0xff, 0xfe, b'\n']);
    let error = history::read_bytes("x.csv", &bytes).err();
    assert!(matches!(error, Some(HistoryError::NotCsv { line: 3, column: 2, .. })), "{error:?}");
}

#[test]
fn a_file_on_disk_reads_as_the_same_bytes_do() {
    let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
    let path = folder.path().join("metal_m5max_2026-09-09.csv");
    let text = format!("# remark\n{HEADER}\n{ROW}\n{ROW}\n");
    std::fs::write(&path, &text).expect("OK because the folder is ours");
    let (file, memory) = (history::read(&path).expect("OK because it is a result file"), read(&text));
    assert_eq!(file.sha256, memory.sha256);
    assert_eq!(file.records.len(), memory.records.len());
    assert_eq!(file.problems, memory.problems);
}

#[test]
fn our_own_rows_come_with_their_repetitions() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v1.csv");
    let file = history::read(&golden).expect("OK because this version is read for ever");
    assert_eq!(file.layout, "v1");
    let record = file.records.iter().find(|record| record.outcome.is_ok()).expect("OK because one is valid");
    let value = record.value(Metric::Decode).expect("OK because it is valid");
    let repetitions = record.repetitions(Metric::Decode);
    assert!(repetitions.len() > 1, "{repetitions:?}");
    assert!(repetitions.iter().any(|rate| (rate - value).abs() < 1e-9), "{value} is not of {repetitions:?}");
}

#[test]
fn a_rate_of_a_single_token_is_named_and_not_used() {
    let one = with("generated_tokens", "1").replace("1138.69,112.41", "0.00,533333.33");
    let file = read(&format!("{HEADER}\n{one}"));
    assert!(rules(&file).contains(&("rate_without_steps", Some(2))), "{:?}", file.problems);
    assert_eq!(file.records[0].value(Metric::Decode), None);
}

#[test]
fn a_million_rows_are_read_whole_and_share_their_facts() {
    // A tenth of it where speed is not what is tested; the release build is timed by hand.
    const ROWS: usize = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let mut text = format!("{HEADER}\n");
    for index in 0..ROWS {
        let row = ROW.replace("alpha", &format!("alpha{index}"));
        writeln!(text, "{row}").expect("OK because writing to a String does not fail");
    }
    let start = std::time::Instant::now();
    let file = read(&text);
    let limit = if cfg!(debug_assertions) { 20.0 } else { 2.0 };
    assert!(start.elapsed().as_secs_f64() < limit, "{:?}", start.elapsed());
    assert_eq!(file.records.len(), ROWS);
    let first = &file.records[0].facts;
    assert!(file.records.iter().all(|record| std::sync::Arc::ptr_eq(&record.facts, first)));
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = history::read_bytes("metal_x_2026-09-09.csv", &bytes);
    }

    #[test]
    fn no_cells_make_the_reader_panic_or_lose_a_row(
        rows in proptest::collection::vec(
            proptest::collection::vec("(?s)[^\"\r\n]{0,12}|[0-9.]{0,8}|NaN|inf|-1|FAIL:bench", 1..20), 1..8),
        name in "(metal|cuda|pylm)_x(_vlm)?(_2026-0[1-9]-1[0-9])?(_micro_cold)?",
    ) {
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
        for row in &rows {
            writer.write_record(row).expect("OK because it goes to memory");
        }
        let rows_text = writer.into_inner().expect("OK because it goes to memory");
        let mut bytes = format!("{HEADER}\n").into_bytes();
        bytes.extend(&rows_text);
        let file = history::read_bytes(&format!("{name}.csv"), &bytes).expect("OK because the header is known");
        prop_assert_eq!(file.records.len(), rows.len());
        for record in &file.records {
            for metric in Metric::ALL {
                prop_assert!(record.value(*metric).is_none_or(|value| value.is_finite() && value > 0.0));
            }
            if let Outcome::Unreadable(_) = record.outcome {
                prop_assert!(file.problems.iter().any(|problem| problem.line == Some(record.line)));
            }
        }
    }

    #[test]
    fn a_damaged_file_never_panics(cut in 0_usize..400, byte: u8, at in 0_usize..400) {
        let mut bytes = format!("{HEADER}\n{ROW}\n{ROW},FAIL:bench\n").into_bytes();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut));
        let _ = history::read_bytes("pylm_x_vlm_2026-09-09.csv", &bytes);
    }
}
