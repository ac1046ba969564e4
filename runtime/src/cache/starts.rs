//! The position that a forward pass starts at, as the arrays that MLX's rotary embedding takes: made once a pass, for all
//! of its layers.

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
        let positions: Vec<i32> = (0..turned).map(|_| self.start).chain((0..kept).map(|_| 0)).collect();
        let array = Array::from_slice(&positions, &[turned + kept]);
        made.push(([turned, kept], array.clone()));
        array
    }
}
