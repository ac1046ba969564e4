//! `catalog check`.

use std::fmt::Write as _;
use std::path::Path;

use mlxcel_catalog::integrity::{FolderReport, check_all, disk_bytes};
use mlxcel_catalog::scan::of_folder;
use serde_json::json;

use super::tokenizers::Tokenizers;
use super::{Outcome, counted, fine_unless, list};
use crate::cli::CheckArgs;
use crate::text::{bytes, one_line};

pub(super) fn run(arguments: &CheckArgs) -> anyhow::Result<Outcome> {
    let (found, listing_faults) = list(&arguments.folders)?;
    let tokenizers = Tokenizers::open();
    let reports = check_all(&found, &|dir| tokenizers.fault(dir));
    tokenizers.close();

    let mut listing_faults: Vec<String> = listing_faults.iter().map(ToString::to_string).collect();
    let checkpoints = reports.iter().filter(|report| report.is_checkpoint).count();
    if checkpoints == 0 {
        listing_faults.push(
            "no folder here holds a checkpoint, so nothing was checked; name a checkpoint folder or a folder of such"
                .to_owned(),
        );
    }
    let of_folders: usize = reports.iter().map(|report| report.faults.len()).sum();
    let count = of_folders + listing_faults.len();
    let disk = disk_bytes(&reports);
    let mut text = String::new();
    for fault in &listing_faults {
        let _ = writeln!(text, "FAULT  {}  [listing]", one_line(fault));
    }
    for report in &reports {
        folder(&mut text, report);
    }
    let others = reports.len() - checkpoints;
    let _ = write!(text, "{} checked, {} on the disk", counted(checkpoints, "checkpoint"), bytes(disk));
    if others > 0 {
        let _ = write!(text, "; {} without one", counted(others, "folder"));
    }
    let _ = writeln!(text, "; {}", if count == 0 { "no fault".to_owned() } else { counted(count, "fault") });
    let json = json!({
        "folders": reports,
        "listing_faults": listing_faults,
        "disk_bytes": disk,
        "faults": count,
    });
    Ok(Outcome { text, json, exit: fine_unless(count > 0) })
}

fn folder(text: &mut String, report: &FolderReport) {
    let place = one_line(report.path.display());
    if !report.is_checkpoint {
        let _ = writeln!(text, "none   {place}: neither config.json nor *.safetensors, so no checkpoint");
        return;
    }
    if report.faults.is_empty() {
        let class = report.class.map_or("unknown", |class| class.name());
        let _ = writeln!(
            text,
            "ok     {place}: {class}, {}, {} of weights, {} on the disk",
            counted(report.shards, "shard"),
            bytes(report.weight_bytes),
            bytes(report.disk_bytes),
        );
    }
    for fault in &report.faults {
        // Most messages begin with the file; the others need to be told which folder they are about. They are on one line.
        let message = of_folder(Path::new(&place), &fault.message);
        let _ = writeln!(text, "FAULT  {message}  [{}]", fault.rule);
    }
}
