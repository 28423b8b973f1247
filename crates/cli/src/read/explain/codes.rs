//! What each error code means, and a command that shows it.

use plimsoll::abi::ErrorCode;

/// What each code means, and a command that shows it. Two codes have no command: a defect of ours, because none is known,
/// and a second run on a lost device, because a command makes one run only.
const MEANINGS: &[(ErrorCode, &str, &str)] = &[
    (
        ErrorCode::ScopeDeadlock,
        "The tasks of one open scope fill the task window of its ring. A scope holds its tasks until it ends, and the submitter that would end it waits for a slot. Enlarge the window with --ring-task-window, or split the scope.",
        "plimsoll run fault-scope-deadlock",
    ),
    (
        ErrorCode::HeapRingDeadlock,
        "The outputs of open scopes fill the heap of a ring. They are held until their scope ends, and the submitter that would end it waits for bytes. Enlarge the heap with --ring-heap, or split the scope.",
        "plimsoll run fault-heap",
    ),
    (
        ErrorCode::FlowControlDeadlock,
        "Scopes nested past depth 3 share ring 3 and fill its task window together. None of them can end while the submitter waits for a slot. Enlarge the window of ring 3, or nest less deeply.",
        "plimsoll run fault-flow-control",
    ),
    (
        ErrorCode::DepPoolOverflow,
        "The dependencies of tasks in open scopes fill a ring's dependency pool. Every producer of a task takes an entry until the task's slot is reclaimed. Enlarge it with --ring-dep-pool, or split the scope.",
        "plimsoll run fault-dep-pool",
    ),
    (
        ErrorCode::InvalidArgs,
        "Arguments or settings make no sense together: overlapping arguments of one task one of which is written, a view outside its tensor, a tensor of another run. Nothing sensible could be run. Change what the message names.",
        "plimsoll run fault-args",
    ),
    (
        ErrorCode::InvalidSyncStart,
        "The blocks of a task were to start together, and are more than the device has workers, cores of their class or clusters. One of them could never start, and the others would wait for it. Give the task fewer blocks, or the device more workers or clusters.",
        "plimsoll run fault-sync-start",
    ),
    (
        ErrorCode::TensorWaitTimeout,
        "A read waited longer than allowed for the task that produces its data. The task is slow, or waits behind others. Allow a longer wait, or look at the run with plimsoll stats.",
        "plimsoll run fault-wait",
    ),
    (
        ErrorCode::ExplicitFatal,
        "The orchestration itself ended the run. It found a reason of its own, which its message gives. Act on that message.",
        "plimsoll run fault-fatal",
    ),
    (
        ErrorCode::ScopeTasksOverflow,
        "A prebuilt graph was given more tasks than it may have. No ring bounds it, so it has a limit of its own: what was asked for, or half a billion. Allow more with --prebuilt-limit, split the graph, or stream it.",
        "plimsoll run vector --prebuilt --prebuilt-limit 100",
    ),
    (
        ErrorCode::TensormapOverflow,
        "The arguments of tasks in open scopes fill the tensormap. Every tracked argument takes an entry until its task's slot is reclaimed. Enlarge it with --tensormap, or split the scope.",
        "plimsoll run fault-tensormap",
    ),
    (
        ErrorCode::KernelFailed,
        "A kernel returned an error. What was running has finished and nothing more was started. Mend the kernel or its input.",
        "plimsoll run fault-kernel-error",
    ),
    (
        ErrorCode::KernelPanicked,
        "A kernel panicked. The panic was caught, what was running has finished and nothing more was started. Mend the kernel or its input.",
        "plimsoll run fault-panic",
    ),
    (
        ErrorCode::Cancelled,
        "The run was cancelled through its token. What was running has finished and nothing more was started. Run again to get a result.",
        "plimsoll run fault-deadline --set cancel-at=3",
    ),
    (
        ErrorCode::DeadlineExceeded,
        "The run was still going at its deadline. What was running has finished and nothing more was started. Give it a later deadline, or find with a recording where the time goes.",
        "plimsoll run fault-deadline",
    ),
    (
        ErrorCode::RecordingFailed,
        "The records of a run could not be kept: its directory or its region could not be made, or the collector broke. What was written before is whole and readable, and the ledger counts the rest as dropped. Choose another place with --out or --region-dir, or run with --no-record.",
        "plimsoll run vector --out /dev/null/run",
    ),
    (
        ErrorCode::OrchestrationPanicked,
        "The orchestration panicked: the program that submits tasks, not a kernel. The tasks that it had submitted by then have run, and the panic was handed on to whoever called run. Mend the program where the message points.",
        "plimsoll run fault-panic --set how=3",
    ),
    (
        ErrorCode::SystemRefused,
        "The system refused memory or threads for the device or the run. A limit of the process or of its container was met, or the machine is out of them. Use smaller rings or fewer workers, or raise the limit (ulimit -v, ulimit -u).",
        "(ulimit -v 400000; plimsoll run vector --no-record)",
    ),
    (
        ErrorCode::Defect,
        "The runtime itself went wrong: an assertion of its own failed. Neither the program nor its kernels caused it. Keep the run's directory and report it with the command line; a new run starts from a clean state.",
        "",
    ),
    (
        ErrorCode::OpTimeout,
        "One kernel took longer than --op-timeout allows. Its worker was left behind, what else was running had time to finish, and the records up to there are in the run's directory; the message says which kernel, task and worker, and whether its thread is frozen or spins. Look at what the kernel waits for, or allow it more time.",
        "plimsoll run fault-hang --op-timeout 200ms",
    ),
    (
        ErrorCode::DeviceLost,
        "A kernel of an earlier run on this device never returned, and its worker was left behind; or the device was a process of its own (--isolate), and that process ended, because a kernel crashed it or somebody killed it. Nothing runs on the device any more; the records that it had published are in the run's directory. Look at what was running, and open another device.",
        "",
    ),
    (
        ErrorCode::HostGone,
        "Whoever records waited for the collector longer than --host-gone-timeout allows, and gave it up. The process that drains the records was stopped, or got no CPU; the tasks have run, what was recorded before and since is readable, and the ledger counts the rest as dropped. Look at what kept that process from running, or allow more time.",
        "",
    ),
    (
        ErrorCode::DiskFull,
        "The file system has no room for the records, or a quota or a file size limit was met. What was written before is whole and readable, and the ledger counts the rest as dropped. Free some space, choose another place with --out or --region-dir, or run with --no-record.",
        "(ulimit -f 1024; plimsoll run vector --ring-heap 1m --profile --region-dir .)",
    ),
    (
        ErrorCode::Interrupted,
        "A signal (Ctrl-C or SIGTERM) asked for the run's end. Nothing more was started, and what was running had a second to finish, so the records up to there are whole. Run again to get a result.",
        "plimsoll run fault-deadline --set interrupt-at=3",
    ),
    (
        ErrorCode::SchedulerTimeout,
        "Nothing moves any more, and not everything is done. A kernel does not end, a core or scheduler stands still, or the orchestration is stuck in its own code (--stall-timeout, --orch-timeout); the message says which. Look at what was running and why it does not end.",
        "plimsoll run vector --engine virtual --arch a2a3 --costs '{\"default\": \"never\"}'",
    ),
];

/// What a code means, and a command that shows it; empty if there is none.
pub(super) fn meaning(code: ErrorCode) -> (&'static str, &'static str) {
    MEANINGS.iter().find(|(of, ..)| *of == code).map_or(("", ""), |(_, words, command)| (words, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_says_what_why_and_what_to_do() {
        for &code in ErrorCode::ALL {
            let (text, program) = meaning(code);
            assert!(text.matches(". ").count() >= 2, "{code}: {text}");
            if matches!(code, ErrorCode::Defect | ErrorCode::DeviceLost | ErrorCode::HostGone) {
                continue;
            }
            let (_, line) = program.split_once("plimsoll run ").unwrap_or_default();
            let name = line.split(' ').next().unwrap_or_default();
            assert!(plimsoll_programs::find(name).is_some(), "{code}: {program}");
        }
    }
}
