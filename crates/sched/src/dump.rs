//! Capturing what tasks see and make, where the scheduler hands them over and takes them back.
//!
//! Whoever dispatches a task captures what the task reads, and whoever completes it captures what it wrote, before its
//! consumers are released: nobody writes those elements in between, so the copies are whole. Both lie outside the time of the
//! kernel. Of an argument that opted out of inference nobody knows who writes it; its shape is captured, its elements are not.

use crate::agent::Agent;
use crate::args::{ArgView, ArgWords};
use crate::execute::arg_words;
use crate::shape::ShapeWords;
use crate::signature::{Signature, element_bytes};
use crate::slot::Slot;
use crate::sync::Ordering;
use plimsoll_abi::record::{ArgDumpRecord, ArgMode};
use plimsoll_abi::{KernelId, MAX_DIMS, TaskId};
use plimsoll_platform::Platform;
use plimsoll_probe::{DumpRules, Lane};

impl<P: Platform, L: Lane> Agent<'_, P, L> {
    /// Captures the arguments of the task in `slot` that can be captured before it runs, or `after` it.
    #[cold]
    #[inline(never)]
    pub(crate) fn dump(&mut self, slot: &Slot, after: bool) {
        let (kernel, task) = (KernelId(slot.kernel()), TaskId::from_raw(slot.task.load(Ordering::Relaxed)));
        let Some(rules) = self.lane.dumps(task, kernel) else { return };
        let signature = &self.kernels[kernel.index()].signature;
        let mut words = match slot.is_ordinary() {
            true => ArgWords::new(arg_words(slot)),
            false => ArgWords::new(ShapeWords::of(slot).kernel_words()),
        };
        let mut record = ArgDumpRecord { task: task.raw(), time: self.ticks(), kernel: kernel.0, ..Default::default() };
        record.after = u8::from(after);
        while let Some(arg) = words.next_arg() {
            if is_captured(arg.mode, after) && (rules.level != DumpRules::MARKED || arg.marked) {
                describe(&mut record, &arg, signature, rules);
                dump_arg(&mut self.lane, &mut record, &arg);
            }
            record.index += 1;
        }
    }
}

/// Whether an argument is captured at a stage: what is read before, what is written after.
fn is_captured(mode: ArgMode, after: bool) -> bool {
    match mode {
        ArgMode::Input | ArgMode::Scalar => !after,
        ArgMode::Output | ArgMode::OutputExisting => after,
        ArgMode::Inout | ArgMode::NoDep => true,
    }
}

/// Says what is captured of an argument.
fn describe(record: &mut ArgDumpRecord, arg: &ArgView, signature: &Signature, rules: DumpRules) {
    let is_tensor = arg.mode != ArgMode::Scalar;
    record.value = arg.value;
    (record.mode, record.dtype, record.ndim) = (arg.mode as u8, arg.dtype as u8, arg.ndim);
    (record.shape, record.strides) = (arg.shape, arg.strides);
    record.elem_bytes = if is_tensor { element_bytes(arg.dtype, signature) } else { 0 };
    let wanted = is_tensor && arg.mode != ArgMode::NoDep && (rules.level != DumpRules::SHAPES || arg.marked);
    let elements = arg.shape.iter().map(|&extent| u64::from(extent)).product::<u64>();
    let all = elements * u64::from(record.elem_bytes);
    let most = rules.bytes / u64::from(record.elem_bytes.max(1)) * u64::from(record.elem_bytes);
    record.bytes = if wanted { all.min(most) } else { 0 };
    record.truncated = u8::from(wanted && record.bytes < all);
}

/// Writes an argument in as many records as it takes.
fn dump_arg(lane: &mut impl Lane, record: &mut ArgDumpRecord, arg: &ArgView) {
    (record.at, record.len) = (0, 0);
    let mut left = record.bytes;
    for (address, bytes) in runs(arg, u64::from(record.elem_bytes)) {
        let mut run = (address, bytes.min(left));
        left -= run.1;
        while run.1 > 0 {
            let used = record.len as usize;
            let part = (ArgDumpRecord::ROOM - used).min(run.1 as usize);
            let room = &mut bytemuck::cast_slice_mut::<[u64; 23], u8>(&mut record.data)[used..used + part];
            // SAFETY: the bytes are those of elements of the task's argument, which exist until the task has been reclaimed;
            // no task writes them now (see above).
            unsafe { std::ptr::copy_nonoverlapping(run.0 as *const u8, room.as_mut_ptr(), part) };
            record.len += part as u32;
            run = (run.0 + part as u64, run.1 - part as u64);
            if record.len as usize == ArgDumpRecord::ROOM {
                send(lane, record);
            }
        }
        if left == 0 {
            break;
        }
    }
    if record.len > 0 || record.bytes == 0 {
        send(lane, record);
    }
}

fn send(lane: &mut impl Lane, record: &mut ArgDumpRecord) {
    let used = record.len as usize;
    bytemuck::cast_slice_mut::<[u64; 23], u8>(&mut record.data)[used..].fill(0);
    lane.arg_dump(record);
    record.at += u64::from(record.len);
    record.len = 0;
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

    /// Of any view, the stretches are the elements one by one in row-major order.
    #[test]
    fn stretches_are_all_elements_in_order() {
        let whole = Layout::dense(&[3, 4, 5]).expect("small");
        let views = [
            whole,
            whole.transpose(),
            whole.slice(1, 1, 2).expect("fits"),
            whole.slice(2, 1, 3).expect("fits"),
            whole.permute(&[1, 0, 2]).expect("a permutation").slice(0, 1, 3).expect("fits"),
            whole.tile([1, 1, 0], [1, 2, 5]).expect("fits"),
            Layout::dense(&[]).expect("small"),
        ];
        for view in views {
            let mut arg = ArgView {
                value: 4 * view.offset(),
                mode: ArgMode::Input,
                dtype: plimsoll_abi::Dtype::F32,
                marked: false,
                ndim: view.ndim() as u8,
                shape: *view.padded_shape(),
                strides: [0; MAX_DIMS],
            };
            arg.strides[..view.ndim()].copy_from_slice(view.strides());
            let seen: Vec<u64> =
                runs(&arg, 4).flat_map(|(at, len)| (at..at + len).step_by(4)).map(|at| at / 4).collect();
            let mut expected = vec![view.offset() as i64];
            for d in 0..view.ndim() {
                let (extent, stride) = (i64::from(view.padded_shape()[d]), i64::from(view.strides()[d]));
                expected = expected.iter().flat_map(|at| (0..extent).map(move |i| at + i * stride)).collect();
            }
            assert_eq!(seen, expected.iter().map(|&at| at as u64).collect::<Vec<_>>(), "{view:?}");
        }
    }
}
