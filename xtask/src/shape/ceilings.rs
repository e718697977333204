//! The recorded ceilings: what the largest things of a crate may measure, until somebody makes them smaller.

use super::{MEASURES, Measure};
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::{Table, Value};

/// Where they are recorded, from the root of the checkout.
pub const FILE: &str = "xtask/shape.toml";

const HEAD: &str = "\
# Ceilings of `cargo xtask shape`, by measure and crate: the size of the largest thing, and how many things are beyond the
# target. A crate that is not named keeps within the target. Written by `cargo xtask shape record`.
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    pub largest: usize,
    /// How many things exceed the target.
    pub beyond: usize,
}

/// By measure and crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ceilings(pub BTreeMap<(String, String), Ceiling>);

impl Ceilings {
    pub fn of(&self, measure: &Measure, name: &str) -> Ceiling {
        let recorded = self.0.get(&(measure.key.to_string(), name.to_string())).copied();
        recorded.unwrap_or(Ceiling { largest: measure.target, beyond: 0 })
    }

    pub fn parse(text: &str) -> Result<Ceilings, String> {
        let tables: Table = text.parse().map_err(|e| format!("{FILE}: {e}"))?;
        let mut out = Ceilings::default();
        for (key, crates) in &tables {
            if MEASURES.iter().all(|measure| measure.key != key) {
                return Err(format!("{FILE}: there is no measure `{key}`"));
            }
            for (name, ceiling) in
                crates.as_table().into_iter().flatten().filter(|(name, _)| *name != "target")
            {
                let number = |of: &str| {
                    let value = ceiling.get(of).and_then(Value::as_integer);
                    value
                        .and_then(|v| usize::try_from(v).ok())
                        .ok_or(format!("{FILE}: {key}.{name}: no `{of}`"))
                };
                let ceiling = Ceiling { largest: number("largest")?, beyond: number("beyond")? };
                out.0.insert((key.clone(), name.clone()), ceiling);
            }
        }
        Ok(out)
    }

    pub fn to_toml(&self) -> String {
        let mut text = HEAD.to_string();
        for measure in &MEASURES {
            _ = write!(text, "\n# {}\n[{}]\ntarget = {}\n", measure.title, measure.key, measure.target);
            for ((_, name), Ceiling { largest, beyond }) in
                self.0.iter().filter(|((key, _), _)| key == measure.key)
            {
                _ = writeln!(text, "{name} = {{ largest = {largest}, beyond = {beyond} }}");
            }
        }
        text
    }
}
