//! What a sweep says before it measures: the plan, memory, the order of rows, and what it leaves out.

mod common;

use std::fs;
use std::process::Output;

use common::{Bench, Outcome, cell, depending_on, failed, good, good_rest, rows, stderr};
use serde_json::{Value, json};

/// The rows of a plan, and how the program ended.
fn plan(bench: &Bench, arguments: &[&str]) -> Result<(Vec<Value>, Output), Box<dyn std::error::Error>> {
    let output = bench.sweep(&good(1), &[arguments, &["--plan"]].concat())?.output()?;
    let rows =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {}", stderr(&output)))?;
    Ok((rows, output))
}

#[test]
fn a_plan_gives_each_folder_its_expected_status_and_measures_and_writes_nothing() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("a")?;
    bench.checkpoint("b")?;
    fs::create_dir(bench.path("models/notes"))?;
    fs::create_dir(bench.path("models/weightless"))?;
    fs::write(bench.path("models/weightless/config.json"), r#"{"model_type":"llama"}"#)?;
    let embedder = json!({"model_type": "bert", "architectures": ["BertModel"]});
    bench.checkpoint_of("embedder", &embedder, 8)?;
    let (planned, output) = plan(&bench, &["all"])?;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected: Vec<(String, String)> =
        planned.iter().map(|row| (cell(row, "model"), cell(row, "expected"))).collect();
    let wanted = [
        ("a", ""),
        ("b", "SKIP:duplicate_of=a"),
        ("embedder", "SKIP:not_generative"),
        ("notes", "SKIP:not_a_checkpoint"),
        ("weightless", "SKIP:missing_weights"),
    ];
    assert_eq!(expected, wanted.map(|(model, status)| (model.to_owned(), status.to_owned())));
    for row in &planned {
        let keys: Vec<&str> = row.as_object().ok_or("no object")?.keys().map(String::as_str).collect();
        assert_eq!(keys, ["model", "path", "expected", "detail", "minutes"]);
        assert!(row["minutes"].is_number() && !cell(row, "detail").is_empty(), "{row}");
    }
    assert_eq!(bench.files()?, Vec::<String>::new());
    assert!(!bench.out().exists());
    Ok(())
}

#[test]
fn a_link_that_leads_nowhere_is_a_row_of_the_plan_and_of_the_sweep() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("a")?;
    std::os::unix::fs::symlink("nowhere", bench.path("models/gone"))?;
    std::os::unix::fs::symlink("circle", bench.path("models/circle"))?;
    let (planned, _) = plan(&bench, &["all"])?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    for (rows, status, detail) in
        [(planned, "expected", "detail"), (rows(&output)?, "status", "status_detail")]
    {
        let names: Vec<String> = rows.iter().map(|row| cell(row, "model")).collect();
        assert_eq!(names, ["a", "circle", "gone"], "{}", stderr(&output));
        for (row, why) in [(&rows[1], "cannot be reached"), (&rows[2], "nowhere, which does not exist")] {
            assert_eq!(cell(row, status), "SKIP:not_a_checkpoint");
            assert!(cell(row, detail).contains(why), "{row}");
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_whose_name_is_not_utf8_stands_for_no_other_and_has_a_row_that_says_so() -> Outcome {
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::new()?;
    // The bad names come first in the order, and are the same once bad bytes are replaced.
    for name in [&b"A\xff"[..], b"A\xfe"] {
        let good = bench.checkpoint("z")?;
        fs::rename(good, bench.path("models").join(std::ffi::OsStr::from_bytes(name)))?;
    }
    bench.checkpoint("y")?;
    bench.checkpoint("z")?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1", "--dedup", "config"])?.output()?;
    let found: Vec<(String, String)> =
        rows(&output)?.iter().map(|row| (cell(row, "model"), cell(row, "status"))).collect();
    let wanted = [
        (r"A\xfe", "FAIL:load"),
        (r"A\xff", "FAIL:load"),
        ("y", "INVALID:provenance"),
        ("z", "INVALID:provenance"),
    ];
    assert_eq!(
        found,
        wanted.map(|(name, status)| (name.to_owned(), status.to_owned())),
        "{}",
        stderr(&output)
    );
    Ok(())
}

#[test]
fn another_training_of_the_same_network_is_never_called_the_same_and_its_content_tells_it_apart() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("base")?;
    let weights = bench.checkpoint("tuned")?.join("model.safetensors");
    let mut bytes = fs::read(&weights)?;
    *bytes.last_mut().ok_or("no weights")? ^= 1;
    fs::write(&weights, bytes)?;
    let planned = |by: &str| -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
        let (rows, _) = plan(&bench, &["all", "--dedup", by])?;
        Ok(rows.iter().map(|row| (cell(row, "expected"), cell(row, "detail"))).collect())
    };
    for by in ["config", "headers"] {
        let rows = planned(by)?;
        assert_eq!(rows[1].0, "SKIP:duplicate_of=base", "{by}");
        assert!(rows[1].1.contains("speed-equivalent"), "{by}: {}", rows[1].1);
        assert!(
            rows[1].1.contains("another training") && !rows[1].1.contains("same content"),
            "{by}: {}",
            rows[1].1
        );
    }
    assert_eq!(planned("content")?[1].0, "");
    Ok(())
}

#[test]
fn a_plan_counts_the_time_of_the_reference_which_is_long_on_a_processor() -> Outcome {
    let bench = Bench::new()?;
    let quantized = json!({"model_type": "llama", "quantization": {"group_size": 64, "bits": 4}});
    bench.checkpoint_of("x", &quantized, 50_000_000)?;
    let minutes = |flags: &[&str]| -> Result<f64, Box<dyn std::error::Error>> {
        Ok(plan(&bench, flags)?.0[0]["minutes"].as_f64().ok_or("no minutes")?)
    };
    let (alone, with) = (minutes(&["all"])?, minutes(&["all", "--reference", "mlx-lm"])?);
    assert!(with > 20.0 * alone && with > 0.3, "{alone} {with}");
    Ok(())
}

#[test]
fn a_plan_for_people_has_a_line_a_row_and_the_sum() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("alpha")?;
    let mut command = bench.sweep(&good(1), &["all", "--plan"])?;
    let output = command.output()?;
    assert!(output.status.success());
    let mut table = bench.program();
    let worker = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted_worker.sh");
    let script = bench.path("plan.sh");
    fs::write(&script, good(1))?;
    table.args(["sweep", "all", "--plan", "--worker-program"]).arg(worker).env("SCRIPTED_WORKER", script);
    let text = String::from_utf8(table.output()?.stdout)?;
    assert!(text.starts_with("model") && text.contains("alpha"), "{text}");
    assert!(text.contains("1 row, 1 of them measured"), "{text}");
    Ok(())
}

#[test]
fn a_line_break_in_a_name_forges_no_line_of_a_plan_nor_of_the_list_of_an_image_sweep() -> Outcome {
    let bench = Bench::new()?;
    let vision = json!({"model_type": "llava", "vision_config": {"model_type": "clip"}, "architectures": ["LlavaForConditionalGeneration"]});
    for (name, config) in [("text\nfake", json!({"model_type": "llama"})), ("vision\nfake", vision)] {
        bench.checkpoint_of(name, &config, 8)?;
        bench.checkpoint_of(&format!("{name}-copy"), &config, 8)?;
    }
    for flags in [&["all", "--plan"][..], &["all", "--vlm", "--plan"]] {
        let mut command = bench.sweep(&good(1), flags)?;
        let table: Vec<String> =
            command.get_args().map(|argument| argument.to_string_lossy().replace("json", "table")).collect();
        let mut again = bench.program();
        again
            .args(table)
            .env("SCRIPTED_WORKER", bench.path("script.sh"))
            .env("BENCH_ALLOW_STALE_BINARY", "1");
        fs::write(bench.path("script.sh"), good(1))?;
        for output in [again.output()?, command.output()?] {
            let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
            assert!(said.contains(r"vision\nfake"), "{said}");
            assert!(!said.lines().any(|line| line.trim_start().starts_with("fake")), "{said}");
        }
    }
    Ok(())
}

#[test]
fn every_row_of_a_sweep_is_one_of_its_plan() -> Outcome {
    let bench = Bench::new()?;
    for name in ["a", "b", "c"] {
        bench.checkpoint_of(name, &json!({"model_type": "llama", "name": name}), 8)?;
    }
    fs::create_dir(bench.path("models/empty"))?;
    let (planned, _) = plan(&bench, &["all"])?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let names = |rows: &[Value]| rows.iter().map(|row| cell(row, "model")).collect::<Vec<_>>();
    assert_eq!(names(&rows(&output)?), names(&planned));
    Ok(())
}

#[test]
fn a_checkpoint_beyond_the_memory_is_not_started_and_its_row_says_why() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let output = bench.sweep(&good(1), &["all"])?.env("BENCH_MEM_OVERHEAD_FACTOR", "1e15").output()?;
    let rows = rows(&output)?;
    assert_eq!(cell(&rows[0], "status"), "SKIP:oom_estimate", "{}", stderr(&output));
    let detail = cell(&rows[0], "status_detail");
    assert!(detail.contains("85 %") && detail.contains("BENCH_MEM_OVERHEAD_FACTOR"), "{detail}");
    assert_eq!(output.status.code(), Some(3));
    assert!(
        !cell(&rows[0], "memory_estimate_bytes").is_empty()
            && !cell(&rows[0], "memory_budget_bytes").is_empty()
    );
    Ok(())
}

#[test]
fn the_cache_at_the_measured_length_counts() -> Outcome {
    let bench = Bench::new()?;
    // 2^20 bytes a token and layer: a prompt of 10^8 tokens fits nowhere.
    let config = json!({"model_type": "llama", "num_hidden_layers": 100, "num_attention_heads": 1024, "head_dim": 256});
    bench.checkpoint_of("x", &config, 8)?;
    let planned = |length: &str| -> Result<String, Box<dyn std::error::Error>> {
        let worker = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted_worker.sh");
        let script = bench.path("hello.sh");
        fs::write(&script, good(1))?;
        let output = bench
            .program()
            .args([
                "sweep",
                "all",
                "--plan",
                "--format",
                "json",
                "--prompt-tokens",
                length,
                "--worker-program",
            ])
            .arg(worker)
            .env("SCRIPTED_WORKER", script)
            .output()?;
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout)?;
        Ok(rows.first().map(|row| cell(row, "expected")).unwrap_or_default())
    };
    assert_eq!(planned("8")?, "");
    assert_eq!(planned("100000000")?, "SKIP:oom_estimate");
    Ok(())
}

#[test]
fn an_overhead_factor_that_is_no_number_is_an_error() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    for factor in ["lots", "", "-1"] {
        let output = bench.sweep(&good(1), &["all"])?.env("BENCH_MEM_OVERHEAD_FACTOR", factor).output()?;
        assert_eq!(output.status.code(), Some(4));
        assert!(stderr(&output).contains("BENCH_MEM_OVERHEAD_FACTOR"), "{}", stderr(&output));
        assert_eq!(bench.files()?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn symlinked_shards_count_with_the_size_of_what_they_lead_to() -> Outcome {
    let bench = Bench::new()?;
    let folder = bench.checkpoint_of("x", &json!({"model_type": "llama"}), 100_000)?;
    let blob = bench.path("blob");
    fs::rename(folder.join("model.safetensors"), &blob)?;
    std::os::unix::fs::symlink(&blob, folder.join("model.safetensors"))?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let rows = rows(&output)?;
    assert_eq!(cell(&rows[0], "weight_bytes"), "100000");
    Ok(())
}

#[test]
fn a_seed_gives_the_same_order_again_and_is_kept() -> Outcome {
    let bench = Bench::new()?;
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        bench.checkpoint_of(name, &json!({"model_type": "llama", "name": name}), 8)?;
    }
    bench.checkpoint_of("large", &json!({"model_type": "llama"}), 100_000)?;
    let order = |seed: &str| -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let worker = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted_worker.sh");
        let script = bench.path("hello.sh");
        fs::write(&script, good(1))?;
        let mut command = bench.program();
        command.args(["sweep", "all", "--plan", "--format", "json", "--seed", seed, "--worker-program"]);
        let output = command.arg(worker).env("SCRIPTED_WORKER", script).output()?;
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout)?;
        Ok(rows.iter().map(|row| cell(row, "model")).collect())
    };
    let first = order("7")?;
    assert_eq!(first, order("7")?);
    assert!((8..20).any(|seed| order(&seed.to_string()).is_ok_and(|other| other != first)));
    assert_eq!(first.last().map(String::as_str), Some("large"));
    bench.sweep(&good(1), &["all", "--reps", "1", "--seed", "7", "--control-every", "0"])?.output()?;
    let settings = &bench.json(".provenance.json")?["settings"];
    assert_eq!((settings["seed"].clone(), settings["order"].clone()), (json!(7), json!("name")));
    Ok(())
}

#[test]
fn prompt_lengths_of_a_list_are_rows_of_their_own_capped_by_the_context() -> Outcome {
    let bench = Bench::new()?;
    let config = json!({"model_type": "llama", "max_position_embeddings": 40});
    bench.checkpoint_of("x", &config, 8)?;
    fs::create_dir(bench.path("models/notes"))?;
    let worker = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripted_worker.sh");
    let script = bench.path("lengths.sh");
    fs::write(&script, good(1))?;
    let output = bench
        .program()
        .args(["sweep", "all", "--format", "json", "--order", "name", "--reps", "1", "--max-tokens", "4"])
        .args(["--prompt-tokens", "64,8,36,128", "--worker-program"])
        .arg(worker)
        .env("SCRIPTED_WORKER", script)
        .env("BENCH_ALLOW_STALE_BINARY", "1")
        .output()?;
    let rows = rows(&output)?;
    let lengths: Vec<_> = rows
        .iter()
        .map(|row| (cell(row, "model"), cell(row, "prompt_requested_len"), cell(row, "prompt_target_len")))
        .collect();
    // One row a length, also of what is no checkpoint; lengths that the context makes the same are one.
    let wanted = [
        ("notes", "8", "8"),
        ("notes", "36", "36"),
        ("notes", "64", "64"),
        ("notes", "128", "128"),
        ("x", "8", "8"),
        ("x", "36", "36"),
    ];
    assert_eq!(
        lengths,
        wanted.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())),
        "{}",
        stderr(&output)
    );
    assert!(cell(&rows[5], "status_detail").contains("the same prompt as for 64 requested"), "{}", rows[5]);
    // What the loaded model says counts before its configuration.
    assert_eq!(cell(&rows[5], "context_length"), "100");
    assert_eq!(cell(&rows[0], "context_length"), "");
    Ok(())
}

#[test]
fn a_prompt_that_ran_out_of_memory_is_not_started_again_and_longer_ones_neither() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("x")?;
    let script = format!("{}{}", common::hello(), failed("bench", "out_of_memory", "metal::malloc: no"));
    let status = |script: &str, arguments: &[&str]| -> Result<(String, String), Box<dyn std::error::Error>> {
        let output = bench.sweep(script, &[&["all", "--reps", "1"], arguments].concat())?.output()?;
        let rows = rows(&output)?;
        Ok((cell(&rows[0], "status"), cell(&rows[0], "status_detail")))
    };
    assert_eq!(status(&script, &[])?.0, "SKIP:oom");
    let (again, why) = status(&good(1), &[])?;
    assert_eq!(again, "SKIP:oom");
    assert!(why.contains("--ignore-oom-record"), "{why}");
    assert_eq!(status(&good(1), &["--prefill-chunk", "7"])?.0, "INVALID:provenance");
    assert_eq!(status(&good(1), &["--ignore-oom-record"])?.0, "INVALID:provenance");
    Ok(())
}

#[test]
fn an_image_sweep_says_what_it_left_out_and_what_it_lacks() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("text")?;
    let vision = json!({"model_type": "llava", "vision_config": {"model_type": "clip"}, "architectures": ["LlavaForConditionalGeneration"]});
    bench.checkpoint_of("vision", &vision, 8)?;
    let output = bench.sweep(&good(1), &["all", "--vlm"])?.output()?;
    assert!(stderr(&output).contains("take no images: text (1 folder)"), "{}", stderr(&output));
    let rows_of = rows(&output)?;
    let statuses: Vec<_> = rows_of.iter().map(|row| (cell(row, "model"), cell(row, "status"))).collect();
    assert_eq!(statuses, [("vision".to_owned(), "SKIP:vlm_image_not_found".to_owned())]);
    let csv = bench.file(".csv")?;
    assert!(csv.to_string_lossy().contains("_vlm_"), "{}", csv.display());
    assert_eq!(bench.json(".provenance.json")?["settings"]["left_out"], json!(["text"]));
    let image = bench.path("image.png");
    fs::write(&image, "png")?;
    let image = image.to_string_lossy().into_owned();
    let output = bench.sweep(&good(1), &["all", "--image", &image])?.output()?;
    assert_eq!(cell(&rows(&output)?[0], "status"), "SKIP:vlm_unsupported");
    assert!(cell(&rows(&output)?[0], "status_detail").contains("no vision models"));
    let said = stderr(&output);
    assert!(
        said.contains("has no vision models") && said.contains("take images: vision (1 folder)"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(3));
    Ok(())
}

#[test]
fn an_image_sweep_without_anything_that_takes_images_is_an_error_in_words() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("text")?;
    let output = bench.sweep(&good(1), &["all", "--vlm"])?.output()?;
    assert_eq!(output.status.code(), Some(4));
    let said = stderr(&output);
    assert!(
        said.contains("has no vision models") && said.contains("take images: none (0 folders)"),
        "{said}"
    );
    assert!(
        said.contains("take no images: text (1 folder)") && said.contains("sweep without --vlm"),
        "{said}"
    );
    // Of the default models it is known before any is fetched.
    let output = bench
        .program()
        .env_remove("MODELS_DIR")
        .args(["sweep", "--vlm"])
        .env("BENCH_ALLOW_STALE_BINARY", "1")
        .output()?;
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("the default models take no images"), "{}", stderr(&output));
    assert_eq!(bench.files()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_text_sweep_hides_no_folder() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("text")?;
    let drafter = json!({"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]});
    bench.checkpoint_of("drafter", &drafter, 8)?;
    let vision = json!({"model_type": "llava", "vision_config": {}, "architectures": ["LlavaForConditionalGeneration"]});
    bench.checkpoint_of("vision", &vision, 8)?;
    fs::write(bench.path("models/drafter/broken.txt"), "")?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let names: Vec<_> = rows(&output)?.iter().map(|row| cell(row, "model")).collect();
    assert_eq!(names, ["drafter", "text", "vision"]);
    Ok(())
}

#[test]
fn nothing_to_measure_ends_badly_and_says_so() -> Outcome {
    let bench = Bench::new()?;
    fs::create_dir(bench.path("models/notes"))?;
    let output = bench.sweep(&good(1), &["all"])?.output()?;
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("nothing to measure"), "{}", stderr(&output));
    assert_eq!(bench.files()?, Vec::<String>::new());
    bench.checkpoint("x")?;
    let script = depending_on("x", &failed("load", "other", "no"), &good_rest(1));
    let output = bench.sweep(&script, &["all", "--reps", "1"])?.output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing was measured: none of the 2 rows"), "{}", stderr(&output));
    Ok(())
}

#[test]
fn a_shard_that_the_index_names_and_the_folder_lacks_is_not_measured_around() -> Outcome {
    let bench = Bench::new()?;
    bench.checkpoint("whole")?;
    let folder = bench.checkpoint_of("torn", &json!({"model_type": "llama"}), 8)?;
    fs::rename(folder.join("model.safetensors"), folder.join("model-00001-of-00002.safetensors"))?;
    let index = json!({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string())?;
    let output = bench.sweep(&good(1), &["all", "--reps", "1"])?.output()?;
    let rows = rows(&output)?;
    assert_eq!(cell(&rows[0], "status"), "SKIP:missing_weights", "{}", stderr(&output));
    assert!(cell(&rows[0], "status_detail").contains("model-00002-of-00002"), "{}", rows[0]);
    Ok(())
}
