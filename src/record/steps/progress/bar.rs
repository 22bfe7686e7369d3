//! One drawing of a progress bar in tqdm's layout: `Training:  40%|████      | 12/30 [00:01<00:02, 7.90it/s, loss=2.3]`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::words;

/// What a bar shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar<'a> {
    /// What stands before it, without the colon.
    pub(super) description: &'a str,
    pub(super) count: i64,
    /// Absent where the bar does not know.
    pub(super) total: Option<i64>,
    /// What is counted: `it`, `batch`, `img`, …
    pub(super) unit: &'a str,
    /// Units a second, as the bar says; absent while it does not know.
    pub(super) rate: Option<f64>,
    /// What follows after the rate.
    pub(super) postfix: &'a str,
}

/// `[elapsed<left, rate, postfix]` of a bar that knows its total, `[elapsed, rate, postfix]` of one that does not.
const LAYOUT: &str = r"(?x)
    ^\s* (?: (?<description>.*?) :?\s+ )??
    (?: \d+% (?: \| [^|]* \| )? \s* (?<count>[\d.]+[kMGT]?) / (?<total>[\d.]+[kMGT]?)
      | (?<bare>[\d.]+[kMGT]?) \s? (?<bare_unit>[A-Za-z]+) )
    \s \[ [\d:?]+ (?: < [^,\]]* )? , \s*
    (?: (?<seconds>[\d.]+) s/ (?<per>[^,\]]+) | (?<rate>[\d.]+[kMGT]?|\?) \s? (?<unit>[^,\]]+?) /s )
    (?<postfix> (?: ,[^\]]* )? ) \]?";

impl<'a> Bar<'a> {
    /// Whether a stretch of output may hold a bar: a bracket with a time in it.
    pub(super) fn may_be_in(output: &[u8]) -> bool {
        memchr::memchr_iter(b'[', output).any(|at| {
            let time = &output[at + 1..output.len().min(at + 4)];
            time.first().is_some_and(u8::is_ascii_digit) && time.contains(&b':')
        })
    }

    /// Reads a line.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        #[allow(clippy::expect_used, reason = "a constant, compiled by a test")]
        static BAR: LazyLock<Regex> = LazyLock::new(|| Regex::new(LAYOUT).expect("a constant"));
        let found = BAR.captures(line)?;
        let text = |name: &str| found.name(name).map(|text| text.as_str());
        let count = words::scaled(text("count").or_else(|| text("bare"))?)?;
        Some(Self {
            description: text("description").unwrap_or_default(),
            count: count.round() as i64,
            total: text("total").and_then(words::scaled).map(|total| total.round() as i64),
            unit: text("per").or_else(|| text("unit")).or_else(|| text("bare_unit")).unwrap_or_default().trim(),
            rate: rate(&found),
            postfix: text("postfix").unwrap_or_default(),
        })
    }
}

fn rate(found: &Captures<'_>) -> Option<f64> {
    match found.name("seconds") {
        Some(seconds) => seconds.as_str().parse::<f64>().ok().filter(|seconds| *seconds > 0.0).map(f64::recip),
        None => words::scaled(found.name("rate")?.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_all_layouts_are_read() {
        // Description, count, total, unit, rate, postfix: what tqdm was told to draw.
        for (line, right) in [
            (" 40%|████      | 12/30 [00:01<00:02,  7.90it/s]", ("", 12, Some(30), "it", Some(7.9), "")),
            ("  0%|          | 0/30 [00:00<?, ?it/s]", ("", 0, Some(30), "it", None, "")),
            (
                "Training: 22%|██▏       | 4/18 [00:17<01:02,  4.00s/it, loss=9.9]",
                ("Training", 4, Some(18), "it", Some(0.25), ", loss=9.9"),
            ),
            (
                "a: b [x]: 5%|▌| 891/17824 [0:30:00<10:00:00,  2.00s/it]",
                ("a: b [x]", 891, Some(17824), "it", Some(0.5), ""),
            ),
            (
                "Epoch 80:  67% 10/15 [02:53<01:18, 4.0it/s, v_num=l1_0]",
                ("Epoch 80", 10, Some(15), "it", Some(4.0), ", v_num=l1_0"),
            ),
            (
                " 12%|#2        | 1.20k/10.0k [00:01<00:09, 1.50kimg/s]",
                ("", 1200, Some(10_000), "img", Some(1500.0), ""),
            ),
            ("5it [00:02, 2.50it/s]", ("", 5, None, "it", Some(2.5), "")),
            ("Validating: 0it [00:00, ?it/s]", ("Validating", 0, None, "it", None, "")),
            ("loading: 12 files [00:02, 6.00 files/s]", ("loading", 12, None, "files", Some(6.0), "")),
            (
                " 50%|█████     | 2.00M/4.00M [00:01<00:01, 2.00MB/s]",
                ("", 2_000_000, Some(4_000_000), "B", Some(2e6), ""),
            ),
        ] {
            assert!(Bar::may_be_in(line.as_bytes()), "{line}");
            let bar = Bar::read(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((bar.description, bar.count, bar.total, bar.unit, bar.rate, bar.postfix), right, "{line}");
        }
    }

    #[test]
    fn what_only_looks_like_a_bar_is_none() {
        for line in ["[12:30:01] INFO 3/4 done", "100%", "12/30", "a [1:2] b", "[00:01<00:02, 7it/s]", "1/2 [x, y]", ""]
        {
            assert_eq!(Bar::read(line), None, "{line}");
        }
    }
}
