//! A child process that is stopped before and after each of its system calls, to be killed there.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Marks where the instants begin: the child stops here until its tracer goes on.
pub(crate) fn begin() {
    // SAFETY: a signal to this thread itself, which its tracer expects.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Marks where the instants end.
pub(crate) fn end() {
    begin();
}

/// The child.
pub(crate) struct Traced {
    process: libc::pid_t,
}

impl Traced {
    /// Starts this executable again with `variable` set.
    #[allow(clippy::zombie_processes, reason = "`Traced::wait` waits for it, by its number")]
    pub(crate) fn start(variable: &str, value: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(variable, value).stdout(Stdio::null()).stderr(Stdio::null());
        let trace_me = || {
            // SAFETY: asks to be traced by the parent; a system call and nothing else, as is fit between fork and exec.
            let refused = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } != 0;
            if refused { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: `trace_me` allocates nothing and takes no lock.
        unsafe { command.pre_exec(trace_me) };
        let child = command.spawn().expect("this machine lets a process trace its children");
        let traced = Self { process: child.id() as libc::pid_t };
        // The exec itself stops it first.
        assert_eq!(traced.wait(), Some(libc::SIGTRAP));
        traced.ask(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL);
        while traced.go_on(libc::PTRACE_CONT) != Some(libc::SIGSTOP) {}
        traced
    }

    /// Lets it go on to an instant, counted from the mark, kills it there and says where that was; nothing if it came to the end
    /// of the instants before. Calls that read a file at an offset change nothing, not even the child's own place in the file,
    /// and are passed over: there are many.
    pub(crate) fn kill_at(self, instant: usize) -> Option<String> {
        let mut seen = 0;
        loop {
            let mut call = 0;
            for side in ["before", "after"] {
                let stopped = self.go_on(libc::PTRACE_SYSCALL);
                if stopped == Some(libc::SIGSTOP) {
                    self.kill();
                    return None;
                }
                assert_eq!(stopped, Some(SYSCALL_STOP), "the victim went wrong by itself");
                if side == "before" {
                    call = self.call();
                }
                if call == libc::SYS_pread64 {
                    continue;
                }
                if seen == instant {
                    self.kill();
                    return Some(format!("killed {side} instant {instant}, system call number {call}"));
                }
                seen += 1;
            }
        }
    }

    /// The number of the system call that it is about to make.
    fn call(&self) -> i64 {
        const NUMBER_AT: usize = 3;
        let mut info = [0u64; 11];
        let size = size_of_val(&info);
        // SAFETY: room for the answer, of the size that is said, about a child that is stopped.
        let got =
            unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, self.process, size, info.as_mut_ptr()) } as usize;
        assert!(got > NUMBER_AT * 8, "{}", std::io::Error::last_os_error());
        info[NUMBER_AT] as i64
    }

    fn kill(&self) {
        // SAFETY: a signal to a child that was not waited for yet, so the number is still its own.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
        while self.wait().is_some() {}
    }

    fn go_on(&self, request: libc::c_uint) -> Option<i32> {
        self.ask(request, 0);
        self.wait()
    }

    fn ask(&self, request: libc::c_uint, data: i32) {
        // SAFETY: requests without pointers, to a child that is stopped.
        let failed = unsafe { libc::ptrace(request, self.process, 0, data) } != 0;
        assert!(!failed, "{}", std::io::Error::last_os_error());
    }

    /// The signal it stopped with; nothing once it has ended.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: a child of this process, and room for the answer.
        let waited = unsafe { libc::waitpid(self.process, &mut status, 0) };
        assert_eq!(waited, self.process);
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }
}

/// What a stop at a system call looks like with `PTRACE_O_TRACESYSGOOD`.
const SYSCALL_STOP: i32 = libc::SIGTRAP | 0x80;
