//! The whole system under seeds and faults: random programs on random devices in virtual time, and checkers.
//!
//! A seed decides everything: the program, the device, its rings, what goes wrong and in which order things happen.
//! The runtime under test is the real one; what it should have done is worked out apart from it, by running the program
//! serially ([`oracle`]) and by keeping the books of the rings serially ([`model`]). What a run leaves behind is
//! checked record by record ([`records`]).

#![expect(clippy::missing_errors_doc, reason = "an error here is the text of a test that fails")]

pub mod fuzz;
pub mod hangs;
pub mod model;
pub mod oracle;
pub mod play;
pub mod program;
pub mod records;
pub mod scenario;
pub mod shapes;
pub mod simulate;
pub mod speed;

pub use simulate::{SimulationTally, simulate};
