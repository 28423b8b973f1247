//! What a kernel takes, as data: what submits are checked against that no compiler has checked.

use plimsoll_abi::Dtype;
use plimsoll_abi::record::ArgMode;

/// What a tensor's elements are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub struct ElementSpec {
    /// Its size.
    pub bytes: u32,
    /// The alignment of its address.
    pub align: u32,
    /// The type that records show; [`Dtype::User`] for any that is not among the ten.
    pub dtype: Dtype,
}

impl ElementSpec {
    /// The largest element.
    pub const MOST_BYTES: u32 = 1 << 20;
    /// The largest alignment: heaps give no more.
    pub const MOST_ALIGN: u32 = 64;

    /// One of the ten dtypes. [`Dtype::User`] says no size, and counts as bytes.
    pub const fn of(dtype: Dtype) -> Self {
        let bytes = match dtype {
            Dtype::F64 | Dtype::I64 => 8,
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::F16 | Dtype::Bf16 | Dtype::I16 => 2,
            Dtype::I8 | Dtype::U8 | Dtype::Bool | Dtype::User => 1,
        };
        Self { dtype, bytes, align: bytes }
    }

    /// Any other plain-old-data type of this size and alignment.
    pub const fn opaque(bytes: u32, align: u32) -> Self {
        Self { dtype: Dtype::User, bytes, align }
    }

    /// Whether it is the same as `other`, in the two comparisons that submits have time for: size and alignment lie side by side.
    #[inline]
    pub fn is(&self, other: &Self) -> bool {
        let size = |one: &Self| u64::from(one.bytes) | u64::from(one.align) << 32;
        size(self) == size(other) && self.dtype == other.dtype
    }

    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<String> {
        let Self { bytes, align, .. } = *self;
        if bytes == 0 || bytes > Self::MOST_BYTES {
            return Some(format!(
                "An element cannot have {bytes} bytes. It has at least 1 and at most {}",
                Self::MOST_BYTES
            ));
        }
        let whole = align.is_power_of_two() && align <= Self::MOST_ALIGN && bytes.is_multiple_of(align);
        (!whole).then(|| {
            format!(
                "An element of {bytes} bytes cannot be aligned to {align}. That is a power of two up to {} which divides the size",
                Self::MOST_ALIGN
            )
        })
    }
}

impl std::fmt::Display for ElementSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.dtype {
            Dtype::User => write!(f, "elements of {} bytes", self.bytes),
            dtype => write!(f, "{dtype}"),
        }
    }
}

/// What a kernel does with a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Reads a tensor.
    Read,
    /// Writes a tensor.
    Write,
    /// Reads and writes a tensor.
    ReadWrite,
    /// Reads several tensors: as many as the task has, which stand behind their number.
    ReadList,
    /// Takes a plain value.
    Value,
}

impl Access {
    /// How inference takes a task's use of what exists already, if its kernel does this with it. What a task makes has the mode
    /// [`Output`](ArgMode::Output), and what opted out of inference that of
    /// [`untracked_mode`](Self::untracked_mode).
    #[inline]
    pub const fn mode(self) -> ArgMode {
        match self {
            Access::Read | Access::ReadList => ArgMode::Input,
            Access::Write => ArgMode::OutputExisting,
            Access::ReadWrite => ArgMode::Inout,
            Access::Value => ArgMode::Scalar,
        }
    }

    /// The mode of a use of what exists already that opted out of inference.
    #[inline]
    pub const fn untracked_mode(self) -> ArgMode {
        if matches!(self, Access::ReadWrite) { ArgMode::NoDepInout } else { ArgMode::NoDep }
    }

    /// What a kernel does with a tensor that it reads, writes or both.
    pub const fn of_tensor(reads: bool, writes: bool) -> Self {
        match (reads, writes) {
            (_, false) => Access::Read,
            (false, true) => Access::Write,
            (true, true) => Access::ReadWrite,
        }
    }
}

/// A parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Param {
    /// What it is for.
    pub access: Access,
    /// What its elements are, or what the value is.
    pub element: ElementSpec,
    /// Who of the blocks of a task is given what of it.
    pub share: Share,
}

/// What every block of a task is given of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Share {
    /// Every block is given the whole parameter.
    #[default]
    All,
    /// A block is given rows of its own, along the first dimension: as many as every other block.
    RowsOfBlock,
    /// A block is given rows of its own, and of the parts of a mixed task only the one with this number is given them.
    RowsOfPart(u8),
}

impl Share {
    /// Whether rows are divided among blocks.
    pub fn is_divided(self) -> bool {
        self != Share::All
    }
}

impl Param {
    /// A tensor that the kernel reads.
    pub const fn read(element: ElementSpec) -> Self {
        Self { access: Access::Read, element, share: Share::All }
    }

    /// A tensor that the kernel writes.
    pub const fn write(element: ElementSpec) -> Self {
        Self { access: Access::Write, element, share: Share::All }
    }

    /// A tensor that the kernel reads and writes.
    pub const fn read_write(element: ElementSpec) -> Self {
        Self { access: Access::ReadWrite, element, share: Share::All }
    }

    /// Several tensors that the kernel reads.
    pub const fn read_list(element: ElementSpec) -> Self {
        Self { access: Access::ReadList, element, share: Share::All }
    }

    /// A plain value of this dtype.
    pub const fn value(dtype: Dtype) -> Self {
        Self { access: Access::Value, element: ElementSpec::of(dtype), share: Share::All }
    }

    /// Every block of a task is given rows of its own of it.
    #[must_use]
    pub const fn by_rows(mut self) -> Self {
        self.share = Share::RowsOfBlock;
        self
    }

    /// Whether a tensor, or a value, of this element and mode can be this parameter.
    pub fn takes(&self, access: Access, element: &ElementSpec) -> bool {
        self.access == access && self.element.dtype == element.dtype && self.element.bytes == element.bytes
    }
}

impl std::fmt::Display for Param {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.access {
            Access::Read => "a tensor to read",
            Access::Write => "a tensor to write",
            Access::ReadWrite => "a tensor to read and write",
            Access::ReadList => "a list of tensors to read",
            Access::Value => return write!(f, "a value of {}", self.element),
        };
        write!(f, "{what} of {}", self.element)
    }
}

/// What a kernel takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signature {
    /// Any arguments: the kernel checks them itself.
    Any,
    /// One argument for each of these parameters.
    Exactly(Box<[Param]>),
}

/// The size of an element. The words of an argument do not have it for types of the user's, but the kernel says what it takes.
pub(crate) fn element_bytes(dtype: Dtype, signature: &Signature) -> u32 {
    if dtype != Dtype::User {
        return ElementSpec::of(dtype).bytes;
    }
    let Signature::Exactly(params) = signature else { return 0 };
    let mut sizes = params.iter().map(|param| param.element).filter(|element| element.dtype == Dtype::User);
    let first = sizes.next().map_or(0, |element| element.bytes);
    // If it takes several that differ, which of them this one is cannot be told apart.
    if sizes.all(|element| element.bytes == first) { first } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_has_one_mode_and_that_is_read_and_written_as_it_says() {
        for (reads, writes) in [(true, false), (false, true), (true, true)] {
            let mode = Access::of_tensor(reads, writes).mode();
            assert_eq!((mode.may_read(), mode.may_write(), mode.writes()), (reads, writes, writes), "{mode:?}");
            assert!(mode.is_inferred() && mode != ArgMode::Output, "{mode:?}");
        }
        assert_eq!([Access::ReadList, Access::Value].map(Access::mode), [ArgMode::Input, ArgMode::Scalar]);
    }
}
