//! The position that a forward pass starts at, as the arrays that MLX's rotary embedding takes: made once a pass, for all
//! of its layers.

use crate::kernels::mlx::Result;
use mlx_rs::Array;
use std::cell::RefCell;

/// The arrays made so far.
#[derive(Debug)]
pub(crate) struct Starts {
    start: i32,
    /// By the numbers of heads that are turned and that are not.
    made: RefCell<Vec<([i32; 2], Array)>>,
}

impl Starts {
    pub(crate) fn at(start: i32) -> Self {
        Self { start, made: RefCell::new(Vec::new()) }
    }

    /// One position a head: the pass's for the first `turned` heads, and 0, where nothing is turned, for `kept` more.
    pub(crate) fn of_heads(&self, turned: i32, kept: i32) -> Array {
        let mut made = self.made.borrow_mut();
        if let Some((_, array)) = made.iter().find(|(heads, _)| *heads == [turned, kept]) {
            return array.clone();
        }
        let array = LAST.with_borrow_mut(|last| match last {
            Some(last) if last.heads == [turned, kept] && last.start.checked_add(1) == Some(self.start) => {
                last.advanced()
            }
            _ => {
                let first = Last::new(self.start, turned, kept);
                let array = first.array.clone();
                *last = Some(first);
                Ok(array)
            }
        });
        // Without room for an addition there is none for anything else; whoever computes with the array will say so.
        let array = array.unwrap_or_else(|_| Last::new(self.start, turned, kept).array);
        made.push(([turned, kept], array.clone()));
        array
    }
}

/// The positions of a decode step, from which the next step's come by an addition on MLX's device. Made by the processor,
/// they would need memory that it can write, which on CUDA is asked of the driver again and again and takes longer than
/// building the rest of the step.
#[derive(Debug)]
struct Last {
    start: i32,
    heads: [i32; 2],
    array: Array,
    /// What is added: 1 for heads that are turned, 0 for the others.
    step: Array,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

impl Last {
    fn new(start: i32, turned: i32, kept: i32) -> Self {
        let of_heads = |position: i32| {
            let positions: Vec<i32> = (0..turned).map(|_| position).chain((0..kept).map(|_| 0)).collect();
            Array::from_slice(&positions, &[turned + kept])
        };
        Self { start, heads: [turned, kept], array: of_heads(start), step: of_heads(1) }
    }

    /// The positions one further on, which are kept in place of these.
    fn advanced(&mut self) -> Result<Array> {
        self.array = self.array.add(&self.step)?;
        self.start += 1;
        Ok(self.array.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(start: i32, turned: i32, kept: i32) -> Vec<i32> {
        let array = Starts::at(start).of_heads(turned, kept);
        array.eval().expect("OK because the graph is small");
        array.as_slice::<i32>().to_vec()
    }

    #[test]
    fn positions_are_those_of_the_pass_whatever_passes_were_before() {
        for start in [7, 8, 9, 4, 5, 5, 6, 0, 1] {
            assert_eq!(numbers(start, 3, 2), [start, start, start, 0, 0]);
        }
        assert_eq!(numbers(2, 1, 1), [2, 0]);
        assert_eq!(numbers(3, 2, 1), [3, 3, 0]);
        let once = Starts::at(4);
        let (first, second) = (once.of_heads(2, 1), once.of_heads(2, 1));
        assert_eq!(first.as_slice::<i32>(), second.as_slice::<i32>());
        assert_eq!(numbers(5, 2, 1), [5, 5, 0]);
    }
}
