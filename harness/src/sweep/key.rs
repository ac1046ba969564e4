//! What must be the same for rows to stand in one file: who computes, with what, on which folders, and what the rows are
//! held against.

use std::path::Path;

use mlxcel_reports::row::Backend;
use serde_json::{Map, Value, json};

use super::prepare::Resolved;
use super::resume::Key;
use crate::cli::{Cooldown, SweepArgs, Target};
use crate::provenance::binary::{Executable, digest_if_readable};
use crate::provenance::environment;
use crate::provenance::machine::Machine;
use crate::provenance::private::Abbreviations;
use crate::provenance::sha256_hex;
use crate::worker::protocol::{Hello, RuntimeIdentity};

/// Who will measure.
#[derive(Clone, Copy)]
pub(super) struct Heard<'a> {
    pub(super) own: &'a Hello,
    pub(super) reference: Option<&'a Hello>,
    pub(super) backend: Backend,
}

/// The key of a run.
pub(super) fn key(
    arguments: &SweepArgs,
    resolved: &Resolved,
    executable: &Executable,
    heard: Heard<'_>,
    (machine, private): (&Machine, &Abbreviations),
    factor: f64,
) -> Key {
    let conditions = &arguments.conditions;
    let seconds = |time: std::time::Duration| time.as_secs_f64();
    let (kind, folder) = match arguments.target() {
        Target::Default => ("default", None),
        Target::All(models) => ("all", Some(place(&models, private))),
        Target::Single(path) => ("single", Some(place(&path, private))),
    };
    let mut workload = Map::new();
    let mut fields = |fields: Value| {
        if let Value::Object(fields) = fields {
            workload.extend(fields);
        }
    };
    fields(json!({
        "target": kind,
        "target_as_given": arguments.target,
        "models": arguments.models,
        "folder": folder,
        "lengths": resolved.lengths,
        "capped": resolved.capped,
        "max_tokens": resolved.max_tokens,
        "reps": arguments.shape.reps,
        "prefill_chunk": arguments.shape.prefill_chunk,
        "no_ignore_eos": arguments.shape.no_ignore_eos,
        "dedup": format!("{:?}", arguments.dedup()),
        "order": format!("{:?}", arguments.roster.order),
        "seed": arguments.roster.seed,
        "vlm": arguments.is_vlm(),
        "image": arguments.roster.image.as_deref().map(|path| place(path, private)),
        "worker_program": arguments.worker_program,
        "rerun": arguments.roster.rerun.as_deref().map(|path| file(path, private)),
    }));
    fields(json!({
        "max_spread": conditions.max_spread,
        "timeout_seconds": seconds(arguments.timeout),
        "memory_overhead_factor": factor,
        "cooldown": match conditions.cooldown {
            Cooldown::Fixed(time) => json!(seconds(time)),
            Cooldown::Auto => json!("auto"),
        },
        "cooldown_limit_seconds": seconds(conditions.cooldown_limit),
        "big_cooldown_seconds": seconds(conditions.big_cooldown),
        "big_threshold_gib": conditions.big_threshold_gb,
        "no_cooldown": conditions.no_cooldown,
        "control_every": arguments.roster.control_every,
        "control": arguments.roster.control.as_deref().map(|path| place(path, private)),
        "control_band": arguments.roster.control_band,
        "no_watch": arguments.quiet.no_watch,
        "watch_limit": arguments.quiet.watch_limit,
        "quiet_limit": arguments.quiet.quiet_limit,
        "quiet_ignore": arguments.quiet.quiet_ignore,
        "processors": machine.logical_cores,
    }));
    fields(json!({
        "machine os": machine.os,
        "machine kernel_version": machine.kernel_version,
        "machine device": machine.device_name(heard.backend),
        "machine driver": machine.driver(heard.backend),
    }));
    fields(identity("runtime", Some(&heard.own.runtime)));
    fields(identity("reference", heard.reference.map(|hello| &hello.runtime)));
    let environment = environment::that_compute(std::env::vars_os());
    workload
        .extend(environment.into_iter().map(|(name, value)| (format!("environment {name}"), json!(value))));
    let workload = Value::Object(workload);
    Key {
        executable_sha256: executable.sha256.clone(),
        workload_sha256: sha256_hex(workload.to_string().as_bytes()),
        workload: private.json(workload),
        host_id: machine.host_id.clone(),
    }
}

/// The folder that a path leads to, and a digest of its whole name: abbreviated, two may look the same.
pub(super) fn place(path: &Path, private: &Abbreviations) -> String {
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = canonical.to_string_lossy();
    let digest = sha256_hex(name.as_bytes());
    format!("{} ({})", private.text(&name), digest.get(..12).unwrap_or_default())
}

/// A file by its name and its bytes.
fn file(path: &Path, private: &Abbreviations) -> String {
    let digest = digest_if_readable(path).unwrap_or_default();
    format!("{} ({})", private.text(&path.to_string_lossy()), digest.get(..12).unwrap_or_default())
}

/// Everything a runtime says of itself that decides what it computes.
fn identity(who: &str, runtime: Option<&RuntimeIdentity>) -> Value {
    let Some(runtime) = runtime else { return json!({ who: null }) };
    json!({
        format!("{who} version"): runtime.version,
        format!("{who} backend"): runtime.backend,
        format!("{who} executable_sha256"): runtime.executable_sha256,
        format!("{who} mlx_version"): runtime.mlx_version,
        format!("{who} mlx_revision"): runtime.mlx_revision,
        format!("{who} mlx_library_sha256"): runtime.mlx_library_sha256,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_that_look_the_same_abbreviated_are_two() -> Result<(), Box<dyn std::error::Error>> {
        let root = tempfile::tempdir()?;
        let (one, other) = (root.path().join("one/models"), root.path().join("other/models"));
        for folder in [&one, &other] {
            std::fs::create_dir_all(folder)?;
        }
        let canonical = |path: &Path| path.canonicalize();
        let of = |path: &Path, home: &Path| {
            Ok::<_, std::io::Error>(place(path, &Abbreviations::new(None, Some(canonical(home)?))))
        };
        let (first, second) = (of(&one, &root.path().join("one"))?, of(&other, &root.path().join("other"))?);
        assert!(first.starts_with("~/models (") && second.starts_with("~/models ("), "{first} {second}");
        assert_ne!(first, second);
        std::os::unix::fs::symlink(&one, root.path().join("link"))?;
        assert_eq!(of(&root.path().join("link"), &root.path().join("one"))?, first);
        Ok(())
    }

    #[test]
    fn a_reference_is_the_same_by_all_it_says_of_itself() {
        let runtime = RuntimeIdentity { version: Some("1".to_owned()), ..RuntimeIdentity::default() };
        let mlx = RuntimeIdentity { mlx_version: Some("2".to_owned()), ..runtime.clone() };
        assert_ne!(identity("reference", Some(&runtime)), identity("reference", Some(&mlx)));
        assert_eq!(identity("reference", None), json!({ "reference": null }));
    }
}
