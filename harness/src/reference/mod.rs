//! Reference runtimes: other programs that generate from the same checkpoints with the same token ids, in the same sweep.
//!
//! mlx-lm is one. Its worker is a script that this program carries and hands to the interpreter; it speaks the worker
//! protocol, so that limits, crashes and times are handled as those of our own. Which rows it gives is left to `sweep`.

use std::path::{Path, PathBuf};
use std::process::Command;

use mlxcel_reports::row::Backend;

use crate::cli::Reference;
use crate::worker::child::WorkerProgram;

/// The worker.
const MLX_LM: &str = include_str!("mlx_lm_worker.py");
/// The variable that names the interpreter.
const PYTHON: &str = "MLXLM_PYTHON";
/// The script that makes the pinned environment.
pub const SCRIPT: &str = "scripts/oracle_env.sh";

/// The worker of a reference: the named interpreter, else that of `MLXLM_PYTHON`, else that of the pinned environment
/// where it was made, else `python3`.
pub fn worker(reference: &Reference, checkout: Option<&Path>, backend: Backend) -> WorkerProgram {
    let python = reference
        .python
        .clone()
        .or_else(|| std::env::var_os(PYTHON).filter(|value| !value.is_empty()).map(PathBuf::from))
        .or_else(|| checkout.and_then(pinned))
        .unwrap_or_else(|| "python3".into());
    let device = if backend == Backend::Cpu { "cpu" } else { "gpu" };
    WorkerProgram { path: python, arguments: vec!["-c".into(), MLX_LM.into(), device.into()], foreign: true }
}

/// The interpreter of the pinned environment, where it is there.
fn pinned(checkout: &Path) -> Option<PathBuf> {
    let output = Command::new(checkout.join(SCRIPT)).arg("--check").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().strip_prefix("ready ").map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_interpreter_counts_before_all_others_and_the_device_is_that_of_the_backend() {
        let named = Reference { python: Some("/opt/env/bin/python".into()) };
        let program = worker(&named, None, Backend::Cpu);
        assert_eq!(program.path, Path::new("/opt/env/bin/python"));
        assert_eq!(program.arguments.last(), Some(&"cpu".into()));
        assert_eq!(worker(&named, None, Backend::Metal).arguments.last(), Some(&"gpu".into()));
    }

    #[test]
    fn a_checkout_without_the_script_has_no_pinned_environment() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        assert_eq!(pinned(folder.path()), None);
        Ok(())
    }
}
