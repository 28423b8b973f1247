//! Capturing what tasks see and make, where the scheduler hands them over and takes them back.
//!
//! Whoever dispatches a task captures what the task reads, and whoever completes it captures what it wrote, before its
//! consumers are released: nobody writes those elements in between, so the copies are whole. Both lie outside the time of the
//! kernel, and are recorded as waiting for the recorder. Of an argument that opted out of inference users promise only that nobody
//! writes it while its task runs: its shape is captured, its elements are not.

use crate::agent::Agent;
use crate::args::{ArgView, ArgWords};
use crate::execute::arg_words;
use crate::shape::ShapeWords;
use crate::signature::{Signature, element_bytes};
use crate::slot::Slot;
use crate::sync::Ordering;
use plimsoll_abi::record::{ArgDumpHead, ArgDumpRecord, ArgMode, Truncation};
use plimsoll_abi::{Flags, KernelId, MAX_DIMS, TaskId};
use plimsoll_platform::Platform;
use plimsoll_probe::{DumpRules, Lane};

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// Captures the arguments of the task in `slot` that can be captured before it runs, or `after` it.
    #[cold]
    #[inline(never)]
    pub(crate) fn dump(&mut self, slot: &Slot, after: bool) {
        let (kernel, task) = (KernelId(slot.kernel()), TaskId::from_raw(slot.task.load(Ordering::Relaxed)));
        let Some(rules) = self.lane.dumps(task, kernel) else { return };
        let start = self.lane.stamp_for(Flags::SCHED_PHASES);
        self.dump_args(slot, task, kernel, rules, after);
        self.lane.captured(start);
    }

    fn dump_args(&mut self, slot: &Slot, task: TaskId, kernel: KernelId, rules: DumpRules, after: bool) {
        let mut head = ArgDumpHead { task: task.raw(), time: self.ticks(), kernel: kernel.0, ..Default::default() };
        (head.after, head.blocks) = (u8::from(after), 1);
        let mut words = ArgWords::new(arg_words(slot));
        if !slot.is_ordinary() {
            let shape = ShapeWords::of(slot);
            // A dummy sees nothing, nor does a task whose predicate said no.
            if shape.executes_nothing() {
                return;
            }
            head.blocks = shape.blocks();
            for part in 1..shape.parts() {
                head.parts[part - 1] = shape.part_kernel(part) + 1;
            }
            words = ArgWords::new(shape.kernel_words());
        }
        let signature = &self.kernels[kernel.index()].signature;
        while let Some(arg) = words.next_arg() {
            if is_captured(arg.mode, after) && !arg.is_note() && (rules.level != DumpRules::MARKED || arg.marked) {
                describe(&mut head, &arg, signature, rules);
                dump_arg(&head, &arg, |line| self.lane.arg_dump(line));
            }
            head.index += 1;
        }
    }
}

/// Whether an argument is captured at a stage: what is read before, what is written after.
fn is_captured(mode: ArgMode, after: bool) -> bool {
    if after { mode.may_write() } else { mode.may_read() }
}

/// Says what is captured of an argument.
fn describe(head: &mut ArgDumpHead, arg: &ArgView, signature: &Signature, rules: DumpRules) {
    let is_tensor = arg.mode != ArgMode::Scalar;
    head.value = arg.value;
    (head.mode, head.dtype, head.ndim) = (arg.mode as u8, arg.dtype as u8, arg.ndim);
    (head.shape, head.strides) = (arg.shape, arg.strides);
    head.elem_bytes = if is_tensor { element_bytes(arg.dtype, signature) } else { 0 };
    let elements = arg.shape.iter().map(|&extent| u64::from(extent)).product::<u64>();
    let is_wanted = is_tensor && elements > 0 && (rules.level != DumpRules::SHAPES || arg.marked);
    let all = elements * u64::from(head.elem_bytes);
    let most = rules.bytes / u64::from(head.elem_bytes.max(1)) * u64::from(head.elem_bytes);
    let (bytes, truncation) = match () {
        () if !is_wanted => (0, None),
        () if !arg.mode.is_inferred() => (0, Some(Truncation::NoDep)),
        () if head.elem_bytes == 0 => (0, Some(Truncation::ElementSize)),
        () if most < all => (most, Some(Truncation::Limit)),
        () => (all, None),
    };
    (head.bytes, head.truncated) = (bytes, truncation.map_or(0, |why| why as u8));
}

/// Writes an argument in as many lines as it takes.
fn dump_arg(head: &ArgDumpHead, arg: &ArgView, mut send: impl FnMut(&ArgDumpRecord)) {
    let mut line = ArgDumpRecord::opening(head);
    let (mut used, mut left) = (0, head.bytes);
    for (address, bytes) in runs(arg, u64::from(head.elem_bytes)) {
        let mut run = (address, bytes.min(left));
        left -= run.1;
        while run.1 > 0 {
            let room = line.room_mut();
            if used == room.len() {
                send(&line);
                (line.line, used) = (line.line + 1, 0);
                continue;
            }
            let part = (room.len() - used).min(run.1 as usize);
            // SAFETY: the bytes are those of elements of the task's argument, which exist until the task has been reclaimed;
            // no task writes them now (see above).
            unsafe { std::ptr::copy_nonoverlapping(run.0 as *const u8, room[used..used + part].as_mut_ptr(), part) };
            used += part;
            run = (run.0 + part as u64, run.1 - part as u64);
        }
        if left == 0 {
            break;
        }
    }
    line.room_mut()[used..].fill(0);
    send(&line);
}

/// The elements of a tensor in row-major order, as addresses and lengths of stretches without a gap.
pub(crate) fn runs(arg: &ArgView, elem_bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
    let ndim = usize::from(arg.ndim).min(MAX_DIMS);
    let (shape, strides, first) = (arg.shape, arg.strides, arg.value);
    // Dimensions from here on lie without a gap.
    let (mut outer, mut dense) = (ndim, 1u64);
    while outer > 0 && (shape[outer - 1] == 1 || i64::from(strides[outer - 1]) == dense as i64) {
        outer -= 1;
        dense *= u64::from(shape[outer]);
    }
    let count: u64 = shape[..outer].iter().map(|&extent| u64::from(extent)).product();
    let mut index = [0u32; MAX_DIMS];
    (0..if dense == 0 { 0 } else { count }).map(move |_| {
        let step: i64 = (0..outer).map(|d| i64::from(index[d]) * i64::from(strides[d])).sum();
        for dim in (0..outer).rev() {
            index[dim] += 1;
            if index[dim] < shape[dim] {
                break;
            }
            index[dim] = 0;
        }
        (first.wrapping_add_signed(step * elem_bytes as i64), dense * elem_bytes)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use plimsoll_graph::Layout;
    use proptest::prelude::*;

    /// An argument as kernels are given it.
    fn argument(view: &Layout, first: u64, elem_bytes: u64) -> ArgView {
        let mut arg = ArgView {
            value: first + elem_bytes * view.offset(),
            mode: ArgMode::Input,
            dtype: plimsoll_abi::Dtype::I16,
            marked: false,
            ndim: view.ndim() as u8,
            shape: *view.padded_shape(),
            strides: [0; MAX_DIMS],
        };
        arg.strides[..view.ndim()].copy_from_slice(view.strides());
        arg
    }

    /// The places of a view's elements one by one, in row-major order.
    fn places(view: &Layout) -> Vec<u64> {
        let mut places = vec![view.offset() as i64];
        for (&extent, &stride) in view.shape().iter().zip(view.strides()) {
            let step = |at: i64| (0..i64::from(extent)).map(move |i| at + i * i64::from(stride));
            places = places.into_iter().flat_map(step).collect();
        }
        places.into_iter().map(|at| at as u64).collect()
    }

    #[test]
    fn a_tensor_without_dimensions_is_one_element() {
        let view = Layout::dense(&[]).expect("small");
        assert_eq!(runs(&argument(&view, 96, 4), 4).collect::<Vec<_>>(), [(96, 4)]);
    }

    /// One cut of a view, by numbers that are taken modulo what there is.
    fn cut(view: Layout, (kind, dim, start, len): (u8, usize, usize, usize)) -> Layout {
        let ndim = view.ndim();
        let dim = dim % ndim;
        match kind {
            0 => view.transpose(),
            1 => view.permute(&(0..ndim).map(|d| (d + dim) % ndim).collect::<Vec<_>>()).expect("a permutation"),
            _ => {
                let extent = view.shape()[dim] as usize;
                let start = start % extent;
                view.slice(dim, start, start + 1 + len % (extent - start)).expect("inside")
            }
        }
    }

    proptest! {
        /// The lines of any view of a buffer hold its elements one by one in row-major order, as many as were asked for.
        #[test]
        fn lines_hold_the_elements_of_any_view(
            shape in prop::collection::vec(1..9usize, 1..=MAX_DIMS),
            cuts in prop::collection::vec((0..5u8, 0..8usize, 0..8usize, 0..8usize), 0..6),
            kept in 0..=100u64,
        ) {
            let view = cuts.into_iter().fold(Layout::dense(&shape).expect("small"), cut);
            let elements: Vec<u16> = (0..shape.iter().product::<usize>()).map(|at| (at * 7) as u16).collect();
            let arg = argument(&view, elements.as_ptr() as u64, 2);
            let bytes = view.len() * kept / 100 * 2;
            let head = ArgDumpHead { bytes, elem_bytes: 2, ..ArgDumpHead::default() };
            let (mut held, mut lines) = (Vec::new(), 0);
            dump_arg(&head, &arg, |line| {
                assert_eq!((line.line, line.head()), (lines, (lines == 0).then_some(head)));
                held.extend_from_slice(line.room());
                lines += 1;
            });
            let padding = held.split_off(bytes as usize);
            prop_assert!(padding.len() < 248 && padding.iter().all(|byte| *byte == 0));
            let expected = places(&view).into_iter().take(bytes as usize / 2).map(|at| elements[at as usize]);
            prop_assert_eq!(held, expected.flat_map(u16::to_ne_bytes).collect::<Vec<_>>());
        }
    }
}
