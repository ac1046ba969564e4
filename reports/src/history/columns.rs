//! What the columns of historical files hold, by their names, the file's kind and the day.
//!
//! A column's name alone is no evidence: `mlx_version` held MLX's version until 2026-06-11, the application's from
//! 2026-06-12 on, and a package with its version in files of the Python baselines at any time; `prompt` repeats the greeting
//! when a synthetic prompt of `prompt_target_len` tokens ran; the harness is told by the image prompt as well as by the
//! file's name.

use jiff::civil::Date;

use super::layouts::{Layout, VERSION_COLUMNS};
use crate::record::{Fact, Facts, Field, Harness};

/// First day on which `mlx_version` held the application's version.
const APPLICATION_VERSION_SINCE: Date = Date::constant(2026, 6, 12);

/// The one prompt that the historical image sweeps asked.
const IMAGE_PROMPT: &str = "What is in this image?";

/// What one column is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Model,
    ModelPath,
    PromptTokens,
    GeneratedTokens,
    PrefillMs,
    PrefillRate,
    DecodeMs,
    DecodeRate,
    PeakGb,
    LoadSeconds,
    BandwidthGb,
    Date,
    Version,
    Status,
    Fact(Field),
    /// Part of what tells variants apart.
    Variant,
    /// Read by nobody.
    Other,
}

impl Role {
    /// The values of these columns are shared by many rows.
    pub(super) const fn is_fact(self) -> bool {
        matches!(self, Self::Date | Self::Version | Self::Fact(_) | Self::Variant)
    }
}

/// What each column of a layout is read as.
pub(super) fn roles(layout: &Layout, header: &csv::StringRecord) -> Vec<Role> {
    header.iter().map(|name| role(layout, name)).collect()
}

fn role(layout: &Layout, name: &str) -> Role {
    match name {
        "model" | "pairing" | "shape" | "call_idx" => Role::Model,
        "model_path" => Role::ModelPath,
        "prompt_tokens" | "context_tokens" => Role::PromptTokens,
        "generated_tokens" | "gen_tokens" => Role::GeneratedTokens,
        "prefill_ms" => Role::PrefillMs,
        "prefill_tok_s" => Role::PrefillRate,
        "decode_ms" => Role::DecodeMs,
        "decode_tok_s" | "decode_tok_s_mean" | "tok_s" => Role::DecodeRate,
        "mlx_peak_gb" | "run_peak_gb" => Role::PeakGb,
        "load_wall_s" => Role::LoadSeconds,
        "gb_per_s" => Role::BandwidthGb,
        "date" => Role::Date,
        "status" => Role::Status,
        "hardware" | "device" => Role::Fact(Field::Hardware),
        "build_type" => Role::Fact(Field::BuildType),
        "max_tokens" => Role::Fact(Field::MaxTokens),
        "prompt" => Role::Fact(Field::Prompt),
        "prompt_target_len" | "context_target" => Role::Fact(Field::PromptTarget),
        "mlxcel_commit" | "commit" => Role::Fact(Field::Commit),
        "mlx_commit" => Role::Fact(Field::MlxCommit),
        "os" => Role::Fact(Field::Os),
        "kv_cache_mode" => Role::Fact(Field::KvMode),
        "prefill_chunk" => Role::Fact(Field::PrefillChunk),
        "concurrency" | "batch" => Role::Fact(Field::BatchSize),
        "variant" | "repack" | "scale_path" | "stage" | "env_override" | "cuda_graphs" | "kind"
        | "block_size" | "bits" | "out_dim" | "in_dim" | "t_per_batch" | "dff" | "quant_mode"
        | "parallel" => Role::Variant,
        "notes" if matches!(layout.harness, Harness::Variants) => Role::Variant,
        name if VERSION_COLUMNS.contains(&name) => Role::Version,
        _ => Role::Other,
    }
}

/// What a file's name says.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameHints {
    vlm: bool,
    reference: bool,
    backend: Option<&'static str>,
    memory: Option<Harness>,
    date: Option<Date>,
}

impl NameHints {
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let backend = ["metal", "cuda", "cpu"]
            .into_iter()
            .find(|word| name.strip_prefix(word).is_some_and(|rest| rest.starts_with('_')));
        let memory = if name.contains("micro_warm") || name.contains("micro-warm") {
            Some(Harness::MicroWarm)
        } else if name.contains("micro_cold") || name.contains("micro-cold") {
            Some(Harness::MicroCold)
        } else {
            None
        };
        Self {
            vlm: name.contains("_vlm_"),
            reference: name.starts_with("pylm_"),
            backend,
            memory,
            date: date_within(&name),
        }
    }
}

fn date_within(name: &str) -> Option<Date> {
    name.split(['_', '.']).find_map(|part| part.parse::<Date>().ok().filter(|date| date.to_string() == part))
}

/// The cells of one row that facts follow from.
#[derive(Debug, Default)]
pub(super) struct FactCells<'a> {
    pub(super) date: Option<&'a str>,
    pub(super) version: Option<(&'a str, &'a str)>,
    pub(super) facts: Vec<(Field, &'a str)>,
    pub(super) variant: Vec<(&'a str, &'a str)>,
}

/// The facts of a row, and what about them is odd.
pub(super) fn facts(
    layout: &Layout,
    hints: NameHints,
    cells: &FactCells<'_>,
) -> (Facts, Vec<(&'static str, String)>) {
    let mut odd = Vec::new();
    let mut facts = Facts::new(layout.harness);
    for (field, text) in &cells.facts {
        facts.set(*field, fact(*field, text, &mut odd));
    }
    facts.date = match cells.date {
        Some(text) => {
            let date = text.parse::<Date>().ok().filter(|date| date.to_string() == text);
            if date.is_none() && !text.is_empty() {
                odd.push((
                    "unreadable_cell",
                    format!("column `date`: `{text}` is not a date such as 2026-01-31"),
                ));
            }
            date
        }
        None => hints.date,
    };
    let reference = is_reference(hints, &facts, cells);
    set_versions(&mut facts, cells, hints, reference, &mut odd);
    if let Some(backend) = hints.backend {
        facts.set(Field::Backend, Fact::of(backend));
    }
    let variant: Vec<String> = cells
        .variant
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| format!("{name}={text}"))
        .collect();
    if !variant.is_empty() {
        facts.set(Field::Variant, Fact::of(&variant.join("; ")));
    }
    set_workload(&mut facts, layout, hints, reference, &mut odd);
    (facts, odd)
}

/// What a cell says of a fact; a revision that is none is remarked on.
fn fact(field: Field, text: &str, odd: &mut Vec<(&'static str, String)>) -> Fact {
    if !matches!(field, Field::Commit | Field::MlxCommit) {
        return Fact::of(text);
    }
    let fact = Fact::revision(field, text);
    if fact.known().is_none() && Fact::of(text).known().is_some() {
        odd.push(("unreadable_commit", format!("column `{field}`: `{text}` is no commit, so it is unknown")));
    }
    fact
}

fn is_reference(hints: NameHints, facts: &Facts, cells: &FactCells<'_>) -> bool {
    hints.reference
        || facts.known(Field::BuildType) == Some("python")
        || cells.version.is_some_and(|(name, text)| name == "baseline_version" || package(text).is_some())
}

pub(super) fn package(text: &str) -> Option<(&'static str, &str)> {
    ["mlx-lm", "mlx-vlm"].into_iter().find_map(|name| {
        text.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')).map(|version| (name, version))
    })
}

fn set_versions(
    facts: &mut Facts,
    cells: &FactCells<'_>,
    hints: NameHints,
    reference: bool,
    odd: &mut Vec<(&'static str, String)>,
) {
    facts.set(Field::Runtime, if reference { Fact::Unknown } else { Fact::of("mlxcel") });
    let Some((name, text)) = cells.version else { return };
    if reference {
        if let Some((package, version)) = package(text) {
            facts.set(Field::Runtime, Fact::of(package));
            facts.set(Field::RuntimeVersion, Fact::of(version));
        } else {
            facts.set(Field::RuntimeVersion, Fact::of(text));
        }
        if name == "mlx_version" && !text.is_empty() {
            odd.push(("column_meaning", format!("column `mlx_version` holds the package `{text}`")));
        }
        return;
    }
    let application = match name {
        "mlx_version" => facts.date.or(hints.date).map(|date| date >= APPLICATION_VERSION_SINCE),
        _ => Some(true),
    };
    match application {
        Some(true) => {
            // A sweep of June 2026 appended the commit to the version.
            let (version, commit) =
                text.split_once('+').map_or((text, None), |(version, rest)| (version, Some(rest)));
            facts.set(Field::RuntimeVersion, Fact::of(version));
            if let Some(commit) = commit {
                facts.set(Field::Commit, fact(Field::Commit, commit, odd));
            }
            if name == "mlx_version" && !text.is_empty() {
                odd.push((
                    "column_meaning",
                    format!("column `mlx_version` holds the application's version, `{text}`"),
                ));
            }
        }
        Some(false) => facts.set(Field::MlxVersion, Fact::of(text)),
        None => odd.push((
            "column_meaning",
            format!("column `mlx_version` holds `{text}`; without a date nobody can say the version of what"),
        )),
    }
}

fn set_workload(
    facts: &mut Facts,
    layout: &Layout,
    hints: NameHints,
    reference: bool,
    odd: &mut Vec<(&'static str, String)>,
) {
    if let Some(memory) = hints.memory.filter(|_| layout.harness == Harness::Micro) {
        facts.harness = memory;
    }
    if layout.harness != Harness::Text {
        return;
    }
    let image_prompt = facts.known(Field::Prompt) == Some(IMAGE_PROMPT);
    if image_prompt != hints.vlm && facts.known(Field::Prompt).is_some() {
        let (prompt, name) = if image_prompt { ("image", "text") } else { ("text", "vlm") };
        odd.push((
            "harness_name",
            format!("the prompt is that of a {prompt} sweep, the file's name that of a {name} sweep"),
        ));
    }
    if image_prompt || hints.vlm {
        facts.harness = Harness::Vlm;
        // The image sweep refuses a synthetic prompt, so there is never a target length.
        facts.set(Field::PromptTarget, Fact::of("none"));
    } else if facts.get(Field::PromptTarget) == &Fact::Unknown
        || (facts.get(Field::PromptTarget) == &Fact::NotRecorded && !reference)
    {
        // Empty means that no synthetic prompt was asked for; before the column existed there was none to ask for.
        facts.set(Field::PromptTarget, Fact::of("none"));
    } else if facts.known(Field::PromptTarget).is_some() {
        facts.set(Field::Prompt, Fact::of("synthetic"));
    }
    // The sweep tools of both runtimes offered no other choice than one sequence, decoded greedily.
    facts.set(Field::BatchSize, Fact::of("1"));
    facts.set(Field::Sampling, Fact::of("greedy"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::layouts;

    fn version(name: &'static str, text: &'static str, date: &'static str, file: &str) -> Facts {
        let header: csv::StringRecord =
            "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,\
                                         decode_tok_s,date,hardware,mlx_version,build_type,max_tokens,prompt"
                .split(',')
                .collect();
        let layout = layouts::of_header(&header).expect("OK because this is the oldest layout");
        let cells = FactCells { date: Some(date), version: Some((name, text)), ..FactCells::default() };
        facts(layout, NameHints::of(file), &cells).0
    }

    #[test]
    fn the_version_column_is_read_by_day_and_kind_of_file() {
        let before = version("mlx_version", "0.31.2", "2026-06-11", "metal_m1ultra_2026-06-11.csv");
        assert_eq!(before.known(Field::MlxVersion), Some("0.31.2"));
        assert_eq!(before.known(Field::RuntimeVersion), None);
        let after = version("mlx_version", "0.1.4", "2026-06-12", "metal_m1ultra_2026-06-12.csv");
        assert_eq!(after.known(Field::MlxVersion), None);
        assert_eq!(after.known(Field::RuntimeVersion), Some("0.1.4"));
        let python = version("mlx_version", "mlx-vlm-0.4.4", "2026-06-01", "pylm_m1ultra_vlm_2026-06-01.csv");
        assert_eq!(python.known(Field::Runtime), Some("mlx-vlm"));
        assert_eq!(python.known(Field::RuntimeVersion), Some("0.4.4"));
        assert_eq!(python.known(Field::MlxVersion), None);
    }

    #[test]
    fn a_version_with_a_commit_is_taken_apart() {
        let facts = version("mlx_version", "0.3.0+d9f88e07b", "2026-06-17", "metal_m1ultra_2026-06-17.csv");
        assert_eq!(facts.known(Field::RuntimeVersion), Some("0.3.0"));
        assert_eq!(facts.known(Field::Commit), Some("d9f88e07b"));
    }

    #[test]
    fn a_renamed_baseline_is_still_a_baseline() {
        let facts = version("baseline_version", "mlx-lm-0.31.3", "2026-07-06", "b.csv");
        assert_eq!(facts.known(Field::Runtime), Some("mlx-lm"));
    }

    #[test]
    fn names_give_day_backend_and_kind() {
        let hints = NameHints::of("cuda_gb10_vlm_2026-07-12_single_x.csv");
        assert!(hints.vlm && !hints.reference);
        assert_eq!(hints.backend, Some("cuda"));
        assert_eq!(hints.date, Some(Date::constant(2026, 7, 12)));
        assert_eq!(NameHints::of("gpu_micro_cold_2026-07-12.csv").memory, Some(Harness::MicroCold));
        assert_eq!(NameHints::of("x_2026-02-30.csv").date, None);
    }
}
