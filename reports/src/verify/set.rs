//! A result set: its rows, what lies beside them, and whether the three files say the same.

use std::collections::BTreeMap;
use std::path::Path;

use mlxcel_catalog::files::read_regular;

use super::provenance;
use super::report::{Discrepancy, Verification, VerifyError};
use super::rows::{self, Line};
use super::samples;
use super::statuses;
use crate::provenance::Provenance;
use crate::store::{self, Beside};

pub(super) fn verify(path: &Path) -> Result<Verification, VerifyError> {
    let bytes = std::fs::read(path).map_err(|source| VerifyError::Read { path: path.to_owned(), source })?;
    let beside = store::beside(path)?;
    let mut verification = Verification::new(path, "result set");
    verification.sources.push(path.to_owned());
    verification.sources.extend([&beside.samples, &beside.provenance].into_iter().flatten().cloned());
    let read = rows::read(path, &bytes, beside.unfinished)?;
    verification.count("rows", read.total);
    verification.discrepancies.extend(read.discrepancies);
    if read.total == 0 {
        verification.found(Discrepancy::new(path, "rows", "a result set without a row says nothing"));
    }
    if read.torn {
        verification.notes.push("the file ends within a row, which was left out".to_owned());
    }
    if beside.unfinished {
        verification.notes.push("the run did not end: no digest and no count was recorded".to_owned());
    }
    order(path, &read.readable, beside.complete && read.readable.len() == read.total, &mut verification);
    match &beside.provenance {
        None => {
            statuses::verify(path, &read.readable, None, &mut verification);
            let message = "no provenance lies beside the rows, so their stamps follow from nothing";
            verification.found(Discrepancy::new(path, "provenance", message));
        }
        Some(file) => {
            let provenance = store::read_provenance(file)?;
            statuses::verify(path, &read.readable, Some(&provenance), &mut verification);
            provenance::verify(
                path,
                file,
                &read.readable,
                read.total,
                beside.complete,
                &provenance,
                &mut verification,
            );
            digests(path, &bytes, file, &beside, &provenance, &mut verification)?;
        }
    }
    let all_readable = read.readable.len() == read.total;
    measured(path, &beside, (&read.readable, all_readable), &mut verification)?;
    Ok(verification)
}

/// Places in the order of measurement: each once, rising, and none left out of a complete set.
fn order(path: &Path, lines: &[Line], whole: bool, verification: &mut Verification) {
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    for (index, Line { line, row }) in (0_u32..).zip(lines) {
        let place = row.identity().run.order_index;
        let stated = Some(place.to_string());
        if let Some(first) = seen.insert(place, *line) {
            let message = format!("line {first} has this place in the order of measurement already");
            let discrepancy = Discrepancy::new(path, "order_index", message).at(*line);
            verification.found(discrepancy.values(stated, None::<String>));
        } else if whole && place != index {
            let message =
                "from the place of the line: a complete set holds its rows in the order of measurement";
            let discrepancy = Discrepancy::new(path, "order_index", message).at(*line);
            verification.found(discrepancy.values(stated, Some(index.to_string())));
        }
    }
}

fn digests(
    path: &Path,
    bytes: &[u8],
    file: &Path,
    beside: &Beside,
    provenance: &Provenance,
    verification: &mut Verification,
) -> Result<(), VerifyError> {
    let samples = match &beside.samples {
        Some(path) => Some((
            path.as_path(),
            store::sha256_of(path).map_err(|source| VerifyError::Read { path: path.clone(), source })?,
        )),
        None => None,
    };
    let ending = &provenance.ending;
    let rows = Some((path, mlxcel_catalog::identity::sha256_hex(bytes)));
    for (field, recorded, found) in [
        ("/ending/csv_sha256", &ending.csv_sha256, rows),
        ("/ending/samples_sha256", &ending.samples_sha256, samples),
    ] {
        if let (Some(recorded), Some((of, found))) = (recorded, found) {
            verification.count("digests", 1);
            if *recorded != found {
                let message =
                    format!("from the bytes of {}: it is not the file that the run finished", of.display());
                verification
                    .found(Discrepancy::new(file, field, message).values(Some(recorded), Some(found)));
            }
        }
    }
    Ok(())
}

fn measured(
    path: &Path,
    beside: &Beside,
    (lines, all_readable): (&[Line], bool),
    verification: &mut Verification,
) -> Result<(), VerifyError> {
    match &beside.samples {
        Some(file) => {
            let bytes = read_regular(file, u64::MAX)
                .map_err(|source| VerifyError::Read { path: file.clone(), source })?;
            match String::from_utf8(bytes) {
                Ok(text) => {
                    samples::verify(
                        file,
                        &text,
                        beside.unfinished,
                        path,
                        (lines, all_readable),
                        verification,
                    );
                }
                Err(error) => {
                    let at = error.utf8_error().valid_up_to();
                    let line =
                        1 + error.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() as u64;
                    verification.found(Discrepancy::new(file, "sample", "not UTF-8").at(line));
                }
            }
        }
        None if lines.iter().any(|line| line.row.figures().is_some()) => {
            let message = "no samples lie beside the rows, so their figures follow from nothing";
            verification.found(Discrepancy::new(path, "samples", message));
        }
        None => {}
    }
    Ok(())
}
