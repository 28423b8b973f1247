//! Host buffers: owned by a run, shared between runs, or borrowed for one.

use crate::element::Element;
use crate::error::{Error, Result};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A buffer that outlives runs. One run, or one caller of [`SharedBuffer::with`], has it at a time.
pub struct SharedBuffer<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    /// Tells it from every other buffer of this process, those that are gone included.
    number: u64,
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
        static BUFFERS: AtomicU64 = AtomicU64::new(1);
        let number = BUFFERS.fetch_add(1, Ordering::Relaxed);
        Self { inner: Arc::new(Inner { number, taken: AtomicBool::new(false), data: UnsafeCell::new(data.into()) }) }
    }

    /// Looks at the content and may change it. An error while a run uses the buffer.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if a run, or another caller, has the buffer.
    pub fn with<R>(&self, look: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        let lease = self.lease()?;
        // SAFETY: the lease keeps everybody else out until it is dropped.
        let out = look(unsafe { &mut *self.inner.data.get() });
        drop(lease);
        Ok(out)
    }

    /// A copy of the content. An error while a run uses the buffer.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.with(|data| data.to_vec())
    }

    /// Keeps everybody else out until it is dropped.
    pub(crate) fn lease(&self) -> Result<Lease<T>> {
        // Acquire pairs(shared.taken): the Release in the drop of the previous lease.
        if self.inner.taken.swap(true, Ordering::Acquire) {
            return Err(in_use());
        }
        Ok(Lease { inner: Arc::clone(&self.inner), held: true })
    }

    /// Tells it from every other buffer.
    pub(crate) fn number(&self) -> u64 {
        self.inner.number
    }

    /// Where the data is, and how many elements there are. Neither changes.
    pub(crate) fn extent(&self) -> (u64, u64) {
        // SAFETY: only the box itself is read, which is never replaced; not its elements.
        let data = unsafe { &*self.inner.data.get() };
        (data.as_ptr() as u64, data.len() as u64)
    }
}

/// The right to use a shared buffer.
pub(crate) struct Lease<T> {
    inner: Arc<Inner<T>>,
    /// Whether it keeps others out now: between the launches of a prebuilt graph it does not.
    held: bool,
}

/// A lease of any element type, which can be given up for a while.
pub(crate) struct AnyLease(Box<dyn Suspend>);

impl AnyLease {
    pub(crate) fn new<T: Element>(lease: Lease<T>) -> Self {
        Self(Box::new(lease))
    }

    /// The number of the buffer.
    pub(crate) fn number(&self) -> u64 {
        self.0.number()
    }

    /// Lets others have the buffer.
    pub(crate) fn suspend(&mut self) {
        self.0.suspend();
    }

    /// Takes the buffer again. An error while somebody else has it.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.0.resume()
    }
}

trait Suspend {
    fn number(&self) -> u64;
    fn suspend(&mut self);
    fn resume(&mut self) -> Result<()>;
}

impl<T: Element> Suspend for Lease<T> {
    fn number(&self) -> u64 {
        self.inner.number
    }

    fn suspend(&mut self) {
        Lease::suspend(self);
    }

    fn resume(&mut self) -> Result<()> {
        if !self.held {
            // Acquire pairs(shared.taken): what the holder before wrote.
            if self.inner.taken.swap(true, Ordering::Acquire) {
                return Err(in_use());
            }
            self.held = true;
        }
        Ok(())
    }
}

fn in_use() -> Error {
    Error::invalid("The shared buffer is in use. Another run or caller has it. Wait for that one to end.")
}

impl<T> Lease<T> {
    /// Address and length of the data.
    pub(crate) fn data(&mut self) -> (*mut T, usize) {
        // SAFETY: the lease keeps everybody else out.
        let data = unsafe { &mut *self.inner.data.get() };
        (data.as_mut_ptr(), data.len())
    }

    /// Lets others have the buffer.
    pub(crate) fn suspend(&mut self) {
        if std::mem::take(&mut self.held) {
            // Release pairs(shared.taken).
            self.inner.taken.store(false, Ordering::Release);
        }
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        self.suspend();
    }
}
