//! Views of tensors: cut without copying, at any time.

use crate::entry::{given, given_mut, several};
use crate::types::{CTensor, MAX_DIMS};
use plimsoll::{Result, untyped};

/// Cuts a view and hands it over.
unsafe fn cut(
    tensor: *const CTensor,
    out: *mut CTensor,
    cut: impl FnOnce(&untyped::Tensor) -> Result<untyped::Tensor>,
) -> Result<()> {
    // SAFETY: by what the header asks of the caller. They may be the same, so one is copied.
    let own = *unsafe { given(tensor, "tensor") }?;
    // SAFETY: as above.
    let out = unsafe { given_mut(out, "place for the view") }?;
    *out = CTensor::new(cut(own.get()?)?);
    Ok(())
}

/// # Safety
/// As the header says; so for all below.
pub(crate) unsafe fn slice(
    tensor: *const CTensor,
    dim: usize,
    begin: usize,
    end: usize,
    out: *mut CTensor,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { cut(tensor, out, |tensor| tensor.slice(dim, begin..end)) }
}

pub(crate) unsafe fn tile(
    tensor: *const CTensor,
    index: *const usize,
    extents: *const usize,
    ndim: usize,
    out: *mut CTensor,
) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    let (index, extents) = unsafe { (several(index, ndim, "index")?, several(extents, ndim, "extents")?) };
    // SAFETY: as above.
    unsafe { cut(tensor, out, |tensor| tensor.tile(index, extents)) }
}

pub(crate) unsafe fn reshape(
    tensor: *const CTensor,
    shape: *const usize,
    ndim: usize,
    out: *mut CTensor,
) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    let shape = unsafe { several(shape, ndim, "shape") }?;
    // SAFETY: as above.
    unsafe { cut(tensor, out, |tensor| tensor.reshape(shape)) }
}

pub(crate) unsafe fn permute(
    tensor: *const CTensor,
    order: *const usize,
    ndim: usize,
    out: *mut CTensor,
) -> Result<()> {
    // SAFETY: by what the header asks of the caller.
    let order = unsafe { several(order, ndim, "order") }?;
    // SAFETY: as above.
    unsafe { cut(tensor, out, |tensor| tensor.permute(order)) }
}

pub(crate) unsafe fn transpose(tensor: *const CTensor, out: *mut CTensor) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { cut(tensor, out, |tensor| Ok(tensor.transpose())) }
}

/// Writes the extents and gives how many there are; 0 of what is no tensor.
pub(crate) unsafe fn shape(tensor: *const CTensor, out: *mut usize) -> u32 {
    // SAFETY: by what the header asks of the caller.
    let Some(Ok(tensor)) = (unsafe { tensor.as_ref() }).map(CTensor::get) else { return 0 };
    let extents = tensor.shape();
    if !out.is_null() {
        // SAFETY: the header asks for room for the most dimensions.
        let room = unsafe { std::slice::from_raw_parts_mut(out, MAX_DIMS) };
        room.iter_mut().zip(extents).for_each(|(place, extent)| *place = *extent as usize);
    }
    extents.len() as u32
}
