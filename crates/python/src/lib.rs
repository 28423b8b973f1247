//! Plimsoll for Python: the extension module `plimsoll._native` behind the package `plimsoll`.
//!
//! It stands on the untyped tier, and on what the C library has of kernels by address and settings as texts. Python code runs
//! in two places only: in the orchestration, on the thread that called `Device.run`, and in Python kernels, on workers that
//! hold the GIL while such a kernel runs. It never runs on a coroutine's stack ([`relay`]).

mod arguments;
mod array;
mod arrow;
mod block;
mod command;
mod context;
mod device;
mod element;
mod error;
mod fork;
mod gil;
mod kernel;
mod lease;
mod memory;
mod native;
mod orchestrator;
mod program;
mod relay;
mod run;
mod signals;
mod tensor;

use plimsoll::record::CounterGroup;
use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::count_forks();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("_COUNTER_GROUPS", CounterGroup::ALL.map(CounterGroup::name))?;
    module.add_class::<device::PyDevice>()?;
    module.add_class::<kernel::PyKernel>()?;
    module.add_class::<orchestrator::PyOrchestrator>()?;
    module.add_class::<orchestrator::PyScope>()?;
    module.add_class::<orchestrator::PyTask>()?;
    module.add_class::<tensor::PyTensor>()?;
    module.add_class::<device::PyGraph>()?;
    module.add_function(wrap_pyfunction!(device::_close_all, module)?)?;
    module.add_function(wrap_pyfunction!(command::_command, module)?)?;
    module.add_function(wrap_pyfunction!(native::_bare_call, module)?)?;
    module.add_function(wrap_pyfunction!(block::block, module)?)?;
    // Where people find it, which is also where its example is tested.
    module.getattr("block")?.setattr("__module__", "plimsoll")?;
    module.add_class::<block::PyBlock>()?;
    module.add_class::<program::PyRunCommand>()?;
    module.add_function(wrap_pyfunction!(arrow::_table, module)?)?;
    module.add_class::<arrow::PyTable>()?;
    arguments::register(module)
}
