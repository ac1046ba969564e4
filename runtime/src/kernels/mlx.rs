//! MLX's own operations, called through `mlx-sys` where `mlx-rs` lacks them: quantized products in every mode, and
//! plain slices, which `mlx-rs` reaches only through its indexing layer.
#![expect(unsafe_code, reason = "calls MLX's C interface; each block says why it is sound")]

use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, Stream};
use mlxcel_catalog::config::{QuantizationMode, QuantizationSpec};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// MLX's result, whose error is a text.
pub(crate) type Result<T> = std::result::Result<T, Exception>;

/// `x · wᵀ` for a quantized `w` of shape `[out, in]`: `x` is `[…, in]`, the result `[…, out]`.
pub(crate) fn quantized_matmul(
    x: &Array,
    weight: &Array,
    scales: &Array,
    biases: Option<&Array>,
    spec: QuantizationSpec,
) -> Result<Array> {
    let stream = Stream::thread_local_or_default();
    let (group_size, bits) = group_and_bits(spec);
    array_from("quantized_matmul", |result| {
        // SAFETY: every handle outlives the call, which borrows them; an absent array is MLX's empty handle.
        unsafe {
            mlx_sys::mlx_quantized_matmul(
                result,
                x.as_ptr(),
                weight.as_ptr(),
                scales.as_ptr(),
                handle_or_none(biases),
                true,
                group_size,
                bits,
                mode_name(spec.mode).as_ptr(),
                stream.as_ptr(),
            )
        }
    })
}

/// The values of a quantized array, in the data type of its scales, or for the modes whose scales are not floats in
/// `dtype`.
pub(crate) fn dequantize(
    weight: &Array,
    scales: &Array,
    biases: Option<&Array>,
    spec: QuantizationSpec,
    dtype: Option<Dtype>,
) -> Result<Array> {
    let stream = Stream::thread_local_or_default();
    let (group_size, bits) = group_and_bits(spec);
    let dtype = mlx_sys::mlx_optional_dtype {
        value: dtype.unwrap_or(Dtype::Float32).into(),
        has_value: dtype.is_some(),
    };
    array_from("dequantize", |result| {
        // SAFETY: as in `quantized_matmul`; the last handle is the absent global scale.
        unsafe {
            mlx_sys::mlx_dequantize(
                result,
                weight.as_ptr(),
                scales.as_ptr(),
                handle_or_none(biases),
                group_size,
                bits,
                mode_name(spec.mode).as_ptr(),
                handle_or_none(None),
                dtype,
                stream.as_ptr(),
            )
        }
    })
}

/// Quantizes a matrix along its last axis: the packed weight, its scales, and in the affine mode its biases.
pub(crate) fn quantize(weight: &Array, spec: QuantizationSpec) -> Result<(Array, Array, Option<Array>)> {
    let stream = Stream::thread_local_or_default();
    let (group_size, bits) = group_and_bits(spec);
    // SAFETY: the vector is created here, filled by MLX, read while it lives and freed once. Each element is taken
    // as a handle of its own, which `Array` then owns.
    unsafe {
        let mut parts = mlx_sys::mlx_vector_array_new();
        let status = mlx_sys::mlx_quantize(
            &raw mut parts,
            weight.as_ptr(),
            group_size,
            bits,
            mode_name(spec.mode).as_ptr(),
            handle_or_none(None),
            stream.as_ptr(),
        );
        let part =
            |index| array_from("quantize", |result| mlx_sys::mlx_vector_array_get(result, parts, index));
        let result = if status == 0 {
            let count = mlx_sys::mlx_vector_array_size(parts);
            part(0).and_then(|packed| Ok((packed, part(1)?, if count > 2 { Some(part(2)?) } else { None })))
        } else {
            Err(refused("quantize"))
        };
        mlx_sys::mlx_vector_array_free(parts);
        result
    }
}

/// `source[start..stop]` on every axis, with unit steps.
pub(crate) fn slice(source: &Array, start: &[c_int], stop: &[c_int]) -> Result<Array> {
    let stream = Stream::thread_local_or_default();
    let steps = UNIT_STEPS.get(..start.len()).ok_or_else(|| refused("slice"))?;
    array_from("slice", |result| {
        // SAFETY: the three lists outlive the call and are passed with their lengths.
        unsafe {
            mlx_sys::mlx_slice(
                result,
                source.as_ptr(),
                start.as_ptr(),
                start.len(),
                stop.as_ptr(),
                stop.len(),
                steps.as_ptr(),
                steps.len(),
                stream.as_ptr(),
            )
        }
    })
}

/// `source` cut along `axis` before each of `starts`, which ascend: one node, whose results share its memory.
pub(crate) fn split(source: &Array, starts: &[c_int], axis: c_int) -> Result<Vec<Array>> {
    let stream = Stream::thread_local_or_default();
    // SAFETY: the vector is created here, filled by MLX, read while it lives and freed once; the list outlives the call.
    unsafe {
        let mut parts = mlx_sys::mlx_vector_array_new();
        let status = mlx_sys::mlx_split_sections(
            &raw mut parts,
            source.as_ptr(),
            starts.as_ptr(),
            starts.len(),
            axis,
            stream.as_ptr(),
        );
        let result = if status == 0 { arrays_of("split", parts) } else { Err(refused("split")) };
        mlx_sys::mlx_vector_array_free(parts);
        result
    }
}

/// A copy of `source` with `source[start..stop]` replaced by `update`. When nothing else refers to `source`'s data at
/// evaluation, MLX writes in place.
pub(crate) fn slice_update(source: &Array, update: &Array, start: &[c_int], stop: &[c_int]) -> Result<Array> {
    let stream = Stream::thread_local_or_default();
    let steps = UNIT_STEPS.get(..start.len()).ok_or_else(|| refused("slice_update"))?;
    array_from("slice_update", |result| {
        // SAFETY: as in `slice`.
        unsafe {
            mlx_sys::mlx_slice_update(
                result,
                source.as_ptr(),
                update.as_ptr(),
                start.as_ptr(),
                start.len(),
                stop.as_ptr(),
                stop.len(),
                steps.as_ptr(),
                steps.len(),
                stream.as_ptr(),
            )
        }
    })
}

/// Calls `visit` with the name of each operation that `output` waits for.
pub(crate) fn visit_nodes(output: &Array, mut visit: &mut dyn FnMut(&str)) -> Result<()> {
    unsafe extern "C" fn call(name: *const c_char, context: *mut c_void) {
        // SAFETY: the context is the visitor below, which nothing else uses meanwhile; the name lives during the call.
        unsafe {
            let visit = &mut *context.cast::<&mut dyn FnMut(&str)>();
            visit(&CStr::from_ptr(name).to_string_lossy());
        }
    }
    // SAFETY: the array and the visitor outlive the call.
    match unsafe { mlx_sys::mlxcel_visit_nodes(output.as_ptr(), call, (&raw mut visit).cast()) } {
        0 => Ok(()),
        _ => Err(refused("visit_nodes")),
    }
}

/// The version text of the MLX library that is loaded, for example `0.32.2`.
pub(crate) fn library_version() -> Option<String> {
    // SAFETY: the string is created here, filled by MLX, copied while it lives and freed once.
    unsafe {
        let mut text = mlx_sys::mlx_string_new();
        let status = mlx_sys::mlx_version(&raw mut text);
        let data = mlx_sys::mlx_string_data(text);
        let version =
            (status == 0 && !data.is_null()).then(|| CStr::from_ptr(data).to_string_lossy().into_owned());
        mlx_sys::mlx_string_free(text);
        version
    }
}

/// The file that the loader took MLX from.
pub(crate) fn library_path() -> Option<PathBuf> {
    // SAFETY: the text is the loader's, lives as long as the library is loaded, and is copied at once.
    unsafe {
        let path = mlx_sys::mlxcel_library_path();
        (!path.is_null()).then(|| PathBuf::from(OsStr::from_bytes(CStr::from_ptr(path).to_bytes())))
    }
}

/// Whether MLX can run on an Apple GPU here.
pub(crate) fn metal_is_available() -> bool {
    let mut available = false;
    // SAFETY: writes one bool.
    unsafe { mlx_sys::mlx_metal_is_available(&raw mut available) == 0 && available }
}

/// Whether MLX can run on an NVIDIA GPU here.
pub(crate) fn cuda_is_available() -> bool {
    let mut available = false;
    // SAFETY: writes one bool.
    unsafe { mlx_sys::mlx_cuda_is_available(&raw mut available) == 0 && available }
}

/// Waits until everything submitted to the default stream has run.
pub(crate) fn synchronize() -> Result<()> {
    let stream = Stream::thread_local_or_default();
    // SAFETY: the stream outlives the call.
    match unsafe { mlx_sys::mlx_synchronize(stream.as_ptr()) } {
        0 => Ok(()),
        _ => Err(refused("synchronize")),
    }
}

const UNIT_STEPS: [c_int; 8] = [1; 8];

fn group_and_bits(spec: QuantizationSpec) -> (mlx_sys::mlx_optional_int, mlx_sys::mlx_optional_int) {
    let some = |value: u32| mlx_sys::mlx_optional_int {
        value: c_int::try_from(value).unwrap_or(0),
        has_value: true,
    };
    (some(spec.group_size), some(spec.bits))
}

fn mode_name(mode: QuantizationMode) -> &'static CStr {
    match mode {
        QuantizationMode::Affine => c"affine",
        QuantizationMode::Mxfp4 => c"mxfp4",
        QuantizationMode::Mxfp8 => c"mxfp8",
        QuantizationMode::Nvfp4 => c"nvfp4",
    }
}

fn handle_or_none(array: Option<&Array>) -> mlx_sys::mlx_array {
    // MLX's C interface takes a null handle for an array that is absent.
    array.map_or(mlx_sys::mlx_array { ctx: std::ptr::null_mut() }, Array::as_ptr)
}

fn array_from(operation: &str, call: impl FnOnce(*mut mlx_sys::mlx_array) -> c_int) -> Result<Array> {
    // SAFETY: a fresh handle, which MLX fills when it answers 0, and which `Array` frees in either case.
    unsafe {
        let mut handle = mlx_sys::mlx_array_new();
        let status = call(&raw mut handle);
        let array = Array::from_ptr(handle);
        if status == 0 { Ok(array) } else { Err(refused(operation)) }
    }
}

/// Handles of its own to the arrays of a vector.
///
/// # Safety
/// The vector lives.
pub(super) unsafe fn arrays_of(operation: &str, vector: mlx_sys::mlx_vector_array) -> Result<Vec<Array>> {
    // SAFETY: the indices lie below the vector's size, and each element is taken as a handle that `Array` then owns.
    unsafe {
        (0..mlx_sys::mlx_vector_array_size(vector))
            .map(|index| array_from(operation, |result| mlx_sys::mlx_vector_array_get(result, vector, index)))
            .collect()
    }
}

pub(super) fn refused(operation: &str) -> Exception {
    Exception::custom(format!("MLX refused the operation {operation}"))
}
