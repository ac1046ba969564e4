//! Chains of element-wise operations as one node, by MLX's own compilation of functions (`mlx_compile`).
//!
//! `mlx-rs` has it for closures that the caller keeps, one value a thread and a function; here a plain function is its own
//! key, so that a layer needs to keep nothing.
#![expect(unsafe_code, reason = "calls MLX's C interface; each block says why it is sound")]

use super::mlx::{Result, arrays_of, refused};
use mlx_rs::Array;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::fmt;

/// A function of arrays that MLX can trace: it looks at nothing but their types and shapes.
pub(crate) type Function = fn(&[Array]) -> Result<Array>;

/// `function(inputs)` as few nodes as MLX can make of it, whatever the shapes. Compiled when a thread first meets it; MLX
/// generates code when a result is first needed, on a CPU with the system's C++ compiler.
pub(crate) fn call(function: Function, inputs: &[&Array]) -> Result<Array> {
    COMPILED.with_borrow_mut(|known| {
        let found = known.iter().position(|(one, _)| std::ptr::fn_addr_eq(*one, function));
        let index = if let Some(index) = found {
            index
        } else {
            known.push((function, Compiled::new(function)?));
            known.len() - 1
        };
        known.get(index).ok_or_else(|| refused("compile"))?.1.apply(inputs)
    })
}

thread_local! {
    /// MLX keeps what it compiled a thread as well.
    static COMPILED: RefCell<Vec<(Function, Compiled)>> = const { RefCell::new(Vec::new()) };
}

/// A closure of MLX's.
struct Compiled(mlx_sys::mlx_closure);

impl Compiled {
    fn new(function: Function) -> Result<Self> {
        // SAFETY: the payload is a function pointer, which lives as long as the program and is not freed; both closures are
        // freed once, the plain one here (the compiled one holds what it needs of it), the other when it is dropped.
        unsafe {
            let payload = function as *mut c_void;
            let plain = mlx_sys::mlx_closure_new_func_payload(Some(trace), payload, None);
            let mut compiled = Self(mlx_sys::mlx_closure_new());
            let status = mlx_sys::mlx_compile(&raw mut compiled.0, plain, true);
            mlx_sys::mlx_closure_free(plain);
            if status == 0 { Ok(compiled) } else { Err(refused("compile")) }
        }
    }

    fn apply(&self, inputs: &[&Array]) -> Result<Array> {
        let handles: Vec<_> = inputs.iter().map(|input| input.as_ptr()).collect();
        // SAFETY: the handles outlive the call, which copies them; both vectors are freed once.
        unsafe {
            let given = mlx_sys::mlx_vector_array_new_data(handles.as_ptr(), handles.len());
            let mut results = mlx_sys::mlx_vector_array_new();
            let status = mlx_sys::mlx_closure_apply(&raw mut results, self.0, given);
            let result = if status == 0 {
                arrays_of("compiled function", results)
            } else {
                Err(refused("compiled function"))
            };
            mlx_sys::mlx_vector_array_free(given);
            mlx_sys::mlx_vector_array_free(results);
            result?.pop().ok_or_else(|| refused("compiled function"))
        }
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed nowhere else.
        unsafe {
            mlx_sys::mlx_closure_free(self.0);
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Compiled")
    }
}

/// What MLX calls to trace a function: 0, or 1 where the function refused its inputs.
unsafe extern "C" fn trace(
    results: *mut mlx_sys::mlx_vector_array,
    inputs: mlx_sys::mlx_vector_array,
    payload: *mut c_void,
) -> c_int {
    // SAFETY: `Compiled::new` passed a `Function` as the payload; MLX's vectors live until this returns, and setting the
    // results, an empty handle so far, copies the array's.
    unsafe {
        let function = std::mem::transmute::<*mut c_void, Function>(payload);
        let Ok(result) = arrays_of("compile", inputs).and_then(|inputs| function(&inputs)) else { return 1 };
        mlx_sys::mlx_vector_array_set_value(results, result.as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squared_sum(inputs: &[Array]) -> Result<Array> {
        match inputs {
            [x, y] => x.add(y)?.square(),
            _ => Err(refused("squared_sum")),
        }
    }

    fn numbers(array: &Array) -> Vec<f32> {
        array.eval().map(|()| array.as_slice::<f32>().to_vec()).unwrap_or_default()
    }

    #[test]
    fn a_compiled_function_gives_what_the_plain_one_gives_for_every_shape() {
        for length in [1_i16, 5, 300] {
            let values: Vec<f32> = (0..length).map(|index| f32::from(index) / 8.0 - 2.0).collect();
            let x = Array::from_slice(&values, &[1, i32::from(length)]);
            let y = Array::from_slice(&values, &[i32::from(length)]);
            let compiled = call(squared_sum, &[&x, &y]).expect("OK because the shapes agree");
            let plain = squared_sum(&[x, y]).expect("OK because the shapes agree");
            assert_eq!(numbers(&compiled), numbers(&plain));
            assert_eq!(numbers(&compiled).len(), values.len());
        }
    }

    #[test]
    fn every_call_is_a_node_and_several_results_of_one_operation_are_one() {
        let x = Array::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[4]);
        let halves =
            super::super::mlx::split(&x.negative().expect("OK because floats have negatives"), &[2], 0);
        let halves = halves.expect("OK because 2 lies within 4");
        let [first, second] = halves.as_slice() else { panic!("two halves") };
        let once = call(squared_sum, &[first, second]).expect("OK because the shapes agree");
        let twice = call(squared_sum, &[&once, second]).expect("OK because the shapes agree");
        let mut names = Vec::new();
        super::super::mlx::visit_nodes(&twice, &mut |name| names.push(name.to_owned()))
            .expect("OK because the graph is small");
        names.sort();
        let count = |start: &str| names.iter().filter(|name| name.starts_with(start)).count();
        assert_eq!((count("Compiled"), count("Split"), count("Negative")), (2, 1, 1), "{names:?}");
    }

    #[test]
    fn a_function_that_refuses_its_inputs_is_an_error() {
        let x = Array::from_f32(1.0);
        assert!(call(squared_sum, &[&x]).is_err());
    }
}
