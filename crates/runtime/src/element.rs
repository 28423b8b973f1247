//! The types that tensors are made of.

use half::{bf16, f16};
use plimsoll_abi::Dtype;
use plimsoll_sched::signature::ElementSpec;

/// An element of a tensor: one of the ten dtypes, or a plain-old-data type of the user's.
///
/// That a type is plain data, without padding and with no invalid pattern of bytes, is proven by the derives of [`bytemuck`]
/// and not believed:
///
/// ```
/// use plimsoll_runtime::{Device, Element, InOut, bytemuck, inout};
///
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Point {
///     x: f32,
///     y: f32,
/// }
/// impl Element for Point {}
///
/// # fn main() -> plimsoll_runtime::Result<()> {
/// let mut device = Device::builder().workers(1).open()?;
/// let mirror = device.kernel("mirror", |mut p: InOut<Point>| p[[0]].x *= -1.0);
/// let mirrored = device.run(|o| {
///     let points = o.own(vec![Point { x: 1.0, y: 2.0 }], [1])?;
///     o.submit(&mirror, (inout(&points),))?;
///     o.read(&points)
/// })?;
/// assert_eq!(mirrored, [Point { x: -1.0, y: 2.0 }]);
/// # Ok(())
/// # }
/// ```
///
/// A type with padding is refused:
///
/// ```compile_fail,E0512
/// use plimsoll_runtime::bytemuck;
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Padded {
///     tag: u8,
///     value: u32,
/// }
/// ```
///
/// So is one that some bytes are no value of:
///
/// ```compile_fail,E0277
/// use plimsoll_runtime::bytemuck;
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(C)]
/// struct Flag(bool);
/// ```
///
/// And so is an element that is no plain data, or one that only says so:
///
/// ```compile_fail,E0277
/// struct Text(String);
/// impl plimsoll_runtime::Element for Text {}
/// ```
///
/// ```compile_fail,E0080
/// use plimsoll_runtime::abi::Dtype;
/// use plimsoll_runtime::{Device, Element, bytemuck};
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// #[repr(transparent)]
/// struct Small(u8);
/// impl Element for Small {
///     const DTYPE: Dtype = Dtype::F64; // whoever reads records would read eight bytes
/// }
/// Device::builder().open().unwrap().run(|o| o.own(vec![Small(0)], [1]).map(drop)).unwrap();
/// ```
pub trait Element: bytemuck::Pod + Send + Sync {
    /// The dtype that records show. One of another size or alignment than the type's own is refused by the compiler.
    const DTYPE: Dtype = Dtype::User;
}

/// Refuses, while the program is compiled, elements that heaps and argument words are not made for.
pub(crate) const fn check_element<T: Element>() {
    assert!(align_of::<T>() <= 64, "an element's alignment is at most 64");
    assert!(size_of::<T>() > 0, "an element has at least one byte");
    assert!(size_of::<T>() <= 1 << 20, "an element has at most a mebibyte");
    let (size, align) = match T::DTYPE {
        Dtype::F64 => (size_of::<f64>(), align_of::<f64>()),
        Dtype::I64 => (size_of::<i64>(), align_of::<i64>()),
        Dtype::F32 | Dtype::I32 => (4, 4),
        Dtype::F16 | Dtype::Bf16 | Dtype::I16 => (2, 2),
        Dtype::I8 | Dtype::U8 | Dtype::Bool => (1, 1),
        Dtype::User => (size_of::<T>(), align_of::<T>()),
    };
    assert!(size_of::<T>() == size && align_of::<T>() == align, "an element's dtype has its size and alignment");
}

/// What tensors of `T` are made of, as data.
pub(crate) const fn element_spec<T: Element>() -> ElementSpec {
    check_element::<T>();
    ElementSpec { dtype: T::DTYPE, bytes: size_of::<T>() as u32, align: align_of::<T>() as u32 }
}

/// A truth value, byte-backed, so that any byte is a valid one: all but zero are true.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    /// The value as a `bool`.
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
            impl Element for $ty {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*
    };
}

elements! {
    f64 => F64, f32 => F32, f16 => F16, bf16 => Bf16,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8, u8 => U8, Bool => Bool,
}
