//! `gate` as a command, a baseline by ancestry, and the examples of `docs/ci.md` and `docs/gating.md`, run.

#[path = "common/program.rs"]
mod program;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

const HEADER: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                      hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n";
const PROGRAM: &str = env!("CARGO_BIN_EXE_mlxcel-bench");

/// A row of the historical layout with commits.
fn row(model: &str, decode_ms: f64, commit: &str) -> String {
    format!(
        "{model},./models/{model}/,512,128,100.00,5120.00,{decode_ms:.2},,2026-09-09,Apple_M5_Max_128GB,0.7.0,release,128,\
         \"Hello, how are you today?\",512,{commit},9a795735\n"
    )
}

struct Folder(TempDir);

impl Folder {
    fn new() -> std::io::Result<Self> {
        tempfile::tempdir().map(Self)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Result files of one row each, 1.csv and so on, with decode times of about `decode_ms`.
    fn side(&self, name: &str, count: u32, decode_ms: f64, commit: &str) -> Outcome {
        fs::create_dir_all(self.path(name))?;
        for number in 1..=count {
            let text = row("alpha", decode_ms + f64::from(number * 7 % count), commit);
            fs::write(self.path(name).join(format!("{number}.csv")), HEADER.to_owned() + &text)?;
        }
        Ok(())
    }

    fn run(&self, line: &str) -> std::io::Result<Output> {
        Command::new(PROGRAM).current_dir(self.0.path()).args(line.split_whitespace()).output()
    }

    fn git(&self, line: &str) -> Result<String, Box<dyn Error>> {
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

    fn commit(&self, message: &str) -> Result<String, Box<dyn Error>> {
        self.git("add --all")?;
        self.git(&format!("commit --quiet --allow-empty --no-verify -m {message}"))?;
        Ok(self.git("rev-parse HEAD")?.chars().take(8).collect())
    }

    /// A repository in which a baseline of eight files was measured with one commit and committed in the next, which is
    /// `origin/main`; then comes the change under test. Returns its commit.
    fn repository(&self) -> Result<String, Box<dyn Error>> {
        self.git("init --quiet")?;
        let measured = self.commit("measured")?;
        self.side("benchmarks/baseline", 8, 1270.0, &measured)?;
        self.commit("baseline")?;
        self.git("update-ref refs/remotes/origin/main HEAD")?;
        fs::write(self.path("change"), "a change")?;
        self.commit("change")
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(output))
}

const GATE: &str = "gate --metric decode --baseline a --candidate b";

#[test]
fn every_outcome_has_its_exit_code() -> Outcome {
    for (count, before, after, line, code) in [
        (5, 1270.0, 1275.0, GATE, 0),
        (5, 1270.0, 1600.0, GATE, 1),
        (5, 1270.0, 1275.0, "gate --baseline a --candidate b --vary nothing", 2),
        (1, 1270.0, 1600.0, GATE, 3),
        (5, 1270.0, 1275.0, "gate --baseline a --candidate absent", 4),
        (5, 1600.0, 1270.0, "gate --metric decode --baseline a --candidate b --tell-improvements", 5),
        (5, 1600.0, 1270.0, GATE, 0),
        (1, 1270.0, 1275.0, "gate --baseline a", 64),
        (1, 1270.0, 1275.0, "gate --baseline a --candidate b --report xml=x", 64),
    ] {
        let folder = Folder::new()?;
        folder.side("a", count, before, "11111111")?;
        folder.side("b", count, after, "22222222")?;
        let output = folder.run(line)?;
        assert_eq!(output.status.code(), Some(code), "{line}: {}", said(&output));
    }
    Ok(())
}

#[test]
fn one_measurement_a_side_is_called_that() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    let output = folder.run(GATE)?;
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout)?.contains("one measurement a side"));
    Ok(())
}

#[test]
fn reports_are_written_all_or_none_and_tell_nothing_of_where_the_program_lies() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 5, 1270.0, "11111111")?;
    folder.side("b", 5, 1275.0, "22222222")?;
    for (reports, words) in [
        ("--report junit=x --report json=x", "named twice"),
        ("--report junit=x --report json=absent/y", "absent/y"),
        ("--report junit=x --report json=a", "is not replaced"),
    ] {
        let output = folder.run(&format!("{GATE} {reports}"))?;
        assert_eq!(output.status.code(), Some(4), "{reports}");
        assert!(said(&output).contains(words), "{words}: {}", said(&output));
        assert!(!folder.path("x").exists(), "{reports}");
    }
    let output = folder.run(&format!("{GATE} --format json"))?;
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(report["command"][0], "mlxcel-bench", "{}", report["command"]);
    Ok(())
}

#[test]
fn reports_are_written_in_every_form_and_replace_nothing() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 5, 1270.0, "11111111")?;
    folder.side("b", 5, 1600.0, "22222222")?;
    let line = format!(
        "{GATE} --format json --report table=t --report json=j --report markdown=m --report junit=x --report benchstat=s"
    );
    let output = folder.run(&line)?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(printed["outcome"], "regression");
    assert_eq!(printed["rows"][0]["test"]["verdict"], "SLOWER");
    assert_eq!(serde_json::from_str::<Value>(&fs::read_to_string(folder.path("j"))?)?, printed);
    for (file, part) in [
        ("t", "gate: REGRESSION"),
        ("m", "<!-- mlxcel-bench gate -->"),
        ("x", "<failure type=\"regression\""),
        ("s", "BenchmarkDecode/model=alpha/metric=decode 1 "),
    ] {
        let text = fs::read_to_string(folder.path(file))?;
        assert!(text.contains(part), "{file}: {text}");
    }
    fs::write(folder.path("t"), "mine")?;
    let again = folder.run(&format!("{GATE} --report table=t"))?;
    assert_eq!(again.status.code(), Some(4), "{}", said(&again));
    assert_eq!(fs::read_to_string(folder.path("t"))?, "mine");
    Ok(())
}

#[test]
fn a_faulty_policy_or_file_ends_with_4_and_names_its_place() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    fs::create_dir(folder.path("empty"))?;
    fs::write(folder.path("p.toml"), "floor = 0.1\nflor = 0.1\n")?;
    fs::write(
        folder.path("s.toml"),
        "[[spread]]\nhost = \"h\"\nmodel = \"m\"\nmetric = \"decode\"\nspread = -1.0\n",
    )?;
    for (line, part) in [
        (format!("{GATE} --policy p.toml"), "p.toml: TOML parse error at line 2"),
        (format!("{GATE} --policy absent.toml"), "cannot read `absent.toml`"),
        (format!("{GATE} --spreads s.toml"), "spread of `m`"),
        ("gate --baseline empty --candidate b".to_owned(), "holds no result file"),
    ] {
        let output = folder.run(&line)?;
        assert_eq!(output.status.code(), Some(4), "{line}: {}", said(&output));
        assert!(stderr(&output).contains(part), "{line}: {}", stderr(&output));
    }
    fs::write(folder.path("b/2.csv"), "no,result,file\n")?;
    let output = folder.run(GATE)?;
    assert_eq!(
        output.status.code(),
        Some(4),
        "an unreadable file of a folder is not left out: {}",
        said(&output)
    );
    Ok(())
}

#[test]
fn a_change_cannot_bring_its_own_baseline() -> Outcome {
    let folder = Folder::new()?;
    let candidate = folder.repository()?;
    // The change under test slows everything down and commits a slow baseline beside it.
    folder.side("benchmarks/baseline", 8, 1600.0, &candidate)?;
    let candidate = folder.commit("cheat")?;
    folder.side("candidate", 8, 1601.0, &candidate)?;
    let line = "gate --metric decode --baseline-from-git origin/main --baseline benchmarks/baseline --candidate candidate";
    let output = folder.run(line)?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // On the branch itself the baseline is the parent's.
    folder.git("update-ref refs/remotes/origin/main HEAD")?;
    let output = folder.run(line)?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = folder.run(&line.replace("origin/main", "origin/gone"))?;
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    Ok(())
}

#[test]
fn the_nearest_measured_ancestor_is_the_baseline() -> Outcome {
    let folder = Folder::new()?;
    folder.git("init --quiet")?;
    let oldest = folder.commit("oldest")?;
    let newer = folder.commit("newer")?;
    folder.git("checkout --quiet -b side HEAD~1")?;
    let stranger = folder.commit("stranger")?;
    folder.git("checkout --quiet -")?;
    let store = folder.path("store");
    fs::create_dir_all(&store)?;
    for (name, decode_ms, commit) in [
        ("oldest.csv", 2000.0, oldest.as_str()),
        ("newer.csv", 1270.0, newer.as_str()),
        ("stranger.csv", 500.0, stranger.as_str()),
        ("dirty.csv", 400.0, &format!("{newer}-dirty")),
        ("unknown.csv", 300.0, "0123abcd"),
    ] {
        fs::write(store.join(name), HEADER.to_owned() + &row("alpha", decode_ms, commit))?;
    }
    folder.commit("store")?;
    folder.git("update-ref refs/remotes/origin/main HEAD")?;
    let candidate = folder.commit("change")?;
    fs::write(folder.path("c.csv"), HEADER.to_owned() + &row("alpha", 1271.0, &candidate))?;
    let output = folder.run(
        "gate --metric decode --baseline-from-git origin/main --baseline store --candidate c.csv --format json",
    )?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let inputs: Vec<&str> = report["inputs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|input| input["side"] == "baseline")
        .filter_map(|input| input["path"].as_str())
        .collect();
    assert!(inputs.len() == 1 && inputs[0].ends_with(":store/newer.csv"), "{inputs:?}");
    let notes = report["notes"].to_string();
    for name in ["oldest.csv", "stranger.csv", "dirty.csv", "unknown.csv"] {
        assert!(notes.contains(name), "{name}: {notes}");
    }
    Ok(())
}

fn document(name: &str) -> std::io::Result<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name))
}

/// The code blocks of a document in one language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    document
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n').map(str::to_owned))
        .collect()
}

#[test]
fn the_files_in_the_documentation_can_be_used() -> Outcome {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    let blocks = blocks(&document("gating.md")?, "toml");
    assert_eq!(blocks.len(), 2);
    fs::write(folder.path("gate.toml"), &blocks[0])?;
    fs::write(folder.path("spreads.toml"), &blocks[1])?;
    // The policy demands rows that are not there: it is in force.
    let output = folder.run(&format!("{GATE} --policy gate.toml --spreads spreads.toml"))?;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("required smollm2-*"), "{}", said(&output));
    Ok(())
}

/// A program that plays `sweep` with prepared files, one a call, notes each call, and is the real one in all else.
fn player(folder: &Folder, at: &Path, prepared: &str) -> Outcome {
    let text = format!(
        "#!/bin/sh\nset -eu\nif [ \"$1\" != sweep ]; then exec '{PROGRAM}' \"$@\"; fi\necho \"{prepared} $*\" >> '{}'\n\
         while [ $# -gt 0 ]; do case $1 in --out) out=$2;; --suffix) suffix=$2;; esac; shift; done\n\
         mkdir -p \"$out\"\ncount=$(ls \"$out\" | wc -l)\ncp '{}'/$((count + 1)).csv \"$out/$suffix.csv\"\n",
        folder.path("calls").display(),
        folder.path(prepared).display()
    );
    script(at, &text)
}

fn script(at: &Path, text: &str) -> Outcome {
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(program::script(at, text)?)
}

/// Runs a script of the documentation in the folder, with the player and a `cargo` that does nothing on the path.
fn play(
    folder: &Folder,
    script: &str,
    shell: &[&str],
    variables: &[(&str, &str)],
) -> Result<Output, Box<dyn Error>> {
    let path = format!("{}:{}", folder.path("bin").display(), std::env::var("PATH")?);
    let (program, arguments) = shell.split_first().ok_or("no shell")?;
    Ok(Command::new(program)
        .args(arguments)
        .arg(script)
        .current_dir(folder.0.path())
        .env("PATH", path)
        .env("TMPDIR", folder.path("work"))
        .env("RUNNER_TEMP", folder.path("work"))
        .env("GITHUB_BASE_REF", "main")
        .env("GITHUB_STEP_SUMMARY", folder.path("summary.md"))
        .env_remove("RELEASE")
        .envs(variables.iter().copied())
        .output()?)
}

/// A repository whose change decodes in `decode_ms` milliseconds, `count` times.
fn example(decode_ms: f64, count: u32) -> Result<Folder, Box<dyn Error>> {
    let folder = Folder::new()?;
    let candidate = folder.repository()?;
    folder.side("prepared", count, decode_ms, &candidate)?;
    fs::create_dir(folder.path("work"))?;
    player(&folder, &folder.path("bin/mlxcel-bench"), "prepared")?;
    player(&folder, &folder.path("target/release/mlxcel-bench"), "prepared")?;
    script(&folder.path("bin/cargo"), "#!/bin/sh\nexit 0\n")?;
    Ok(folder)
}

#[test]
fn the_shell_example_passes_fails_and_warns() -> Outcome {
    let examples = blocks(&document("ci.md")?, "sh");
    assert_eq!(examples.len(), 1);
    for (decode_ms, count, release, code) in [
        (1271.0, 8, "0", 0),
        (1600.0, 8, "0", 1),
        // Two files show nothing: a warning on a change, a failure of a release.
        (1600.0, 2, "0", 0),
        (1600.0, 2, "1", 3),
    ] {
        let folder = example(decode_ms, count)?;
        let processes = count.to_string();
        let variables = [("PROCESSES", processes.as_str()), ("RELEASE", release)];
        let output = play(&folder, &examples[0], &["sh", "-c"], &variables)?;
        assert_eq!(output.status.code(), Some(code), "{decode_ms} {count}: {}", said(&output));
        let reports: Vec<_> = fs::read_dir(folder.path("work"))?.collect::<Result<_, _>>()?;
        for name in ["gate.xml", "gate.json", "gate.txt"] {
            assert!(reports.len() == 1 && reports[0].path().join(name).is_file(), "{name}");
        }
    }
    Ok(())
}

/// The `run` steps of a workflow, in their order.
fn steps(workflow: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut lines = workflow.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((indent, run)) = line.split_once("run: ") else { continue };
        if run != "|" {
            steps.push(run.to_owned());
            continue;
        }
        let mut text = String::new();
        while let Some(line) = lines.next_if(|line| line.len() - line.trim_start().len() > indent.len()) {
            text.push_str(line.get(indent.len() + 2..).unwrap_or_default());
            text.push('\n');
        }
        steps.push(text);
    }
    steps
}

#[test]
fn the_steps_of_the_workflow_pass_and_fail() -> Outcome {
    let workflows = blocks(&document("ci.md")?, "yaml");
    assert_eq!(workflows.len(), 1);
    let steps = steps(&workflows[0]);
    assert_eq!(steps.len(), 3, "{steps:?}");
    for (decode_ms, code) in [(1271.0, 0), (1600.0, 1)] {
        let folder = example(decode_ms, 8)?;
        for (index, step) in steps.iter().enumerate() {
            // The shell of such steps.
            let output = play(&folder, step, &["bash", "-e", "-o", "pipefail", "-c"], &[])?;
            let expected = if index == 2 { code } else { 0 };
            assert_eq!(output.status.code(), Some(expected), "step {index}, {decode_ms}: {}", said(&output));
        }
        let summary = fs::read_to_string(folder.path("summary.md"))?;
        assert!(summary.starts_with("<!-- mlxcel-bench gate -->\n**Benchmark gate: "), "{summary}");
        assert!(folder.path("work/gate.xml").is_file());
    }
    Ok(())
}

/// Sides of one file each in which the candidate looks slower, and programs that measure anew.
fn flagged(baseline_ms: f64, candidate_ms: f64, commit: &str) -> Result<Folder, Box<dyn Error>> {
    let folder = Folder::new()?;
    folder.side("a", 1, 1270.0, "11111111")?;
    folder.side("b", 1, 1600.0, "22222222")?;
    folder.side("anew-a", 8, baseline_ms, commit)?;
    folder.side("anew-b", 8, candidate_ms, "22222222")?;
    player(&folder, &folder.path("bench-a"), "anew-a")?;
    player(&folder, &folder.path("bench-b"), "anew-b")?;
    Ok(folder)
}

const CONFIRM: &str = "gate --metric decode --baseline a --candidate b --format json --confirm --confirm-out anew \
                       --baseline-program bench-a --candidate-program bench-b";

#[test]
fn a_flagged_row_is_measured_anew_in_turn_and_confirmed_or_cleared() -> Outcome {
    for (baseline_ms, candidate_ms, code, state) in
        [(1270.0, 1600.0, 1, "regressed"), (1270.0, 1272.0, 0, "same")]
    {
        let folder = flagged(baseline_ms, candidate_ms, "11111111")?;
        let output = folder.run(CONFIRM)?;
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        let report: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(report["rows"][0]["state"], state);
        assert_eq!(report["rows"][0]["test"]["units_before"], 8);
        assert!(report["rows"][0]["reason"].as_str().is_some_and(|reason| reason.contains("measured anew")));
        assert_eq!(report["inputs"].as_array().map(Vec::len), Some(18));
        // It was so in the first stage, and is no longer.
        assert!(!report["notes"].to_string().contains("one measurement a side"), "{}", report["notes"]);
        let calls = fs::read_to_string(folder.path("calls"))?;
        let order: String =
            calls.lines().map(|call| if call.starts_with("anew-a") { 'A' } else { 'B' }).collect();
        assert_eq!(order, "ABBAABBAABBAABBA");
        assert!(
            calls
                .lines()
                .all(|call| call.contains("/models/alpha --out ") && call.contains("--max-tokens 128"))
        );
    }
    Ok(())
}

#[test]
fn a_program_of_another_commit_confirms_nothing() -> Outcome {
    let folder = flagged(1270.0, 1600.0, "33333333")?;
    let output = folder.run(CONFIRM)?;
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(stderr(&output).contains("33333333"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn without_a_flagged_row_nothing_is_measured_anew() -> Outcome {
    let folder = flagged(1270.0, 1600.0, "11111111")?;
    folder.side("b", 1, 1271.0, "22222222")?;
    assert_eq!(folder.run(CONFIRM)?.status.code(), Some(0));
    assert!(!folder.path("calls").exists() && !folder.path("anew").exists());
    Ok(())
}
