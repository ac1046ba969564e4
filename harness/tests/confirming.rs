//! `gate --confirm`: flagged rows are measured anew in turn, and what is then reported can be verified.

#[path = "common/gates.rs"]
mod gates;

use std::error::Error;
use std::fs;

use gates::{Folder, Outcome, player, said, stderr};
use serde_json::Value;

/// Sides of one file each in which the candidate looks slower, and programs that measure anew.
fn flagged(baseline_ms: f64, candidate_ms: f64, commit: &str) -> Result<Folder, Box<dyn Error>> {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1600.0, "22222222")?;
    folder.side("anew-a", 8, baseline_ms, commit)?;
    folder.side("anew-b", 8, candidate_ms, "22222222")?;
    player(&folder, &folder.path("bench-a"), "anew-a")?;
    player(&folder, &folder.path("bench-b"), "anew-b")?;
    Ok(folder)
}

const CONFIRM: &str = "gate --metric decode --baseline a --candidate b --format json --confirm --confirm-out anew \
                       --baseline-program bench-a --candidate-program bench-b";

#[test]
fn a_flagged_row_is_measured_anew_in_turn_and_confirmed_or_cleared() -> Outcome {
    for (baseline_ms, candidate_ms, code, state) in
        [(1270.0, 1600.0, 1, "regressed"), (1270.0, 1272.0, 0, "same")]
    {
        let folder = flagged(baseline_ms, candidate_ms, "11111111")?;
        let output = folder.run(CONFIRM)?;
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(report["rows"][0]["state"], state);
        assert_eq!(report["rows"][0]["test"]["units_before"], 8);
        assert!(report["rows"][0]["reason"].as_str().is_some_and(|reason| reason.contains("measured anew")));
        assert_eq!(report["inputs"].as_array().map(Vec::len), Some(18));
        // It was so in the first stage, and is no longer.
        assert!(!report["notes"].to_string().contains("one measurement a side"), "{}", report["notes"]);
        let calls = fs::read_to_string(folder.path("calls"))?;
        let order: String =
            calls.lines().map(|call| if call.starts_with("anew-a") { 'A' } else { 'B' }).collect();
        assert_eq!(order, "ABBAABBAABBAABBA");
        assert!(
            calls
                .lines()
                .all(|call| call.contains("/models/alpha --out ") && call.contains("--max-tokens 128"))
        );
        // With the files of the second stage, and without them from the measurements in the report.
        fs::write(folder.path("report.json"), &output.stdout)?;
        for note in ["files of the second stage", "measurements of the second stage"] {
            let verified = folder.run("verify report.json")?;
            assert_eq!(verified.status.code(), Some(0), "{}", said(&verified));
            assert!(said(&verified).contains(note), "{}", said(&verified));
            let _ = fs::remove_dir_all(folder.path("anew"));
        }
        for (pointer, value) in [
            ("/rows/0/values_after/3", Value::from(1.0)),
            ("/rows/0/test/p_holm", Value::from(0.5)),
            ("/rows/0/screened/values_after/0", Value::from(1.0)),
            ("/rows/0/state", Value::from("improved")),
            ("/exit_code", Value::from(5)),
        ] {
            let mut edited = report.clone();
            *edited.pointer_mut(pointer).ok_or(pointer)? = value;
            fs::write(folder.path("report.json"), edited.to_string())?;
            assert_eq!(folder.run("verify report.json")?.status.code(), Some(1), "{pointer}");
        }
    }
    Ok(())
}

#[test]
fn a_program_of_another_commit_confirms_nothing() -> Outcome {
    let folder = flagged(1270.0, 1600.0, "33333333")?;
    let output = folder.run(CONFIRM)?;
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(stderr(&output).contains("33333333"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn without_a_flagged_row_nothing_is_measured_anew() -> Outcome {
    let folder = flagged(1270.0, 1600.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    assert_eq!(folder.run(CONFIRM)?.status.code(), Some(0));
    assert!(!folder.path("calls").exists() && !folder.path("anew").exists());
    Ok(())
}
