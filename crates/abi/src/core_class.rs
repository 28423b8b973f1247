//! What kernels a core runs, and what core a kernel wants.

/// A class of cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum CoreClass {
    /// A core that runs any kernel, such as a worker of a CPU run; a kernel that any core runs.
    #[default]
    Any = 0,
    /// A matrix core.
    Aic = 1,
    /// A vector core.
    Aiv = 2,
}

impl CoreClass {
    /// All classes, by number.
    pub const ALL: [CoreClass; 3] = [CoreClass::Any, CoreClass::Aic, CoreClass::Aiv];

    /// As files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            CoreClass::Any => "any",
            CoreClass::Aic => "aic",
            CoreClass::Aiv => "aiv",
        }
    }

    /// From the spelling of any file, the reference's too. An unknown class is [`Any`](CoreClass::Any).
    pub fn from_name(name: &str) -> Self {
        match name {
            "aic" | "AIC" => CoreClass::Aic,
            "aiv" | "AIV" => CoreClass::Aiv,
            _ => CoreClass::Any,
        }
    }
}
