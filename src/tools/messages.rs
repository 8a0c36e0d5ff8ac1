//! The JSON form of messages, the same for every reader: tools, and the person's commands.

use super::text::Json;
use crate::engine::{Delivery, Timestamp};

/// Room that a message takes beside its body, in bytes: its names, id and time, with the quotes escaped.
const FRAME_BYTES: usize = 320;

/// Writes deliveries as the JSON array of the source design, each `{"id", "from", "to", "kind", "body", "ts"}` and
/// `"redelivered": true` on one that may have been seen before.
pub fn write(deliveries: &[Delivery], json: &mut Json<'_>) {
    // An eighth more for what has to be escaped in it.
    let room = |body: &str| body.len() + body.len() / 8 + FRAME_BYTES;
    json.reserve(
        deliveries
            .iter()
            .map(|delivery| room(&delivery.message.body))
            .sum(),
    );
    json.array(deliveries, |json, delivery| {
        let message = &delivery.message;
        let mut id = uuid::Uuid::encode_buffer();
        json.object(|object| {
            object
                .member("id")
                .string(message.id.0.hyphenated().encode_lower(&mut id));
            object.member("from").string(message.from.as_str());
            object.member("to").string(message.to.as_str());
            object.member("kind").string(message.kind.as_str());
            object.member("body").string(&message.body);
            write_time(message.ts, object.member("ts"));
            if delivery.redelivered {
                object.member("redelivered").boolean(true);
            }
        });
    });
}

/// Writes a time as RFC 3339 has it, in UTC with milliseconds.
pub fn write_time(at: Timestamp, json: &mut Json<'_>) {
    match rfc3339(at) {
        Some(text) => json.string(std::str::from_utf8(&text).expect("digits are ASCII")),
        // Not of the four-digit years that RFC 3339 knows.
        None => json.string(&at.to_string()),
    }
}

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Formats a time as `2026-05-02T14:30:00.000Z`; none if its year is not one of 0 to 9999.
///
/// The calendar repeats every 400 years of 146,097 days. Years are counted from March, so that the day that is left out
/// of most of them is the last. <https://howardhinnant.github.io/date_algorithms.html#civil_from_days>
fn rfc3339(at: Timestamp) -> Option<[u8; 24]> {
    // From the 1st of March of the year 0 to the 1st of January of 1970.
    let day = at.as_millis().div_euclid(DAY_MS) + 719_468;
    let ms_of_day = at.as_millis().rem_euclid(DAY_MS);
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

/// Puts a number into its digits.
fn put(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(number % 10).expect("the number is not negative");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, SecondsFormat, Utc};

    use super::*;

    fn written(ms: i64) -> String {
        let mut json = Vec::new();
        write_time(Timestamp::from_millis(ms), &mut Json::document(&mut json));
        serde_json::from_slice(&json).expect("JSON")
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
    fn any_time_is_written_as_chrono_writes_it() {
        let year_10_000 = 253_402_300_800_000;
        let year_0 = -62_167_219_200_000;
        let edges = [year_0, year_10_000].map(|edge| [edge - 1, edge, edge + 1]);
        let mut random = fastrand::Rng::with_seed(1);
        let random = std::iter::repeat_with(|| random.i64(..) >> random.u32(10..40)).take(50_000);
        for ms in edges.into_iter().flatten().chain(random) {
            if let Some(expected) = as_chrono_has_it(ms) {
                assert_eq!(written(ms), expected, "{ms}");
            }
        }
        assert_eq!(written(i64::MAX), format!("{} ms since 1970", i64::MAX));
    }
}
