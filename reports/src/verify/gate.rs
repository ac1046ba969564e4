//! The JSON report of a gate against the gate done again: from its policy, both sides' files and the spreads that it names.
//!
//! A second stage is done again from its files where they are at hand, and otherwise from the measurements that the report
//! states; then the statistics, states and outcome follow from those.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use mlxcel_catalog::identity::sha256_hex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Context;
use super::comparison::{Files, command, names};
use super::diff::{Diff, agree};
use super::inputs::{Found, Stated, find, named, other_file, result_file};
use super::json::{files, strings};
use super::json_lines::Lines;
use super::report::{Discrepancy, MissingInput, Verification, VerifyError};
use crate::compare::report::Source;
use crate::gate::policy::{Overrides, Policy};
use crate::gate::report::{GateReport, State};
use crate::gate::rules::Protected;
use crate::gate::spread::{Spread, Spreads};
use crate::gate::{self, CONFIRM_BASELINE, CONFIRM_CANDIDATE, Fresh, Request, confirmed};
use crate::history::{self, SourceFile};
use crate::render::gate as render;

/// What the command line of a gate asked for.
pub struct GateInvocation {
    /// The baseline's files and folders, as they were named.
    pub baseline: Vec<PathBuf>,
    /// The candidate's.
    pub candidate: Vec<PathBuf>,
    /// The baseline was read from a commit.
    pub baseline_from_git: bool,
    /// The policy file, as it was named.
    pub policy: Option<PathBuf>,
    /// What was said in place of it.
    pub overrides: Overrides,
    /// The file of spreads, as it was named.
    pub spreads: Option<PathBuf>,
    /// The table of names, as it was named.
    pub catalog: Option<PathBuf>,
    /// Whether improvements were to be told.
    pub tell_improvements: bool,
    /// Whether flagged rows were to be measured anew.
    pub confirm: bool,
}

pub(super) fn verify(
    path: &Path,
    text: &str,
    stated: &Value,
    context: Context<'_>,
) -> Result<Verification, VerifyError> {
    let lines = Lines::of(text);
    let mut verification = Verification::new(path, "gate report (JSON)");
    let asked = strings(stated.get("command"));
    let (inputs, sources) =
        (files(stated, &lines, "inputs", "side"), files(stated, &lines, "sources", "what"));
    let files =
        Files { command: &asked, command_line: lines.get("/command"), inputs: &inputs, sources: &sources };
    let gate = Gate { path, stated, lines: &lines, files: &files, context };
    let Some(derived) = gate.again(&mut verification) else { return Ok(verification) };
    let unfit = |error: serde_json::Error| VerifyError::NothingToDerive {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut value = render::json(&derived.report).map_err(unfit)?;
    if derived.from_samples {
        take_from_report(stated, &mut value, &mut verification);
    }
    let diff = Diff::new(path, &lines, "from the files, the policy and the command line");
    diff.documents(stated, &value, &mut verification);
    Ok(verification)
}

/// Something that a gate was given cannot be held against where it came from, as was said.
struct NotAtHand;

/// A gate that was done again.
struct Derived {
    report: GateReport,
    /// Its second stage was done from the measurements that the report states.
    from_samples: bool,
}

/// A report and what is needed to do its gate again.
struct Gate<'a> {
    path: &'a Path,
    stated: &'a Value,
    lines: &'a Lines,
    files: &'a Files<'a>,
    context: Context<'a>,
}

impl Gate<'_> {
    fn again(&self, verification: &mut Verification) -> Option<Derived> {
        let invocation = command(self.path, self.files, self.context.read_gate, verification)?;
        let policy = self.policy(&invocation, verification);
        let spreads = self.spreads(&invocation, verification);
        let names = names(self.path, self.files, invocation.catalog.as_deref(), verification);
        let protected = self.protected(verification);
        let today: Option<Date> = self.part("today", verification);
        let baseline =
            self.side("baseline", &invocation.baseline, invocation.baseline_from_git, verification);
        let candidate = self.side("candidate", &invocation.candidate, false, verification);
        let ((policy, policy_source), (spreads, spreads_source)) = (policy?, spreads?);
        let ((names, catalog), protected, today) = (names?, protected.ok()?, today?);
        let (baseline, candidate) = (baseline?, candidate?);
        self.day(today, &candidate, verification);
        let request = |baseline, candidate, names| Request {
            baseline,
            candidate,
            policy: policy.clone(),
            spreads: spreads.clone(),
            names,
            sources: [&policy_source, &spreads_source, &catalog].into_iter().flatten().cloned().collect(),
            protected: protected.clone(),
            today,
            tell_improvements: invocation.tell_improvements,
            command: self.files.command.to_vec(),
        };
        let mut report = gate::run(request(baseline, candidate, names.as_ref()));
        verification.count("gates", 1);
        let mut from_samples = false;
        if invocation.confirm && report.count(State::Flagged) > 0 {
            let second = if let Some([baseline, candidate]) = self.fresh_files(verification) {
                gate::second_stage(request(baseline, candidate, names.as_ref()))
            } else {
                from_samples = true;
                gate::from_samples(&report, self.samples(verification)?)
            };
            report = confirmed(report, second, invocation.tell_improvements);
        }
        report.remarks = strings(self.stated.get("remarks"));
        if !report.remarks.is_empty() {
            let note = format!("{} remarks on where files came from were not verified", report.remarks.len());
            verification.notes.push(note);
        }
        Some(Derived { report, from_samples })
    }

    /// No gate is held before its candidate was measured; the two days may be of different time zones.
    fn day(&self, today: Date, candidate: &[SourceFile], verification: &mut Verification) {
        let newest =
            candidate.iter().flat_map(|file| &file.records).filter_map(|record| record.facts.date).max();
        if let Some(newest) = newest.filter(|newest| today.tomorrow().is_ok_and(|next| next < *newest)) {
            let message = "a gate is not held before its candidate was measured; derived is that day";
            let discrepancy = Discrepancy::new(self.path, "/today", message).at(self.lines.get("/today"));
            verification.found(discrepancy.values(Some(today.to_string()), Some(newest.to_string())));
        }
    }

    /// A part of the report that the gate was given, as its type.
    fn part<T: DeserializeOwned>(&self, key: &str, verification: &mut Verification) -> Option<T> {
        let value = self.stated.get(key).cloned().unwrap_or_default();
        serde_json::from_value(value)
            .map_err(|error| {
                let message = format!("it is not what a gate writes there: {error}");
                let pointer = format!("/{key}");
                let discrepancy = Discrepancy::new(self.path, pointer.clone(), message);
                verification.found(discrepancy.at(self.lines.get(&pointer)));
            })
            .ok()
    }

    fn policy(
        &self,
        invocation: &GateInvocation,
        verification: &mut Verification,
    ) -> Option<(Policy, Option<Source>)> {
        let overridden = |policy| invocation.overrides.clone().of(policy);
        let Some(path) = &invocation.policy else { return Some((overridden(Policy::default()), None)) };
        let (place, stated) = self.source("policy", path, verification)?;
        match Policy::read(&place) {
            Ok(policy) => Some((overridden(policy), Some(Source::of("policy", &place, path)))),
            Err(error) => {
                verification.is_missing(stated.is_missing(self.path, error.to_string()));
                None
            }
        }
    }

    fn spreads(
        &self,
        invocation: &GateInvocation,
        verification: &mut Verification,
    ) -> Option<(Spreads, Option<Source>)> {
        let Some(path) = &invocation.spreads else {
            let spread: Vec<Spread> = self.part("spreads", verification)?;
            if !spread.is_empty() {
                verification.notes.push(format!(
                    "{} A/A spreads are taken as the report states them: what `doctor` keeps lies on the host alone; --spreads \
                     FILE makes them verifiable",
                    spread.len()
                ));
            }
            return Some((Spreads { spread }, None));
        };
        let (place, stated) = self.source("spreads", path, verification)?;
        match Spreads::read(&place) {
            Ok(spreads) => Some((spreads, Some(Source::of("spreads", &place, path)))),
            Err(error) => {
                verification.is_missing(stated.is_missing(self.path, error.to_string()));
                None
            }
        }
    }

    fn source(&self, what: &str, path: &Path, verification: &mut Verification) -> Option<(PathBuf, &Stated)> {
        let sources = (self.files.command_line, self.files.sources);
        let stated = named(self.path, sources, (what, path), verification)?;
        Some((other_file(self.path, stated, verification)?, stated))
    }

    /// The copies on the protected branch, each held against the commit that it is said to lie in.
    fn protected(&self, verification: &mut Verification) -> Result<Option<Protected>, NotAtHand> {
        if self.stated.get("protected").is_none() {
            return Ok(None);
        }
        let protected: Protected = self.part("protected", verification).ok_or(NotAtHand)?;
        let mut whole = true;
        for (index, copy) in protected.copies.iter().enumerate() {
            let (Some(place), Some(sha256)) = (&copy.in_repository, &copy.sha256) else { continue };
            let field = format!("/protected/copies/{index}/sha256");
            let name = format!("{}:{place}", protected.commit);
            let line = self.lines.get(&field);
            if let Some(bytes) = (self.context.read_committed)(&name) {
                verification.count("protected copies", 1);
                let found = sha256_hex(&bytes);
                if found != *sha256 {
                    let message = format!("from `{name}` in the repository");
                    let discrepancy = Discrepancy::new(self.path, field, message).at(line);
                    verification.found(discrepancy.values(Some(sha256), Some(found)));
                }
            } else {
                let what = "protected".to_owned();
                let stated = Stated { what, path: name, sha256: Some(sha256.clone()), line, field };
                let reason = "no repository around has that commit with that file";
                verification.is_missing(stated.is_missing(self.path, reason));
                whole = false;
            }
        }
        if whole { Ok(Some(protected)) } else { Err(NotAtHand) }
    }

    /// The files of a side, in the order of the report. Each must be one that the command line names.
    fn side(
        &self,
        side: &str,
        asked: &[PathBuf],
        from_git: bool,
        verification: &mut Verification,
    ) -> Option<Vec<SourceFile>> {
        let stated: Vec<&Stated> = self.files.inputs.iter().filter(|input| input.what == side).collect();
        let mut found = Vec::new();
        for input in &stated {
            let file = if from_git {
                self.committed(input, verification)
            } else {
                result_file(self.path, input, verification).map(|(file, _)| file)
            };
            found.extend(file);
            let path = Path::new(&input.path);
            let is_asked = |asked: &PathBuf| path == asked || path.parent() == Some(asked);
            if !from_git && !asked.iter().any(is_asked) {
                let message = format!("from the command line, which names no such file as --{side}");
                let field = input.field.replace("/sha256", "/path");
                let discrepancy = Discrepancy::new(self.path, field, message).at(input.line);
                verification.found(discrepancy.values(Some(&input.path), None::<String>));
            }
        }
        if !from_git {
            self.left_out(side, asked, &stated, verification);
        }
        (found.len() == stated.len()).then_some(found)
    }

    /// Files and folders of the command line of which the report says nothing.
    fn left_out(&self, side: &str, asked: &[PathBuf], stated: &[&Stated], verification: &mut Verification) {
        let known: HashSet<&str> = stated.iter().map(|input| input.path.as_str()).collect();
        let none_of = |asked: &Path| {
            !stated.iter().any(|input| {
                let path = Path::new(&input.path);
                path == asked || path.parent() == Some(asked)
            })
        };
        for asked in asked.iter().filter(|asked| none_of(asked)) {
            let message =
                format!("the command line names it as --{side}, and the report lists nothing of it");
            let discrepancy = Discrepancy::new(self.path, "/inputs", message);
            let discrepancy = discrepancy.at(self.lines.get("/inputs"));
            verification.found(discrepancy.values(None::<String>, Some(asked.display().to_string())));
        }
        for folder in asked.iter().filter(|folder| folder.is_dir()) {
            let Ok(now) = gate::inputs::of_folder(folder) else { continue };
            for path in now.iter().filter(|path| !known.contains(path.display().to_string().as_str())) {
                self.is_left_out(side, path, verification);
            }
        }
    }

    /// A file of a folder that the report lists nothing of: it came later, by its rows, or may have been left out.
    fn is_left_out(&self, side: &str, path: &Path, verification: &mut Verification) {
        let gate: Option<Date> =
            self.stated.get("today").and_then(Value::as_str).and_then(|day| day.parse().ok());
        let days = history::read(path).ok().map(|file| {
            let days = file.records.iter().filter(|record| record.outcome.is_ok());
            days.map(|record| record.facts.date).collect::<Vec<_>>()
        });
        let later = days.is_some_and(|days| {
            !days.is_empty()
                && days.iter().all(|day| day.is_some_and(|day| gate.is_some_and(|gate| day > gate)))
        });
        let path = path.display().to_string();
        if later {
            let note =
                format!("`{path}` lies in the folder of the {side} now and was measured after the gate");
            verification.notes.push(note);
            return;
        }
        verification.is_missing(MissingInput {
            file: self.path.to_owned(),
            line: Some(self.lines.get("/inputs")),
            what: side.to_owned(),
            path,
            sha256: None,
            reason: "it lies in the folder that the command line names, and the report lists nothing of it, so that whether it was \
                     there and left out cannot be told"
                .to_owned(),
        });
    }

    /// A file of a commit.
    fn committed(&self, input: &Stated, verification: &mut Verification) -> Option<SourceFile> {
        let Some(bytes) = (self.context.read_committed)(&input.path) else {
            let reason = "no repository around has that commit with that file";
            verification.is_missing(input.is_missing(self.path, reason));
            return None;
        };
        let discrepancy = |message: String| Discrepancy::new(self.path, &input.field, message).at(input.line);
        let found = sha256_hex(&bytes);
        if input.sha256.as_ref() != Some(&found) {
            let message = format!("from `{}` in the repository", input.path);
            verification.found(discrepancy(message).values(input.sha256.as_ref(), Some(found)));
        }
        verification.count("input digests", 1);
        match history::read_bytes(&input.path, &bytes) {
            Ok(file) => {
                verification.count("input rows", file.records.len());
                Some(file)
            }
            Err(error) => {
                verification.found(discrepancy(format!("it cannot be looked at again: {error}")));
                None
            }
        }
    }

    /// The files of the second stage, where all of them are at hand.
    fn fresh_files(&self, verification: &mut Verification) -> Option<[Vec<SourceFile>; 2]> {
        let of = |side: &str| -> Option<Vec<SourceFile>> {
            let inputs = self.files.inputs.iter().filter(|input| input.what == side);
            let files: Option<Vec<SourceFile>> = inputs
                .map(|input| match find(self.path, input) {
                    Found::Same(place) => {
                        let mut file = history::read(&place).ok()?;
                        file.path = PathBuf::from(&input.path);
                        Some(file)
                    }
                    Found::Other(..) | Found::Nothing(_) => None,
                })
                .collect();
            files.filter(|files| !files.is_empty())
        };
        let files = [of(CONFIRM_BASELINE)?, of(CONFIRM_CANDIDATE)?];
        let count = files.iter().map(Vec::len).sum();
        verification.count("files of the second stage", count);
        Some(files)
    }

    /// The measurements of the second stage, as the report states them. A refusal of it leaves none.
    fn samples(&self, verification: &mut Verification) -> Option<Vec<Fresh>> {
        let rows = self.stated.get("rows").and_then(Value::as_array);
        let fresh: Vec<Fresh> = rows
            .into_iter()
            .flatten()
            .filter(|row| row.get("screened").is_some_and(|screened| !screened.is_null()))
            .filter_map(fresh)
            .collect();
        if fresh.is_empty() {
            for input in self.files.inputs.iter().filter(|input| input.what.starts_with("confirm-")) {
                let reason = "the second stage left no row in the report, and its files are not there";
                verification.is_missing(input.is_missing(self.path, reason));
            }
            if verification.missing.is_empty() {
                let message =
                    "rows were flagged and --confirm was asked for, but nothing of a second stage is stated";
                let line = self.lines.get("/rows");
                verification.found(Discrepancy::new(self.path, "/rows", message).at(line));
            }
            return None;
        }
        verification.count("measurements of the second stage", fresh.iter().map(Fresh::count).sum());
        verification.notes.push(
            "the files of the second stage are not at hand: statistics, states and outcome were derived from the measurements that \
             the report states"
                .to_owned(),
        );
        Some(fresh)
    }
}

impl Fresh {
    fn count(&self) -> usize {
        self.before.len() + self.after.len()
    }
}

fn fresh(row: &Value) -> Option<Fresh> {
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let values =
        |key: &str| -> Option<Vec<f64>> { row.get(key)?.as_array()?.iter().map(Value::as_f64).collect() };
    let compared = row.get("ratio").is_some_and(|ratio| !ratio.is_null());
    let reason =
        text("reason").and_then(|reason| reason.split_once("; ")).map(|(_, reason)| reason.to_owned());
    let not_compared = if compared { None } else { Some((text("state")?.parse().ok()?, reason)) };
    Some(Fresh {
        model: text("model")?.to_owned(),
        metric: text("metric")?.parse().ok()?,
        before: values("values_before")?,
        after: values("values_after")?,
        not_compared,
    })
}

/// What only the files of a second stage would tell: of these lists the report's own further entries are taken.
fn take_from_report(stated: &Value, derived: &mut Value, verification: &mut Verification) {
    let mut taken = 0;
    for key in ["dropped", "accepted", "warnings", "inputs"] {
        let (Some(stated), Some(derived)) =
            (stated.get(key).and_then(Value::as_array), derived.get_mut(key).and_then(Value::as_array_mut))
        else {
            continue;
        };
        let begins_so = stated.len() >= derived.len()
            && derived.iter().zip(stated).all(|(one, other)| agree(Some(other), Some(one)));
        if begins_so {
            let further = stated.iter().skip(derived.len()).cloned();
            let before = derived.len();
            derived.extend(further);
            taken += derived.len() - before;
        }
    }
    if taken > 0 {
        let note = format!("{taken} entries of the second stage are taken as the report states them");
        verification.notes.push(note);
    }
}
