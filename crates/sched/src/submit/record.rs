//! What the orchestrator records: scopes and submits, stored as they are.

use super::{Arg, Submitter, TensorCore};
use plimsoll_abi::record::{ArgMode, ScopePhase, SubmitRecord, SubmitTag};
use plimsoll_abi::{Heads, KernelId, SiteId, TaskId, Usage};
use plimsoll_graph::Tensormap;
use plimsoll_platform::{CoreClass, Platform};
use plimsoll_probe::{Lane, ScopeSample};

impl<P: Platform, L: Lane> Submitter<'_, P, L> {
    /// Records that the innermost scope begins or ends while `used` is in use.
    #[inline(never)]
    pub(super) fn record_scope(&mut self, phase: ScopePhase, used: &Usage) {
        let site = self.site_number();
        let depth = self.depth() as u16;
        let heads = self.heads(self.scope().ring as usize);
        let fatal = self.shared.stopped();
        let Some(scope) = self.scopes.last() else { return };
        self.agent.lane.scope_sample(&ScopeSample {
            phase,
            site,
            depth,
            scope: scope.number,
            fatal,
            heads: Heads { window: heads.window.1, heap: heads.heap.1, dep_pool: heads.deps.1 },
            used,
            peaks: &scope.peaks.usage,
            peak_fanin: scope.peaks.fan_in,
        });
    }

    /// The number of the innermost scope's site, remembered by its address.
    fn site_number(&mut self) -> SiteId {
        let site = self.scope().site;
        let address = std::ptr::from_ref(site) as usize;
        let place = (address / 8) % self.sites.len();
        if self.sites[place].0 != address {
            self.sites[place] = (address, self.agent.lane.site(site.file(), site.line()));
        }
        self.sites[place].1
    }

    #[inline(never)]
    pub(super) fn record_buffer(&mut self, core: &TensorCore) {
        let id = self.books.map.number(core.buffer);
        let mut record = tensor_record(core, id, SubmitTag::Buffer, 0, core.elem_bytes);
        record.offset = self.agent.platform.buffer_address(self.host_buffers, core.base);
        self.agent.lane.submit_record(&record);
    }

    #[inline(never)]
    pub(super) fn record_submit(&mut self, task: TaskId, kernel: KernelId, args: &[Arg<'_>], deps: &[TaskId]) {
        let matrix = self.kernels[kernel.index()].class == CoreClass::Aic;
        let manual = self.scope().manual;
        let (map, lane) = (&self.books.map, &mut self.agent.lane);
        submit_records(map, task, kernel, matrix, manual, args, deps, |record| lane.submit_record(record));
    }
}

/// A submit as dep_gen records it: a `Task`, its tensor arguments, its explicit dependencies.
#[allow(clippy::too_many_arguments)]
pub fn submit_records(
    map: &Tensormap,
    task: TaskId,
    kernel: KernelId,
    matrix: bool,
    manual: bool,
    args: &[Arg<'_>],
    deps: &[TaskId],
    mut each: impl FnMut(&SubmitRecord),
) {
    let tensors = args.iter().filter(|arg| !matches!(arg, Arg::Scalar { .. })).count() as u32;
    // A task of any class is shown in the first vector slot, as the reference shows tasks of one core.
    let (aic, aiv) = if matrix { (kernel.0 + 1, 0) } else { (0, kernel.0 + 1) };
    each(&SubmitRecord {
        tag: SubmitTag::Task as u8,
        mode: u8::from(manual),
        ndim: tensors as u8,
        aux: deps.len() as u32,
        id: task.raw(),
        shape: [aic, aiv, 0, 1, tensors],
        ..SubmitRecord::default()
    });
    for (index, arg) in args.iter().enumerate() {
        let (core, mode) = match arg {
            Arg::Tensor { core, mode } => (**core, *mode),
            Arg::Output { wanted, made } => (TensorCore::whole(made, wanted), ArgMode::Output),
            Arg::Scalar { .. } => continue,
        };
        each(&tensor_record(&core, map.number(core.buffer), SubmitTag::Arg, mode as u8, index as u32));
    }
    for dep in deps {
        each(&SubmitRecord { tag: SubmitTag::Dep as u8, id: dep.raw(), ..SubmitRecord::default() });
    }
}

fn tensor_record(core: &TensorCore, id: u64, tag: SubmitTag, mode: u8, aux: u32) -> SubmitRecord {
    SubmitRecord {
        tag: tag as u8,
        mode,
        dtype: core.dtype() as u8,
        ndim: core.layout.ndim() as u8,
        aux,
        id,
        offset: core.layout.offset(),
        shape: *core.layout.padded_shape(),
        strides: *core.layout.padded_strides(),
    }
}
