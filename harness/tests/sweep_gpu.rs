//! Rows of a GPU, played where there is none: the worker's backend is `cuda`, `nvidia-smi` is a script, and NVIDIA's
//! management library a small one of our own, which is compiled where there is a C compiler.

#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use common::{Bench, HEAR, Outcome, answer, cell, good_rest, hello, loaded, paced, rows, stderr};
use serde_json::{Value, json};

fn on_cuda() -> String {
    hello().replace("\"backend\":\"cpu\"", "\"backend\":\"cuda\"")
}

/// A worker whose device gives so many bytes in each nanosecond, and which does `rest` on a checkpoint. How often the device
/// is asked is kept in the file `asked`.
fn device(bench: &Bench, bytes_per_nano: u64, rest: &str) -> String {
    let pass =
        |operation: &str, bytes: u64| json!({ "operation": operation, "bytes": bytes, "nanos": 1_000_000 });
    let streamed = answer(&json!({
        "event": "streamed",
        "passes": [pass("sum", bytes_per_nano * 500_000), pass("addition", bytes_per_nano * 1_000_000)]
    }));
    let asked = bench.path("asked");
    format!(
        "{}{HEAR}answered=$request\nread() {{ if [ -n \"$answered\" ]; then request=$answered; answered=; else command read -r request; fi; }}\n\
         case \"$request\" in *'\"stream\"'*) echo \"$request\" >> {}; {streamed}{HEAR} ;; *) {rest} ;; esac\n",
        on_cuda(),
        asked.display()
    )
}

/// A checkpoint of 400 MB, of which the disk holds next to nothing.
fn big(bench: &Bench, name: &str) -> Outcome {
    let folder = bench.checkpoint_of(name, &json!({"model_type": "llama"}), 8)?;
    let bytes = 400_000_000_u64;
    let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#);
    let mut start = (header.len() as u64).to_le_bytes().to_vec();
    start.extend_from_slice(header.as_bytes());
    let path = folder.join("model.safetensors");
    fs::write(&path, &start)?;
    Ok(fs::OpenOptions::new().write(true).open(&path)?.set_len(start.len() as u64 + bytes)?)
}

/// The one row of a sweep over the checkpoint `x` of 400 MB, 1000 tokens a second: 400 GB/s.
fn row(bench: &Bench, bytes_per_nano: u64) -> Result<(Value, Output), Box<dyn std::error::Error>> {
    let script = device(bench, bytes_per_nano, &good_rest(1));
    let output = bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
    let found = rows(&output)?;
    Ok((found.first().cloned().ok_or_else(|| stderr(&output))?, output))
}

#[test]
fn a_row_of_a_gpu_is_judged_by_what_the_gpu_itself_reads_from_its_memory() -> Outcome {
    let bench = Bench::new()?;
    big(&bench, "x")?;
    let (slow, output) = row(&bench, 300)?;
    assert_eq!(cell(&slow, "status"), "INVALID:implausible", "{}", stderr(&output));
    assert_eq!(slow["stream_bandwidth_bytes_s"], json!(3e11), "{slow}");
    assert!(cell(&slow, "status_detail").contains("400.0 GB/s, 133 % of the 300.0 GB/s"), "{slow}");
    let settings = bench.json(".provenance.json")?["settings"].clone();
    assert_eq!(settings["stream"][0]["by"], "device", "{settings}");
    assert_eq!(settings["stream"][0]["operation"], "addition");
    // It was asked once more before the row was not believed.
    assert_eq!(settings["stream"].as_array().map(Vec::len), Some(2), "{settings}");
    assert!(settings["stream"][1]["why"].is_string() && settings["stream"][0]["why"].is_null(), "{settings}");
    Ok(())
}

#[test]
fn a_bandwidth_that_was_low_because_somebody_was_busy_is_measured_again_and_the_larger_one_stands() -> Outcome
{
    let bench = Bench::new()?;
    big(&bench, "x")?;
    // 300 GB/s when it is asked first, and 4,000 GB/s from then on.
    let script = device(&bench, 300, &good_rest(1));
    let slow = json!({ "operation": "addition", "bytes": 300_000_000_u64, "nanos": 1_000_000 }).to_string();
    let fast = slow.replace("300000000", "4000000000");
    let asked = bench.path("asked");
    let line = script.lines().find(|line| line.contains(&slow)).ok_or("no answer in the script")?;
    let either = format!(
        "if [ \"$(wc -l < {})\" -gt 1 ]; then {}; else {line}; fi",
        asked.display(),
        line.replace(&slow, &fast)
    );
    let script = script.replace(line, &either);
    let output = bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
    let row = rows(&output)?.first().cloned().ok_or_else(|| stderr(&output))?;
    assert_eq!(cell(&row, "status"), "INVALID:provenance", "{row} {}", stderr(&output));
    assert_eq!(row["stream_bandwidth_bytes_s"], json!(4e12), "{row}");
    assert_eq!(fs::read_to_string(asked)?.lines().count(), 2);
    Ok(())
}

#[test]
fn a_rate_that_the_gpu_can_have_stands_and_one_measurement_serves_all_rows_of_the_hour() -> Outcome {
    let bench = Bench::new()?;
    big(&bench, "x")?;
    bench.checkpoint("y")?;
    let (fast, output) = row(&bench, 4000)?;
    // Nothing but that the worker is a script speaks against it.
    assert_eq!(cell(&fast, "status"), "INVALID:provenance", "{}", stderr(&output));
    assert_eq!(fast["bandwidth_pct"], json!(10.0), "{fast}");
    let asked = fs::read_to_string(bench.path("asked"))?;
    assert_eq!(asked.lines().count(), 1, "{asked}");
    let request: Value = serde_json::from_str(asked.trim())?;
    assert!(request["buffer_bytes"].as_u64().is_some_and(|bytes| bytes >= 256 << 20), "{request}");
    Ok(())
}

#[test]
fn a_gpu_whose_bandwidth_cannot_be_measured_has_rows_without_it_and_the_reason_is_said() -> Outcome {
    let bench = Bench::new()?;
    big(&bench, "x")?;
    let fails = answer(
        &json!({ "event": "failed", "stage": "bench", "kind": "out_of_memory", "message": "no room" }),
    );
    let script = device(&bench, 1, &good_rest(1));
    let streamed =
        script.split("asked; ").nth(1).and_then(|rest| rest.split(HEAR).nth(1)).unwrap_or_default();
    let script = script.replace(streamed, fails.split(HEAR).nth(1).unwrap_or_default());
    let output = bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
    let rows = rows(&output)?;
    assert_eq!(rows[0]["stream_bandwidth_bytes_s"], Value::Null, "{}", stderr(&output));
    assert_eq!(cell(&rows[0], "status"), "INVALID:provenance");
    let said = stderr(&output);
    assert!(said.contains("stream bandwidth is not known") && said.contains("no room"), "{said}");
    Ok(())
}

#[test]
fn an_automatic_cooldown_waits_for_the_gpu_itself() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    big(&bench, "y")?;
    let script = device(&bench, 4000, &good_rest(1));
    let flags = ["all", "--reps", "1", "--cooldown", "auto", "--cooldown-limit", "60"];
    let output = bench.sweep(&script, &flags)?.output()?;
    assert_eq!(rows(&output)?.len(), 2, "{}", stderr(&output));
    // At first, for what rates are held against, and before the second row; it was as fast as at first, so no more than that.
    assert_eq!(fs::read_to_string(bench.path("asked"))?.lines().count(), 3);
    Ok(())
}

/// Puts a script in the place of `nvidia-smi`; the path variable that finds it.
fn nvidia_smi(bench: &Bench) -> Result<String, Box<dyn std::error::Error>> {
    let folder = bench.path("bin");
    fs::create_dir_all(&folder)?;
    let program = folder.join("nvidia-smi");
    fs::write(
        &program,
        "#!/bin/sh\ncase \"$1\" in --query-gpu*) echo 'NVIDIA H200, 143771, 580.159.04' ;; \
         *) echo '| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04   CUDA Version: 13.0 |' ;; esac\n",
    )?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default()))
}

#[test]
fn the_hardware_of_a_gpus_row_is_the_gpu_with_its_own_memory() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let script = device(&bench, 4000, &good_rest(1));
    let mut command = bench.sweep(&script, &["all", "--reps", "1"])?;
    let output = command.env("PATH", nvidia_smi(&bench)?).output()?;
    let rows = rows(&output)?;
    let row = &rows[0];
    assert_eq!(cell(row, "hardware"), "NVIDIA_H200_140GB", "{}", stderr(&output));
    assert_eq!(row["device_memory_bytes"], json!(143_771_u64 << 20));
    assert_eq!(cell(row, "driver"), "580.159.04");
    // What is estimated is held against the device's memory.
    let budget = row["memory_budget_bytes"].as_u64().ok_or("no budget")?;
    assert_eq!(budget, (143_771_u64 << 20) * 85 / 100, "{row}");
    let asked = fs::read_to_string(bench.path("asked"))?;
    assert!(asked.contains("\"buffer_bytes\":4294967296"), "{asked}");
    assert!(bench.file(".csv")?.to_string_lossy().contains("cuda_h200_"));
    Ok(())
}

/// The folder with the library that plays NVML; `None` where there is no C compiler.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn played_nvml(bench: &Bench) -> Result<Option<String>, Box<dyn std::error::Error>> {
    let folder = bench.path("nvml");
    fs::create_dir_all(&folder)?;
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvml/played.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(source)
        .output();
    match compiled {
        Ok(compiled) if compiled.status.success() => Ok(Some(folder.display().to_string())),
        Ok(compiled) => Err(stderr(&compiled).into()),
        Err(error) => {
            eprintln!("skipped: no C compiler ({error})");
            Ok(None)
        }
    }
}

/// A sweep that watches a host with the played library, on which `user` is the process that uses the GPU.
fn watched(bench: &Bench, library: &str, user: Option<u32>) -> Result<Output, Box<dyn std::error::Error>> {
    let rest = format!("{}{}sleep 5\n{}{HEAR}", loaded(), paced(0, 1_000_000), paced(1, 1_000_000));
    let script = device(bench, 4000, &rest);
    // Whoever else keeps this host's processor busy is not what is tried here.
    let flags = ["all", "--reps", "1", "--quiet-hold", "0", "--watch-limit", "400", "--no-quiet-gate"];
    let mut command = bench.sweep(&script, &flags)?;
    command
        .env_remove("WAIT_FOR_QUIET")
        .env_remove("BENCH_WATCH")
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env("LD_LIBRARY_PATH", library)
        .env("PATH", nvidia_smi(bench)?);
    if let Some(user) = user {
        command.env("PLAYED_GPU_PID", user.to_string());
    }
    Ok(command.output()?)
}

#[test]
fn somebody_elses_work_on_the_gpu_makes_a_row_contended_and_its_heat_and_clocks_are_in_the_row() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let Some(library) = played_nvml(&bench)? else { return Ok(()) };
    let mut other = Command::new("sleep").arg("600").spawn()?;
    let output = watched(&bench, &library, Some(other.id()));
    let ended = other.kill().and_then(|()| other.wait());
    let output = output?;
    ended?;
    let rows = rows(&output)?;
    let row = &rows[0];
    assert_eq!(cell(row, "status"), "INVALID:contended", "{row} {}", stderr(&output));
    let busy = &bench.json(".provenance.json")?["settings"]["watch"]["busy"];
    let by_gpu = busy.as_array().is_some_and(|windows| {
        windows.iter().any(|window| {
            window["foreigner"]["pid"] == other.id() && window["foreigner"]["pct"] == json!(60.0)
        })
    });
    assert!(by_gpu, "{busy}");
    for column in ["thermal_start", "thermal_worst", "thermal_end"] {
        let told = cell(row, column);
        assert!(
            told.contains("71 C")
                && told.contains("GPU 0 at 1980 MHz")
                && told.contains("software thermal slowdown"),
            "{column}: {told}"
        );
    }
    Ok(())
}

#[test]
fn a_gpu_that_nobody_else_uses_is_no_reason_against_a_row() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let Some(library) = played_nvml(&bench)? else { return Ok(()) };
    let output = watched(&bench, &library, None)?;
    let rows = rows(&output)?;
    let busy = &bench.json(".provenance.json")?["settings"]["watch"]["busy"];
    let gpu = busy.as_array().is_some_and(|all| all.iter().any(|one| one["foreigner"]["kind"] == "gpu"));
    assert!(!gpu, "{busy} {}", stderr(&output));
    assert!(cell(&rows[0], "thermal_start").contains("GPU 0 at 1980 MHz"), "{}", rows[0]);
    Ok(())
}
