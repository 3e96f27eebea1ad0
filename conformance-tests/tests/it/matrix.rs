//! Tests of the table that shows what each store supports.

use conformance_tests::{Contract, StoreSupport, comparison_table};
use store_core::{Capabilities, Processes, Survives};

#[test]
fn the_matrix_has_a_column_for_each_store() {
    let mut small_store = StoreSupport {
        capabilities: Capabilities::new(Survives::Nothing, 1 << 20),
        contracts: Vec::new(),
        layers: Vec::new(),
        live: false,
    };
    let layers = vec!["registry"];
    let mut large_store = StoreSupport { contracts: Contract::ALL.to_vec(), layers, live: true, ..small_store.clone() };
    small_store.capabilities.processes = Processes::Many;
    large_store.capabilities.max_record_bytes = 5 << 10;
    let table = comparison_table(&[("a", small_store), ("b", large_store)]);
    assert!(table.starts_with("| | `a` | `b` |\n|---|---|---|\n"), "{table}");
    assert!(table.contains("| processes that can write at once | any number | one |\n"), "{table}");
    assert!(table.contains("| `MailboxStore` | no | yes |\n"), "{table}");
    assert!(table.contains("| registry | no | yes |\n| replay log | no | no |\n"), "{table}");
    assert!(table.contains("| largest record | 1 MiB | 5 KiB |\n"), "{table}");
}
