//! What the doctor found of each host, kept in the cache folder: `hosts/<host id>.doctor.json`, and beside it the spreads in
//! the form that `gate --spreads` reads. The wire type is `wire`'s.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mlxcel_reports::gate::spread::{Spread, Spreads};

use super::wire::{OLDEST_SCHEMA_VERSION, SCHEMA_VERSION, Version, Wire};
use super::{Diagnosis, Noise};
use crate::digests::cache_folder;

/// A diagnosis cannot be kept, or what is kept cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no folder for it.
    #[error("there is no cache folder; set MLXCEL_CACHE_DIR to a folder that can be written")]
    NoFolder,
    /// The host has no identity, so what was found could be taken for another's.
    #[error(
        "this host has no identity (/etc/machine-id, or the board's of a Mac), so nothing can be kept for it; use --format json \
         and gate --spreads"
    )]
    NoIdentity,
    /// A file cannot be read or written.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("`{}` is no result of this doctor: {reason}; run `mlxcel-bench doctor` again, or remove it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Where a diagnosis was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The diagnosis.
    pub diagnosis: PathBuf,
    /// Its spreads.
    pub spreads: PathBuf,
}

/// The stored form, which is also the printed one.
pub(super) fn to_json(diagnosis: &Diagnosis) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(Wire::from(diagnosis))
}

impl Diagnosis {
    /// The A/A spreads in the form that `gate` reads: of the control by its name, and of every other row of the host by `*`.
    /// A spread is the largest distance of a process from the median, so that twice of it, the gate's default factor, is as far
    /// as two of them can lie apart.
    pub fn spreads(&self) -> Spreads {
        let Some(host) = &self.host.hardware else { return Spreads::default() };
        let entry = |model: &str, noise: &Noise| Spread {
            host: host.clone(),
            model: model.to_owned(),
            metric: noise.metric,
            spread: noise.largest_deviation,
        };
        let both = |noise| [entry(&self.control.model, noise), entry("*", noise)];
        Spreads { spread: self.noise.iter().flat_map(both).collect() }
    }
}

/// Keeps a diagnosis in the cache folder, in place of an earlier one of the host.
///
/// # Errors
/// [`StoreError`].
pub fn keep(diagnosis: &Diagnosis) -> Result<Kept, StoreError> {
    keep_in(&cache_folder().ok_or(StoreError::NoFolder)?.join("hosts"), diagnosis)
}

fn keep_in(folder: &Path, diagnosis: &Diagnosis) -> Result<Kept, StoreError> {
    let host_id = diagnosis.host.host_id.as_deref().ok_or(StoreError::NoIdentity)?;
    let [json, toml] = paths(folder, host_id);
    let text = |error: &dyn std::fmt::Display| StoreError::Unreadable {
        path: json.clone(),
        reason: error.to_string(),
    };
    let diagnosis_text =
        serde_json::to_string_pretty(&Wire::from(diagnosis)).map_err(|error| text(&error))? + "\n";
    let spreads = diagnosis.spreads().to_toml().map_err(|error| text(&error))?;
    let header = format!(
        "# A/A spreads of this host, by `mlxcel-bench doctor` on {}; see docs/hosts.md.\n\n",
        diagnosis.measured_at.strftime("%Y-%m-%d")
    );
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Io { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    write_whole(&json, &diagnosis_text).map_err(failed(&json))?;
    write_whole(&toml, &(header + &spreads)).map_err(failed(&toml))?;
    Ok(Kept { diagnosis: json, spreads: toml })
}

fn paths(folder: &Path, host_id: &str) -> [PathBuf; 2] {
    ["doctor.json", "spreads.toml"].map(|kind| folder.join(format!("{host_id}.{kind}")))
}

fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = std::fs::File::create(&partial)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}

/// What the doctor found of the host of this id, if it was ever asked; in this process's cache folder.
///
/// # Errors
/// [`StoreError`], when there is something that cannot be used.
pub fn stored(host_id: &str) -> Result<Option<Diagnosis>, StoreError> {
    match cache_folder() {
        Some(folder) => stored_in(&folder.join("hosts"), host_id),
        None => Ok(None),
    }
}

/// The same, in a folder of one's choice.
///
/// # Errors
/// [`StoreError`].
pub fn stored_in(folder: &Path, host_id: &str) -> Result<Option<Diagnosis>, StoreError> {
    // It becomes part of a path, and host ids are hexadecimal.
    if host_id.is_empty() || !host_id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(None);
    }
    let [path, _] = paths(folder, host_id);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Io { path, source }),
    };
    let unreadable = |reason: String| StoreError::Unreadable { path: path.clone(), reason };
    let Version { schema_version } =
        serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    if !(OLDEST_SCHEMA_VERSION..=SCHEMA_VERSION).contains(&schema_version) {
        let reason = format!(
            "it is of version {schema_version}, and this program knows {OLDEST_SCHEMA_VERSION} to {SCHEMA_VERSION}"
        );
        return Err(unreadable(reason));
    }
    let wire: Wire = serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    Diagnosis::try_from(wire).map(Some).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use mlxcel_reports::record::Metric;

    use super::super::tests::diagnosis;
    use super::*;

    const RATES: [f64; 4] = [100.0, 101.0, 99.0, 100.5];

    #[test]
    fn a_diagnosis_reads_back_as_it_was() -> Result<(), StoreError> {
        let folder = tempfile::tempdir().map_err(|source| StoreError::Io { path: PathBuf::new(), source })?;
        let written = diagnosis(&RATES, &RATES);
        assert_eq!(stored_in(folder.path(), "0123456789abcdef")?, None);
        let kept = keep_in(&folder.path().join("hosts"), &written)?;
        assert_eq!(stored_in(&folder.path().join("hosts"), "0123456789abcdef")?, Some(written));
        assert!(kept.spreads.exists());
        Ok(())
    }

    #[test]
    fn one_of_the_first_version_still_reads_and_knows_no_bandwidth_of_a_gpu()
    -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let written = diagnosis(&RATES, &RATES);
        let kept = keep_in(folder.path(), &written)?;
        let mut document: serde_json::Value = serde_json::from_slice(&std::fs::read(&kept.diagnosis)?)?;
        let fields = document.as_object_mut().ok_or("no object")?;
        fields.remove("device_stream").ok_or("no device_stream")?;
        fields.insert("schema_version".to_owned(), 1.into());
        std::fs::write(&kept.diagnosis, document.to_string())?;
        assert_eq!(stored_in(folder.path(), "0123456789abcdef")?, Some(written));
        Ok(())
    }

    #[test]
    fn the_gate_reads_the_spreads_and_finds_the_host_in_them() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let kept = keep_in(folder.path(), &diagnosis(&RATES, &RATES))?;
        let spreads = Spreads::read(&kept.spreads)?;
        for model in ["control-4bit", "any-other"] {
            let spread = spreads.of("Example_CPU_8GB", model, Metric::Decode);
            assert!(spread.is_some_and(|spread| (spread - 1.25 / 100.25).abs() < 1e-9), "{spread:?}");
        }
        assert_eq!(spreads.of("Another_CPU_8GB", "control-4bit", Metric::Decode), None);
        assert_eq!(spreads.of("Example_CPU_8GB", "control-4bit", Metric::Prefill), None);
        Ok(())
    }

    #[test]
    fn what_was_altered_or_is_of_another_version_is_not_used() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let kept = keep_in(folder.path(), &diagnosis(&RATES, &RATES))?;
        let text = std::fs::read_to_string(&kept.diagnosis)?;
        for (from, to, words) in [
            ("\"schema_version\": 2", "\"schema_version\": 3", "version 3"),
            ("\"prompt_tokens\": 128", "\"prompt_tokens\": 64", "digest"),
            ("\"Quiet\"", "\"Silent\"", "`Silent`"),
            ("99.0", "-99.0", "above 0"),
            ("\"reps\": 3", "\"reps\": 3, \"more\": 1", "more"),
        ] {
            std::fs::write(&kept.diagnosis, text.replacen(from, to, 1))?;
            let error = stored_in(folder.path(), "0123456789abcdef").err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| error.contains(words)), "{words}: {error:?}");
        }
        Ok(())
    }

    #[test]
    fn a_host_without_identity_has_nothing_kept_and_no_path_is_made_of_others() {
        let mut nameless = diagnosis(&RATES, &RATES);
        nameless.host.host_id = None;
        let folder = std::env::temp_dir().join("never-made");
        assert!(matches!(keep_in(&folder, &nameless), Err(StoreError::NoIdentity)));
        assert!(matches!(stored_in(Path::new("/"), "../etc/passwd"), Ok(None)));
    }
}
