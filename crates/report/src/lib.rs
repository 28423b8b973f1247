//! One file per output form.
//!
//! [`perfetto`] and [`chrome`] draw the same picture, [`picture`], with two pens; [`simpler`] writes the reference's
//! files; `parquet` writes tables for SQL engines; [`text`] prints tables. All write to any [`Write`](std::io::Write) as they go: a million tasks need no more
//! memory than the trace itself.
#![forbid(unsafe_code)]

pub mod chrome;
mod error;
pub mod page;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod perfetto;
pub mod picture;
pub mod plain;
pub mod simpler;
mod sources;
pub mod text;
mod whole;

pub use error::Error;
pub use picture::{Drawn, Flows};
pub use sources::spare_sources;
pub use whole::write_whole;
