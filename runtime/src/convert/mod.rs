//! Makes MLX-format checkpoint folders: from GGUF files, from safetensors checkpoints, or of random weights.
//!
//! [`run`] reads tensor by tensor and a bounded number of rows at a time, so that memory stays far below the size of the
//! largest tensor, and writes into a temporary folder that gets its name when it is complete. Everything that can be
//! known beforehand (names, shapes, types, tokenizer, free output path) is checked before the first byte is written.
//!
//! - [`gguf`]: the container and its number formats
//! - [`architecture`], [`layout`]: which tensors a model has
//! - [`report`]: what was made
//!
//! Reading a checkpoint to run it is [`crate::checkpoint`]'s part.

mod affine;
mod ahead;
pub mod architecture;
mod encode;
mod error;
mod from_gguf;
mod from_safetensors;
pub mod gguf;
pub mod layout;
mod pipeline;
mod plan;
mod prepare;
mod quantize;
pub mod report;
mod request;
mod source;
mod synthetic;
mod synthetic_tokenizer;
mod tokenizer_files;
mod writer;

use std::fs;
use std::path::Path;

pub use encode::FloatDtype;
pub use error::{ConvertError, TensorFaults};
pub use report::ConvertReport;
pub use request::{ConvertInput, ConvertRequest, OutputMode};
pub use synthetic::{GENERATOR, MARK, SyntheticConfig, smollm2_135m_config};

use plan::{Form, Matrices};
use prepare::{Prepared, TokenizerSource};
use serde_json::{Value, json};

/// Carries out a conversion. `progress` is called with the bytes of tensor data written so far and in all.
pub fn run(
    request: &ConvertRequest,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ConvertReport, ConvertError> {
    request.check()?;
    if let OutputMode::Quantized(_) = request.mode {
        // MLX quantizes, on its device.
        crate::device::check()?;
    }
    writer::check_target(&request.output)?;
    let Prepared { source, mut config, shape, default_dtype, tokenizer, extra_files, mut warnings } =
        prepare::prepare(request)?;
    let mut source = source;

    let matrices = match request.mode {
        OutputMode::Dense | OutputMode::Dequantize => Matrices::Dense,
        OutputMode::Quantized(spec) => Matrices::Quantized(spec),
        OutputMode::Lossless => Matrices::Lossless,
    };
    let dtype = request.dtype.unwrap_or(default_dtype);
    let forms = plan::forms(source.tensors(), matrices)
        .map_err(|tensors| ConvertError::NotRepackable { path: request.input.path(), tensors })?;
    let quantization = plan::quantization_block(source.tensors(), &forms);
    if quantization.is_none() && matrices != Matrices::Dense {
        warnings.push("no matrix could be quantized; the output is dense".to_owned());
    }
    let plan = plan::plan(source.tensors(), &forms, dtype, request.max_shard_bytes)?;

    config.insert("torch_dtype".to_owned(), json!(dtype.torch_name()));
    if config.contains_key("dtype") {
        config.insert("dtype".to_owned(), json!(dtype.torch_name()));
    }
    for field in ["quantization", "quantization_config"] {
        config.shift_remove(field);
        if let Some(block) = &quantization {
            // mlx-lm writes the block under both names, the second one for Hugging Face's model pages.
            config.insert(field.to_owned(), Value::Object(block.clone()));
        }
    }

    let folder = writer::OutputFolder::create(&request.output)?;
    folder.write_json("config.json", &config)?;
    match &tokenizer {
        TokenizerSource::Made { tokenizer, config, .. } => {
            folder.write_json(tokenizer_files::TOKENIZER, tokenizer)?;
            folder.write_json(tokenizer_files::TOKENIZER_CONFIG, config)?;
        }
        TokenizerSource::Files(files) => {
            for (name, path) in files {
                folder.write(name, &read(path)?)?;
            }
        }
    }
    for (name, path) in &extra_files {
        folder.write(name, &read(path)?)?;
    }
    let rounding = if request.mode == OutputMode::Lossless {
        encode::Rounding::Refused
    } else {
        encode::Rounding::Allowed
    };
    let rounded = pipeline::write(&mut *source, &plan, dtype, rounding, folder.path(), request, progress)?;
    if plan.shards.len() > 1 {
        folder.write_json("model.safetensors.index.json", &writer::index(&plan))?;
    }
    folder.finish()?;

    let parameters: u64 = source.tensors().iter().map(source::InputTensor::elements).sum();
    Ok(ConvertReport {
        output: request.output.clone(),
        model_type: shape.architecture.model_type().to_owned(),
        dtype,
        tensors: plan.jobs.iter().map(|job| job.outputs.len()).sum(),
        quantized_layers: forms.iter().filter(|form| **form != Form::Dense).count(),
        parameters,
        weight_bytes: plan.total_bytes,
        bits_per_weight: plan.total_bytes as f64 * 8.0 / (parameters.max(1)) as f64,
        shards: plan.shards.len(),
        quantization: quantization.map(Value::Object),
        tokenizer: tokenizer.origin(),
        rounded,
        warnings,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, ConvertError> {
    fs::read(path).map_err(|cause| ConvertError::Read {
        path: path.to_owned(),
        action: "cannot be read",
        cause,
    })
}
