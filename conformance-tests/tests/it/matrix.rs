//! Tests of the table that shows what each store supports.

use conformance_tests::{Contract, StoreSupport, matrix};
use store_core::{Capabilities, Processes, Survives};

#[test]
fn the_matrix_has_a_column_for_each_store() {
    let mut less = StoreSupport {
        capabilities: Capabilities::new(Survives::Nothing, 1 << 20),
        contracts: Vec::new(),
        live: false,
    };
    let mut more = StoreSupport { contracts: Contract::ALL.to_vec(), live: true, ..less.clone() };
    less.capabilities.processes = Processes::Many;
    more.capabilities.max_record_bytes = 5 << 10;
    let table = matrix(&[("a", less), ("b", more)]);
    assert!(table.starts_with("| | `a` | `b` |\n|---|---|---|\n"), "{table}");
    assert!(table.contains("| processes that can write at once | any number | one |\n"), "{table}");
    assert!(table.contains("| `MailboxStore` | no | yes |\n"), "{table}");
    assert!(table.contains("| largest record | 1 MiB | 5 KiB |\n"), "{table}");
}
