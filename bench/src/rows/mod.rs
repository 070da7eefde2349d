//! The rows of the table of goals. A new row is a new file, and a line here.

mod control;
mod p01_languages;
mod p01_lock;
mod p02_command;
mod p03_shared_document;
mod p04_durable_document;
mod p05_append;
mod p06_hand_off;
mod p07_reader;
mod p08_growth;
mod p09_whole_journal;
mod p10_waiting;
mod p11_import;

use crate::row::Row;

/// Every row, in order.
pub(crate) const ALL: &[Row] = &[
    p01_lock::ROW,
    p02_command::ROW,
    p03_shared_document::ROW,
    p04_durable_document::ROW,
    p05_append::ROW,
    p06_hand_off::ROW,
    p07_reader::ROW,
    p08_growth::ROW,
    p09_whole_journal::ROW,
    p10_waiting::ROW,
    p11_import::ROW,
];

/// The row of this name, in capitals or not.
pub(crate) fn named(name: &str) -> Option<&'static Row> {
    let mut known = ALL.iter().chain(std::iter::once(&control::ROW));
    known.find(|row| row.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::ALL;
    use crate::row::Form;

    #[test]
    fn a_child_can_find_its_part_by_names() {
        for form in [Form::Quick, Form::Full] {
            let mut names = HashSet::new();
            for row in ALL {
                for race in (row.races)(form) {
                    for one in race.contenders {
                        assert!(
                            names.insert((row.name, race.name, one.name.clone())),
                            "{}",
                            one.name
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_contender_states_its_settings() {
        for row in ALL {
            for one in (row.races)(Form::Quick).into_iter().flat_map(|race| race.contenders) {
                assert!(!one.settings.is_empty(), "{}: {}", row.name, one.name);
            }
        }
    }
}
