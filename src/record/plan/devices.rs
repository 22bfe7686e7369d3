//! Devices that cases of shipped workloads ask for: those that cannot be used here are refused, or left out where the case
//! allows it. Behind a prefix they run who knows where, and tell it themselves.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::settings::Axis;
use super::shipped;
use super::wish::{CaseWish, EnvironmentWish, Wish};

const KEY: &str = "device";

/// Holds the devices of a wish against those that the workloads' own libtorch can use; tells what was left out.
///
/// # Errors
/// A case cannot do without a device that cannot be used, nothing is left, or the devices cannot be told.
pub(super) fn settle(wish: &mut Wish, environments: &[EnvironmentWish]) -> Result<Option<String>> {
    let asked: Vec<&String> = wish.cases.iter().filter_map(axis).flat_map(|axis| &axis.values).collect();
    // Libtorch is loaded only for a question that needs it.
    let is_plain = asked.iter().all(|device| matches!(device.as_str(), "cpu" | "auto"));
    if is_plain || environments.iter().all(|environment| !environment.prefix.is_empty()) {
        return Ok(None);
    }
    choose(wish, &usable(&shipped::program()?)?)
}

fn choose(wish: &mut Wish, usable: &[String]) -> Result<Option<String>> {
    let is_usable = |device: &String| device == "auto" || usable.contains(device);
    let (mut left_out, mut workloads) = (Vec::<String>::new(), Vec::<String>::new());
    for case in &mut wish.cases {
        let CaseWish { workload, optional, .. } = &*case;
        let Some(missing) = axis(case).and_then(|axis| axis.values.iter().find(|device| !is_usable(device))) else {
            continue;
        };
        if !optional {
            bail!("device {missing:?} cannot be used here; usable are {}", usable.join(", "));
        }
        workloads.extend((!workloads.contains(workload)).then(|| workload.clone()));
        for axis in case.axes.iter_mut().filter(|axis| axis.key == KEY) {
            left_out.extend(axis.values.extract_if(.., |device| !is_usable(device)));
        }
    }
    wish.cases.retain(|case| axis(case).is_none_or(|axis| !axis.values.is_empty()));
    if left_out.is_empty() {
        return Ok(None);
    }
    left_out.sort();
    left_out.dedup();
    let (left_out, usable) = (left_out.join(", "), usable.join(", "));
    if wish.cases.is_empty() {
        bail!("no case of the suite can run here: it asks for {left_out}, and usable are {usable}");
    }
    Ok(Some(format!(
        "{left_out} cannot be used here (usable are {usable}) and is left out of {}",
        workloads.join(", ")
    )))
}

fn axis(case: &CaseWish) -> Option<&Axis> {
    case.axes.iter().find(|axis| axis.key == KEY && case.command.is_none())
}

/// Asks the workloads' own libtorch which devices it can use.
fn usable(program: &Path) -> Result<Vec<String>> {
    let output =
        Command::new(program).arg("devices").output().with_context(|| format!("cannot run {}", program.display()))?;
    let usable: Vec<String> = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if usable.is_empty() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{} cannot tell its devices: {}; build it anew with `make build`", program.display(), why.trim());
    }
    Ok(usable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::plan::placeholders::Braces;

    fn wish(cases: &[(&str, bool, &[&str])]) -> Wish {
        let case = |(workload, optional, devices): &(&str, bool, &[&str])| CaseWish {
            workload: (*workload).to_owned(),
            command: None,
            optional: *optional,
            axes: vec![Axis {
                key: KEY.to_owned(),
                values: devices.iter().map(|device| (*device).to_owned()).collect(),
                origin: "suite.toml:5".to_owned(),
            }],
            braces: Braces::Template,
            origin: "suite.toml:2".to_owned(),
        };
        Wish { cases: cases.iter().map(case).collect(), ..Wish::default() }
    }

    #[test]
    fn a_device_that_is_not_there_is_refused_or_left_out_where_the_case_is_optional() {
        let usable = ["cpu".to_owned()];
        let mut optional =
            wish(&[("idle", true, &["cpu", "cuda:0"]), ("small-cnn", true, &["cuda:0"]), ("w", false, &["auto"])]);
        let told = choose(&mut optional, &usable).unwrap().unwrap();
        assert_eq!(told, "cuda:0 cannot be used here (usable are cpu) and is left out of idle, small-cnn");
        let left: Vec<_> =
            optional.cases.iter().map(|case| (case.workload.as_str(), &case.axes[0].values[..])).collect();
        assert_eq!(left, [("idle", &["cpu".to_owned()][..]), ("w", &["auto".to_owned()][..])]);
        let message = |cases: &[_]| choose(&mut wish(cases), &usable).unwrap_err().to_string();
        assert_eq!(
            message(&[("idle", true, &["cpu"]), ("small-cnn", false, &["cuda:1"])]),
            "device \"cuda:1\" cannot be used here; usable are cpu"
        );
        assert_eq!(
            message(&[("idle", true, &["cuda:0"])]),
            "no case of the suite can run here: it asks for cuda:0, and usable are cpu"
        );
        let both = ["cpu".to_owned(), "cuda:0".to_owned()];
        assert_eq!(choose(&mut wish(&[("idle", true, &["cpu", "cuda:0"])]), &both).unwrap(), None);
    }
}
