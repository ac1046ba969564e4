//! What a checkpoint should be called, and where it comes from.
//!
//! In this order:
//! 1. the heading of the conversion's README, where it is `ORGANISATION/NAME`, names the artifact;
//! 2. `base_model:` of the README tells what it was made from; it is recorded and never makes a name;
//! 3. a precision token of the folder's name that the upstream name lacks is kept;
//! 4. precision and parameter count are checked against the configuration and the weights, which are believed: a wrong
//!    precision in the heading is put right, a heading of another size names something else;
//! 5. with neither heading nor base model, the name is left alone.
//!
//! A folder's name becomes a former name only when the folder was called that rightly: one that states a wrong precision
//! or size never named these weights.

use std::path::Path;

use crate::config::{Config, LayerQuantization, QuantizationMode};
use crate::folder::CheckpointFolder;
use crate::headers::Dtype;
use crate::table::IdSource;

/// A name and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// What the checkpoint should be called.
    pub name: String,
    /// The folder's name, where it is a former name of the same weights.
    pub former: Option<String>,
    /// The repository that is known.
    pub upstream_repo_id: Option<String>,
    /// How it is known.
    pub id_source: IdSource,
    /// What the name was checked against.
    pub verified_by: Option<String>,
    /// What was found to be wrong on the way.
    pub notes: Vec<String>,
}

/// What the files say of a checkpoint's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// How the weights are stored.
    pub precision: Option<Precision>,
    /// Number of parameters.
    pub parameters: Option<u64>,
}

/// How weights are stored, as names tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Quantized to this many bits.
    Bits(u32, Option<QuantizationMode>),
    /// Not quantized.
    Dense(Dtype),
}

impl Precision {
    /// The spelling in the catalog's `precision` column.
    pub fn name(self) -> String {
        match self {
            Self::Bits(_, Some(mode)) if mode != QuantizationMode::Affine => mode.name().to_owned(),
            Self::Bits(bits, _) => format!("{bits}bit"),
            Self::Dense(Dtype::Bf16) => "bfloat16".to_owned(),
            Self::Dense(Dtype::F16) => "float16".to_owned(),
            Self::Dense(Dtype::F32) => "float32".to_owned(),
            Self::Dense(dtype) => dtype.name().to_lowercase(),
        }
    }

    /// The spelling in names.
    fn token(self) -> String {
        match self {
            Self::Dense(Dtype::Bf16) => "bf16".to_owned(),
            Self::Dense(Dtype::F16) => "fp16".to_owned(),
            Self::Dense(Dtype::F32) => "fp32".to_owned(),
            other => other.name(),
        }
    }

    /// What a part of a name says.
    fn of_token(token: &str) -> Option<Self> {
        let token = token.to_ascii_lowercase();
        let affine = |bits: &str| {
            let bits: u32 = bits.parse().ok()?;
            (1..=8).contains(&bits).then_some(Self::Bits(bits, None))
        };
        match token.as_str() {
            "bf16" | "bfloat16" => return Some(Self::Dense(Dtype::Bf16)),
            "fp16" | "f16" | "float16" => return Some(Self::Dense(Dtype::F16)),
            "fp32" | "f32" | "float32" => return Some(Self::Dense(Dtype::F32)),
            _ => {}
        }
        if let Some(mode) = QuantizationMode::ALL
            .iter()
            .find(|mode| mode.name() == token && **mode != QuantizationMode::Affine)
        {
            return Some(Self::Bits(mode.allowed_bits().first().copied()?, Some(*mode)));
        }
        let bits = token.strip_suffix("bits").or_else(|| token.strip_suffix("bit"));
        bits.or_else(|| token.strip_prefix("int")).or_else(|| token.strip_prefix('q')).and_then(affine)
    }

    /// Whether a name's statement fits: bits alone fit every mode of that width.
    fn fits(self, stated: Self) -> bool {
        match (self, stated) {
            (Self::Bits(bits, mode), Self::Bits(other, stated)) => {
                bits == other && (stated.is_none() || stated == mode)
            }
            (Self::Dense(dtype), Self::Dense(stated)) => dtype == stated,
            _ => false,
        }
    }
}

impl Facts {
    /// The facts of a folder: the precision of the configuration, the type with the most bytes where nothing is quantized,
    /// and the parameters of all tensors, packed ones counted by the width of their layer.
    pub fn of(folder: &CheckpointFolder) -> Self {
        let quantization = folder.config().quantization();
        let precision = match quantization {
            Some(quantization) => {
                Some(Precision::Bits(quantization.default.bits, Some(quantization.default.mode)))
            }
            None => dense_dtype(folder).map(Precision::Dense),
        };
        let mut parameters = Some(0_u64);
        for (name, (_, entry)) in folder.tensors() {
            let module = name.rsplit_once('.').map_or(name.as_str(), |(module, _)| module);
            let packed = quantization.map(|quantization| quantization.for_layer(module));
            let count = match packed {
                Some(LayerQuantization::Quantized(spec)) if entry.dtype == Dtype::U32 => {
                    entry.byte_count().checked_mul(8).and_then(|bits| bits.checked_div(u64::from(spec.bits)))
                }
                // Scales and biases of packed weights are no parameters.
                Some(LayerQuantization::Quantized(_))
                    if (name.ends_with(".scales") || name.ends_with(".biases"))
                        && folder.tensors().contains_key(&format!("{module}.weight")) =>
                {
                    Some(0)
                }
                _ => Some(entry.elements()),
            };
            parameters = parameters.zip(count).and_then(|(sum, count)| sum.checked_add(count));
        }
        Self { precision, parameters }
    }

    /// What the configuration alone tells, for a folder whose weights cannot be read.
    pub fn of_config(config: &Config) -> Self {
        let quantized = config
            .quantization()
            .map(|quantization| Precision::Bits(quantization.default.bits, Some(quantization.default.mode)));
        let dtype = ["dtype", "torch_dtype"].iter().find_map(|key| config.raw().get(*key)?.as_str());
        Self { precision: quantized.or_else(|| Precision::of_token(dtype?)), parameters: None }
    }
}

fn dense_dtype(folder: &CheckpointFolder) -> Option<Dtype> {
    let mut bytes = std::collections::BTreeMap::new();
    for (_, entry) in folder.tensors().values() {
        let sum: &mut u64 = bytes.entry(entry.dtype).or_default();
        *sum = sum.saturating_add(entry.byte_count());
    }
    bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(dtype, _)| dtype)
}

/// The README of a folder, as far as it can be read; the beginning is enough.
pub fn readme(dir: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::metadata(dir.join("README.md")).ok().filter(std::fs::Metadata::is_file)?;
    let limit = file.len().min(1 << 20);
    std::fs::File::open(dir.join("README.md")).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The name of a folder's checkpoint.
pub fn name(folder_name: &str, readme: Option<&str>, facts: &Facts) -> Naming {
    let mut notes = Vec::new();
    let folder = Statement::of(folder_name, facts);
    notes.extend(folder.faults.iter().map(|fault| format!("the folder's name {fault}")));
    let heading = readme.and_then(heading);
    if let Some(id) = &heading {
        let artifact = id.rsplit('/').next().unwrap_or(id);
        let stated = Statement::of(artifact, facts);
        if let Some(fault) = &stated.wrong_size {
            notes.push(format!("the README's heading {id} {fault}, so it names something else"));
        } else {
            let mut name = artifact.to_lowercase();
            match (&stated.precision, facts.precision) {
                (Some((token, false)), Some(real)) => {
                    notes.push(format!(
                        "the README's heading {id} says {token}, the configuration {}",
                        real.name()
                    ));
                    name = replace_token(&name, token, &real.token());
                }
                (None, _) => {
                    if let Some((token, true)) = &folder.precision {
                        name = format!("{name}-{}", token.to_lowercase());
                    }
                }
                _ => {}
            }
            if name == folder_name.to_lowercase() {
                folder_name.clone_into(&mut name);
            }
            let rightly = folder.faults.is_empty() && name != folder_name;
            return Naming {
                former: rightly.then(|| folder_name.to_owned()),
                name,
                upstream_repo_id: Some(id.clone()),
                id_source: IdSource::Heading,
                verified_by: verified_by(facts),
                notes,
            };
        }
    }
    let base_model = readme.and_then(base_model);
    Naming {
        name: folder_name.to_owned(),
        former: None,
        id_source: if base_model.is_some() { IdSource::BaseModel } else { IdSource::None },
        upstream_repo_id: base_model,
        verified_by: verified_by(facts),
        notes,
    }
}

fn verified_by(facts: &Facts) -> Option<String> {
    let parts = [facts.precision.map(|_| "precision"), facts.parameters.map(|_| "parameters")];
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("+"))
}

/// What a name states, held against the facts.
struct Statement {
    /// The precision token that fits, else the first that does not, and whether it fits.
    precision: Option<(String, bool)>,
    wrong_size: Option<String>,
    faults: Vec<String>,
}

impl Statement {
    fn of(name: &str, facts: &Facts) -> Self {
        let tokens: Vec<(&str, Precision)> =
            name.split('-').filter_map(|token| Some((token, Precision::of_token(token)?))).collect();
        // Without facts, a statement stands.
        let fits = |stated: Precision| facts.precision.is_none_or(|real| real.fits(stated));
        let fitting = tokens.iter().find(|(_, stated)| fits(*stated));
        let precision =
            fitting.or(tokens.first()).map(|(token, stated)| ((*token).to_owned(), fits(*stated)));
        let mut faults = Vec::new();
        if let (Some((token, false)), Some(real)) = (&precision, facts.precision) {
            faults.push(format!("says {token}, the configuration {}", real.name()));
        }
        let wrong_size = wrong_size(name, facts.parameters);
        faults.extend(wrong_size.clone());
        Self { precision, wrong_size, faults }
    }
}

/// What is wrong with the sizes that a name states. Names round, and leave out embeddings and vision towers, so only a
/// size that is off by more than two thirds is wrong. Names of active or effective sizes (`a3b`, `8x7b`, `17b-16e`) state
/// nothing that could be checked.
fn wrong_size(name: &str, parameters: Option<u64>) -> Option<String> {
    let parameters = parameters.filter(|parameters| *parameters > 0)? as f64;
    let name = name.to_lowercase();
    let is_experts = |token: &str| {
        token
            .strip_suffix('e')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if name.split('-').any(is_experts) {
        return None;
    }
    let sizes: Vec<f64> = name.split('-').filter_map(size).collect();
    let fits = |size: f64| (0.6..=1.0 / 0.6).contains(&(parameters / size));
    if sizes.is_empty() || sizes.iter().any(|size| fits(*size)) {
        return None;
    }
    let stated = sizes.iter().map(|size| millions(*size)).collect::<Vec<_>>().join(" or ");
    Some(format!("says {stated} parameters, the weights hold {}", millions(parameters)))
}

fn millions(count: f64) -> String {
    format!("{:.0} million", count / 1e6)
}

/// `7b`, `1.7B`, `1_6b` or `135m` in parameters.
fn size(token: &str) -> Option<f64> {
    let (digits, unit) = match (token.strip_suffix('b'), token.strip_suffix('m')) {
        (Some(digits), _) => (digits, 1e9),
        (_, Some(digits)) => (digits, 1e6),
        _ => return None,
    };
    let digits = digits.replace('_', ".");
    let plain = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = digits.parse().ok().filter(|_| plain)?;
    (number > 0.0 && number < 1e5).then_some(number * unit)
}

fn replace_token(name: &str, token: &str, by: &str) -> String {
    let token = token.to_lowercase();
    name.split('-').map(|part| if part == token { by } else { part }).collect::<Vec<_>>().join("-")
}

/// The parts of a README: the front matter between two lines of `---`, and what follows.
fn parts(readme: &str) -> (&str, &str) {
    let readme = readme.trim_start_matches('\u{feff}');
    let body = readme.strip_prefix("---\n").or_else(|| readme.strip_prefix("---\r\n"));
    let split = body.and_then(|body| {
        let mut at = 0;
        for line in body.split_inclusive('\n') {
            if line.trim_end() == "---" {
                return Some((body.get(..at)?, body.get(at + line.len()..)?));
            }
            at += line.len();
        }
        None
    });
    split.unwrap_or(("", readme))
}

/// The first heading of the first rank, where it is a repository.
fn heading(readme: &str) -> Option<String> {
    let mut in_code = false;
    for line in parts(readme).1.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if let Some(text) = line.strip_prefix("# ").filter(|_| !in_code) {
            let text = text.trim().trim_matches('`');
            // `[ORGANISATION/NAME](link)`
            let text =
                text.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(text, _)| text);
            return is_repository(text).then(|| text.to_owned());
        }
    }
    None
}

/// `base_model:` of the front matter: a value, or the first of a list.
fn base_model(readme: &str) -> Option<String> {
    let mut lines = parts(readme).0.lines();
    let value = lines.by_ref().find_map(|line| line.strip_prefix("base_model:"))?;
    let value = value.trim();
    let value = if value.is_empty() { lines.next()?.trim().strip_prefix('-')?.trim() } else { value };
    let value = value.trim_matches(|character| "[]\"'".contains(character)).split(',').next()?;
    let value = value.trim().trim_matches(|character| "\"'".contains(character));
    is_repository(value).then(|| value.to_owned())
}

fn is_repository(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 128
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    text.split_once('/').is_some_and(|(organisation, name)| part(organisation) && part(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR_BITS: Facts = Facts {
        precision: Some(Precision::Bits(4, Some(QuantizationMode::Affine))),
        parameters: Some(7_600_000_000),
    };

    fn named(folder: &str, readme: &str, facts: &Facts) -> Naming {
        name(folder, Some(readme), facts)
    }

    #[test]
    fn the_heading_names_the_artifact_and_the_folder_becomes_a_former_name() {
        let readme =
            "---\nbase_model: Qwen/Qwen2.5-7B-Instruct\n---\n\n# mlx-community/Qwen2.5-7B-Instruct-4bit\n";
        let naming = named("qwen2.5-7b-4bit", readme, &FOUR_BITS);
        assert_eq!(naming.name, "qwen2.5-7b-instruct-4bit");
        assert_eq!(naming.former.as_deref(), Some("qwen2.5-7b-4bit"));
        assert_eq!(naming.upstream_repo_id.as_deref(), Some("mlx-community/Qwen2.5-7B-Instruct-4bit"));
        assert_eq!((naming.id_source, naming.notes), (IdSource::Heading, vec![]));
    }

    #[test]
    fn a_base_model_is_recorded_and_makes_no_name() {
        for readme in [
            "---\nbase_model: google/gemma-3n-E4B\n---\n# Gemma\n",
            "---\ntags: [x]\nbase_model:\n- \"google/gemma-3n-E4B\"\n---\n",
            "---\nbase_model: [google/gemma-3n-E4B, other/x]\n---\n```\n# other/Name\n```\n",
        ] {
            let naming = named("gemma3n", readme, &Facts::default());
            assert_eq!((naming.name.as_str(), naming.former), ("gemma3n", None));
            assert_eq!(naming.upstream_repo_id.as_deref(), Some("google/gemma-3n-E4B"), "{readme}");
            assert_eq!(naming.id_source, IdSource::BaseModel);
        }
    }

    #[test]
    fn a_precision_that_the_upstream_name_lacks_is_kept() {
        let facts = Facts { precision: Some(Precision::Dense(Dtype::Bf16)), parameters: None };
        let readme = "# mlx-community/Llama-3.1-8B-Instruct";
        assert_eq!(named("llama-3.1-8b-bf16", readme, &facts).name, "llama-3.1-8b-instruct-bf16");
        assert_eq!(named("llama-3.1-8b", readme, &facts).name, "llama-3.1-8b-instruct");
    }

    #[test]
    fn the_configuration_is_believed_before_any_name() {
        let facts = Facts { precision: Some(Precision::Dense(Dtype::Bf16)), parameters: None };
        let naming =
            named("deepseek-coder-1.3b-4bit", "# mlx-community/deepseek-coder-1.3b-instruct-mlx", &facts);
        assert_eq!(naming.name, "deepseek-coder-1.3b-instruct-mlx");
        assert_eq!(naming.former, None, "these weights were never called 4bit rightly");
        assert!(naming.notes[0].contains("says 4bit, the configuration bfloat16"), "{:?}", naming.notes);

        let naming = named("x", "# org/Model-7B-8bit", &FOUR_BITS);
        assert_eq!(naming.name, "model-7b-4bit");
        assert!(naming.notes[0].contains("org/Model-7B-8bit says 8bit"), "{:?}", naming.notes);
    }

    #[test]
    fn a_heading_of_another_size_names_something_else() {
        let naming = named("mine", "# org/Model-70B-4bit", &FOUR_BITS);
        assert_eq!((naming.name.as_str(), naming.id_source), ("mine", IdSource::None));
        assert!(naming.notes[0].contains("70000 million"), "{:?}", naming.notes);
        for fitting in
            ["Model-7B-4bit", "Model-8B-4bit", "Model-8x7B", "Model-30B-A3B-7B", "Scout-17B-16E", "Model-E2B"]
        {
            assert_eq!(
                named("mine", &format!("# org/{fitting}"), &FOUR_BITS).id_source,
                IdSource::Heading,
                "{fitting}"
            );
        }
    }

    #[test]
    fn with_neither_the_name_is_left_alone() {
        for readme in
            ["", "# A model\n", "## org/name\n", "---\nbase_model: x\n", "---\nbase_model: ../../etc\n---\n"]
        {
            let naming = named("Anything", readme, &FOUR_BITS);
            assert_eq!(naming.name, "Anything");
            assert_eq!((naming.id_source, naming.upstream_repo_id), (IdSource::None, None), "{readme:?}");
        }
        assert_eq!(name("x", None, &FOUR_BITS).id_source, IdSource::None);
    }

    #[test]
    fn a_name_that_differs_in_case_alone_is_left_alone() {
        let naming = named("SmolLM2-7B-4bit", "# org/SmolLM2-7B-4bit", &FOUR_BITS);
        assert_eq!((naming.name.as_str(), naming.former), ("SmolLM2-7B-4bit", None));
    }

    #[test]
    fn bits_fit_every_mode_and_a_mode_only_itself() {
        let mxfp4 = Precision::Bits(4, Some(QuantizationMode::Mxfp4));
        for (token, fits) in [
            ("4bit", true),
            ("Q4", true),
            ("MXFP4", true),
            ("nvfp4", false),
            ("8bit", false),
            ("bf16", false),
        ] {
            let stated = Precision::of_token(token).expect("OK because it is a token");
            assert_eq!(mxfp4.fits(stated), fits, "{token}");
        }
        assert_eq!(Precision::of_token("qwen3"), None);
        assert_eq!(Precision::of_token("99bit"), None);
    }
}
