//! Task shapes: tasks in blocks, mixed tasks, blocks that start together, tasks that an element switches off, dummies.
//!
//! A kernel of such a task is registered with [`Device::block_kernel`](crate::Device::block_kernel). What it writes it declares as
//! [`OutTile`] or [`InOutTile`], rows of the argument that are the block's own, or as [`PartOut`] or [`PartInOut`], which one part of a
//! mixed task writes; so blocks and parts that run at the same time never write the same elements.
//!
//! ```
//! use plimsoll::shape::{Block, OutTile, PartOut, PipeError, TaskShape};
//! use plimsoll::{CoreClass, Device, In, input, output};
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! let square = device.block_kernel("square", |_: Block, x: In<f32>, mut y: OutTile<f32>| {
//!     (0..y.len()).for_each(|i| y[[i]] = x[[y.first_row() + i]].powi(2));
//! });
//! // Two parts of one task: values go through a pipe from part 0, on a matrix core, to part 1, on a vector core.
//! let send = device.block_kernel_on(CoreClass::Aic, "send", |b: Block, x: In<f32>, _: PartOut<f32, 1>| {
//!     x.row(0).iter().try_for_each(|&x| b.push(1, x))
//! });
//! let add = device.block_kernel_on(CoreClass::Aiv, "add", |b: Block, x: In<f32>, mut sum: PartOut<f32, 1>| {
//!     let Some(sum) = sum.own() else { return Ok::<_, PipeError>(()) };
//!     for _ in 0..x.len() {
//!         sum[[0]] += b.pop::<f32>(0)?;
//!     }
//!     Ok(())
//! });
//! let sum = device.run(|o| {
//!     let x = o.own(vec![1.0, 2.0, 3.0, 4.0], [4])?;
//!     let (.., y) = o.submit_shaped(&TaskShape::blocks(2), &square, (input(&x), output([4])))?;
//!     let (.., sum) = o.submit_shaped(&TaskShape::default(), &[send, add], (input(&y), output([1])))?;
//!     o.read(&sum)
//! })?;
//! assert_eq!(sum, [30.0]);
//! assert_eq!(device.report().tasks, 2);
//! # Ok(())
//! # }
//! ```

pub use plimsoll_runtime::{
    Block, BlockKernel, BlockParam, BlockParams, BlockRoom, InOutTile, IntoBlockKernel, OutTile, PartInOut, PartOut,
    PipeError, ShapeLimits, ShapedKernel, TaskShape,
};
