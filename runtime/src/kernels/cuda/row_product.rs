//! The product of one row of activations with a weight, and which weights our kernels serve.

use super::operation::{Kernel, Operation};
use super::text::{self, Number};
use crate::kernels::cpu::{LinearArrays, WeightArrays};
use crate::kernels::mlx::Result;
use crate::kernels::setting::{Setting, setting};
use mlx_rs::{Array, Dtype, ops};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use std::sync::{Mutex, PoisonError};

const QUANTIZED: &str = include_str!("quantized_row.cu");
const DENSE: &str = include_str!("dense_row.cu");

/// Warps of a block.
const WARPS: i32 = 4;
/// Rows that a block of the quantized kernel makes.
const QUANTIZED_ROWS: i32 = 16;
/// Warps of the dense kernel that make rows together.
const DENSE_SPLIT: i32 = 2;
/// From how many rows on they make [several](dense_rows) at a time.
const WIDE: i32 = 6144;
/// Columns of a dense row that are read at once, by a lane.
const DENSE_COLUMNS: i32 = 8;

/// How a weight is stored, as far as a kernel has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Dense,
    /// Affine; bits, and columns that share a scale.
    Quantized(i32, i32),
}

/// A linear layer whose products of one row our kernels compute.
#[derive(Debug)]
pub(crate) struct RowProduct {
    form: Form,
    dtype: Dtype,
    number: Number,
    columns: i32,
    width: i32,
    /// The weight's arrays, in the kernel's order.
    weight: Vec<Array>,
    /// The bias, or as many zeros: the GPU's own, since MLX keeps what comes from the processor, or takes no more than 8
    /// bytes, where every block would have to read it across the bus.
    addend: Array,
    has_bias: bool,
    /// What computes it: nothing yet, or for another stream.
    operation: Mutex<Option<Operation>>,
}

impl RowProduct {
    /// The layer, where our kernels compute in this process and serve it.
    pub(crate) fn new(arrays: LinearArrays<'_>) -> Option<Self> {
        match setting() {
            Ok(Setting::Cuda) => Self::always(arrays),
            _ => None,
        }
    }

    /// The same whatever kernels compute in this process.
    pub(super) fn always(arrays: LinearArrays<'_>) -> Option<Self> {
        let (form, weight, width, columns, dtype) = match arrays.weight {
            WeightArrays::Dense(weight) => {
                let &[width, columns] = weight.shape() else { return None };
                (Form::Dense, vec![weight.clone()], width, columns, weight.dtype())
            }
            WeightArrays::Quantized { packed, scales, biases, spec } => {
                let (&[width, words], Some(biases)) = (packed.shape(), biases) else { return None };
                let form = quantized_form(spec)?;
                let columns = words.checked_mul(32)? / i32::try_from(spec.bits).ok()?;
                let parameters = [width, columns / i32::try_from(spec.group_size).ok()?];
                let fit = packed.dtype() == Dtype::Uint32
                    && [scales, biases]
                        .iter()
                        .all(|one| one.shape() == parameters && one.dtype() == scales.dtype());
                if !fit {
                    return None;
                }
                let weight = vec![packed.clone(), scales.clone(), biases.clone()];
                (form, weight, width, columns, scales.dtype())
            }
        };
        let number = Number::of(dtype)?;
        if width < 1 || columns < 1 || columns % whole(form) != 0 {
            return None;
        }
        let bias = match arrays.bias {
            Some(bias) if bias.dtype() != dtype || bias.shape() != [width] => return None,
            bias => bias.cloned(),
        };
        let has_bias = bias.is_some();
        let addend = match bias {
            Some(bias) => bias,
            None => ops::zeros_dtype(&[width], dtype).ok()?,
        };
        Some(Self {
            form,
            dtype,
            number,
            columns,
            width,
            weight,
            addend,
            has_bias,
            operation: Mutex::new(None),
        })
    }

    /// `residual + x · wᵀ + bias` for `x` of one row; `None` where `x` is none that the kernel serves.
    pub(crate) fn of(&self, x: &Array, residual: Option<&Array>) -> Result<Option<Array>> {
        let mut shape = x.shape().to_vec();
        let Some(last) = shape.last_mut() else { return Ok(None) };
        *last = self.width;
        if x.dtype() != self.dtype
            || x.dim(-1) != self.columns
            || x.size() != x.dim(-1).unsigned_abs() as usize
        {
            return Ok(None);
        }
        let added = residual.filter(|residual| {
            !self.has_bias && residual.dtype() == self.dtype && residual.shape() == shape.as_slice()
        });
        let mut inputs: Vec<&Array> = Vec::with_capacity(5);
        inputs.push(x);
        inputs.extend(&self.weight);
        inputs.push(added.unwrap_or(&self.addend));
        let product = self.apply(&inputs, &shape)?;
        match residual {
            Some(residual) if added.is_none() => residual.add(product).map(Some),
            _ => Ok(Some(product)),
        }
    }

    fn apply(&self, inputs: &[&Array], shape: &[i32]) -> Result<Array> {
        let mut known = self.operation.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(operation) = known.as_ref()
            && let Some(result) = operation.apply(inputs, shape, self.dtype)?
        {
            return Ok(result);
        }
        let operation = self.operation_for(inputs, shape)?;
        let result = operation.apply(inputs, shape, self.dtype)?;
        *known = Some(operation);
        result.ok_or_else(|| crate::kernels::mlx::refused("cuda_kernel"))
    }

    fn operation_for(&self, inputs: &[&Array], shape: &[i32]) -> Result<Operation> {
        let (kind, number) = (self.number.name(), self.number.in_cuda());
        let rows = match self.form {
            Form::Dense => WARPS / DENSE_SPLIT * dense_rows(self.width).0,
            Form::Quantized(..) => QUANTIZED_ROWS,
        };
        let (together, ahead) = dense_rows(self.width);
        let (text, name, body, names) = match self.form {
            Form::Dense => (
                DENSE,
                format!("mlxcel_dense_row_{kind}_{together}"),
                format!(
                    "mlxcel::dense_row<{number}, {together}, {ahead}, {DENSE_SPLIT}>(x, w, addend, y, w_shape[0], w_shape[1]);"
                ),
                ["x", "w", "addend"].as_slice(),
            ),
            Form::Quantized(bits, group) => (
                QUANTIZED,
                format!("mlxcel_quantized_row_{kind}_{bits}_{group}"),
                format!(
                    "mlxcel::quantized_row<{number}, {bits}, {group}, {}>(x, w, scales, biases, addend, y, w_shape[0], \
                     w_shape[1]);",
                    stages(bits, group)
                ),
                ["x", "w", "scales", "biases", "addend"].as_slice(),
            ),
        };
        let kernel = Kernel {
            name: &name,
            header: &text::with(self.number, &[text]),
            body: &body,
            inputs: names,
            output: "y",
            blocks: (self.width - 1) / rows + 1,
            threads: 32 * WARPS,
            shared_bytes: shared_bytes(self.form),
            contiguous: true,
        };
        Operation::new(&kernel, inputs, shape, self.dtype)
    }
}

/// The form, where the kernel serves it.
fn quantized_form(spec: QuantizationSpec) -> Option<Form> {
    match (spec.mode, spec.bits, spec.group_size) {
        (QuantizationMode::Affine, 4, group @ (32 | 64 | 128))
        | (QuantizationMode::Affine, 8, group @ (32 | 64)) => {
            Some(Form::Quantized(i32::try_from(spec.bits).ok()?, i32::try_from(group).ok()?))
        }
        _ => None,
    }
}

/// Rows of a dense weight that are made together, and how many loads a lane has under way of each: several rows share what is
/// read of the activations, but few of them would leave processors without work.
fn dense_rows(width: i32) -> (i32, i32) {
    if width < WIDE { (1, 4) } else { (4, 2) }
}

/// Columns that a kernel takes together: a row must have a whole number of them.
fn whole(form: Form) -> i32 {
    match form {
        Form::Dense => DENSE_COLUMNS,
        Form::Quantized(_, group) => 8 * group,
    }
}

/// Parts of a row that a warp has under way at a time: two, where they fit the shared memory that every block may have.
fn stages(bits: i32, group: i32) -> i32 {
    match (bits, group) {
        (4, 128) | (8, 64) => 1,
        _ => 2,
    }
}

/// The shared memory of a block beside what its text declares: the stages of its warps (`Stage` in `quantized_row.cu`).
fn shared_bytes(form: Form) -> i32 {
    let Form::Quantized(bits, group) = form else { return 0 };
    let fields = 128 / bits;
    let (stretches, parts, pieces) = (8 * group / (4 * fields), 8 * group / fields, fields / 8);
    let stage = stretches * 1024 + pieces * (parts + 8 / pieces) * 16 + 512;
    WARPS * stages(bits, group) * stage
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::mlx;
    use mlx_rs::ops;

    const SERVED: [(u32, u32); 5] = [(4, 32), (4, 64), (4, 128), (8, 32), (8, 64)];

    fn affine(bits: u32, group_size: u32) -> QuantizationSpec {
        QuantizationSpec { mode: QuantizationMode::Affine, bits, group_size }
    }

    fn zeros(shape: &[i32], dtype: Dtype) -> Array {
        ops::zeros_dtype(shape, dtype).expect("OK because the extents are positive")
    }

    /// What is made of a weight of zeros.
    fn quantized(columns: i32, spec: QuantizationSpec, dtype: Dtype) -> Option<RowProduct> {
        let weight = zeros(&[24, columns], dtype);
        let (packed, scales, biases) = mlx::quantize(&weight, spec).expect("OK because groups are whole");
        let weight =
            WeightArrays::Quantized { packed: &packed, scales: &scales, biases: biases.as_ref(), spec };
        RowProduct::always(LinearArrays { weight, bias: None })
    }

    fn dense(columns: i32, dtype: Dtype) -> Option<RowProduct> {
        let weight = zeros(&[24, columns], dtype);
        RowProduct::always(LinearArrays { weight: WeightArrays::Dense(&weight), bias: None })
    }

    #[test]
    fn weights_are_served_by_form_data_type_and_width() {
        for (bits, group) in SERVED {
            let columns = i32::try_from(8 * group).expect("OK because it is small");
            for dtype in [Dtype::Bfloat16, Dtype::Float16] {
                let product =
                    quantized(columns, affine(bits, group), dtype).expect("OK because it is served");
                assert_eq!((product.columns, product.width, product.dtype), (columns, 24, dtype));
            }
            assert!(quantized(columns + 128, affine(bits, group), Dtype::Bfloat16).is_none());
            assert!(quantized(columns, affine(bits, group), Dtype::Float32).is_none());
        }
        for (bits, group) in [(2, 64), (3, 64), (5, 64), (6, 64), (8, 128)] {
            assert!(quantized(1024, affine(bits, group), Dtype::Bfloat16).is_none(), "{bits} {group}");
        }
        let mxfp4 = QuantizationSpec { mode: QuantizationMode::Mxfp4, bits: 4, group_size: 32 };
        assert!(quantized(1024, mxfp4, Dtype::Bfloat16).is_none());
        assert!(dense(24, Dtype::Bfloat16).is_some());
        assert!(dense(24, Dtype::Float16).is_some());
        assert!(dense(20, Dtype::Bfloat16).is_none());
        assert!(dense(24, Dtype::Float32).is_none());
    }

    #[test]
    fn a_bias_must_be_the_layers_own() {
        let weight = zeros(&[24, 64], Dtype::Bfloat16);
        let with = |bias: &Array| {
            RowProduct::always(LinearArrays { weight: WeightArrays::Dense(&weight), bias: Some(bias) })
        };
        assert!(with(&zeros(&[24], Dtype::Bfloat16)).is_some_and(|product| product.has_bias));
        assert!(with(&zeros(&[23], Dtype::Bfloat16)).is_none());
        assert!(with(&zeros(&[24], Dtype::Float32)).is_none());
    }

    #[test]
    fn several_rows_and_other_data_types_are_left_to_mlx() {
        let product = dense(64, Dtype::Bfloat16).expect("OK because it is served");
        for (shape, dtype) in [
            ([1, 2, 64].as_slice(), Dtype::Bfloat16),
            (&[2, 1, 64], Dtype::Bfloat16),
            (&[1, 0, 64], Dtype::Bfloat16),
            (&[1, 1, 32], Dtype::Bfloat16),
            (&[1, 1, 64], Dtype::Float16),
            (&[], Dtype::Bfloat16),
        ] {
            let result = product.of(&zeros(shape, dtype), None).expect("OK because nothing is computed");
            assert!(result.is_none(), "{shape:?} {dtype:?}");
        }
    }

    #[test]
    fn a_processor_is_never_given_them() {
        if crate::version::Backend::current() == crate::version::Backend::Cpu {
            let weight = zeros(&[24, 64], Dtype::Bfloat16);
            let arrays = LinearArrays { weight: WeightArrays::Dense(&weight), bias: None };
            assert!(RowProduct::new(arrays).is_none());
        }
    }

    /// Every block may have 48 KiB without being given more; the quantized kernel's own array takes a KiB of it.
    #[test]
    fn stages_fit_the_shared_memory_of_a_block_and_no_more_stages_would() {
        const ROOM: i32 = 47 << 10;
        for (bits, group) in [(4, 32), (4, 64), (4, 128), (8, 32), (8, 64)] {
            let bytes = shared_bytes(Form::Quantized(bits, group));
            assert!(bytes <= ROOM, "{bits} {group}: {bytes}");
            let one = bytes / stages(bits, group);
            assert!(stages(bits, group) == 2 || 2 * one > ROOM, "{bits} {group}: {one}");
        }
        assert_eq!(shared_bytes(Form::Quantized(4, 64)), 4 * 2 * (8 * 512 + 4 * 18 * 16 + 512));
        assert_eq!(shared_bytes(Form::Dense), 0);
    }
}
