//! The tier below the typed one: kernels by id, arguments as descriptors, scopes opened and closed by calls.
//!
//! It is what other languages stand on, and whoever decides at run time what a program is. Everything that the typed tier
//! has the compiler check is checked when it is called, with the same errors: what a kernel takes, what a tensor is made of,
//! whose run and which scope it belongs to. A refused call fails the run, as there.
//!
//! ```
//! use plimsoll::untyped::{Arg, ElementSpec, Param, Task};
//! use plimsoll::abi::Dtype;
//! use plimsoll::{CoreClass, Device, RunOptions};
//!
//! # fn main() -> plimsoll::Result<()> {
//! let mut device = Device::builder().workers(2).open()?;
//! const F32: ElementSpec = ElementSpec::of(Dtype::F32);
//! // SAFETY: the body reads its first argument, writes its second, and stays inside both.
//! let double = unsafe {
//!     device.kernel_untyped(CoreClass::Any, "double", Some(&[Param::read(F32), Param::write(F32)]), |call| {
//!         let [from, to] = [call.arg(0), call.arg(1)].map(|arg| arg.expect("two are declared"));
//!         for i in 0..from.len() {
//!             // SAFETY: both are dense, and `i` is below the number of elements of each.
//!             unsafe { *to.data().cast::<f32>().add(i) = *from.data().cast::<f32>().add(i) * 2.0 };
//!         }
//!         Ok(())
//!     })
//! }?;
//! let mut out = [0u8; 16];
//! device.run_untyped(&RunOptions::default(), |o| {
//!     let x = o.own(bytes_of(&[1.0, 2.0, 3.0, 4.0]), F32, &[4])?;
//!     o.open_scope()?;
//!     let mut made = Vec::new();
//!     o.submit(&Task::new(double, &[Arg::input(&x), Arg::output(F32, &[4])]), &mut made)?;
//!     o.read(&made[0], &mut out)?;
//!     o.close_scope()
//! })?;
//! assert_eq!(out[..], bytes_of(&[2.0, 4.0, 6.0, 8.0]));
//! # Ok(())
//! # }
//! # fn bytes_of(values: &[f32]) -> Vec<u8> {
//! #     values.iter().flat_map(|value| value.to_ne_bytes()).collect()
//! # }
//! ```

#[doc(inline)]
pub use plimsoll_runtime::untyped::*;
