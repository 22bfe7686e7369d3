//! What reading steps from the output means for the command and for the record.

use std::collections::BTreeMap;

use crate::record::mask::Mask;
use crate::trace::run::StepReading;

/// Makes Python hand on at once what it prints: else progress would come in pieces of 8 KiB.
const UNBUFFERED: &str = "PYTHONUNBUFFERED";

/// Variables that are set for the command. What the user has set stays as it is.
pub fn variables(reading: &StepReading) -> BTreeMap<String, String> {
    let wanted = *reading != StepReading::Off && std::env::var_os(UNBUFFERED).is_none();
    wanted.then(|| (UNBUFFERED.to_owned(), "1".to_owned())).into_iter().collect()
}

/// For the record: a pattern may hold what is not to be published.
pub fn masked(reading: &StepReading, mask: &Mask) -> StepReading {
    match reading {
        StepReading::Pattern { pattern } => StepReading::Pattern { pattern: mask.text(pattern) },
        other => other.clone(),
    }
}
