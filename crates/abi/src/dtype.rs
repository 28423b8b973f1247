//! Element types of tensors.

use core::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Dtype {
    /// A plain-old-data type of the user's.
    #[default]
    User = 0,
    /// 64-bit float.
    F64 = 1,
    /// 32-bit float.
    F32 = 2,
    /// IEEE half precision, byte-backed.
    F16 = 3,
    /// bfloat16, byte-backed.
    Bf16 = 4,
    /// 64-bit integer.
    I64 = 5,
    /// 32-bit integer.
    I32 = 6,
    /// 16-bit integer.
    I16 = 7,
    /// 8-bit integer.
    I8 = 8,
    /// 8-bit unsigned integer.
    U8 = 9,
    /// Truth value, byte-backed: any byte but zero is true.
    Bool = 10,
}

impl Dtype {
    /// All types, in the order of their numbers.
    pub const ALL: [Dtype; 11] = [
        Dtype::User,
        Dtype::F64,
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::I64,
        Dtype::I32,
        Dtype::I16,
        Dtype::I8,
        Dtype::U8,
        Dtype::Bool,
    ];

    /// The type with this number.
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::User => "user",
            Dtype::F64 => "f64",
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::I64 => "i64",
            Dtype::I32 => "i32",
            Dtype::I16 => "i16",
            Dtype::I8 => "i8",
            Dtype::U8 => "u8",
            Dtype::Bool => "bool",
        }
    }

    /// As the reference system's files write it.
    pub const fn reference_name(self) -> &'static str {
        match self {
            Dtype::User => "USER",
            Dtype::F64 => "FLOAT64",
            Dtype::F32 => "FLOAT32",
            Dtype::F16 => "FLOAT16",
            Dtype::Bf16 => "BFLOAT16",
            Dtype::I64 => "INT64",
            Dtype::I32 => "INT32",
            Dtype::I16 => "INT16",
            Dtype::I8 => "INT8",
            Dtype::U8 => "UINT8",
            Dtype::Bool => "BOOL",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
