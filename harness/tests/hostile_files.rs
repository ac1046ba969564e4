//! What lies in the place of a file: pipes, devices, folders, names that are not UTF-8, and what may not be read. Commands
//! name it, end with their exit code and never wait.

#[path = "common/program.rs"]
mod program;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

const ROWS: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                    hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n\
                    alpha,./models/alpha/,512,128,100.00,5120.00,1270.00,,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,128,\
                    hi,512,11111111,9a795735\n";

struct Place(TempDir);

impl Place {
    fn new() -> std::io::Result<Self> {
        tempfile::tempdir().map(Self)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    }

    /// A pipe that nobody writes into.
    fn pipe(&self, name: &str) -> Outcome {
        let made = Command::new("mkfifo").arg(self.path(name)).status()?;
        if made.success() { Ok(()) } else { Err("no pipe could be made".into()) }
    }

    /// Runs a program, which must end by itself within a minute.
    fn ended(&self, mut command: Command) -> Result<Output, Box<dyn Error>> {
        let mut child = command
            .current_dir(self.0.path())
            .env("MLXCEL_CACHE_DIR", self.path("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let begun = Instant::now();
        while child.try_wait()?.is_none() {
            if begun.elapsed() > Duration::from_mins(1) {
                child.kill()?;
                return Err(format!("{command:?} waits for what never comes").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(child.wait_with_output()?)
    }

    fn run(&self, line: &str) -> Result<Output, Box<dyn Error>> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"));
        command.args(line.split_whitespace());
        self.ended(command)
    }
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|stream| String::from_utf8_lossy(stream).into_owned()).concat()
}

#[track_caller]
fn says(output: &Output, code: i32, words: &[&str]) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_pipe_or_a_device_among_a_checkpoints_files_is_a_fault() -> Outcome {
    for name in ["config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"] {
        for device in [false, true] {
            let place = Place::new()?;
            place.write("models/x/config.json", r#"{"model_type":"llama"}"#)?;
            place.write("models/x/tokenizer.json", r#"{"model":{}}"#)?;
            let path = place.path("models/x").join(name);
            let _ = fs::remove_file(&path);
            if device {
                std::os::unix::fs::symlink("/dev/zero", &path)?;
            } else {
                place.pipe(&format!("models/x/{name}"))?;
            }
            says(&place.run("catalog check models")?, 1, &[name, "not a regular file"]);
            let scan = place.run("catalog scan models --host h --table t.tsv --dry-run")?;
            says(&scan, 1, &[name, "not a regular file"]);
            place.run("catalog identify models --level 4")?;
        }
    }
    Ok(())
}

#[test]
fn a_pipe_a_device_or_a_folder_in_the_place_of_a_result_file_is_named() -> Outcome {
    let place = Place::new()?;
    place.write("results/a.csv", ROWS)?;
    place.pipe("results/pipe.csv")?;
    std::os::unix::fs::symlink("/dev/zero", place.path("results/zero.csv"))?;
    std::os::unix::fs::symlink("nowhere", place.path("results/dead.csv"))?;
    fs::create_dir(place.path("results/folder.csv"))?;
    let scan = place.run("history scan results --format json")?;
    says(&scan, 4, &["results/pipe.csv", "results/zero.csv", "results/dead.csv"]);
    let files: Value = serde_json::from_slice(&scan.stdout)?;
    assert_eq!(files.as_array().map(Vec::len), Some(4), "{files:#}");
    for name in ["pipe.csv", "zero.csv", "folder.csv"] {
        let line = format!("compare --before results/{name} --after results/a.csv");
        says(&place.run(&line)?, 4, &[name, "not a regular file"]);
        says(&place.run(&format!("verify results/{name}"))?, 4, &[name, "not a regular file"]);
        says(
            &place.run(&format!("catalog resolve x --table results/{name}"))?,
            4,
            &[name, "not a regular file"],
        );
    }
    // A cause is told once.
    let once = text(&place.run("compare --before absent.csv --after absent.csv")?);
    assert_eq!(once.matches("No such file").count(), 1, "{once}");
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_not_utf8_is_listed_and_breaks_no_json() -> Outcome {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new()?;
    let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.csv");
    place.write("results/a.csv", ROWS)?;
    fs::copy(place.path("results/a.csv"), place.path("results").join(name))?;
    let scan = place.run("history scan results --format json")?;
    says(&scan, 0, &[]);
    let files: Value = serde_json::from_slice(&scan.stdout)?;
    assert_eq!(files.as_array().map(Vec::len), Some(2), "{files:#}");
    for (path, code) in [(Path::new("results").join(name), 0), (Path::new("absent").join(name), 4)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"));
        command.args(["verify", "--format", "json"]).arg(path);
        let output = place.ended(command)?;
        says(&output, code, &[]);
        let _: Value = serde_json::from_slice(&output.stdout)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn a_name_forges_no_line_of_the_output_and_reaches_no_terminal() -> Outcome {
    let place = Place::new()?;
    let evil = "evil\u{1b}[31m\nok     fake: fine";
    place.write(&format!("models/{evil}/config.json"), r#"{"model_type":"llama"}"#)?;
    place.write(&format!("results/{evil}.csv"), ROWS)?;
    let run = |line: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mlxcel-bench"));
        command.args(line);
        place.ended(command)
    };
    let file = format!("results/{evil}.csv");
    for line in [
        &["catalog", "check", "models"][..],
        &["catalog", "identify", "models"],
        &["catalog", "scan", "models", "--host", "h", "--table", "t.tsv", "--dry-run"],
        &["history", "scan", "results"],
        &["verify", &file],
        &["compare", "--before", &file, "--after", &file],
        &["compare", "--before", "a\u{1b}[31m", "--after", &file],
    ] {
        let said = text(&run(line)?);
        assert!(!said.contains('\u{1b}'), "{line:?}: {said}");
        assert!(!said.lines().any(|line| line.starts_with("ok     fake")), "{line:?}: {said}");
    }
    Ok(())
}

/// Root may read everything, so there the program runs as nobody.
#[test]
fn what_may_not_be_read_is_named_and_the_rest_goes_on() -> Outcome {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65_534;
    let place = Place::new()?;
    let set = |name: &str, mode: u32| fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode));
    place.write("results/a.csv", ROWS)?;
    place.write("results/closed.csv", ROWS)?;
    place.write("results/within/b.csv", ROWS)?;
    // Where the program was built nobody else may be allowed to look.
    program::copy(Path::new(env!("CARGO_BIN_EXE_mlxcel-bench")), &place.path("program"))?;
    for (name, mode) in [(".", 0o755), ("program", 0o755), ("results/closed.csv", 0), ("results/within", 0)] {
        set(name, mode)?;
    }
    let is_root = fs::metadata(place.path("program"))?.uid() == 0;
    let run = |line: &str| {
        let mut command = Command::new(place.path("program"));
        command.args(line.split_whitespace());
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        place.ended(command)
    };
    let scan = run("history scan results --format json")?;
    says(&scan, 4, &["results/closed.csv", "results/within", "Permission denied"]);
    let files: Value = serde_json::from_slice(&scan.stdout)?;
    assert_eq!(files.as_array().map(Vec::len), Some(3), "{files:#}");
    assert_eq!(files.pointer("/0/rows"), Some(&Value::from(1)));
    for line in [
        "compare --before results/closed.csv --after results/a.csv",
        "verify results/closed.csv",
        "gate --baseline results/within --candidate results/a.csv",
        "gate --baseline results/closed.csv --candidate results/a.csv",
        "catalog resolve x --table results/closed.csv",
        "catalog check results/within",
        "history scan results/within",
    ] {
        says(&run(line)?, 4, &["results/", "Permission denied"]);
    }
    // A folder where nothing may be written.
    set("results", 0o555)?;
    let out = run("compare --before results/a.csv --after results/a.csv --out results/o.txt")?;
    says(&out, 2, &["V02"]);
    set("results", 0o755)?;
    set("results/within", 0o755)?;
    Ok(())
}

#[test]
fn folders_without_a_checkpoint_are_no_clean_check() -> Outcome {
    let place = Place::new()?;
    fs::create_dir_all(place.path("models/notes"))?;
    says(&place.run("catalog check models")?, 1, &["models/notes", "nothing was checked", "1 fault"]);
    let output = place.run("catalog check models --format json")?;
    let document: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(document["faults"], 1, "{document:#}");
    Ok(())
}
