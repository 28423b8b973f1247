//! Regions and boards in real memory. One program, because each is linked with all that is below it; what limits its process has one
//! of its own beside it.

mod board;
mod region;
