//! Has the oracle prepare what is compared with, and reads it.

use mlx_rs::{Array, Dtype};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The oracle's folder: checkpoints, the logits of each, and the list of them.
pub(crate) struct OracleData {
    root: PathBuf,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// A line of the list.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) name: String,
    pub(crate) model_type: String,
    /// The data type of the weights, scales and activations: `float32`, `float16` or `bfloat16`.
    pub(crate) dtype: String,
    /// The rotary scheme: `default`, `linear`, `llama3` or `yarn`.
    pub(crate) rope_type: String,
    pub(crate) quantization: Option<Quantization>,
    /// The prompt lengths that the oracle recorded, in tokens.
    pub(crate) prompt_lengths: Vec<usize>,
}

/// How the checkpoint is quantized.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Quantization {
    pub(crate) mode: String,
    pub(crate) bits: u32,
    pub(crate) group_size: u32,
}

#[derive(Deserialize)]
struct Manifest {
    checkpoints: Vec<Checkpoint>,
}

/// What the oracle recorded for one checkpoint.
pub(crate) struct Recording(HashMap<String, Array>);

/// Token ids fed after one another, and the logits that each led to.
pub(crate) struct Steps {
    pub(crate) ids: Vec<i32>,
    /// One row a step, as wide as the vocabulary.
    pub(crate) logits: Vec<Vec<f32>>,
}

/// The prepared data, made on the first call of the process.
pub(crate) fn data() -> Result<&'static OracleData, String> {
    static DATA: OnceLock<Result<OracleData, String>> = OnceLock::new();
    DATA.get_or_init(prepare).as_ref().map_err(Clone::clone)
}

/// The repository that these tests were built in.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The interpreter of the oracle's environment, which is made on the first call.
pub(crate) fn interpreter() -> Result<&'static Path, String> {
    static INTERPRETER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    INTERPRETER
        .get_or_init(|| {
            let script = repository().join("scripts/oracle_env.sh");
            last_line(Command::new("sh").arg(&script)).map(PathBuf::from)
        })
        .as_ref()
        .map(PathBuf::as_path)
        .map_err(Clone::clone)
}

/// Runs one of the oracle's scripts; the last line of its standard output.
pub(crate) fn run_script(script: &str, arguments: &[&str]) -> Result<String, String> {
    let script = repository().join("scripts/oracle").join(script);
    // `-B`: no byte code beside the sources, which would make the tree differ from the commit.
    last_line(Command::new(interpreter()?).arg("-B").arg(script).args(arguments))
}

fn prepare() -> Result<OracleData, String> {
    let root = PathBuf::from(run_script("prepare.py", &[])?);
    let list = root.join("manifest.json");
    let text = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let manifest: Manifest =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", list.display()))?;
    Ok(OracleData { root, checkpoints: manifest.checkpoints })
}

/// Runs a command, whose standard error goes to ours, and returns the last line that it prints.
fn last_line(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let remedy = "the oracle (mlx-lm) is needed to show parity; see the error above, or set MLXCEL_SKIP_ORACLE=1 to do without";
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{shown} cannot be started: {error}; {remedy}"))?;
    if !output.status.success() {
        return Err(format!("{shown} ended with {}; {remedy}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default().trim();
    if line.is_empty() {
        return Err(format!("{shown} printed nothing; {remedy}"));
    }
    Ok(line.to_owned())
}

impl OracleData {
    /// The folder of a checkpoint.
    pub(crate) fn folder(&self, checkpoint: &Checkpoint) -> PathBuf {
        self.root.join("checkpoints").join(&checkpoint.name)
    }

    /// What the oracle recorded for a checkpoint.
    pub(crate) fn recording(&self, checkpoint: &Checkpoint) -> Result<Recording, String> {
        Recording::open(&self.root.join("logits").join(format!("{}.safetensors", checkpoint.name)))
    }
}

impl Recording {
    /// Reads what the oracle wrote.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        Array::load_safetensors(path).map(Self).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The ids of the `length`-token prompt and the logits after its last token.
    pub(crate) fn prompt(&self, length: usize) -> Result<(Vec<i32>, Vec<f32>), String> {
        let steps = self.steps_named(&format!("prompt_{length}"), false)?;
        let row = steps.logits.into_iter().next().ok_or("the recording has no logits")?;
        if steps.ids.len() != length {
            return Err(format!("the recorded prompt of {length} tokens has {}", steps.ids.len()));
        }
        Ok((steps.ids, row))
    }

    /// The decode steps after the `length`-token prompt, where there are any.
    pub(crate) fn decode(&self, length: usize) -> Result<Option<Steps>, String> {
        let name = format!("decode_{length}");
        self.0.contains_key(&format!("{name}.ids")).then(|| self.steps_named(&name, true)).transpose()
    }

    fn steps_named(&self, name: &str, a_row_each: bool) -> Result<Steps, String> {
        let get = |part: &str| {
            let key = format!("{name}.{part}");
            self.0.get(&key).ok_or_else(|| format!("the recording lacks {key}; remove the oracle's folder"))
        };
        let ids = get("ids")?.as_slice::<i32>().to_vec();
        let logits = get("logits")?;
        if logits.dtype() != Dtype::Float32 {
            return Err(format!("{name}.logits is {:?}, not f32", logits.dtype()));
        }
        let width =
            logits.shape().last().and_then(|&width| usize::try_from(width).ok()).filter(|&width| width > 0);
        let width = width.ok_or_else(|| format!("{name}.logits is empty"))?;
        let logits: Vec<Vec<f32>> = logits.as_slice::<f32>().chunks(width).map(<[f32]>::to_vec).collect();
        if a_row_each && logits.len() != ids.len() {
            return Err(format!("{name} has {} ids and {} rows of logits", ids.len(), logits.len()));
        }
        Ok(Steps { ids, logits })
    }
}
