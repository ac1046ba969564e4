//! Computations of our own as nodes of MLX's graph.
#![expect(unsafe_code, reason = "calls MLX's C interface; each block says why it is sound")]

use crate::kernels::mlx::Result;
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, Stream};
use mlxcel_kernels::{self as kernels, Rows};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// Why a computation could not be done.
pub(super) type Fault = &'static CStr;

/// What a node computes.
pub(super) trait Computation {
    /// What it needs to know beside the arrays; at most 64 bytes.
    type Parameters: Copy + 'static;
    /// What is the same in every step, above all weights: kept as long as the node.
    type Context: Send + Sync + 'static;
    /// Its name in graphs and errors.
    const NAME: &'static CStr;

    /// Computes the outputs.
    ///
    /// # Safety
    /// The operands are what was given when the node was added: valid arrays of the shapes and data types that stand in
    /// them, the outputs writable, row after row, and used by nothing else meanwhile.
    unsafe fn compute(
        inputs: &[Operand],
        outputs: &[Operand],
        parameters: &Self::Parameters,
        context: &Self::Context,
    ) -> std::result::Result<(), Fault>;
}

/// An output of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Out<'a> {
    shape: &'a [c_int],
    dtype: Dtype,
    /// The input that it is, changed in part.
    changed: Option<c_int>,
}

impl<'a> Out<'a> {
    /// A new array.
    pub(super) fn new(shape: &'a [c_int], dtype: Dtype) -> Self {
        Self { shape, dtype, changed: None }
    }

    /// The input of this number, changed in its own memory: only what nobody who holds the array looks at may be changed.
    pub(super) fn changed(array: &'a Array, input: c_int) -> Self {
        Self { shape: array.shape(), dtype: array.dtype(), changed: Some(input) }
    }
}

/// Adds a node.
pub(super) fn add<C: Computation, const N: usize>(
    inputs: &[&Array],
    outputs: [Out<'_>; N],
    parameters: C::Parameters,
    context: &Arc<C::Context>,
) -> Result<[Array; N]> {
    let stream = Stream::thread_local_or_default();
    let handles: Vec<_> = inputs.iter().map(|input| input.as_ptr()).collect();
    let shapes: Vec<c_int> = outputs.iter().flat_map(|out| out.shape.iter().copied()).collect();
    let dimensions = outputs.map(|out| out.shape.len());
    let dtypes = outputs.map(|out| mlx_sys::mlx_dtype::from(out.dtype));
    let reused = outputs.map(|out| out.changed.unwrap_or(-1));
    let node = mlx_sys::mlxcel_node {
        name: C::NAME.as_ptr(),
        computation: entry::<C>,
        parameters: (&raw const parameters).cast(),
        parameters_size: size_of::<C::Parameters>(),
        context: Arc::into_raw(Arc::clone(context)).cast_mut().cast(),
        release: release::<C>,
    };
    // SAFETY: every list is passed with its length and outlives the call; the handles are fresh, filled by the call when
    // it answers 0, and freed by `Array` in either case; the name lives for ever; the parameters are plain and copied; the
    // context's count is given to the node, which releases it once.
    unsafe {
        let mut results = outputs.map(|_| mlx_sys::mlx_array_new());
        let status = mlx_sys::mlxcel_add_node(
            &raw const node,
            handles.as_ptr(),
            handles.len(),
            results.as_mut_ptr(),
            N,
            shapes.as_ptr(),
            dimensions.as_ptr(),
            dtypes.as_ptr(),
            reused.as_ptr(),
            stream.as_ptr(),
        );
        let arrays = results.map(|result| Array::from_ptr(result));
        if status == 0 {
            Ok(arrays)
        } else {
            Err(Exception::custom(format!("MLX refused the node {}", C::NAME.to_string_lossy())))
        }
    }
}

/// The context of computations that have none.
pub(super) fn no_context() -> &'static Arc<()> {
    static NONE: OnceLock<Arc<()>> = OnceLock::new();
    NONE.get_or_init(|| Arc::new(()))
}

/// What MLX calls when a node is gone.
unsafe extern "C" fn release<C: Computation>(context: *mut c_void) {
    // SAFETY: the count that `add` gave away.
    drop(unsafe { Arc::from_raw(context.cast_const().cast::<C::Context>()) });
}

/// What MLX calls.
unsafe extern "C" fn entry<C: Computation>(
    inputs: *const mlx_sys::mlxcel_operand,
    inputs_num: usize,
    outputs: *const mlx_sys::mlxcel_operand,
    outputs_num: usize,
    parameters: *const c_void,
    context: *const c_void,
) -> *const c_char {
    // SAFETY: `primitive.cpp` passes arrays of that many operands, which live during the call, a copy of the parameters
    // that `add` was given, aligned for 64-bit numbers, and the context, which the node keeps.
    let outcome = unsafe {
        let inputs = std::slice::from_raw_parts(inputs.cast::<Operand>(), inputs_num);
        let outputs = std::slice::from_raw_parts(outputs.cast::<Operand>(), outputs_num);
        let parameters = &*parameters.cast::<C::Parameters>();
        let context = &*context.cast::<C::Context>();
        catch_unwind(AssertUnwindSafe(|| C::compute(inputs, outputs, parameters, context)))
    };
    match outcome {
        Ok(Ok(())) => std::ptr::null(),
        Ok(Err(fault)) => fault.as_ptr(),
        Err(_) => c"the kernel panicked; this is a fault of the program".as_ptr(),
    }
}

/// An array that a computation reads or writes.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct Operand(mlx_sys::mlxcel_operand);

impl Operand {
    pub(super) fn data(&self) -> *mut u8 {
        self.0.data.cast()
    }

    pub(super) fn shape(&self) -> &[i32] {
        // SAFETY: the operand's arrays live as long as it is lent.
        unsafe { list(self.0.shape, self.0.dimensions) }
    }

    pub(super) fn strides(&self) -> &[i64] {
        // SAFETY: as above.
        unsafe { list(self.0.strides, self.0.dimensions) }
    }

    pub(super) fn dimension(&self, axis: usize) -> usize {
        self.shape().get(axis).map_or(1, |extent| usize::try_from(*extent).unwrap_or(0))
    }

    /// The data type, where kernels compute with it.
    pub(super) fn dtype(&self) -> std::result::Result<kernels::Dtype, Fault> {
        match self.0.dtype {
            mlx_sys::mlx_dtype__MLX_FLOAT32 => Ok(kernels::Dtype::F32),
            mlx_sys::mlx_dtype__MLX_FLOAT16 => Ok(kernels::Dtype::F16),
            mlx_sys::mlx_dtype__MLX_BFLOAT16 => Ok(kernels::Dtype::Bf16),
            _ => Err(c"an array is not float32, float16 or bfloat16"),
        }
    }

    /// The array as rows along its last axis.
    ///
    /// # Safety
    /// The rows are not used longer than the operand is lent.
    pub(super) unsafe fn rows(&self) -> std::result::Result<Rows, Fault> {
        let columns = self.shape().last().map_or(1, |columns| usize::try_from(*columns).unwrap_or(0));
        // SAFETY: the caller's promise.
        unsafe { self.rows_of(columns) }
    }

    /// The array as rows of `columns`, which divide its last axis.
    ///
    /// # Safety
    /// The rows are not used longer than the operand is lent.
    pub(super) unsafe fn rows_of(&self, columns: usize) -> std::result::Result<Rows, Fault> {
        let (Some((width, leading)), Some((last, strides))) =
            (self.shape().split_last(), self.strides().split_last())
        else {
            return Err(c"an array has no axes");
        };
        let width = usize::try_from(*width).unwrap_or(0);
        if width > 1 && *last != 1 {
            return Err(c"the rows of an array are not contiguous");
        }
        if columns == 0 || !width.is_multiple_of(columns) {
            return Err(c"the last axis of an array is no whole number of rows");
        }
        let mut axes: Vec<(usize, isize)> = leading
            .iter()
            .zip(strides)
            .map(|(extent, stride)| {
                (usize::try_from(*extent).unwrap_or(0), isize::try_from(*stride).unwrap_or(0))
            })
            .collect();
        axes.push((width / columns, columns.cast_signed()));
        // SAFETY: an array of MLX is good for reading at its shape and strides, and aligned for its data type.
        Ok(unsafe { Rows::new(self.dtype()?, self.data(), &axes, columns) })
    }
}

/// # Safety
/// `pointer` is good for `count` elements, or `count` is 0.
unsafe fn list<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, count) } }
}

/// The kernels' name of a data type.
pub(super) fn kernel_dtype(dtype: Dtype) -> Option<kernels::Dtype> {
    match dtype {
        Dtype::Float32 => Some(kernels::Dtype::F32),
        Dtype::Float16 => Some(kernels::Dtype::F16),
        Dtype::Bfloat16 => Some(kernels::Dtype::Bf16),
        _ => None,
    }
}
