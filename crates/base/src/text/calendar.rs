//! Days and their dates, in the calendar that is used today for all times.

/// Days from 1970-01-01 to 2000-01-01.
pub(super) const EPOCH_2000: i64 = 10_957;

/// Civil date of a day number (days since 2000-01-01): year, month, day.
pub fn civil(day: i32) -> (i64, u32, u32) {
    // Counting years from March puts the leap day last.
    let days = i64::from(day) + EPOCH_2000 + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Day number (days since 2000-01-01) of a civil date, or `None` if there is no such day.
pub fn day_number(year: i64, month: u32, day: u32) -> Option<i32> {
    if !(1..=12).contains(&month) || day < 1 || day > month_length(year, month) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    i32::try_from(days - EPOCH_2000).ok()
}

fn month_length(year: i64, month: u32) -> u32 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
