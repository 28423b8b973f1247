//! The types that tensors are made of.

use half::{bf16, f16};
use plimsoll_abi::Dtype;
use plimsoll_sched::signature::ElementSpec;

/// A plain-old-data type of the user's: may be an element of a tensor.
///
/// # Safety
/// Every pattern of bytes must be a valid value, the type must have no padding, and its alignment must be at most 64.
pub unsafe trait Pod: Copy + Send + Sync + 'static {
    /// The dtype that records show.
    const DTYPE: Dtype = Dtype::User;
}

/// An element of a tensor: one of the ten dtypes, or a [`Pod`] of the user's.
pub trait Element: Pod {}

impl<T: Pod> Element for T {}

/// Refuses, while the program is compiled, elements that heaps and argument words are not made for.
pub(crate) const fn check_element<T: Element>() {
    assert!(align_of::<T>() <= 64, "an element's alignment is at most 64");
    assert!(size_of::<T>() > 0, "an element has at least one byte");
    assert!(size_of::<T>() <= 1 << 20, "an element has at most a mebibyte");
}

/// What tensors of `T` are made of, as data.
pub(crate) const fn element_spec<T: Element>() -> ElementSpec {
    ElementSpec { dtype: T::DTYPE, bytes: size_of::<T>() as u32, align: align_of::<T>() as u32 }
}

/// A truth value, byte-backed, so that any byte is a valid one: all but zero are true.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// As the language has it.
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

impl std::fmt::Debug for Bool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),* $(,)?) => {
        $(
            // SAFETY: a number, or a transparent wrapper of one: no padding, no invalid pattern.
            unsafe impl Pod for $ty {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*
    };
}

elements! {
    f64 => F64, f32 => F32, f16 => F16, bf16 => Bf16,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8, u8 => U8, Bool => Bool,
}
