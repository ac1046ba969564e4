//! Folders with the two sides of a gate, and programs that play a sweep.

#![allow(dead_code, reason = "each test file uses its part")]

#[path = "program.rs"]
mod program;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

pub(crate) const HEADER: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                      hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n";
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_mlxcel-bench");

/// A row of the historical layout with commits.
pub(crate) fn row(model: &str, decode_ms: f64, commit: &str) -> String {
    format!(
        "{model},./models/{model}/,512,128,100.00,5120.00,{decode_ms:.2},,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,128,\
         \"Hello, how are you today?\",512,{commit},9a795735\n"
    )
}

pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn new() -> std::io::Result<Self> {
        tempfile::tempdir().map(Self)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Result files of one row each, 1.csv and so on, with decode times of about `decode_ms`.
    pub(crate) fn side(&self, name: &str, count: u32, decode_ms: f64, commit: &str) -> Outcome {
        fs::create_dir_all(self.path(name))?;
        for number in 1..=count {
            let text = row("alpha", decode_ms + f64::from(number * 7 % count), commit);
            fs::write(self.path(name).join(format!("{number}.csv")), HEADER.to_owned() + &text)?;
        }
        Ok(())
    }

    pub(crate) fn run(&self, line: &str) -> std::io::Result<Output> {
        Command::new(PROGRAM).current_dir(self.0.path()).args(line.split_whitespace()).output()
    }

    pub(crate) fn git(&self, line: &str) -> Result<String, Box<dyn Error>> {
        let output = Command::new("git")
            .current_dir(self.0.path())
            .args(["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"])
            .args(line.split_whitespace())
            .output()?;
        if !output.status.success() {
            return Err(format!("git {line}: {}", stderr(&output)).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    pub(crate) fn commit(&self, message: &str) -> Result<String, Box<dyn Error>> {
        self.git("add --all")?;
        self.git(&format!("commit --quiet --allow-empty --no-verify -m {message}"))?;
        Ok(self.git("rev-parse HEAD")?.chars().take(8).collect())
    }

    /// A repository in which a baseline of eight files was measured with one commit and committed in the next, which is
    /// `origin/main`; then comes the change under test. Returns its commit.
    pub(crate) fn repository(&self) -> Result<String, Box<dyn Error>> {
        self.git("init --quiet")?;
        let measured = self.commit("measured")?;
        self.side("benchmarks/baseline", 8, 1270.0, &measured)?;
        self.commit("baseline")?;
        self.git("update-ref refs/remotes/origin/main HEAD")?;
        fs::write(self.path("change"), "a change")?;
        self.commit("change")
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(output))
}

/// A program that plays `sweep` with prepared files, one a call, notes each call, and is the real one in all else.
pub(crate) fn player(folder: &Folder, at: &Path, prepared: &str) -> Outcome {
    let text = format!(
        "#!/bin/sh\nset -eu\nif [ \"$1\" != sweep ]; then exec '{PROGRAM}' \"$@\"; fi\necho \"{prepared} $*\" >> '{}'\n\
         while [ $# -gt 0 ]; do case $1 in --out) out=$2;; --suffix) suffix=$2;; esac; shift; done\n\
         mkdir -p \"$out\"\ncount=$(ls \"$out\" | wc -l)\ncp '{}'/$((count + 1)).csv \"$out/$suffix.csv\"\n",
        folder.path("calls").display(),
        folder.path(prepared).display()
    );
    script(at, &text)
}

pub(crate) fn script(at: &Path, text: &str) -> Outcome {
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(program::script(at, text)?)
}
