//! Built-in programs. Each computes something real and checks it against an independent golden result.

mod program;
mod settings;

pub use program::{Instance, Program, Verdict};
pub use settings::{Param, Settings, SettingsError};
