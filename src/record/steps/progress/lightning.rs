//! Progress bars as PyTorch Lightning draws them with tqdm: `Epoch 0:  40%|…| 12/30 [00:01<00:02, 7.90it/s, v_num=0]`,
//! and beside it one for each validation.

use std::sync::LazyLock;

use regex::Regex;

use super::bar::Bar;
use super::{Format, Shown, tqdm};
use crate::trace::StepSource;

#[derive(Debug)]
pub(super) struct Lightning;

impl Format for Lightning {
    fn may_be_in(&self, output: &[u8]) -> bool {
        Bar::may_be_in(output)
    }

    fn read(&self, line: &str) -> Option<Shown> {
        #[allow(clippy::expect_used, reason = "a constant, compiled by a test")]
        static OWN: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"^(?:Epoch \d+|Sanity Checking|Validation sanity check|(?:[A-Z][a-z]+ )+DataLoader \d+)$")
                .expect("a constant")
        });
        let bar = Bar::read(line)?;
        OWN.is_match(bar.description).then(|| tqdm::shown(StepSource::Lightning, &bar))
    }
}
