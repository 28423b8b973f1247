//! Host buffers: owned by a run, shared between runs, or borrowed for one.

use crate::element::Element;
use crate::error::{Error, Result};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A buffer that outlives runs. One run, or one caller of [`SharedBuffer::with`], has it at a time.
pub struct SharedBuffer<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    taken: AtomicBool,
    data: UnsafeCell<Box<[T]>>,
}

// SAFETY: the data is only reached by whoever holds `taken`.
unsafe impl<T: Send> Sync for Inner<T> {}

impl<T> Clone for SharedBuffer<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T> std::fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedBuffer")
    }
}

impl<T: Element> SharedBuffer<T> {
    /// A buffer with this content.
    pub fn new(data: Vec<T>) -> Self {
        Self { inner: Arc::new(Inner { taken: AtomicBool::new(false), data: UnsafeCell::new(data.into()) }) }
    }

    /// Looks at the content and may change it. An error while a run uses the buffer.
    pub fn with<R>(&self, look: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let lease = self.lease()?;
        // SAFETY: the lease keeps everybody else out until it is dropped.
        let out = look(unsafe { &mut *self.inner.data.get() });
        drop(lease);
        Ok(out)
    }

    /// A copy of the content. An error while a run uses the buffer.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.with(|data| data.to_vec())
    }

    /// Keeps everybody else out until it is dropped.
    pub(crate) fn lease(&self) -> Result<Lease<T>> {
        // Acquire pairs(shared.taken): the Release in the drop of the previous lease.
        if self.inner.taken.swap(true, Ordering::Acquire) {
            return Err(Error::invalid(
                "The shared buffer is in use. Another run or caller has it. Wait for that one to end.",
            ));
        }
        Ok(Lease { inner: Arc::clone(&self.inner) })
    }
}

/// The right to use a shared buffer.
pub(crate) struct Lease<T> {
    inner: Arc<Inner<T>>,
}

impl<T> Lease<T> {
    /// Address and length of the data.
    pub(crate) fn data(&mut self) -> (*mut T, usize) {
        // SAFETY: the lease keeps everybody else out.
        let data = unsafe { &mut *self.inner.data.get() };
        (data.as_mut_ptr(), data.len())
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        // Release pairs(shared.taken).
        self.inner.taken.store(false, Ordering::Release);
    }
}
