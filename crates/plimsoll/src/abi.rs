//! What both sides of the recorder see: ids, flags, error codes, element types, and the layouts of records.
//!
//! ```
//! use plimsoll::abi::{Dtype, ErrorCode, Flags, TaskId};
//!
//! // A task is known by its ring and its number there.
//! let task = TaskId::new(1, 30);
//! assert_eq!(task.to_string(), "r1t30");
//! assert_eq!(TaskId::from_raw(task.raw()), task);
//!
//! let recorded = Flags::CORE_TIMING.with(Flags::SCOPE_STATS);
//! assert!(recorded.has(Flags::SCOPE_STATS) && !recorded.has(Flags::DEP_GEN));
//!
//! assert_eq!(ErrorCode::from_number(111), Some(ErrorCode::DeviceLost));
//! assert_eq!(Dtype::F32.name(), "f32");
//! ```

#[doc(inline)]
pub use plimsoll_runtime::abi::*;
