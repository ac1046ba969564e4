//! What the tests of the program share: folders that look like checkpoints, and workers that play a script
//! instead of running a model.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod program;

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// Prompt and generated tokens of the scripted sweeps.
pub(crate) const PROMPT: u64 = 8;
pub(crate) const GENERATED: u64 = 4;

static SCRIPTS: AtomicU32 = AtomicU32::new(0);

/// A folder with models, one for results, and a worker script.
pub(crate) struct Bench {
    pub(crate) root: TempDir,
}

impl Bench {
    pub(crate) fn new() -> io::Result<Self> {
        let root = tempfile::tempdir()?;
        fs::create_dir(root.path().join("models"))?;
        Ok(Self { root })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.path("out")
    }

    /// A folder whose files are those of a checkpoint.
    pub(crate) fn checkpoint(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.path("models").join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("config.json"), r#"{"model_type":"llama"}"#)?;
        let header = br#"{"model.norm.weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header);
        file.extend_from_slice(&[0; 8]);
        fs::write(folder.join("model.safetensors"), file)?;
        Ok(folder)
    }

    /// A checkpoint with this configuration and weights of so many bytes.
    pub(crate) fn checkpoint_of(&self, name: &str, config: &Value, bytes: usize) -> io::Result<PathBuf> {
        let folder = self.path("models").join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("config.json"), config.to_string())?;
        let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#);
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.resize(file.len() + bytes, 0);
        fs::write(folder.join("model.safetensors"), file)?;
        Ok(folder)
    }

    /// The program, in this folder, with a scripted worker that does as `script` says.
    pub(crate) fn sweep(&self, script: &str, arguments: &[&str]) -> io::Result<Command> {
        // Each sweep has a script of its own: another may be reading it.
        let number = SCRIPTS.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("script-{number}.sh"));
        fs::write(&path, script)?;
        let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted_worker.sh");
        let mut command = self.program();
        command
            .arg("sweep")
            .args(arguments)
            .args([
                "--format",
                "json",
                "--order",
                "name",
                "--prompt-tokens",
                &PROMPT.to_string(),
                "--max-tokens",
                &GENERATED.to_string(),
            ])
            .arg("--worker-program")
            .arg(worker)
            .env("SCRIPTED_WORKER", path)
            // The tree may be edited while the tests run; whether stale programs are refused is tested by
            // itself.
            .env("BENCH_ALLOW_STALE_BINARY", "1");
        Ok(command)
    }

    /// The program, in this folder.
    pub(crate) fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"));
        command
            .current_dir(self.root.path())
            .env_remove("BENCH_ALLOW_STALE_BINARY")
            // The tests keep the host busy themselves.
            .env("WAIT_FOR_QUIET", "0")
            .env("BENCH_WATCH", "0")
            .env("MLXCEL_CACHE_DIR", self.path("cache"))
            .env("MODELS_DIR", self.path("models"))
            .env("BENCHMARKS_DIR", self.out());
        command
    }

    /// The one file of the results whose name ends like this.
    pub(crate) fn file(&self, ending: &str) -> Result<PathBuf, Box<dyn Error>> {
        let files = self.files()?;
        let mut found = files.iter().filter(|name| name.ends_with(ending));
        match (found.next(), found.next()) {
            (Some(name), None) => Ok(self.out().join(name)),
            _ => Err(format!("not one file ends with {ending}: {files:?}").into()),
        }
    }

    /// The one complete CSV file whose name begins like this, if there is one.
    pub(crate) fn csv_of(&self, begins: &str) -> io::Result<Option<PathBuf>> {
        let mut files = self.files()?.into_iter().map(|name| self.out().join(name));
        let named = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with(begins)
                && path.extension().is_some_and(|ending| ending == "csv")
                && !name.contains(".partial.")
        };
        Ok(files.rfind(named))
    }

    /// A JSON file of the results.
    pub(crate) fn json(&self, ending: &str) -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_slice(&fs::read(self.file(ending)?)?)?)
    }

    /// The files a sweep left.
    pub(crate) fn files(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        if self.out().exists() {
            for entry in fs::read_dir(self.out())? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

/// The rows of a sweep that printed JSON.
pub(crate) fn rows(output: &Output) -> Result<Vec<Value>, Box<dyn Error>> {
    let document: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", stderr(output)))?;
    Ok(document
        .get("rows")
        .and_then(Value::as_array)
        .cloned()
        .ok_or_else(|| format!("no rows in {document}"))?)
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The value of a column in a row, as text.
pub(crate) fn cell(row: &Value, column: &str) -> String {
    match row.get(column) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn say(event: &Value) -> String {
    format!("printf '%s\\n' '{event}'\n")
}

pub(crate) fn hello() -> String {
    say(&json!({
        "event": "hello", "protocol": 1, "pid": 1, "stamp": null,
        "runtime": {
            "version": "0", "backend": "cpu", "executable_sha256": null, "mlx_version": "0.0.0", "mlx_revision": "v0.0.0",
            "mlx_library": null, "mlx_library_sha256": null, "mlx_rs_version": null, "mlx_c_version": null, "report": null
        }
    }))
}

/// Answers one request with one event.
pub(crate) fn answer(event: &Value) -> String {
    format!("{HEAR}{}", say(event))
}

/// Reads one request; a worker whose parent is gone, or only wanted to hear hello, ends.
pub(crate) const HEAR: &str = "read -r request || exit 0\ncase \"$request\" in *finish*) printf '%s\\n' '{\"event\":\"done\"}'; exit 0;; esac\n";

pub(crate) fn loaded() -> String {
    answer(&json!({
        "event": "loaded", "load_nanos": 5_000_000, "model_type": "llama", "parameters": 2, "weight_bytes": 8,
        "bits_per_weight": 32.0, "context_length": 100, "synthetic": false, "kv_mode": "f32", "kernels": "scripted",
        "active_memory_bytes": 8, "peak_memory_bytes": 8, "summary": null
    }))
}

/// A generation of these tokens, 1 ms each, after a prefill of 2 ms.
pub(crate) fn generated(rep: u32, tokens: &[u32]) -> String {
    let nanos: Vec<u64> = (0..tokens.len() as u64).map(|token| 2_000_000 + token * 1_000_000).collect();
    answer(&sample(rep, tokens, &nanos))
}

/// A generation whose decode steps take so many nanoseconds, after a prefill of 2 ms.
pub(crate) fn paced(rep: u32, step_nanos: u64) -> String {
    let tokens = [5, 6, 7, 8];
    let nanos: Vec<u64> = (0..tokens.len() as u64).map(|token| 2_000_000 + token * step_nanos).collect();
    answer(&sample(rep, &tokens, &nanos))
}

fn sample(rep: u32, tokens: &[u32], nanos: &[u64]) -> Value {
    json!({
        "event": "generated",
        "sample": {
            "rep": rep, "prompt_tokens": PROMPT, "token_nanos": nanos, "host_nanos": 1000, "peak_memory_bytes": 16,
            "started_at": "2026-11-29T12:00:00Z", "finish": "length"
        },
        "tokens": tokens,
        "prompt_sha256": "00"
    })
}

/// A warm-up that tells the prompt and what was suppressed.
pub(crate) fn telling_warmup(prompt_sha256: &str, suppressed: &Value) -> String {
    let mut event = sample(0, &[5, 6, 7, 8], &[2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    event["prompt_sha256"] = prompt_sha256.into();
    event["prompt"] = json!([1, 2, 3, 4, 5, 6, 7, 8]);
    event["suppressed"] = suppressed.clone();
    answer(&event)
}

/// What a worker does on a checkpoint after hello, with so many repetitions.
pub(crate) fn good_rest(reps: u32) -> String {
    let tokens = [5, 6, 7, 8];
    format!("{}{}{HEAR}", loaded(), (0..=reps).map(|rep| generated(rep, &tokens)).collect::<String>())
}

pub(crate) fn failed(stage: &str, kind: &str, message: &str) -> String {
    answer(&json!({ "event": "failed", "stage": stage, "kind": kind, "message": message }))
}

/// A worker that does everything right, with so many repetitions.
pub(crate) fn good(reps: u32) -> String {
    let tokens = [5, 6, 7, 8];
    let generations: String = (0..=reps).map(|rep| generated(rep, &tokens)).collect();
    format!("{}{}{generations}{HEAR}", hello(), loaded())
}

/// `first` for checkpoints whose folder is named `name`, `other` for all others. Both go on after hello.
pub(crate) fn depending_on(name: &str, first: &str, other: &str) -> String {
    // The load request is looked at here, so the parts must not read it again.
    format!(
        "{}{HEAR}answered=$request\nread() {{ if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }}\n\
         case \"$request\" in */{name}*) {first} ;; *) {other} ;; esac\n",
        hello()
    )
}

/// Each of these for checkpoints whose folder begins like that, the last for all others. All go on after hello.
pub(crate) fn by_name(cases: &[(&str, &str)], other: &str) -> String {
    let cases = cases
        .iter()
        .fold(String::new(), |cases, (name, script)| cases + &format!("*/{name}*) {script} ;;\n"));
    format!(
        "{}{HEAR}answered=$request\nread() {{ if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }}\n\
         case \"$request\" in\n{cases}*) {other} ;; esac\n",
        hello()
    )
}

/// Checkpoints of these names, each of a configuration of its own.
pub(crate) fn checkpoints(bench: &Bench, names: &[&str]) -> Outcome {
    for name in names {
        bench.checkpoint_of(name, &json!({"model_type": "llama", "name": name}), 8)?;
    }
    Ok(())
}

/// Waits until a file is there.
pub(crate) fn wait_for(path: &Path) -> Outcome {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_mins(1) {
        if path.exists() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(format!("{} did not appear", path.display()).into())
}

/// A worker of our own that tells its prompt, with one repetition.
pub(crate) fn own() -> String {
    format!(
        "{}{}{}{}{HEAR}",
        hello(),
        loaded(),
        telling_warmup("00", &json!([2])),
        generated(1, &[5, 6, 7, 8])
    )
}
