//! Regions, typed views, and the protocols that both sides speak over them: both halves of each in one file.

pub mod world;

pub use world::World;
