//! Cost tables: what kernels cost in virtual time, from a file.
//!
//! ```json
//! {
//!   "kernels": {
//!     "gemm":    15000,
//!     "add":     { "ns": 200, "per_element_ps": 50 },
//!     "softmax": { "uniform_ns": [900, 1400] },
//!     "norm":    { "normal_ns": [1000, 80] },
//!     "stuck":   "never"
//!   },
//!   "default":   { "ns": 2000, "per_element_ps": 100 },
//!   "scheduler": { "submit_ns": 800, "dispatch_ns": 300 }
//! }
//! ```
//! Every part may be left out; what is not there stays as the arch has it.

use crate::error::{Error, Result};
use plimsoll_platform::virtual_time::KernelCost;
use plimsoll_platform::{ArchSpec, Costs, Number};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// What kernels cost in virtual time, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CostTable {
    kernels: BTreeMap<String, KernelCost>,
    default: Option<KernelCost>,
    scheduler: Vec<(&'static str, u64)>,
}

/// The costs of an arch that a file may set: the numbers whose names say a time.
fn scheduler() -> impl Iterator<Item = &'static Number> {
    let is_time = |number: &&Number| number.key.ends_with("_ns") || number.key.ends_with("_ps");
    const { &ArchSpec::NUMBERS }.iter().filter(is_time)
}

const PARTS: [&str; 5] = ["kernels", "default", "scheduler", "format", "schema"];

#[cfg_attr(not(feature = "coroutines"), allow(dead_code))]
impl CostTable {
    /// Reads a table from a file, or from the text itself if it begins with a brace.
    ///
    /// # Errors
    /// As [`load`](Self::load) or [`parse`](Self::parse).
    pub fn load_or_parse(given: &str) -> Result<Self> {
        if given.trim_start().starts_with('{') { Self::parse(given, "given") } else { Self::load(Path::new(given)) }
    }

    /// Reads a table from a file.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if the file cannot be read, or as [`parse`](Self::parse).
    pub fn load(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::invalid(format!("The cost table {name} cannot be read: {error}. Give the path of a JSON file."))
                .caused_by(error)
        })?;
        Self::parse(&text, &name)
    }

    /// Reads a table from text; `name` is what messages call it.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll_abi::ErrorCode::InvalidArgs) if the text is no table of costs, or a cost is too large.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let refuse = |what: String| Error::invalid(format!("The cost table {name} cannot be used. {what}"));
        let value: Value = serde_json::from_str(text)
            .map_err(|error| refuse(format!("It is not JSON: {error}. Correct it there.")).caused_by(error))?;
        Self::from_value(&value).map_err(refuse)
    }

    fn from_value(value: &Value) -> std::result::Result<Self, String> {
        let file = object(value, "The file")?;
        only(file, "The file", &PARTS)?;
        if let Some(format) = file.get("format").filter(|format| *format != "plimsoll-costs") {
            return Err(format!("Its format is {format}. A cost table says \"plimsoll-costs\" or nothing."));
        }
        if let Some(schema) = file.get("schema").filter(|schema| **schema != 1) {
            return Err(format!("Its schema is {schema}. This version knows schema 1."));
        }
        let mut table = Self::default();
        if let Some(kernels) = file.get("kernels") {
            for (kernel, cost) in object(kernels, "kernels")? {
                table.kernels.insert(kernel.clone(), kernel_cost(cost, &format!("kernels.{kernel}"))?);
            }
        }
        table.default = file.get("default").map(|cost| kernel_cost(cost, "default")).transpose()?;
        if let Some(scheduler) = file.get("scheduler") {
            let scheduler = object(scheduler, "scheduler")?;
            only(scheduler, "scheduler", &self::scheduler().map(|cost| cost.key).collect::<Vec<_>>())?;
            for cost in self::scheduler() {
                if let Some(value) = scheduler.get(cost.key) {
                    table.scheduler.push((cost.key, number(value, &format!("scheduler.{}", cost.key))?));
                }
            }
        }
        Ok(table)
    }

    /// Sets what one kernel costs.
    pub fn set(&mut self, kernel: impl Into<String>, cost: KernelCost) {
        self.kernels.insert(kernel.into(), cost);
    }

    /// Sets what kernels cost that have no entry of their own.
    pub fn set_default(&mut self, cost: KernelCost) {
        self.default = Some(cost);
    }

    /// The kernels it names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// Refuses costs that the clock has no room for: those from files were read with the same bounds, those that were
    /// [`set`](Self::set) were not.
    pub(crate) fn check(&self) -> Result<()> {
        let named = self.kernels.iter().map(|(name, cost)| (format!("of kernel {name}"), cost));
        let default = self.default.iter().map(|cost| ("that kernels have by default".to_owned(), cost));
        for (whose, cost) in named.chain(default) {
            if let Some(fault) = cost.fault() {
                return Err(Error::invalid(format!("The cost table cannot be used. The cost {whose} {fault}.")));
            }
        }
        Ok(())
    }

    /// Changes an arch's costs to what the table sets.
    pub(crate) fn apply(&self, arch: &mut ArchSpec) {
        for (key, value) in &self.scheduler {
            // Read with the same bound that the change has, so it cannot be refused.
            let _ = ArchSpec::number(key).and_then(|cost| cost.change(arch, *value));
        }
    }

    /// What a kernel costs on an arch with these costs.
    pub(crate) fn cost_of(&self, kernel: &str, costs: &Costs) -> KernelCost {
        let arch = KernelCost::PerElement { ns: costs.kernel_ns, element_ps: costs.element_ps };
        self.kernels.get(kernel).copied().or(self.default).unwrap_or(arch)
    }
}

fn kernel_cost(value: &Value, at: &str) -> std::result::Result<KernelCost, String> {
    const FORMS: &str = "a number of nanoseconds, {\"ns\": N, \"per_element_ps\": N}, {\"uniform_ns\": [LOW, HIGH]}, \
                         {\"normal_ns\": [MEAN, DEVIATION]} or \"never\"";
    match value {
        Value::String(text) if text == "never" => Ok(KernelCost::Never),
        Value::Number(_) => Ok(KernelCost::Fixed { ns: number(value, at)? }),
        Value::Object(cost) if cost.contains_key("uniform_ns") => {
            only(cost, at, &["uniform_ns"])?;
            let [low_ns, high_ns] = pair(&cost["uniform_ns"], &format!("{at}.uniform_ns"))?;
            let cost = KernelCost::Uniform { low_ns, high_ns };
            cost.fault().map_or(Ok(cost), |fault| Err(format!("{at}.uniform_ns {fault}.")))
        }
        Value::Object(cost) if cost.contains_key("normal_ns") => {
            only(cost, at, &["normal_ns"])?;
            let [mean_ns, deviation_ns] = pair(&cost["normal_ns"], &format!("{at}.normal_ns"))?;
            Ok(KernelCost::Normal { mean_ns, deviation_ns })
        }
        Value::Object(cost) if !cost.is_empty() => {
            only(cost, at, &["ns", "per_element_ps"])?;
            let field = |name: &str| cost.get(name).map_or(Ok(0), |value| number(value, &format!("{at}.{name}")));
            Ok(KernelCost::PerElement { ns: field("ns")?, element_ps: field("per_element_ps")? })
        }
        _ => Err(format!("{at} is {value}. A cost is {FORMS}.")),
    }
}

fn object<'v>(value: &'v Value, at: &str) -> std::result::Result<&'v Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{at} is {value}. It should be an object, {{ … }}."))
}

fn only(object: &Map<String, Value>, at: &str, known: &[&str]) -> std::result::Result<(), String> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(format!("{at} has {key:?}, which means nothing here. It may have {}.", known.join(", "))),
    }
}

fn number(value: &Value, at: &str) -> std::result::Result<u64, String> {
    const MOST: u64 = Costs::MOST;
    value
        .as_u64()
        .filter(|&number| number <= MOST)
        .ok_or_else(|| format!("{at} is {value}. It should be a whole number from 0 to {MOST}."))
}

fn pair(value: &Value, at: &str) -> std::result::Result<[u64; 2], String> {
    match value.as_array().map(Vec::as_slice) {
        Some([a, b]) => Ok([number(a, at)?, number(b, at)?]),
        _ => Err(format!("{at} is {value}. It should be two numbers, [ …, … ].")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_kernels_and_scheduling_cost() {
        let text = r#"{ "format": "plimsoll-costs", "schema": 1,
            "kernels": { "a": 15, "b": { "ns": 2, "per_element_ps": 50 }, "c": { "uniform_ns": [9, 14] },
                         "d": { "normal_ns": [100, 8] }, "e": "never" },
            "default": { "per_element_ps": 7 }, "scheduler": { "submit_ns": 1, "wake_ns": 0 } }"#;
        let table = CostTable::parse(text, "t.json").expect("a table");
        let mut arch = ArchSpec::A2A3;
        table.apply(&mut arch);
        let costs = arch.costs;
        assert_eq!((costs.submit_ns, costs.wake_ns, costs.dispatch_ns), (1, 0, ArchSpec::A2A3.costs.dispatch_ns));
        let cost = |kernel| table.cost_of(kernel, &costs);
        assert_eq!(cost("a"), KernelCost::Fixed { ns: 15 });
        assert_eq!(cost("b"), KernelCost::PerElement { ns: 2, element_ps: 50 });
        assert_eq!(cost("c"), KernelCost::Uniform { low_ns: 9, high_ns: 14 });
        assert_eq!(cost("d"), KernelCost::Normal { mean_ns: 100, deviation_ns: 8 });
        assert_eq!(cost("e"), KernelCost::Never);
        assert_eq!(cost("other"), KernelCost::PerElement { ns: 0, element_ps: 7 });
        let empty = CostTable::parse("{}", "t.json").expect("an empty table changes nothing");
        let arch = KernelCost::PerElement { ns: costs.kernel_ns, element_ps: costs.element_ps };
        assert_eq!(empty.cost_of("a", &costs), arch);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            ("{", "not JSON"),
            ("[]", "The file is []"),
            (r#"{"kernel": {}}"#, "\"kernel\", which means nothing here. It may have kernels"),
            (r#"{"kernels": {"a": -1}}"#, "kernels.a is -1"),
            (r#"{"kernels": {"a": 1.5}}"#, "kernels.a is 1.5"),
            (r#"{"kernels": {"a": {}}}"#, "kernels.a is {}"),
            (r#"{"kernels": {"a": "soon"}}"#, "kernels.a is \"soon\". A cost is"),
            (r#"{"kernels": {"a": {"uniform_ns": [3, 1]}}}"#, "from 3 to 1"),
            (r#"{"kernels": {"a": {"uniform_ns": [3]}}}"#, "two numbers"),
            (r#"{"kernels": {"a": {"ns": 1, "per_elem": 2}}}"#, "\"per_elem\""),
            (r#"{"scheduler": {"submit": 2}}"#, "\"submit\""),
            (r#"{"schema": 2}"#, "schema is 2"),
        ] {
            let error = CostTable::parse(text, "t.json").expect_err(text).to_string();
            assert!(error.contains("t.json") && error.contains(said), "{text}: {error}");
        }
    }
}
