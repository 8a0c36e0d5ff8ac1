//! Moments, and how they are written.

use std::fmt;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A moment, in milliseconds since the Unix epoch, UTC. Handed in with every input; never read from a clock here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp(i64);

impl Timestamp {
    /// Makes the timestamp of `ms` milliseconds since the Unix epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the moment `ms` milliseconds later, at the latest the end of time.
    #[must_use]
    pub const fn plus_millis(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns how many milliseconds later it is than another moment.
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Writes it as `2026-05-02T14:30:00.000Z`; none if its year is not one of 0 to 9999.
    ///
    /// The calendar repeats every 400 years of 146,097 days. Years are counted from March, so that the day that is left out
    /// of most of them is the last. <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>
    pub fn rfc3339(self) -> Option<[u8; 24]> {
        // From the 1st of March of the year 0 to the 1st of January of 1970.
        let day = self.as_millis().div_euclid(DAY_MS) + 719_468;
        let ms_of_day = self.as_millis().rem_euclid(DAY_MS);
        let cycle = day.div_euclid(146_097);
        let day_of_cycle = day.rem_euclid(146_097);
        let leap_days = day_of_cycle / 1_460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
        let year_of_cycle = (day_of_cycle - leap_days) / 365;
        let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let (month, next_year) = match month_from_march {
            0..=9 => (month_from_march + 3, 0),
            _ => (month_from_march - 9, 1),
        };
        let year = cycle * 400 + year_of_cycle + next_year;
        if !(0..=9_999).contains(&year) {
            return None;
        }
        let mut text = *b"0000-00-00T00:00:00.000Z";
        put(&mut text[..4], year);
        put(&mut text[5..7], month);
        put(&mut text[8..10], day_of_month);
        put(&mut text[11..13], ms_of_day / 3_600_000);
        put(&mut text[14..16], ms_of_day / 60_000 % 60);
        put(&mut text[17..19], ms_of_day / 1_000 % 60);
        put(&mut text[20..23], ms_of_day % 1_000);
        Some(text)
    }
}

/// Writes RFC 3339 in UTC with milliseconds, `2026-05-02T14:30:00.000Z`; where it has no year, the milliseconds since 1970.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rfc3339() {
            Some(text) => f.write_str(std::str::from_utf8(&text).expect("digits are ASCII")),
            None => write!(f, "{} ms since 1970", self.0),
        }
    }
}

/// Puts a number into its digits.
fn put(digits: &mut [u8], number: i64) {
    let mut number = u32::try_from(number).expect("the number is not negative");
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, SecondsFormat, Utc};

    use super::*;

    fn written(ms: i64) -> String {
        Timestamp::from_millis(ms).to_string()
    }

    fn as_chrono_has_it(ms: i64) -> Option<String> {
        let time = DateTime::<Utc>::from_timestamp_millis(ms)?;
        Some(time.to_rfc3339_opts(SecondsFormat::Millis, true))
    }

    #[test]
    fn every_day_of_a_calendar_cycle_is_written_as_chrono_writes_it() {
        // With a time that differs from day to day.
        for day in -73_050_i64..73_050 {
            let ms = day * DAY_MS + day.rem_euclid(86_399) * 1_000 + day.rem_euclid(1_000);
            assert_eq!(Some(written(ms)), as_chrono_has_it(ms), "{ms}");
        }
    }

    #[test]
    fn any_time_of_a_year_of_four_digits_is_written_as_chrono_writes_it() {
        let years = -62_167_219_200_000..253_402_300_800_000;
        let edges = [years.start, years.end].map(|edge| [edge - 1, edge, edge + 1]);
        let mut random = fastrand::Rng::with_seed(1);
        let random = std::iter::repeat_with(|| random.i64(..) >> random.u32(10..40)).take(50_000);
        for ms in edges.into_iter().flatten().chain(random).chain([i64::MAX]) {
            let expected = match years.contains(&ms) {
                true => as_chrono_has_it(ms),
                false => Some(format!("{ms} ms since 1970")),
            };
            assert_eq!(Some(written(ms)), expected, "{ms}");
        }
    }
}
