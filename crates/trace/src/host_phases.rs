//! What the host did around a run, on the host's own clock.

/// One stretch of the host's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPhase {
    /// Its name, as an index into [`HostPhases::names`].
    pub name: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u64,
    /// Which invocation of the run.
    pub invocation: u64,
    /// Begin, in nanoseconds of the host's clock.
    pub start_ns: u64,
    /// End, on the same clock.
    pub end_ns: u64,
}

/// The host's phases, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct HostPhases {
    /// Names, each once.
    pub names: Vec<String>,
    /// The phases.
    pub phases: Vec<HostPhase>,
    /// The clock they are on, as the file names it; empty if it does not.
    pub clock: String,
}

impl HostPhases {
    /// Most names that are told apart; a file with more is broken and shares the last.
    const MAX_NAMES: usize = 1024;

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// The number of a name, which is added if it is new.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return at as u32;
        }
        if self.names.len() < Self::MAX_NAMES {
            self.names.push(name.to_string());
        }
        self.names.len() as u32 - 1
    }

    /// The name of phase `at`.
    pub fn name_of(&self, at: usize) -> &str {
        &self.names[self.phases[at].name as usize]
    }
}
