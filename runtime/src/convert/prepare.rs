//! Opens an input and gathers everything that must be known before the first byte is written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mlxcel_catalog::folder::CheckpointFolder;
use mlxcel_catalog::headers::Dtype;
use serde_json::{Map, Value, json};

use super::architecture::{Architecture, ModelShape};
use super::encode::FloatDtype;
use super::error::ConvertError;
use super::from_gguf::{self, GgufSource};
use super::from_safetensors::{self, SafetensorsSource};
use super::gguf::{BlockType, GgufFile};
use super::report::TokenizerOrigin;
use super::request::{ConvertInput, ConvertRequest, OutputMode};
use super::source::TensorSource;
use super::synthetic::{self, SyntheticConfig, SyntheticSource};
use super::{synthetic_tokenizer, tokenizer_files};

/// Files to copy: name in the output, and where they are.
type Files = Vec<(&'static str, PathBuf)>;

/// The tokenizer of the output.
pub(super) enum TokenizerSource {
    /// Rebuilt or made up.
    Made { tokenizer: Value, config: Value, origin: TokenizerOrigin },
    /// Copied.
    Files(Files),
}

impl TokenizerSource {
    pub(super) fn origin(&self) -> TokenizerOrigin {
        match self {
            Self::Made { origin, .. } => *origin,
            Self::Files(_) => TokenizerOrigin::Copied,
        }
    }
}

/// An input that can be converted.
pub(super) struct Prepared {
    pub(super) source: Box<dyn TensorSource>,
    /// The configuration, without what depends on the form of the output.
    pub(super) config: Map<String, Value>,
    pub(super) shape: ModelShape,
    pub(super) default_dtype: FloatDtype,
    pub(super) tokenizer: TokenizerSource,
    pub(super) extra_files: Files,
    pub(super) warnings: Vec<String>,
}

/// Opens the input of `request`.
pub(super) fn prepare(request: &ConvertRequest) -> Result<Prepared, ConvertError> {
    match &request.input {
        ConvertInput::Gguf(path) => gguf(path, request),
        ConvertInput::Safetensors(path) => safetensors(path, request),
        ConvertInput::Synthetic { config, seed } => synthetic(config, *seed, request),
    }
}

fn context(config: &Map<String, Value>) -> Option<u64> {
    config.get("max_position_embeddings").and_then(Value::as_u64)
}

fn gguf(path: &Path, request: &ConvertRequest) -> Result<Prepared, ConvertError> {
    let mut file = from_gguf::open(path)?;
    let architecture = from_gguf::architecture(&file)?;
    let factors = from_gguf::rope_factors(&mut file)?;
    let config = from_gguf::rebuild_config(&file, architecture, factors.as_deref())?;
    let shape = ModelShape::from_config(path, &config, None)?;
    let mut warnings = Vec::new();
    let quantized: BTreeSet<BlockType> = file
        .tensors()
        .values()
        .map(|tensor| tensor.block_type)
        .filter(|block_type| !block_type.is_float())
        .collect();
    if matches!(request.mode, OutputMode::Quantized(_)) && !quantized.is_empty() {
        let types = quantized.iter().map(|block_type| block_type.name()).collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "{}: the file is quantized already ({types}), so the output has the losses of both quantizations; \
             --lossless keeps the file's own values, or convert the original model",
            path.display()
        ));
    }
    let tokenizer = gguf_tokenizer(&file, request, &config, &shape, &mut warnings)?;
    let default_dtype = gguf_dtype(&file, architecture, request.mode);
    let source = Box::new(GgufSource::new(file, &config)?);
    Ok(Prepared { source, config, shape, default_dtype, tokenizer, extra_files: Vec::new(), warnings })
}

fn gguf_tokenizer(
    file: &GgufFile,
    request: &ConvertRequest,
    config: &Map<String, Value>,
    shape: &ModelShape,
    warnings: &mut Vec<String>,
) -> Result<TokenizerSource, ConvertError> {
    let tokens = from_gguf::tokenizer::tokens(file);
    if let Some(tokens) = tokens.filter(|tokens| tokens.len() > shape.vocab_size) {
        let rule =
            format!("has {} entries, more than the {} rows of the embedding", tokens.len(), shape.vocab_size);
        let field = "tokenizer.ggml.tokens".to_owned();
        return Err(ConvertError::Field { path: file.path().to_owned(), field, rule });
    }
    let Some(folder) = &request.tokenizer else {
        let rebuilt = from_gguf::tokenizer::rebuild(file, context(config))?;
        return Ok(TokenizerSource::Made {
            tokenizer: rebuilt.tokenizer,
            config: rebuilt.config,
            origin: TokenizerOrigin::Rebuilt,
        });
    };
    let files = tokenizer_files::find(folder)?;
    match tokens {
        Some(tokens) => tokenizer_files::check_tokens(folder, tokens)?,
        None => warnings.push(format!(
            "{}: the GGUF file holds no tokens, so it could not be checked that this is the model's tokenizer",
            folder.display()
        )),
    }
    Ok(TokenizerSource::Files(files))
}

/// The element type that fits a file best: what its matrices are where they are all of one float type; `f16` for
/// quantized ones, whose scales are `f16`; but `bf16` for dense Gemma, whose activations overflow `f16`.
fn gguf_dtype(file: &GgufFile, architecture: Architecture, mode: OutputMode) -> FloatDtype {
    let matrices: Vec<BlockType> = file
        .tensors()
        .values()
        .filter(|tensor| tensor.shape.len() > 1)
        .map(|tensor| tensor.block_type)
        .collect();
    let all = |wanted: BlockType| matrices.iter().all(|&block_type| block_type == wanted);
    if all(BlockType::F32) {
        FloatDtype::F32
    } else if all(BlockType::Bf16)
        || (architecture == Architecture::Gemma3Text && mode != OutputMode::Lossless)
    {
        FloatDtype::Bf16
    } else {
        FloatDtype::F16
    }
}

fn safetensors(path: &Path, request: &ConvertRequest) -> Result<Prepared, ConvertError> {
    let folder = CheckpointFolder::open(path)?;
    let mut config = folder.config().raw().clone();
    let has_output = from_safetensors::has_output(&folder);
    let shape = ModelShape::from_config(&path.join("config.json"), &config, Some(has_output))?;
    let mut warnings = Vec::new();
    match (folder.config().quantization().is_some(), request.mode) {
        (true, OutputMode::Dense | OutputMode::Quantized(_)) => {
            return Err(ConvertError::AlreadyQuantized { path: path.to_owned() });
        }
        (false, OutputMode::Dequantize) => {
            warnings.push("the checkpoint is not quantized; it was converted as a dense one".to_owned());
        }
        _ => {}
    }
    if shape.tied && has_output {
        warnings
            .push("lm_head.weight was left out: the configuration says that it is the embedding".to_owned());
    }
    // Written out, since libraries differ in what they take a missing field for.
    config.insert("tie_word_embeddings".to_owned(), json!(shape.tied));
    let torch = ["torch_dtype", "dtype"].iter().find_map(|field| config.get(*field)).and_then(Value::as_str);
    let default_dtype = torch.and_then(FloatDtype::from_torch_name).unwrap_or_else(|| {
        match from_safetensors::float_dtype(&folder) {
            Some(Dtype::F16) => FloatDtype::F16,
            Some(Dtype::Bf16) => FloatDtype::Bf16,
            _ => FloatDtype::F32,
        }
    });
    let tokenizer = tokenizer_files::find(request.tokenizer.as_deref().unwrap_or(path))?;
    let generation = path.join("generation_config.json");
    let extra_files =
        if generation.is_file() { vec![("generation_config.json", generation)] } else { Vec::new() };
    Ok(Prepared {
        source: Box::new(SafetensorsSource::new(&folder, &shape)?),
        config,
        shape,
        default_dtype,
        tokenizer: TokenizerSource::Files(tokenizer),
        extra_files,
        warnings,
    })
}

fn synthetic(
    config: &SyntheticConfig,
    seed: u64,
    request: &ConvertRequest,
) -> Result<Prepared, ConvertError> {
    let (path, mut config) = synthetic::read_config(config)?;
    let shape = ModelShape::from_config(&path, &config, None)?;
    let mut warnings = Vec::new();
    let quantized = ["quantization", "quantization_config"].iter().any(|field| config.contains_key(*field));
    if quantized && !matches!(request.mode, OutputMode::Quantized(_)) {
        warnings.push(format!(
            "{}: its quantization was not taken over; give --q-bits for a quantized checkpoint",
            path.display()
        ));
    }
    config.insert("tie_word_embeddings".to_owned(), json!(shape.tied));
    config.entry("architectures").or_insert_with(|| json!([shape.architecture.class()]));
    let tokenizer = if let Some(folder) = &request.tokenizer {
        TokenizerSource::Files(tokenizer_files::find(folder)?)
    } else {
        let special = synthetic::special_ids(&path, &mut config)?;
        let (tokenizer, config) =
            synthetic_tokenizer::build(&path, shape.vocab_size, &special, context(&config))?;
        TokenizerSource::Made { tokenizer, config, origin: TokenizerOrigin::Synthetic }
    };
    config.insert(synthetic::MARK.to_owned(), json!({"seed": seed, "generator": synthetic::GENERATOR}));
    let torch = ["torch_dtype", "dtype"].iter().find_map(|field| config.get(*field)).and_then(Value::as_str);
    let default_dtype = torch.and_then(FloatDtype::from_torch_name).unwrap_or(FloatDtype::F32);
    let source = Box::new(SyntheticSource::new(&shape, seed));
    Ok(Prepared { source, config, shape, default_dtype, tokenizer, extra_files: Vec::new(), warnings })
}
