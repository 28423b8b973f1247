//! Tensors: what they are made of, where they live, and views of them.
//!
//! A tensor is made by a task ([`output`](crate::kernel::output)) or entered by an orchestration: owned, [shared](SharedBuffer)
//! between runs, or borrowed. Views are cut with [`Tensor::slice`], [`tile`](Tensor::tile), [`reshape`](Tensor::reshape),
//! [`permute`](Tensor::permute) and [`transpose`](Tensor::transpose), and never copy.
//!
//! ```
//! use plimsoll::tensor::SharedBuffer;
//! use plimsoll::{Device, InOut, inout};
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! let one = device.kernel("one", |mut x: InOut<i32>| x.fill(1));
//! let matrix = SharedBuffer::new(vec![0; 12]);
//! device.run(|o| {
//!     let m = o.share(&matrix, [3, 4])?;
//!     let column = m.transpose().slice(0, 1..2)?;
//!     o.submit(&one, (inout(&column),)).map(drop)
//! })?;
//! assert_eq!(matrix.to_vec()?, [0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0]);
//! # Ok(())
//! # }
//! ```

pub use plimsoll_runtime::abi::Dtype;
pub use plimsoll_runtime::{Bool, Element, SharedBuffer, Tensor, bf16, bytemuck, f16};
