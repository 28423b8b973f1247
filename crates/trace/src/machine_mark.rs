//! What files of a run say of a machine that does not exist: a chip that is emulated, or one in virtual time.
//!
//! Every file can be taken out of its directory, so every one says it, in keys or a column that the reference's tools leave alone. Files
//! of a run on this machine's own CPUs say nothing.

use serde::Serialize;

use crate::{Facts, Manifest, Source, Trace};

/// Whether a run's machine is a model, and of which arch; the default is a machine that exists.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MachineMark {
    /// Whether time is virtual.
    #[serde(rename = "virtual", skip_serializing_if = "std::ops::Not::not")]
    pub virtual_time: bool,
    /// Whether the chip is made of threads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// The arch; empty if the machine exists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
}

impl MachineMark {
    /// The column of tables of text.
    pub const COLUMN: &str = "machine";

    fn new(virtual_time: bool, emulated: bool, arch: &str) -> Self {
        let arch = if virtual_time || emulated { arch.to_owned() } else { String::new() };
        Self { virtual_time, emulated, arch }
    }

    /// That of a run.
    pub fn of(facts: &Facts) -> Self {
        Self::new(facts.virtual_time, facts.emulated, &facts.arch)
    }

    /// That of a run directory.
    pub fn of_manifest(manifest: &Manifest) -> Self {
        Self::new(manifest.virtual_time, manifest.emulated, &manifest.arch)
    }

    /// Whether the machine exists, so that there is nothing to say.
    pub fn is_real(&self) -> bool {
        !self.virtual_time && !self.emulated
    }

    /// As a cell: `emulated a5`, `virtual a2a3`; empty if the machine exists.
    pub fn cell(&self) -> String {
        match (self.virtual_time, self.emulated) {
            (true, _) => format!("virtual {}", self.arch),
            (_, true) => format!("emulated {}", self.arch),
            _ => String::new(),
        }
    }

    /// From a cell.
    pub(crate) fn from_cell(cell: &str) -> Self {
        let (what, arch) = cell.split_once(' ').unwrap_or((cell, ""));
        Self::new(what == "virtual", what == "emulated", arch)
    }

    /// Keys and values of a JSON object that goes on behind them, each with a comma behind it.
    pub fn json_prefix(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        let inner = text.trim_start_matches('{').trim_end_matches('}');
        if inner.is_empty() { String::new() } else { format!("{inner},") }
    }

    /// Notes it for a trace that is made of files. A run directory has a manifest, which knows better than a file that was named besides.
    pub(crate) fn note(self, trace: &mut Trace) {
        if self.is_real() || !matches!(trace.source, Source::Reference(_)) {
            return;
        }
        let facts = &mut trace.facts;
        facts.virtual_time |= self.virtual_time;
        facts.emulated |= self.emulated;
        if facts.arch.is_empty() {
            facts.arch = self.arch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_exists_has_nothing_to_say() {
        let real = MachineMark::new(false, false, "host");
        assert_eq!((real.cell(), real.json_prefix()), (String::new(), String::new()));
        assert!(real.is_real() && real == MachineMark::from_cell(""));
    }

    #[test]
    fn a_model_says_which_it_is() {
        let chip = MachineMark::new(false, true, "a5");
        assert_eq!(
            (chip.cell().as_str(), chip.json_prefix().as_str()),
            ("emulated a5", r#""emulated":true,"arch":"a5","#)
        );
        let model = MachineMark::new(true, false, "a2a3");
        for mark in [chip, model] {
            assert_eq!(MachineMark::from_cell(&mark.cell()), mark);
        }
    }
}
