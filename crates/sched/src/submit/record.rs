//! What the orchestrator records: scopes and submits, stored as they are.

use super::rings::RingHeads;
use super::{Submitter, TaskArg, TensorCore};
use crate::args::described_dtype;
use crate::policy::rooms::class_of;
use crate::site::Site;
use plimsoll_abi::record::{ArgMode, ScopePhase, SubmitRecord, SubmitTag};
use plimsoll_abi::{Heads, KernelId, SiteId, TaskId};
use plimsoll_graph::Tensormap;
use plimsoll_platform::Platform;
use plimsoll_probe::{Lane, ScopeEvent};

impl<P: Platform, L: Lane> Submitter<'_, P, L> {
    /// Records that the innermost scope begins or ends. The use of the rings of `changed` has changed since the last sample.
    #[inline(never)]
    pub(super) fn record_scope(&mut self, phase: ScopePhase, changed: u8) {
        if self.frozen.is_some() {
            return self.record_frozen_scope(phase, changed);
        }
        self.record_scope_at(&self.books.rings[self.innermost.ring()].heads(), phase, changed);
    }

    /// Out of line, so that the counters of a run that has not failed are read where they are.
    #[cold]
    #[inline(never)]
    fn record_frozen_scope(&mut self, phase: ScopePhase, changed: u8) {
        self.record_scope_at(&self.heads(self.innermost.ring()), phase, changed);
    }

    #[inline]
    fn record_scope_at(&mut self, heads: &RingHeads, phase: ScopePhase, changed: u8) {
        let Some(scope) = self.scopes.last() else { return };
        let site = site_number(&mut self.sites, scope.site, &mut self.agent.lane);
        self.agent.lane.scope(&ScopeEvent {
            phase,
            site,
            depth: u16::try_from(self.scopes.len() - 1).unwrap_or(u16::MAX),
            scope: scope.number,
            fatal: self.shared.stopped(),
            heads: Heads { window: heads.window.1, heap: heads.heap.1, dep_pool: heads.deps.1 },
            used: &self.innermost.gauge.used,
            // A sample has the use of the scope's own ring.
            changed: changed & !(1 << self.innermost.ring()),
            peaks: self.innermost.gauge.reclaimed_in(scope).then_some(&scope.peaks.usage),
            peak_fanin: scope.peaks.fan_in,
        });
    }

    #[inline(never)]
    pub(super) fn record_buffer(&mut self, core: &TensorCore) {
        let id = self.books.map.number(core.buffer);
        let mut record = tensor_record(core, id, SubmitTag::Buffer, 0, core.elem_bytes);
        record.offset = self.agent.platform.buffer_address(self.host_buffers, core.base);
        self.agent.lane.submit_record(&record);
    }

    #[inline(never)]
    pub(super) fn record_submit(&mut self, task: TaskId, kernel: KernelId, args: &[TaskArg<'_>]) {
        let kernels = self.shape.recorded(kernel, class_of(self.kernels, kernel.0));
        let manual = self.scope().manual;
        let (map, lane) = (&self.books.map, &mut self.agent.lane);
        submit_records(map, task, kernels, manual, args, &self.after, |record| lane.submit_record(record));
    }
}

/// The number of a site, remembered by its address.
#[inline]
pub(super) fn site_number(known: &mut [(usize, SiteId); 64], site: Site, lane: &mut impl Lane) -> SiteId {
    let address = site.to_word() as usize;
    let place = &mut known[(address / 8) % 64];
    if place.0 != address {
        learn_site(place, site, lane);
    }
    place.1
}

#[cold]
#[inline(never)]
fn learn_site(place: &mut (usize, SiteId), site: Site, lane: &mut impl Lane) {
    *place = (site.to_word() as usize, lane.site(site.file(), site.line()));
}

/// A submit as dep_gen records it: a `Task`, its tensor arguments, its explicit dependencies.
pub fn submit_records(
    map: &Tensormap,
    task: TaskId,
    [aic, aiv, second_aiv, blocks]: [u32; 4],
    manual: bool,
    args: &[TaskArg<'_>],
    deps: &[TaskId],
    mut each: impl FnMut(&SubmitRecord),
) {
    let tensors = args.iter().filter(|arg| !matches!(arg, TaskArg::Scalar { .. })).count() as u32;
    each(&SubmitRecord {
        tag: SubmitTag::Task as u8,
        mode: u8::from(manual),
        ndim: tensors as u8,
        aux: deps.len() as u32,
        id: task.raw(),
        shape: [aic, aiv, second_aiv, blocks, tensors],
        ..SubmitRecord::default()
    });
    for (index, arg) in args.iter().enumerate() {
        let (core, mode) = match arg {
            TaskArg::Tensor { core, mode } => (**core, *mode),
            TaskArg::Output { request } => {
                // Records do not hold the size of elements, so none is given.
                let layout = request.buffer_shape.layout();
                (TensorCore::whole(request.place, layout, described_dtype(request.word), 0), ArgMode::Output)
            }
            TaskArg::Scalar { .. } => continue,
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
