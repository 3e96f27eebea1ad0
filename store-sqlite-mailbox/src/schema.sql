CREATE TABLE meta (
    one              INTEGER PRIMARY KEY CHECK (one = 1),
    cursors          BLOB NOT NULL,
    last_incarnation INTEGER NOT NULL,
    syncs            INTEGER NOT NULL
) STRICT;

-- A tenant without a name is being removed. The other rows of a tenant contain its number, which is never used again.
CREATE TABLE tenants (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT UNIQUE,
    incarnation INTEGER NOT NULL
) STRICT;

-- One row for each thread, with its positions in the lists of ready threads, of due dispatches and of leases.
CREATE TABLE mailboxes (
    no       INTEGER PRIMARY KEY,
    tenant   INTEGER NOT NULL,
    thread   TEXT NOT NULL,
    record   TEXT NOT NULL,
    crc      INTEGER NOT NULL,
    priority INTEGER,
    since    INTEGER,
    due      INTEGER,
    lease    INTEGER
) STRICT;
CREATE UNIQUE INDEX mailbox_of_thread ON mailboxes (tenant, thread);
CREATE INDEX ready ON mailboxes (tenant, priority, since, thread) WHERE priority IS NOT NULL;
CREATE INDEX due ON mailboxes (tenant, due, thread) WHERE due IS NOT NULL;
CREATE INDEX leases ON mailboxes (tenant, lease, thread) WHERE lease IS NOT NULL;

-- The body never changes. The state is NULL until the dispatch first changes. `available` is set while the row has the
-- status queued: 0 if the dispatch is not due yet, 1 if it is. `key` is set until the row gets a final status, or
-- another dispatch uses the key. An interrupt supersedes dispatches without changing their rows: see `interrupts`.
CREATE TABLE dispatches (
    tenant    INTEGER NOT NULL,
    id        TEXT NOT NULL,
    mailbox   INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    status    INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    available INTEGER,
    priority  INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    due       INTEGER,
    ended     INTEGER,
    key       TEXT,
    payload   INTEGER,
    body      TEXT NOT NULL,
    body_crc  INTEGER NOT NULL,
    state     TEXT,
    state_crc INTEGER,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX by_status ON dispatches (tenant, status, created, id);
CREATE INDEX by_thread ON dispatches (mailbox, created, id);
CREATE INDEX by_end ON dispatches (tenant, ended, id) WHERE ended IS NOT NULL;
CREATE INDEX queue ON dispatches (mailbox, epoch, available, priority, number) WHERE available IS NOT NULL;
CREATE INDEX queue_due ON dispatches (mailbox, epoch, available, due) WHERE available IS NOT NULL;
CREATE INDEX queue_id ON dispatches (mailbox, epoch, id) WHERE available IS NOT NULL;
CREATE UNIQUE INDEX live_keys ON dispatches (mailbox, key) WHERE key IS NOT NULL;

CREATE TABLE payloads (
    no      INTEGER PRIMARY KEY,
    payload TEXT NOT NULL,
    crc     INTEGER NOT NULL
) STRICT;

-- An interrupt supersedes the dispatches whose rows are queued under the epoch before its own. `lot` is that epoch. It
-- is NULL if there are no such dispatches.
CREATE TABLE interrupts (
    mailbox INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    tenant  INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    lot     INTEGER,
    record  TEXT NOT NULL,
    crc     INTEGER NOT NULL,
    PRIMARY KEY (mailbox, epoch)
) STRICT, WITHOUT ROWID;
CREATE INDEX lots ON interrupts (tenant, at, mailbox, lot) WHERE lot IS NOT NULL;
