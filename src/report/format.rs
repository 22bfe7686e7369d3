//! Numbers to text. The same in both languages: units are symbols, thousands have commas, what is absent is a dash.

use crate::aggregate::metric::Unit;

/// What stands where nothing was measured. Never a zero.
pub(crate) const ABSENT: &str = "–";

const NANOS: i64 = 1_000_000_000;

/// A unit with its prefix and a number of decimals: one typical value chooses it for a whole table row or chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// What a value is multiplied with before it is shown.
    pub(crate) factor: f64,
    pub(crate) decimals: usize,
    /// With the space that the unit wants before it.
    pub(crate) suffix: &'static str,
}

impl Scale {
    /// The scale in which `typical` reads best: about four digits.
    pub(crate) fn of(unit: Unit, typical: f64) -> Self {
        let size = typical.abs();
        let (factor, suffix) = match unit {
            Unit::Second => prefix(size, &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs")]),
            Unit::Bytes => prefix(size, &[(TIB, " TiB"), (GIB, " GiB"), (MIB, " MiB"), (KIB, " KiB"), (1.0, " B")]),
            // By the minute: what grows by less than that is no matter, and what grows by the second ends a run.
            Unit::BytesPerSecond => {
                let by_minute =
                    [(TIB, " TiB/min"), (GIB, " GiB/min"), (MIB, " MiB/min"), (KIB, " KiB/min"), (1.0, " B/min")];
                let (factor, suffix) = prefix(size * MINUTE, &by_minute);
                (factor * MINUTE, suffix)
            }
            Unit::Joule => prefix(size, &[(1e6, " MJ"), (1e3, " kJ"), (1.0, " J")]),
            Unit::Watt => prefix(size, &[(1e3, " kW"), (1.0, " W")]),
            Unit::Ratio => (100.0, "%"),
            Unit::SamplesPerSecond | Unit::StepsPerSecond => (1.0, "/s"),
            Unit::Celsius => (1.0, " °C"),
            Unit::Count => (1.0, ""),
        };
        let shown = size * factor;
        let whole = size.fract() == 0.0;
        let decimals = match unit {
            Unit::Ratio => 1,
            Unit::Celsius => 0,
            Unit::Count if whole => 0,
            Unit::Count => 1,
            Unit::Bytes if suffix == " B" => 0,
            _ => decimals_of(shown),
        };
        Self { factor, decimals, suffix }
    }

    /// The bare number.
    pub(crate) fn number(&self, value: f64) -> String {
        let shown = value * self.factor;
        if !shown.is_finite() {
            return ABSENT.to_owned();
        }
        let least = 10_f64.powi(-i32::try_from(self.decimals).unwrap_or(0));
        // A trace of something must not read as nothing.
        if shown != 0.0 && shown.abs() < least / 2.0 {
            return format!("{}<{least:.*}", if shown < 0.0 { "−" } else { "" }, self.decimals);
        }
        let text = thousands(&format!("{:.*}", self.decimals, shown.abs()));
        if shown < 0.0 { format!("−{text}") } else { text }
    }

    /// The number with its unit.
    pub(crate) fn text(&self, value: f64) -> String {
        format!("{}{}", self.number(value), self.suffix)
    }

    /// Least to greatest.
    pub(crate) fn range(&self, min: f64, max: f64) -> String {
        let (low, high) = (self.number(min), self.number(max));
        if low == high { format!("{low}{}", self.suffix) } else { format!("{low}–{high}{}", self.suffix) }
    }

    /// An interval, whose lower end may be negative.
    pub(crate) fn interval(&self, (low, high): (f64, f64)) -> String {
        format!("[{}, {}]{}", self.number(low), self.number(high), self.suffix)
    }
}

/// Seconds.
const MINUTE: f64 = 60.0;
const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = KIB * MIB;
const TIB: f64 = KIB * GIB;

/// The largest prefix that `size` reaches; zero takes the plain unit.
fn prefix(size: f64, prefixes: &[(f64, &'static str)]) -> (f64, &'static str) {
    let plain = prefixes.iter().find(|(worth, _)| *worth == 1.0);
    let fitting = prefixes.iter().find(|(worth, _)| size >= *worth).or(prefixes.last());
    let (worth, suffix) = *if size == 0.0 { plain } else { fitting }.unwrap_or(&(1.0, ""));
    (1.0 / worth, suffix)
}

fn decimals_of(shown: f64) -> usize {
    match shown {
        _ if shown == 0.0 || shown >= 1000.0 => 0,
        _ if shown >= 100.0 => 1,
        _ if shown >= 1.0 => 2,
        _ => 3,
    }
}

/// A single value with the unit that suits it.
pub(crate) fn value(unit: Unit, value: f64) -> String {
    Scale::of(unit, value).text(value)
}

/// At most two decimals, and none where they say nothing.
pub(crate) fn plain(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// How many times as great: three digits.
pub(crate) fn times(ratio: f64) -> String {
    let decimals = match ratio.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    Scale { factor: 1.0, decimals, suffix: "" }.number(ratio)
}

/// A number of bytes.
pub(crate) fn bytes(bytes: i64) -> String {
    value(Unit::Bytes, bytes as f64)
}

/// Power, given in milliwatts.
pub(crate) fn milliwatts(power_mw: f64) -> String {
    format!("{} W", plain(power_mw / 1e3))
}

/// A whole number.
pub(crate) fn count(count: u64) -> String {
    thousands(&count.to_string())
}

/// A span of nanoseconds.
pub(crate) fn nanos(span_ns: i64) -> String {
    value(Unit::Second, span_ns as f64 / NANOS as f64)
}

/// A moment as UTC, to the second.
pub(crate) fn utc(unix_ns: i64) -> String {
    let seconds = unix_ns.div_euclid(NANOS);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Year, month and day of the Gregorian calendar, for days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day comes last; 400 years are always 146 097 days.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Commas between groups of three digits.
fn thousands(digits: &str) -> String {
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    fraction.map_or(text.clone(), |fraction| format!("{text}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_value_chooses_its_unit_and_decimals() {
        for (unit, number, text) in [
            (Unit::Second, 48.617, "48.62 s"),
            (Unit::Second, 287.44, "287.4 s"),
            (Unit::Second, 12_345.6, "12,346 s"),
            (Unit::Second, 0.0421, "42.10 ms"),
            (Unit::Second, 4e-7, "0.400 µs"),
            (Unit::Second, 0.0, "0 s"),
            (Unit::Bytes, 0.0, "0 B"),
            (Unit::Bytes, 1023.0, "1,023 B"),
            (Unit::Bytes, 1536.0, "1.50 KiB"),
            (Unit::Bytes, 1.5 * 1024.0 * 1024.0 * 1024.0, "1.50 GiB"),
            (Unit::BytesPerSecond, 1024.0 * 1024.0, "60.00 MiB/min"),
            (Unit::BytesPerSecond, -20.0, "−1.17 KiB/min"),
            (Unit::Ratio, 0.9134, "91.3%"),
            (Unit::Ratio, 0.0, "0.0%"),
            (Unit::Ratio, 0.0001, "<0.1%"),
            (Unit::Ratio, 1.5, "150.0%"),
            (Unit::SamplesPerSecond, 1_234.5, "1,234/s"),
            (Unit::Count, 8.0, "8"),
            (Unit::Count, 6.333, "6.3"),
            (Unit::Joule, 2_500.0, "2.50 kJ"),
            (Unit::Celsius, 71.4, "71 °C"),
        ] {
            assert_eq!(value(unit, number), text);
        }
    }

    #[test]
    fn one_typical_value_chooses_the_unit_for_all() {
        let scale = Scale::of(Unit::Bytes, 2.0 * GIB);
        assert_eq!(scale.range(0.5 * GIB, 2.25 * GIB), "0.50–2.25 GiB");
        assert_eq!(scale.range(2.0 * GIB, 2.0 * GIB), "2.00 GiB");
        assert_eq!(scale.interval((-0.1 * GIB, 2.0 * GIB)), "[−0.10, 2.00] GiB");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!(value(Unit::Count, f64::NAN), ABSENT);
        assert_eq!(Scale::of(Unit::Count, 1.0).number(f64::INFINITY), ABSENT);
    }

    #[test]
    fn ratios_have_three_digits() {
        let texts = [0.98, 5.9029, 9.999, 12.34, 105.2, 1234.0].map(times);
        assert_eq!(texts, ["0.98", "5.90", "10.0", "12.3", "105", "1,234"]);
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_827_696_000_000_000), "2000-02-29 12:34:56");
        assert_eq!(utc(-1), "1969-12-31 23:59:59");
    }

    #[test]
    fn decimals_that_say_nothing_are_left_out() {
        assert_eq!([plain(8.0), plain(1.5), plain(0.25)], ["8", "1.5", "0.25"]);
    }
}
