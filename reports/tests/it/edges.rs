//! The ends of the calendar, of numbers and of files, through whole comparisons and for the project's own layout.

use std::fmt::Write as _;
use std::path::Path;

use mlxcel_reports::compare::baseline::Readings;
use mlxcel_reports::compare::compare;
use mlxcel_reports::compare::options::{Acceptance, Axis, Options};
use mlxcel_reports::compare::report::{Comparison, Verdict};
use mlxcel_reports::history::{self, HistoryError, SourceFile};
use mlxcel_reports::names::ExactNames;
use mlxcel_reports::record::{Field, Metric};
use mlxcel_reports::rules::RuleSet;

const COLUMNS: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,hardware,";

fn read(name: &str, text: &str) -> SourceFile {
    history::read_bytes(name, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// A file of the Python baseline, or of the application, with one row of this day.
fn side(is_reference: bool, date: &str) -> SourceFile {
    let row = "alpha-4bit,models/alpha-4bit,277,128,100.00,2770.00,1270.00,100.00";
    let rest = "Apple_M5_Max_128GB";
    let prompt = "\"What is in this image?\"";
    if is_reference {
        let text = format!(
            "{COLUMNS}baseline_version,build_type,max_tokens,prompt\n{row},{date},{rest},mlx-vlm-0.6.17,python,128,{prompt}\n"
        );
        read("pylm_m5max_vlm.csv", &text)
    } else {
        let text = format!(
            "{COLUMNS}mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n\
             {row},{date},{rest},0.7.0,release,128,{prompt},,33333333,9a795735\n"
        );
        read("metal_m5max_vlm.csv", &text)
    }
}

fn reference() -> Options {
    Options { axis: Axis::Runtime, accepted: [Acceptance::MissingCommit].into(), ..Options::default() }
}

fn compared(before: &SourceFile, after: &SourceFile, options: &Options) -> Comparison {
    compare(before, after, &ExactNames, options, &Readings::default(), &RuleSet::all())
}

#[test]
fn a_reference_of_the_day_before_is_near_across_every_end_of_a_month() {
    for (reference_day, day, near) in [
        ("2026-08-31", "2026-09-01", true),
        ("2026-08-30", "2026-09-01", false),
        ("2026-12-31", "2027-01-01", true),
        ("2026-12-30", "2027-01-01", false),
        ("2027-01-01", "2026-12-31", true),
        ("2026-02-28", "2026-03-01", true),
        ("2028-02-28", "2028-03-01", false),
        ("2028-02-29", "2028-03-01", true),
        ("2028-02-28", "2028-02-29", true),
        ("2100-02-28", "2100-03-01", true),
        ("2000-02-28", "2000-03-01", false),
        ("2026-04-30", "2026-05-01", true),
        ("2026-09-09", "2027-09-09", false),
    ] {
        let comparison = compared(&side(true, reference_day), &side(false, day), &reference());
        assert_eq!(
            comparison.verdict == Verdict::Ok,
            near,
            "{reference_day} {day}: {:?}",
            comparison.refused
        );
        assert_eq!(
            comparison.refused.iter().any(|finding| finding.rule == "P16"),
            !near,
            "{reference_day} {day}"
        );
    }
}

#[test]
fn a_day_that_the_calendar_lacks_is_no_day() {
    for day in [
        "2026-02-29",
        "2026-02-30",
        "2026-04-31",
        "2100-02-29",
        "2026-00-10",
        "0000-00-00",
        "99999-01-01",
        "",
    ] {
        let comparison = compared(&side(true, day), &side(false, "2026-03-01"), &reference());
        assert_eq!(comparison.verdict, Verdict::Refused, "{day}");
        assert!(
            comparison.refused.iter().any(|finding| finding.rule == "P16"),
            "{day}: {:?}",
            comparison.refused
        );
    }
}

fn golden() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/rows_v1.csv");
    std::fs::read_to_string(path).expect("OK because the golden set is there")
}

#[test]
fn our_own_rows_read_the_same_behind_a_mark_and_with_other_line_ends() {
    let text = golden();
    let plain = read("x.csv", &text);
    assert_eq!(plain.layout, "v1");
    for other in [
        text.replace('\n', "\r\n"),
        format!("\u{feff}{text}"),
        text.trim_end().to_owned(),
        text.replace('\n', "\n\n"),
    ] {
        let file = read("x.csv", &other);
        assert_eq!(file.layout, "v1");
        assert_eq!(file.records.len(), plain.records.len());
        for (one, two) in file.records.iter().zip(&plain.records) {
            assert_eq!((&one.model, one.value(Metric::Decode)), (&two.model, two.value(Metric::Decode)));
        }
    }
}

#[test]
fn lines_of_our_own_rows_are_counted_right_with_any_line_ends_and_empty_lines() {
    let text = golden();
    for other in [
        text.clone(),
        text.replace('\n', "\r\n"),
        text.replace("\nsynthetic-tiny", "\n\n\r\n\nsynthetic-tiny"),
        text.replace('\n', "\r\n").replace("\r\nsynthetic-tiny", "\r\n\r\n\r\nsynthetic-tiny"),
    ] {
        let file = read("x.csv", &other);
        for name in ["synthetic-tiny", "smollm2-135m-f32", "crashes"] {
            let line =
                1 + other.split('\n').position(|line| line.starts_with(name)).unwrap_or_default() as u64;
            let record = file.records.iter().find(|record| record.model.as_ref() == name);
            assert_eq!(record.map(|record| record.line), Some(line), "{name}: {other:?}");
        }
    }
}

#[test]
fn quotes_commas_and_line_breaks_in_a_prompt_of_our_own_rows_are_part_of_it() {
    let text = golden();
    for (cell, prompt) in [
        ("\"Say \"\"hi\"\", twice\"", "Say \"hi\", twice"),
        ("\"a,b,c\"", "a,b,c"),
        ("\"a\nb\"", "a\nb"),
        ("\"a\r\nb\"", "a\r\nb"),
        ("\"\"\"\"", "\""),
    ] {
        let file = read("x.csv", &text.replace("synthetic:v1", cell));
        assert_eq!(file.records.len(), 6, "{cell}");
        for record in &file.records {
            assert_eq!(record.facts.known(Field::Prompt), Some(prompt));
        }
    }
}

#[test]
fn our_own_file_without_rows_holds_none_and_compares_with_nothing() {
    let text = golden();
    let header = text.lines().next().unwrap_or_default().to_owned() + "\n";
    let file = read("x.csv", &header);
    assert!(file.records.is_empty());
    let comparison = compared(&file, &read("y.csv", &text), &Options::default());
    assert!(comparison.refused.iter().any(|finding| finding.rule == "P24"), "{:?}", comparison.refused);
}

#[test]
fn numbers_in_dress_are_refused_in_our_own_rows_by_line_and_column() {
    let text = golden();
    for (from, number, column) in [
        (",2000000000,", "NaN", "prefill_ns"),
        (",2000000000,", "inf", "prefill_ns"),
        (",2000000000,", "-1", "prefill_ns"),
        (",2000000000,", "1e9", "prefill_ns"),
        (",2000000000,", "18446744073709551616", "prefill_ns"),
        (",256.000000,", "NaN", "prefill_tok_s"),
        (",256.000000,", "-inf", "prefill_tok_s"),
        (",256.000000,", "1e999", "prefill_tok_s"),
        (",2000.000000,", "99999999999999999999", "prefill_ms"),
        (",150.0000005,", "-0.5", "decode_spread_pct"),
    ] {
        let edited = text.replacen(from, &format!(",{number},"), 1);
        assert_ne!(edited, text, "{from}");
        let error = history::read_bytes("x.csv", edited.as_bytes()).err();
        let Some(HistoryError::Rows(error)) = &error else { panic!("{column}={number}: {error:?}") };
        let place = format!("x.csv:2:{column}: ");
        assert!(error.to_string().starts_with(&place), "{error}");
    }
}

#[test]
fn the_largest_numbers_that_a_row_can_hold_give_a_finite_rate_or_none() {
    let text = golden();
    let most = u64::MAX.to_string();
    // Of a row that is not valid; nothing but the counts and times is left in it.
    let line =
        text.lines().find(|line| line.contains("INVALID:spread")).expect("OK because one row is invalid");
    let cells: Vec<&str> = line.split(',').collect();
    let columns: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    let edited: Vec<String> = columns
        .iter()
        .zip(&cells)
        .map(|(column, cell)| match *column {
            "prompt_tokens" | "generated_tokens" | "prefill_ns" | "decode_ns" => most.clone(),
            "decode_steps" => (u64::MAX - 1).to_string(),
            _ => (*cell).to_owned(),
        })
        .collect();
    let file = read("x.csv", &format!("{}\n{}\n", columns.join(","), edited.join(",")));
    let value = file.records[0].value(Metric::Decode);
    assert!(value.is_some_and(|value| (value - 1e9).abs() < 1.0), "{value:?}");
}

#[test]
fn a_ratio_of_the_smallest_and_the_largest_time_is_finite() {
    let row = |millis: &str| {
        let text = format!(
            "{COLUMNS}mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n\
             alpha-4bit,models/alpha-4bit,277,128,100.00,2770.00,{millis},,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,128,\
             Hello,,33333333,9a795735\n"
        );
        read("metal_m5max.csv", &text)
    };
    for (before, after, pairs) in
        [("0.000001", "1000000000", 1), ("1000000000", "0.000001", 1), ("0", "10", 0), ("0.0000001", "10", 0)]
    {
        let comparison = compared(&row(before), &row(after), &Options::default());
        assert_eq!(
            comparison.pairs.len(),
            pairs,
            "{before} {after}: {:?} {:?}",
            comparison.refused,
            comparison.dropped
        );
        assert!(comparison.pairs.iter().all(|pair| pair.ratio.is_finite() && pair.ratio > 0.0));
        assert_eq!(comparison.verdict == Verdict::Refused, pairs == 0);
    }
}

/// Two files of as many rows as their number says, of which every tenth vanished from the second.
fn many(rows: usize) -> [SourceFile; 2] {
    [("33333333", "1270.00"), ("44444444", "1200.00")].map(|(commit, millis)| {
        let mut text = format!(
            "{COLUMNS}mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n"
        );
        for index in (0..rows).filter(|index| commit == "33333333" || index % 10 > 0) {
            writeln!(
                text,
                "m{index:07},models/m{index:07},277,128,100.00,2770.00,{millis},,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,\
                 128,\"Hello, \"\"you\"\"\",,{commit},9a795735"
            )
            .expect("OK because writing to a String does not fail");
        }
        read("metal_m5max.csv", &text)
    })
}

#[test]
fn as_many_pairs_as_rows_and_every_vanished_one_is_listed() {
    let [before, after] = many(5_000);
    let options = Options { axis: Axis::Commit, ..Options::default() };
    let comparison = compared(&before, &after, &options);
    assert_eq!(comparison.verdict, Verdict::Ok, "{:?}", comparison.refused);
    assert_eq!((comparison.pairs.len(), comparison.one_sided.before.len()), (4_500, 500));
}
