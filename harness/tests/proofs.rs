//! Documents of `compare` and `gate` with every single value, entry and line changed in turn: `verify` passes none of them.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

const HEADER: &str = "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,\
                      hardware,mlxcel_version,build_type,max_tokens,prompt,prompt_target_len,mlxcel_commit,mlx_commit\n";

fn row(model: &str, (generated, decode_ms): (u32, f64), date: &str, commit: &str) -> String {
    format!(
        "{model},./models/{model}/,512,{generated},100.00,5120.00,{decode_ms:.2},,{date},Apple_M5_Max_128GB,0.7.0,release,128,\
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

    fn rows(&self, name: &str, rows: &[String]) -> Outcome {
        if let Some(folder) = self.path(name).parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(fs::write(self.path(name), HEADER.to_owned() + &rows.concat())?)
    }

    fn run(&self, arguments: &[&str]) -> std::io::Result<Output> {
        Command::new(env!("CARGO_BIN_EXE_mlxcel-bench")).current_dir(self.0.path()).args(arguments).output()
    }

    fn verified(&self, names: &[String]) -> Result<Vec<Value>, Box<dyn Error>> {
        let mut arguments = vec!["verify", "--format", "json"];
        arguments.extend(names.iter().map(String::as_str));
        let output = self.run(&arguments)?;
        let documents: Vec<Value> =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", said(&output)))?;
        assert_eq!(documents.len(), names.len());
        Ok(documents)
    }

    fn verdict(&self, name: &str) -> Result<(Option<i32>, String), Box<dyn Error>> {
        let output = self.run(&["verify", name])?;
        Ok((output.status.code(), said(&output)))
    }

    /// Writes every changed text beside the document, and returns what was changed in those that `verify` passes.
    fn passed(&self, changed: &[(String, String)], ending: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let mut passed = Vec::new();
        for chunk in changed.chunks(200) {
            let names: Vec<String> =
                (0..chunk.len()).map(|number| format!("changed{number}.{ending}")).collect();
            for (name, (_, text)) in names.iter().zip(chunk) {
                fs::write(self.path(name), text)?;
            }
            for ((what, _), document) in chunk.iter().zip(self.verified(&names)?) {
                if document["verdict"] == "ok" {
                    passed.push(what.clone());
                }
            }
        }
        Ok(passed)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The pointers of all values within one.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    let mut each = |key: &str, value: &Value| {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        pointers(value, &at, all);
        all.push(at);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| each(key, value)),
        Value::Array(entries) => {
            entries.iter().enumerate().for_each(|(index, value)| each(&index.to_string(), value));
        }
        _ => {}
    }
}

/// The document with each value changed, each field and entry taken out, and each entry of a list there twice. The command line
/// is what everything else follows from.
fn every_change(document: &Value, but: &[&str]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    pointers(document, "", &mut all);
    let mut changed = Vec::new();
    for pointer in all.iter().filter(|pointer| !but.iter().any(|but| pointer.starts_with(but))) {
        let (holder, key) = pointer.rsplit_once('/').unwrap_or_default();
        let mut other = document.clone();
        if let Some(value) = other.pointer_mut(pointer) {
            *value = match value.take() {
                Value::Bool(value) => Value::from(!value),
                Value::Number(number) => Value::from(number.as_f64().unwrap_or_default() * 1.001 + 1.0),
                Value::String(text) => Value::from(text + "x"),
                Value::Null => Value::from(1),
                Value::Array(_) => Value::from("a list"),
                Value::Object(_) => Value::from("an object"),
            };
            changed.push((format!("{pointer} changed"), other.to_string()));
        }
        let mut without = document.clone();
        match without.pointer_mut(holder) {
            Some(Value::Object(fields)) => {
                fields.remove(key);
            }
            Some(Value::Array(entries)) => {
                if let Ok(index) = key.parse::<usize>() {
                    let entry = entries.remove(index);
                    changed.push((format!("{pointer} taken out"), without.to_string()));
                    let mut twice = document.clone();
                    if let Some(entries) = twice.pointer_mut(holder).and_then(Value::as_array_mut) {
                        entries.push(entry);
                    }
                    changed.push((format!("{pointer} twice"), twice.to_string()));
                    continue;
                }
            }
            _ => continue,
        }
        changed.push((format!("{pointer} taken out"), without.to_string()));
    }
    changed
}

/// Two files with pairs, a dropped one, one-sided names and a newer reading of the baseline beside them.
fn compared() -> Result<Folder, Box<dyn Error>> {
    let folder = Folder::new()?;
    let side = |day: &str, commit: &str, factor: f64| {
        vec![
            row("alpha", (128, 1270.0 * factor), day, commit),
            row("beta", (128, 635.0 * factor * factor), day, commit),
            row("qwen3-embedding", (128, 600.0), day, commit),
            row("short", (if factor > 1.0 { 100 } else { 128 }, 900.0), day, commit),
            row(if factor > 1.0 { "only-after" } else { "only-before" }, (128, 900.0), day, commit),
        ]
    };
    folder.rows("a.csv", &side("2026-09-08", "11111111", 1.0))?;
    folder.rows("b.csv", &side("2026-09-09", "22222222", 1.02))?;
    folder.rows("newer.csv", &[row("alpha", (128, 1000.0), "2026-09-12", "33333333")])?;
    fs::write(folder.path("broken.csv"), "no result file\n")?;
    Ok(folder)
}

const COMPARE: [&str; 7] = ["compare", "--before", "a.csv", "--after", "b.csv", "--vary", "commit"];

#[test]
fn no_changed_value_of_a_comparison_passes() -> Outcome {
    let folder = compared()?;
    for (flags, expected) in [(&COMPARE[..], 0), (&COMPARE[..5], 2)] {
        let output = folder.run(&[flags, &["--format", "json"]].concat())?;
        assert_eq!(output.status.code(), Some(expected), "{}", said(&output));
        fs::write(folder.path("c.json"), &output.stdout)?;
        let (code, text) = folder.verdict("c.json")?;
        assert_eq!(code, Some(0), "{text}");
        let document: Value = serde_json::from_slice(&output.stdout)?;
        if expected == 0 {
            let rules = |list: &str| document[list].to_string();
            for (list, rule) in
                [("dropped", "M02"), ("dropped", "P13"), ("warnings", "P17"), ("warnings", "P23")]
            {
                assert!(rules(list).contains(rule), "{list} without {rule}: {document}");
            }
            assert!(rules("warnings").contains("broken.csv"), "{document}");
        }
        let changed = every_change(&document, &["/command"]);
        assert!(changed.len() > 100, "{}", changed.len());
        assert_eq!(folder.passed(&changed, "json")?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn a_value_under_a_name_that_stands_twice_does_not_pass() -> Outcome {
    let folder = compared()?;
    let output = folder.run(&[&COMPARE[..], &["--format", "json"]].concat())?;
    let text = String::from_utf8(output.stdout)?;
    fs::write(
        folder.path("c.json"),
        text.replacen("\"verdict\"", "\"verdict\": \"refused\",\n \"verdict\"", 1),
    )?;
    let (code, said) = folder.verdict("c.json")?;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("/verdict: the name stands twice"), "{said}");
    Ok(())
}

#[test]
fn no_changed_line_of_a_comparison_in_markdown_passes() -> Outcome {
    let folder = compared()?;
    let output = folder.run(&[&COMPARE[..], &["--format", "markdown"]].concat())?;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8(output.stdout)?;
    fs::write(folder.path("c.md"), &text)?;
    let (code, found) = folder.verdict("c.md")?;
    assert_eq!(code, Some(0), "{found}");
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let mut changed = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        // Without its beginning it is no comparison, and the command line is what everything else follows from.
        if line.trim().is_empty()
            || line.starts_with("- command: ")
            || number == 0
            || line.starts_with("|---")
        {
            continue;
        }
        let mut without = lines.clone();
        without.remove(number);
        changed.push((format!("without {line}"), joined(&without)));
        for insertion in [*line, "Twice as fast as ever", "| alpha | 1.00 | 9.00 | 9.000 | - | 1/1 | yes |"] {
            let mut more = lines.clone();
            more.insert(number, insertion);
            changed.push((format!("{insertion} before {line}"), joined(&more)));
        }
        for (at, _) in line.match_indices(|c: char| c.is_ascii_digit()) {
            let mut other = (*line).to_owned();
            other.insert(at, '1');
            let mut edited = lines.clone();
            if let Some(place) = edited.get_mut(number) {
                *place = &other;
            }
            changed.push((other.clone(), joined(&edited)));
        }
    }
    assert!(changed.len() > 100, "{}", changed.len());
    assert_eq!(folder.passed(&changed, "md")?, Vec::<String>::new());
    Ok(())
}

#[test]
fn what_is_missing_is_named_and_is_no_ok() -> Outcome {
    let folder = compared()?;
    let table = "local_name\taliases\nalpha\talpha-old\n";
    fs::write(folder.path("names.tsv"), table)?;
    for format in ["json", "markdown"] {
        let line = [&COMPARE[..], &["--catalog", "names.tsv", "--format", format]].concat();
        let output = folder.run(&line)?;
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let name = format!("c.{format}");
        fs::write(folder.path(&name), &output.stdout)?;
        let (code, text) = folder.verdict(&name)?;
        assert_eq!(code, Some(0), "{text}");
        for gone in ["a.csv", "b.csv", "newer.csv", "names.tsv"] {
            let bytes = fs::read(folder.path(gone))?;
            fs::remove_file(folder.path(gone))?;
            let (code, text) = folder.verdict(&name)?;
            assert_eq!(code, Some(3), "{gone}: {text}");
            assert!(text.contains(&format!("cannot be verified: input `{gone}`")), "{text}");
            assert!(text.contains("UNVERIFIABLE"), "{text}");
            fs::write(folder.path(gone), &bytes)?;
        }
        // Another table is another file, whatever it says.
        fs::write(folder.path("names.tsv"), table.to_owned() + "\n")?;
        let (code, text) = folder.verdict(&name)?;
        assert_eq!(code, Some(3), "{text}");
        fs::write(folder.path("names.tsv"), table)?;
        // What came later is told, and speaks against nothing.
        folder.rows("later.csv", &[row("beta", (128, 500.0), "2026-09-20", "44444444")])?;
        let (code, text) = folder.verdict(&name)?;
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("later.csv"), "{text}");
        fs::remove_file(folder.path("later.csv"))?;
    }
    Ok(())
}

/// Five files a side: one row is slower, one the same, one gone; and a policy with a threshold that fits nothing.
fn gated() -> Result<Folder, Box<dyn Error>> {
    let folder = Folder::new()?;
    for number in 0..5_u32 {
        let jitter = f64::from(number * 3 % 5);
        let side = |factor: f64, day: &str, commit: &str| {
            vec![
                row("alpha", (128, (1270.0 + jitter) * factor), day, commit),
                row("beta", (128, 635.0 + jitter + factor), day, commit),
                row(if factor > 1.0 { "new" } else { "gone" }, (128, 900.0 + jitter), day, commit),
            ]
        };
        folder.rows(&format!("a/{number}.csv"), &side(1.0, "2026-09-08", "11111111"))?;
        folder.rows(&format!("b/{number}.csv"), &side(1.3, "2026-09-09", "22222222"))?;
    }
    fs::write(
        folder.path("gate.toml"),
        "metrics = [\"decode\"]\nfloor = 0.03\nrequired = [\"absent\"]\n[[threshold]]\nmodels = [\"mistyped-*\"]\nfloor = 0.2\n\
         [[known_noise]]\nmodels = [\"beta\"]\nowner = \"someone\"\nexpires = 2030-01-01\nreason = \"two states\"\n",
    )?;
    fs::write(
        folder.path("spreads.toml"),
        "[[spread]]\nhost = \"Apple_M5_Max_128GB\"\nmodel = \"*\"\nmetric = \"decode\"\nspread = 0.02\n",
    )?;
    Ok(folder)
}

const GATE: [&str; 9] =
    ["gate", "--policy", "gate.toml", "--baseline", "a", "--candidate", "b", "--spreads", "spreads.toml"];

#[test]
fn no_changed_value_of_a_gate_passes() -> Outcome {
    let folder = gated()?;
    for (flags, expected) in [(&[][..], 1), (&["--vary", "nothing"][..], 2)] {
        let output = folder.run(&[&GATE[..], flags, &["--format", "json"]].concat())?;
        assert_eq!(output.status.code(), Some(expected), "{}", said(&output));
        fs::write(folder.path("g.json"), &output.stdout)?;
        let (code, text) = folder.verdict("g.json")?;
        assert_eq!(code, Some(0), "{text}");
        let document: Value = serde_json::from_slice(&output.stdout)?;
        if expected == 1 {
            assert!(document["warnings"].to_string().contains("G03"), "{document}");
        }
        // The day of the gate matters only where an entry of known noise may have expired by it.
        let changed = every_change(&document, &["/command", "/today"]);
        assert!(changed.len() > 100, "{}", changed.len());
        assert_eq!(folder.passed(&changed, "json")?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn a_gate_of_which_a_file_is_gone_or_changed_is_not_confirmed() -> Outcome {
    let folder = gated()?;
    let output = folder.run(&[&GATE[..], &["--format", "json"]].concat())?;
    fs::write(folder.path("g.json"), &output.stdout)?;
    for gone in ["gate.toml", "spreads.toml", "a/3.csv", "b/0.csv"] {
        let bytes = fs::read(folder.path(gone))?;
        fs::remove_file(folder.path(gone))?;
        let (code, text) = folder.verdict("g.json")?;
        assert_eq!(code, Some(3), "{gone}: {text}");
        assert!(text.contains(&format!("cannot be verified: input `{gone}`")), "{text}");
        fs::write(folder.path(gone), &bytes)?;
    }
    let path = folder.path("b/0.csv");
    fs::write(&path, fs::read_to_string(&path)?.replace("1651", "1251"))?;
    let (code, text) = folder.verdict("g.json")?;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("sha256: stated") && text.contains("/rows/"), "{text}");
    Ok(())
}

#[test]
fn a_file_that_the_command_line_does_not_name_is_no_input_of_a_gate() -> Outcome {
    let folder = gated()?;
    fs::create_dir(folder.path("c"))?;
    for number in 0..5 {
        let name = format!("{number}.csv");
        fs::rename(folder.path("b").join(&name), folder.path("c").join(&name))?;
    }
    let line = [&GATE[..6], &["c", "--spreads", "spreads.toml", "--format", "json"]].concat();
    let output = folder.run(&line)?;
    let text = String::from_utf8(output.stdout)?;
    // The command line says b, the inputs c.
    fs::write(folder.path("g.json"), text.replacen("\"c\"", "\"b\"", 1))?;
    let (code, found) = folder.verdict("g.json")?;
    assert_eq!(code, Some(1), "{found}");
    assert!(found.contains("names no such file as --candidate"), "{found}");
    assert!(Path::new(&folder.path("b")).is_dir());
    Ok(())
}
