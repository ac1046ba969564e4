//! Rows as lines of a file.

use std::path::{Path, PathBuf};

use mlxcel_reports::measure::{RawSample, Sample};
use mlxcel_reports::row::{AnyRow, EosPolicy, Row};
use mlxcel_reports::status::Rule;
use mlxcel_reports::wire::{self, COLUMNS, WireError};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::sample_rows::{any_row, identity, measured, one_of_each, sample, samples};

struct File {
    path: PathBuf,
    _folder: TempDir,
}

fn file(text: impl AsRef<[u8]>) -> File {
    let folder = tempfile::tempdir().expect("OK because tests need a temporary folder");
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, text).expect("OK because the folder is ours");
    File { path, _folder: folder }
}

fn line(row: &AnyRow) -> String {
    wire::row_line(row).expect("OK because the row can be written")
}

fn lines(rows: &[AnyRow]) -> String {
    rows.iter().fold(wire::header_line(), |text, row| text + &line(row))
}

/// The file with one row whose `column` was changed.
fn with_cell(row: &AnyRow, column: &str, cell: &str) -> File {
    let text = line(row);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let record = reader.records().next().expect("OK because there is a line").expect("OK because it is CSV");
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS).expect("OK because it goes to memory");
    let cells = COLUMNS.iter().zip(&record).map(|(name, old)| if *name == column { cell } else { old });
    writer.write_record(cells).expect("OK because it goes to memory");
    file(writer.into_inner().expect("OK because it goes to memory"))
}

fn refusal(file: &File) -> String {
    match wire::read_rows(&file.path) {
        Ok(rows) => panic!("read as {rows:?}"),
        Err(error) => error.to_string().replace(&file.path.display().to_string(), "FILE"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_row_has_as_many_fields_as_the_header_and_reads_back_equal(row in any_row()) {
        let text = line(&row);
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let records: Vec<_> = reader.records().collect::<Result<_, _>>().expect("OK because it must be CSV");
        prop_assert_eq!(records.len(), 1);
        prop_assert_eq!(records[0].len(), COLUMNS.len());

        let written = file(lines(std::slice::from_ref(&row)));
        let read = wire::read_rows(&written.path).expect("OK because what is written must be readable");
        prop_assert_eq!(format!("{read:?}"), format!("{:?}", [row]));
    }

    #[test]
    fn no_file_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..2000) {
        let _ = wire::read_rows(&file(&bytes).path);
        let mut text = lines(&[measured("m", 0)]).into_bytes();
        text.truncate(cut);
        text.extend(bytes);
        let _ = wire::read_rows(&file(&text).path);
        let _ = wire::read_unfinished_rows(&file(&text).path);
    }
}

#[test]
fn the_golden_file_of_version_1_reads_as_it_always_did() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v1.csv");
    let rows = wire::read_rows(&path).expect("OK because this version is read for ever");
    let statuses: Vec<String> = rows.iter().map(|row| row.status().to_string()).collect();
    assert_eq!(
        statuses,
        [
            "",
            "SKIP:duplicate_of=smollm2-135m-4bit",
            "SKIP:not_a_checkpoint",
            "",
            "INVALID:spread",
            "FAIL:crash"
        ]
    );
    let first = rows[0].as_measured().expect("OK because its status is ok");
    assert_eq!(first.figures().prefill().nanos(), 2_000_000_000);
    assert_eq!(first.figures().prefill().tok_s(), Some(256.0));
    assert_eq!(first.figures().decode().nanos(), 300_000_001);
    assert_eq!((first.figures().decode().generated(), first.figures().decode().steps()), (4, 3));
    assert_eq!(first.figures().reps(), 3);
    assert_eq!(first.load_nanos(), Some(812_345_678));
    assert_eq!(first.identity().build.mlx_commit.as_known().map(String::as_str), Some("v0.32.1"));
    assert!(!first.identity().host.driver.is_known());
    assert_eq!(rows[2].identity().checkpoint.model_path, "models/not a model, \"really\"\n(two lines)");
    // An invalid row keeps its exact counts and times.
    assert_eq!(rows[4].figures().map(|figures| figures.decode().nanos()), Some(300_000_001));
    assert!(rows[4].as_measured().is_none());
    let text = std::fs::read_to_string(&path).expect("OK because it was just read");
    let header = text.lines().next().unwrap_or_default();
    assert!(
        wire::header_line().starts_with(&format!("{header},")),
        "a version begins with the one before it"
    );
    let expected: Vec<AnyRow> = one_of_each().into_iter().map(|(row, _)| row).collect();
    assert_eq!(format!("{rows:?}"), format!("{expected:?}"));
}

#[test]
fn the_first_columns_are_those_of_the_historical_files() {
    let historical = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,\
                      date,hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,\
                      mlx_commit";
    assert_eq!(COLUMNS[..17].join(","), historical);
    assert_eq!(COLUMNS[17..20], ["status", "status_detail", "schema_version"]);
    let mut names = COLUMNS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), COLUMNS.len(), "a column name is used twice");
}

#[test]
fn rates_are_recomputed_from_counts_and_nanoseconds() {
    let row = measured("m", 0);
    let object = wire::row_json(&row);
    // 512 tokens in 2 s; 3 steps, not 4 tokens, in 0.300000001 s.
    assert_eq!(object["prefill_tok_s"], 256.0);
    assert_eq!(object["decode_steps"], 3);
    let decode = object["decode_tok_s"].as_f64().expect("OK because the row is valid");
    assert!((decode - 3.0 / 0.300_000_001).abs() < 1e-9, "{decode}");
    assert!(line(&row).contains(",2000.000000,256.000000,300.000001,10.000000,"), "{}", line(&row));
}

#[test]
fn a_row_that_is_not_valid_shows_no_milliseconds_and_no_rates() {
    for (row, _) in one_of_each() {
        let object = wire::row_json(&row);
        let shown =
            ["prefill_ms", "prefill_tok_s", "decode_ms", "decode_tok_s"].map(|key| object[key].is_null());
        assert_eq!(shown, [!row.status().is_ok(); 4], "{}", row.identity().checkpoint.model);
    }
}

#[test]
fn refuses_a_file_of_an_older_layout() {
    let old = file("model,model_path,prompt_tokens\nx,./models/x,5\n");
    assert!(matches!(wire::read_rows(&old.path), Err(WireError::MissingVersion { .. })));
    assert!(matches!(wire::read_rows(&file("").path), Err(WireError::Empty { .. })));
}

#[test]
fn refuses_a_newer_version_before_it_complains_of_its_columns() {
    let newer = file("model,schema_version,something_new\nx,5,y\n");
    assert_eq!(
        refusal(&newer),
        "FILE:2: schema version 5 is newer than 4, the newest this program reads; read it with a newer mlxcel-bench"
    );
}

#[test]
fn refuses_a_header_with_a_column_moved_missing_or_added() {
    let header = wire::header_line();
    assert_eq!(
        refusal(&file(header.replacen("prefill_ms,prefill_tok_s", "prefill_tok_s,prefill_ms", 1))),
        "FILE:1: column 5 is `prefill_tok_s`, where schema version 4 has `prefill_ms`; columns may be neither added, \
         removed nor moved"
    );
    let last = COLUMNS.len();
    let added = refusal(&file(header.replace('\n', ",notes\n")));
    assert!(
        added.contains(&format!("column {} is `notes`, where schema version 4 has none", last + 1)),
        "{added}"
    );
    let missing = refusal(&file(header.replace(",usable_cores", "")));
    assert!(missing.contains(&format!("column {last} is none")), "{missing}");
}

#[test]
fn refuses_ragged_rows_and_names_the_line() {
    let rows = [one_of_each()[2].0.clone(), measured("m", 1)];
    let text = lines(&rows);
    let one_more = file(text.trim_end().to_owned() + ",surplus\n");
    // The first row spreads over lines 2 and 3.
    assert_eq!(
        refusal(&one_more),
        format!("FILE:4: the row has {} fields, the header {}", COLUMNS.len() + 1, COLUMNS.len())
    );
    let one_less = text.trim_end().rsplit_once(',').map(|(text, _)| format!("{text}\n")).unwrap_or_default();
    assert!(refusal(&file(one_less)).contains("FILE:4: the row has"));
}

#[test]
fn names_file_line_and_column_of_a_cell_that_does_not_hold() {
    let row = measured("m", 0);
    let cases = [
        (
            "parameters",
            "many",
            "FILE:2:parameters: `many` is not a whole number from 0 to 18446744073709551615",
        ),
        (
            "status",
            "FINE",
            "FILE:2:status: `FINE` is not a status; known: empty, SKIP:<reason>, FAIL:<stage>, INVALID:<rule>",
        ),
        ("backend", "abacus", "FILE:2:backend: `abacus` is not a backend; known: metal, cuda, cpu"),
        ("run_id", "", "FILE:2:run_id: empty, but every row has one"),
        ("schema_version", "0", "FILE:2:schema_version: 0 where the file is of version 4"),
        ("decode_steps", "4", "FILE:2:decode_steps: 4 for 4 generated tokens"),
        ("reps", "0", "FILE:2:reps: 0 in a row with counts and times"),
        ("checkpoint_id", "", "FILE:2:checkpoint_id: a level and a digest go together"),
        (
            "decode_tok_s",
            "13.333333",
            "FILE:2:decode_tok_s: does not agree with the row's status, counts and nanoseconds",
        ),
        (
            "prefill_ms",
            "2000.000001",
            "FILE:2:prefill_ms: does not agree with the row's status and nanoseconds",
        ),
        (
            "status",
            "INVALID:spread",
            "FILE:2:prefill_ms: does not agree with the row's status and nanoseconds",
        ),
        (
            "bandwidth_pct",
            "5",
            "FILE:2:bandwidth_pct: does not agree with the row's bytes a token, decode time and stream bandwidth",
        ),
        (
            "cached_prompt_tokens",
            "513",
            "FILE:2:cached_prompt_tokens: more than the 512 tokens of the prompt",
        ),
        (
            "control_drift_pct",
            "1",
            "FILE:2:control_model: `control_model`, `control_drift_pct` and `control_band_pct` must be all filled or all \
             empty",
        ),
        (
            "max_tokens",
            "5",
            "FILE:2:generated_tokens: the row's status is ok, but 4 of 5 tokens were generated",
        ),
        (
            "prompt_target_len",
            "511",
            "FILE:2:prompt_tokens: the row's status is ok, but the prompt had 512 tokens instead of 511",
        ),
    ];
    for (column, cell, expected) in cases {
        assert_eq!(refusal(&with_cell(&row, column, cell)), expected);
    }
    let half = refusal(&with_cell(&row, "prefill_ns", ""));
    assert!(half.contains("must be all filled or all empty"), "{half}");
    let (skipped, _) = &one_of_each()[1];
    let stray = refusal(&with_cell(skipped, "output_sha256", "ab"));
    assert_eq!(stray, "FILE:2:output_sha256: filled in a row without counts and times");
    let made_ok = refusal(&with_cell(skipped, "status", ""));
    assert_eq!(made_ok, "FILE:2:prefill_ns: empty in a row whose status is ok");
}

#[test]
fn refuses_to_write_what_could_not_be_read_back() {
    let row =
        Row::measured(identity("", 0), None, &samples()).expect("OK because the samples are of the workload");
    let error = wire::row_line(&row.into()).expect_err("OK because a row needs a model");
    assert!(matches!(error, WireError::Unwritable { column: "model", .. }), "{error:?}");
}

#[test]
fn a_measured_row_is_refused_when_its_samples_are_no_measurement() {
    let rule = |identity, samples: &[Sample]| {
        Row::measured(identity, None, samples).expect_err("OK because the samples are no measurement").rule
    };
    assert_eq!(rule(identity("m", 0), &[sample(1, &[1, 2, 3])]), Rule::ShortGeneration);
    assert_eq!(rule(identity("m", 0), &[sample(1, &[5, 5, 5, 5])]), Rule::ZeroTime);
    assert_eq!(rule(identity("m", 0), &[sample(1, &[0, 1, 2, 3])]), Rule::ZeroTime);
    assert_eq!(rule(identity("m", 0), &[sample(1, &[1, 2, 3, 4, 5])]), Rule::Inconclusive);
    assert_eq!(rule(identity("m", 0), &[]), Rule::Inconclusive);
    let short_prompt = RawSample { prompt_tokens: 500, ..sample(1, &[1, 2, 3, 4]).as_raw().clone() };
    let short_prompt = Sample::try_from(short_prompt).expect("OK because only its prompt is short");
    let another_prompt = RawSample { rep: 2, ..short_prompt.as_raw().clone() };
    let another_prompt = Sample::try_from(another_prompt).expect("OK because only its number changed");
    assert_eq!(rule(identity("m", 0), &[short_prompt]), Rule::PromptMismatch);
    assert_eq!(rule(identity("m", 0), &[sample(1, &[1, 2, 3, 4]), another_prompt]), Rule::PromptMismatch);
}

#[test]
fn an_end_of_sequence_may_shorten_a_generation_only_where_it_was_allowed_to() {
    let mut identity = identity("m", 0);
    identity.workload.eos_policy = EosPolicy::Stop;
    let row =
        Row::measured(identity, None, &[sample(1, &[1, 2, 3])]).expect("OK because stopping was allowed");
    assert_eq!(row.figures().decode().steps(), 2);
}

#[test]
fn a_single_generated_token_has_a_prefill_rate_and_no_decode_rate() {
    let mut identity = identity("m", 0);
    identity.workload.max_tokens = 1;
    let row =
        Row::measured(identity, None, &[sample(1, &[1_000_000_000])]).expect("OK because one was asked for");
    let row = AnyRow::from(row);
    let object = wire::row_json(&row);
    assert_eq!(object["prefill_tok_s"], 512.0);
    assert!(object["decode_tok_s"].is_null() && object["decode_ms"].is_null());
    assert_eq!(object["decode_steps"], 0);
    let read = wire::read_rows(&file(lines(&[row])).path).expect("OK because it was written");
    assert_eq!(read.len(), 1);
}

#[test]
fn only_an_unfinished_file_may_end_within_a_row() {
    let text = lines(&[measured("m", 0), measured("n", 1)]);
    for cut in [1, 10, 300] {
        let torn = file(&text[..text.len() - cut]);
        let read = wire::read_unfinished_rows(&torn.path).expect("OK because the first row is whole");
        assert_eq!((read.rows.len(), read.torn), (1, true), "cut by {cut}");
    }
    let whole = wire::read_unfinished_rows(&file(&text).path).expect("OK because both rows are whole");
    assert_eq!((whole.rows.len(), whole.torn), (2, false));
    assert!(refusal(&file(&text[..text.len() - 300])).contains("FILE:3: the row has"));
}
