//! Dates for directory names.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now in UTC, as `20261115T204805`.
pub(super) fn stamp() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format(seconds)
}

fn format(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the day a leap year adds is the last of its year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn days_fall_where_the_calendar_has_them() {
        assert_eq!(super::format(0), "19700101T000000");
        assert_eq!(super::format(951_782_399), "20000228T235959");
        assert_eq!(super::format(951_782_400), "20000229T000000");
        assert_eq!(super::format(1_794_775_685), "20261115T204805");
    }
}
