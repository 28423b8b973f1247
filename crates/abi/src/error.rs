//! Error codes with stable numbers and names, and the resources that can run out.

use core::fmt;

/// What a ring, or the run, can run out of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Resource {
    /// Task slots of a ring.
    TaskWindow = 0,
    /// Bytes of a ring's heap.
    Heap = 1,
    /// Dependency entries of a ring.
    DepPool = 2,
    /// Entries of the tensormap, shared by the rings.
    Tensormap = 3,
}

impl Resource {
    /// All resources, in the order reports use.
    pub const ALL: [Resource; 4] = [Resource::TaskWindow, Resource::Heap, Resource::DepPool, Resource::Tensormap];

    /// As files and flags spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::TaskWindow => "task_window",
            Resource::Heap => "heap",
            Resource::DepPool => "dep_pool",
            Resource::Tensormap => "tensormap",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// Why a run failed. The numbers and names are stable.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u32)]
        pub enum ErrorCode { $($(#[$doc])* $name = $number,)* }

        impl ErrorCode {
            /// Every code, in ascending order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// Its stable name.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$name => stringify!($name),)* }
            }
        }
    };
}

codes! {
    /// The tasks of one open scope fill the task window of its ring.
    ScopeDeadlock = 1,
    /// What open scopes hold fills a ring's heap.
    HeapRingDeadlock = 2,
    /// Scopes nested past depth 3 fill ring 3 together.
    FlowControlDeadlock = 3,
    /// What open scopes hold fills a ring's dependency pool.
    DepPoolOverflow = 4,
    /// Arguments or settings that make no sense.
    InvalidArgs = 5,
    /// The blocks of a task were to start together, and are more than ever can.
    InvalidSyncStart = 7,
    /// A wait for a tensor's data took longer than allowed.
    TensorWaitTimeout = 8,
    /// The orchestration gave up on purpose.
    ExplicitFatal = 9,
    /// One scope or graph was given more tasks than can be numbered.
    ScopeTasksOverflow = 10,
    /// What open scopes hold fills the tensormap.
    TensormapOverflow = 11,
    /// A kernel returned an error.
    KernelFailed = 20,
    /// A kernel panicked.
    KernelPanicked = 21,
    /// The run was cancelled.
    Cancelled = 22,
    /// The run's deadline passed.
    DeadlineExceeded = 23,
    /// The run could not be recorded, or not to its end.
    RecordingFailed = 24,
    /// The orchestration panicked.
    OrchestrationPanicked = 25,
    /// The system refused memory or threads.
    SystemRefused = 26,
    /// The runtime itself is at fault.
    Defect = 27,
    /// Nothing moves any more, and not everything is done.
    SchedulerTimeout = 100,
    /// A kernel took longer than one may.
    OpTimeout = 110,
    /// The device has lost workers that did not return from a kernel.
    DeviceLost = 111,
    /// The collector took no records for so long that the device side gave it up.
    HostGone = 112,
    /// The file system has no room for the records.
    DiskFull = 113,
    /// A signal asked for the run's end.
    Interrupted = 114,
}

impl ErrorCode {
    /// Its stable number.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The code with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.number() == number)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
