//! Each case is registered once, with the ids of lines of the contract.

use std::collections::BTreeSet;

use conformance_tests::{Contract, PROMISES_WITHOUT_CASE, cases, cases_of, promises_by_case};

#[test]
fn case_names_are_unique_within_each_list() {
    for contract in Contract::ALL {
        let names: Vec<_> = cases_of(*contract).map(|case| case.name).collect();
        let unique_names: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique_names.len(), names.len(), "{contract:?}");
    }
}

#[test]
fn every_case_has_well_formed_promise_ids() {
    for case in cases() {
        assert!(!case.ids.is_empty(), "{}", case.name);
        for id in case.ids {
            let (area, number) = id.split_once('-').unwrap();
            assert!(area.len() == 2 && number.parse::<u32>().is_ok(), "{}: {id}", case.name);
        }
    }
    assert_eq!(promises_by_case().lines().count(), cases().len());
}

#[test]
fn promises_listed_without_a_case_are_tested_by_no_case() {
    for line in PROMISES_WITHOUT_CASE {
        let case = cases().into_iter().find(|case| case.ids.contains(&line.id));
        assert!(case.is_none(), "{} is in the list PROMISES_WITHOUT_CASE, but the case {case:?} tests it", line.id);
    }
}
