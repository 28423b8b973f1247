//! Captured tensors as `.npy` files, which NumPy reads.

use anyhow::Context;
use plimsoll::abi::TaskId;
use plimsoll::report;
use plimsoll::trace::{ArgStage, ArgsDump, DumpedArg, ElementForm};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

/// Writes each captured tensor to a file of its own.
pub(super) fn write_all(dump: &ArgsDump, args: &[&DumpedArg], folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("Cannot create {}", folder.display()))?;
    let (mut written, mut left) = (0, 0);
    // The reference gives one number to arguments that it cannot tell apart: from the second on, they are counted.
    let mut seen: HashMap<(u32, TaskId, u32, ArgStage), u32> = HashMap::new();
    for arg in args.iter().filter(|arg| !arg.is_scalar) {
        let times = seen.entry((arg.round, arg.task, arg.index, arg.stage)).or_default();
        *times += 1;
        let again = if *times > 1 { format!("_{times}") } else { String::new() };
        let whole = dump.bytes(arg)?.filter(|bytes| is_whole(arg, bytes));
        let Some(bytes) = whole else {
            left += 1;
            continue;
        };
        let round = if arg.round > 0 { format!("round{}_", arg.round) } else { String::new() };
        let name = format!("{round}{}_arg{}_{}{again}.npy", arg.task, arg.index, arg.stage.name());
        let path = folder.join(name);
        report::write_whole(&path, |out| out.write_all(&npy(arg, &bytes)))?;
        written += 1;
    }
    eprintln!("plimsoll: {written} tensors written to {}", folder.display());
    if left > 0 {
        eprintln!("plimsoll: {left} tensors were left out: their elements were not captured as a whole.");
    }
    Ok(())
}

/// Whether these bytes are all elements of an argument, as far as anybody knows the size of one.
fn is_whole(arg: &DumpedArg, bytes: &[u8]) -> bool {
    let size = |form: ElementForm| arg.len().saturating_mul(form.bytes() as u64);
    arg.truncation.is_none() && arg.form().is_none_or(|form| size(form) == bytes.len() as u64)
}

/// A dense array in NumPy's form 1.0. bfloat16, which NumPy does not have, becomes float32; a type nobody knows, bytes.
fn npy(arg: &DumpedArg, bytes: &[u8]) -> Vec<u8> {
    let mut shape = arg.shape.clone();
    let mut data = bytes.to_vec();
    let descr = match arg.form() {
        Some(ElementForm::Float(size)) => format!("<f{size}"),
        Some(ElementForm::Brain) => {
            data = bytes.as_chunks::<2>().0.iter().flat_map(|[low, high]| [0, 0, *low, *high]).collect();
            "<f4".to_owned()
        }
        Some(ElementForm::Signed(size)) => format!("<i{size}"),
        Some(ElementForm::Unsigned(size)) => format!("<u{size}"),
        Some(ElementForm::Bool) => "|b1".to_owned(),
        None => {
            shape = vec![bytes.len() as u64];
            "|u1".to_owned()
        }
    };
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    // Magic, version and length take ten bytes; data begins at a multiple of 64, after a line feed.
    let pad = 64 - (10 + header.len() + 1) % 64;
    header.extend(std::iter::repeat_n(' ', pad));
    header.push('\n');
    let mut out = Vec::with_capacity(10 + header.len() + data.len());
    // Writing to memory cannot fail.
    let _ = out.write_all(b"\x93NUMPY\x01\x00");
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(data);
    out
}
