//! A pointer that may be handed to the pool's threads.

/// A pointer to memory that several threads use, each its own part, or all of them only reading.
#[derive(Debug)]
pub(crate) struct Shared<T>(*mut T);

impl<T> Shared<T> {
    pub(crate) const fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The pointer. A method, so that closures take the whole `Shared` along.
    pub(crate) const fn pointer(self) -> *mut T {
        self.0
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

// SAFETY: using the pointer is unsafe, and whoever does so answers for the parts not overlapping.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}
