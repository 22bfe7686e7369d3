//! `shice record --dry-run`: which runs there would be, in their order.

use std::io::Write;

use anyhow::{Context, Result};

use crate::record::plan::Plan;
use crate::record::session::{self, Preview};
use crate::report::escape;

/// Prints the runs of a plan, and records nothing.
///
/// # Errors
/// The plan would be refused, or standard output cannot be written.
pub fn run(plan: &Plan) -> Result<u8> {
    let preview = session::preview(plan)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    print(plan, &preview, &mut out).and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(0)
}

fn print(plan: &Plan, preview: &Preview, out: &mut impl Write) -> std::io::Result<()> {
    if let Some(left_out) = &plan.left_out {
        writeln!(out, "{left_out}")?;
    }
    let mut block = 0;
    for (number, slot) in (1..).zip(plan.order()) {
        if slot.block != block {
            block = slot.block;
            writeln!(out, "block {block}")?;
        }
        let command: Vec<String> =
            preview.commands[slot.target][slot.case].iter().map(|word| escape::shell(word)).collect();
        let expected =
            preview.durations.of(slot).map_or(String::new(), |time| format!("  about {:.1} s", time.as_secs_f64()));
        let (environment, case) = (&plan.targets[slot.target].environment, plan.case(slot).name());
        writeln!(out, "  {number}  {environment} · {case}{expected}\n     $ {}", command.join(" "))?;
    }
    writeln!(out, "{}; nothing has been recorded", session::in_figures(plan, &preview.durations))
}
